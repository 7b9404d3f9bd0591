"""Prints what the package reads of a sweep, for e2e/sweeps_test.go to hold against the launcher:
python sweeps.py ID [PLACE]."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import coppice  # noqa: E402

s = coppice.sweep(*sys.argv[1:])
board, trials = s.board(), s.trials()
print(
    json.dumps(
        {
            "board": [[int(t), float(r["score"]), int(r["trees"])] for t, r in board.iterrows()],
            "leaves": {str(t): float(v) for t, v in trials["params.num_leaves"].items()},
            "curves": {
                str(t): [[int(x), y] for x, y in zip(c["tree"], c["score"])] for t, c in s.curves().groupby("trial")
            },
            "outcome": s.conclusion["outcome"],
        }
    )
)
