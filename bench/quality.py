"""Validation log loss of Coppice and of LightGBM on real tables, with the same parameters.

usage: quality.py --data FOLDER --bin FOLDER --out FOLDER [--seeds N]

Each table is split into train and valid (by its own column, or at random with a fixed seed), staged by Coppice, and
trained on by both, with bagging so that seeds mean something. LightGBM is run twice: on the raw table with its own
binning (raw), and on Coppice's bins (bins), which compares the trainers alone. Prints one JSON object per table:
mean log loss over the seeds of each.
"""

import argparse
import json
import subprocess
import warnings

import numpy as np

import measure
import tables

SAMPLED = dict(bagging_fraction=0.8, bagging_freq=1, feature_fraction=0.8)  # so that seeds mean something
PARAMS = dict(SAMPLED, num_leaves=31, learning_rate=0.1, num_iterations=200, early_stopping_round=20)


def coppice(programs, place, params, seed, scratch, threads=2):
    """Metrics on valid of a model that Coppice trains: log_loss, auc and others."""
    file = f"{scratch}/params.yaml"
    with open(file, "w") as f:
        for k, v in dict(params, metric="log_loss", seed=seed).items():
            f.write(f"{k}: {v}\n")
    out = subprocess.run(measure.training(programs, place, file, threads), capture_output=True, text=True)
    if out.returncode:
        raise SystemExit(out.stderr)
    return json.loads(out.stdout)["metrics"]


def lightgbm(train, valid, params, seed, threads=2):
    """The same of a model that LightGBM trains on (features, labels, categorical columns), rated as Coppice's is."""
    import lightgbm as lgb  # here, because a peer in a process of its own imports this module for rate()

    x, y, categorical = train
    params = dict(params, objective="binary", metric="binary_logloss", verbose=-1, num_threads=threads, seed=seed)
    patience = params.pop("early_stopping_round", 0)
    d = lgb.Dataset(x, y, categorical_feature=categorical or "auto", free_raw_data=False)
    v = lgb.Dataset(valid[0], valid[1], reference=d, categorical_feature=categorical or "auto", free_raw_data=False)
    callbacks = [lgb.early_stopping(patience, verbose=False)] if patience else []
    model = lgb.train(params, d, valid_sets=[v] if patience else None, callbacks=callbacks)
    return rate(valid[1], model.predict(valid[0], num_iteration=model.best_iteration))


def rate(y, p):
    """Log loss and AUC of probabilities; ties count half."""
    p = np.clip(p, 1e-15, 1 - 1e-15)
    values, inverse, counts = np.unique(p, return_inverse=True, return_counts=True)
    rank = np.cumsum(counts) - (counts - 1) / 2
    positive = y > 0.5
    n, m = positive.sum(), (~positive).sum()
    auc = (rank[inverse][positive].sum() - n * (n + 1) / 2) / (n * m)
    return {"log_loss": float(-np.mean(np.where(positive, np.log(p), np.log1p(-p)))), "auc": float(auc)}


def raw(table):
    x, categorical = table.features()
    train = table.train()
    return (x[train], table.y[train].astype(float), categorical), (
        x[~train],
        table.y[~train].astype(float),
        categorical,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("data", "bin", "out"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    args = parser.parse_args()
    warnings.filterwarnings("ignore")

    def mean(trainer):
        return float(np.mean([trainer(seed)["log_loss"] for seed in range(1, args.seeds + 1)]))

    for table in tables.real(args.data):
        folder = f"{args.out}/{table.name}"
        tables.keep(table, folder, ".csv")
        place = tables.stage(args.bin, folder + "/dataset.yaml", args.out)
        own, same = raw(table), tables.same_bins(place)
        row = {
            "table": table.name,
            "rows": len(table.y),
            "coppice": mean(lambda seed: coppice(args.bin, place, PARAMS, seed, args.out)),
            "lightgbm_bins": mean(lambda seed: lightgbm(*same, PARAMS, seed)),
            "lightgbm_raw": mean(lambda seed: lightgbm(*own, PARAMS, seed)),
        }
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
