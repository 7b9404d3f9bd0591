"""Validation log loss of Coppice and of LightGBM on real tables, with the same parameters.

usage: quality.py --data FOLDER --bin FOLDER --out FOLDER [--seeds N]

Each table is split into train and valid (by its own column, or at random with a fixed seed), staged by Coppice, and
trained on by both, with bagging so that seeds mean something. LightGBM is run twice: on the raw table with its own
binning (raw), and on Coppice's bins (bins), which compares the trainers alone. Prints one JSON object per table:
mean log loss over the seeds of each.
"""
import argparse
import json
import os
import subprocess
import warnings

import lightgbm as lgb
import numpy as np
import pandas as pd
import pyarrow.ipc as ipc

warnings.filterwarnings("ignore")
PARAMS = dict(num_leaves=31, learning_rate=0.1, bagging_fraction=0.8, bagging_freq=1, feature_fraction=0.8)
ROUNDS, PATIENCE = 200, 20


def tables(data):
    """name, table with a column part, label as dataset.yaml has it, label values, columns that are missing tokens."""
    rng = np.random.default_rng(5)

    def part(n):
        return np.where(rng.random(n) < 0.75, "train", "valid")

    bank = pd.read_csv(data + "/bank-additional-full.csv", sep=";", keep_default_na=False).drop(columns="duration")
    bank["part"] = part(len(bank))
    yield "bank", bank, '{column: y, positive: "yes"}', "y", (bank.y == "yes"), ["unknown"]
    criteo = pd.read_csv(data + "/ads_criteo_10k.tsv", sep="\t", header=None, dtype={i: str for i in range(14, 40)})
    criteo.columns = ["c%d" % i for i in range(40)]
    criteo["part"] = part(len(criteo))
    yield "criteo", criteo, "c0", "c0", criteo.c0 == 1, []
    flights = pd.read_csv(data + "/flight_delays_100k.csv").rename(columns={"split": "part"})
    yield "flights", flights, "target", "target", flights.target == 1, []
    nyc = pd.read_csv(data + "/nycflights13_337k.csv.gz")
    nyc = nyc[nyc.arr_delay.notna()].reset_index(drop=True)
    nyc = nyc.drop(columns=["arr_time", "air_time", "dep_delay", "dep_time"])
    nyc["part"] = part(len(nyc))
    yield "nycflights", nyc, "{column: arr_delay, above: 15}", "arr_delay", nyc.arr_delay > 15, []


def stage(args, name, table, label, missing):
    csv, spec = f"{args.out}/{name}.csv", f"{args.out}/{name}.yaml"
    table.to_csv(csv, index=False)
    tokens = json.dumps(["", "NA"] + missing)
    with open(spec, "w") as f:
        f.write(f"name: {name}\nsource: {csv}\nlabel: {label}\nmissing: {tokens}\nsplit: {{by: column, column: part}}\n")
    out = subprocess.run([args.bin + "/launcher", "stage", spec, "--out", args.out, "--json"], capture_output=True, text=True)
    if out.returncode:
        raise SystemExit(out.stderr)
    return json.loads(out.stdout)["place"]


def coppice(args, place, seed):
    params = args.out + "/params.yaml"
    with open(params, "w") as f:
        for k, v in dict(PARAMS, num_iterations=ROUNDS, early_stopping_round=PATIENCE, metric="log_loss", seed=seed).items():
            f.write(f"{k}: {v}\n")
    out = subprocess.run([args.bin + "/task", "train", "--dataset", place, "--params", params, "--json", "--threads", "2"],
                         capture_output=True, text=True)
    if out.returncode:
        raise SystemExit(out.stderr)
    return json.loads(out.stdout)["metrics"]["log_loss"]


def lightgbm(x, y, v, w, categorical, seed):
    train = lgb.Dataset(x, y, categorical_feature=categorical, free_raw_data=False)
    valid = lgb.Dataset(v, w, reference=train, categorical_feature=categorical, free_raw_data=False)
    seen = {}
    lgb.train(dict(PARAMS, objective="binary", metric="binary_logloss", verbose=-1, num_threads=2, seed=seed), train, ROUNDS,
              valid_sets=[valid], callbacks=[lgb.early_stopping(PATIENCE, verbose=False), lgb.record_evaluation(seen)])
    return min(seen["valid_0"]["binary_logloss"])


def bins(place):
    manifest = json.load(open(place + "/manifest.json"))

    def load(split):
        columns = ipc.open_file(f"{place}/{split}/columns.arrow").read_all()
        label = ipc.open_file(f"{place}/{split}/targets.arrow").read_all()["label"].to_numpy()
        return np.column_stack([c.to_numpy() for c in columns.columns]).astype(np.float64), label

    categorical = [i for i, f in enumerate(manifest["features"]) if f["kind"] == "categorical"]
    return *load("train"), *load("valid"), categorical


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("data", "bin", "out"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    seeds = range(1, args.seeds + 1)
    for name, table, label, column, y, missing in tables(args.data):
        place = stage(args, name, table, label, missing)
        x = table.drop(columns=[column, "part"])
        for token in missing:
            x = x.replace(token, np.nan)
        categorical = [c for c in x.columns if not pd.api.types.is_numeric_dtype(x[c])]
        x[categorical] = x[categorical].astype("category")
        train = (table.part == "train").values
        raw = (x[train], y[train].astype(float), x[~train], y[~train].astype(float), categorical)
        same = bins(place)
        row = {"table": name, "rows": len(table), "coppice": float(np.mean([coppice(args, place, s) for s in seeds])),
               "lightgbm_bins": float(np.mean([lightgbm(*same, s) for s in seeds])),
               "lightgbm_raw": float(np.mean([lightgbm(*raw, s) for s in seeds]))}
        print(json.dumps(row), flush=True)


main()
