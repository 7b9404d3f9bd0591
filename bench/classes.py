"""Several classes: what a person gets who configures nothing, on real tables, over seeds. `make bench-classes`.

A seed draws a table's rows and which quarter of them is judged; every library gets the same. Prints, for each table, the mean
log loss of each library and by how much it is above Coppice's, with the standard error of the differences over seeds."""

from __future__ import annotations

import argparse
import glob
import json
import os
import sys
import time
import warnings

import numpy as np
import pandas as pd

from door import WHO

warnings.simplefilter("ignore")
LEAST = 1e-15


def tables(data: str, folder: str):
    """Name and a function that returns features and labels; of a folder's CSV files the last column is the label."""
    if folder:
        for path in sorted(glob.glob(f"{folder}/*.csv")):

            def read(path=path):
                f = pd.read_csv(path, low_memory=False)
                return f.iloc[:, :-1], f.iloc[:, -1].astype(str)

            yield os.path.basename(path)[:-4], read
        return

    def kddcup99():  # kinds of attack; the rarest of 23 have two rows
        f = pd.read_csv(f"{data}/kddcup99_10pct_494k.csv.gz")
        return f.drop(columns="label"), f.label

    def flights():
        f = pd.read_csv(f"{data}/nycflights13_337k.csv.gz")
        return f[f.arr_delay.notna()].reset_index(drop=True)

    def lateness():
        f = flights()
        y = pd.cut(f.arr_delay, [-1e9, 0, 15, 45, 120, 1e9], labels=["early", "on time", "late", "very late", "lost"])
        return f.drop(columns=["arr_delay", "arr_time", "air_time", "dep_time", "dep_delay"]), y.astype(str)

    def carrier():
        f = flights()
        return f[["month", "day", "dep_time", "dep_delay", "air_time", "origin", "dest", "distance", "hour"]], f.carrier

    def job():
        f = pd.read_csv(f"{data}/bank-additional-full.csv", sep=";")
        return f.drop(columns="job"), f.job

    def product():  # which product is advertised
        f = pd.read_csv(f"{data}/ads_amexpert_display_60k.csv")
        return f.drop(columns=["session_id", "product", "product_category_1", "product_category_2"]), f["product"]

    def digits():
        from sklearn.datasets import load_digits

        x, y = load_digits(return_X_y=True, as_frame=True)
        return x, y.astype(str)

    for make in (kddcup99, lateness, carrier, job, product, digits):
        yield make.__name__, make


def drawn(x, y, rows, seed):
    """The rows of a seed, all those of rare classes among them, and which are judged."""
    rng = np.random.default_rng(seed)
    rare = (y.map(y.value_counts()) < 60).to_numpy()
    keep = np.flatnonzero(rare | (rng.random(len(y)) < rows / len(y)))
    x, y = x.iloc[keep].reset_index(drop=True), y.iloc[keep].reset_index(drop=True)
    judged = rng.random(len(y)) < 0.25
    judged &= y.isin(y[~judged]).to_numpy()  # a class that no row of train has is nobody's fault
    seen = y.isin(y[~judged]).to_numpy()
    return x[seen], y[seen], judged[seen]


def losses(y, p, classes):
    p = np.asarray(p, dtype=np.float64)
    p = np.maximum(p / p.sum(axis=1, keepdims=True), LEAST)
    return -np.log(p[np.arange(len(y)), np.searchsorted(classes, y)])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data")
    parser.add_argument("--tables", help="folder of CSV files instead of --data")
    parser.add_argument("--only", default="", help="tables, comma-separated")
    parser.add_argument("--who", default="coppice,lightgbm,xgboost,catboost")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=12_000, help="of each table that has more, about")
    parser.add_argument("--minutes", type=float, default=0.5)
    parser.add_argument("--trials", type=int, help="of Coppice; 1 trains its first configuration")
    parser.add_argument("--iterations", type=int, help="of CatBoost; 1,000 of many classes take long")
    parser.add_argument("--out", required=True, help="file of measurements, one JSON object a line")
    a = parser.parse_args()
    os.makedirs(os.path.dirname(a.out) or ".", exist_ok=True)
    who = a.who.split(",")
    print("| table | classes | " + " | ".join(who) + " |\n|---|---" + "|---" * len(who) + "|")
    for name, make in tables(a.data, a.tables):
        if a.only and name not in a.only.split(","):
            continue
        x_all, y_all = make()
        found = {w: [] for w in who}
        for seed in range(1, a.seeds + 1):
            x, y, judged = drawn(x_all, y_all, a.rows, seed)
            classes = np.unique(y)
            codes = pd.Series(np.searchsorted(classes, y), index=y.index)
            for w in who:
                began = time.monotonic()
                more = {"random_state": seed, "trials": a.trials} if w == "coppice" else {}
                if w == "catboost":
                    more = {"iterations": a.iterations}
                p = WHO[w](x[~judged], codes[~judged], x[judged], a.minutes, more)
                own = losses(y[judged], p, classes)
                found[w].append(own.mean())
                record = {"table": name, "seed": seed, "who": w, "log_loss": own.mean(), "classes": len(classes),
                          "error": float((p.argmax(1) != codes[judged]).mean()), "rows": int((~judged).sum()),
                          "trials": a.trials, "seconds": time.monotonic() - began}  # fmt: skip
                with open(a.out, "a") as out:
                    out.write(json.dumps(record) + "\n")
        cells = []
        for w in who:
            gap = np.array(found[w]) - np.array(found[who[0]])
            beside = f" ({gap.mean():+.4f} ± {gap.std(ddof=1) / np.sqrt(len(gap)):.4f})" if w != who[0] and len(gap) > 1 else ""
            cells.append(f"{np.mean(found[w]):.4f}{beside}")
        print(f"| {name} | {len(classes)} | " + " | ".join(cells) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
