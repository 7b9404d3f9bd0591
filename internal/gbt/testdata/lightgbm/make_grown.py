"""Continue LightGBM models on other rows of the table of make.py.

    python make_grown.py        (lightgbm 4.7.0, numpy)

Of rows.csv, the first 700 rows are for old.txt and old_binary.txt (whose label is whether make.py's
is above 3), the rest for what is made of them: grown.csv has, for all rows, the raw scores of
old.txt and of what eight more trees make of it. """

import os

import lightgbm as lgb
import numpy as np

here = os.path.dirname(os.path.abspath(__file__))
rows = np.loadtxt(os.path.join(here, "rows.csv"), delimiter=",")
x, y = rows[:, :5], rows[:, 5]
old, new = slice(0, 700), slice(700, None)
common = dict(
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


def train(objective, label, part, rounds, **more):
    data = lgb.Dataset(x[part], label[part], categorical_feature=[4], free_raw_data=False)
    return lgb.train({**common, "objective": objective}, data, rounds, **more)


def raw(model):
    return model.predict(x, raw_score=True)


first = train("regression", y, old, 6)
first.save_model(os.path.join(here, "old.txt"))
clicks = (y > 3).astype(float)
binary = train("binary", clicks, old, 6)
binary.save_model(os.path.join(here, "old_binary.txt"))

columns = {
    "old": raw(first),
    "continued": raw(train("regression", y, new, 8, init_model=first)),
}
with open(os.path.join(here, "grown.csv"), "w") as f:
    f.write(";".join(columns) + "\n")
    for row in np.column_stack(list(columns.values())):
        f.write(";".join(repr(float(v)) for v in row) + "\n")
np.savetxt(os.path.join(here, "contrib.csv"), binary.predict(x[:80], pred_contrib=True), fmt="%.17g", delimiter=",")
