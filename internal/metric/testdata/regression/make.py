"""Makes rows.csv and want.json: regression metrics as scikit-learn computes them.

python make.py        (scikit-learn 1.9, numpy)
"""

import json

import numpy as np
from sklearn import metrics

rng = np.random.default_rng(7)
n = 700
label = np.float32(rng.normal(1e3, 25, n))
pred = label.astype(float) * 0.9 + rng.normal(90, 15, n)
weight = np.float32(rng.gamma(1.0, 2.0, n))
want = {}
for kind, w in {"plain": None, "weighted": weight.astype(float)}.items():
    y = label.astype(float)
    want[kind] = {
        "l2": metrics.mean_squared_error(y, pred, sample_weight=w),
        "rmse": metrics.root_mean_squared_error(y, pred, sample_weight=w),
        "mae": metrics.mean_absolute_error(y, pred, sample_weight=w),
        "r2": metrics.r2_score(y, pred, sample_weight=w),
        "mape": metrics.mean_absolute_percentage_error(y, pred, sample_weight=w),
        "quantile@0.9": metrics.mean_pinball_loss(y, pred, sample_weight=w, alpha=0.9),
        "quantile@0.25": metrics.mean_pinball_loss(y, pred, sample_weight=w, alpha=0.25),
        "gamma_deviance": metrics.mean_gamma_deviance(y, pred, sample_weight=w),
        # by the formulas of LightGBM's metrics, which scikit-learn does not have
        "huber@10": np.average(np.where(abs(pred - y) <= 10, (pred - y) ** 2 / 2, 10 * (abs(pred - y) - 5)), weights=w),
        "poisson": np.average(pred - y * np.log(pred), weights=w),
        "gamma": np.average(y / pred + np.log(pred), weights=w),
        "tweedie@1.3": np.average(y * pred**-0.3 / 0.3 + pred**0.7 / 0.7, weights=w),
    }
with open("rows.csv", "w") as f:
    f.write("label,weight,pred\n")
    for i in range(n):
        f.write(f"{label[i]!s},{weight[i]!s},{pred[i]!s}\n")
with open("want.json", "w") as f:
    json.dump(want, f, indent=1)
    f.write("\n")
