"""The large synthetic table: made in a stream, staged, and the command that trains on it."""

import glob
import json
import os
import subprocess
import time

import measure
import tables

PART_ROWS = 1_000_000


class BigTable:
    """rows x columns numbers, all to train on. Files and staged versions are kept, and a larger
    table shares the smaller one's files."""

    def __init__(self, programs, out, rows, columns):
        self.programs, self.out, self.rows, self.columns = (
            os.path.abspath(programs),
            os.path.abspath(out),
            rows,
            columns,
        )
        self.folder = f"{self.out}/big-{rows}x{columns}"
        self.times = {}

    def make(self):
        """A folder with links to exactly the files of this table, and its dataset.yaml."""
        shared = f"{self.out}/big-x{self.columns}"
        start = time.monotonic()
        run = measure.run(
            [
                self.programs + "/gauge",
                "table",
                "--rows",
                str(self.rows),
                "--columns",
                str(self.columns),
                "--part-rows",
                str(PART_ROWS),
                "--dir",
                shared,
            ],
            os.sched_getaffinity(0),
            memory=True,
        )
        self.times["make"], self.times["make_pss"] = time.monotonic() - start, run.sampler.peak_pss
        made = measure.last_json(run)
        self.times["files_made"] = made["written"]
        os.makedirs(self.folder + "/table", exist_ok=True)
        for old in glob.glob(self.folder + "/table/*"):
            os.remove(old)
        for file in made["files"]:
            os.symlink(file, f"{self.folder}/table/{os.path.basename(file)}")
        self.times["table_bytes"] = sum(os.path.getsize(f) for f in glob.glob(self.folder + "/table/*"))
        with open(self.folder + "/dataset.yaml", "w") as f:
            f.write("name: big\nsource: table\nlabel: label\n")

    def staged(self, again=False):
        """The folder of the staged version. again stages it anew, timed and with its memory."""
        self.make()
        out = self.folder + "/staged"
        if not again:
            return tables.stage(self.programs, self.folder + "/dataset.yaml", out)
        subprocess.run(["rm", "-rf", out], check=True)
        run = measure.run(
            [self.programs + "/launcher", "stage", self.folder + "/dataset.yaml", "--out", out, "--json"],
            os.sched_getaffinity(0),
            memory=True,
        )
        self.times["stage"], self.times["stage_pss"] = run.seconds, run.sampler.peak_pss
        return json.loads(run.out)["place"]

    def train(self, place, trees, leaves, name, more=""):
        """The command that trains one candidate on one thread, its trees not rated."""
        params = f"{self.folder}/params-{name}.yaml"
        with open(params, "w") as f:
            f.write(f"num_iterations: {trees}\nnum_leaves: {leaves}\nlearning_rate: 0.1\n{more}")
        return measure.training(self.programs, place, params, 1, "--no-verify")

    def open(self, place):
        """Rows, features, bytes on disk, and the milliseconds of opening the mapping in a fresh process."""
        return measure.last_json(measure.run([self.programs + "/gauge", "open", place], measure.processors(1)))
