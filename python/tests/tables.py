"""Reads the tables of `make tables` as Python's users have them, and compares the values with those of `launcher predict`.

python tables.py FOLDER, which holds for each table a folder with t.csv, features.json and values (little-endian float64)."""

import csv
import pathlib
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.csv

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import coppice  # noqa: E402
from coppice import _program  # noqa: E402
from coppice._columns import Table  # noqa: E402
from coppice._encoder import Encoder  # noqa: E402
from coppice._encoding import decode  # noqa: E402


FITTED = 11  # every so many tables go through the estimator, too


def fitted(folder, missing):
    """Whether the estimator, which gets the table as pyarrow reads it, trains what `launcher fit` does on the file."""
    texts = {"strings_can_be_null": True, "true_values": [], "false_values": []}  # in CSV true is a text
    read = pyarrow.csv.ConvertOptions(null_values=missing, **texts)
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as out:
        warnings.simplefilter("ignore")
        model = coppice.Classifier(trials=1, minutes=1, split="random", params={"num_iterations": 9}, verbose=False)
        model.fit(pyarrow.csv.read_csv(folder / "t.csv", convert_options=read), "y")
        pathlib.Path(f"{out}/params").write_text("num_iterations: 9\n", "utf-8")
        args = ["fit", folder / "t.csv", "--label", "y", "--trials", "1", "--minutes", "1", "--split", "random",
                "--name", "model", "--params", f"{out}/params", "--data", f"{out}/cloud", "--out", f"{out}/version"]
        subprocess.run([_program.path(), *args], check=True, capture_output=True)
        return pathlib.Path(f"{out}/version/model.txt").read_bytes() == model._files["model.txt"]


def main():
    wrong = 0
    for i, folder in enumerate(sorted(pathlib.Path(sys.argv[1]).iterdir(), key=lambda f: int(f.name))):
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
        if i % FITTED == 0 and not fitted(folder, list(encoding.missing)):
            print(f"{folder.name}, {data['x'][:5]}: the estimator trains another model than `launcher fit`")
            wrong += 1
    sys.exit(wrong)


if __name__ == "__main__":
    main()
