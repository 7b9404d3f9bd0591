"""Answers configurations with values, for bench/gauge: one JSON object a line in, one a line out.

    objective.py SURROGATE_FOLDER      {"space": true}                                   -> the space as JSON
                                       {"tasks": true}                                   -> [[task, metric], ...]
                                       {"task": "31", "metric": "auc", "reference": true} -> {"best":, "median":}
                                       {"task": "31", "metric": "auc", "configs": [...]}  -> [value, ...]
"""
import json
import sys

sys.path.insert(0, sys.argv[1])
import surrogate  # noqa: E402

for line in sys.stdin:
    q = json.loads(line)
    if "space" in q:
        out = surrogate.space()
    elif "tasks" in q:
        out = surrogate.TASKS
    elif "reference" in q:
        best, median = surrogate.reference(q["task"], q["metric"])
        out = {"best": best, "median": median}
    else:
        out = [float(v) for v in surrogate.evaluate(q["task"], q["metric"], q["configs"])[0]]
    print(json.dumps(out), flush=True)
