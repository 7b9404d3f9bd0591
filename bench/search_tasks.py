"""What a peer of the search is measured with: the tasks of the surrogate, and one JSON object for
each task and batch, as `gauge regret` writes.

The first argument of the program that imports this is the surrogate's folder.
"""

import json
import sys
import time

import numpy as np

sys.path.insert(0, sys.argv[1])
import surrogate as objective  # noqa: E402

SPACE = objective.space()


def short(value):
    """Seven digits, as bench/gauge has them."""
    return float(f"{value:.7g}")


def search(peer, task, metric, batch, trials):
    """The best value after each trial, and the seconds that proposing took. peer.ask() gives
    (whatever tell wants, configuration)."""
    curve, spent = [], 0.0
    while len(curve) < trials:
        start = time.perf_counter()
        asked = [peer.ask() for _ in range(min(batch, trials - len(curve)))]
        spent += time.perf_counter() - start

        values = objective.evaluate(task, metric, [configuration for _, configuration in asked])[0]
        start = time.perf_counter()
        for (which, _), v in zip(asked, values):
            peer.tell(which, float(v))
            curve.append(max(short(v), curve[-1] if curve else -np.inf))
        spent += time.perf_counter() - start
    return curve, spent


def report(method, peer, batches, seeds, trials):
    """peer(batch, seed, trials) begins a search."""
    for batch in batches:
        for task, metric in objective.TASKS:
            curves, took = zip(*(search(peer(batch, s, trials), task, metric, batch, trials) for s in range(seeds)))
            print(
                json.dumps(
                    {
                        "method": method,
                        "task": f"{task} {metric}",
                        "batch": batch,
                        "trials": trials,
                        "found": [c[-1] for c in curves],
                        "ms_per_proposal": 1000 * sum(took) / trials / seeds,
                    }
                ),
                flush=True,
            )


def arguments():
    """The method, the batches, seeds and trials of: FOLDER METHOD BATCH[,BATCH] SEEDS [TRIALS]"""
    return (
        sys.argv[2],
        [int(b) for b in sys.argv[3].split(",")],
        int(sys.argv[4]),
        int(sys.argv[5]) if len(sys.argv) > 5 else 50,
    )
