"""Where the files of a version are and whether they are what was registered:
internal/registry/FORMAT.md is the counterpart."""

from __future__ import annotations

import datetime
import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.fs as pafs

from ._encoding import parse_json
from .errors import CorruptError, Error, FormatError, NotFoundError, StorageError

CHAMPION = "champion"
MAX_RECORD = 1 << 20
MAX_FILE = 1 << 30
_MAX_NUMBER = 1_000_000_000

_NAME = re.compile(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?\Z")
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")
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
        self.path = Path(path)

    def read(self, name: str, limit: int) -> pa.Buffer:
        """See Store."""
        path = self.path / name
        try:
            size = path.stat().st_size
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
        return Folder(text)
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
        self._take(decode_record(self.record, place), place)

    def _take(self, record: dict[str, Any], place: str) -> None:
        self.model, self.number = record.get("model"), record.get("version")
        files = record.get("files")
        if not is_name(self.model) or not is_version_number(self.number):
            raise CorruptError(f"{place}: it describes version {str(self.number)[:40]} of {str(self.model)[:60]!r}")
        if not isinstance(files, list) or not 1 <= len(files) <= 64:
            raise CorruptError(f"{place}: no list of 1 to 64 files")
        self.files = {}
        for f in files:
            name, file = self._file(f, place)
            if name in self.files:
                raise CorruptError(f"{place}: {name} is there twice")
            self.files[name] = file

    def _file(self, f: Any, place: str) -> tuple[str, File]:
        keys = {"name": str, "object": str, "bytes": int, "sha256": str}
        if not isinstance(f, dict) or any(type(f.get(k)) is not t for k, t in keys.items()):
            raise CorruptError(f"{place}: a file without name, object, bytes or sha256")
        name, own = f["name"], version_folder(self.model, self.number)
        if not _FILE.match(name) or not _SHA256.match(f["sha256"]) or not 0 <= f["bytes"] <= MAX_FILE:
            raise CorruptError(f"{place}: file {name[:60]!r} of {f['bytes']} bytes, SHA-256 {f['sha256'][:80]!r}")
        if f["object"] not in (own + name, f"{own}other/{f['sha256'][:16]}/{name}"):
            raise CorruptError(f"{place}: file {name} lies at {f['object'][:200]!r}")
        return name, File(f["object"][len(own) :], f["bytes"], f["sha256"])

    def has(self, name: str) -> bool:
        """Whether the version has a file."""
        if self.files is not None:
            return name in self.files
        return self._store.has(self._folder + name)

    def read(self, name: str) -> pa.Buffer:
        """The bytes of a file: CorruptError where they are not those that were registered."""
        if self.files is None:
            return self._store.read(self._folder + name, MAX_FILE)
        if name not in self.files:
            raise CorruptError(
                f"{self._store.describe(self._folder)}: the version has no {name}; it has {', '.join(self.files)}"
            )
        want = self.files[name]
        shown = self._store.describe(self._folder + want.object)
        try:
            data = self._store.read(self._folder + want.object, MAX_FILE)
        except NotFoundError as e:
            raise CorruptError(f"{shown} is missing, though the version has been registered with it") from e
        if self._verify:
            have = hashlib.sha256(data).hexdigest()
            if data.size != want.bytes or have != want.sha256:
                raise CorruptError(
                    f"{shown}: {data.size} bytes with SHA-256 {have}; registered were {want.bytes} with {want.sha256}"
                )
        return data


def read_record(store: Store, name: str) -> dict[str, Any]:
    """A JSON record of format 1."""
    return decode_record(store.read(name, MAX_RECORD).to_pybytes(), store.describe(name))


def decode_record(data: bytes, place: str) -> dict[str, Any]:
    """A JSON record of format 1; place is what errors call it."""
    record = parse_json(data, place, MAX_RECORD)
    if not isinstance(record, dict):
        raise FormatError(f"{place}: no JSON object")
    version = record.get("format")
    if type(version) is not int or version != 1:
        raise FormatError(f"{place}: format {str(version)[:40]}; this package reads 1")
    return record


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
        return v

    if not is_name(model):
        raise Error(f"model={model!r}: 1 to 40 of a-z, 0-9 and '-', from a letter to a letter or digit")
    number = _resolve(store, model, version)
    v = Version(store, version_folder(model, number), verify)
    if v.model and (v.model, v.number) != (model, number):
        raise CorruptError(f"version {number} of {model}: its version.json describes version {v.number} of {v.model!r}")
    return v


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
        record = read_record(store, name)
    except NotFoundError:
        numbers = [int(m[1]) for m in map(_VERSION_OBJECT.search, store.list(f"registry/{model}/versions")) if m]
        if not numbers:
            raise NotFoundError(
                f"{store.describe(f'registry/{model}')}: there is no model {model!r} with a version"
            ) from None
        if version is None:
            return max(numbers)
        raise NotFoundError(
            f"{store.describe(name)}: {model} has no alias {alias!r}; its versions are {sorted(numbers)}"
        ) from None
    if record.get("model") != model or record.get("alias") != alias or not is_version_number(record.get("version")):
        raise CorruptError(
            f"{store.describe(name)}: it is {str(record.get('alias'))[:60]!r} of {str(record.get('model'))[:60]!r}"
        )
    return record["version"]
