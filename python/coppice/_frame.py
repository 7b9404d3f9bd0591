"""Tables of whatever kind as Arrow tables, to be trained on."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np
import pyarrow as pa

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
    columns = [_plain(c) for c in data.columns]
    return pa.table(columns, names=data.column_names) if columns else data, list(data.column_names)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column in a type that Parquet has: no views, no dictionaries of them, no extensions."""
    kind = column.type
    if pa.types.is_dictionary(kind) and not pa.types.is_integer(kind.value_type):
        column = pa.chunked_array([c.dictionary_decode() for c in column.chunks], kind.value_type)
    if pa.types.is_string_view(column.type):
        return column.cast(pa.large_string())
    if isinstance(column.type, pa.BaseExtensionType):
        return pa.chunked_array([_array("", column.to_pylist())])
    return column


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
        array = pa.array(values, from_pandas=True)
        kind = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
        if not isinstance(kind, pa.BaseExtensionType):
            return array
        raise pa.ArrowTypeError("an extension type, such as intervals or periods")
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as e:
        plain = [None if _missing(v) else v for v in values]
        unlike = next((v for v in plain if isinstance(v, (list, dict, set, tuple, np.ndarray))), None)
        if unlike is not None:
            raise InputError(f"it holds {type(unlike).__name__} values; flatten it, or leave it out", name) from e
        return pa.array([None if v is None else str(v) for v in plain], type=pa.large_string())


def _missing(value: Any) -> bool:
    return value is None or value != value  # NaN, NaT


def _unlike(names: list[str]) -> None:
    for name, count in collections.Counter(names).items():
        if count > 1:
            raise InputError(f"the table has {count} columns of this name; rename or drop the others", name)
