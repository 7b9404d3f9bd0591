"""Coppice beside CatBoost, LightGBM and XGBoost on tables of ids: quality on held-out rows, time,
processors and memory.

usage: ids.py --data FOLDER --bin FOLDER --out FOLDER [--only TABLE,...] [--peers NAME,...] [--seeds
N] [--rounds N] [--size SHARE] [--tuned] [--doc FILE]
       ids.py --from OUT/ids.jsonl --out FOLDER [--doc FILE]

Everybody has defaults, at most 1000 trees and stops after 50 without improvement on valid. Ours are
those that docs/data.md recommends for tables of ids, the same for all, and the winner of 50
candidates from the search of examples/clicks/sweep.yaml. Nothing is chosen per table. Every run is
one JSON line in OUT/ids.jsonl as soon as it has ended: a bench that was interrupted goes on where
it was (what is ours, only with the same programs). All runs that a report is made of are in
OUT/ids.json, the report in OUT/ids.md.

for example, a look at two tables with a fiftieth of the generated rows and one seed, ours and CatBoost:
    build/venv-peers/bin/python bench/ids.py --data ../shared/data --bin bin --out build/bench/ids
      --only flight-delays,clicks \\
      --size 0.02 --seeds 1 --peers coppice,coppice-50,catboost
"""

import argparse
import datetime
import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import warnings

import ids_peers
import ids_report
import ids_tables
import measure
import report

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGES = ("catboost", "lightgbm", "xgboost", "scikit-learn", "pyarrow", "numpy", "pandas")
OURS = ("coppice", "coppice-50")
PARAMS = {"num_iterations": ids_peers.TREES}
# What docs/data.md recommends for tables of ids, and the first candidate of the example's sweep.
DEFAULT = {"learning_rate": 0.05, "lambda_l2": 10, "feature_fraction": 0.5, "extra_trees": True}
MARK = "bench-ids"

# Beside the search section of the example. The machine is the local cloud's; limits are those of a bench.
SWEEP = """name: ids
dataset: {table}
model: ids
metric: log_loss
trials: {trials}
seed: {seed}
early_stopping_rounds: {patience}
params: {params}
{search}machine: {{type: n2-highmem-{vcpus}, vms: 1, threads_per_task: 1, tasks_per_vm: {tasks}, local_ssd: 1}}
limits: {{trial: 24h, sweep: 120h}}
"""


class Bench:
    """One run: where things are, what is measured how often, and what has been measured."""

    def __init__(self, args):
        self.args, self.programs, self.out = args, os.path.abspath(args.bin), os.path.abspath(args.out)
        self.cpus = measure.processors(args.threads)
        os.makedirs(self.out, exist_ok=True)
        self.path = f"{self.out}/ids.jsonl"
        self.scratch = tempfile.mkdtemp(dir=self.out, prefix="run-")
        self.commit, self.build = measure.commit(), built(self.programs)
        self.records, self.before = [], {} if args.again else read(self.path)[2]
        self.log = open(self.path, "a")
        self.seeded = self.spec_takes_seed() if set(args.peers) & set(OURS) else False

    def close(self):
        self.log.close()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def write(self, record):
        self.log.write(json.dumps(record) + "\n")
        self.log.flush()

    # Programs

    def run(self, argv, memory=False):
        """Runs a program in a process of its own, with the wrapper that measures it: (measurements,
        what it printed). With memory, the peak of all processes together is in them."""
        printed = f"{self.scratch}/printed"
        wrapper = [
            sys.executable,
            HERE + "/ids_peers.py",
            "run",
            "--limit",
            str(self.args.limit * 60),
            "--printed",
            printed,
            "--",
            *argv,
        ]
        threads = {name: str(self.args.threads) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "GOMAXPROCS")}
        process, sampler = measure.Process(wrapper, self.cpus, threads), measure.Sampler(patient=True)
        if memory:
            sampler.start()
        try:
            done = measure.last_json(process.wait())
        finally:
            if memory:
                sampler.finish()
            measure.end_leftovers()
        if memory:
            done["peak_pss"] = sampler.peak_pss
        with open(printed) as f:
            return done, f.read()

    def python(self, *argv):
        """A command of ids_peers.py: (measurements, its object)."""
        done, printed = self.run([sys.executable, "-W", "ignore", HERE + "/ids_peers.py", *map(str, argv)])
        return done, json.loads(printed.strip().splitlines()[-1])

    def spec_takes_seed(self):
        """Whether this commit's dataset.yaml has a seed, which draws the orders of statistics."""
        spec = f"{self.scratch}/seeded.yaml"
        with open(f"{self.scratch}/seeded.csv", "w") as f:
            f.write("x,y\n" + "".join(f"{i},{i % 2}\n" for i in range(200)))
        with open(spec, "w") as f:
            f.write("name: seeded\nsource: seeded.csv\nlabel: y\nseed: 1\n")
        run = subprocess.run(
            [self.programs + "/launcher", "stage", spec, "--out", f"{self.scratch}/seeded"],
            capture_output=True,
            text=True,
        )
        if run.returncode and 'unknown key "seed"' not in run.stderr:
            raise SystemExit(run.stderr)
        return run.returncode == 0

    # Contestants

    def spec(self, table, path, seed, folder):
        file = f"{folder}/dataset.yaml"
        with open(file, "w") as f:
            f.write(table.spec(path, seed if self.seeded else None))
        return file

    def rated(self, table, place, model, expected=None):
        """Metrics on held-out rows of a model.txt of ours. expected is what valid's log loss has to come to."""

        def score(split):
            return self.python("score", place, model, "--rated", split, "--threads", self.args.threads)[1]

        if expected is not None and abs(score("valid")["log_loss"] - expected) > 1e-6:
            raise measure.Failed(
                f"the model's log loss on valid is {score('valid')['log_loss']}, the trainer says {expected}"
            )
        return score(table.rated)

    def coppice(self, table, path, seed, folder):
        stage, printed = self.run(
            [
                self.programs + "/launcher",
                "stage",
                self.spec(table, path, seed, folder),
                "--out",
                folder + "/staged",
                "--threads",
                str(self.args.threads),
                "--json",
            ]
        )
        place = json.loads(printed)["place"]
        params, model = folder + "/params.yaml", folder + "/model.txt"
        with open(params, "w") as f:
            f.write(
                "".join(
                    f"{k}: {json.dumps(v)}\n"
                    for k, v in dict(
                        PARAMS, **DEFAULT, early_stopping_round=ids_peers.PATIENCE, metric="log_loss", seed=seed
                    ).items()
                )
            )
        train, printed = self.run(
            measure.training(self.programs, place, params, self.args.threads, "--out", model, "--no-verify")
        )
        result = json.loads(printed)
        valid = result["metrics"]["log_loss"]
        return dict(
            self.rated(table, place, model, valid),
            valid_log_loss=valid,
            prepare_seconds=stage["seconds"],
            train_seconds=train["seconds"],
            cpu_seconds=stage["cpu_seconds"] + train["cpu_seconds"],
            peak_bytes=max(stage["peak_rss"], train["peak_rss"]),
            stage=stage,
            train=train,
            grown=result["trees_grown"],
            dataset_bytes=size_of(place),
        )

    def sweep(self, table, path, seed, folder):
        """Stages and sweeps in the local cloud: verified, calibrated and registered. What is rated
        are the winner's scores as they are, before calibration."""
        cloud, inside = folder + "/cloud", [self.programs + "/localemu", "exec", "--data", folder + "/cloud", "--"]
        stage, printed = self.run(
            [*inside, self.programs + "/launcher", "stage", self.spec(table, path, seed, folder), "--json"]
        )
        place = cloud + "/gcs/" + json.loads(printed)["place"].removeprefix("gs://")
        tasks = self.args.threads
        with open(folder + "/sweep.yaml", "w") as f:
            f.write(
                SWEEP.format(
                    table=table.name,
                    trials=self.args.trials,
                    seed=seed,
                    patience=ids_peers.PATIENCE,
                    params=json.dumps(PARAMS),
                    search=self.args.search,
                    tasks=tasks,
                    vcpus=next(n for n in (2, 4, 8, 16, 32, 48, 64, 80, 96, 128) if n >= tasks),
                )
            )
        swept, printed = self.run(
            [*inside, self.programs + "/launcher", "sweep", folder + "/sweep.yaml", "--json"], memory=True
        )
        last = json.loads(printed.strip().splitlines()[-1])
        won = last.get("conclusion", {})
        if won.get("outcome") != "winner":
            raise measure.Failed(f"the sweep ended without a winner: {json.dumps(last)[:1500]}")
        model = f"{cloud}/gcs/coppice-registry/registry/{won['model']}/versions/{won['version']}/model.txt"
        return dict(
            self.rated(table, place, model),
            valid_log_loss=won["valid"]["log_loss"],
            prepare_seconds=stage["seconds"],
            train_seconds=swept["seconds"],
            cpu_seconds=stage["cpu_seconds"] + swept["cpu_seconds"],
            peak_bytes=max(stage["peak_rss"], swept["peak_pss"]),
            stage=stage,
            train=swept,
            trial=won["trial"],
            done=won["done"],
            failed_trials=won["failed"],
            calibration=won["calibration"]["method"],
            calibrated_test=won["test"],
        )

    def peer(self, who, table, path, seed):
        done, result = self.python(
            "train",
            who,
            path,
            "--ids",
            ",".join(table.ids),
            "--rated",
            table.rated,
            "--seed",
            seed,
            "--threads",
            self.args.threads,
        )
        return dict(result, peak_bytes=result.pop("peak_rss"), whole=done)

    def measured(self, who, table, path, seed):
        with tempfile.TemporaryDirectory(dir=self.scratch) as folder:
            if who == "coppice":
                return self.coppice(table, path, seed, folder)
            return self.sweep(table, path, seed, folder) if who == "coppice-50" else self.peer(who, table, path, seed)

    # All of it

    def all(self):
        a = self.args
        todo = [
            (ids_tables.TABLES[name], seed, n, who)
            for name in a.only
            for seed in range(1, a.seeds + 1)
            for n in range(a.rounds)
            for who in a.peers
        ]
        for at, (table, seed, n, who) in enumerate(todo):
            r = {
                "table": table.name,
                "who": who,
                "seed": seed,
                "round": n,
                "size": a.size if table.scaled else 1,
                "threads": a.threads,
                "form": ids_tables.FORM,
                **({"commit": self.commit, "build": self.build, "spec_seed": self.seeded} if who in OURS else {}),
                **({"trials": a.trials} if who == "coppice-50" else {}),
            }
            note = f"# {at + 1} of {len(todo)}: {table.name} {who} seed {seed}" + (
                f" round {n + 1}" if a.rounds > 1 else ""
            )
            known = self.before.get(key(r))
            if known and ("failed" not in known or known["limit"] >= a.limit):
                self.records.append(known)
                print(note + ": measured before", file=sys.stderr, flush=True)
                continue
            start, r["load"] = (
                time.monotonic(),
                round(os.getloadavg()[0], 1),
            )  # a machine that was busy before is likely busy still
            path = table.file(ids_tables.Source(a.data, r["size"], seed), self.out + "/tables")
            made = time.monotonic()
            try:
                r.update(self.measured(who, table, path, seed))
                said = f"{table.rated} log loss {r['log_loss']:.5f}, AUC {r['auc']:.4f}, {r['prepare_seconds']:.1f} + {r['train_seconds']:.1f} s, {r['peak_bytes'] >> 20} MiB"
            except measure.Failed as e:
                r["failed"] = str(e)[-2000:]
                said = "FAILED: " + r["failed"].strip().splitlines()[-1][:300]
                r["limit"] = a.limit
            r["at"] = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
            self.records.append(r)
            self.write(r)
            print(
                f"{note}: {said}; {time.monotonic() - made:.0f} s"
                + (f", table made in {made - start:.0f} s" if made - start > 1 else ""),
                file=sys.stderr,
                flush=True,
            )


def built(programs):
    """A hash of the programs that are measured."""
    h = hashlib.sha256()
    for name in ("launcher", "task", "aggregator", "localemu"):
        with open(f"{programs}/{name}", "rb") as f:
            h.update(hashlib.file_digest(f, "sha256").digest())
    return h.hexdigest()[:12]


def key(record):
    """What makes a measurement another one; ours are others with other programs."""
    return tuple(
        str(record.get(k))
        for k in ("table", "who", "seed", "round", "size", "threads", "form", "build", "spec_seed", "trials")
    )


def read(path):
    """Header and measurements of the last report in a file, and all good measurements by key, the newest counting."""
    header, wanted, by_key = None, None, {}
    if not os.path.exists(path):
        return header, [], by_key
    with open(path) as f:
        for text in f:
            try:
                line = json.loads(text)
            except ValueError:  # cut off by an interruption
                continue
            if "run" in line:
                header, wanted = line["run"], line["keys"]
            elif "failed" not in line or "stopped after" in line["failed"]:
                by_key[key(line)] = line
    return header, [by_key[k] for k in map(tuple, wanted or []) if k in by_key], by_key


def size_of(folder):
    return sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(folder) for name in names)


def versions(programs):
    out = {"Python": sys.version.split()[0], **{p: importlib.metadata.version(p) for p in PACKAGES}}
    go = subprocess.run(["go", "version", "-m", programs + "/task"], capture_output=True, text=True)
    found = re.search(r"go(\d[\w.]*)", go.stdout)
    return dict(out, Go=found.group(1)) if found else out


def search_section(path):
    """The search of a sweep.yaml, as it is written there."""
    with open(path) as f:
        found = re.search(r"^search:.*\n(?:(?:[ #].*)?\n)*", f.read(), re.MULTILINE)
    if not found:
        raise SystemExit(f"{path} has no section search")
    return found.group(0)


def finish(args, records, header):
    lines = [*report.heading(header), *ids_report.lines(records, {t.name: t.title for t in ids_tables.TABLES.values()})]
    print("\n".join(lines))
    os.makedirs(args.out, exist_ok=True)
    with open(f"{args.out}/ids.md", "w") as f:
        f.write("\n".join(lines))
    with open(f"{args.out}/ids.json", "w") as f:
        json.dump({"run": header, "runs": records}, f, indent=1)
    if args.doc:
        report.write(args.doc, MARK, lines)


def listed(text, known, parser):
    names = text.split(",")
    unknown = [n for n in names if n not in known]
    if unknown:
        parser.error(f"no {', '.join(unknown)}; there are {', '.join(known)}")
    return [n for n in known if n in names]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    contestants = list(ids_report.NAMES)
    parser.add_argument("--data", help="folder of the public tables")
    parser.add_argument("--bin", help="folder of the built programs")
    parser.add_argument("--out", required=True, help="folder for tables, measurements and the report")
    parser.add_argument(
        "--only",
        default=",".join(ids_tables.TABLES),
        help="tables, separated by commas: " + ", ".join(ids_tables.TABLES),
    )
    parser.add_argument(
        "--peers",
        default=",".join(n for n in contestants if n != "lightgbm-tuned"),
        help="who takes part: " + ", ".join(contestants),
    )
    parser.add_argument("--tuned", action="store_true", help="lightgbm-tuned takes part, too: 50 trainings a seed")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=1, help="how often each seed is measured, for times")
    parser.add_argument(
        "--size", type=float, default=1.0, help="share of the rows of clicks and flights3m, and of the levels of clicks"
    )
    parser.add_argument(
        "--threads", type=int, default=len(os.sched_getaffinity(0)), help="of everybody; candidates at once of a sweep"
    )
    parser.add_argument("--trials", type=int, default=50, help="candidates of coppice-50, for trying things out")
    parser.add_argument(
        "--limit", type=float, default=360, help="minutes after which a program is stopped and counts as failed"
    )
    parser.add_argument("--again", action="store_true", help="measure what has been measured, too")
    parser.add_argument("--doc", help="file to write the tables into")
    parser.add_argument("--command", default=" ".join(sys.argv), help="how this run is called in the tables")
    parser.add_argument("--from", dest="source", help="take the last run in this file instead of measuring")
    args = parser.parse_args()
    if args.doc:
        report.marked(args.doc, MARK)
    warnings.filterwarnings("ignore")
    args.only = listed(args.only, ids_tables.TABLES, parser)
    args.peers = listed(args.peers + (",lightgbm-tuned" if args.tuned else ""), contestants, parser)
    if (
        not (args.source or (args.data and args.bin))
        or min(args.seeds, args.rounds, args.threads, args.trials) < 1
        or not 0 < args.size <= 1
    ):
        parser.error("give --data and --bin, --seeds, --rounds, --threads and --trials >= 1, 0 < --size <= 1")
    if args.source:
        header, records, _ = read(args.source)
        if not records:
            parser.error(f"{args.source} ends without a report; give the command that made it again, and it goes on")
        return finish(args, records, header)
    args.search = search_section(HERE + "/../examples/clicks/sweep.yaml")
    measure.adopt_orphans()
    bench = Bench(args)
    header = {
        "command": args.command,
        "machine": measure.machine(),
        "commit": bench.commit,
        "versions": versions(bench.programs),
        "threads": args.threads,
    }
    try:
        bench.all()
        bench.write({"run": header, "keys": [key(r) for r in bench.records]})
    finally:
        bench.close()
    finish(args, bench.records, header)


if __name__ == "__main__":
    main()
