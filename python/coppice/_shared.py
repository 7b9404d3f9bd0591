"""A bucket in a folder that machines share: internal/blob/folder is the counterpart."""

from __future__ import annotations

import os
import re
import time
import urllib.parse
from pathlib import Path

import pyarrow as pa

from .errors import CorruptError, NotFoundError, StorageError

LAYOUT = "bucket-1"
_LOOKS = 12  # at an object that is being replaced: for about two seconds
_LONGEST = 200
_ODD = re.compile(rb"[^a-z0-9_=.-]|\A\.|\.\Z")
_MARK = re.compile(r"([1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.[0-9a-f]{8}\.([^.]+)\Z")


class Shared:
    """The objects of such a bucket; they are copied to memory, since another machine may remove what it replaces."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.tree = self.path / LAYOUT / "objects"

    def read(self, name: str, limit: int) -> pa.Buffer:
        """See Store."""
        for look in range(_LOOKS):
            mark = self._mark(name)
            try:
                if mark:
                    size = int(mark[3])
                    if size > limit:
                        raise CorruptError(f"{self.describe(name)}: {size} bytes, more than {limit}")
                    data = (self._place(name) / f"{mark[2]}.{mark[4]}").read_bytes()
                    if len(data) != size:
                        raise CorruptError(f"{self.describe(name)}: {len(data)} bytes, and had {size}")
                    return pa.py_buffer(data)
            except FileNotFoundError:
                pass  # it has just been replaced
            except OSError as e:
                if look == _LOOKS - 1:
                    raise StorageError(f"{self.describe(name)}: {e}") from e
            time.sleep(0.0005 * (1 << look))
        raise CorruptError(f"{self.describe(name)}: no mark names its contents")

    def list(self, prefix: str) -> list[str]:
        """See Store."""
        top = self.tree.joinpath(*map(_encode, prefix.strip("/").split("/"))) if prefix.strip("/") else self.tree
        found = []
        for place, folders, _ in os.walk(top):
            for folder in [f for f in folders if f.endswith("@")]:
                folders.remove(folder)
                escaped = (Path(place) / folder[:-1]).relative_to(self.tree).as_posix()
                name = urllib.parse.unquote(escaped.replace("+/", ""))
                if self._place(name) == Path(place) / folder and self.has(name):
                    found.append(name)
        return found

    def has(self, name: str) -> bool:
        """See Store."""
        try:
            return self._mark(name) is not None
        except NotFoundError:
            return False

    def describe(self, name: str) -> str:
        """See Store."""
        return str(self.path / LAYOUT / name)

    def _place(self, name: str) -> Path:
        *folders, last = map(_encode, name.split("/"))
        return self.tree.joinpath(*folders, last + "@")

    def _mark(self, name: str) -> re.Match[str] | None:
        """What says which contents are current; None while it is being replaced."""
        try:
            marks = [m for m in map(_MARK.match, os.listdir(self._place(name))) if m]
        except (FileNotFoundError, NotADirectoryError) as e:
            raise NotFoundError(f"{self.describe(name)}: no such object") from e
        except OSError as e:
            raise StorageError(f"{self.describe(name)}: {e}") from e
        return max(marks, key=lambda m: int(m[1]), default=None)


def _encode(part: str) -> str:
    """A part of a name as a directory's name, and of a longer one as several."""
    text, parts = _ODD.sub(lambda m: b"%%%02x" % m[0][0], part.encode()).decode(), ""
    while len(text) > _LONGEST:
        parts, text = f"{parts}{text[:_LONGEST]}+/", text[_LONGEST:]
    return parts + text
