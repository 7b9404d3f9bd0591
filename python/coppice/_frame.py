"""Tables of whatever kind as Arrow tables, to be trained on."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .errors import InputError


def table_of(data: Any) -> tuple[pa.Table, list[str] | None]:
    """An Arrow table of the data's columns, and their names; None where the data has none (an array).

    Args:
        data: a pandas.DataFrame, pyarrow.Table or RecordBatch, a dict of arrays, a numpy array or
          list of shape (rows, columns), or whatever hands on an Arrow stream (polars).

    Raises:
        InputError: a column cannot be read, or two have one name.
    """
    kind = type(data).__module__.partition(".")[0]
    if kind == "polars" and hasattr(data, "collect"):
        data = data.collect()
    if kind == "scipy":
        raise TypeError("a sparse matrix was passed, but dense data is required; use .toarray()")
    data = narrow(data)
    if kind == "pandas" and hasattr(data, "columns"):
        return _of_pandas(data)
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if not isinstance(data, pa.Table):
        if isinstance(data, dict):
            data = pa.table({str(k): _array(str(k), v) for k, v in data.items()})
        elif hasattr(data, "__arrow_c_stream__"):
            data = pa.table(data)
        else:
            return _of_array(np.asarray(data)), None
    _unlike(list(data.column_names))
    columns = [_plain(n, c) for n, c in zip(data.column_names, data.columns)]
    return pa.table(columns, names=data.column_names) if columns else data, list(data.column_names)


def narrow(data: Any) -> Any:
    """A polars.DataFrame without numbers of 128 bits, which Arrow does not have: of 64 bits where they fit, else texts."""
    if type(data).__module__.partition(".")[0] != "polars" or not hasattr(data, "schema"):
        return data
    import polars as pl

    wide = [n for n, kind in data.schema.items() if str(kind) in ("Int128", "UInt128")]
    fits = {n: data[n].is_null().all() or abs(data[n].max()) < 2**63 and abs(data[n].min()) < 2**63 for n in wide}
    return data.with_columns(pl.col(n).cast(pl.Int64 if fits[n] else pl.String) for n in wide) if wide else data


def _plain(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column in a type that Parquet has: no views, no dictionaries of them, no extensions."""
    kind = column.type
    if pa.types.is_dictionary(kind) and str(kind.value_type) == "string_view":
        words = pa.large_string()
        chunks = [pa.DictionaryArray.from_arrays(c.indices, c.dictionary.cast(words), ordered=kind.ordered) for c in column.chunks]
        return pa.chunked_array(chunks, pa.dictionary(kind.index_type, pa.large_string(), kind.ordered))
    if pa.types.is_dictionary(kind) and not pa.types.is_integer(kind.value_type):
        column = pa.chunked_array([c.dictionary_decode() for c in column.chunks], kind.value_type)
    if pa.types.is_run_end_encoded(kind):
        column = pa.chunked_array([pc.run_end_decode(c) for c in column.chunks], kind.value_type)
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return pa.chunked_array([_array(name, column.to_pylist())])
    if pa.types.is_decimal(kind) and kind.bit_width < 128:
        return column.cast(pa.decimal128(kind.precision, kind.scale))
    if str(kind) in ("string_view", "binary_view", "binary", "large_binary") or pa.types.is_fixed_size_binary(kind):
        return texts(name, column)
    if pa.types.is_interval(kind):
        raise InputError(f"it holds values of type {kind}; convert it to numbers, or leave it out", name)
    return column


def texts(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of texts, or of bytes that are texts in UTF-8."""
    try:
        if str(column.type) != "string_view":
            column = column.cast(pa.binary()).cast(pa.large_binary())
        return column.cast(pa.large_string())
    except (pa.ArrowException, UnicodeError) as e:
        raise InputError("it holds bytes that are no text in UTF-8; decode the column, or leave it out", name) from e


def _of_pandas(frame: Any) -> tuple[pa.Table, list[str] | None]:
    names = [str(c) if not isinstance(c, tuple) else "_".join(map(str, c)) for c in frame.columns]
    _unlike(names)
    columns = {name: _array(name, frame.iloc[:, i]) for i, name in enumerate(names)}
    strings = all(isinstance(c, str) for c in frame.columns)
    return pa.table(columns) if names else pa.table({}), names if strings else None


def _of_array(values: np.ndarray) -> pa.Table:
    if values.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {values.ndim}D array instead. Reshape your data either using "
            "array.reshape(-1, 1) or array.reshape(1, -1)"
        )
    if np.iscomplexobj(values):
        raise ValueError("Complex data not supported")
    return pa.table({f"x{i}": _array(f"x{i}", values[:, i]) for i in range(values.shape[1])})


def _array(name: str, values: Any) -> pa.Array | pa.ChunkedArray:
    """One column. Objects of several types are taken as texts, as in CSV."""
    try:
        if isinstance(values, np.ndarray) and values.dtype.kind == "M":
            values = values.astype("datetime64[us]")  # Arrow has no hours
        if isinstance(values, np.ndarray) and values.dtype != object:
            values = np.ascontiguousarray(values)
        if hasattr(values, "sparse"):  # a pandas.Series of a sparse type
            values = np.asarray(values)
        array = pa.array(values, from_pandas=True)
        if pa.types.is_binary(array.type):
            return texts(name, pa.chunked_array([array]))
        kind = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
        if not isinstance(kind, pa.BaseExtensionType):
            return array
        raise pa.ArrowTypeError("an extension type, such as intervals or periods")
    except InputError:
        raise
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as e:
        plain = [None if is_missing(v) else v for v in values]
        unlike = next((v for v in plain if isinstance(v, (list, dict, set, tuple, np.ndarray))), None)
        if unlike is not None:
            raise InputError(f"it holds {type(unlike).__name__} values; flatten it, or leave it out", name) from e
        return pa.array([None if v is None else str(v) for v in plain], type=pa.large_string())


def is_missing(value: Any) -> bool:
    return value is None or type(value).__name__ == "NAType" or value != value  # NaN, NaT


def _unlike(names: list[str]) -> None:
    for name, count in collections.Counter(names).items():
        if count > 1:
            raise InputError(f"the table has {count} columns of this name; rename or drop the others", name)
