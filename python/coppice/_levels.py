"""levels.arrow: the statistics of all levels, as an Arrow file in memory or mapped.

It is read here and not by pyarrow: only what a levels file may hold can be read, at the cost of a few pages at its end,
and nothing in it is followed that leads outside. internal/dataset/arrow_parse.go is the counterpart."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import pyarrow as pa

from ._encoding import Encoding, LevelTable
from .errors import FormatError

_MAGIC, _HEAD = b"ARROW1", b"ARROW1\0\0"
_ALIGNMENT = 64
_MAX_META, _MAX_NAME = 64 << 20, 1024
_CONTINUATION, _BATCH = 0xFFFFFFFF, 3

# The columns by name: type in the schema (of the union, and the fields of its table), and of an array.
_UINT, _DOUBLE = 2, 3
_COLUMNS = {
    "hash": (_UINT, 64, "<u8"),
    "sum": (_DOUBLE, 64, "<f8"),
    "rows": (_UINT, 32, "<u4"),
    "weight": (_DOUBLE, 64, "<f8"),
    "last": (_DOUBLE, 64, "<f8"),
}


@dataclass(frozen=True)
class Levels:
    """Arrays of equal length, without a copy of the file's bytes.

    Attributes:
        hash: of the level, uint64, ascending within a table.
        sum: of the labels of its rows of train, float64.
        rows: of train, uint32.
        weight: of the rows, float64; None where each has weight 1.
        last: seconds since 1970 at the last row, float64; None where no table has it.
    """

    hash: np.ndarray
    sum: np.ndarray
    rows: np.ndarray
    weight: np.ndarray | None
    last: np.ndarray | None

    def find(self, table: LevelTable, hashes: np.ndarray) -> np.ndarray:
        """Where a table's levels with the given hashes are (int64, shape (n,)); -1 where they are not."""
        held = self.hash[table.first : table.first + table.levels]
        if len(held) == 0:
            return np.full(len(hashes), -1, dtype=np.int64)
        at = np.searchsorted(held, hashes)
        at[at == len(held)] = 0
        return np.where(held[at] == hashes, at + table.first, -1)

    def check_binary(self) -> None:
        """Refuses sums of labels that are not from 0 to the rows' weight, which those of labels 0 and 1 are."""
        most = self.rows if self.weight is None else self.weight
        wrong = ~((self.sum >= 0) & (self.sum <= most * (1 + 1e-6)))
        if wrong.any():
            at = int(np.argmax(wrong))
            _fail(f"level {at}: labels 0 and 1 of rows that weigh {most[at]} add up to {self.sum[at]}")


def none() -> Levels:
    """The levels of an encoding without any."""
    return Levels(np.empty(0, np.uint64), np.empty(0), np.empty(0, np.uint32), None, np.empty(0))


def read(buffer: pa.Buffer, encoding: Encoding) -> Levels:
    """Reads a levels file that belongs to the encoding's tables."""
    try:
        columns = _Arrow(memoryview(buffer)).columns(any(t.recency for t in encoding.tables), encoding.levels)
    except struct.error:
        _fail("its metadata points outside itself")
    for i, t in enumerate(encoding.tables):
        own = slice(t.first, t.first + t.levels)
        held, few = columns["hash"][own], columns["rows"][own] < t.floor
        if not np.all(held[1:] > held[:-1]):
            _fail(f"the hashes of table {i} do not ascend")
        if few.any():
            at = t.first + int(np.argmax(few))
            _fail(f"level {at} has {columns['rows'][at]} rows where table {i} keeps none with fewer than {t.floor}")
    for name, least in {"sum": -np.inf, "weight": 0.0, "last": -np.inf}.items():
        values = columns.get(name, np.empty(0))
        wrong = ~(np.isfinite(values) & (values >= least))
        if wrong.any():
            _fail(f"{name} {values[np.argmax(wrong)]} at level {np.argmax(wrong)}")
    return Levels(columns["hash"], columns["sum"], columns["rows"], columns.get("weight"), columns.get("last"))


def _fail(message: str) -> NoReturn:
    raise FormatError(f"levels.arrow: {message}")


@dataclass(frozen=True)
class _Table:
    """A table of a flatbuffer, which lies in data from byte low up to high; fields are numbered."""

    data: memoryview
    low: int
    high: int
    at: int = -1  # of the table; -1 for one that is not there, which has no fields

    def get(self, form: str, at: int) -> int:
        """A number at a byte."""
        if not self.low <= at <= self.high - struct.calcsize(form):
            _fail("its metadata points outside itself")
        return struct.unpack_from("<" + form, self.data, at)[0]

    def follow(self, at: int) -> _Table:
        """The table to which the offset at a byte points."""
        return _Table(self.data, self.low, self.high, at + self.get("I", at))

    def field(self, number: int) -> int:
        """Where a field lies; -1 where it has been left out."""
        if self.at < 0:
            return -1
        index = self.at - self.get("i", self.at)
        size = self.get("H", index)
        if size < 4 or index + size > self.high:
            _fail("its metadata points outside itself")
        entry = 4 + 2 * number
        offset = self.get("H", index + entry) if entry + 2 <= size else 0
        return self.at + offset if offset else -1

    def number(self, number: int, form: str) -> int:
        """A number in a field; 0 where it has been left out."""
        at = self.field(number)
        return 0 if at < 0 else self.get(form, at)

    def child(self, number: int) -> _Table:
        """The table in a field."""
        at = self.field(number)
        return _Table(self.data, self.low, self.high) if at < 0 else self.follow(at)

    def vector(self, number: int, size: int) -> tuple[int, int]:
        """Where the elements of a field begin, each of some bytes, and their number."""
        at = self.field(number)
        if at < 0:
            return 0, 0
        at += self.get("I", at)
        n = self.get("I", at)
        if n * size > self.high - at - 4:
            _fail("its metadata points outside itself")
        return at + 4, n


class _Arrow:
    """An Arrow file with one record batch."""

    def __init__(self, data: memoryview) -> None:
        size = len(data)
        if size < 18 or data[:8] != _HEAD or data[size - 6 :] != _MAGIC:
            _fail("an Arrow file begins and ends with ARROW1; this one may be truncated")
        length = struct.unpack_from("<I", data, size - 10)[0]
        self.footer_at = size - 10 - length
        if not 4 <= length <= _MAX_META or self.footer_at < 8:
            _fail(f"a footer of {length} bytes")
        self.data, self.footer = data, _Table(data, self.footer_at, size - 10).follow(self.footer_at)

    def columns(self, last: bool, levels: int) -> dict[str, np.ndarray]:
        """The columns of a levels file, with last where it belongs."""
        fields = self._fields()
        want = ["hash", "sum", "rows", *(["weight"] if "weight" in fields else []), *(["last"] if last else [])]
        if fields != want:
            _fail("its columns are not hash, sum and rows, with weight and last where they belong")
        at, batches = self.footer.vector(3, 24)
        if batches != 1 or self.footer.vector(2, 24)[1]:
            _fail(f"{batches} record batches, or dictionaries; it has one batch")
        batch, body, size = self._batch(at)
        rows = batch.number(0, "q")
        if rows != levels or rows < 1:
            _fail(f"{rows} levels where the tables have {levels}")
        return self._buffers(batch, fields, rows, body, size)

    def _fields(self) -> list[str]:
        schema = self.footer.child(1)
        at, n = schema.vector(1, 4)
        if schema.number(0, "h") or n > len(_COLUMNS):
            _fail(f"{n} columns, or not little-endian")
        self._check_metadata(schema, 2)
        names = []
        for i in range(n):
            field = schema.follow(at + 4 * i)
            begin, length = field.vector(0, 1)
            name = bytes(self.data[begin : begin + length]).decode("utf-8", "replace") if length < _MAX_NAME else ""
            field.number(1, "B")  # it may say that there can be nulls, which nodes count
            kind, kind_of = field.number(2, "B"), field.child(3)
            if kind == _UINT:
                form = (kind, kind_of.number(0, "i"), "<u" if not kind_of.number(1, "B") else "<i")
            else:
                form = (kind, 64 if kind_of.number(0, "h") == 2 else 0, "<f")
            want = _COLUMNS.get(name, (0, 0, ""))
            if form != (want[0], want[1], want[2][:2]):
                _fail(f"the column {name[:60]!r} is none of a levels file, or of another type")
            if field.field(4) >= 0 or field.vector(5, 4)[1]:
                _fail(f"the column {name[:60]!r} is dictionary-encoded or nested")
            self._check_metadata(field, 6)
            names.append(name)
        return names

    def _check_metadata(self, t: _Table, number: int) -> None:
        at, n = t.vector(number, 4)
        if n > 4:
            _fail(f"{n} pairs of metadata")
        for i in range(n):
            pair = t.follow(at + 4 * i)
            if max(pair.vector(0, 1)[1], pair.vector(1, 1)[1]) > 64:
                _fail("a text of metadata that is longer than 64 bytes")

    def _batch(self, block: int) -> tuple[_Table, int, int]:
        """The record batch that the footer names, and where its body lies."""
        at, length, size = self.footer.get("q", block), self.footer.get("i", block + 8), self.footer.get("q", block + 16)
        body = at + length
        if not 8 <= at <= self.footer_at or not 16 <= length <= _MAX_META or body > self.footer_at:
            _fail(f"a record batch at byte {at} with {length} bytes of metadata")
        if body % _ALIGNMENT or not 0 <= size <= self.footer_at - body:
            _fail(f"a body of {size} bytes at byte {body}")
        if struct.unpack_from("<II", self.data, at) != (_CONTINUATION, length - 8):
            _fail("no record batch begins where the footer says")
        message = _Table(self.data, at + 8, body).follow(at + 8)
        if message.number(1, "B") != _BATCH or message.number(3, "q") != size:
            _fail("the message is not the record batch that the footer promises")
        batch = message.child(2)
        if batch.field(3) >= 0:
            _fail("compressed buffers")
        return batch, body, size

    def _buffers(self, batch: _Table, names: list[str], rows: int, body: int, size: int) -> dict[str, np.ndarray]:
        nodes, n = batch.vector(1, 16)
        buffers, m = batch.vector(2, 16)
        if n != len(names) or m != 2 * len(names):
            _fail(f"{n} columns and {m} buffers where the schema has {len(names)} columns")
        out, end = {}, 0
        for i, name in enumerate(names):
            if (batch.get("q", nodes + 16 * i), batch.get("q", nodes + 16 * i + 8)) != (rows, 0):
                _fail(f"{name} has nulls, or not {rows} rows")
            form = np.dtype(_COLUMNS[name][2])
            for k, need in ((2 * i, 0), (2 * i + 1, rows * form.itemsize)):  # the first would say which are null
                at, length = batch.get("q", buffers + 16 * k), batch.get("q", buffers + 16 * k + 8)
                if at < end or at % _ALIGNMENT or length != need or at > size - length:
                    _fail(f"a buffer of {length} bytes at byte {at} of a body of {size}")
                end = at + length
            out[name] = np.frombuffer(self.data, form, rows, body + at)
        return out
