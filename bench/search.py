"""What an experienced user of LightGBM writes to try 50 configurations on two processors; prints one JSON object.

    search.py joblib TABLE.parquet CONFIGURATIONS.json    two loky processes; each reads and bins the table once
    search.py naive  TABLE.parquet CONFIGURATIONS.json    the same, but every call reads and bins the table
    search.py ray    TABLE.parquet CONFIGURATIONS.json    Ray Tune, one processor a trial; arrays from the object store,
                                                          workers are reused and each bins the table once

The rows that train and that are held out are those of the column "part". Every candidate stops when the log loss on
valid has not improved for some trees; the best one's model is kept.
"""

import argparse
import json
import os
import tempfile

import trial

WORKERS = 2


def with_joblib(path, configurations, folder, one=trial.cached):
    from joblib import Parallel, delayed

    return Parallel(n_jobs=WORKERS, backend="loky")(
        delayed(one)(path, c, f"{folder}/{i}.txt") for i, c in enumerate(configurations)
    )


def naive(path, configurations, folder):
    return with_joblib(path, configurations, folder, trial.naive)


def with_ray(path, configurations, folder):
    os.environ.update(TUNE_DISABLE_AUTO_CALLBACK_LOGGERS="1", RAY_AIR_NEW_OUTPUT="0", RAY_USAGE_STATS_ENABLED="0")
    import ray
    from ray import tune

    ray.init(num_cpus=WORKERS, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    trainable = tune.with_parameters(
        trial.with_ray, arrays=trial.read(path), configurations=configurations, folder=folder
    )
    tuner = tune.Tuner(
        tune.with_resources(trainable, {"cpu": 1}),
        param_space={"index": tune.grid_search(list(range(len(configurations))))},
        tune_config=tune.TuneConfig(metric="log_loss", mode="min", reuse_actors=True),
        run_config=tune.RunConfig(verbose=0, storage_path=folder),
    )
    results = tuner.fit()
    if results.errors:
        raise SystemExit(f"{len(results.errors)} trials failed: {results.errors[0]}")
    return [{k: r.metrics[k] for k in ("log_loss", "trees", "model")} for r in results]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    searches = {"joblib": with_joblib, "naive": naive, "ray": with_ray}
    parser.add_argument("how", choices=searches)
    parser.add_argument("table")
    parser.add_argument("configurations")
    a = parser.parse_args()
    with open(a.configurations) as f:
        configurations = json.load(f)
    with tempfile.TemporaryDirectory() as folder:
        results = searches[a.how](os.path.abspath(a.table), configurations, folder)
        best = min(results, key=lambda r: r["log_loss"])
        size = os.path.getsize(best["model"])
    print(
        json.dumps(
            {
                "candidates": len(results),
                "trees": sum(r["trees"] for r in results),
                "log_loss": best["log_loss"],
                "model_bytes": size,
            }
        )
    )


if __name__ == "__main__":
    main()
