"""How the time of a trial depends on its parameters and threads: the factors that `launcher plan` multiplies.

usage: calibrate.py --bin FOLDER --out FOLDER [--rows N[,N...]] [--columns 40] [--trees 10] [--rounds 5] [--doc FILE]

Every setting is measured beside 31 leaves, all features, all rows, one thread, in rounds; the ratio
of the fastest of its rounds to the fastest of those is its factor, since whatever else ran on the
machine has only made a round slower. """

import argparse
import json

import measure
import report
from bigtable import BigTable

# name: (threads, leaves, further parameters)
SETTINGS = {
    "31 leaves": (1, 31, ""),
    "15 leaves": (1, 15, ""),
    "63 leaves": (1, 63, ""),
    "127 leaves": (1, 127, ""),
    "255 leaves": (1, 255, ""),
    "feature_fraction 0.8": (1, 31, "feature_fraction: 0.8\n"),
    "feature_fraction 0.5": (1, 31, "feature_fraction: 0.5\n"),
    "feature_fraction 0.3": (1, 31, "feature_fraction: 0.3\n"),
    "bagging_fraction 0.8": (1, 31, "bagging_fraction: 0.8\nbagging_freq: 1\n"),
    "bagging_fraction 0.5": (1, 31, "bagging_fraction: 0.5\nbagging_freq: 1\n"),
    "2 threads": (2, 31, ""),
}
BASE = "31 leaves"


def one(table, place, trees, name):
    """Nanoseconds per row, feature and tree of one training."""
    threads, leaves, more = SETTINGS[name]
    argv = table.train(place, trees, leaves, "calibrate", more)
    argv[argv.index("--threads") + 1] = str(threads)
    return measure.last_json(measure.Process(argv, measure.processors(threads)).wait())["ns_per_value"]


def lines_of(rows, found):
    base = min(found[BASE])
    out = ["", f"{rows:,} rows:", "", "| setting | ns per value, fastest (slowest) | factor |", "|---|---|---|"]
    for name, values in found.items():
        out.append(f"| {name} | {min(values):.3f} ({max(values):.3f}) | {min(values) / base:.2f} |")
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("bin", "out"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--rows", default="1000000,5000000")
    for name, value in (("columns", 40), ("trees", 10), ("rounds", 5)):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--doc")
    args = parser.parse_args()
    if args.doc:
        report.marked(args.doc, "bench-calibrate")
    measure.adopt_orphans()
    lines = []
    for rows in (int(r) for r in args.rows.split(",")):
        table = BigTable(args.bin, args.out, rows, args.columns)
        place = table.staged()
        found = {name: [] for name in SETTINGS}
        for _ in range(args.rounds):
            for name in SETTINGS:
                found[name].append(one(table, place, args.trees, name))
        print(json.dumps({"rows": rows, "ns_per_value": found}), flush=True)
        lines += lines_of(rows, found)
    command = f"make bench-calibrate ROWS={args.rows} ROUNDS={args.rounds}"
    report.finish(args, "bench-calibrate", command, lines[1:])


if __name__ == "__main__":
    main()
