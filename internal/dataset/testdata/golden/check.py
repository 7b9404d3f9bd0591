"""Reads the golden dataset with pyarrow, polars and DuckDB, and compares the two layouts and the three readers.

The files themselves come from `go test -run Golden -update ./internal/dataset` (see golden_test.go). Run this with a Python that
has pyarrow, polars, duckdb and numpy: python check.py [folder]
"""

import hashlib
import json
import pathlib
import sys

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "want")
manifest = json.loads((folder / "manifest.json").read_text())
names = [f["name"] for f in manifest["features"]]


def batch(name):
    with pa.memory_map(str(folder / name)) as source:
        reader = pa.ipc.open_file(source)
        assert reader.num_record_batches == 1
        b = reader.get_batch(0)
        b.validate(full=True)
        return b


for info in manifest["files"]:
    data = (folder / info["name"]).read_bytes()
    assert len(data) == info["bytes"]
    step = 8 << 20
    assert [hashlib.sha256(data[i : i + step]).hexdigest() for i in range(0, len(data), step)] == info["blocks"]

for split in manifest["splits"]:
    s, n = split["name"], split["rows"]
    rows = batch(f"{s}/rows.arrow").column(0)
    assert len(rows) == n and rows.type.byte_width == len(names)
    bins = np.frombuffer(rows.buffers()[1], dtype=np.uint8, count=n * len(names)).reshape(n, len(names))
    columns = batch(f"{s}/columns.arrow")
    assert columns.schema.names == names
    whole = pa.Table.from_batches([columns])
    in_polars = pl.read_ipc(folder / s / "columns.arrow")
    for j, name in enumerate(names):
        column = columns.column(j).to_numpy()
        assert (column == bins[:, j]).all() and (column == in_polars[name].to_numpy()).all()
        quoted = '"' + name.replace('"', '""') + '"'
        (total,) = duckdb.sql(f"select sum({quoted}) from whole").fetchall()[0]
        assert total == int(column.astype(np.int64).sum())
    targets = pa.Table.from_batches([batch(f"{s}/targets.arrow")])
    assert targets.num_rows == n and max(targets["fold"].to_pylist()) < 10
    assert pl.read_ipc(folder / s / "targets.arrow").height == n

sample = batch("sample.arrow")
assert sample.schema.metadata[b"split"].decode() == manifest["sample"]["split"]
assert pl.read_ipc(folder / "sample.arrow").height == manifest["sample"]["rows"]
print(
    f"{folder}: {len(manifest['files'])} files agree in pyarrow {pa.__version__}, polars {pl.__version__}, duckdb {duckdb.__version__}"
)
