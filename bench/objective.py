"""Answers configurations with values, for bench/gauge: one JSON object a line in, one a line out.

    objective.py FOLDER                {"space": true}                                   -> the space as JSON
                                       {"tasks": true}                                   -> [[task, metric], ...]
                                       {"task": "31", "metric": "auc", "reference": true} -> {"best":, "median":}
                                       {"task": "31", "metric": "auc", "configs": [...]}  -> [value, ...]

FOLDER is the surrogate's.
"""

import json
import sys

sys.path.insert(0, sys.argv[1])
import surrogate as objective  # noqa: E402

for line in sys.stdin:
    q = json.loads(line)
    if "space" in q:
        out = objective.space()
    elif "tasks" in q:
        out = objective.TASKS
    elif "reference" in q:
        best, median = objective.reference(q["task"], q["metric"])
        out = {"best": best, "median": median}
    else:
        out = [float(v) for v in objective.evaluate(q["task"], q["metric"], q["configs"])[0]]
    print(json.dumps(out), flush=True)
