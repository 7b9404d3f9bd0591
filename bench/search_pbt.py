"""Population-based training over boosting rounds (Jaderberg et al. 2017), beside as many trees of fixed configurations.

usage: search_pbt.py --data FOLDER --bin FOLDER [--only TABLE,...] [--rows N] [--seeds N]

A population of ten trains 600 trees each, 30 at a time. After each step the worst two of it go on
from the models of the best two, with every number of their parameters multiplied by 0.8 or 1.25.
Beside it ten random configurations and ten of `auto`, asked for one at a time, have the same 600
trees, and stop early like the population, whose best model after any step counts. Everybody begins
with the same space; log loss of the best on valid, and of that one model on test. One JSON object a
table and seed, then a table of means. """

import argparse
import json
import os
import random
import shutil
import statistics
import sys
import tempfile

import pandas as pd

import search_nights
import search_quality
from ids_tables import Source

POPULATION, STEPS, TREES, REPLACED = 10, 20, 30, 2
FACTORS = 0.8, 1.25
WHOLE = {"num_leaves", "min_data_in_leaf"}
BOUNDS = {
    "learning_rate": (0.02, 0.3),
    "num_leaves": (4, 256),
    "min_data_in_leaf": (3, 1000),
    "feature_fraction": (0.2, 1),
    "bagging_fraction": (0.4, 1),
    "lambda_l2": (0.01, 1000),
    "path_smooth": (0.01, 100),
}
WAYS = "random", "auto", "population"


class Member:
    """A configuration with its model so far."""

    def __init__(self, params, model):
        self.params, self.model, self.value, self.began = params, model, None, False

    def train(self, night, step):
        night.fixed = search_quality.FIXED | {
            "num_iterations": TREES,
            "early_stopping_round": 0,
            "bagging_freq": 1,
            "seed": step + 1,
        }
        before = ["--input-model", self.model, "--input-dataset", night.place + "/manifest.json"] if self.began else []
        with open(f"{night.folder}/member.yaml", "w") as f:
            f.writelines(f"{k}: {json.dumps(v)}\n" for k, v in {**night.fixed, **self.params}.items())
        done = search_nights.run(
            f"{night.programs}/task",
            "train",
            "--dataset",
            night.place,
            "--params",
            f"{night.folder}/member.yaml",
            "--threads",
            "1",
            "--out",
            self.model,
            "--json",
            "--no-rate",
            "--no-verify",
            *before,
        )
        self.value, self.began = json.loads(done)["metrics"]["log_loss"], True

    def follow(self, better, rng):
        shutil.copyfile(better.model, self.model)
        self.params, self.value = dict(better.params), better.value
        for name, (low, high) in BOUNDS.items():
            v = min(max(better.params[name] * rng.choice(FACTORS), low), high)
            self.params[name] = round(v) if name in WHOLE else v


def population(night, configurations, seed):
    """The log loss on valid and test of the best model that a population comes to."""
    rng = random.Random(seed)
    members = [Member(dict(params), f"{night.folder}/member-{i}.txt") for i, params in enumerate(configurations)]
    best, kept = float("inf"), f"{night.folder}/best.txt"
    for step in range(STEPS):
        for m in members:
            m.train(night, step)
        members.sort(key=lambda m: m.value)
        if members[0].value < best:
            best = members[0].value
            shutil.copyfile(members[0].model, kept)
        for worse, better in zip(members[-REPLACED:], members):
            worse.follow(better, rng)
    test = json.loads(
        search_nights.run(
            sys.executable, "-W", "ignore", f"{search_nights.HERE}/ids_peers.py", "score", night.place, kept
        )
    )
    return {"valid": best, "test": test["log_loss"]}


def measure(programs, table, source, rows, seed):
    with tempfile.TemporaryDirectory() as folder:
        frame = search_quality.drawn(pd.concat(table.frames(source), ignore_index=True), rows)
        night = search_quality.Night(programs, folder + "/table", table, frame)
        drawn = [c["params"] for c in search_nights.ask(night, "random", seed, POPULATION)]
        asked = search_nights.warm(night, folder + "/auto.jsonl", seed, POPULATION, [])
        line = {"random": night.judge(drawn), "auto": night.judge(asked)}
        return {
            "table": table.name,
            "seed": seed,
            "rows": len(frame),
            **line,
            "population": population(night, drawn, seed),
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("data", "bin"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--only", default="criteo,bank,amexpert")
    for name, n in (("rows", 50_000), ("seeds", 3)):
        parser.add_argument(f"--{name}", type=int, default=n)
    a = parser.parse_args()

    told = []
    for table in search_quality.TABLES:
        for seed in range(1, a.seeds + 1) if table.name in a.only.split(",") else ():
            told.append(measure(os.path.abspath(a.bin), table, Source(a.data, search_quality.SIZE, 0), a.rows, seed))
            print(json.dumps(told[-1]), flush=True)

    print(
        "\n| table, log loss on test (on valid) | "
        + " | ".join(f"{POPULATION} {w}" if w != "population" else w for w in WAYS)
        + " |\n|---|---|---|---|"
    )
    for name in dict.fromkeys(t["table"] for t in told):
        some = [t for t in told if t["table"] == name]
        print(
            f"| {name} | "
            + " | ".join(
                "{:.4f} ({:.4f})".format(*(statistics.mean(t[w][s] for t in some) for s in ("test", "valid")))
                for w in WAYS
            )
            + " |"
        )


if __name__ == "__main__":
    sys.exit(main())
