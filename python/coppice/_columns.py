"""Columns of whatever table, in the five types that raw values have: text, float, int, bool and time."""

from __future__ import annotations

import datetime
import decimal
import warnings
from typing import Any, Callable, Iterable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from . import _text
from ._frame import narrow
from .errors import InputError, MissingColumnsError, PrecisionWarning, TypeMismatchError

TEXT, FLOAT, INT, BOOL, TIME = "text", "float", "int", "bool", "time"

_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_MAX_INT_DIGITS = 18


class Column:
    """Raw values of one column, for some rows of a table.

    Attributes:
        name: of the column.
        kind: one of text, float, int, bool, time.
        first: position of the first row in the whole table.
    """

    def __init__(self, name: str, kind: str, values: pa.Array, unit: str = "", first: int = 0) -> None:
        self.name, self.kind, self.first, self._values, self._unit = name, kind, first, values, unit
        self._codes: np.ndarray | None = None
        self._distinct: pa.Array | None = None

    def __len__(self) -> int:
        return len(self._values)

    @property
    def empty(self) -> bool:
        """Whether no row has a value, so that the type says nothing."""
        return self._values.null_count == len(self._values)

    def null(self) -> np.ndarray:
        """Which rows the table itself says to be absent: bool, shape (rows,)."""
        return _text.to_bool(pc.is_null(self._values))

    def distinct(self) -> tuple[np.ndarray, Column]:
        """The distinct values as a column without nulls, and each row's place among them (int64,
        shape (rows,)); -1 of a null."""
        if self._codes is None:
            encoded = self._values if pa.types.is_dictionary(self._values.type) else self._values.dictionary_encode()
            self._codes = pc.fill_null(encoded.indices.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
            self._distinct = encoded.dictionary
        return self._codes, Column(self.name, self.kind, self._distinct, self._unit)

    def strings(self) -> pa.Array:
        """The values of a text column."""
        return self._values

    def floats(self) -> np.ndarray:
        """The values of a column of numbers or truth values as float64, NaN for nulls; shape (rows,)."""
        v = self._values.cast(pa.float64(), safe=False) if self.kind != BOOL else self._values.cast(pa.int8())
        return v.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)

    def ints(self) -> np.ndarray:
        """The values of a column of whole numbers as int64, 0 for nulls; shape (rows,)."""
        return pc.fill_null(self._values, 0).to_numpy(zero_copy_only=False)

    def _moments(self) -> tuple[np.ndarray, np.ndarray]:
        counts = self.ints()
        if self._unit == "day":
            return counts * 86400, np.zeros_like(counts)
        per = _UNITS[self._unit]
        return counts // per, counts % per * (10**9 // per)

    def seconds(self) -> np.ndarray:
        """The times as float64 seconds since 1970-01-01 00:00 UTC, NaN for nulls; shape (rows,)."""
        out = _text.seconds(*self._moments())
        out[self.null()] = np.nan
        return out

    def texts(self) -> pa.Array:
        """The texts that stand for values without nulls where a column is categorical; best asked of distinct ones."""
        kind = self.kind
        if kind == TEXT:
            return self._values
        if kind == INT:
            return self._values.cast(pa.large_string())
        if kind == BOOL:
            return pa.array(["true" if b else "false" for b in self._values.to_pylist()], type=pa.large_string())
        if kind == TIME:
            sec, nsec = self._moments()
            day = self._unit == "day"
            return pa.array(
                [_text.time_text(s, n, day) for s, n in zip(sec.tolist(), nsec.tolist())], type=pa.large_string()
            )
        x = self.floats()
        whole = (x == np.trunc(x)) & (np.abs(x) <= _text.MAX_EXACT)
        out = pa.array(np.where(whole, x, 0.0).astype(np.int64)).cast(pa.large_string())
        if whole.all():
            return out
        others = pa.array([_text.number_text(v) for v in x[~whole].tolist()], type=pa.large_string())
        return pc.replace_with_mask(out, pa.array(~whole), others)

    def python_value(self, row: int) -> Any:
        """The value of a row for an error message; of times as text."""
        if self.kind == TIME:
            return Column(self.name, TIME, self._values.slice(row, 1), self._unit).texts()[0].as_py()
        try:
            return self._values[row].as_py()
        except (ValueError, OverflowError):
            return str(self._values[row])


class Table:
    """What was handed in: its rows and, converted when they are asked for, its columns."""

    def __init__(self, data: Any, needed: Iterable[str]) -> None:
        names, get = _columns_of(data)
        counts: dict[Any, int] = {}
        for name in names:
            counts[name] = counts.get(name, 0) + 1
        lacking = [n for n in needed if n not in counts]
        if lacking:
            raise MissingColumnsError(lacking, [str(n) for n in names])
        for n in needed:
            if counts[n] > 1:
                raise InputError(f"the table has {counts[n]} columns of this name; rename or drop the others", n)
        self._columns = {n: _canonical(n, _to_arrow(n, get(n))) for n in needed}
        self.rows = -1
        for name, (_, values, _) in self._columns.items():
            if self.rows < 0:
                self.rows, one = len(values), name
            elif len(values) != self.rows:
                raise InputError(f"{len(values)} rows where column {one!r} has {self.rows}", name)

    def slice(self, first: int, rows: int) -> dict[str, Column]:
        """The columns of some rows."""
        out = {}
        for name, (kind, values, unit) in self._columns.items():
            out[name] = Column(name, kind, _flat(values.slice(first, rows)), unit, first)
        return out


def _flat(values: pa.ChunkedArray) -> pa.Array:
    if values.num_chunks == 1:
        return values.chunk(0)
    if values.num_chunks == 0:
        return pa.array([], type=values.type)
    if pa.types.is_dictionary(values.type):
        values = values.unify_dictionaries()
    return pa.concat_arrays(values.chunks)


def _columns_of(data: Any) -> tuple[list[Any], Callable[[str], Any]]:
    """The names of a table's columns, and what gives one of them."""
    if isinstance(data, (pa.Table, pa.RecordBatch)):
        return data.schema.names, lambda name: data.column(data.schema.get_field_index(name))
    if isinstance(data, Mapping):
        return list(data), lambda name: data[name]
    if hasattr(data, "iloc") and hasattr(data, "columns"):  # pandas, which need not be installed
        return list(data.columns), lambda name: data[name]
    if hasattr(data, "__arrow_c_stream__"):
        try:
            table = pa.table(narrow(data))
        except (pa.ArrowException, TypeError, ValueError) as e:
            raise InputError(f"a {type(data).__name__} that cannot be converted to Arrow: {e}") from e
        return _columns_of(table)
    if isinstance(data, np.ndarray) and data.dtype.names:
        return list(data.dtype.names), lambda name: data[name]
    raise InputError(
        "expected a pandas.DataFrame, a pyarrow.Table or RecordBatch, or a dict of arrays, "
        f"got {type(data).__name__}"
    )


def _to_arrow(name: str, values: Any) -> pa.ChunkedArray:
    if isinstance(values, pa.ChunkedArray):
        return values
    if isinstance(values, pa.Array):
        return pa.chunked_array([values])
    original = values
    try:
        if isinstance(values, np.ma.MaskedArray):
            array = pa.array(np.asarray(values.data), mask=np.ma.getmaskarray(values))
        else:
            if hasattr(values, "sparse"):  # a pandas.Series of a sparse type
                values = np.asarray(values)
            if type(getattr(values, "dtype", None)).__name__ in ("PeriodDtype", "IntervalDtype"):  # texts, as in training
                values = [None if v is None or v != v else str(v) for v in values]
            if isinstance(values, np.ndarray):
                values = _native(name, values)
            elif isinstance(values, (str, bytes, Mapping)) or not hasattr(values, "__len__"):
                raise TypeMismatchError(f"a {type(values).__name__} where an array of values belongs", name)
            array = pa.array(values, from_pandas=True)
    except (pa.ArrowException, UnicodeError, TypeError, ValueError, OverflowError) as e:
        row, value, why = _odd_one(original)
        raise TypeMismatchError(f"{why or e}; give the column one type", name, row, value) from e
    return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])


def _native(name: str, values: np.ndarray) -> np.ndarray:
    """The array in a byte order and unit of time that Arrow takes."""
    if values.ndim != 1:
        raise TypeMismatchError(f"an array of {values.ndim} dimensions where one belongs", name)
    if values.dtype.kind in "mM" and np.datetime_data(values.dtype)[0] in ("h", "m"):
        values = values.astype(f"{values.dtype.kind}8[s]")
    if not values.dtype.isnative:
        values = values.astype(values.dtype.newbyteorder("="))
    if values.dtype.kind == "f" and values.dtype.itemsize > 8:
        values = values.astype(np.float64)
    return values


_FAMILIES = (
    (bool, "truth values"),
    ((int, float, np.number), "numbers"),
    (decimal.Decimal, "decimals"),
    (str, "texts"),
    (bytes, "bytes"),
    ((datetime.datetime, datetime.date, np.datetime64), "times"),
)


def _odd_one(values: Any) -> tuple[int | None, Any, str]:
    """The first value that is of another type than those before it, of a column of Python objects;
    only for error messages."""
    before = None
    try:
        for row, value in enumerate(values):
            if value is None or value != value or type(value).__name__ in ("NAType", "NaTType"):
                continue
            family = next((name for types, name in _FAMILIES if isinstance(value, types)), type(value).__name__)
            if isinstance(value, np.bool_):
                family = "truth values"
            if isinstance(value, int) and not isinstance(value, bool) and not -(1 << 63) <= value < 1 << 64:
                return row, value, f"{value} is a whole number of more than 64 bits"
            if before is None:
                before = family
            if family != before:
                return (
                    row,
                    value,
                    f"{repr(value)[:80]} is of type {type(value).__name__} where the rows before hold {before}",
                )
    except (TypeError, ValueError):
        pass
    return None, None, ""


def _canonical(name: str, values: pa.ChunkedArray) -> tuple[str, pa.ChunkedArray, str]:
    """The kind, the values in the one Arrow type of the kind (texts may stay a dictionary), and the unit of times."""
    t = values.type
    try:
        return _convert(name, t, values)
    except (pa.ArrowException, UnicodeError, OverflowError, ValueError) as e:
        raise TypeMismatchError(f"values of type {t} that cannot be read: {str(e)[:200]}", name) from e


def _convert(name: str, t: pa.DataType, values: pa.ChunkedArray) -> tuple[str, pa.ChunkedArray, str]:
    is_ = pa.types
    if isinstance(t, pa.BaseExtensionType):
        storage = pa.chunked_array([c.storage for c in values.chunks], type=t.storage_type)
        if t.extension_name == "arrow.uuid":
            import uuid

            texts = [None if v is None else str(uuid.UUID(bytes=v)) for v in storage.to_pylist()]
            return TEXT, pa.chunked_array([pa.array(texts, type=pa.large_string())]), ""
        if t.extension_name == "arrow.bool8":
            return BOOL, storage.cast(pa.bool_()), ""
        return _convert(name, t.storage_type, storage)
    if is_.is_dictionary(t):
        if is_.is_string(t.value_type) or is_.is_large_string(t.value_type) or str(t.value_type) == "string_view":
            return TEXT, _text_dictionary(values), ""
        values = values.cast(t.value_type)
        return _convert(name, values.type, values)
    if is_.is_run_end_encoded(t):
        values = pa.chunked_array([pc.run_end_decode(c) for c in values.chunks], type=t.value_type)
        return _convert(name, values.type, values)
    if is_.is_boolean(t):
        return BOOL, values, ""
    if is_.is_uint64(t):  # no 64-bit integer of Go holds them all: they are read as texts
        return TEXT, values.cast(pa.large_string()), ""
    if is_.is_integer(t):
        return INT, values.cast(pa.int64()), ""
    if is_.is_floating(t):
        return FLOAT, values.cast(pa.float64()), ""
    if is_.is_date(t):
        return TIME, values.cast(pa.date32()).cast(pa.int32()).cast(pa.int64()), "day"
    if is_.is_timestamp(t):
        return TIME, values.cast(pa.int64()), t.unit
    if is_.is_time(t):  # as in Parquet: a whole number of the unit, which is never the second
        return _counts(values.cast(pa.time32("ms")) if t.unit == "s" else values)
    if is_.is_duration(t):
        return INT, values.cast(pa.int64()), ""
    if is_.is_decimal(t) and t.bit_width < 128:
        values = values.cast(pa.decimal128(t.precision, t.scale))
        return _decimals(values.type, values)
    if is_.is_decimal(t):
        return _decimals(t, values)
    if is_.is_null(t):
        return FLOAT, values.cast(pa.float64()), ""
    if is_.is_string(t) or is_.is_large_string(t) or str(t) == "string_view":
        values = values.cast(pa.large_string())
        for chunk in values.chunks:
            chunk.validate(full=True)
        return TEXT, values, ""
    if is_.is_binary(t) or is_.is_large_binary(t) or is_.is_fixed_size_binary(t) or str(t) == "binary_view":
        if is_.is_fixed_size_binary(t) or str(t) == "binary_view":
            values = values.cast(pa.binary())
        return TEXT, values.cast(pa.large_binary()).cast(pa.large_string()), ""
    raise TypeMismatchError(f"values of type {t}, which cannot be a feature; flatten the column", name)


def _counts(values: pa.ChunkedArray) -> tuple[str, pa.ChunkedArray, str]:
    return INT, values.cast(pa.int32() if pa.types.is_time32(values.type) else pa.int64()).cast(pa.int64()), ""


def _text_dictionary(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Dictionaries of large strings, without nulls and without repeated values in them."""
    chunks = []
    for chunk in values.chunks:
        words = chunk.dictionary.cast(pa.large_string())
        words.validate(full=True)
        if words.null_count or pc.count_distinct(words).as_py() != len(words):
            chunks.append(words.take(chunk.indices).dictionary_encode())
        else:
            chunks.append(pa.DictionaryArray.from_arrays(chunk.indices.cast(pa.int32()), words))
    return pa.chunked_array(chunks, type=pa.dictionary(pa.int32(), pa.large_string()))


def _decimals(t: Any, values: pa.ChunkedArray) -> tuple[str, pa.ChunkedArray, str]:
    """Decimals with a fraction are the float64 nearest to them, whole ones int64 where that holds
    them all, and texts otherwise."""
    if t.scale > 0:
        kind, arrow, make = FLOAT, pa.float64(), float
    elif t.precision - t.scale <= _MAX_INT_DIGITS:
        kind, arrow, make = INT, pa.int64(), int
    else:
        kind, arrow, make = TEXT, pa.large_string(), lambda d: str(int(d))
    chunks = []
    for chunk in values.chunks:
        encoded = chunk.dictionary_encode()
        words = pa.array([make(d) for d in encoded.dictionary.to_pylist()], type=arrow)
        chunks.append(words.take(encoded.indices))
    return kind, pa.chunked_array(chunks, type=arrow), ""


def warn_of_lost_digits(column: Column, distinct: np.ndarray) -> None:
    """Warns where identifiers beyond 2^53 came as floating point, as pandas makes of whole numbers
    among which some are absent."""
    with np.errstate(invalid="ignore"):
        large = np.isfinite(distinct) & (np.abs(distinct) > _text.MAX_EXACT) & (distinct == np.trunc(distinct))
    if large.any():
        warnings.warn(
            f"column {column.name!r} holds {float(distinct[large][0])!r} as floating point, where ids beyond 2^53 are no longer told apart; "
            "read it as Int64 or as text",
            PrecisionWarning,
            stacklevel=2,
        )
