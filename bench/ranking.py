"""NDCG@10 on held-out queries of Coppice's Ranker, as it is, and of three other libraries' rankers, as they are.

usage: ranking.py DATA [--seeds N] [--trials N] [--tables NAME,...] [--only LIBRARY]

DATA has ltr/lightgbm_rank.train, .test and their .query files (3,773 rows of 251 queries, grades 0 to 4), and tables of other
questions of which orders are made: nycflights13_337k.csv.gz (an hour's flights by their delay, in four grades),
bank-additional-full.csv and flight_delays_100k.csv (random groups of 20 and 25 rows by their label). Each seed holds out a quarter
of the queries. Prints one JSON object per table and seed, and the mean paired differences. Needs the wheel, lightgbm, xgboost and
catboost (make bench-door's environment).
"""

import argparse
import json
import warnings

import catboost
import lightgbm
import numpy as np
import pandas as pd
import xgboost

import coppice


def ltr(data):
    rows, grades, sizes = [], [], []
    for part in ("train", "test"):
        with open(f"{data}/ltr/lightgbm_rank.{part}") as f:
            for line in f:
                grade, *cells = line.split()
                grades.append(int(float(grade)))
                rows.append({f"f{k}": float(v) for k, v in (c.split(":") for c in cells)})
        with open(f"{data}/ltr/lightgbm_rank.{part}.query") as f:
            sizes += [int(line) for line in f]
    frame = pd.DataFrame(rows).fillna(0)
    frame["grade"], frame["query"] = grades, np.repeat(np.arange(len(sizes)), sizes)
    return frame


def nycflights(data):
    f = pd.read_csv(f"{data}/nycflights13_337k.csv.gz").dropna(subset=["arr_delay", "hour"])
    f["query"] = (f.month * 10000 + f.day * 100 + f.hour).astype(int)
    f["grade"] = np.digitize(f.arr_delay, [0, 15, 45, 120])
    some = np.random.default_rng(0).choice(f["query"].unique(), 1500, replace=False)
    known = ["arr_delay", "dep_delay", "dep_time", "arr_time", "air_time", "year"]  # after the flight, or always the same
    return f[f["query"].isin(some)].drop(columns=known, errors="ignore")


def bank(data):
    f = pd.read_csv(f"{data}/bank-additional-full.csv", sep=";").drop(columns="duration").sample(frac=0.6, random_state=0)
    f["grade"], f["query"] = (f.pop("y") == "yes").astype(int), np.arange(len(f)) // 20
    return f


def flight_delays(data):
    f = pd.read_csv(f"{data}/flight_delays_100k.csv").drop(columns="split").sample(40_000, random_state=0)
    f["grade"], f["query"] = f.pop("target").astype(int), np.arange(len(f)) // 25
    return f


TABLES = {"ltr": ltr, "nycflights": nycflights, "bank": bank, "flight_delays": flight_delays}


def ndcg(grade, score, query, k=10):
    """The mean over queries with a grade above 0."""
    values = []
    for rows in pd.Series(range(len(query))).groupby(query).apply(list):
        gain = 2.0 ** grade[rows] - 1
        discount = 1 / np.log2(np.arange(2, min(len(rows), k) + 2))
        if gain.any():
            order = np.argsort(-score[rows], kind="stable")[:k]
            values.append(gain[order] @ discount / (np.sort(gain)[::-1][:k] @ discount))
    return float(np.mean(values))


def makers(train, test, seed, trials):
    """A function for each library that trains it and scores test: texts are categories, by each library's own means."""
    x, y, sizes = train.drop(columns=["grade", "query"]), train.grade, train.groupby("query").size()
    t = test[x.columns]
    texts = [c for c in x if not pd.api.types.is_numeric_dtype(x[c])]
    kinds = {c: pd.CategoricalDtype(sorted(x[c].dropna().unique())) for c in texts}
    cats = lightgbm.LGBMRanker(verbose=-1, n_jobs=2, random_state=seed)
    hist = xgboost.XGBRanker(n_jobs=2, random_state=seed, enable_categorical=True)
    yeti = catboost.CatBoostRanker(verbose=0, thread_count=2, random_seed=seed, cat_features=texts)

    def plain(f):
        return f.assign(**{c: f[c].fillna("").astype(str) for c in texts})

    return {
        "coppice": lambda: coppice.Ranker(trials=trials, random_state=seed).fit(train, "grade", group="query").predict(t),
        "lightgbm": lambda: cats.fit(x.astype(kinds), y, group=sizes).predict(t.astype(kinds)),
        "xgboost": lambda: hist.fit(x.astype(kinds), y, group=sizes).predict(t.astype(kinds)),
        "catboost": lambda: yeti.fit(plain(x), y, group_id=train["query"]).predict(plain(t)),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--tables", type=lambda s: s.split(","), default=list(TABLES), help="of " + ", ".join(TABLES))
    parser.add_argument("--only", help="one of coppice, lightgbm, xgboost, catboost")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    for table in args.tables:
        frame, results = TABLES[table](args.data), []
        for seed in range(args.seeds):
            queries = frame["query"].unique()
            held = frame["query"].isin(queries[np.random.default_rng(seed).random(len(queries)) < 0.25])
            train, test = frame[~held].sort_values("query", kind="stable"), frame[held].sample(frac=1, random_state=seed)
            result = {
                name: ndcg(test.grade.values, np.asarray(score()), test["query"].values)
                for name, score in makers(train, test, seed, args.trials).items()
                if args.only in (None, name)
            }
            print(json.dumps({"table": table, "seed": seed, **result}), flush=True)
            results.append(result)
        for name in ("lightgbm", "xgboost", "catboost") if args.only is None else ():
            d = np.array([r["coppice"] - r[name] for r in results])
            se = d.std(ddof=1) / len(d) ** 0.5 if len(d) > 1 else None
            print(json.dumps({"table": table, "less": name, "mean": d.mean(), "se": se}), flush=True)


if __name__ == "__main__":
    main()
