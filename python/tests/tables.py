"""Reads the tables of `make tables` as Python's users have them, and compares the values with those of `launcher predict`.

python tables.py FOLDER, which holds for each table a folder with t.csv, features.json and values (little-endian float64)."""

import csv
import pathlib
import sys

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from coppice._columns import Table  # noqa: E402
from coppice._encoder import Encoder  # noqa: E402
from coppice._encoding import decode  # noqa: E402


def main():
    wrong = 0
    for folder in sorted(pathlib.Path(sys.argv[1]).iterdir()):
        if not (folder / "values").exists():
            continue
        encoding = decode((folder / "features.json").read_bytes())
        names, *rows = csv.reader((folder / "t.csv").open(encoding="utf-8", newline=""))
        data = {n: pa.array([row[i] for row in rows], pa.string()) for i, n in enumerate(names)}
        table = Table(data, encoding.inputs)
        got = np.empty((len(rows), len(encoding.features)))
        Encoder(encoding, None).encode(table.slice(0, len(rows)), got)
        want = np.frombuffer((folder / "values").read_bytes(), "<f8").reshape(got.shape)
        same = (got == want) | np.isnan(got) & np.isnan(want)
        if not same.all():
            row, column = np.argwhere(~same)[0]
            print(f"{folder.name}: row {row}, {data['x'][row]}: {got[row, column]} where predict has {want[row, column]}")
            wrong += 1
    sys.exit(wrong)


if __name__ == "__main__":
    main()
