"""One run of the comparison: the tables it uses, the programs it starts, and what it has measured."""

import functools
import json
import os
import shutil
import sys
import tempfile

import numpy as np

import measure
import tables

HERE = os.path.dirname(os.path.abspath(__file__))
TREES = 100


class Session:
    """One run: where things are, how many rounds, what share of the full sizes, and what has been measured."""

    def __init__(self, data, programs, out, rounds, size, seeds):
        self.data, self.programs, self.out = data, os.path.abspath(programs), os.path.abspath(out)
        self.rounds, self.size, self.seeds = rounds, size, seeds
        self.records = []
        os.makedirs(self.out, exist_ok=True)
        self.log = open(f"{self.out}/measurements.jsonl", "a")
        self.scratch = tempfile.mkdtemp(dir=self.out, prefix="run-")

    def close(self):
        self.log.close()
        shutil.rmtree(self.scratch)

    def record(self, row, who, **values):
        r = dict(row=row, who=who, **values)
        self.records.append(r)
        line = json.dumps(r)
        print(line, flush=True)
        self.log.write(line + "\n")
        self.log.flush()

    def pairs(self, row, ours, peers, times=1):
        """Takes turns: ours, a peer's, ours, the next peer's, as often as there are rounds."""
        for n in range(self.rounds * times):
            for name, theirs in peers.items():
                pair = f"{n}/{name}"
                self.record(row, "coppice", pair=pair, **ours())
                self.record(row, name, pair=pair, **theirs())

    def rows(self, full):
        return max(int(full * self.size), 1000)

    def table(self, name, make, suffix=".parquet", encodings="auto"):
        """Folder of a table that make() gives, made once for each text of tables.py."""
        with open(tables.__file__) as f:
            version = f.read()
        folder, stamp = f"{self.out}/tables/{name}", f"{self.out}/tables/{name}/tables.py"
        if not os.path.exists(stamp) or open(stamp).read() != version:
            tables.keep(make(), folder, suffix, encodings)
            with open(stamp, "w") as f:
                f.write(version)
        return folder

    def dense(self):
        rows = self.rows(1_000_000)
        return self.table(f"dense-{rows}", lambda: tables.dense(rows))

    def sparse(self):
        rows = self.rows(200_000)
        return self.table(f"sparse-{rows}", lambda: tables.sparse(rows))

    def real(self, name):
        def make():
            if name == "kddcup99":
                return tables.kddcup(self.data, np.random.default_rng(5))
            return next(t for t in tables.real(self.data) if t.name == name)

        return self.table(name, make, ".csv", "none")

    @functools.cache
    def staged(self, folder):
        return tables.stage(self.programs, folder + "/dataset.yaml", f"{self.out}/staged")

    def on_our_bins(self, folder):
        """The peers' form of a table with the bins that Coppice made of it as values."""
        same = folder + "-our-bins"
        os.makedirs(same, exist_ok=True)
        for split, rows in zip(("train", "valid"), tables.same_bins(self.staged(folder))):
            tables.save(f"{same}/{split}.pickle", rows)
        return same

    def python(self, script, *args, threads=1, processors=None, **more):
        env = {name: str(threads) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
        return measure.run(
            [sys.executable, f"{HERE}/{script}", *args], measure.processors(processors or threads), env=env, **more
        )

    def train(self, folder, leaves, threads=1, out=None, trees=TREES):
        """Trains ours; seconds are those of training, as for the peers."""
        params = f"{self.scratch}/params.yaml"
        with open(params, "w") as f:
            f.write(f"num_iterations: {trees}\nnum_leaves: {leaves}\nlearning_rate: 0.1\nmetric: log_loss\n")
        more = ["--no-verify", *(["--out", out] if out else [])]
        argv = measure.training(self.programs, self.staged(folder), params, threads, *more)
        run = measure.run(argv, measure.processors(threads))
        r = measure.last_json(run)
        return {
            "seconds": r["seconds"],
            "cpu_seconds": run.cpu_seconds,
            "log_loss": r["metrics"]["log_loss"],
            "auc": r["metrics"]["auc"],
        }

    def peer(self, name, folder, leaves):
        return measure.last_json(
            self.python("peer.py", "train", name, folder, "--leaves", str(leaves), "--trees", str(TREES))
        )

    def compare(self, row, folder, leaves, peers, times=1):
        """peers: the name in the row, and the trainer and folder that it stands for."""
        self.pairs(
            row,
            lambda: self.train(folder, leaves),
            {shown: functools.partial(self.peer, trainer, where, leaves) for shown, (trainer, where) in peers.items()},
            times,
        )
