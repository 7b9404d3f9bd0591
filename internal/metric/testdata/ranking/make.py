"""Makes rows.csv and want.json: NDCG per group by scikit-learn (ties averaged) on gains 2^grade -
1, then its weighted mean.

    python make.py        (scikit-learn 1.9, numpy)

Rows of one group are scattered over the file. Groups without any gain count 1, as in LightGBM;
scikit-learn would say 0. """

import json

import numpy as np
from sklearn.metrics import ndcg_score

rng = np.random.default_rng(3)
sizes = rng.integers(2, 25, 60)
group = np.repeat(rng.integers(0, 2**63, 60, dtype=np.uint64), sizes)
n = len(group)
grade = rng.integers(0, 5, n)
grade[np.isin(group, np.unique(group)[:3])] = 0
pred = np.round(grade * 0.3 + rng.normal(0, 1, n), 1)
weight = np.float32(rng.gamma(2.0, 0.5, n))
shuffled = rng.permutation(n)
group, grade, pred, weight = group[shuffled], grade[shuffled], pred[shuffled], weight[shuffled]

want = {"plain": {}, "weighted": {}}
for k in (None, 1, 3, 10):
    values, means = [], []
    for g in np.unique(group):
        rows = group == g
        gain = 2.0 ** grade[rows] - 1
        values.append(ndcg_score([gain], [pred[rows]], k=k) if gain.any() else 1.0)
        means.append(weight[rows].astype(float).mean())
    name = "ndcg" if k is None else f"ndcg@{k}"
    want["plain"][name] = float(np.mean(values))
    want["weighted"][name] = float(np.average(values, weights=means))
with open("rows.csv", "w") as f:
    f.write("group,label,weight,pred\n")
    for i in range(n):
        f.write(f"{group[i]},{grade[i]},{weight[i]!s},{pred[i]!s}\n")
with open("want.json", "w") as f:
    json.dump(want, f, indent=1)
    f.write("\n")
