"""Peers that stop trials early, on the tasks of the surrogate with the number of trees fixed: one
JSON object for each task.

    search_stopping.py SURROGATE_FOLDER METHOD WORKERS SEEDS [TRIALS] METHOD: ray-asha (random
      configurations, as it does by default), syne-tune-asha (random), -bohb, -asha-bore or
      -asha-cqr

Rungs and trials are those of `gauge regret-stopping`: a trial reports after 27, 81, 243 and 729
trees, and a tree takes every worker the same time. The schedulers are asked directly: they decide
the same when their own drivers ask them. A trial counts with its last value, as it does to whoever
asks them for the best one, and trainings are the trees that were grown, as whole trainings. """

import datetime
import heapq
import json
import logging
import types
import warnings

import search_peers
import search_tasks
from search_tasks import objective

warnings.filterwarnings("ignore")
logging.getLogger("syne_tune").setLevel("ERROR")
TREES, FIRST, ETA = 729, 27, 3
RUNGS = [27, 81, 243, TREES]
AXIS = "nrounds"  # which is fixed here


class Ray:
    def __init__(self, _, seed):
        from ray.tune.schedulers import AsyncHyperBandScheduler

        self.rng = search_tasks.np.random.RandomState(seed)
        self.space = ray_space()
        self.scheduler = AsyncHyperBandScheduler(
            time_attr="trees", metric="value", mode="max", max_t=TREES, grace_period=FIRST, reduction_factor=ETA
        )

    def begin(self, number):
        trial = types.SimpleNamespace(
            trial_id=str(number), config={n: d.sample(random_state=self.rng) for n, d in self.space.items()}
        )
        self.scheduler.on_trial_add(None, trial)
        return trial

    def goes_on(self, trial, trees, value):
        return self.scheduler.on_trial_result(None, trial, {"trees": trees, "value": value}) == self.scheduler.CONTINUE


def ray_space():
    from ray import tune

    space = {}
    for n, s in search_tasks.SPACE.items():
        if n == AXIS:
            continue
        if "choice" in s:
            space[n] = tune.choice(s["choice"])
        elif s["int"]:
            space[n] = (tune.lograndint if s["log"] else tune.randint)(s["low"], s["high"] + 1)
        else:
            space[n] = (tune.loguniform if s["log"] else tune.uniform)(s["low"], s["high"])
    return space


class SyneTune:
    def __init__(self, name, seed):
        from syne_tune.optimizer import baselines

        of = {
            "syne-tune-asha": baselines.ASHA,
            "syne-tune-bohb": baselines.BOHB,
            "syne-tune-asha-bore": baselines.ASHABORE,
            "syne-tune-asha-cqr": baselines.ASHACQR,
        }[name]
        self.scheduler = of(
            search_peers.syne_tune_space(without=AXIS),
            metric="value",
            time_attr="trees",
            max_t=TREES,
            grace_period=FIRST,
            reduction_factor=ETA,
            do_minimize=False,
            random_seed=seed,
        )

    def begin(self, number):
        from syne_tune.backend.trial_status import Trial

        trial = Trial(trial_id=number, config=self.scheduler.suggest().config, creation_time=datetime.datetime.now())
        self.scheduler.on_trial_add(trial)
        return trial

    def goes_on(self, trial, trees, value):
        return self.scheduler.on_trial_result(trial, {"trees": trees, "value": value}) == "CONTINUE"


def sweep(peer, task, metric, workers, trials):
    """The best last value, and the trees that were grown, as whole trainings."""
    begun, grown, now, best = 0, 0, 0, -search_tasks.np.inf
    arrivals = []  # (time, number of the trial, trees it will have, trial)
    while True:
        while begun < trials and len(arrivals) < workers:
            heapq.heappush(arrivals, (now + RUNGS[0], begun, RUNGS[0], peer.begin(begun)))
            begun += 1
        if not arrivals:
            return search_tasks.short(best), grown / TREES

        now, number, trees, trial = heapq.heappop(arrivals)
        value = float(objective.evaluate(task, metric, [dict(trial.config) | {AXIS: trees}])[0][0])
        if peer.goes_on(trial, trees, value) and trees < TREES:
            more = RUNGS[RUNGS.index(trees) + 1]
            heapq.heappush(arrivals, (now + more - trees, number, more, trial))
        else:
            grown, best = grown + trees, max(best, value)


def main():
    name, (workers,), seeds, trials = search_tasks.arguments()
    of = Ray if name.startswith("ray") else SyneTune
    for task, metric in objective.TASKS:
        found, trainings = zip(*(sweep(of(name, s), task, metric, workers, trials) for s in range(seeds)))
        print(
            json.dumps(
                {
                    "method": name,
                    "task": f"{task} {metric}",
                    "batch": workers,
                    "trials": trials,
                    "found": found,
                    "trainings": trainings,
                }
            ),
            flush=True,
        )


main()
