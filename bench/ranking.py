"""NDCG@10 on held-out queries of Coppice's Ranker, as it is, and of three other libraries' rankers, as they are.

usage: ranking.py FOLDER [--seeds N] [--trials N] [--only NAME]

FOLDER has lightgbm_rank.train, .test and their .query files: 3,773 rows of 251 queries, grades 0 to 4. Each seed holds out a
quarter of the queries. Prints one JSON object per seed, and the mean paired differences. Needs the wheel, lightgbm, xgboost and
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


def read(folder):
    rows, grades, sizes = [], [], []
    for part in ("train", "test"):
        with open(f"{folder}/lightgbm_rank.{part}") as f:
            for line in f:
                grade, *cells = line.split()
                grades.append(int(float(grade)))
                rows.append({f"f{k}": float(v) for k, v in (c.split(":") for c in cells)})
        with open(f"{folder}/lightgbm_rank.{part}.query") as f:
            sizes += [int(line) for line in f]
    frame = pd.DataFrame(rows).fillna(0)
    frame["grade"], frame["query"] = grades, np.repeat(np.arange(len(sizes)), sizes)
    return frame


def ndcg(grade, score, query, k=10):
    """The mean over queries with a grade above 0."""
    values = []
    for q in np.unique(query):
        rows = np.flatnonzero(query == q)
        gain = 2.0 ** grade[rows] - 1
        discount = 1 / np.log2(np.arange(2, min(len(rows), k) + 2))
        if gain.any():
            order = np.argsort(-score[rows], kind="stable")[:k]
            values.append(gain[order] @ discount / (np.sort(gain)[::-1][:k] @ discount))
    return float(np.mean(values))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--only", help="one of coppice, lightgbm, xgboost, catboost")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    frame = read(args.folder)
    results = []
    for seed in range(args.seeds):
        queries = frame["query"].unique()
        held = frame["query"].isin(queries[np.random.default_rng(seed).random(len(queries)) < 0.25])
        train, test = frame[~held], frame[held].sample(frac=1, random_state=seed)
        x, y, sizes = train.drop(columns=["grade", "query"]), train.grade, train.groupby("query").size()
        makers = {
            "coppice": lambda: coppice.Ranker(trials=args.trials, random_state=seed).fit(train, "grade", group="query"),
            "lightgbm": lambda: lightgbm.LGBMRanker(verbose=-1, n_jobs=2, random_state=seed).fit(x, y, group=sizes),
            "xgboost": lambda: xgboost.XGBRanker(n_jobs=2, random_state=seed).fit(x, y, group=sizes),
            "catboost": lambda: catboost.CatBoostRanker(verbose=0, thread_count=2, random_seed=seed).fit(x, y, group_id=train["query"]),
        }  # fmt: skip
        result = {}
        for name, make in makers.items():
            if args.only in (None, name):
                score = np.asarray(make().predict(test[x.columns]))
                result[name] = ndcg(test.grade.values, score, test["query"].values)
        print(json.dumps(result), flush=True)
        results.append(result)
    if args.only is None:
        for name in ("lightgbm", "xgboost", "catboost"):
            d = np.array([r["coppice"] - r[name] for r in results])
            print(json.dumps({"less": name, "mean": d.mean(), "se": d.std(ddof=1) / len(d) ** 0.5 if len(d) > 1 else None}))


if __name__ == "__main__":
    main()
