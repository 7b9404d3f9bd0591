"""Clicks that depend on the place at which a row was shown, and what is learnt from them with and without the places.

usage: positions.py --bin FOLDER --out FOLDER [--queries N]

Rows of a query are shown by a column that has nothing to do with what people want, and looked at the less often the
lower they stand. Prints NDCG@10 by what people want, on queries held out, of Coppice and of LightGBM with the same
parameters on the same bins, and what either says that places add.
"""

import argparse
import json
import re
import subprocess

import lightgbm as lgb
import numpy as np
import pandas as pd

import objectives
import tables

PARAMS = dict(objective="lambdarank", num_iterations=60, num_leaves=15, learning_rate=0.1, min_data_in_leaf=20)
REGULARISED = {"lambdarank_position_bias_regularization": 0.01}


def clicks(queries, places, rng):
    n = queries * places
    x = rng.normal(size=(n, 5))
    wanted = np.digitize(x[:, 0] + 0.5 * x[:, 1] + 0.5 * rng.normal(size=n), [-0.5, 0.3, 1, 1.7])
    query = np.repeat(np.arange(queries), places)
    shown = np.lexsort((-x[:, 2], query))
    place = np.empty(n, int)
    place[shown] = np.tile(np.arange(places), queries)
    clicked = (rng.random(n) < 1 / (1 + place)) & (rng.random(n) < 0.05 + 0.85 * wanted / 4)
    frame = pd.DataFrame(x, columns=list("abcde"))
    part = np.where(query < 0.7 * queries, "train", "valid")
    return frame.assign(q=query, slot=place, click=clicked.astype(int), part=part), wanted


class Log:
    """What LightGBM says of places in its last iteration."""

    def __init__(self):
        self.factors = {}

    def info(self, text):
        found = re.fullmatch(r"(?:\[LightGBM\] \[Debug\])?\s*(\d+)\s+(-?[\d.e+-]+)\s*", text)
        if found:
            self.factors[int(found[1])] = float(found[2])

    warning = info


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("bin", "out"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--queries", type=int, default=2000)
    args = parser.parse_args()
    frame, wanted = clicks(args.queries, 10, np.random.default_rng(3))
    frame.to_csv(f"{args.out}/clicks.csv", index=False)
    with open(f"{args.out}/dataset.yaml", "w") as f:
        f.write("name: positions\nsource: clicks.csv\nlabel: click\ngroup: q\nposition: slot\nencodings: none\n")
        f.write("split: {by: column, column: part}\n")
    place = tables.stage(args.bin, f"{args.out}/dataset.yaml", args.out)
    (x, y, _), (vx, _, _) = tables.same_bins(place)
    rows = objectives.queries(objectives.targets(place, "train", "group"))
    order, sizes = np.concatenate(rows), [len(r) for r in rows]
    slot = objectives.targets(place, "train", "position").astype(int)
    ndcg = objectives.ndcg(objectives.targets(place, "valid", "group"))
    valid = (frame.part == "valid").values
    raw, truth = frame.loc[valid, list("abcde")].values, wanted[valid].astype(float)

    out, log = {}, Log()
    lgb.register_logger(log)
    for name, more in (("", REGULARISED), ("_without", {"position": None})):
        if name:  # the same table without the column
            with open(f"{args.out}/dataset.yaml") as f:
                spec = f.read().replace("position: slot", "drop: [slot]")
            with open(f"{args.out}/without.yaml", "w") as f:
                f.write(spec)
            place, more = tables.stage(args.bin, f"{args.out}/without.yaml", args.out), {}
        with open(f"{args.out}/params.json", "w") as f:
            json.dump(PARAMS | more, f)
        model = f"{args.out}/model{name}.txt"
        command = [args.bin + "/task", "train", "--dataset", place, "--params", f"{args.out}/params.json", "--json"]
        run = subprocess.run([*command, "--out", model], capture_output=True, text=True)
        if run.returncode:
            raise SystemExit(run.stderr)
        out["coppice" + name] = -ndcg(truth, lgb.Booster(model_file=model).predict(raw), None)
        out["factors" + name] = json.loads(run.stdout).get("position_bias", [])
        log.factors.clear()
        data = lgb.Dataset(x[order], y[order], group=sizes, position=None if name else slot[order])
        peer = lgb.train(PARAMS | more | {"verbosity": 2, "num_threads": 1, "deterministic": True}, data)
        out["lightgbm" + name] = -ndcg(truth, peer.predict(vx), None)
        out["lightgbm_factors" + name] = [log.factors[i] for i in sorted(log.factors)]
    print(json.dumps(out))


if __name__ == "__main__":
    main()
