"""What encodings cost while staging: plain and auto, at two sizes of one made table, and what
130,000,000 rows would take.

usage: ids_staging.py --bin FOLDER --out FOLDER [--rows N] [--threads N]

The table has 25 columns beside label and day: three of ids (about a million levels, if there are
rows enough), seven of texts with few levels, fifteen of numbers. Prints one Markdown table; the
cost per row is between the two sizes, so that what does not grow with rows (the search for columns
to take together) is not in it.

for example: make bench-ids-staging ROWS=20000000
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time

CHUNK = 500_000
LEVELS = 1_000_000
ALL = 130_000_000


def write(path, rows):
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    effects = np.random.default_rng(0).normal(0, 0.6, (3, LEVELS))
    writer = None
    for first in range(0, rows, CHUNK):
        rng, n = np.random.default_rng((1, first)), min(CHUNK, rows - first)
        ids = [np.minimum((LEVELS * rng.random(n) ** 2.5).astype(np.int64), LEVELS - 1) for _ in range(3)]
        numbers = [rng.gamma(2, 20, n).astype(np.float32) if i % 2 else rng.integers(0, 3000, n) for i in range(15)]
        z = sum(e[i] for e, i in zip(effects, ids)) - 3.2 + 0.01 * numbers[1]
        columns = {
            "label": (rng.random(n) < 1 / (1 + np.exp(-z))).astype(np.int8),
            "day": (first + np.arange(n)) * 30 // rows,
        }
        columns |= {f"id{i}": ids[i] + 10_000_000 for i in range(3)}
        columns |= {
            f"t{i}": pa.DictionaryArray.from_arrays(
                rng.integers(0, 4 + 3 * i, n, dtype=np.int32), [f"value {k}" for k in range(4 + 3 * i)]
            )
            for i in range(7)
        }
        columns |= {f"x{i}": x for i, x in enumerate(numbers)}
        table = pa.table(columns)
        writer = writer or pq.ParquetWriter(path + ".part", table.schema)
        writer.write_table(table)
    writer.close()
    os.replace(path + ".part", path)


def stage(a, path, encodings):
    spec, to = path.replace(".parquet", f"-{encodings}.yaml"), a.out + "/staged"
    with open(spec, "w") as f:
        f.write(
            f"name: staging\nsource: {os.path.abspath(path)}\nlabel: label\ncategorical: [id0, id1, id2]\nencodings: {encodings}\n"
            "split: {by: time, column: day, train: 0.7, valid: 0.1, calib: 0.1, test: 0.1}\n"
        )
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    # The peak memory of children is that of the greatest, so each runs below a process of its own.
    code = (
        "import resource, subprocess, sys; r = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE); sys.stdout.buffer.write(r.stdout); "
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss); sys.exit(r.returncode)"
    )
    run = subprocess.run(
        [
            sys.executable,
            "-c",
            code,
            a.bin + "/launcher",
            "stage",
            spec,
            "--out",
            to,
            "--threads",
            str(a.threads),
            "--json",
        ],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    text, _, peak = run.stdout.rstrip().rpartition("\n")
    manifest = json.loads(text)
    shutil.rmtree(to)
    return {
        "seconds": time.perf_counter() - start,
        "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "peak": int(peak) >> 10,
        "features": len(manifest.get("manifest", manifest)["features"]),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    a = parser.parse_args()
    os.makedirs(a.out, exist_ok=True)
    print("| encodings | rows | features | s | CPU, s | peak memory, MiB |\n|---|---|---|---|---|---|")
    runs = {}
    for rows in (a.rows // 4, a.rows):
        path = f"{a.out}/rows-{rows}.parquet"
        if not os.path.exists(path):
            write(path, rows)
        for encodings in ("none", "auto"):
            r = runs[encodings, rows] = stage(a, path, encodings)
            print(
                f"| {encodings} | {rows:,} | {r['features']} | {r['seconds']:.1f} | {r['cpu']:.1f} | {r['peak']:,} |",
                flush=True,
            )
    per_row = {}
    for encodings in ("none", "auto"):
        small, large = runs[encodings, a.rows // 4], runs[encodings, a.rows]
        per_row[encodings] = (large["seconds"] - small["seconds"]) / (a.rows - a.rows // 4)
        whole = large["seconds"] + per_row[encodings] * (ALL - a.rows)
        print(
            f"\n{encodings}: {per_row[encodings] * 1e6:.2f} microseconds per row; {ALL:,} rows by extrapolation: {whole / 60:.1f} min on {a.threads} processors"
        )
    print(f"\nauto costs {per_row['auto'] / per_row['none']:.2f} times plain staging per row")


if __name__ == "__main__":
    main()
