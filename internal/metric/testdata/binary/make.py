"""Makes rows.csv and want.json: binary metrics as scikit-learn computes them.

    python make.py        (scikit-learn 1.9, numpy)

want.json has each metric for the columns named in its key: pred has no ties, tied has about 40
distinct values; with and without weights. ece is scikit-learn's calibration_curve over quantile
bins, which is the same definition where the number of bins divides the number of rows and there are
neither ties nor weights. """

import json

import numpy as np
from sklearn import metrics
from sklearn.calibration import calibration_curve

rng = np.random.default_rng(20261121)
n = 1500
raw = rng.normal(-1.5, 1.3, n)
pred = 1 / (1 + np.exp(-(raw * 1.6 + 0.9)))  # too sure of itself on both sides
label = (rng.random(n) < 1 / (1 + np.exp(-raw))).astype(int)
weight = np.float32(rng.gamma(2.0, 0.5, n))
weight[rng.random(n) < 0.05] = 0
tied = 0.01 + np.round(pred, 1) * 0.9 + 0.05 * (rng.random(n) < 0.3)
assert len(np.unique(pred)) == n and len(np.unique(tied)) < 50

want = {}
for column, p in {"pred": pred, "tied": tied}.items():
    for kind, w in {"plain": None, "weighted": weight.astype(float)}.items():
        hard = (p > 0.5).astype(int)
        entropy = metrics.log_loss(label, np.full(n, np.average(label, weights=w)), sample_weight=w)
        want[f"{column} {kind}"] = {
            "auc": metrics.roc_auc_score(label, p, sample_weight=w),
            "average_precision": metrics.average_precision_score(label, p, sample_weight=w),
            "log_loss": metrics.log_loss(label, p, sample_weight=w),
            "normalized_entropy": metrics.log_loss(label, p, sample_weight=w) / entropy,
            "brier": metrics.brier_score_loss(label, p, sample_weight=w),
            "accuracy": metrics.accuracy_score(label, hard, sample_weight=w),
            "error_rate": 1 - metrics.accuracy_score(label, hard, sample_weight=w),
            "f1": metrics.f1_score(label, hard, sample_weight=w),
        }
for bins in (15, 20, 10):
    true, mean = calibration_curve(label, pred, n_bins=bins, strategy="quantile")
    want["pred plain"][f"ece@{bins}"] = float(np.mean(np.abs(true - mean)))
order = np.argsort(-pred)
for k in (1, 15, 300):
    top = label[order[:k]]
    want["pred plain"][f"precision@{k}"] = float(top.mean())
    want["pred plain"][f"recall@{k}"] = float(top.sum() / label.sum())
    want["pred plain"][f"lift@{k}"] = float(top.mean() / label.mean())
want["pred plain"]["precision@1%"] = want["pred plain"]["precision@15"]
want["pred plain"]["recall@0.2"] = want["pred plain"]["recall@300"]
want["pred plain"]["lift@20%"] = want["pred plain"]["lift@300"]

with open("rows.csv", "w") as f:
    f.write("label,weight,pred,tied\n")
    for i in range(n):
        f.write(f"{label[i]},{weight[i]!s},{pred[i]!s},{tied[i]!s}\n")
with open("want.json", "w") as f:
    json.dump(want, f, indent=1)
    f.write("\n")
