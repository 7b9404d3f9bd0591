#!/usr/bin/env python3
"""One model by several processes: time, bytes, and whether the bytes of the model are the same.

usage: machines.py --task bin/task --dataset DIR [--trees 10] [--leaves 31] [--rounds 3]
       machines.py --extrapolate
"""

import argparse
import hashlib
import json
import os
import resource
import statistics
import subprocess
import tempfile

CONFIGURATIONS = ((1, 1), (2, 1), (1, 2), (4, 1))  # workers, threads of each


def train(task, dataset, params, workers, threads, out):
    """Seconds, processor seconds of all processes, what --json says, and the model's hash."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    argv = [task, "train", "--dataset", dataset, "--params", params, "--out", out, "--json"]
    argv += ["--no-verify", "--no-rate", "--workers", str(workers), "--threads", str(threads)]
    run = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    said = json.loads(run.stdout)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    with open(out, "rb") as f:
        return said["seconds"], used, said, hashlib.sha256(f.read()).hexdigest()


def measure(args):
    results = {c: [] for c in CONFIGURATIONS}
    with tempfile.TemporaryDirectory() as folder:
        params, out = os.path.join(folder, "params.yaml"), os.path.join(folder, "model.txt")
        with open(params, "w") as f:
            f.write(f"num_iterations: {args.trees}\nnum_leaves: {args.leaves}\n")
        for _ in range(args.rounds):  # in turns: other work on the machine meets all alike
            for workers, threads in CONFIGURATIONS:
                results[workers, threads].append(train(args.task, args.dataset, params, workers, threads, out))

    alone = statistics.median(r[1] for r in results[1, 1])
    print("| workers x threads | seconds | processor seconds | sent by each, MB per tree | same model | alone / per core |")
    print("|---|---|---|---|---|---|")
    for (workers, threads), runs in results.items():
        used = statistics.median(r[1] for r in runs)
        team = runs[0][2].get("team")
        sent = f"{team['sent_bytes'] / args.trees / 1e6:.2f}" if team else ""
        same = {r[3] for r in runs} == {results[1, 1][0][3]}
        print(
            f"| {workers} x {threads} | {statistics.median(r[0] for r in runs):.2f} | {used:.2f} | {sent} | "
            f"{'yes' if same else 'NO'} | {alone * workers * threads / used:.2f} |"
        )


# What the extrapolation assumes.
NS_PER_VALUE = 0.548  # row x feature x tree of 31 leaves, 4 threads (docs/LAB.md)
SCALE = 16 / 4 * 0.8  # 16 threads against 4: four fifths of what more threads could bring
DRAW_NS = 0.5  # per row of the whole table and tree, one worker after the other
STEP = 1e-3  # an exchange of few words, seconds: .1 to 1.1 ms between processes (docs/LAB.md)
EXCHANGES = 47  # for each tree of 31 leaves (docs/LAB.md)
SCAN = 40 * 255 * 2e-9  # finding the splits of two leaves, seconds of one thread


def extrapolate():
    """Seconds per tree of 31 leaves on machines of 16 threads."""
    networks = {"10 Gbit/s": (10, 0), "100 Gbit/s": (100, 0), "10 Gbit/s, a bag for each tree": (10, DRAW_NS)}
    print("| rows x 40 | machines | " + " | ".join(f"{name}: s per tree | efficiency" for name in networks) + " |")
    print("|---|---|" + "---|" * 2 * len(networks))
    for rows in (130_000_000, 2_000_000_000):
        alone = {}
        for n in (1, 2, 4, 8, 16, 32):
            cells = []
            for name, (gbit, draw) in networks.items():
                took = rows / n * 40 * NS_PER_VALUE * 1e-9 / SCALE + 30 * SCAN / n + rows * draw * 1e-9
                if n > 1:
                    sent = 31 * 40 * 255 * 16 * (n - 1) / n  # two words for each bin: large leaves
                    took += sent * 8 / (gbit * 1e9) + EXCHANGES * STEP
                alone.setdefault(name, took)
                cells.append(f"{took:.3f} | {alone[name] / took / n:.0%}")
            print(f"| {rows:,} | {n} | {' | '.join(cells)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task")
    parser.add_argument("--dataset")
    for name, value in (("trees", 10), ("leaves", 31), ("rounds", 3)):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--extrapolate", action="store_true")
    args = parser.parse_args()
    if args.extrapolate:
        extrapolate()
    else:
        measure(args)


if __name__ == "__main__":
    main()
