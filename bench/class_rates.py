"""Do statistics of ids pay where the label has several classes, or where rows of a query are put in an order?

Classes: each draw stages ROWS rows, split at random, with the id as a category of its 254 most frequent levels
and a count (what was made until now), with the count alone, and with a rate for each of the most frequent
classes but one, at most 8, and a count; `task train` learns each with the same parameters. Needs the programs
(make build).

Rankings: each draw trains LightGBM with the id as a category and a count, with the count alone, and with a
count and the mean grade of the id's rows, or of their grade less its query's mean ("centred"), in COPIES random
orders of the queries of train: a row sees those of queries before its own, so never one of its own.

`shuffled` gives each row another row's id, so that nothing may be gained beside the count alone.

First criterion, of unordered shares by LightGBM: dropped unless log loss falls beyond two standard errors on
two of three tables; one was finished, and rose. Written before the second run, of ordered rates: built if log
loss falls, below the better of the other two, beyond two paired standard errors and by half a per cent on two
of the first three tables and three of all five, rises beyond two on none, and does not fall beyond two on
`shuffled`. Expected: `carrier` and `product` fall much, `lateness` and `route` by less than a per cent,
`device` not at all. (A run of it by LightGBM was given up after one table, and one draw of what is here was
looked at; SEED sets the draws apart.) Of rankings: built if NDCG@10 rises, above the better of the other two,
beyond two paired standard errors and by .005 on two of three tables with one kind of mean, falls beyond two on
none with the same, and does not rise beyond two on `shuffled`. Expected: `nycflights` rises, the others do not."""

import argparse
import json
import pathlib
import subprocess
import tempfile

import numpy as np
import pandas as pd
from lightgbm import LGBMRanker, early_stopping

from ranking import ndcg

KEPT, COPIES, SEED = 254, 4, 2
LATE, NAMES = [-1e9, 0, 15, 45, 120, 1e9], ["early", "on time", "late", "very late", "lost"]


def flights(data):
    f = pd.read_csv(f"{data}/nycflights13_337k.csv.gz")
    return f[f.arr_delay.notna() & f.tailnum.notna()].reset_index(drop=True)


def ads(data):
    return pd.read_csv(f"{data}/ads_amexpert_display_60k.csv")


def classes(data):
    """Name, features, labels, and the column of ids."""
    f = flights(data)
    late = pd.cut(f.arr_delay, LATE, labels=NAMES).astype(str)
    planned = f[["month", "day", "hour", "minute", "origin", "dest", "distance", "carrier", "tailnum"]]
    yield "lateness", planned, late, "tailnum"
    yield "carrier", f[["month", "day", "hour", "distance", "dep_delay", "air_time", "tailnum"]], f.carrier, "tailnum"
    a = ads(data)
    no = ["session_id", "product", "product_category_1", "product_category_2", "DateTime"]
    yield "product", a.drop(columns=no), a["product"], "user_id"
    r = pd.read_parquet(f"{data}/flights-3m.parquet").sample(300_000, random_state=0).reset_index(drop=True)
    x = pd.DataFrame({"hour": r.date.dt.hour, "day": r.date.dt.day_of_year, "weekday": r.date.dt.day_of_week,
                      "distance": r.distance, "route": r.origin.astype(str) + r.destination.astype(str)})  # fmt: skip
    yield "route", x, pd.cut(r.delay, LATE, labels=NAMES).astype(str), "route"
    c = pd.read_csv(f"{data}/ads_criteo_10k.tsv", sep="\t", header=None).add_prefix("c")
    y = c.c30.fillna("none").astype(str)  # 9 values
    yield "device", c[[f"c{k}" for k in range(14)] + ["c20"]], y, "c20"
    planned = planned.assign(tailnum=np.random.default_rng(0).permutation(f.tailnum.to_numpy()))
    yield "shuffled", planned, late, "tailnum"


def rankings(data):
    """Name, features, grades, the query of each row, and the column of ids."""
    f = flights(data)
    f = f[f.hour.notna()]
    query = (f.month * 10_000 + f.day * 100 + f.hour).astype(int)
    f = f[query.isin(np.random.default_rng(0).choice(query.unique(), 1500, replace=False))].reset_index(drop=True)
    planned = f[["month", "day", "hour", "minute", "origin", "dest", "distance", "carrier", "tailnum"]]
    grade, query = np.digitize(f.arr_delay, [0, 15, 45, 120]), (f.month * 10_000 + f.day * 100 + f.hour).to_numpy(int)
    yield "nycflights", planned, grade, query, "tailnum"
    d = pd.read_csv(f"{data}/flight_delays_100k.csv").sample(30_000, random_state=0).reset_index(drop=True)
    x = d.drop(columns=["split", "target"])
    yield "flight_delays", x, d.target.to_numpy(int), np.arange(len(d)) // 25, "UniqueCarrier_OriginDest"
    a = ads(data).sort_values("DateTime", kind="stable").reset_index(drop=True)
    x = a.drop(columns=["session_id", "DateTime", "is_click"])
    yield "ads", x, a.is_click.to_numpy(int), np.arange(len(a)) // 20, "user_id"
    planned = planned.assign(tailnum=np.random.default_rng(0).permutation(f.tailnum.to_numpy()))
    yield "shuffled", planned, grade, query, "tailnum"


def statistics(level, values, unit, train, rng):
    """Means of values (rows x columns) by level: for each of COPIES orders of train's units those of the units
    before, and for all rows those of all of train."""
    number = pd.factorize(level, use_na_sentinel=False)[0]
    prior = values[train].mean(axis=0)
    rows = np.flatnonzero(train)
    copies = []
    for _ in range(COPIES):
        place = rng.permutation(unit.max() + 1)[unit[rows]]
        order = np.lexsort((place, number[rows]))
        n, u, v = number[rows][order], place[order], values[rows][order]
        first = np.r_[True, n[1:] != n[:-1]]  # of a level
        own = np.r_[True, (n[1:] != n[:-1]) | (u[1:] != u[:-1])]  # of a unit within it, which sees none of its own rows
        before = np.vstack([np.zeros(v.shape[1]), np.cumsum(v, axis=0)])[:-1]
        at = np.maximum.accumulate(np.where(own, np.arange(len(n)), 0))
        start = np.maximum.accumulate(np.where(first, np.arange(len(n)), 0))
        out = np.empty_like(v)
        out[order] = (before[at] - before[start] + prior) / (at - start + 1)[:, None]
        copies.append(out)
    total = np.zeros((number.max() + 1, values.shape[1]))
    np.add.at(total, number[rows], values[rows])
    seen = np.bincount(number[rows], minlength=number.max() + 1)
    return copies, ((total + prior) / (seen + 1)[:, None])[number]


def staged(x, ids, train):
    """x with its id as staged without statistics."""
    seen = x.loc[train, ids].value_counts()
    x = x.assign(count=x[ids].map(seen).fillna(0))
    x[ids] = x[ids].where(x[ids].isin(seen.index[:KEPT]))
    return x.astype({c: "category" for c in x if not pd.api.types.is_numeric_dtype(x[c]) or c == ids})


def variants(x, ids, train, extra):
    """Tables of train and of all rows, and how many copies of train they have."""
    yield x[train], x, 1
    x = x.drop(columns=ids)
    yield x[train], x, 1
    for copies, every in extra:
        tall = [x[train].assign(mean=c[:, 0]) for c in copies]
        yield pd.concat(tall, ignore_index=True), x.assign(mean=every[:, 0]), COPIES


def parameters(copies):
    """A copy of a row is no more evidence than the row."""
    return {"n_estimators": 200, "learning_rate": 0.1, "reg_lambda": copies, "min_child_samples": 20 * copies,
            "min_child_weight": 1e-3 * copies, "verbosity": -1, "n_jobs": 1}  # fmt: skip


def draw_classes(table, rows, draw):
    """Log loss on valid of each encoding."""
    _, x, y, ids = table
    frame = x.assign(label=y.to_numpy()).sample(min(rows, len(x)), random_state=draw)
    frame = frame[frame.label.map(frame.label.value_counts()) >= 60]
    result = []
    with tempfile.TemporaryDirectory() as folder:
        f = pathlib.Path(folder)
        frame.to_csv(f / "t.csv", index=False)
        (f / "p.yaml").write_text("objective: multiclass\nmetric: multi_logloss\nlearning_rate: 0.1\nlambda_l2: 1\n"
                                  "num_iterations: 200\nearly_stopping_round: 10\n")  # fmt: skip
        for k, made in enumerate(("[categories, count]", "[count]", "[rate, count]")):
            (f / "d.yaml").write_text(f"name: t{k}\nsource: t.csv\nlabel: {{column: label, kind: classes}}\n"
                                      f"categorical: [{ids}]\nencodings: {{columns: {{{ids}: {made}}}}}\n"
                                      f"split: {{by: random, train: 0.6, valid: 0.4, seed: {draw}}}\n")  # fmt: skip
            run("launcher", "stage", f / "d.yaml", "--out", f / "data")
            (dataset,) = (f / "data" / f"t{k}").glob("*/manifest.json")
            out = run("task", "train", "--dataset", dataset.parent, "--params", f / "p.yaml", "--no-rate", "--json")
            result.append(json.loads(out)["metrics"]["multi_logloss"])
    return result


def run(program, *args):
    binary = pathlib.Path(__file__).resolve().parent.parent / "bin" / program
    return subprocess.run([binary, *args], check=True, capture_output=True, text=True).stdout


def draw_ranking(table, _, draw):
    _, x, grade, query, ids = table
    rng = np.random.default_rng(draw)
    query = pd.factorize(query)[0]
    by = np.argsort(query, kind="stable")
    x, grade, query = x.iloc[by].reset_index(drop=True), grade[by], query[by]
    part = rng.choice(3, size=query.max() + 1, p=[0.6, 0.15, 0.25])[query]
    centred = grade - (np.bincount(query, grade) / np.bincount(query))[query]
    extra = [statistics(x[ids], v[:, None].astype(float), query, part == 0, rng) for v in (grade, centred)]
    result = []
    for train, every, copies in variants(staged(x, ids, part == 0), ids, part == 0, extra):
        model = LGBMRanker(**parameters(copies))
        sizes, stop = np.unique(query[part == 0], return_counts=True)[1], part == 1
        model.fit(train, np.tile(grade[part == 0], copies), group=np.tile(sizes, copies),
                  eval_set=[(every[stop], grade[stop])], eval_group=[np.unique(query[stop], return_counts=True)[1]],
                  eval_at=[10], callbacks=[early_stopping(10, verbose=False)])  # fmt: skip
        result.append(ndcg(grade[part == 2], model.predict(every[part == 2]), query[part == 2]))
    return result


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--data", required=True)
    p.add_argument("--ranking", action="store_true")
    p.add_argument("--rows", type=int, default=30_000)
    p.add_argument("--draws", type=int, default=3)
    p.add_argument("--only", default="")
    a = p.parse_args()
    columns = ["mean", "centred"] if a.ranking else ["rates"]
    print("| table | levels | as a category | count alone | " + " | ".join(columns) + " |")
    print("|---|---|---|---" + "|---" * len(columns) + "|")
    tables, draw = (rankings, draw_ranking) if a.ranking else (classes, draw_classes)
    for table in tables(a.data):
        if a.only and table[0] not in a.only.split(","):
            continue
        v = np.array([draw(table, a.rows, SEED + d) for d in range(a.draws)])
        base = v[:, :2].mean(axis=0)
        best = base.argmax() if a.ranking else base.argmin()
        gap = v[:, 2:] - v[:, [best]]
        cells = [f"{m:+.4f} ± {s:.4f}" for m, s in zip(gap.mean(axis=0), gap.std(axis=0, ddof=1) / len(gap) ** 0.5)]
        levels = table[1][table[-1]].nunique()
        print(f"| {table[0]} | {levels} | {base[0]:.4f} | {base[1]:.4f} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
