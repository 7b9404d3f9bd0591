"""Scores of the Python package beside those of LightGBM, on one model: medians of alternating rounds.

    python bench/forest.py [--rows 100000] [--features 30] [--trees 200] [--leaves 63] [--rounds 5]

Prints a table of Markdown: milliseconds by number of rows. Both must give the same scores.
"""

import argparse
import pathlib
import re
import statistics
import sys
import time

import lightgbm
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))

from coppice import _forest, _trees  # noqa: E402


def table(rng, rows, features):
    """Numbers of which one in twenty is missing, and four columns of 200 categories."""
    x = rng.normal(size=(rows, features))
    x[rng.random(x.shape) < 0.05] = np.nan
    x[:, -4:] = rng.integers(0, 200, size=(rows, 4))
    return x


def model(rng, features, trees, leaves):
    """model.txt, trained on 40,000 rows."""
    x = table(rng, 40_000, features)
    y = np.nan_to_num(x) @ rng.normal(size=features) * 0.1 + rng.normal(size=len(x)) > 0
    categorical = list(range(features - 4, features))
    params = {"objective": "binary", "num_leaves": leaves, "verbose": -1, "num_threads": 1, "seed": 1}
    booster = lightgbm.train(params, lightgbm.Dataset(x, y, categorical_feature=categorical), trees)
    # Where only missing values go right, LightGBM writes a threshold that Coppice does not.
    return re.sub(rb"\binf\b", b"1e9", booster.model_to_string().encode())


def main():
    p = argparse.ArgumentParser()
    for name, default in (("rows", 100_000), ("features", 30), ("trees", 200), ("leaves", 63), ("rounds", 5)):
        p.add_argument(f"--{name}", type=int, default=default)
    o = p.parse_args()
    rng = np.random.default_rng(1)
    text = model(rng, o.features, o.trees, o.leaves)
    booster, forest = lightgbm.Booster(model_str=text.decode()), _forest.Forest(_trees.read(text))
    who = {f"lightgbm, {n} threads": lambda x, n=n: booster.predict(x, raw_score=True, num_threads=n) for n in (1, 2)}
    who |= {f"coppice, {n} threads": lambda x, n=n: forest(x, n) for n in (1, 2)}

    print("| rows | " + " | ".join(who).replace("1 threads", "1 thread") + " |")
    print("|---|" + "---|" * len(who))
    for rows in (1, 100, 10_000, o.rows):
        x, taken, scores = table(rng, rows, o.features), {name: [] for name in who}, {}
        for _ in range(o.rounds * (20 if rows <= 100 else 1)):
            for name, score in who.items():
                begin = time.perf_counter()
                scores[name] = score(x)
                taken[name].append(time.perf_counter() - begin)
        for got in scores.values():
            np.testing.assert_allclose(got, scores["lightgbm, 1 threads"], rtol=0, atol=1e-12)
        print(f"| {rows:,} | " + " | ".join(f"{1000 * statistics.median(t):.3g}" for t in taken.values()) + " |")


if __name__ == "__main__":
    main()
