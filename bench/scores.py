"""Load a model with Python's lightgbm and compare its raw scores with Coppice's.

usage: scores.py MODEL VALUES SCORES

VALUES holds float64 model values, row by row, SCORES one float64 raw score per row and class, both little endian without
a header. Prints one JSON object: rows, and the largest absolute difference.
"""

import json
import sys

import lightgbm as lgb
import numpy as np

booster = lgb.Booster(model_file=sys.argv[1])
want = np.fromfile(sys.argv[3], dtype="<f8")
want = want.reshape(-1, booster.num_model_per_iteration())
values = np.fromfile(sys.argv[2], dtype="<f8").reshape(len(want), -1)
got = booster.predict(values, raw_score=True).reshape(want.shape)
print(
    json.dumps(
        {
            "rows": len(want),
            "features": values.shape[1],
            "trees": booster.num_trees(),
            "max_diff": float(np.max(np.abs(got - want))),
        }
    )
)
