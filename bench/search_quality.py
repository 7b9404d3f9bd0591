"""What a search is worth on real tables: one default configuration, fifty drawn at random, fifty
that learn, and twenty-five that know a search of the day before as well.

usage: search_quality.py --data FOLDER --bin FOLDER --out FOLDER [--only TABLE,...] [--rows N] [--trials N] [--warm N]

Everybody chooses by the log loss on valid and shows one model to test. The day before is the
table's own train split, the first 70 % of which train there and the rest choose (by time, or at
random where rows have none): nothing of tonight's valid or test is in it. One JSON object a table,
then a table of all; a table whose object is in FOLDER already is not measured again. Of a larger
table, --rows rows are drawn, in their order: fifty configurations of a table say more about a
search than one of all its rows. """

import argparse
import json
import os
import sys
import tempfile

import numpy as np
import pandas as pd

import ids_tables
import search_nights
from ids_tables import Source, Table

SPACE = """metric: {{name: log_loss, maximize: false}}
seed: {seed}
search:
  method: {method}
  random:
    learning_rate: {{log_uniform: [0.02, 0.3]}}
    num_leaves: {{log_int: [4, 256]}}
    min_data_in_leaf: {{log_int: [3, 1000]}}
    feature_fraction: {{uniform: [0.2, 1]}}
    bagging_fraction: {{uniform: [0.4, 1]}}
    lambda_l2: {{log_uniform: [0.01, 1000]}}
    extra_trees: {{choice: [true, false]}}
    path_smooth: {{log_uniform: [0.01, 100]}}
"""
FIXED = {"num_iterations": 600, "early_stopping_round": 30, "metric": "log_loss", "seed": 1}
WAYS = "default", "random", "auto", "warm"


def bank(source):
    t = pd.read_csv(source.data + "/bank-additional-full.csv", sep=";").drop(columns="duration")
    t["label"] = (t.pop("y") == "yes").astype("int8")
    t["split"] = ids_tables.by_share(np.random.default_rng((25, source.seed)).random(len(t)))
    yield t


def kddcup(source):
    t = pd.read_csv(source.data + "/kddcup99_10pct_494k.csv.gz")
    t["label"] = (t["label"] != "normal.").astype("int8")
    t["split"] = ids_tables.by_share(np.random.default_rng((26, source.seed)).random(len(t)))
    yield t


TABLES = [
    ids_tables.TABLES[name]
    for name in (
        "flight-delays-held",
        "nycflights-time",
        "nycflights-planned",
        "nycflights-tail",
        "criteo",
        "amexpert",
        "flights3m",
    )
] + [
    Table("bank", "bank marketing, 41,188 rows, at random", bank, [], drawn=True),
    Table("kddcup99", "KDD Cup 1999, 494,021 rows, at random", kddcup, [], drawn=True),
]
SIZE = 0.1  # of the scaled ones


class Night(search_nights.Night):
    """A staged table, and what its configurations have come to."""

    fixed, space = FIXED, SPACE

    def __init__(self, programs, folder, table, frame):
        self.programs, self.folder, self.known = programs, folder, {}
        os.makedirs(folder)
        frame.to_parquet(f"{folder}/table.parquet", index=False)
        with open(f"{folder}/dataset.yaml", "w") as f:
            f.write(table.spec(f"{folder}/table.parquet", None))
        self.place = json.loads(
            search_nights.run(
                f"{programs}/launcher", "stage", f"{folder}/dataset.yaml", "--out", f"{folder}/staged", "--json"
            )
        )["place"]

    @classmethod
    def of(cls, programs, folder, place):
        """A table that is staged already; what is trained on it goes into the folder."""
        night = cls.__new__(cls)
        night.programs, night.folder, night.known, night.place = programs, folder, {}, place
        return night

    def train(self, params):
        return super().train(({"bagging_freq": 1} if "bagging_fraction" in params else {}) | params)


def before(frame, timed):
    """The day before: train alone, of which the last 30 % choose."""
    t = frame[frame.split == "train"].reset_index(drop=True)
    order = np.arange(len(t)) if timed else np.random.default_rng(27).permutation(len(t))
    t["split"] = np.where(order < 0.7 * len(t), "train", "valid")
    return t


def drawn(frame, rows):
    """rows of the table, in their order, or all of a smaller one."""
    if not 0 < rows < len(frame):
        return frame
    return frame.iloc[np.sort(np.random.default_rng(28).choice(len(frame), rows, replace=False))].reset_index(drop=True)


def measure(programs, table, source, rows, trials, few):
    with tempfile.TemporaryDirectory() as folder:
        frame = drawn(pd.concat(table.frames(source), ignore_index=True), rows)
        yesterday, tonight = (
            Night(programs, folder + "/before", table, before(frame, table.timed)),
            Night(programs, folder + "/tonight", table, frame),
        )
        earlier = folder + "/before.jsonl"
        search_nights.warm(yesterday, earlier, 1, trials, [])

        tried = {
            "default": [{}],
            "random": [c["params"] for c in search_nights.ask(tonight, "random", 2, trials)],
            "auto": search_nights.warm(tonight, folder + "/auto.jsonl", 2, trials, []),
            "warm": search_nights.warm(tonight, folder + "/warm.jsonl", 2, few, [earlier]),
        }
        return {
            "table": table.name,
            "title": table.title,
            "rows": len(frame),
            "trials": {w: len(tried[w]) for w in WAYS},
        } | {w: tonight.judge(tried[w]) for w in WAYS}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("data", "bin", "out"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--only", default="")
    for name, n in (("rows", 50_000), ("trials", 50), ("warm", 25)):
        parser.add_argument(f"--{name}", type=int, default=n)
    a = parser.parse_args()
    os.makedirs(a.out, exist_ok=True)

    told = []
    for table in TABLES:
        if a.only and table.name not in a.only.split(","):
            continue
        path = f"{a.out}/{table.name}.json"
        if not os.path.exists(path):
            line = measure(os.path.abspath(a.bin), table, Source(a.data, SIZE, 0), a.rows, a.trials, a.warm)
            with open(path + ".part", "w") as f:
                json.dump(line, f)
            os.replace(path + ".part", path)
        with open(path) as f:
            told.append(json.load(f))
        print(json.dumps(told[-1]), flush=True)

    print(
        f"\n| table, log loss on test (on valid) | rows | default | {a.trials} random | {a.trials} `auto` | {a.warm} `auto`, warm |\n|---|---|---|---|---|---|"
    )
    for t in told:
        print(
            f"| {t['title']} | {t['rows']:,} | "
            + " | ".join(f"{t[w]['test']:.4f} ({t[w]['valid']:.4f})" for w in WAYS)
            + " |"
        )


if __name__ == "__main__":
    sys.exit(main())
