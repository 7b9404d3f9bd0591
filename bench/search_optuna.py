"""Optuna's samplers on the tasks of the surrogate: normalised regret after
some trials, one JSON object for each task and batch.

search_optuna.py FOLDER SAMPLER BATCH[,BATCH] SEEDS [TRIALS]      SAMPLER: tpe, gp or random
"""

import warnings

import optuna

import search_tasks

optuna.logging.set_verbosity(optuna.logging.ERROR)
warnings.filterwarnings("ignore")


def sampler(name, batch, seed):
    if name == "tpe":
        return optuna.samplers.TPESampler(seed=seed, multivariate=True, constant_liar=batch > 1)
    if name == "gp":
        return optuna.samplers.GPSampler(seed=seed)
    return optuna.samplers.RandomSampler(seed=seed)


def suggest(trial):
    r = {}
    for name, s in search_tasks.SPACE.items():
        if "choice" in s:
            r[name] = trial.suggest_categorical(name, s["choice"])
        elif s["int"]:
            r[name] = trial.suggest_int(name, s["low"], s["high"], log=s["log"])
        else:
            r[name] = trial.suggest_float(name, s["low"], s["high"], log=s["log"])
    return r


class Study:
    def __init__(self, name, batch, seed):
        self.study = optuna.create_study(direction="maximize", sampler=sampler(name, batch, seed))

    def ask(self):
        trial = self.study.ask()
        return trial, suggest(trial)

    def tell(self, trial, value):
        self.study.tell(trial, value)


def main():
    name, batches, seeds, trials = search_tasks.arguments()
    search_tasks.report("optuna-" + name, lambda batch, seed, _: Study(name, batch, seed), batches, seeds, trials)


main()
