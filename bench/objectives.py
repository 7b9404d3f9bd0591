"""Metrics on held-out rows of Coppice and of LightGBM for every objective, with the same parameters on the same bins.

usage: objectives.py --data FOLDER --bin FOLDER --out FOLDER [--seeds N]

The table is a part of nycflights13: delays in minutes, or what is made of them so that an objective takes it. Bags and features
are drawn, so that seeds mean something. Prints one JSON object per objective: the mean of its metric over the seeds.
"""

import argparse
import concurrent.futures
import json
import os
import subprocess
import warnings

import numpy as np
import pandas as pd

import measure
import tables

PARAMS = dict(
    bagging_fraction=0.8, bagging_freq=1, feature_fraction=0.8, num_leaves=31, learning_rate=0.1, num_iterations=60
)


def mean(loss):
    return lambda y, p, w: float(np.average(loss(y, p), weights=w))


def log_loss(y, p):
    p = np.clip(p, 1e-15, 1 - 1e-15)
    return -y * np.log(p) - (1 - y) * np.log1p(-p)


def tweedie(y, p, rho=1.3):
    return y * p ** (1 - rho) / (rho - 1) + p ** (2 - rho) / (2 - rho)


def ndcg(group, k=10):
    """Less NDCG@k, so that less is better, as launcher's metric: rows of equal predictions share the discounts of their places."""
    discount = 1 / np.log2(np.arange(2, len(group) + 2))

    def value(y, p):
        gain = 2.0**y - 1
        best = np.sort(gain)[::-1][:k] @ discount[: min(k, len(y))]
        if best == 0:
            return 1.0
        _, run, size = np.unique(-p, return_inverse=True, return_counts=True)
        place = np.where(np.arange(len(y)) < k, discount[: len(y)], 0)
        share = np.bincount(np.repeat(np.arange(len(size)), size), place) / size
        return gain @ share[run] / best

    def rate(y, p, w):
        rows = queries(group)
        return -float(np.average([value(y[r], p[r]) for r in rows], weights=None if w is None else [w[r].mean() for r in rows]))

    return rate


def queries(group):
    """The rows of each group, ascending."""
    order = np.argsort(group, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(group[order])) + 1)


def of_class(y, p):
    return -np.log(np.maximum(p[np.arange(len(y)), y.astype(int)], 1e-15))


LABELS = {
    "delay": lambda d: d,
    "positive": lambda d: np.where(d > 0, d, np.nan),
    "ahead as 0": lambda d: np.maximum(d, 0),
    "share of an hour": lambda d: np.clip(d, 0, 60) / 60,
    "late": lambda d: (d > 15) * 1.0,
    "quarters": lambda d: np.maximum(d, 0) // 15,
    "grade": lambda d: np.digitize(d, [0, 15, 45, 120]) * 1.0,
}


RANK = ("lambdarank", "rank_xendcg")  # flights of an airport's day, by how late they are
LATE = "{column: y, kind: regression}"
CLASSES = ("multiclass",)  # of how late a flight is
# name: the label, parameters, metric, its formula, and whether rows have weights
CASES = {
    "regression": ("delay", {}, "l2", mean(lambda y, p: (p - y) ** 2), False),
    "regression sqrt": ("delay", {"reg_sqrt": True}, "mae", mean(lambda y, p: abs(p - y)), False),
    "regression_l1": ("delay", {}, "mae", mean(lambda y, p: abs(p - y)), False),
    "regression_l1 weighted": ("delay", {}, "mae", mean(lambda y, p: abs(p - y)), True),
    "huber": ("delay", {"alpha": 15.0}, "huber@15", mean(lambda y, p: np.where(abs(p - y) <= 15, (p - y) ** 2 / 2, 15 * (abs(p - y) - 7.5))), False),
    "quantile": ("delay", {"alpha": 0.8}, "quantile@0.8", mean(lambda y, p: np.maximum(0.8 * (y - p), 0.2 * (p - y))), False),
    "quantile weighted": ("delay", {"alpha": 0.3}, "quantile@0.3", mean(lambda y, p: np.maximum(0.3 * (y - p), 0.7 * (p - y))), True),
    "poisson": ("quarters", {}, "poisson", mean(lambda y, p: p - y * np.log(p)), False),
    "gamma": ("positive", {}, "gamma_deviance", mean(lambda y, p: 2 * (y / p - 1 - np.log(y / p))), False),
    "tweedie": ("ahead as 0", {"tweedie_variance_power": 1.3}, "tweedie@1.3", mean(tweedie), False),
    "tweedie weighted": ("ahead as 0", {"tweedie_variance_power": 1.3}, "tweedie@1.3", mean(tweedie), True),
    "cross_entropy": ("share of an hour", {}, "soft_log_loss", mean(log_loss), False),
    "binary": ("late", {}, "log_loss", mean(log_loss), False),
    "binary scaled": ("late", {"scale_pos_weight": 3.0}, "log_loss", mean(log_loss), False),
    "multiclass": ("grade", {"num_class": 5}, "multi_logloss", mean(of_class), False),
    "multiclass weighted": ("grade", {"num_class": 5}, "multi_logloss", mean(of_class), True),
    "lambdarank": ("grade", {}, "ndcg@10", None, False),
    "lambdarank weighted": ("grade", {"lambdarank_norm": False, "lambdarank_truncation_level": 8, "label_gain": "0,1,2,5,9"}, "ndcg@10", None, True),
    "rank_xendcg": ("grade", {}, "ndcg@10", None, False),
    "binary unbalanced": ("late", {"is_unbalance": True}, "log_loss", mean(log_loss), False),
}  # fmt: skip


def coppice(programs, place, params, metric, seed, file):
    with open(file, "w") as f:
        for k, v in dict(params, metric=metric, seed=seed).items():
            f.write(f"{k}: {json.dumps(v)}\n")
    out = subprocess.run(measure.training(programs, place, file), capture_output=True, text=True)
    if out.returncode:
        raise SystemExit(out.stderr)
    return json.loads(out.stdout)["metrics"][metric]


def targets(place, split, column):
    import pyarrow.ipc as ipc

    return ipc.open_file(f"{place}/{split}/targets.arrow").read_all()[column].to_numpy()


class Staged:
    """The flights with a label, and perhaps weights, as Coppice and as LightGBM see them."""

    def __init__(self, args, flights, label, kind, weighted, ranked):
        frame = flights.drop(columns="arr_delay")
        frame["y"] = LABELS[label](flights.arr_delay.values.astype(float))
        frame = frame[frame.y.notna()].reset_index(drop=True)
        more = ""
        if weighted:
            frame["w"] = np.where(frame.carrier == "UA", 3.0, 0.5)
            more += "weight: w\n"
        if ranked:
            frame["q"] = frame.origin + frame.month.astype(str) + "-" + frame.day.astype(str)
            trains = np.random.default_rng(3).random(frame.q.nunique()) < 0.7
            frame["part"] = np.where(trains[pd.factorize(frame.q)[0]], "train", "valid")
            more += "group: q\n"
        name = f"{label.replace(' ', '-')}{'-ranked' * ranked}{'-weighted' * weighted}"
        folder = f"{args.out}/{name}"
        tables.keep(tables.Table(name, frame, "y", kind, frame.y.values), folder, ".csv", "none" if ranked else "auto")
        with open(folder + "/dataset.yaml", "a") as f:
            f.write(more)
        place = self.place = tables.stage(args.bin, folder + "/dataset.yaml", args.out)
        (x, y, self.categorical), (self.vx, self.vy, _) = tables.same_bins(place)
        w, self.vw = [targets(place, s, "weight") if weighted else None for s in ("train", "valid")]
        self.sizes = None
        if ranked:  # LightGBM wants the rows of a query to be neighbours
            rows = queries(targets(place, "train", "group"))
            order, self.sizes = np.concatenate(rows), [len(r) for r in rows]
            x, y, w = x[order], y[order], None if w is None else w[order]
            self.group = targets(place, "valid", "group")
        self.x, self.y, self.w = x, y, w


def compared(args, t, case):
    import lightgbm as lgb

    _, params, metric, rate, _ = CASES[case]
    objective = case.split()[0]
    if objective in RANK:
        rate = ndcg(t.group)
    full = dict(PARAMS, **params)
    scores = {"coppice": [], "lightgbm": []}
    for seed in range(1, (max(args.seeds, 5) if objective in RANK else args.seeds) + 1):
        file = f"{args.out}/{case}.yaml"
        value = coppice(args.bin, t.place, dict(full, objective=objective), metric, seed, file)
        scores["coppice"].append(-value if objective in RANK else value)
        data = lgb.Dataset(t.x, t.y, weight=t.w, group=t.sizes, categorical_feature=t.categorical or "auto")
        model = lgb.train(dict(full, objective=objective, seed=seed, verbose=-1, num_threads=1), data)
        scores["lightgbm"].append(rate(t.vy, model.predict(t.vx), t.vw))
    usual = np.full(len(t.vy), np.average(t.vy, weights=t.vw))
    if objective in CLASSES:
        share = np.bincount(t.vy.astype(int), t.vw, minlength=5) / (len(t.vy) if t.vw is None else t.vw.sum())
        usual = np.tile(share, (len(t.vy), 1))
    scores["constant"] = [rate(t.vy, usual, t.vw)]  # what the mean costs
    return {"objective": case, "metric": metric, **{k: float(np.mean(v)) for k, v in scores.items()}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("data", "bin", "out"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--seeds", type=int, default=5, help="an order takes 5 at least: one moves its metric by 1 %%")
    parser.add_argument("--rows", type=int, default=60000)
    parser.add_argument("--draw", type=int, default=1, help="of the table's rows")
    parser.add_argument("--only", default="", help="the cases whose names begin so")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    flights = tables.nycflights(args.data, np.random.default_rng(5)).frame
    flights = flights.sample(args.rows, random_state=args.draw).reset_index(drop=True)

    cases, staged = [c for c in CASES if c.startswith(args.only)], {}
    for case in cases:
        label, weighted, objective = CASES[case][0], CASES[case][4], case.split()[0]
        kind = "y" if objective == "binary" else "{column: y, kind: classes}" if objective in CLASSES else LATE
        key = (label, kind, weighted, objective in RANK)
        if key not in staged:
            staged[key] = Staged(args, flights, *key)
        staged[case] = staged[key]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:  # each training has one thread
        for row in pool.map(lambda case: compared(args, staged[case], case), cases):
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
