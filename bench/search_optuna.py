"""Optuna's samplers on the tasks of the surrogate: normalised regret after some trials, one JSON object for each task and batch.

    search_optuna.py SURROGATE_FOLDER SAMPLER BATCH[,BATCH] SEEDS [TRIALS]      SAMPLER: tpe, gp, cmaes, nsga2 or random
"""
import json
import sys
import warnings

sys.path.insert(0, sys.argv[1])
import numpy as np  # noqa: E402
import optuna  # noqa: E402
import surrogate  # noqa: E402

optuna.logging.set_verbosity(optuna.logging.ERROR)
warnings.filterwarnings("ignore")
SPACE = surrogate.space()


def sampler(name, batch, seed):
    if name == "tpe":
        return optuna.samplers.TPESampler(seed=seed, multivariate=True, constant_liar=batch > 1)
    if name == "gp":
        return optuna.samplers.GPSampler(seed=seed)
    if name == "cmaes":  # in a Python that has the package cmaes
        return optuna.samplers.CmaEsSampler(seed=seed)
    if name == "nsga2":
        return optuna.samplers.NSGAIISampler(seed=seed)
    return optuna.samplers.RandomSampler(seed=seed)


def suggest(trial):
    r = {}
    for name, s in SPACE.items():
        if "choice" in s:
            r[name] = trial.suggest_categorical(name, s["choice"])
        elif s["int"]:
            r[name] = trial.suggest_int(name, s["low"], s["high"], log=s["log"])
        else:
            r[name] = trial.suggest_float(name, s["low"], s["high"], log=s["log"])
    return r


def search(name, task, metric, batch, seed, trials):
    study = optuna.create_study(direction="maximize", sampler=sampler(name, batch, seed))
    curve = []  # the best value after each trial
    while len(study.trials) < trials:
        asked = [study.ask() for _ in range(min(batch, trials - len(study.trials)))]
        values = surrogate.evaluate(task, metric, [suggest(t) for t in asked])[0]
        for t, v in zip(asked, values):
            study.tell(t, float(v))
            curve.append(max(float(f"{v:.7g}"), curve[-1] if curve else -np.inf))
    return curve


def main():
    name, batches, seeds = sys.argv[2], [int(b) for b in sys.argv[3].split(",")], int(sys.argv[4])
    trials = int(sys.argv[5]) if len(sys.argv) > 5 else 50
    for batch in batches:
        for task, metric in surrogate.TASKS:
            curves = [search(name, task, metric, batch, s, trials) for s in range(seeds)]
            print(json.dumps({"method": "optuna-" + name, "task": f"{task} {metric}", "batch": batch, "trials": trials, "found": [c[-1] for c in curves], "curves": curves}), flush=True)


main()
