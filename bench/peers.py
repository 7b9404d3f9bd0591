"""Coppice beside LightGBM, XGBoost, hessboost, YDF, scikit-learn, leaves, joblib and Ray Tune, on the same tables.

usage: peers.py --data FOLDER --bin FOLDER --out FOLDER [--only ROW,...] [--rounds N] [--seeds N]
[--size SHARE] [--doc FILE]
       peers.py --from MEASUREMENTS.jsonl --out FOLDER [--doc FILE]

Every measurement is one JSON line on standard output and in OUT/measurements.jsonl; the tables come last. --doc puts
them into a file between marks. --size makes the synthetic tables smaller, for trying things out.
"""

import argparse
import importlib.metadata
import json
import re
import subprocess
import sys
import time
import warnings

import measure
import report
import rows
from session import Session

PACKAGES = (
    *("lightgbm", "xgboost", "hessboost", "ydf", "scikit-learn", "joblib", "ray"),
    *("pyarrow", "numpy", "pandas"),
)


def versions(programs):
    out = {"Python": sys.version.split()[0], **{p: importlib.metadata.version(p) for p in PACKAGES}}
    go = subprocess.run(["go", "version", "-m", programs + "/task"], capture_output=True, text=True, check=True).stdout
    out["Go"] = re.search(r"go(\d[\w.]*)", go).group(1)
    return out


def tables_of(records):
    return [
        *report.speed(records, rows.TARGETS),
        *report.peak(records, rows.TARGETS, rows.MEMORY_TARGET),
        *report.losses(records, rows.TARGETS),
        *report.quality(records),
    ]


def measure_rows(args, names):
    session = Session(args.data, args.bin, args.out, args.rounds, args.size, args.seeds)
    header = {
        "command": args.command,
        "machine": measure.machine(),
        "commit": measure.commit(),
        "versions": versions(args.bin),
    }
    session.log.write(json.dumps({"run": header}) + "\n")
    try:
        for name in names:
            start = time.monotonic()
            rows.RUN[name](session)
            print(f"# {name}: {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    finally:
        session.close()
    return session.records, header


def read(path):
    """Records and header of the last run in a file of measurements."""
    records, header = [], None
    with open(path) as f:
        for line in map(json.loads, f):
            if "run" in line:
                records, header = [], line["run"]
            else:
                records.append(line)
    if not records:
        raise SystemExit(f"{path} ends without a measurement")
    return records, header


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of the public tables")
    parser.add_argument("--bin", help="folder of the built programs")
    parser.add_argument("--out", required=True, help="folder for tables, staged datasets and measurements")
    parser.add_argument("--only", help="rows, separated by commas: " + ", ".join(rows.RUN))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=10, help="of the row quality")
    parser.add_argument("--size", type=float, default=1.0)
    parser.add_argument("--doc", help="file to write the tables into")
    parser.add_argument("--command", default=" ".join(sys.argv), help="how this run is called in the tables")
    parser.add_argument("--from", dest="source", help="take the last run in this file instead of measuring")
    args = parser.parse_args()
    if args.doc:
        report.marked(args.doc, "bench-peers")
    warnings.filterwarnings("ignore")
    names = args.only.split(",") if args.only else list(rows.RUN)
    unknown = [n for n in names if n not in rows.RUN]
    if (
        unknown
        or min(args.rounds, args.seeds) < 1
        or not 0 < args.size <= 1
        or not (args.source or (args.data and args.bin))
    ):
        parser.error(
            f"no row {', '.join(unknown)}; there are {', '.join(rows.RUN)}"
            if unknown
            else "give --data and --bin, --rounds and --seeds >= 1, 0 < --size <= 1"
        )
    if args.source:
        records, header = read(args.source)
    else:
        measure.adopt_orphans()
        records, header = measure_rows(args, names)
    lines = [*report.heading(header), *tables_of(records)]
    print("\n".join(lines))
    if args.doc:
        report.write(args.doc, "bench-peers", lines)


if __name__ == "__main__":
    main()
