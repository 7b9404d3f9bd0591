#!/usr/bin/env python3
"""One model by several processes, with LightGBM's sockets, XGBoost's tracker and Coppice: is it the model of one process?

usage: machines_peers.py --task bin/task --dataset DIR --table DIR [--workers 2] [--runs 10] [--trees 30] [--leaves 31]
                         [--only coppice,lightgbm,xgboost]

--table has the Parquet files that --dataset was staged from. Each library reads them by itself. All of it runs in a
network of its own, whose loopback counts the bytes (Linux only).
"""

import argparse
import ctypes
import fcntl
import glob
import hashlib
import json
import os
import re
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time


def own_network():
    """Moves this process and those that it starts into a network with nothing but a loopback."""
    new_user, new_network = 0x10000000, 0x40000000  # sched.h
    if ctypes.CDLL(None).unshare(new_network | (new_user if os.geteuid() else 0)):
        raise SystemExit("this system has no network namespaces for its users; run it as root")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        up, set_flags = 1, 0x8914
        fcntl.ioctl(s, set_flags, struct.pack("16sH14x", b"lo", up))


def sent():
    """Bytes that the loopback has carried, with the headers of TCP and IP."""
    with open("/proc/self/net/dev") as f:
        return next(int(line.split(":")[1].split()[8]) for line in f if line.strip().startswith("lo:"))


def rows_of(args, part, parts):
    import pyarrow.parquet as pq

    table = pq.ParquetDataset(sorted(glob.glob(args.table + "/*.parquet"))).read()
    n = table.num_rows
    # Files of several row groups are read whole: the same rows in the same order each time.
    part = table.slice(n * part // parts, n * (part + 1) // parts - n * part // parts)
    label = part.column("label").to_numpy()
    return part.drop_columns(["label"]).to_pandas().to_numpy(), label


def train_lightgbm(args, part, parts, ports):
    import lightgbm as lgb

    x, y = rows_of(args, part, parts)
    params = {"objective": "binary", "num_leaves": args.leaves, "num_threads": 1, "verbose": -1, "deterministic": True}
    params.update(force_row_wise=True, seed=1)
    if parts > 1:
        machines = ",".join(f"127.0.0.1:{p}" for p in ports)
        params.update(tree_learner="data", machines=machines, num_machines=parts, pre_partition=True)
        params.update(local_listen_port=ports[part])
    start = time.monotonic()
    text = lgb.train(params, lgb.Dataset(x, y), args.trees).model_to_string()
    # Only the trees: ports are among the parameters below them.
    return time.monotonic() - start, text[text.index("Tree=0") : text.index("end of trees")]


def train_xgboost(args, part, parts, worker):
    import xgboost as xgb

    x, y = rows_of(args, part, parts)
    params = {"objective": "binary:logistic", "tree_method": "hist", "grow_policy": "lossguide", "seed": 1, "nthread": 1}
    params.update(max_leaves=args.leaves, max_depth=0)
    with xgb.collective.CommunicatorContext(**worker) if worker else open(os.devnull):
        start = time.monotonic()
        booster = xgb.train(params, xgb.DMatrix(x, y), args.trees)
        return time.monotonic() - start, booster.save_raw("json").decode()


def part(args):
    """One process of a library."""
    said = json.loads(args.part)
    train = {"lightgbm": train_lightgbm, "xgboost": train_xgboost}[said["library"]]
    seconds, text = train(args, said["part"], said["parts"], said["with"])
    with open(said["out"], "w") as f:
        json.dump({"seconds": seconds, "model": hashlib.sha256(text.encode()).hexdigest()}, f)


def free_ports(n):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def peer(args, library, parts, folder):
    tracker, told = None, free_ports(parts)
    if library == "xgboost":
        told = {}
        if parts > 1:
            from xgboost.tracker import RabitTracker

            tracker = RabitTracker(n_workers=parts, host_ip="127.0.0.1")
            tracker.start()
            told = tracker.worker_args()
    running = []
    for i in range(parts):
        out = f"{folder}/{library}-{i}.json"
        said = json.dumps({"library": library, "part": i, "parts": parts, "with": told, "out": out})
        running.append((subprocess.Popen([sys.executable, *sys.argv, "--part", said], stdout=subprocess.DEVNULL), out))
    results = []
    for process, out in running:
        if process.wait(timeout=900):
            raise SystemExit(f"{library}: a process has failed")
        with open(out) as f:
            results.append(json.load(f))
    if tracker:
        tracker.wait_for()
    return max(r["seconds"] for r in results), results[0]["model"]


def coppice(args, parts, folder):
    params, out = folder + "/params.yaml", folder + "/model.txt"
    with open(params, "w") as f:
        f.write(f"num_iterations: {args.trees}\nnum_leaves: {args.leaves}\n")
    argv = [args.task, "train", "--dataset", args.dataset, "--params", params, "--out", out, "--json", "--no-verify"]
    said = subprocess.run([*argv, "--no-rate", "--workers", str(parts)], stdout=subprocess.PIPE, check=True).stdout
    with open(out) as f:
        text = re.sub(r"(?s)\nparameters:.*", "", f.read())
    return json.loads(said)["seconds"], hashlib.sha256(text.encode()).hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("task", "dataset", "table", "part"):
        parser.add_argument("--" + name)
    parser.add_argument("--only", default="coppice,lightgbm,xgboost")
    for name, value in (("workers", 2), ("runs", 10), ("trees", 30), ("leaves", 31)):
        parser.add_argument("--" + name, type=int, default=value)
    args = parser.parse_args()
    if args.part:
        part(args)
        return

    own_network()
    print(f"| library | one process, s | {args.workers} processes, s | MB per tree | like one | different models |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for library in args.only.split(","):

            def train(parts, library=library):
                if library == "coppice":
                    return coppice(args, parts, folder)
                return peer(args, library, parts, folder)

            alone, several, wire = [], [], 0
            for _ in range(args.runs):
                alone.append(train(1))
                wire -= sent()
                several.append(train(args.workers))
                wire += sent()
            seconds = [f"{statistics.median(r[0] for r in runs):.2f}" for runs in (alone, several)]
            same = sum(r[1] == alone[0][1] for r in several)
            models = len({r[1] for r in several})
            each = wire / args.runs / args.trees / 1e6
            print(f"| {library} | {' | '.join(seconds)} | {each:.2f} | {same} of {args.runs} | {models} |", flush=True)


if __name__ == "__main__":
    main()
