"""What tells good configurations early: their first trees on all rows, or all trees on few rows?

usage: search_fidelity.py --data FOLDER --bin FOLDER [--only TABLE,...] [--rows N] [--configurations N] [--seed N]

Each random configuration is trained to its end; with a third and a ninth of the trees, as
search.stop compares them by trees; and with all trees on one row in 5 and in 25, the same rows in
every tree (min_data_in_leaf and lambda_l2 shrink with them), as it compares them by rows. Rank
correlation is Spearman's, of the cheap score on valid with that of the whole training; kept is the
regret of the best among the quarter that the cheap one ranks highest: (best - found) / (best -
median) of whole trainings. One JSON object a table, then a table of all. """

import argparse
import json
import os
import sys
import tempfile

import numpy as np
import pandas as pd

import search_nights
import search_quality
from ids_tables import Source

TREES = 135
WAYS = [("trees", 3), ("trees", 9), ("rows", 5), ("rows", 25)]
METRICS = {"log_loss": -1, "average_precision": 1, "auc": 1}  # and which way is better
NEVER = 100_000  # trees after which the sample would be drawn again
SPACE = """metric: {{name: log_loss, maximize: false}}
seed: {seed}
search:
  method: {method}
  random:
    learning_rate: {{log_uniform: [0.01, 0.5]}}
    num_leaves: {{log_int: [4, 160]}}
    min_data_in_leaf: {{log_int: [5, 1000]}}
    feature_fraction: {{uniform: [0.3, 1.0]}}
    lambda_l2: {{log_uniform: [0.01, 100]}}
"""


class Night(search_quality.Night):
    fixed, space = {"num_iterations": TREES, "metric": list(METRICS), "seed": 1}, SPACE

    def metrics(self, params):
        got = self.train(params)["metrics"]
        return {m: got[m] * sign for m, sign in METRICS.items()}


def cheaper(params, what, share):
    if what == "trees":
        return params | {"num_iterations": TREES // share}
    return params | {
        "bagging_fraction": 1 / share,
        "bagging_freq": NEVER,
        "lambda_l2": params["lambda_l2"] / share,
        "min_data_in_leaf": max(round(params["min_data_in_leaf"] / share), 2),
    }


def judged(cheap, whole):
    """Rank correlation, and the regret of keeping a quarter. Higher is better."""
    cheap, whole = np.array(cheap), np.array(whole)
    rank = np.corrcoef(*(np.argsort(np.argsort(v)) for v in (cheap, whole)))[0, 1]
    kept = np.argsort(-cheap, kind="stable")[: max(len(cheap) // 4, 1)]
    return {"rank": float(rank), "regret": float((whole.max() - whole[kept].max()) / (whole.max() - np.median(whole)))}


def measure(programs, table, source, rows, n, seed):
    with tempfile.TemporaryDirectory() as folder:
        frame = search_quality.drawn(pd.concat(table.frames(source), ignore_index=True), rows)
        night = Night(programs, folder + "/table", table, frame)
        tried = [c["params"] for c in search_nights.ask(night, "random", seed, n)]
        whole = [night.metrics(p) for p in tried]
        line = {"table": table.name, "rows": len(frame), "configurations": n}
        for what, share in WAYS:
            cheap = [night.metrics(cheaper(p, what, share)) for p in tried]
            line[f"1/{share} of the {what}"] = {
                m: judged([c[m] for c in cheap], [w[m] for w in whole]) for m in METRICS
            }
        return line


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("data", "bin"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--only", default="amexpert,nycflights-tail")
    for name, n in (("rows", 30_000), ("configurations", 40), ("seed", 7)):
        parser.add_argument(f"--{name}", type=int, default=n)
    a = parser.parse_args()

    told = []
    for table in search_quality.TABLES:
        if table.name in a.only.split(","):
            told.append(
                measure(
                    os.path.abspath(a.bin),
                    table,
                    Source(a.data, search_quality.SIZE, 0),
                    a.rows,
                    a.configurations,
                    a.seed,
                )
            )
            print(json.dumps(told[-1]), flush=True)

    names = [f"1/{share} of the {what}" for what, share in WAYS]
    print(
        "\n| table, metric: rank correlation (regret of the quarter that is kept) | "
        + " | ".join(names)
        + " |\n"
        + "|---" * (len(names) + 1)
        + "|"
    )
    for t in told:
        for m in METRICS:
            print(
                f"| {t['table']}, {m} | "
                + " | ".join(f"{t[w][m]['rank']:.2f} ({t[w][m]['regret']:.3f})" for w in names)
                + " |"
            )


if __name__ == "__main__":
    sys.exit(main())
