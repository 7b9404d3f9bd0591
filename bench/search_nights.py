"""Nights in a row: few trials that know the nights before, beside fifty random ones that know nothing.

usage: search_nights.py --data FOLDER --bin FOLDER --out FOLDER [--nights N] [--first N] [--weekly N] [--random N]

Each night trains on five days of flights-3m.parquet, chooses by the log loss of the sixth and is
judged on the seventh, which nobody chooses by; the next night is a day later. The warm search asks
for one configuration at a time with the results of its own former nights (`launcher ask
--earlier`); it has --first trials in each of the first seven nights and --weekly in each later one.
The random search asks for --random configurations, each night others. Regret of a night is (found -
best) / (median - best) in log loss on the day that chooses: best is the best that anybody found
that night, median that of the random configurations. One JSON object a night, then a table. """

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

import pandas as pd
import pyarrow.parquet as pq

HERE = os.path.dirname(os.path.abspath(__file__))
TRAIN, WEEK = 5, 7
WAYS = "warm", "random"
SPACE = """metric: {{name: log_loss, maximize: false}}
seed: {seed}
search:
  method: {method}
  random:
    learning_rate: {{log_uniform: [0.01, 0.5]}}
    num_leaves: {{log_int: [4, 256]}}
    min_data_in_leaf: {{log_int: [5, 2000]}}
    feature_fraction: {{uniform: [0.2, 1]}}
    bagging_fraction: {{uniform: [0.3, 1]}}
    lambda_l2: {{log_uniform: [0.001, 1000]}}
    extra_trees: {{choice: [true, false]}}
"""
FIXED = {"num_iterations": 150, "early_stopping_round": 20, "metric": "log_loss", "bagging_freq": 1, "seed": 1}
DATASET = "name: night\nsource: {path}\nlabel: label\nsplit: {{by: column, column: split}}\nencodings: {{order: {{by: time, column: ts}}}}\n"


class Night:
    """A staged dataset of seven days, and what its configurations have come to."""

    fixed, space = FIXED, SPACE

    def __init__(self, programs, folder, days):
        self.programs, self.folder, self.known = programs, folder, {}
        table = pd.concat(days).rename(columns={"date": "ts"})
        table["label"] = (table.pop("delay") > 15).astype("int8")
        table["split"] = [
            s
            for n, day in enumerate(days)
            for s in [("train" if n < TRAIN else "valid" if n == TRAIN else "test")] * len(day)
        ]
        table.to_parquet(f"{folder}/table.parquet", index=False)
        with open(f"{folder}/dataset.yaml", "w") as f:
            f.write(DATASET.format(path=f"{folder}/table.parquet"))
        self.place = json.loads(
            run(f"{programs}/launcher", "stage", f"{folder}/dataset.yaml", "--out", f"{folder}/staged", "--json")
        )["place"]

    def train(self, params):
        with open(f"{self.folder}/params.yaml", "w") as f:
            f.writelines(f"{k}: {json.dumps(v)}\n" for k, v in {**self.fixed, **params}.items())
        return json.loads(
            run(
                f"{self.programs}/task",
                "train",
                "--dataset",
                self.place,
                "--params",
                f"{self.folder}/params.yaml",
                "--threads",
                "1",
                "--out",
                f"{self.folder}/model.txt",
                "--json",
                "--no-rate",
                "--no-verify",
            )
        )

    def value(self, params):
        """Log loss on valid."""
        key = json.dumps(params, sort_keys=True)
        if key not in self.known:
            self.known[key] = self.train(params)["metrics"]["log_loss"]
        return self.known[key]

    def judge(self, tried):
        """The best of some configurations, with its log loss on the day that nobody chose by."""
        best = min(tried, key=self.value)
        self.train(best)
        test = json.loads(
            run(sys.executable, "-W", "ignore", f"{HERE}/ids_peers.py", "score", self.place, f"{self.folder}/model.txt")
        )
        return {"valid": self.value(best), "test": test["log_loss"]}


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}")
    return done.stdout


def ask(night, method, seed, n, results=None, earlier=()):
    with open(f"{night.folder}/space.yaml", "w") as f:
        f.write(night.space.format(method=method, seed=seed))
    more = [f"--results={results}"] * (results is not None) + [f"--earlier={e}" for e in earlier]
    return [
        json.loads(line)
        for line in run(
            f"{night.programs}/launcher", "ask", f"{night.folder}/space.yaml", "--n", str(n), *more
        ).splitlines()
    ]


def warm(night, path, seed, trials, earlier):
    """The configurations of a search of one trial after the other, whose results are left at path."""
    tried = []
    open(path, "w").close()
    for _ in range(trials):
        asked = ask(night, "auto", seed, 1, path, earlier)[0]
        tried.append(asked["params"])
        with open(path, "a") as f:
            f.write(
                json.dumps(
                    {
                        "trial": asked["trial"],
                        "params": asked["params"],
                        "value": night.value(asked["params"]),
                        "status": "done",
                    }
                )
                + "\n"
            )
    return tried


def mean(values):
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return f"{statistics.mean(values):.4f} ± {error:.4f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("data", "bin", "out"):
        parser.add_argument(f"--{name}", required=True)
    for name, n in (("nights", 14), ("first", 25), ("weekly", 10), ("random", 50)):
        parser.add_argument(f"--{name}", type=int, default=n)
    a = parser.parse_args()
    programs = os.path.abspath(a.bin)
    os.makedirs(a.out, exist_ok=True)

    flights = pq.read_table(f"{a.data}/flights-3m.parquet").to_pandas()
    by_day = [rows for _, rows in flights.groupby(flights.date.dt.floor("D"))]
    told, earlier = [], []
    for n in range(a.nights):
        with tempfile.TemporaryDirectory(dir=a.out) as folder:
            night = Night(programs, folder, by_day[n : n + TRAIN + 2])
            trials = a.first if n < WEEK else a.weekly
            path = os.path.abspath(f"{a.out}/night-{n:02}.jsonl")
            drawn = [c["params"] for c in ask(night, "random", 1000 + n, a.random)]
            line = {
                "night": n,
                "trials": trials,
                "warm": night.judge(warm(night, path, n, trials, earlier)),
                "random": night.judge(drawn),
            }
            median = statistics.median(map(night.value, drawn))
        earlier.append(path)
        best = min(line[who]["valid"] for who in WAYS)
        for who in WAYS:
            line[who]["regret"] = (line[who]["valid"] - best) / (median - best)
        told.append(line)
        print(json.dumps(line), flush=True)

    print(
        f"\n| nights | warm trials | regret, warm | regret, {a.random} random | test log loss, warm - random |\n|---|---|---|---|---|"
    )
    for name, some in (("first week", told[:WEEK]), ("later", told[WEEK:])):
        if some:
            difference = mean([t["warm"]["test"] - t["random"]["test"] for t in some])
            print(
                f"| {name}, {len(some)} | {some[0]['trials']} | {mean([t['warm']['regret'] for t in some])} | "
                f"{mean([t['random']['regret'] for t in some])} | {difference} |"
            )


if __name__ == "__main__":
    main()
