"""Load a model with Python's lightgbm and compare its raw scores with Coppice's.

usage: scores.py MODEL VALUES SCORES

VALUES holds float64 model values, row by row, SCORES one float64 raw score per row, both little endian without a
header. Prints one JSON object: rows, and the largest absolute difference.
"""

import json
import sys

import lightgbm as lgb
import numpy as np

booster = lgb.Booster(model_file=sys.argv[1])
want = np.fromfile(sys.argv[3], dtype="<f8")
values = np.fromfile(sys.argv[2], dtype="<f8").reshape(len(want), -1)
got = booster.predict(values, raw_score=True)
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
