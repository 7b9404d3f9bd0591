"""Makes rows.csv and want.json: calibrators fitted by scikit-learn and by scipy's optimizers.

    python make.py        (scikit-learn 1.9, scipy, numpy)

platt is the same smoothed likelihood minimised by scipy (with a bound), and is checked
here against scikit-learn's own _SigmoidCalibration. Weights are scaled to the
effective number of rows first. `at` are raw scores between, on and outside the fitted ones. "folds"
is the cross-validated log loss with the folds of this package, which are a hash of the row. """

import json

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_expit
from sklearn.calibration import _SigmoidCalibration
from sklearn.metrics import log_loss

rng = np.random.default_rng(11)
n = 600
raw = np.round(rng.normal(-1, 2, n), 2)
label = (rng.random(n) < expit(0.6 * raw - 0.5 + 0.3 * np.sin(raw))).astype(int)
weight = np.float32(rng.gamma(1.5, 2.0, n))
weight[rng.random(n) < 0.03] = 0
at = np.unique(np.concatenate([raw[:40], rng.uniform(-9, 7, 60), [-1e6, -40, 0, 40, 1e6]]))


def scaled(w):
    return w * (w.sum() / (w**2).sum())


def targets(y, w):
    pos, neg = w[y == 1].sum(), w[y == 0].sum()
    return np.where(y == 1, (pos + 1) / (pos + 2), 1 / (neg + 2))


def best(features, y, w, bounds):
    t = targets(y, w)

    def loss(v):
        z = features @ v
        return -(w * (t * log_expit(z) + (1 - t) * log_expit(-z))).sum() / w.sum(), features.T @ (
            w * (expit(z) - t)
        ) / w.sum()

    start = np.zeros(features.shape[1])
    for _ in range(5):
        found = minimize(
            loss,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"ftol": 1e-16, "gtol": 1e-13, "maxiter": 10000, "maxls": 100},
        )
        start = found.x
    return found.x


def platt(x, y, w):
    a, c = best(np.column_stack([x, np.ones_like(x)]), y, w, [(0, None), (None, None)])
    return lambda s: np.clip(expit(a * s + c), 1e-15, 1 - 1e-15)


def mix(v):
    m = 2**64 - 1
    v ^= v >> 30
    v = v * 0xBF58476D1CE4E5B9 & m
    v ^= v >> 27
    v = v * 0x94D049BB133111EB & m
    return v ^ v >> 31


fold = np.array([mix(9 ^ mix(i + 0x9E3779B97F4A7C15)) % 5 for i in range(n)])
methods = {"platt": platt}
want = {"at": list(at)}
for kind, w in {"plain": np.ones(n), "weighted": scaled(weight.astype(float))}.items():
    out = {"predict": {}, "folds": {}}
    for name, fit in methods.items():
        out["predict"][name] = list(fit(raw, label, w)(at))
        held = np.zeros(n)
        for f in range(5):
            held[fold == f] = fit(raw[fold != f], label[fold != f], w[fold != f])(raw[fold == f])
        out["folds"][name] = log_loss(label, held, sample_weight=w)
    out["folds"]["none"] = log_loss(label, expit(raw), sample_weight=w)
    sklearn_platt = _SigmoidCalibration().fit(raw, label, None if kind == "plain" else w).predict(at)
    assert np.abs(sklearn_platt - np.array(out["predict"]["platt"])).max() < 1e-4
    want[kind] = out

# bent rises with ln p and falls with -ln(1-p). The best slope of falling would be negative, so the
# best allowed is 0.
u, v = log_expit(raw), -log_expit(-raw)
edges = {"bent": expit(1.0 + u - 0.6 * v), "falling": expit(-1 - 0.5 * raw)}
for name in edges:
    edges[name] = (rng.random(n) < edges[name]).astype(int)
    want[name] = {"platt": list(platt(raw, edges[name], np.ones(n))(at))}
assert len(set(want["bent"]["platt"])) > 10 and len(set(want["falling"]["platt"])) == 1

with open("rows.csv", "w") as f:
    f.write("raw,label,weight,bent,falling\n")
    for i in range(n):
        f.write(f"{raw[i]!s},{label[i]},{weight[i]!s},{edges['bent'][i]},{edges['falling'][i]}\n")
with open("want.json", "w") as f:
    json.dump(want, f)
    f.write("\n")
