"""How time and memory grow with the table: made in a stream, staged, opened, trained on by one
candidate and by two at once.

usage: scale.py --bin FOLDER --out FOLDER --rows N[,N...] [--columns 40] [--trees 12] [--leaves 31]
[--rounds 3] [--doc FILE]

The unit of time is a nanosecond per row, feature and tree. With several sizes their rounds take
turns, and the medians must lie within 15 % of each other. For the largest size the price of a night
is extrapolated; see PRICES. """

import argparse
import json
import statistics

import measure
import report
from bigtable import BigTable

SPREAD_LIMIT, OPEN_LIMIT_MS = 0.15, 100
GIB, MIB = 2**30, 2**20
# Compute Engine, us-central1, USD an hour on demand and Spot, without local SSD, as read in
# mid-2026; Spot moves monthly.
PRICES = {"n2-highmem-64": (64, 4.1924, 1.0145), "n2-highmem-128": (128, 7.7069, 1.8691)}
SSD_PRICE = (0.041, 0.025)  # of a disk of 375 GB an hour
SSDS = {"n2-highmem-64": 8, "n2-highmem-128": 16}  # the fewest that can be attached
NIGHT_CANDIDATES, NIGHT_TREES = 50, 500


class Size:
    """One size of the table and what has been measured on it."""

    def __init__(self, args, rows):
        self.args, self.table = args, BigTable(args.bin, args.out, rows, args.columns)
        self.alone, self.together, self.memory = [], [], {}

    def prepare(self):
        self.place = self.table.staged(again=True)
        self.opened = [self.table.open(self.place) for _ in range(3)]

    def candidates(self, count):
        """Trains so many at once; nanoseconds per value of each."""
        processes, sampler = [], measure.Sampler(patient=True)
        sampler.start()
        swapped = swap_used()
        try:
            for i in range(count):
                argv = self.table.train(self.place, self.args.trees, self.args.leaves, i, f"seed: {i + 1}\n")
                processes.append(measure.Process(argv, measure.processors(count)[i : i + 1]))
            outs = [measure.last_json(p.wait()) for p in processes]
        finally:
            sampler.finish()
            measure.end_leftovers()
        private = max(sampler.anonymous[p.popen.pid] for p in processes)
        self.memory[count] = {
            "pss": sampler.peak_pss,
            "private": private,
            "predicted": outs[0]["memory"]["predicted_private_bytes"],
            "swapped": swap_used() - swapped,
        }
        return [r["ns_per_value"] for r in outs]

    def round(self):
        self.alone += self.candidates(1)
        self.together += self.candidates(2)

    def result(self):
        t = self.table.times
        return {
            "rows": self.table.rows,
            "columns": self.table.columns,
            "make_seconds": t["make"],
            "files_made": t["files_made"],
            "make_pss": t["make_pss"],
            "table_bytes": t["table_bytes"],
            "stage_seconds": t["stage"],
            "stage_pss": t["stage_pss"],
            "dataset_bytes": self.opened[0]["dataset_bytes"],
            "open_ms": statistics.median(o["open_ms"] for o in self.opened),
            "alone": self.alone,
            "together": self.together,
            "memory": self.memory,
        }


def swap_used():
    with open("/proc/meminfo") as f:
        kb = {line.split(":")[0]: int(line.split()[1]) for line in f}
    return (kb["SwapTotal"] - kb["SwapFree"]) << 10


def table_of(results):
    lines = [
        "| rows | made, s (new files of 1,000,000 rows) | Parquet, GiB | staged, s | PSS while staging, GiB | dataset, GiB | opened, ms | < 100 ms | ns per value, one candidate | two at once | "
        "PSS of one, GiB | of two, GiB | private of each, bytes per row | formula | swapped, MiB |",
        "|" + "---|" * 15,
    ]
    for r in results:
        one, two = r["memory"][1], r["memory"][2]
        lines.append(
            f"| {r['rows']:,} | {r['make_seconds']:.1f} ({r['files_made']}) | {r['table_bytes'] / GIB:.2f} | {r['stage_seconds']:.1f} | {r['stage_pss'] / GIB:.2f} | "
            f"{r['dataset_bytes'] / GIB:.2f} | {r['open_ms']:.1f} | {report.yes(r['open_ms'] < OPEN_LIMIT_MS)} | {statistics.median(r['alone']):.3f} | "
            f"{statistics.median(r['together']):.3f} | {one['pss'] / GIB:.2f} | {two['pss'] / GIB:.2f} | {two['private'] / r['rows']:.1f} | "
            f"{two['predicted'] / r['rows']:.1f} | {max(one['swapped'], two['swapped']) / MIB:.0f} |"
        )
    for name, title in (("alone", "one candidate"), ("together", "two at once")):
        medians = [statistics.median(r[name]) for r in results]
        if len(medians) > 1:
            apart = max(medians) / min(medians) - 1
            lines += [
                "",
                f"Nanoseconds per value, {title}: slowest size {apart:.1%} above the fastest; asked for at most {SPREAD_LIMIT:.0%}: {report.yes(apart <= SPREAD_LIMIT)}.",
            ]
    return lines


def night(r):
    """What a night of 50 candidates of 500 trees would take on this table, if a vCPU of the machine
    is as fast as a core here."""
    ns = statistics.median(r["together"])
    hours = r["rows"] * r["columns"] * NIGHT_TREES * ns * 1e-9 / 3600
    lines = [
        "",
        f"Extrapolated from {ns:.3f} ns with two at once: one candidate of {NIGHT_TREES} trees on {r['rows']:,} x {r['columns']} takes {hours:.1f} hours of a core. "
        f"{NIGHT_CANDIDATES} of them, if a vCPU is as fast as a core here and nothing saturates (both to be measured there):",
        "",
        "| machine | hours | USD on demand | USD Spot | memory: one dataset and 50 candidates, GiB |",
        "|---|---|---|---|---|",
    ]
    memory = (r["dataset_bytes"] + NIGHT_CANDIDATES * r["memory"][2]["predicted"]) / GIB
    for name, (vcpus, demand, spot) in PRICES.items():
        took = hours * NIGHT_CANDIDATES / vcpus
        cost = [took * (price + SSDS[name] * ssd) for price, ssd in zip((demand, spot), SSD_PRICE)]
        lines.append(f"| {name} | {took:.2f} | {cost[0]:.2f} | {cost[1]:.2f} | {memory:.0f} |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("bin", "out", "rows"):
        parser.add_argument("--" + name, required=True)
    for name, value in (("columns", 40), ("trees", 12), ("leaves", 31), ("rounds", 3)):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--doc")
    args = parser.parse_args()
    if args.doc:
        report.marked(args.doc, "bench-scale")
    measure.adopt_orphans()
    sizes = [Size(args, int(rows)) for rows in args.rows.split(",")]
    for s in sizes:
        s.prepare()
    for _ in range(args.rounds):
        for s in sizes:
            s.round()
    results = [s.result() for s in sizes]
    for r in results:
        print(json.dumps(r), flush=True)
    lines = [*table_of(results), *night(results[-1])]
    report.finish(args, "bench-scale", f"make bench-scale ROWS={args.rows}", lines)


if __name__ == "__main__":
    main()
