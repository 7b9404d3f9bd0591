"""One measurement of a peer in a process of its own, as ours are: prints one JSON object.

    peer.py train PEER FOLDER [--leaves N] [--trees N] [--threads N]     FOLDER as tables.keep writes it
    peer.py predict MODEL VALUES SCORES [--threads N]                    LightGBM on rows in memory
    peer.py stage TABLE.parquet [--threads N]                            from Parquet to a LightGBM Dataset

What is timed is training alone: the peer's own form of the table is made before, validation rows
are scored after. Beside the seconds on the clock stand those that the process spent on processors.
Imports are inside the functions, so that a peer does not pay for another one's. """

import argparse
import json
import time

from quality import rate
from tables import load

CLOCKS = (time.perf_counter, time.process_time)
RATE = 0.1  # learning rate
BINS = 255


def now():
    return [clock() for clock in CLOCKS]


def took(start, end):
    """What a measurement says of the time between two calls of now()."""
    return dict(zip(("seconds", "cpu_seconds"), (b - a for a, b in zip(start, end))))


def lightgbm(train, valid, a, more=None):
    import lightgbm as lgb

    x, y, categorical = train
    params = dict(
        objective="binary",
        num_leaves=a.leaves,
        learning_rate=RATE,
        max_bin=BINS,
        num_threads=a.threads,
        verbose=-1,
        **(more or {}),
    )
    start = now()
    d = lgb.Dataset(x, y, categorical_feature=categorical or "auto", params=params).construct()
    made = now()
    model = lgb.train(params, d, a.trees)
    done = now()
    return made[0] - start[0], took(made, done), lambda: model.predict(valid[0])


def quantized(train, valid, a):
    return lightgbm(train, valid, a, dict(use_quantized_grad=True))


def leafwise(a):
    """XGBoost's parameters for trees by leaf, which hessboost takes, too."""
    return dict(
        objective="binary:logistic",
        tree_method="hist",
        grow_policy="lossguide",
        max_leaves=a.leaves,
        max_depth=0,
        eta=RATE,
        max_bin=BINS + 1,
        nthread=a.threads,
        reg_lambda=0,
        min_child_weight=1e-3,
    )


def xgboost(train, valid, a):
    """max_bin is 256 and min_child_weight LightGBM's min_sum_hessian_in_leaf; there is nothing like
    min_data_in_leaf."""
    import xgboost as xgb

    x, y, categorical = train
    start = now()
    d = xgb.QuantileDMatrix(x, y, max_bin=BINS + 1, nthread=a.threads, enable_categorical=bool(categorical))
    made = now()
    params = leafwise(a)
    model = xgb.train(params, d, a.trees)
    done = now()
    return (
        made[0] - start[0],
        took(made, done),
        lambda: model.predict(xgb.DMatrix(valid[0], nthread=a.threads, enable_categorical=bool(categorical))),
    )


def hessboost(train, valid, a):
    """XGBoost's parameters, and the form of the table that keeps bins only."""
    import hessboost as hb

    x, y, _ = train
    start = now()
    d = hb.BinnedMatrix(hb.DMatrix(x, label=y), BINS + 1)
    made = now()
    params = leafwise(a)
    model = hb.train(params, d, a.trees, verbose_eval=False)
    done = now()
    return made[0] - start[0], took(made, done), lambda: model.predict(valid[0])


def ydf(train, valid, a):
    """max_num_nodes counts leaves."""
    import numpy as np
    import ydf as decision_forests

    def columns(x):
        return {f"f{i}": x[:, i] for i in range(x.shape[1])}

    decision_forests.verbose(0)
    x, y, _ = train
    start = now()
    d = decision_forests.create_vertical_dataset(
        {**columns(x), "label": y.astype(np.int64)},
        columns=[("label", decision_forests.Semantic.CATEGORICAL)],
        include_all_columns=True,
        discretize_numerical_columns=True,
        num_discretized_numerical_bins=BINS,
    )
    made = now()
    learner = decision_forests.GradientBoostedTreesLearner(
        label="label",
        num_trees=a.trees,
        shrinkage=RATE,
        growing_strategy="BEST_FIRST_GLOBAL",
        max_num_nodes=a.leaves,
        max_depth=-1,
        min_examples=20,
        use_hessian_gain=True,
        l2_regularization=0.0,
        validation_ratio=0.0,
        early_stopping="NONE",
        num_threads=a.threads,
    )
    model = learner.train(d)
    done = now()

    def predict():
        """Of the second class; the first is the more frequent one."""
        p = model.predict(columns(valid[0]))
        return p if model.label_classes()[1] == "1" else 1 - p

    return made[0] - start[0], took(made, done), predict


def sklearn(train, valid, a):
    """fit() bins and trains; the time that its method _bin_data takes is counted apart. float64 is
    what fit() converts to."""
    import numpy as np
    from sklearn.ensemble import HistGradientBoostingClassifier

    binning = []

    class Timed(HistGradientBoostingClassifier):
        def _bin_data(self, *args, **kwargs):
            start = now()
            try:
                return super()._bin_data(*args, **kwargs)
            finally:
                binning.append(took(start, now()))

    model = Timed(
        max_iter=a.trees,
        max_leaf_nodes=a.leaves,
        learning_rate=RATE,
        max_bins=BINS,
        min_samples_leaf=20,
        l2_regularization=0,
        early_stopping=False,
    )
    x, y = train[0].astype(np.float64), train[1]
    start = now()
    model.fit(x, y)
    fit = took(start, now())
    if not binning:
        raise SystemExit("scikit-learn did not call _bin_data: its binning cannot be timed apart in this release")
    for b in binning:
        fit = {name: value - b[name] for name, value in fit.items()}
    return sum(b["seconds"] for b in binning), fit, lambda: model.predict_proba(valid[0])[:, 1]


PEERS = {f.__name__: f for f in (lightgbm, quantized, xgboost, hessboost, ydf, sklearn)}


def train(a):
    rows, valid = load(f"{a.folder}/train.pickle"), load(f"{a.folder}/valid.pickle")
    binning, seconds, predict = PEERS[a.peer](rows, valid, a)
    return dict(rate(valid[1], predict()), **seconds, binning_seconds=binning, rows=len(rows[1]))


def predict(a):
    import lightgbm as lgb
    import numpy as np

    model = lgb.Booster(model_file=a.model)
    x = np.fromfile(a.values, dtype="<f8").reshape(-1, model.num_feature())
    start = time.perf_counter()
    scores = model.predict(x, raw_score=True, num_threads=a.threads)
    seconds = time.perf_counter() - start
    scores.astype("<f8").tofile(a.scores)
    return {"seconds": seconds, "rows": len(x), "trees": model.num_trees()}


def stage(a):
    import lightgbm as lgb
    import pyarrow as pa
    import pyarrow.parquet as pq

    pa.set_cpu_count(a.threads)
    pa.set_io_thread_count(1)
    start = now()
    t = pq.read_table(a.table, use_threads=a.threads > 1)
    read = now()
    features = t.drop_columns(["label"])
    d = lgb.Dataset(features, t["label"], params=dict(max_bin=BINS, num_threads=a.threads, verbose=-1)).construct()
    done = now()
    return {**took(start, done), "read_seconds": read[0] - start[0], "rows": d.num_data(), "features": d.num_feature()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)

    def command(run, *names):
        p = commands.add_parser(run.__name__)
        for name in names:
            p.add_argument(name)
        p.add_argument("--threads", type=int, default=1)
        p.set_defaults(run=run)
        return p

    p = command(train, "peer", "folder")
    p.add_argument("--leaves", type=int, default=31)
    p.add_argument("--trees", type=int, default=100)
    command(predict, "model", "values", "scores")
    command(stage, "table")
    a = parser.parse_args()
    print(json.dumps(a.run(a)))


if __name__ == "__main__":
    main()
