"""Writes the Arrow streams of this folder: python3 make.py (pyarrow 17 or later)."""

import datetime as dt
import pathlib

import pyarrow as pa

here = pathlib.Path(__file__).parent


def write(name, table, chunk=None, **options):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as w:
        w.write_table(table, max_chunksize=chunk)
    (here / f"{name}.arrows").write_bytes(sink.getvalue().to_pybytes())


day = dt.datetime(2026, 11, 26, 12, 30, 15, 250000)
columns = {
    "int8": pa.array([1, None, -128], pa.int8()),
    "uint16": pa.array([1, 65535, None], pa.uint16()),
    "int64": pa.array([2**62, None, -1], pa.int64()),
    "float": pa.array([1.5, float("nan"), None], pa.float32()),
    "double": pa.array([1e300, None, -0.0], pa.float64()),
    "text": pa.array(["a", None, "ü"], pa.string()),
    "large": pa.array(["", "b", None], pa.large_string()),
    "bool": pa.array([True, None, False], pa.bool_()),
    "date": pa.array([day.date(), None, day.date()], pa.date32()),
    "seconds": pa.array([day, None, day], pa.timestamp("s")),
    "nanos": pa.array([day, None, day], pa.timestamp("ns", tz="UTC")),
    "nothing": pa.nulls(3),
}
write("types", pa.table(columns))
write("batches", pa.table(columns), chunk=1)
write("two", pa.table({"a": pa.array([1.0, None]), "b": pa.array(["x", None])}))
write("compressed", pa.table({"a": pa.array([1.0] * 50), "b": ["x"] * 50}), compression="zstd")
write("categories", pa.table({"a": [1.0], "b": pa.array(["x"]).dictionary_encode()}))
write("nulls", pa.table({name: pa.nulls(2000) for name in ["i0", "i1", "i2", "n0", "n1", "n2", "n3"]}))
