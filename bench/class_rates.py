"""Would rates of ids per class pay? Each draw trains LightGBM with the same parameters on a table with its id column
as today (a category of the 254 most frequent levels, and a count) and with a column per class more: the share of the
class among the train rows of the same level that are in other folds, drawn towards the class's share by PRIOR rows.

Predicted before the run: log loss falls where an id says much of the class and has many levels (the plane of a
carrier's flight), and by no more than its standard error elsewhere. The idea is dropped unless it falls beyond two
standard errors on two of three tables."""

import argparse

import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier, early_stopping, log_evaluation

from classes import losses

PRIOR, FOLDS, KEPT = 10, 5, 254


def tables(data: str):
    f = pd.read_csv(f"{data}/nycflights13_337k.csv.gz")
    f = f[f.arr_delay.notna() & f.tailnum.notna()].reset_index(drop=True)
    y = pd.cut(f.arr_delay, [-1e9, 0, 15, 45, 120, 1e9], labels=["early", "on time", "late", "very late", "lost"])
    planned = ["month", "day", "hour", "minute", "origin", "dest", "distance", "carrier", "tailnum"]
    yield "lateness", f[[c for c in planned if c in f]], y.astype(str), "tailnum"
    yield "carrier", f[["month", "day", "hour", "distance", "dep_delay", "air_time", "tailnum"]], f.carrier, "tailnum"
    a = pd.read_csv(f"{data}/ads_amexpert_display_60k.csv")
    x = a.drop(columns=["session_id", "product", "product_category_1", "product_category_2", "DateTime"])
    yield "product", x, a["product"], "user_id"


def rates(level, codes, k, train):
    """Per class, of other folds for train rows and of all train rows for others."""
    prior = np.bincount(codes[train], minlength=k) / train.sum()
    fold = np.where(train, np.random.default_rng(0).integers(FOLDS, size=len(codes)), -1)
    levels = level.nunique() + 1
    number = pd.factorize(level, use_na_sentinel=False)[0]
    out = np.empty((len(codes), k))
    for f in range(-1, FOLDS):
        seen, rows = train & (fold != f), fold == f
        counts = np.zeros((levels, k))
        np.add.at(counts, (number[seen], codes[seen]), 1)
        shares = (counts + PRIOR * prior) / (counts.sum(axis=1, keepdims=True) + PRIOR)
        out[rows] = shares[number[rows]]
    return pd.DataFrame(out).add_prefix("rate_")


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--data", required=True)
    p.add_argument("--rows", type=int, default=60_000)
    p.add_argument("--draws", type=int, default=3)
    p.add_argument("--only", default="")
    a = p.parse_args()
    print("| table | rows | levels | classes | today | with rates | change |\n|---|---|---|---|---|---|---|")
    for name, x_all, y_all, ids in tables(a.data):
        if a.only and name != a.only:
            continue
        values = []
        for draw in range(a.draws):
            rng = np.random.default_rng(draw)
            keep = rng.random(len(y_all)) < a.rows / len(y_all)
            x, y = x_all[keep].reset_index(drop=True), y_all[keep].reset_index(drop=True)
            part = rng.choice(3, size=len(y), p=[0.6, 0.15, 0.25])
            ok = y.isin(y[part == 0]).to_numpy()
            x, y, part = x[ok].reset_index(drop=True), y[ok].reset_index(drop=True), part[ok]
            classes, codes = np.unique(y, return_inverse=True)
            seen = x[ids][part == 0].value_counts()
            more = rates(x[ids], codes, len(classes), part == 0)
            levels = x[ids].nunique()
            x["count"] = x[ids].map(seen).fillna(0)
            x[ids] = x[ids].where(x[ids].isin(seen.index[:KEPT]))
            x = x.astype({c: "category" for c in x if not pd.api.types.is_numeric_dtype(x[c]) or c == ids})
            pair = []
            for table in (x, pd.concat([x, more], axis=1)):
                model = LGBMClassifier(n_estimators=400, learning_rate=0.1, reg_lambda=1, verbosity=-1)
                model.fit(table[part == 0], codes[part == 0], eval_set=[(table[part == 1], codes[part == 1])],
                          callbacks=[early_stopping(20, verbose=False), log_evaluation(0)])  # fmt: skip
                pair.append(losses(y[part == 2], model.predict_proba(table[part == 2]), classes).mean())
            values.append(pair)
        v = np.array(values)
        gap = v[:, 1] - v[:, 0]
        print(f"| {name} | {len(y)} | {levels} | {len(classes)} | {v[:, 0].mean():.4f} | {v[:, 1].mean():.4f} | "
              f"{gap.mean():+.4f} ± {gap.std(ddof=1) / np.sqrt(len(gap)):.4f} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
