"""JSON that two readers must not understand differently. internal/strictjson is the counterpart."""

from __future__ import annotations

import collections
import json
import math
import re
from typing import Any, NoReturn

from .errors import FormatError

MAX_NAME = 1024
_MAX_DEPTH = 32
_MAX_BRACKETS, _MAX_QUOTES = 1 << 20, 1 << 23  # each costs a reader tens of times its bytes
_HALF = re.compile("[\ud800-\udfff]")
_ESCAPED_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
_LEFT_OUT = object()


def parse_json(data: bytes, what: str, limit: int) -> Any:
    """Strict JSON of bounded size and depth: UTF-8, finite numbers, no key twice, no half of a character."""
    if len(data) > limit:
        raise FormatError(f"{what}: {len(data)} bytes, more than the {limit} that it may have")

    if data.count(b"{") + data.count(b"[") > _MAX_BRACKETS or data.count(b'"') > _MAX_QUOTES:
        raise FormatError(f"{what}: more than {_MAX_BRACKETS} objects and lists, or {_MAX_QUOTES} quotes")

    def no_constant(text: str) -> NoReturn:
        raise ValueError(f"{text} is not a JSON number")

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        out = dict(pairs)
        if len(out) != len(pairs):
            [(key, _)] = collections.Counter(k for k, _ in pairs).most_common(1)
            raise ValueError(f"the key {key[:60]!r} is there twice")
        return out

    try:
        value = json.loads(data.decode("utf-8"), parse_constant=no_constant, object_pairs_hook=once)
        _check(value, 0, _ESCAPED_HALF.search(data) is not None)
    except (ValueError, RecursionError) as e:
        raise FormatError(f"{what}: {str(e)[:200]}") from e
    return value


def _check(value: Any, depth: int, texts: bool) -> None:
    """Checks how deeply values are nested and, if there can be one that is wrong, the texts."""
    if isinstance(value, dict):
        if texts:
            _check(list(value), depth, texts)
        value = list(value.values())
    if isinstance(value, list):
        if depth == _MAX_DEPTH:
            raise ValueError(f"values are nested more than {_MAX_DEPTH} deep")
        for v in [v for v in value if isinstance(v, (dict, list, str) if texts else (dict, list))]:
            _check(v, depth + 1, texts)
    elif isinstance(value, str) and _HALF.search(value):
        raise ValueError(f"{value[:60]!r} has half of a character")


def is_number(v: Any) -> bool:
    """Whether a JSON value is a number that float64 holds as a finite one."""
    if isinstance(v, bool) or not isinstance(v, (int, float)):
        return False
    try:
        return math.isfinite(float(v))
    except OverflowError:
        return False


class Reader:
    """Takes a parsed JSON object apart, key by key; unknown keys are refused in close()."""

    def __init__(self, value: Any, place: str) -> None:
        self.place = place
        if not isinstance(value, dict):
            self.fail("an object belongs here")
        self._value: dict[str, Any] = dict(value)
        self._asked: set[str] = set()

    def fail(self, message: str) -> NoReturn:
        """Raises FormatError at this place."""
        raise FormatError(f"{self.place}: {message}")

    def keys(self) -> list[str]:
        """The keys that have not been taken."""
        return list(self._value)

    def take(self, key: str, default: Any = None) -> Any:
        """What the object has under a key, which may be left out if there is a default."""
        self._asked.add(key)
        if default is None and key not in self._value:
            self.fail(f"the key {key!r} is missing")
        return self._value.pop(key, default)

    def text(self, key: str, default: str | None = None, limit: int = MAX_NAME) -> str:
        """A string of at most limit bytes."""
        v = self.take(key, default)
        if not isinstance(v, str) or len(v.encode()) > limit:
            self.fail(f"{key} is not a text of up to {limit} bytes")
        return v

    def integer(self, key: str, low: int, high: int, default: int | None = None) -> int:
        """A whole number from low to high."""
        v = self.take(key, default)
        if not isinstance(v, int) or isinstance(v, bool) or not low <= v <= high:
            self.fail(f"{key} is {str(v)[:40]}; {low} to {high} are possible")
        return v

    def number(self, key: str) -> float:
        """A finite number."""
        v = self.take(key)
        if not is_number(v):
            self.fail(f"{key} is {str(v)[:40]}, not a finite number")
        return float(v)

    def boolean(self, key: str) -> bool:
        """True or false; false where it is left out."""
        v = self.take(key, False)
        if not isinstance(v, bool):
            self.fail(f"{key} is neither true nor false")
        return v

    def items(self, key: str, limit: int, *, required: bool = False, null: bool = False) -> list[Any]:
        """A list of at most limit values; empty where it may be left out and is, or may be null and is."""
        v = self.take(key, None if required else [])
        if v is None and null:
            return []
        if not isinstance(v, list) or len(v) > limit:
            self.fail(f"{key} is not a list of up to {limit} values")
        return v

    def texts(self, key: str, limit: int, **more: bool) -> list[str]:
        """A list of strings."""
        v = self.items(key, limit, **more)
        if not all(isinstance(x, str) for x in v):
            self.fail(f"{key} has something else than texts")
        return v

    def numbers(self, key: str, limit: int) -> list[float]:
        """A list of finite numbers."""
        v = self.items(key, limit)
        if not all(is_number(x) for x in v):
            self.fail(f"{key} are not all finite numbers")
        return [float(x) for x in v]

    def ascending(self, key: str, limit: int) -> tuple[float, ...]:
        """Finite numbers, each greater than the one before."""
        v = self.numbers(key, limit)
        if any(a >= b for a, b in zip(v, v[1:])):
            self.fail(f"{key} do not ascend")
        return tuple(v)

    def within(self, key: str) -> Reader | None:
        """The object under a key; None where it is left out."""
        v = self.take(key, _LEFT_OUT)
        return None if v is _LEFT_OUT else Reader(v, f"{self.place}.{key}")

    def keys(self) -> list[str]:
        """All keys."""
        return list(self._value)

    def close(self, *, unknown: bool = False) -> None:
        """Refuses keys that were not asked for or, with unknown, only those that are so in another case."""
        asked = {k.casefold(): k for k in self._asked}
        for key in self._value:
            if key.casefold() in asked:
                self.fail(f"the key {key[:60]!r}; write {asked[key.casefold()]!r}")
            if not unknown:
                self.fail(f"unknown key {key[:60]!r}")
