"""SMAC and Syne Tune on the tasks of the surrogate, or of trained tables: normalised regret after
some trials, one JSON object for each task and batch.

    search_peers.py FOLDER METHOD BATCH[,BATCH] SEEDS [TRIALS] METHOD: smac, smac-every (its forest
      is fitted again after every trial instead of every eighth), syne-tune-bore, -cqr or -kde

Both answer any number of questions before the first result. What they know then of the trials that
run: SMAC that they are not to be proposed again, and Syne Tune nothing. """

import tempfile
import warnings

import search_tasks

warnings.filterwarnings("ignore")


class Smac:
    """The facade that SMAC recommends for hyperparameters: a random forest with expected
    improvement after a Sobol design."""

    def __init__(self, name, seed, trials):
        import ConfigSpace as cs
        from smac import HyperparameterOptimizationFacade as Facade, Scenario

        space = cs.ConfigurationSpace(seed=seed)
        for n, s in search_tasks.SPACE.items():
            if "choice" in s:
                space.add(cs.CategoricalHyperparameter(n, s["choice"]))
            elif s["int"]:
                space.add(cs.UniformIntegerHyperparameter(n, s["low"], s["high"], log=s["log"]))
            else:
                space.add(cs.UniformFloatHyperparameter(n, s["low"], s["high"], log=s["log"]))

        self.folder = tempfile.TemporaryDirectory()
        scenario = Scenario(space, deterministic=True, n_trials=trials, seed=seed, output_directory=self.folder.name)
        selector = Facade.get_config_selector(scenario, retrain_after=1 if name == "smac-every" else 8)
        self.facade = Facade(
            scenario, lambda config, seed: 0.0, config_selector=selector, logging_level=False, overwrite=True
        )

    def ask(self):
        trial = self.facade.ask()
        return trial, dict(trial.config)

    def tell(self, trial, value):
        from smac.runhistory import TrialValue

        self.facade.tell(trial, TrialValue(cost=-value), save=False)


class SyneTune:
    def __init__(self, name, seed):
        from syne_tune.optimizer import baselines
        from syne_tune.optimizer.schedulers.ask_tell_scheduler import AskTellScheduler

        of = {"syne-tune-bore": baselines.BORE, "syne-tune-cqr": baselines.CQR, "syne-tune-kde": baselines.TPE}[name]
        self.scheduler = AskTellScheduler(of(syne_tune_space(), metric="value", do_minimize=False, random_seed=seed))

    def ask(self):
        trial = self.scheduler.ask()
        return trial, trial.config

    def tell(self, trial, value):
        self.scheduler.tell(trial, {"value": value})


def syne_tune_space(without=None):
    from syne_tune import config_space as cs

    space = {}
    for n, s in search_tasks.SPACE.items():
        if n == without:
            continue
        if "choice" in s:
            space[n] = cs.choice(s["choice"])
        elif s["int"]:
            space[n] = (cs.lograndint if s["log"] else cs.randint)(s["low"], s["high"])
        else:
            space[n] = (cs.loguniform if s["log"] else cs.uniform)(s["low"], s["high"])
    return space


def main():
    name, batches, seeds, trials = search_tasks.arguments()
    if name.startswith("smac"):
        search_tasks.report(name, lambda _, seed, most: Smac(name, seed, most), batches, seeds, trials)
    else:
        search_tasks.report(name, lambda _, seed, most: SyneTune(name, seed), batches, seeds, trials)


if __name__ == "__main__":
    main()
