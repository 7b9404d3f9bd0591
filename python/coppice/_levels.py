"""levels.arrow: the statistics of all levels, as an Arrow file in memory or mapped."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ._encoding import Encoding, LevelTable
from .errors import FormatError


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


def none() -> Levels:
    """The levels of an encoding without any."""
    return Levels(np.empty(0, np.uint64), np.empty(0), np.empty(0, np.uint32), None, np.empty(0))


def read(buffer: pa.Buffer, encoding: Encoding) -> Levels:
    """Reads a levels file that belongs to the encoding's tables."""
    try:
        reader = pa.ipc.open_file(pa.BufferReader(buffer))
        if reader.num_record_batches != 1:
            raise FormatError(f"levels.arrow: {reader.num_record_batches} record batches; it has one")
        batch = reader.get_batch(0)
        batch.validate(full=True)
        fields = {f.name: f.type for f in batch.schema}
    except (pa.ArrowException, OSError, ValueError) as e:
        raise FormatError(f"levels.arrow: {str(e)[:200]}") from e

    want = {"hash": pa.uint64(), "sum": pa.float64(), "rows": pa.uint32()}
    if "weight" in fields:
        want["weight"] = pa.float64()
    if any(t.recency for t in encoding.tables):
        want["last"] = pa.float64()
    if list(fields.items()) != list(want.items()) or len(batch.schema) != len(want):
        raise FormatError(
            "levels.arrow: its columns are not hash, sum and rows, with weight and last where they belong"
        )
    if batch.num_rows != encoding.levels:
        raise FormatError(f"levels.arrow: {batch.num_rows} levels where the tables have {encoding.levels}")
    if any(c.null_count for c in batch.columns):
        raise FormatError("levels.arrow: it has nulls")

    columns = {name: batch.column(i).to_numpy(zero_copy_only=True) for i, name in enumerate(batch.schema.names)}
    for i, t in enumerate(encoding.tables):
        held = columns["hash"][t.first : t.first + t.levels]
        if len(held) > 1 and not np.all(held[1:] > held[:-1]):
            raise FormatError(f"levels.arrow: the hashes of table {i} do not ascend")
    for name, least in {"sum": -np.inf, "weight": 0.0, "last": -np.inf}.items():
        values = columns.get(name, np.empty(0))
        wrong = np.flatnonzero(~(np.isfinite(values) & (values >= least)))
        if len(wrong) > 0:
            raise FormatError(f"levels.arrow: {name} {values[wrong[0]]} at level {wrong[0]}")
    return Levels(columns["hash"], columns["sum"], columns["rows"], columns.get("weight"), columns.get("last"))
