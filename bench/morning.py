"""What a person waits for in the morning: `launcher fit` with its defaults on six tables. `make bench-morning`.

Wall and processor time, in seconds, of staging (the wall time until the sweep is planned; the processor time of the
same staging alone), of the trials, the final training, the conclusion (from the last result until the aggregator says
that it has concluded) and the rest of the command. Times are the programs' own, from results, logs and the plan. Prints a table as docs/LAB.md has it.
"""

import argparse
import datetime
import glob
import json
import os
import resource
import shutil
import subprocess
import time

import numpy as np
import pandas as pd


def flights(data):
    return pd.read_csv(f"{data}/flight_delays_100k.csv").drop(columns="split"), ["--label", "target"]


def bank(data):
    t = pd.read_csv(f"{data}/bank-additional-full.csv", sep=";").drop(columns="duration")
    return t, ["--label", "y", "--positive", "yes"]


def numbers(rows, columns, seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, columns), dtype=np.float32)
    return rng, pd.DataFrame(x, columns=[f"x{i}" for i in range(columns)])


def small(_):
    rng, t = numbers(5_000, 12, 1)
    t["label"] = (t.x0 + t.x1 * t.x2 + rng.standard_normal(len(t)) > 0).astype(int)
    return t, ["--label", "label"]


def dense(_):
    rng, t = numbers(1_000_000, 28, 2)
    t["label"] = (t.x0 + t.x1 * t.x2 + rng.standard_normal(len(t)) > 0).astype(int)
    return t, ["--label", "label"]


def classes(_):
    rng, t = numbers(20_000, 20, 3)
    noise = rng.gumbel(size=(len(t), 7))
    t["label"] = [f"class {c}" for c in (2 * t.iloc[:, :7].to_numpy() + noise).argmax(1)]
    return t, ["--label", "label"]


def ranking(_):
    rng, t = numbers(40_000, 20, 4)
    t["query"] = [f"q{i}" for i in np.arange(len(t)) // 20]
    t["label"] = np.clip(np.round(t.x0 + t.x1 * t.x2 + rng.standard_normal(len(t))), 0, 4).astype(int)
    return t, ["--label", "label", "--group", "query"]


def timed(command, **environment):
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.time()
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, **environment})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return begin, time.time(), after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def at(text):
    return datetime.datetime.fromisoformat(text[:26].rstrip("Z").split("+")[0] + "+00:00").timestamp()


def read(pattern):
    return [json.load(open(f)) for f in sorted(glob.glob(pattern))]


def fit(programs, folder, table, options, trials):
    path = f"{folder}/table.{'parquet' if len(table) > 500_000 else 'csv'}"
    table.to_parquet(path) if path.endswith("parquet") else table.to_csv(path, index=False)
    command = [f"{programs}/launcher", "fit", path, *options, "--data", f"{folder}/data"]
    command += ["--save-specs", f"{folder}/specs"]
    paths = f"{programs}:{os.environ['PATH']}"
    begin, end, whole = timed(command + (["--trials", str(trials)] if trials else []), PATH=paths)
    alone = [f"{programs}/launcher", "stage", f"{folder}/specs/dataset.yaml", "--out", f"{folder}/staged"]
    _, _, staging = timed(alone, PATH=paths)

    plan = read(f"{folder}/data/gcs/*/plans/*.json")[0]
    results = read(f"{folder}/data/gcs/*/sweeps/*/trials/*/result.json")
    final = [r for r in results if "refits" in r]
    searched = [r for r in results if r not in final]
    lines = [json.loads(line) for f in glob.glob(f"{folder}/data/logs/aggregator*.log") for line in open(f)]
    concluded = max([at(s["time"]) for s in lines if s["message"] == "sweep concluded"], default=end)

    def span(of):
        return max(at(r["ended"]) for r in of) - min(at(r["started"]) for r in of) if of else 0.0

    def used(of):
        return sum(r["usage"].get("cpu_seconds", 0) for r in of)  # a trial that ended untrained has none

    wall = [at(plan["created"]) - begin, span(searched), span(final), concluded - max(at(r["ended"]) for r in results)]
    cpu = [staging, used(searched), used(final)]
    return len(searched), end - begin, wall, whole, cpu


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--bin", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--trials", type=int, default=0)
    a = parser.parse_args()
    print("| table | rows | trials | wall, s: staging | trials | final | conclusion | rest | whole |", end=" ")
    print("processor, s: staging | trials | final | conclusion and rest | whole |\n" + "|---" * 14 + "|")
    for make in (flights, bank, small, dense, classes, ranking):
        if a.only and make.__name__ not in a.only.split(","):
            continue
        folder = os.path.abspath(f"{a.out}/{make.__name__}")
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        table, options = make(a.data)
        trials, took, wall, whole, cpu = fit(os.path.abspath(a.bin), folder, table, options, a.trials)
        cells = [*wall, took - sum(wall), took, *cpu, whole - sum(cpu), whole]
        row = [make.__name__, f"{len(table):,}", str(trials), *(f"{c:.1f}" for c in cells)]
        print("| " + " | ".join(row) + " |", flush=True)
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
