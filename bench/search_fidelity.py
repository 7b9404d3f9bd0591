"""What tells good configurations early: few trees on all rows, or all trees on few rows?

usage: search_fidelity.py --data FOLDER --bin FOLDER [--only TABLE,...] [--rows N] [--configurations N] [--seed N]

Each random configuration is trained to its end, with an eighth and a thirty-second of the trees, and with all trees on the same share of the
rows of train, the same rows in every tree (min_data_in_leaf and lambda_l2 shrink with them). Both cheaper ways cost about the same. Rank correlation
is Spearman's, of the cheap log loss on valid with that of the whole training; kept is the regret of the best among the third that the cheap one
ranks highest: (found - best) / (median - best) of whole trainings. One JSON object a table, then a table of all.
"""
import argparse
import json
import os
import statistics
import sys
import tempfile

import numpy as np
import pandas as pd

import search_nights
import search_quality
from ids_tables import Source

TREES, SHARES = 256, (8, 32)
NEVER = 100_000  # trees after which the sample would be drawn again


class Night(search_quality.Night):
    fixed = {"num_iterations": TREES, "metric": "log_loss", "seed": 1}
    space = search_quality.SPACE.replace("    bagging_fraction: {{uniform: [0.4, 1]}}\n", "")

    def train(self, params):
        return search_nights.Night.train(self, params)


def fewer_rows(params, share):
    return params | {"bagging_fraction": 1 / share, "bagging_freq": NEVER, "lambda_l2": params["lambda_l2"] / share,
                     "min_data_in_leaf": max(round(params["min_data_in_leaf"] / share), 2)}


def judged(cheap, whole):
    """Rank correlation, and the regret of keeping a third."""
    ranks = [np.argsort(np.argsort(v)) for v in (cheap, whole)]
    kept = np.argsort(cheap, kind="stable")[:max(len(cheap) // 3, 1)]
    best = min(whole)
    return {"rank": float(np.corrcoef(*ranks)[0, 1]), "regret": (min(np.array(whole)[kept]) - best) / (statistics.median(whole) - best)}


def measure(programs, table, source, rows, n, seed):
    with tempfile.TemporaryDirectory() as folder:
        frame = search_quality.drawn(pd.concat(table.frames(source), ignore_index=True), rows)
        night = Night(programs, folder + "/table", table, frame)
        tried = [c["params"] for c in search_nights.ask(night, "random", seed, n)]
        whole = [night.value(p) for p in tried]
        line = {"table": table.name, "rows": len(frame), "configurations": n}
        for share in SHARES:
            line[f"1/{share} of the trees"] = judged([night.value(p | {"num_iterations": TREES // share}) for p in tried], whole)
            line[f"1/{share} of the rows"] = judged([night.value(fewer_rows(p, share)) for p in tried], whole)
        return line


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("data", "bin"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--only", default="amexpert,nycflights-planned,flights3m")
    for name, n in (("rows", 100_000), ("configurations", 30), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=n)
    a = parser.parse_args()

    told = []
    for table in search_quality.TABLES:
        if table.name in a.only.split(","):
            told.append(measure(os.path.abspath(a.bin), table, Source(a.data, search_quality.SIZE, 0), a.rows, a.configurations, a.seed))
            print(json.dumps(told[-1]), flush=True)

    ways = [f"1/{share} of the {what}" for share in SHARES for what in ("trees", "rows")]
    print("\n| rank correlation (regret of the third that is kept) | " + " | ".join(ways) + " |\n|---" * (len(ways) + 1) + "|")
    for t in told:
        print(f"| {t['table']} | " + " | ".join(f"{t[w]['rank']:.2f} ({t[w]['regret']:.3f})" for w in ways) + " |")


if __name__ == "__main__":
    sys.exit(main())
