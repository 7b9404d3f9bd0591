"""Weigh readers of Parquet and Arrow files: ours, arrow-go and parquet-go, on sound and on damaged
files and by their time.

docs/design/014-parquet.md has the table that this prints. Every reader runs in processes of its own
with bounded memory, so that one that dies or hangs is counted and the next file is read. """

import argparse
import collections
import json
import pathlib
import random
import subprocess
import sys

MEMORY_KIB = 6_000_000
FLIPS, HOLES = 200, 40


def damaged(sources, folder):
    """Write each source as it is, with bits flipped, and with bytes zeroed; return the paths in order."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(7)
    paths = []
    for source in sources:
        data = source.read_bytes()
        variants = [data]
        for _ in range(FLIPS):
            bad = bytearray(data)
            for _ in range(rng.choice([1, 1, 3])):
                bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
            variants.append(bytes(bad))
        for _ in range(HOLES):
            at, n = rng.randrange(4, len(data) - 8), rng.choice([1, 8, 64])
            variants.append(
                data[:at] + bytes(n) + data[at + n :] if at + n < len(data) - 8 else data[:at] + data[at + 1 :]
            )
        for i, variant in enumerate(variants):
            path = folder / f"{source.stem}.{i}.parquet"
            path.write_bytes(variant)
            paths.append(str(path))
    return paths


def read(command, paths):
    """Read the paths, starting the command again behind each file that ended it."""
    found, at = {}, 0
    while at < len(paths):
        part = paths[at : at + 400]
        shell = ["sh", "-c", f'ulimit -v {MEMORY_KIB}; exec "$@"', "sh"]
        done = subprocess.run(
            shell + command + part, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False
        )
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.endswith("}")]
        for line in lines:
            found[line["file"]] = line
        at += len(lines)
        if done.returncode != 0 and len(lines) < len(part):
            found[paths[at]] = {"file": paths[at], "what": "dies", "rows": 0, "cells": 0, "cpu_ms": 0}
            at += 1
    return found


def kind(path, found):
    """Say what came of a file beside the sound one that it was made of."""
    stem, number, _ = path.rsplit(".", 2)
    o, sound = found[path], found[f"{stem}.0.parquet"]
    what = o["what"]
    if what == "ok" and o["rows"] < sound["rows"]:
        what = "rows missing, no error"
    return ("sound: " if number == "0" else "") + what


def big(folder):
    import numpy
    import pyarrow
    import pyarrow.parquet

    rng, n = numpy.random.default_rng(3), 1_000_000
    nulls = numpy.where(rng.random(n) < 0.1, numpy.nan, rng.normal(size=n))
    table = pyarrow.table(
        {
            "label": rng.integers(0, 2, n),
            "user": rng.integers(0, 200_000, n),
            "price": rng.lognormal(3, 1, n),
            "f32": rng.normal(size=n).astype("f4"),
            "nulls": pyarrow.array(nulls, from_pandas=True),
            "low": rng.integers(0, 30, n).astype("i4"),
            "site": pyarrow.array([f"site{i}" for i in rng.integers(0, 5000, n)]),
            "url": pyarrow.array([f"/p/{a}/{b}" for a, b in zip(rng.integers(0, 10**6, n), rng.integers(0, 9, n))]),
            "time": pyarrow.array(rng.integers(1_700_000_000_000, 1_700_600_000_000, n), type=pyarrow.timestamp("ms")),
        }
    )
    paths = []
    for codec in ["snappy", "zstd"]:
        paths.append(str(folder / f"big_{codec}.parquet"))
        pyarrow.parquet.write_table(table, paths[-1], compression=codec)
    return paths


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="folder of gauge and arrow")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--testdata", type=pathlib.Path, default=pathlib.Path("internal/dataset/table/testdata"))
    parser.add_argument(
        "--arrow", type=pathlib.Path, default=pathlib.Path("internal/dataset/testdata/golden/want/train")
    )
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()

    readers = {
        "ours": [str(args.bin / "gauge"), "parquet"],
        "arrow-go": [str(args.bin / "arrow"), "parquet", "arrow-go"],
        "parquet-go": [str(args.bin / "arrow"), "parquet", "parquet-go"],
    }
    sources = sorted([*args.testdata.glob("foreign/*.parquet"), *args.testdata.glob("types/*.parquet")])
    paths = damaged([s for s in sources if "encrypted" not in s.name], args.out / "damaged")
    for name, command in readers.items():
        found = read(command, paths)
        counts = collections.Counter(kind(path, found) for path in paths)
        print(name, json.dumps(dict(sorted(counts.items()))), flush=True)

    for path in big(args.out):
        for name, command in readers.items():
            times = sorted(read(command, [path])[path]["cpu_ms"] for _ in range(args.rounds))
            print(pathlib.Path(path).name, name, "cpu_ms", [round(t) for t in times], flush=True)

    for path in sorted(args.arrow.glob("*.arrow")):
        counts = collections.Counter()
        for seed in range(1, 51):
            shell = [
                "sh",
                "-c",
                f'ulimit -v {MEMORY_KIB}; exec "$@"',
                "sh",
                str(args.bin / "arrow"),
                "ipc",
                str(seed),
                str(path),
            ]
            done = subprocess.run(shell, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
            if done.returncode != 0:
                counts["processes that died"] += 1
            else:
                counts.update(json.loads(done.stdout)["counts"])
        print(
            path.name, "arrow-go's ipc reader, 50 processes of 100 flipped bits:", json.dumps(dict(counts)), flush=True
        )


if __name__ == "__main__":
    sys.exit(main())
