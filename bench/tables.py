"""The tables that are measured on: two synthetic ones, and public ones that the user has in a folder.

Every table has a column "part" that says which rows are for training and which are held out, so
that all trainers see the same. What is made of a table is kept in a cache folder: the peers' form
(a pickle of features, labels and the names or positions of categorical columns) and the form that
Coppice stages. """

import json
import os
import pickle
import subprocess
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

MISSING = ["", "NA"]


@dataclass
class Table:
    name: str
    frame: pd.DataFrame  # features, the label's column and part
    column: str  # the label's
    label: str  # as dataset.yaml has it
    y: np.ndarray  # 0 and 1
    missing: list = field(default_factory=list)  # texts that stand for a missing value beside MISSING

    def features(self):
        """Features as a user of LightGBM has them: missing values and categories as pandas knows them."""
        x = self.frame.drop(columns=[self.column, "part"])
        for token in self.missing:
            x = x.replace(token, np.nan)
        categorical = [c for c in x.columns if not pd.api.types.is_numeric_dtype(x[c])]
        x[categorical] = x[categorical].astype("category")
        return x, categorical

    def train(self):
        return (self.frame.part == "train").values


def part(rng, rows):
    return np.where(rng.random(rows) < 0.75, "train", "valid")


def bank(data, rng):
    t = pd.read_csv(data + "/bank-additional-full.csv", sep=";", keep_default_na=False).drop(columns="duration")
    t["part"] = part(rng, len(t))
    return Table("bank", t, "y", '{column: y, positive: "yes"}', (t.y == "yes").values, ["unknown"])


def criteo(data, rng):
    t = pd.read_csv(data + "/ads_criteo_10k.tsv", sep="\t", header=None, dtype={i: str for i in range(14, 40)})
    t.columns = ["c%d" % i for i in range(40)]
    t["part"] = part(rng, len(t))
    return Table("criteo", t, "c0", "c0", (t.c0 == 1).values)


def flights(data, _):
    t = pd.read_csv(data + "/flight_delays_100k.csv").rename(columns={"split": "part"})
    return Table("flights", t, "target", "target", (t.target == 1).values)


def nycflights(data, rng):
    t = pd.read_csv(data + "/nycflights13_337k.csv.gz")
    t = t[t.arr_delay.notna()].reset_index(drop=True)
    t = t.drop(columns=["arr_time", "air_time", "dep_delay", "dep_time"])  # known only after the flight has left
    t["part"] = part(rng, len(t))
    return Table("nycflights", t, "arr_delay", "{column: arr_delay, above: 15}", (t.arr_delay > 15).values)


def kddcup(data, rng):
    t = pd.read_csv(data + "/kddcup99_10pct_494k.csv.gz")
    t["attack"] = (t.pop("label") != "normal.").astype(int)
    t["part"] = part(rng, len(t))
    return Table("kddcup99", t, "attack", "attack", (t.attack == 1).values)


def real(data):
    """The four tables of `make quality`; one generator draws all their parts, in this order."""
    rng = np.random.default_rng(5)
    for make in (bank, criteo, flights, nycflights):
        yield make(data, rng)


def dense(rows, held_out=None, seed=11):
    """rows x 28 numbers to train on and a fifth as many held out; waves, steps and products, with much noise."""
    held_out = rows // 5 if held_out is None else held_out
    rng = np.random.Generator(np.random.PCG64(seed))
    n = rows + held_out
    x = rng.standard_normal((n, 28), dtype=np.float32)
    x[:, 7:14] = np.exp(0.8 * x[:, 7:14])
    x[:, 14:18] = rng.random((n, 4), dtype=np.float32)
    z = 0.5 * np.sin(2 * x[:, 0]) + 0.4 * x[:, 1] * x[:, 2] - 0.5 * (x[:, 3] > 0.5) + 0.3 * np.log1p(x[:, 7]) * x[:, 4]
    z += (
        0.6 * (x[:, 14] - 0.5) * np.sign(x[:, 5])
        + 0.25 * np.abs(x[:, 6])
        - 0.2 * np.minimum(x[:, 8], 3)
        + 0.15 * x[:, 18:24].sum(axis=1) * (x[:, 15] > 0.3)
    )
    return numbers("dense", x, z, rng, rows)


def sparse(rows, held_out=None, seed=12):
    """rows x 400 numbers of which nine in ten are 0, and a quarter as many rows held out."""
    held_out = rows // 4 if held_out is None else held_out
    rng = np.random.Generator(np.random.PCG64(seed))
    n = rows + held_out
    x = np.exp(0.7 * rng.standard_normal((n, 400), dtype=np.float32)).round(2)
    x[rng.random((n, 400), dtype=np.float32) < 0.9] = 0
    w = rng.standard_normal(400).astype(np.float32) * (np.arange(400) < 120)
    z = (
        0.35 * (x > 0).astype(np.float32) @ w
        + 0.2 * np.minimum(x, 2) @ np.roll(w, 60)
        + 1.5 * (x[:, 0] > 0) * (x[:, 1] > 0)
    )
    return numbers("sparse", x, z - np.median(z), rng, rows)


def numbers(name, x, z, rng, rows):
    y = rng.random(len(x)) < 1 / (1 + np.exp(-z))
    frame = pd.DataFrame(x, columns=[f"f{i:03d}" for i in range(x.shape[1])])
    frame["label"] = y.astype(np.int8)
    frame["part"] = np.where(np.arange(len(x)) < rows, "train", "valid")
    return Table(name, frame, "label", "label", y)


def keep(table, folder, source_suffix=".parquet", encodings="auto"):
    """Writes the peers' form and the source that Coppice stages into folder; with encodings "none" of the same columns,
    as trainers are compared."""
    os.makedirs(folder, exist_ok=True)
    x, categorical = table.features()
    if not categorical:  # an array is the fastest way into every peer
        x = np.ascontiguousarray(x.to_numpy(np.float32 if (x.dtypes == np.float32).all() else np.float64))
    train = table.train()
    for split, rows in (("train", train), ("valid", ~train)):
        save(f"{folder}/{split}.pickle", (x[rows], table.y[rows].astype(np.float64), categorical))
    source = f"{folder}/{table.name}{source_suffix}"
    if source_suffix == ".csv":
        table.frame.to_csv(source, index=False)
    else:
        table.frame.to_parquet(source, index=False)
    with open(f"{folder}/dataset.yaml", "w") as f:
        f.write(
            f"name: {table.name}\nsource: {table.name}{source_suffix}\nlabel: {table.label}\nmissing: {json.dumps(MISSING + table.missing)}\n"
            f"split: {{by: column, column: part}}\nencodings: {encodings}\n"
        )


def save(path, value):
    """Writes a pickle that is there completely or not at all."""
    with open(path + ".part", "wb") as f:
        pickle.dump(value, f, protocol=5)
    os.replace(path + ".part", path)


def load(path):
    with open(path, "rb") as f:
        return pickle.load(f)


def stage(programs, spec, out, *more):
    """Stages a dataset.yaml with Coppice and returns the folder of the version."""
    run = subprocess.run(
        [programs + "/launcher", "stage", spec, "--out", out, "--json", *more], capture_output=True, text=True
    )
    if run.returncode:
        raise SystemExit(run.stderr)
    return json.loads(run.stdout)["place"]


def same_bins(place):
    """A staged table as LightGBM sees it when it is given Coppice's bins: what (train, valid) are
    for its own tables."""
    import pyarrow.ipc as ipc

    with open(place + "/manifest.json") as f:
        manifest = json.load(f)
    categorical = [i for i, f in enumerate(manifest["features"]) if f["kind"] == "categorical"]

    def split(name):
        columns = ipc.open_file(f"{place}/{name}/columns.arrow").read_all()
        label = ipc.open_file(f"{place}/{name}/targets.arrow").read_all()["label"].to_numpy()
        return np.column_stack([c.to_numpy() for c in columns.columns]).astype(np.float32), label, categorical

    return split("train"), split("valid")
