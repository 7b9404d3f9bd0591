"""Ways to choose a configuration, and ways to stage a small table, on windows of real tables.

usage: choices.py --data FOLDER --bin FOLDER --out FOLDER [--only TABLE,...] [--seeds N] [--trials N] [--at-once N]

Each table of tomorrow.py, at most 30,000 rows of it, is staged with a split .7 .1 .1 .1. `gauge choices` trains the
default and what a sweep without a search section tries, one at a time, each on train and by five folds of train, and
leaves the losses on valid, calib, test and by folds in OUT. Seeds move the window of a table with days, and draw the
split of one without. Two tables are printed:

  rules of selection, each judged on test against the default and against the best on valid, and how often 500
  selections on rows drawn with replacement are worse than the default
  ways to stage (all pairs of ids; these beside found keys; what folds prefer; numbers less their means within ids),
  each with two configurations, and a race of several defaults, beside the sweep without them

A file that is there is not made again. """

import argparse
import concurrent.futures
import glob
import itertools
import json
import os
import sys
import tempfile

import numpy as np
import pandas as pd

import tomorrow
from ids_tables import Source

ROWS = 30_000
OF_IDS = {"learning_rate": 0.05, "lambda_l2": 10, "feature_fraction": 0.5, "extra_trees": True}
RACE = [OF_IDS, {"learning_rate": 0.05}]  # those of launcher fit, beside the default
VARIANTS = ("", "pairs", "added", "centred")
SHARED = 1 + 5 / 4  # variance of a mean over five folds, whose models share rows (Nadeau and Bengio, 2003)


def window(table, source, programs):
    """Rows of a table; the seed moves a window in time, but draws no other rows where there are no days."""
    if table.days:
        return table.windows(source, ROWS, programs)[0]
    frame = table.frame(source, ROWS, programs)
    if len(frame) > 1.4 * ROWS:
        frame = frame.iloc[np.sort(np.random.default_rng(5).choice(len(frame), ROWS, replace=False))]
    return frame.reset_index(drop=True)


def is_number(column):
    return pd.api.types.is_numeric_dtype(column)


def features(frame):
    return [c for c in frame if c not in ("label", "ts")]


def centred(frame, ids):
    """The frame with numbers less their mean within the levels of ids; None if it has no such columns."""
    numbers = [c for c in features(frame) if c not in ids and is_number(frame[c]) and frame[c].nunique() > 10]
    numbers = sorted(numbers, key=lambda c: -frame[c].nunique())[:4]
    of = [c for c in features(frame) if c not in numbers and (c in ids or not is_number(frame[c]))]
    of = sorted((c for c in of if 8 <= frame[c].nunique() <= len(frame) / 10), key=lambda c: -frame[c].nunique())[:3]
    frame = frame.copy()
    for n, c in itertools.product(numbers, of):
        x = frame[n].astype("float64")
        frame[f"{n}-by-{c}"] = (x - x.groupby(frame[c].astype(str)).transform("mean")).astype("float32")
    return frame if numbers and of else None


def pairs(frame, ids):
    of = [c for c in features(frame) if (c in ids or not is_number(frame[c])) and frame[c].nunique() > 2]
    return list(itertools.combinations(sorted(of, key=lambda c: -frame[c].nunique())[:7], 2))


def measure(programs, table, source, variant, trials, path):
    with tempfile.TemporaryDirectory() as folder:
        frame = window(table, source, programs)
        if variant == "centred" and (frame := centred(frame, table.ids)) is None:
            return
        frame.to_parquet(folder + "/window.parquet", index=False)

        def stage(more=""):
            with open(folder + "/dataset.yaml", "w") as f:
                f.write(table.spec(folder + "/window.parquet", source.seed) + more)
            told = tomorrow.run([programs + "/launcher", "stage", f.name, "--out", folder + "/staged", "--json"])
            return json.loads(told)["place"]

        more, keys = "", []
        if variant == "added":
            with open(stage() + "/manifest.json") as f:
                made = json.load(f)["about"].get("encodings", [])
            keys = [tuple(e["name"].split("+")) for e in made if e["why"] == "found"]
        if variant in ("pairs", "added"):
            known = set(map(frozenset, keys))
            keys += [p for p in pairs(frame, table.ids) if frozenset(p) not in known]
            more = f"encodings: {{keys: {json.dumps(keys[:24])}, budget: 0}}\n"
        fixed = ["--trials", "1" if variant else str(trials), "--fixed", json.dumps(RACE), "--seed", str(source.seed)]
        told = tomorrow.run([programs + "/gauge", "choices", stage(more), *fixed])
    with open(path + ".part", "w") as f:
        f.write(told)
    os.replace(path + ".part", path)


class Sweep:
    """Losses of the configurations of one table and seed by group of rows, less the default's."""

    def __init__(self, found, trials):
        of = found["candidates"]
        self.rows = found["rows"]
        loss = {s: np.array([c["loss"][s] for c in of]) for s in ("train", "valid", "calib", "test")}
        self.d = {s: v - v[0] for s, v in loss.items()}
        self.default = loss["test"][0].mean()
        self.calibrated = np.array([c["final"] for c in of])
        self.test = 100 * self.d["test"].mean(1) / self.default
        self.error = 100 * self.d["test"].std(1) / self.d["test"].shape[1] ** 0.5 / self.default
        self.sweep = np.arange(trials)

    def seen(self, splits, drawn):
        """Each configuration's lead over the default on the rows of some splits, and its standard error."""
        all_ = sum(self.rows[s] for s in splits)
        mean, variance = 0, 0
        for s in splits:
            d, w, n = self.d[s], self.rows[s] / all_, self.d[s].shape[1]
            m = d @ drawn[s] / n
            v = (d**2) @ drawn[s] / n - m**2
            mean, variance = mean + w * m, variance + w**2 * v / n * (SHARED if s == "train" else 1)
        return mean, variance**0.5

    def choose(self, splits, errors, drawn, few=0):
        mean, error = self.seen(splits, drawn)
        among = self.sweep
        if few:  # of the best on valid, and the default
            among = np.union1d([0], among[np.argsort(self.seen(["valid"], drawn)[0][among], kind="stable")[:few]])
        n = among[np.argmin(mean[among])]
        return n if n == 0 or mean[n] < -errors * error[n] else 0


SPLITS = {
    "valid": ["valid"],
    "valid and calib": ["valid", "calib"],
    "folds": ["train"],
    "folds and valid": ["train", "valid"],
    "folds, valid and calib": ["train", "valid", "calib"],
}
RULES = {("the default", 0): None} | {(name, k): s for k in (0, 1, 1.96) for name, s in SPLITS.items()}
RULES |= {("folds and valid, of the 5 best on valid", 0): SPLITS["folds and valid"]}


def mean_and_error(values):
    values = np.array(values)
    return values.mean(), values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else np.nan


def cell(values):
    mean, error = mean_and_error(values)
    text = f"{mean:+.2f} ± {error:.2f}"
    return f"**{text}**" if abs(mean) > 2 * error else text


def selections(tables, draws):
    """For each rule its choices' gain on test over the best on valid, and the shares that are behind the default."""
    rng, told = np.random.default_rng(33), {}
    for rule, splits in RULES.items():
        told[rule] = {}
        few = 5 if "best on" in rule[0] else 0
        for table, sweeps in tables.items():
            lines = []
            for w in sweeps:
                once = {s: np.ones(d.shape[1]) for s, d in w.d.items()}
                real = w.choose(splits, rule[1], once, few) if splits else 0
                plain = w.choose(["valid"], 0, once)
                chosen = [0]
                if splits:
                    chosen = []
                    for _ in range(draws):
                        drawn = {s: rng.multinomial(len(o), o / len(o)) for s, o in once.items()}
                        chosen.append(w.choose(splits, rule[1], drawn, few))
                chosen = np.array(chosen)
                behind = w.test[chosen]
                lines.append(
                    (
                        w.test[plain] - w.test[real],
                        100 * np.mean(behind > 1e-9),
                        100 * np.mean(behind > 0.1),
                        100 * np.mean(behind > np.maximum(2 * w.error[chosen], 1e-9)),
                        100 * np.mean(chosen == 0),
                        w.test[real],
                        w.test[real] > max(2 * w.error[real], 1e-9),
                        w.test[real] > 0.1,
                        100 * (w.calibrated[plain] - w.calibrated[real]) / w.calibrated[0],
                    )
                )
            told[rule][table] = np.array(lines)
    names = list(tables)
    print("\nGain in log loss on test over the best on valid, %, and selections behind the default, %\n")
    print("| by | or the default, unless ahead by | " + " | ".join(names), end="")
    print(" | mean | calibrated | behind | by .001 | beyond chance | default chosen | sweeps behind by .001 | beyond chance |")
    print("|---" * (len(names) + 10) + "|")
    for (name, k), of in told.items():
        cells = [cell(lines[:, 0]) for lines in of.values()]
        tables_mean = [lines[:, 0].mean() for lines in of.values()]
        cells.append(f"{np.mean(tables_mean):+.2f}")
        cells.append(f"{np.mean([lines[:, 8].mean() for lines in of.values()]):+.2f}")
        cells += [f"{np.mean([lines[:, i].mean() for lines in of.values()]):.1f}" for i in (1, 2, 3, 4)]
        cells += [f"{sum(int(lines[:, i].sum()) for lines in of.values())}" for i in (7, 6)]
        print(f"| {name} | {k or ''} | " + " | ".join(cells) + " |")
    print("\nLog loss on test beside the default's, %\n")
    for name, k in (("valid", 0), ("folds and valid", 0)):
        print(f"| {name} | " + " | ".join(cell(lines[:, 5]) for lines in told[name, k].values()) + " |")


def test_losses(found, trials):
    """Of the default and the race, the loss on test and by folds."""
    of = [found["candidates"][0], *found["candidates"][trials : trials + len(RACE)]]
    return [(np.mean(c["loss"]["test"]), np.mean(c["loss"]["train"])) for c in of]


def variants(found, trials):
    names = sorted({t for t, _, _ in found})
    ways = [*((v, i) for v in ("pairs", "added", "by folds", "centred") for i in (0, 1))]
    print("\nLog loss on test beside the table as it is staged, %\n")
    print("| way | configuration | " + " | ".join(names) + " | mean |\n" + "|---" * (len(names) + 3) + "|")
    for way, i in ways:
        cells, means = [], []
        for table in names:
            gains = []
            for (t, seed, variant), f in found.items():
                if t != table or variant:
                    continue
                plain = test_losses(f, trials)[i]
                options = {v: found.get((t, seed, v)) for v in ("pairs", "added", "centred")}
                options = {v: test_losses(o, 1)[i] for v, o in options.items() if o}
                if way == "by folds" and "pairs" in options and "added" in options:
                    new = min([plain, options["pairs"], options["added"]], key=lambda x: x[1])
                elif way in options:
                    new = options[way]
                else:
                    continue
                gains.append(100 * (new[0] / plain[0] - 1))
            cells.append(cell(gains) if len(gains) > 1 else "")
            means += [np.mean(gains)] if gains else []
        print(f"| {way} | {('default', 'of ids')[i]} | " + " | ".join(cells) + f" | {np.mean(means):+.2f} |")

    print("\nDefaults beside the default, and what the sweep gains by a race of them (best on valid), %\n")
    for label, way in (
        ("of ids alone", lambda f: test_losses(f, trials)[1][0] / test_losses(f, trials)[0][0]),
        ("of numbers alone", lambda f: test_losses(f, trials)[2][0] / test_losses(f, trials)[0][0]),
        ("best on valid of the three", lambda f: raced(f, trials)),
        ("winner on valid, with the two", lambda f: winner(f, trials, True, []) / winner(f, trials, False, [])),
        (
            "winner by folds and valid, with the two",
            lambda f: winner(f, trials, True, ["train"]) / winner(f, trials, False, ["train"]),
        ),
    ):
        cells, means = [], []
        for table in names:
            gains = [100 * (way(f) - 1) for (t, _, v), f in found.items() if t == table and not v]
            cells.append(cell(gains))
            means.append(np.mean(gains))
        print(f"| {label} | " + " | ".join(cells) + f" | {np.mean(means):+.2f} |")
    print("\nSlope of the labels' log odds by raw scores: default and configuration of ids, calib and test\n")
    for i in (0, trials):
        cells = []
        for table in names:
            slopes = [
                (f["candidates"][i]["slope"]["calib"] + f["candidates"][i]["slope"]["test"]) / 2
                for (t, _, v), f in found.items()
                if t == table and not v
            ]
            cells.append("%.3f ± %.3f" % mean_and_error(slopes))
        print(f"| {'default' if i == 0 else 'of ids'} | " + " | ".join(cells) + " |")


def raced(f, trials):
    of = [0, trials, trials + 1]
    best = min(of, key=lambda i: f["candidates"][i]["valid"])
    return np.mean(f["candidates"][best]["loss"]["test"]) / np.mean(f["candidates"][0]["loss"]["test"])


def winner(f, trials, race, more):
    def score(c):
        return sum(np.mean(c["loss"][s]) * f["rows"][s] for s in ["valid", *more])

    return np.mean(min(f["candidates"][: trials + (len(RACE) if race else 0)], key=score)["loss"]["test"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("data", "bin", "out"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--only", default="")
    for name, n in (("seeds", 5), ("trials", 30), ("at-once", 1), ("draws", 500)):
        parser.add_argument(f"--{name}", type=int, default=n)
    a = parser.parse_args()
    os.makedirs(a.out, exist_ok=True)
    only = list(filter(None, a.only.split(",")))
    with concurrent.futures.ThreadPoolExecutor(a.at_once) as pool:
        doing = []
        for seed, variant, table in itertools.product(range(1, a.seeds + 1), VARIANTS, tomorrow.TABLES):
            path = f"{a.out}/{table.name}-{seed}{'-' + variant if variant else ''}.json"
            if (not only or table.name in only) and not os.path.exists(path):
                source = Source(a.data, 1, seed)
                doing.append(pool.submit(measure, os.path.abspath(a.bin), table, source, variant, a.trials, path))
        for d in doing:
            d.result()

    found = {}
    for path in sorted(glob.glob(a.out + "/*.json")):
        name, _, variant = os.path.basename(path)[:-5].rpartition("-")
        if variant.isdigit():
            name, variant = f"{name}-{variant}", ""
        table, _, seed = name.rpartition("-")
        with open(path) as f:
            found[table, int(seed), variant] = json.load(f)
    tables = {}
    for (table, _, variant), f in found.items():
        if not variant:
            tables.setdefault(table, []).append(Sweep(f, a.trials))
    print(f"{sum(map(len, tables.values()))} sweeps, {a.draws} selections of each")
    selections(tables, a.draws)
    variants(found, a.trials)


if __name__ == "__main__":
    sys.exit(main())
