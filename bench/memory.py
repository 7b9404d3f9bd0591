"""Private memory of several candidates that train at once on one mapped table, beside the formula that plans with it.

usage: memory.py --bin FOLDER --out FOLDER --rows N[,N...] [--columns 40] [--candidates 4] [--doc FILE]

Private memory is what smaps_rollup calls Anonymous (heap and stacks: the table is file pages), at its highest, and it
includes the program itself, which the formula (gbt.PrivateBytes) does not. Trees are not rated while training.
"""

import argparse
import json
import os
import statistics

import measure
import report
from bigtable import BigTable

LIMIT_PER_ROW, LIMIT_FORMULA = 24, 0.05
TREES, LEAVES = 8, 63
MIB = 2**20


def measure_rows(table, candidates):
    """One line per candidate: measured and predicted private bytes; and what the machine held at once."""
    place = table.staged()
    idle = idle_bytes(table)
    processes, sampler = [], measure.Sampler(patient=True)
    sampler.start()
    try:
        for i in range(candidates):
            params = f"bagging_fraction: 0.8\nbagging_freq: 1\nfeature_fraction: 0.8\nseed: {i + 1}\n"
            processes.append(measure.Process(table.train(place, TREES, LEAVES, i, params), os.sched_getaffinity(0)))
        runs = [p.wait() for p in processes]
    finally:
        sampler.finish()
        measure.end_leftovers()
    results = []
    for p, run in zip(processes, runs):
        r = measure.last_json(run)
        results.append(
            {
                "private": sampler.anonymous[p.popen.pid],
                "predicted": r["memory"]["predicted_private_bytes"],
                "seconds": r["seconds"],
            }
        )
    return {
        "rows": table.rows,
        "columns": table.columns,
        "candidates": results,
        "idle": idle,
        "peak_pss": sampler.peak_pss,
        "samples": sampler.samples,
        "dataset": table.open(place)["dataset_bytes"],
    }


def idle_bytes(table):
    """What the program takes for itself: private memory at the end of training on next to nothing."""
    small = BigTable(table.programs, table.out, 1000, table.columns)
    m = measure.last_json(measure.run(small.train(small.staged(), 1, 2, "idle"), measure.processors(1)))["memory"]
    return m["private_bytes"] - m["predicted_private_bytes"]


def table_of(runs):
    lines = [
        "| rows | candidates | private, MiB each | bytes per row | formula, MiB | bytes per row | measured / formula | program itself, MiB | "
        "without it / formula | <= 24 per row | within 5 % | PSS of all, MiB | dataset on disk, MiB |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in runs:
        private = max(c["private"] for c in r["candidates"])
        predicted = statistics.mean(c["predicted"] for c in r["candidates"])
        own = (private - r["idle"]) / predicted
        lines.append(
            f"| {r['rows']:,} | {len(r['candidates'])} | {private / MIB:.1f} | {private / r['rows']:.2f} | {predicted / MIB:.1f} | {predicted / r['rows']:.2f} | "
            f"{private / predicted:.3f} | {r['idle'] / MIB:.1f} | {own:.3f} | {report.yes(private / r['rows'] <= LIMIT_PER_ROW)} | "
            f"{report.yes(abs(private / predicted - 1) <= LIMIT_FORMULA)} | {r['peak_pss'] / MIB:.0f} | {r['dataset'] / MIB:.0f} |"
        )
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("bin", "out", "rows"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--columns", type=int, default=40)
    parser.add_argument("--candidates", type=int, default=4)
    parser.add_argument("--doc")
    args = parser.parse_args()
    if args.doc:
        report.marked(args.doc, "bench-memory")
    measure.adopt_orphans()
    runs = []
    for rows in map(int, args.rows.split(",")):
        runs.append(measure_rows(BigTable(args.bin, args.out, rows, args.columns), args.candidates))
        print(json.dumps(runs[-1]), flush=True)
    report.finish(args, "bench-memory", f"make bench-memory ROWS={args.rows}", table_of(runs))


if __name__ == "__main__":
    main()
