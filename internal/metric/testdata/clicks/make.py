"""Makes want.json: reference.py on the rows of ../binary/rows.csv, with tied as the new predictions
and pred as the old ones.

python make.py        (numpy)
"""

import csv
import json

import numpy as np

from reference import report

with open("../binary/rows.csv", newline="") as f:
    rows = list(csv.DictReader(f))
column = {name: np.array([float(r[name]) for r in rows]) for name in rows[0]}
column["weight"] = column["weight"].astype(np.float32).astype(np.float64)  # as the readers of tables have it
with open("want.json", "w") as f:
    json.dump(
        {
            kind: report(column["label"], w, column["tied"], column["pred"])
            for kind, w in {"plain": None, "weighted": column["weight"]}.items()
        },
        f,
        indent=1,
    )
    f.write("\n")
