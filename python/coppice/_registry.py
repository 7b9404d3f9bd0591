"""Where the files of a version are and whether they are what was registered:
internal/registry/FORMAT.md is the counterpart."""

from __future__ import annotations

import datetime
import hashlib
import os
import re
import stat
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.fs as pafs

from ._shared import LAYOUT, Shared
from ._strict import Reader, parse_json
from .errors import CorruptError, Error, FormatError, NotFoundError, StorageError

CHAMPION = "champion"
MAX_RECORD = 1 << 20
MAX_FILE = 1 << 30
_MAX_JSON = 64 << 20  # reading it takes several times its size
_MAX_NUMBER = 1_000_000_000
_LAYOUT = 2  # of a local cloud's folder, as localemu/gcsemu has it
_MAX_FILES, _MAX_FACTS, _MAX_TEXT = 64, 1000, 4096

_NAME = re.compile(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?\Z")
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")
_RECORDS = ("claim.json", "version.json", "deleted.json")
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")
_TIME = re.compile(
    r"(\d{4}-\d\d-\d\dT([01]\d|2[0-3]):[0-5]\d:[0-5]\d)(?:\.(\d+))?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)\Z", re.ASCII
)
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_VERSION_FOLDER = re.compile(r"(?:^|/)registry/([^/]+)/versions/([1-9][0-9]*)\Z")
_VERSION_OBJECT = re.compile(r"/versions/([1-9][0-9]{0,9})/version\.json\Z")


class Store(Protocol):
    """Objects below a place, named with slashes."""

    def read(self, name: str, limit: int) -> pa.Buffer:
        """The bytes of an object of at most limit bytes; NotFoundError where there is none."""

    def list(self, prefix: str) -> list[str]:
        """The names of all objects under a folder."""

    def has(self, name: str) -> bool:
        """Whether there is an object; its bytes are not read."""

    def describe(self, name: str) -> str:
        """The name for people."""


class Folder:
    """A folder of this machine; its files are mapped, not copied."""

    def __init__(self, path: str) -> None:
        self.path = self.tree = Path(path)

    def read(self, name: str, limit: int) -> pa.Buffer:
        """See Store."""
        path = self.path / name
        try:
            info = path.stat()
            size = info.st_size
            if not stat.S_ISREG(info.st_mode):  # a pipe waits for its writer, and a device may have no end
                raise CorruptError(f"{path}: not a file")
            if size > limit:
                raise CorruptError(f"{path}: {size} bytes, more than {limit}")
            if size == 0:
                return pa.py_buffer(path.read_bytes())
            with pa.memory_map(str(path)) as mapped:
                return mapped.read_buffer()
        except (FileNotFoundError, NotADirectoryError) as e:
            raise NotFoundError(f"{path}: no such file") from e
        except OSError as e:
            raise StorageError(f"{path}: {e}") from e

    def list(self, prefix: str) -> list[str]:
        """See Store."""
        top = self.path / prefix
        return [p.relative_to(self.path).as_posix() for p in top.rglob("*") if p.is_file()]

    def has(self, name: str) -> bool:
        """See Store."""
        return (self.path / name).is_file()

    def describe(self, name: str) -> str:
        """See Store."""
        return str(self.path / name)


class Bucket:
    """A folder of a pyarrow file system, such as a bucket of Cloud Storage; its files are copied to memory."""

    def __init__(self, filesystem: pafs.FileSystem, base: str, shown: str) -> None:
        self._fs, self._base, self._shown = filesystem, base.rstrip("/"), shown.rstrip("/")

    def read(self, name: str, limit: int) -> pa.Buffer:
        """See Store."""
        try:
            here = self._fs.type_name in ("local", "subtree")
            if here and self._fs.get_file_info(f"{self._base}/{name}").type == pafs.FileType.Unknown:  # as in Folder
                raise CorruptError(f"{self.describe(name)}: not a file")
            with self._fs.open_input_file(f"{self._base}/{name}") as f:
                size = f.size()
                if size > limit:
                    raise CorruptError(f"{self.describe(name)}: {size} bytes, more than {limit}")
                return f.read_buffer(size)
        except FileNotFoundError as e:
            raise NotFoundError(f"{self.describe(name)}: no such object") from e
        except (OSError, pa.ArrowException) as e:
            raise StorageError(f"{self.describe(name)}: {e}") from e

    def list(self, prefix: str) -> list[str]:
        """See Store."""
        selector = pafs.FileSelector(f"{self._base}/{prefix}", allow_not_found=True, recursive=True)
        try:
            return [i.path[len(self._base) + 1 :] for i in self._fs.get_file_info(selector)]
        except (OSError, pa.ArrowException) as e:
            raise StorageError(f"{self.describe(prefix)}: {e}") from e

    def has(self, name: str) -> bool:
        """See Store."""
        try:
            return self._fs.get_file_info(f"{self._base}/{name}").type == pafs.FileType.File
        except (OSError, pa.ArrowException) as e:
            raise StorageError(f"{self.describe(name)}: {e}") from e

    def describe(self, name: str) -> str:
        """See Store."""
        return f"{self._shown}/{name}"


def open_store(where: str | os.PathLike[str], filesystem: pafs.FileSystem | None) -> Store:
    """The store at a path or URI; gs:// honours STORAGE_EMULATOR_HOST."""
    text = os.fspath(where)
    scheme, separator, rest = text.partition("://")
    if filesystem is not None:
        return Bucket(filesystem, rest if separator else text, text)
    if not separator:
        return Shared(text) if os.path.isdir(os.path.join(text, LAYOUT)) else Folder(text)
    if scheme != "gs" or not rest.strip("/"):
        raise Error(f"{text}: give a folder of this machine or gs://BUCKET[/PREFIX]; others with filesystem=")
    if not hasattr(pafs, "GcsFileSystem"):
        raise StorageError(
            f"{text}: this pyarrow was built without Cloud Storage; copy the version's folder here first"
        )
    emulator = os.environ.get("STORAGE_EMULATOR_HOST", "")
    try:
        patience = datetime.timedelta(minutes=1)  # a quarter of an hour otherwise
        if emulator:
            host = emulator.partition("://")[2] or emulator
            gcs = pafs.GcsFileSystem(
                anonymous=True, scheme="http", endpoint_override=host.rstrip("/"), retry_time_limit=patience
            )
        else:
            gcs = pafs.GcsFileSystem(retry_time_limit=patience)
    except (OSError, pa.ArrowException) as e:
        raise StorageError(f"{text}: {e}") from e
    return Bucket(gcs, rest, text)


def check_local(where: str) -> None:
    """FormatError where a local cloud's folder, or the registry in it, is of a format that another build reads."""
    name = os.path.basename(where.rstrip("/"))
    gcs = os.path.dirname(where.rstrip("/")) if name == "coppice-registry" else os.path.join(where, "gcs")
    if not os.path.isfile(os.path.join(gcs, ".format")):
        return
    record = Reader(parse_json(Folder(gcs).read(".format", MAX_RECORD).to_pybytes(), gcs, MAX_RECORD), gcs)
    format, build = record.integer("format", 1, _MAX_NUMBER), record.text("build", "")
    if format != _LAYOUT:
        raise FormatError(f"{gcs}: its format is {format} and this package reads {_LAYOUT}: use coppice {build}, which reads it")


def _most_bytes(name: str) -> int:
    """The most bytes that a file of a version may have."""
    return _MAX_JSON if name.endswith(".json") else MAX_FILE


@dataclass(frozen=True)
class File:
    """One file of a version, as version.json names it."""

    object: str
    bytes: int
    sha256: str


class Version:
    """A version's files.

    Attributes:
        model: name of the model; empty where no version.json says it.
        number: of the version; 0 where no version.json says it.
        record: the bytes of version.json; empty where there is none.
        files: what version.json lists, by name; None where there is none.
    """

    def __init__(self, store: Store, folder: str, verify: bool) -> None:
        """folder is where version.json lies in the store: empty, or with a slash at its end."""
        self._store, self._folder, self._verify = store, folder, verify
        self.model, self.number, self.record = "", 0, b""
        self.files: dict[str, File] | None = None
        place = store.describe(folder + "version.json")
        try:
            self.record = store.read(folder + "version.json", MAX_RECORD).to_pybytes()
        except NotFoundError as e:
            if verify:
                why = "so that there is no such version, or nothing to check its files by; verify=False loads them as they are"
                raise NotFoundError(f"{place} is missing, {why}") from e
            return
        self._take(open_record(self.record, place))

    def _take(self, record: Reader) -> None:
        self.model, self.number = record.text("model"), record.integer("version", 1, _MAX_NUMBER)
        if not is_name(self.model):
            record.fail(f"it describes version {self.number} of {self.model[:60]!r}")
        if not _KEY.match(record.text("key")):
            record.fail("key is not 1 to 128 of A-Z, a-z, 0-9, '.', '_' and '-'")
        _check_info(record.within("info") or Reader({}, record.place + ".info"))
        files = [Reader(f, f"{record.place}.files[{i}]") for i, f in enumerate(record.items("files", _MAX_FILES))]
        record.close(unknown=True)
        if not files:
            record.fail("no files")
        self.files = dict(map(self._file, files))
        names = list(self.files)
        if len(names) != len(files) or names != sorted(names):
            record.fail("a file is there twice or out of order")

    def _file(self, f: Reader) -> tuple[str, File]:
        name, own = f.text("name"), version_folder(self.model, self.number)
        lies, size, digest = f.text("object", limit=MAX_RECORD), f.integer("bytes", 0, _most_bytes(name), 0), f.text("sha256")
        f.close(unknown=True)
        if not _FILE.match(name) or name in _RECORDS or not _SHA256.match(digest):
            f.fail(f"file {name[:60]!r} with SHA-256 {digest[:80]!r}")
        if lies not in (own + name, f"{own}other/{digest[:16]}/{name}"):
            f.fail(f"file {name} lies at {lies[:200]!r}")
        return name, File(lies[len(own) :], size, digest)

    def has(self, name: str) -> bool:
        """Whether the version has a file."""
        if self.files is not None:
            return name in self.files
        return self._store.has(self._folder + name)

    def read(self, name: str) -> pa.Buffer:
        """The bytes of a file: CorruptError where they are not those that were registered."""
        if self.files is None:
            return self._store.read(self._folder + name, _most_bytes(name))
        if name not in self.files:
            raise CorruptError(
                f"{self._store.describe(self._folder)}: the version has no {name}; it has {', '.join(self.files)}"
            )
        want = self.files[name]
        shown = self._store.describe(self._folder + want.object)
        try:
            data = self._store.read(self._folder + want.object, _most_bytes(name))
        except NotFoundError as e:
            raise CorruptError(f"{shown} is missing, though the version has been registered with it") from e
        if self._verify:
            have = hashlib.sha256(data).hexdigest()
            if data.size != want.bytes or have != want.sha256:
                raise CorruptError(
                    f"{shown}: {data.size} bytes with SHA-256 {have}; registered were {want.bytes} with {want.sha256}"
                )
        return data


def open_record(data: bytes, place: str) -> Reader:
    """A JSON record of format 1, to be taken apart; place is what errors call it."""
    record = Reader(parse_json(data, place, MAX_RECORD), place)
    record.integer("format", 1, 1)
    return record


def _check_info(info: Reader) -> None:
    """What version.json says about a version beside its files."""
    at = info.text("at")
    if not _is_time(at):
        info.fail(f"at is {at[:40]!r}, no time in the years 1 to 9999 such as 2006-01-02T15:04:05Z")
    texts = [info.text("by", limit=_MAX_TEXT), info.text("why", "", limit=_MAX_TEXT)]
    metrics, labels = (info.within(key) or Reader({}, "") for key in ("metrics", "labels"))
    info.close(unknown=True)
    names = metrics.keys() + labels.keys()
    if len(names) > _MAX_FACTS:
        info.fail(f"more than {_MAX_FACTS} metrics and labels")
    for name in metrics.keys():
        metrics.number(name)
    texts += [labels.text(name, limit=_MAX_TEXT) for name in labels.keys()]
    if not all(t.strip() for t in [texts[0], *names]):
        info.fail("by, or the name of a metric or label, is empty")
    for t in texts + names:
        if len(t.encode()) > _MAX_TEXT or any(unicodedata.category(c) == "Cc" and c not in "\n\t" for c in t):
            info.fail(f"{t[:40]!r} has a control character or more than {_MAX_TEXT} bytes")


def _is_time(text: str) -> bool:
    """Whether it is a time that Go writes, and not Go's zero."""
    m = _TIME.match(text)
    if not m:
        return False
    try:
        at = datetime.datetime.fromisoformat(m[1] + m[4].replace("Z", "+00:00")).astimezone(datetime.timezone.utc)
    except (ValueError, OverflowError):
        return False
    zero = datetime.datetime(1, 1, 1, tzinfo=datetime.timezone.utc)
    return at != zero or (m[3] or "")[:9].strip("0") != ""


def is_name(name: Any) -> bool:
    """Whether it can be the name of a model or an alias."""
    return isinstance(name, str) and _NAME.match(name) is not None


def is_version_number(number: Any) -> bool:
    """Whether it can be the number of a version."""
    return type(number) is int and 1 <= number <= _MAX_NUMBER


def version_folder(model: str, number: int) -> str:
    """Where the files of a version lie in the registry's bucket."""
    return f"registry/{model}/versions/{number}/"


def find(store: Store, where: str, model: str | None, version: int | str | None, verify: bool) -> Version:
    """The version in the folder where, or the one that model and version name in the registry there."""
    if model is None:
        if version is not None:
            raise Error(
                f"version={version!r} without model=; give both with the place of the registry, or neither with a version's folder"
            )
        v = Version(store, "", verify)
        named = _VERSION_FOLDER.search(where.replace(os.sep, "/").rstrip("/"))
        if v.model and named and (named[1], int(named[2])) != (v.model, v.number):
            raise CorruptError(f"{where}: its version.json describes version {v.number} of {v.model!r}")
        if v.model and _is_deleted(store, "", v.model, v.number):
            raise NotFoundError(f"{where}: version {v.number} of {v.model} was deleted")
        return v

    if not is_name(model):
        raise Error(f"model={model!r}: 1 to 40 of a-z, 0-9 and '-', from a letter to a letter or digit")
    number = _resolve(store, model, version)
    if _is_deleted(store, version_folder(model, number), model, number):
        raise NotFoundError(f"{store.describe(version_folder(model, number))}: version {number} of {model} was deleted")
    v = Version(store, version_folder(model, number), verify)
    if v.model and (v.model, v.number) != (model, number):
        raise CorruptError(f"version {number} of {model}: its version.json describes version {v.number} of {v.model!r}")
    return v


def _is_deleted(store: Store, folder: str, model: str, number: int) -> bool:
    """Whether deleted.json beside the version's files hides it. One that cannot be read hides it, with an error."""
    name = folder + "deleted.json"
    try:
        record = open_record(store.read(name, MAX_RECORD).to_pybytes(), store.describe(name))
    except NotFoundError:
        return False
    if (record.text("model"), record.integer("version", 1, _MAX_NUMBER)) != (model, number):
        record.fail("it is about another version")
    withdrawn = record.boolean("withdrawn")
    record.close(unknown=True)
    return not withdrawn


def models(store: Store) -> list[str]:
    """Names of the models in a registry of this machine, some at least; a bucket is not listed for a message."""
    top = store.tree / "registry" if isinstance(store, (Folder, Shared)) else None
    return sorted(p.name for p in top.iterdir() if is_name(p.name))[:20] if top and top.is_dir() else []


def _resolve(store: Store, model: str, version: int | str | None) -> int:
    """The number that is meant: a number, an alias, or without either the champion, and the newest
    where there is none."""
    if isinstance(version, str) and version.isascii() and version.isdecimal():
        version = int(version)
    if not isinstance(version, str) and version is not None:
        if not is_version_number(version):
            raise Error(f"version={version!r}: a number from 1, or an alias")
        return version
    alias = version or CHAMPION
    if not is_name(alias):
        raise Error(f"version={version!r} is neither a number nor an alias's name")
    name = f"registry/{model}/aliases/{alias}.json"
    try:
        record = open_record(store.read(name, MAX_RECORD).to_pybytes(), store.describe(name))
    except NotFoundError:
        numbers = [int(m[1]) for m in map(_VERSION_OBJECT.search, store.list(f"registry/{model}/versions")) if m]
        if not numbers:
            others = f"; there are {', '.join(names)}" if (names := models(store)) else ""
            raise NotFoundError(
                f"{store.describe(f'registry/{model}')}: there is no model {model!r} with a version{others}"
            ) from None
        if version is None:
            for number in sorted(set(numbers), reverse=True):
                if not _is_deleted(store, version_folder(model, number), model, number):
                    return number
            raise NotFoundError(f"{store.describe(f'registry/{model}')}: all versions of {model} were deleted")
        raise NotFoundError(
            f"{store.describe(name)}: {model} has no alias {alias!r}; its versions are {sorted(numbers)}"
        ) from None
    named = record.text("alias"), record.text("model")
    if named != (alias, model):
        record.fail(f"it is {named[0][:60]!r} of {named[1][:60]!r}")
    number = record.integer("version", 0, _MAX_NUMBER)
    record.close(unknown=True)
    if number == 0:
        raise NotFoundError(f"{store.describe(name)}: the alias {alias!r} of {model} was removed")
    return number
