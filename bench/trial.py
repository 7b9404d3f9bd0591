"""One candidate of search.py. The functions are in a module of their own so that worker processes
find them by name and keep what they have read. """

import functools

PARAMS = dict(
    objective="binary", metric="binary_logloss", num_threads=1, verbose=-1, max_bin=255, feature_pre_filter=False
)
TREES, PATIENCE = 150, 20


def read(path):
    import numpy as np
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    t = pq.read_table(path, use_threads=False)
    label = t["label"].to_numpy()
    x = np.column_stack([t[name].to_numpy() for name in t.column_names if name not in ("part", "label")])
    train, valid = (pc.equal(t["part"], name).to_numpy() for name in ("train", "valid"))
    return x[train], label[train], x[valid], label[valid]


def bin_table(arrays):
    import lightgbm as lgb

    train = lgb.Dataset(arrays[0], arrays[1], params=PARAMS, free_raw_data=True)
    valid = lgb.Dataset(arrays[2], arrays[3], reference=train, params=PARAMS, free_raw_data=True)
    train.construct()
    valid.construct()
    return train, valid


def fit(sets, configuration, model_file):
    """Trains one candidate; its log loss and number of trees."""
    import lightgbm as lgb

    model = lgb.train(
        dict(PARAMS, **configuration),
        sets[0],
        TREES,
        valid_sets=[sets[1]],
        callbacks=[lgb.early_stopping(PATIENCE, verbose=False)],
    )
    model.save_model(model_file, num_iteration=model.best_iteration)
    return {
        "log_loss": model.best_score["valid_0"]["binary_logloss"],
        "trees": model.current_iteration(),
        "model": model_file,
    }


@functools.lru_cache(1)
def process_sets(path):
    return bin_table(read(path))


def cached(path, configuration, model_file):
    return fit(process_sets(path), configuration, model_file)


def naive(path, configuration, model_file):
    return fit(bin_table(read(path)), configuration, model_file)


HELD = {}  # the binned table of a Ray worker


def with_ray(config, arrays=None, configurations=None, folder=None):
    from ray import tune

    if "sets" not in HELD:
        HELD["sets"] = bin_table(arrays)
    i = config["index"]
    tune.report(fit(HELD["sets"], configurations[i], f"{folder}/{i}.txt"))
