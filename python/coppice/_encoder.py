"""Raw columns to model values. internal/dataset/ingest/encoder.go, coder.go and part.go are the counterparts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from . import _columns, _hash, _text
from ._columns import BOOL, FLOAT, INT, TEXT, TIME, Column
from ._encoding import AGE, CATEGORICAL, COUNT, HOUR, RATE, RECENCY, TEMPORAL, WEEKDAY, Encoding, Feature, Part
from ._levels import Levels
from .errors import TypeMismatchError, ValueParseError

SECONDS_PER_DAY = 86400.0
_GREATEST = np.finfo(np.float64).max


class Coder:
    """The categories of one feature, to be looked up by what a value means.

    A table may hold what the training table held in another spelling or type: 1001.0 for 1001, a
    truth value for True. Where no category is written as it is, the first one that means the same
    counts. """

    def __init__(self, feature: Feature) -> None:
        self.feature = feature
        self.other = feature.other_bin
        self.missing = feature.missing_bin if feature.missing_bin >= 0 else feature.other_bin
        self.texts = pa.array(feature.categories, type=pa.large_string())
        levels: dict[int, int] = {}
        for i, level in enumerate(_text.hash_texts(self.texts, _text.Missing([])).tolist()):
            levels.setdefault(level, i)
        self.levels = np.array(sorted(levels), dtype=np.uint64)
        self.level_codes = np.array([levels[level] for level in sorted(levels)], dtype=np.int64)

    def codes(self, column: Column, markers: _text.Missing) -> np.ndarray:
        """The bins of all rows as float64, shape (rows,)."""
        at, distinct = column.distinct()
        values = self._distinct(distinct, markers)
        return np.append(values, float(self.missing))[at]  # a null is at -1, the last one

    def _distinct(self, column: Column, markers: _text.Missing) -> np.ndarray:
        if column.kind == TEXT:
            texts = column.strings()
            levels = _text.hash_texts(texts, markers)
            gone = levels == _hash.missing()
        else:
            texts = column.texts()
            levels = _hash.texts(texts)
            gone = np.zeros(len(column), dtype=bool)
            if column.kind in (INT, FLOAT):
                numbers = column.floats()
                gone = np.isnan(numbers) | markers.has_number(numbers)
                if column.kind == FLOAT:
                    _columns.warn_of_lost_digits(column, numbers)
        codes = (
            pc.fill_null(pc.index_in(texts, value_set=self.texts), -1).to_numpy(zero_copy_only=False).astype(np.int64)
        )
        if column.kind == TEXT:  # a category may be another spelling of a number that stands for a missing value
            gone &= (codes < 0) | markers.has(_text.trimmed(texts))
        codes = np.where(codes >= 0, codes, self._by_level(levels))
        codes = np.where(codes >= 0, codes, self.other)
        codes[gone] = self.missing
        return codes.astype(np.float64)

    def _by_level(self, wanted: np.ndarray) -> np.ndarray:
        if len(self.levels) == 0:
            return np.full(len(wanted), -1, dtype=np.int64)
        at = np.searchsorted(self.levels, wanted)
        at[at == len(self.levels)] = 0
        return np.where(self.levels[at] == wanted, self.level_codes[at], -1)


def take(what: str, seconds: np.ndarray) -> np.ndarray:
    """What a clock or a calendar says of float64 seconds since 1970, in UTC: the hour 0 up to 24,
    or the weekday, 0 being Monday."""
    day = np.floor(seconds / SECONDS_PER_DAY)
    if what == HOUR:
        return (seconds - day * SECONDS_PER_DAY) / 3600
    return np.fmod(np.fmod(day + 3, 7) + 7, 7)  # 1970-01-01 was a Thursday


class Encoder:
    """Encodes tables by features.json and levels.arrow. It does not change and may be used from any thread."""

    def __init__(self, encoding: Encoding, levels: Levels) -> None:
        self.encoding = encoding
        self.levels = levels
        self.markers = _text.Missing(list(encoding.missing))
        self.coders = [Coder(f) if f.kind == CATEGORICAL else None for f in encoding.features]

    def encode(self, columns: dict[str, Column], out: np.ndarray) -> None:
        """Writes the model values of some rows into out: float64, shape (rows, features)."""
        look = _Lookup(self, columns, len(out))
        with np.errstate(all="ignore"):
            for i in range(len(self.encoding.features)):
                out[:, i] = look.feature(i)


class _Lookup:
    """The encoding of some rows: what several features need is computed once."""

    def __init__(self, encoder: Encoder, columns: dict[str, Column], rows: int) -> None:
        formats = encoder.encoding.formats
        columns = {n: self._read_as(c, formats[n], encoder) if n in formats and c.kind == TEXT else c for n, c in columns.items()}
        self.e, self.columns, self.rows = encoder, columns, rows
        self._numbers: dict[tuple[str, str], np.ndarray] = {}
        self._parts: dict[Part, np.ndarray] = {}
        self._slots: dict[int, np.ndarray] = {}
        self._rates: dict[int, np.ndarray] = {}

    @staticmethod
    def _read_as(column: Column, form: str, e: Encoder) -> Column:
        """A column of texts as the numbers or times that they are in a format."""
        at, distinct = column.distinct()
        strings = distinct.strings()
        values, bad = _text.in_format(strings, form, e.markers)
        rows = np.flatnonzero(np.append(bad, False)[at])
        if len(rows):  # a dictionary may hold words that no row has
            row = int(rows[0])
            value = strings[int(at[row])].as_py()
            message = f"{value[:80]!r} cannot be read in the column's format, {form}"
            raise ValueParseError(message, column.name, column.first + row, value)
        values = values.take(pa.array(at, mask=at < 0))
        if form in ("dmy", "mdy"):
            return Column(column.name, TIME, values, "us", column.first)
        return Column(column.name, FLOAT, values, "", column.first)

    def feature(self, i: int) -> np.ndarray:
        f, coder = self.e.encoding.features[i], self.e.coders[i]
        d = f.derived
        if coder is not None:
            name = f.name if d is None else d.of[0].column
            return coder.codes(self.columns[name], self.e.markers)
        if d is None:
            return np.clip(self.numbers(f.name, f.kind), -_GREATEST, _GREATEST)  # NaN stays NaN
        if d.what in (HOUR, WEEKDAY):
            return take(d.what, self.numbers(d.of[0].column, TEMPORAL))
        if d.what == AGE:
            now, then = (self.numbers(p.column, TEMPORAL) for p in d.of)
            return (now - then) / SECONDS_PER_DAY
        if d.what == RATE:
            return self.rate(d.table)
        slots = self.slots(d.table)
        there = slots >= 0
        if d.what == COUNT:
            out = np.zeros(self.rows)
            out[there] = self.e.levels.rows[slots[there]]
            return out
        out = np.full(self.rows, np.nan)
        now = self.numbers(d.of[0].column, d.of[0].kind)
        assert d.what == RECENCY and self.e.levels.last is not None
        out[there] = now[there] - self.e.levels.last[slots[there]]
        return out

    def rate(self, table: int) -> np.ndarray:
        """The rates of the rows' levels, float64 that are float32's, shape (rows,)."""
        if table in self._rates:
            return self._rates[table]
        t, levels, slots = self.e.encoding.tables[table], self.e.levels, self.slots(table)
        there = slots >= 0
        found = slots[there]
        sums, n = np.zeros(self.rows), np.zeros(self.rows)
        sums[there] = levels.sum[found]
        n[there] = levels.rows[found] if levels.weight is None else levels.weight[found]
        prior = self.rate(t.back_off) if t.back_off >= 0 else np.full(self.rows, t.prior)
        rates = ((sums + t.strength * prior) / (n + t.strength)).astype(np.float32).astype(np.float64)
        self._rates[table] = rates
        return rates

    def slots(self, table: int) -> np.ndarray:
        """Where the rows' levels are in the levels file, -1 where a table does not have them; int64, shape (rows,)."""
        if table not in self._slots:
            t = self.e.encoding.tables[table]
            hashes = _hash.begin(self.rows)
            for p in t.of:
                hashes = _hash.join(hashes, self.part(p))
            self._slots[table] = self.e.levels.find(t, np.maximum(hashes, np.uint64(1)))
        return self._slots[table]

    def part(self, p: Part) -> np.ndarray:
        """The hashes that a part contributes to levels: uint64, shape (rows,)."""
        if p not in self._parts:
            self._parts[p] = self._texts(self.columns[p.column]) if p.kind == CATEGORICAL else self._ranges(p)
        return self._parts[p]

    def _ranges(self, p: Part) -> np.ndarray:
        x = self.numbers(p.column, p.kind)
        if p.take:
            x = take(p.take, x)
        if not p.bounds:
            return _hash.numbers(np.clip(x, -_GREATEST, _GREATEST))
        out = _hash.ranges(np.searchsorted(np.array(p.bounds), x))
        out[np.isnan(x)] = _hash.missing()
        return out

    def _texts(self, column: Column) -> np.ndarray:
        at, distinct = column.distinct()
        markers = self.e.markers
        if column.kind == TEXT:
            hashes = _text.hash_texts(distinct.strings(), markers)
        else:
            hashes = _hash.texts(distinct.texts())
            if column.kind in (INT, FLOAT):
                numbers = distinct.floats()
                hashes[np.isnan(numbers) | markers.has_number(numbers)] = _hash.missing()
                if column.kind == FLOAT:
                    _columns.warn_of_lost_digits(column, numbers)
        return np.append(hashes, _hash.missing())[at]

    def numbers(self, name: str, kind: str) -> np.ndarray:
        """A column read as numbers, or as times in seconds since 1970 UTC: float64, NaN where
        missing; shape (rows,)."""
        if (name, kind) not in self._numbers:
            self._numbers[name, kind] = self._read(self.columns[name], kind)
        return self._numbers[name, kind]

    def _read(self, column: Column, kind: str) -> np.ndarray:
        if column.empty:
            return np.full(self.rows, np.nan)
        if column.kind == TEXT:
            return self._parse(column, kind)
        if column.kind == FLOAT and kind == TEMPORAL and np.isnan(column.floats()).all():
            return np.full(self.rows, np.nan)
        if (column.kind == TIME) != (kind == TEMPORAL):  # seconds where milliseconds may have been, or the reverse
            row = int(np.argmin(column.null()))
            value = column.python_value(row)
            want = "times" if kind == TEMPORAL else "numbers"
            message = f"{value!r} is of type {column.kind} where the model was trained on {want}; convert the column as it was for training"
            raise TypeMismatchError(message, column.name, column.first + row, value)
        if column.kind == TIME:
            return column.seconds()
        x = column.floats()
        if column.kind != BOOL and len(self.e.markers.numbers):
            x = np.where(self.e.markers.has_number(x), np.nan, x)
        return x

    def _parse(self, column: Column, kind: str) -> np.ndarray:
        at, distinct = column.distinct()
        strings = distinct.strings()
        values, bad = (_text.times_of if kind == TEMPORAL else _text.numbers_of)(strings, self.e.markers)
        if bad.any():
            rows = np.flatnonzero(np.append(bad, False)[at])
            if len(rows):  # a dictionary may hold words that no row has
                row = int(rows[0])
                value = strings[int(at[row])].as_py()
                brief = value if len(value) <= 80 else value[:77] + "..."
                message = f"{brief!r} is not a {'time' if kind == TEMPORAL else 'number'}"
                raise ValueParseError(message, column.name, column.first + row, value)
        return np.append(values, np.nan)[at]
