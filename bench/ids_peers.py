"""One measurement of `make bench-ids` in a process of its own; prints one JSON object on its last line.

    ids_peers.py train PEER TABLE.parquet --ids a,b,c [--rated test] [--seed N] [--threads N]
      ids_peers.py score DATASET MODEL.txt [--rated test]     log loss and others of a model of ours
      on the staged rows ids_peers.py run --limit SECONDS --printed FILE -- PROGRAM ARGUMENTS
      runs a program: seconds, processor time, peak of resident memory

A peer reads the same Parquet file as everybody. What comes before training (reading, codes of
categories, target encoding) is timed apart from training, which includes the peer's own form of the
table (Dataset, Pool, DMatrix). Scoring comes after both. Imports are inside the functions, so that
a peer does not pay for another one's. """

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import time

TREES, PATIENCE = 1000, 50  # everybody's
TRIALS = 50  # of the tuned peer
SPLITS = ("train", "valid", "test")
SCORED = 500_000  # rows at once
BINS = 256


def now():
    return time.perf_counter(), time.process_time()


def rated(y, p):
    """Log loss, AUC and average precision of probabilities."""
    import numpy as np
    from sklearn.metrics import average_precision_score

    from quality import rate

    return dict(
        rate(y, p),
        average_precision=float(average_precision_score(y > 0.5, p)),
        predicted=float(np.mean(p)),
        positive=float(np.mean(y)),
    )


def read(a):
    """split -> (features, label); categories have the same codes in all splits, and missing values
    are a category of their own where missing is given."""
    import numpy as np
    import pandas as pd
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    pa.set_cpu_count(a.threads)
    names = [n for n in pq.read_schema(a.table).names if n != "ts"]
    t = pq.read_table(a.table, columns=names)
    part = t["split"].to_numpy()
    label = t["label"].to_numpy().astype(np.float64)
    ids = a.ids.split(",")
    columns = {}
    for name in names:
        if name in ("split", "label"):
            continue
        column = t[name]
        if name in ids:
            if not pa.types.is_dictionary(column.type):
                column = column.dictionary_encode()
            column = column.unify_dictionaries().combine_chunks()
            codes = np.ascontiguousarray(pc.fill_null(column.indices.cast(pa.int32()), -1).to_numpy())
            columns[name] = pd.Categorical.from_codes(codes, np.arange(len(column.dictionary), dtype=np.int32))
        else:
            columns[name] = column.to_numpy()
            if columns[name].dtype == object or columns[name].dtype == bool:
                raise SystemExit(f"column {name} is neither a number nor an id")
    del t
    frame = pd.DataFrame(columns)
    out = {}
    for split in SPLITS:
        rows = part == split
        if rows.any():
            out[split] = (frame[rows].reset_index(drop=True), label[rows])
    return out, [n for n in columns if n in ids]


def lightgbm(data, ids, a, params=None, encoded=False):
    import lightgbm as lgb

    params = dict(
        objective="binary", metric="binary_logloss", num_threads=a.threads, seed=a.seed, verbose=-1, **(params or {})
    )
    categorical = "auto" if encoded else ids
    train = lgb.Dataset(*data["train"], categorical_feature=categorical, params=params)
    valid = lgb.Dataset(*data["valid"], categorical_feature=categorical, reference=train, params=params)
    model = lgb.train(params, train, TREES, valid_sets=[valid], callbacks=[lgb.early_stopping(PATIENCE, verbose=False)])
    return (
        model.best_score["valid_0"]["binary_logloss"],
        model.best_iteration,
        lambda x: model.predict(x, num_threads=a.threads),
    )


def tuned(data, ids, a):
    """The best on valid of random configurations that a user of LightGBM would try, categories
    among them; on one binned table."""
    import lightgbm as lgb
    import numpy as np

    rng = np.random.Generator(np.random.PCG64((50, a.seed)))
    base = dict(
        objective="binary",
        metric="binary_logloss",
        num_threads=a.threads,
        seed=a.seed,
        verbose=-1,
        feature_pre_filter=False,
    )
    train = lgb.Dataset(*data["train"], categorical_feature=ids, params=base, free_raw_data=False).construct()
    valid = lgb.Dataset(
        *data["valid"], categorical_feature=ids, reference=train, params=base, free_raw_data=False
    ).construct()
    best = None
    for trial in range(TRIALS):

        def log(low, high):
            return float(np.exp(rng.uniform(np.log(low), np.log(high))))

        drawn = dict(
            learning_rate=log(0.02, 0.3),
            num_leaves=int(log(4, 128)),
            min_data_in_leaf=int(log(10, 1000)),
            feature_fraction=rng.uniform(0.4, 1),
            bagging_fraction=rng.uniform(0.5, 1),
            bagging_freq=1,
            lambda_l2=log(0.01, 100),
            cat_smooth=log(1, 1000),
            cat_l2=log(1, 1000),
            min_data_per_group=int(log(10, 1000)),
        )
        model = lgb.train(
            dict(base, **({} if trial == 0 else drawn)),
            train,
            TREES,
            valid_sets=[valid],
            callbacks=[lgb.early_stopping(PATIENCE, verbose=False)],
        )
        loss = model.best_score["valid_0"]["binary_logloss"]
        if best is None or loss < best[0]:
            best = (loss, model.best_iteration, model)
    return best[0], best[1], lambda x: best[2].predict(x, num_threads=a.threads)


def encoded(data, ids, a):
    """Each id as its rate of five folds, shrunk by scikit-learn; before the training's clock starts."""
    import numpy as np
    from sklearn.preprocessing import TargetEncoder

    encoder = TargetEncoder(target_type="binary", cv=5, shuffle=True, random_state=a.seed)
    for split in SPLITS:
        if split not in data:
            continue
        x, y = data[split]
        codes = np.column_stack([x[n].cat.codes.to_numpy() for n in ids])
        rates = encoder.fit_transform(codes, y) if split == "train" else encoder.transform(codes)
        for i, n in enumerate(ids):
            x[n] = rates[:, i]
    return lambda: lightgbm(data, ids, a, encoded=True)


def xgboost(data, ids, a):
    """Held-out rows are a DMatrix: a QuantileDMatrix that refers to train gives levels that train
    has not wrong bins, and with them a wrong number to stop by (3.2.0)."""
    import xgboost as xgb

    train = xgb.QuantileDMatrix(*data["train"], enable_categorical=True, nthread=a.threads)
    valid = xgb.DMatrix(*data["valid"], enable_categorical=True, nthread=a.threads)
    params = dict(
        objective="binary:logistic", eval_metric="logloss", tree_method="hist", nthread=a.threads, seed=a.seed
    )
    model = xgb.train(
        params, train, TREES, evals=[(valid, "valid")], early_stopping_rounds=PATIENCE, verbose_eval=False
    )

    def predict(x):
        return model.predict(
            xgb.DMatrix(x, enable_categorical=True, nthread=a.threads), iteration_range=(0, model.best_iteration + 1)
        )

    return model.best_score, model.best_iteration + 1, predict


def catboost(data, ids, a):
    """Its categories are texts or integers: a missing one is -1."""
    from catboost import CatBoostClassifier, Pool

    model = CatBoostClassifier(
        iterations=TREES,
        early_stopping_rounds=PATIENCE,
        random_seed=a.seed,
        thread_count=a.threads,
        verbose=0,
        allow_writing_files=False,
    )
    train, valid = (Pool(*data[s], cat_features=ids, thread_count=a.threads) for s in ("train", "valid"))
    model.fit(train, eval_set=valid)
    return (
        model.best_score_["validation"]["Logloss"],
        model.tree_count_,
        lambda x: model.predict_proba(x, thread_count=a.threads)[:, 1],
    )


def codes(data, ids, a):
    """Categories as CatBoost takes them."""
    for x, _ in data.values():
        for n in ids:
            x[n] = x[n].cat.codes.to_numpy()
    return lambda: catboost(data, ids, a)


def plain(peer):
    return lambda data, ids, a: lambda: peer(data, ids, a)


# Peer: what it does to the table before training, which gives the training.
PEERS = {
    "catboost": codes,
    "lightgbm": plain(lightgbm),
    "lightgbm-encoded": encoded,
    "xgboost": plain(xgboost),
    "lightgbm-tuned": plain(tuned),
}
PACKAGE = {"catboost": "catboost", "xgboost": "xgboost"}


def train(a):
    import numpy as np

    __import__(PACKAGE.get(a.peer, "lightgbm"))
    __import__("pandas"), __import__("sklearn.preprocessing")
    start = now()
    data, ids = read(a)
    fit = PEERS[a.peer](data, ids, a)
    ready = now()
    loss, trees, predict = fit()
    done = now()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    x, y = data[a.rated]
    p = np.concatenate([predict(x.iloc[i : i + SCORED]) for i in range(0, len(x), SCORED)])
    return dict(
        rated(y, p),
        valid_log_loss=float(loss),
        trees=int(trees),
        prepare_seconds=ready[0] - start[0],
        train_seconds=done[0] - ready[0],
        cpu_seconds=done[1] - start[1],
        peak_rss=peak,
        rows={s: len(v[1]) for s, v in data.items()},
    )


def representatives(feature):
    """A model value in each bin of a feature: a category's number, or a number well inside the
    bin's bounds, because on a bound a text's last digit would decide (LightGBM reads the greatest
    float64 as 1e300). NaN stands for missing values."""
    import numpy as np

    if feature["kind"] == "categorical":
        return np.arange(BINS, dtype=np.float64)
    bounds = np.array(feature.get("bounds") or [0.0])
    inside = np.concatenate(
        [[bounds[0] - abs(bounds[0]) - 1], (bounds[:-1] + bounds[1:]) / 2, [bounds[-1] + abs(bounds[-1]) + 1]]
    )
    inside[1:-1] = np.where(inside[1:-1] > bounds[:-1], inside[1:-1], bounds[1:])  # of neighbours among floats
    return np.concatenate([inside, np.full(BINS - len(inside), np.nan)])


def score(a):
    """Scores of staged rows. They are there as bins, which are what a model sees of them."""
    import lightgbm as lgb
    import numpy as np
    import pyarrow.ipc as ipc

    with open(a.dataset + "/manifest.json") as f:
        features = json.load(f)["features"]
    values = [representatives(f) for f in features]
    columns = ipc.open_file(f"{a.dataset}/{a.rated}/columns.arrow").read_all()
    y = ipc.open_file(f"{a.dataset}/{a.rated}/targets.arrow").read_all()["label"].to_numpy().astype(np.float64)
    if columns.num_columns != len(features):
        raise SystemExit(f"{columns.num_columns} columns, {len(features)} features")
    model, p = lgb.Booster(model_file=a.model), []
    for i in range(0, len(y), SCORED):
        piece = columns.slice(i, SCORED)
        x = np.column_stack([v[c.to_numpy()] for v, c in zip(values, piece.columns)])
        p.append(model.predict(x, num_threads=a.threads))
    return dict(rated(y, np.concatenate(p)), trees=model.num_trees(), features=len(features))


def run(a):
    """Peak memory is that of the largest process."""
    argv = a.argv[1:] if a.argv[:1] == ["--"] else a.argv
    start = time.perf_counter()
    child = subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True, stdin=subprocess.DEVNULL)
    try:
        out, _ = child.communicate(timeout=a.limit or None)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        sys.exit(f"stopped after {a.limit:.0f} s")
    seconds = time.perf_counter() - start
    if child.returncode:
        sys.stdout.buffer.write(out[-4000:])
        sys.exit(f"exit code {child.returncode}")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(a.printed, "wb") as f:
        f.write(out)
    return {"seconds": seconds, "cpu_seconds": used.ru_utime + used.ru_stime, "peak_rss": used.ru_maxrss << 10}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)

    p = commands.add_parser("train")
    p.add_argument("peer", choices=PEERS)
    p.add_argument("table")
    p.add_argument("--ids", required=True)
    p.add_argument("--seed", type=int, default=1)
    p.set_defaults(run=train)
    s = commands.add_parser("score")
    s.add_argument("dataset")
    s.add_argument("model")
    s.set_defaults(run=score)
    for q in (p, s):
        q.add_argument("--rated", default="test", choices=SPLITS)
        q.add_argument("--threads", type=int, default=1)
    r = commands.add_parser("run")
    r.add_argument("--limit", type=float, default=0)
    r.add_argument("--printed", required=True, help="file for what it prints")
    r.add_argument("argv", nargs=argparse.REMAINDER)
    r.set_defaults(run=run)
    a = parser.parse_args()
    print(json.dumps(a.run(a)))


if __name__ == "__main__":
    main()
