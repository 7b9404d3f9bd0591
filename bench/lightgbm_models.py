"""Models of LightGBM's for all objectives that are read here, with what LightGBM predicts by them.

usage: lightgbm_models.py FOLDER

The table has numbers, categories and missing values of both. FOLDER gets values (float64, row by row) and, by model,
NAME.txt, NAME.raw (raw scores) and NAME.out (predictions), little endian without a header. Prints the names, one a line.
"""

import sys

import lightgbm as lgb
import numpy as np

rng = np.random.default_rng(4)
n = 3000
x = np.column_stack([rng.normal(size=(n, 4)), rng.integers(0, 40, (n, 2))]).astype(float)
x[rng.random(x.shape) < 0.1] = np.nan
y = np.exp(np.nan_to_num(x[:, 0]) * 0.5 + (np.nan_to_num(x[:, 4]) % 3 == 1) + 0.3 * rng.normal(size=n))

LABELS = {
    "binary": y > 1.5,
    "cross_entropy": np.minimum(y / 8, 1),
    "poisson": np.floor(y),
    "lambdarank": np.minimum(np.floor(y), 4),
    "rank_xendcg": np.minimum(np.floor(y), 4),
    "tweedie": np.maximum(y - 1, 0),
    "multiclass": np.digitize(y, [0.8, 1.5, 4]),
    "multiclassova": np.digitize(y, [0.8, 1.5, 4]),
}
MODELS = {name: {"objective": name} for name in
          ("binary cross_entropy regression regression_l1 huber fair quantile mape poisson gamma tweedie lambdarank rank_xendcg").split()}  # fmt: skip
MODELS["sqrt"] = {"objective": "regression", "reg_sqrt": True}
MODELS["rf"] = {"objective": "binary", "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}
MODELS["rf_poisson"] = {"objective": "poisson", "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}
CLASSES = {"num_class": 5}  # one of them without rows
MODELS["multiclass"] = {"objective": "multiclass"} | CLASSES
MODELS["multiclassova"] = {"objective": "multiclassova"} | CLASSES
MODELS["rf_multiclass"] = MODELS["rf"] | MODELS["multiclass"]
MODELS["dart_multiclass"] = {"boosting": "dart", "drop_rate": 0.3} | MODELS["multiclass"]
MODELS["dart"] = {"objective": "tweedie", "boosting": "dart", "drop_rate": 0.5}
MODELS["goss"] = {"objective": "binary", "data_sample_strategy": "goss"}


def write(name, values):
    np.ascontiguousarray(values, dtype="<f8").tofile(f"{sys.argv[1]}/{name}")


write("values", x)
for name, params in MODELS.items():
    params = dict(params, num_leaves=20, verbose=-1, num_threads=2, min_data_per_group=20)
    label = LABELS.get(params["objective"], y).astype(float)
    group = [20] * (n // 20) if "rank" in name else None
    model = lgb.train(params, lgb.Dataset(x, label, group=group, categorical_feature=[4, 5]), 25)
    model.save_model(f"{sys.argv[1]}/{name}.txt")
    # A forest's raw scores are sums there; what it predicts by is their mean, which is the raw score here.
    write(f"{name}.raw", model.predict(x, raw_score=True) / (25 if params.get("boosting") == "rf" else 1))
    write(f"{name}.out", model.predict(x))
    print(name)
