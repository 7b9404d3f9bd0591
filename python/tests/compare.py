"""Compares the package with what the Go programs made of a table, and prints JSON.

python compare.py --version FOLDER --table FILE --scored FILE --values FILE [--model NAME] [--reader
pyarrow|pandas] [--plant seed|level|sum]

scored is what `launcher predict --raw` wrote (Parquet), values the model's matrix as little-endian
float64. --plant makes an error on purpose, which the comparison must see: another seed of the hash
of texts, or a bit of levels.arrow. With --model, version is the place of the registry. """

import argparse
import json
import pathlib
import shutil
import sys
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import coppice  # noqa: E402
from coppice import _hash  # noqa: E402
from coppice._columns import Table  # noqa: E402


def read(path, reader):
    """The table as a user of either library has it; of CSV all columns as texts."""
    if reader == "pandas":
        import pandas as pd

        if path.endswith(".csv"):
            return pd.read_csv(path, dtype=str, na_filter=False)
        frame = pd.read_parquet(path)
        for name in (
            f.name for f in pq.read_schema(path) if pa.types.is_uint64(f.type)
        ):  # ids that a float64 does not hold
            frame[name] = pd.read_parquet(path, columns=[name], dtype_backend="numpy_nullable")[name]
        return frame
    if not path.endswith(".csv"):
        return pq.read_table(path)
    names = pa.csv.open_csv(path).schema.names
    return pa.csv.read_csv(
        path,
        convert_options=pa.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
        ),
    )


def damaged(version, plant, into):
    """A copy of the version with one bit of levels.arrow altered: of the hash or of the sum of
    labels of the level with the most rows."""
    folder = pathlib.Path(into) / "version"
    shutil.copytree(version, folder)
    path = folder / "levels.arrow"
    data = bytearray(path.read_bytes())
    batch = pa.ipc.open_file(pa.BufferReader(bytes(data))).get_batch(0)
    held = batch.column("hash" if plant == "level" else "sum")
    at = bytes(data).index(held.buffers()[1].to_pybytes()[: 8 * len(held)])
    most = int(np.argmax(batch.column("rows").to_numpy()))
    data[at + 8 * most + (0 if plant == "level" else 6)] ^= 0x10  # of a sum, the exponent's last bit
    path.write_bytes(data)
    return folder


def largest(a, b):
    """The largest difference, the greatest number where only one is NaN."""
    if len(a) != len(b):
        return sys.float_info.max
    both = np.isnan(a) & np.isnan(b)
    d = np.abs(np.where(both, 0, a) - np.where(both, 0, b))
    return float(np.where(np.isfinite(d), d, sys.float_info.max).max())


def main():
    p = argparse.ArgumentParser()
    for name in ("version", "table", "scored", "values"):
        p.add_argument("--" + name, required=True)
    p.add_argument("--reader", default="pyarrow")
    p.add_argument("--plant", default="")
    p.add_argument("--model")
    o = p.parse_args()
    result = {}
    with tempfile.TemporaryDirectory() as into:
        if o.plant == "seed":
            _hash.SEED_TEXT ^= 1
        version, verify = o.version, True
        if o.plant in ("level", "sum"):
            version, verify = damaged(o.version, o.plant, into), False
            try:
                coppice.Model.load(version)
                result["refused"] = False
            except coppice.CorruptError:
                result["refused"] = True
        model = coppice.Model.load(version, o.model, verify=verify)
        data = read(o.table, o.reader)
        values = model.encode(data)
        want = np.fromfile(o.values, dtype="<f8").reshape(-1, len(model.features))
        scored = pq.read_table(o.scored)
        differ = values.view(np.uint64) != want.view(np.uint64)
        differ &= ~(np.isnan(values) & np.isnan(want))
        result |= {
            "rows": len(values),
            "features": len(model.features),
            "inputs": model.inputs,
            "values_differ": int(differ.sum()),
            "differ_in": [model.features[i] for i in np.flatnonzero(differ.any(axis=0))],
            "max_diff": largest(model.predict(data), scored["prediction"].to_numpy()),
            "max_raw_diff": largest(model.predict(data, raw=True), scored["raw_score"].to_numpy()),
        }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
