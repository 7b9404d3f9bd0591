"""Train LightGBM with the parameters that limit a model on a table of small whole numbers.

    python make.py        (lightgbm 4.7.0, numpy)

Makes rows.csv and, with a column of scores for each case, want.csv. Every value has a bin of its
own here and there, the loss is squared error without weights, and nothing is drawn at random, so
the trees of the two trainers are the same but for the rounding of gradients. (LightGBM does not
look at a feature again below a node where it had no split; the cases here are such that this does
not matter.) """

import os

import lightgbm as lgb
import numpy as np

here = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(9)
n = 1500
x = np.column_stack([rng.integers(0, k, n) for k in (12, 9, 7, 15)]).astype(float)
category = rng.integers(0, 9, n)
effect = rng.normal(size=9)
y = (
    0.4 * x[:, 0]
    - 0.02 * x[:, 0] ** 2
    + np.sin(x[:, 1])
    + 0.3 * x[:, 2] * (x[:, 3] > 6)
    + effect[category]
    + rng.normal(size=n) * 1.5
)
y = np.round(y, 4)
x = np.column_stack([x, category])

common = dict(
    objective="regression",
    num_iterations=8,
    num_leaves=12,
    learning_rate=0.3,
    min_data_in_leaf=10,
    min_data_in_bin=1,
    min_sum_hessian_in_leaf=0,
    verbose=-1,
    deterministic=True,
    force_row_wise=True,
    num_threads=1,
    enable_bundle=False,
    feature_pre_filter=False,
    max_cat_to_onehot=1,
    min_data_per_group=20,
)
cases = {
    "plain": {},
}
columns = []
for name, params in cases.items():
    data = lgb.Dataset(x, y, categorical_feature=[4], free_raw_data=False)
    columns.append(lgb.train({**common, **params}, data).predict(x))
with open(os.path.join(here, "rows.csv"), "w") as f:
    for row, label in zip(x, y):
        f.write(",".join(str(int(v)) for v in row) + f",{label}\n")
with open(os.path.join(here, "want.csv"), "w") as f:
    f.write(";".join(cases) + "\n")
    for row in np.column_stack(columns):
        f.write(";".join(repr(float(v)) for v in row) + "\n")
