"""Times the server of a model of 500 trees x 63 leaves over 10 ids and 30 numbers, and peers on the same trees.

Run in the local cloud: bin/localemu exec --data DIR/cloud -- python3 bench/serve.py --bin bin --out DIR
"""

import argparse
import glob
import importlib.metadata
import json
import os
import random
import resource
import subprocess
import sys
import time
import urllib.request

IDS, NUMBERS = 10, 30
BULK = 500_000  # rows of a whole table

SPEC = """name: serving
source: {out}/clicks.csv
label: click
split: {{by: random, train: 0.7, valid: 0.1, calib: 0.1, test: 0.1}}
contract: none
"""

SWEEP = """name: serving
dataset: serving
model: serving
objective: binary
metric: log_loss
trials: 1
seed: 1
params: {num_iterations: 500, num_leaves: 63, learning_rate: 0.02}
machine: {type: n2-highmem-2, spot: true, vms: 1, threads_per_task: 2, tasks_per_vm: 1, local_ssd: 1}
limits: {trial: 20m, sweep: 40m}
"""


def row(rng):
    score, cells = -2.0, {}
    for i in range(IDS):
        level = int(rng.expovariate(1 / (20 + 200 * i)))
        cells[f"i{i}"] = f"id{level}"
        score += (level % 7 - 3) / 6
    for i in range(NUMBERS):
        x = round(rng.gauss(0, 1), 4)
        cells[f"n{i}"] = x
        score += x / (2 + i)
    return cells, int(rng.random() < 1 / (1 + 2.718281828 ** -score))


def table(path, rows, seed):
    rng = random.Random(seed)
    with open(path, "w") as f:
        f.write("click," + ",".join(row(random.Random(0))[0]) + "\n")
        for _ in range(rows):
            cells, label = row(rng)
            f.write(f"{label}," + ",".join(map(str, cells.values())) + "\n")


def model(args):
    """Stages the table and trains the one candidate."""
    table(f"{args.out}/clicks.csv", args.rows, 1)
    for name, text in (("dataset", SPEC.format(out=os.path.abspath(args.out))), ("sweep", SWEEP)):
        with open(f"{args.out}/{name}.yaml", "w") as f:
            f.write(text)
    subprocess.run([f"{args.bin}/launcher", "stage", f"{args.out}/dataset.yaml"], check=True, stdout=subprocess.DEVNULL)
    code = subprocess.run([f"{args.bin}/launcher", "sweep", f"{args.out}/sweep.yaml"], stdout=subprocess.DEVNULL).returncode
    if code not in (0, 9):  # 9: registered, and not better than that of an earlier run
        raise SystemExit(code)


def processor(pid):
    """Seconds that a process has computed."""
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def server(args):
    """Latency over HTTP, on one core each: requests of 50 rows at rising rates."""
    for name, n in (("rows50", 50), ("rows1", 1)):
        rng = random.Random(2)
        with open(f"{args.out}/{name}.json", "w") as f:
            json.dump({"instances": [row(rng)[0] for _ in range(n)]}, f)
    env = dict(os.environ, GOMAXPROCS="1")
    port = 18766
    p = subprocess.Popen(["taskset", "-c", "0", f"{args.bin}/launcher", "serve", "--model", "serving@latest", "--listen",
                          f"127.0.0.1:{port}"], env=env, stdout=subprocess.DEVNULL)
    try:
        ready(f"http://127.0.0.1:{port}/readyz")
        for name in ("rows1", "rows50"):
            for rate in args.rates:
                before = processor(p.pid)
                text = subprocess.run(
                    ["taskset", "-c", "1", f"{args.bin}/gauge", "load", "--url", f"http://127.0.0.1:{port}/predict", "--body",
                     f"{args.out}/{name}.json", "--rate", str(rate), "--lasts", f"{args.seconds}s"],
                    env=env, check=True, capture_output=True, text=True).stdout
                done = json.loads(text)
                each = 1e6 * (processor(p.pid) - before) / max(done["requests"], 1)
                print(f"| {name[4:]} | {rate} | {done['achieved']:.0f} | {done['latency_ms']['p50']} | "
                      f"{done['latency_ms']['p99']} | {done['failed']} | {each:.0f} |", flush=True)
                if done["achieved"] < 0.9 * rate:
                    break  # beyond what it can do
    finally:
        p.terminate()
        p.wait()


def timed(what, call, rows, least=1.0):
    """Processor time of a call, in microseconds."""
    call()
    calls, begun = 0, time.process_time()
    while (spent := time.process_time() - begun) < least:
        call()
        calls += 1
    each = 1e6 * spent / calls
    print(f"| {what} | {rows} | {each:.0f} | {each / rows:.1f} |", flush=True)


def others(booster, x):
    """onnxruntime with the same trees, in float32."""
    try:
        import onnxmltools
        import onnxruntime
        from onnxmltools.convert.common.data_types import FloatTensorType
        text = onnxmltools.convert_lightgbm(booster, initial_types=[("x", FloatTensorType([None, x.shape[1]]))],
                                            zipmap=False).SerializeToString()
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # the converter declares one row, of which each larger call warns
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(text, options, providers=["CPUExecutionProvider"])
        narrow = x.astype("float32")
        for n in (1, 50, 10_000):
            timed("onnxruntime " + onnxruntime.__version__, lambda: session.run(None, {"x": narrow[:n]}), n)
    except Exception as e:  # it does not install everywhere, and converts some models only
        print(f"onnxruntime: NOT RUN ({type(e).__name__}: {str(e)[:100]})")


def boosted(x):
    """XGBoost with as many trees of its own, of as many leaves: it reads no others."""
    try:
        import xgboost
        label = x[:, 0] + x[:, 1] * x[:, 2] > 0
        booster = xgboost.train({"tree_method": "hist", "grow_policy": "lossguide", "max_leaves": 63, "max_depth": 0,
                                 "objective": "binary:logistic", "nthread": 1, "min_child_weight": 0},
                                xgboost.DMatrix(x, label), 500)
        for n in (1, 50, 10_000):
            timed("XGBoost " + xgboost.__version__, lambda: booster.inplace_predict(x[:n]), n)
    except Exception as e:  # it does not install everywhere
        print(f"XGBoost: NOT RUN ({type(e).__name__}: {str(e)[:100]})")


def over_http(what, command, at, health, path, body, folder, **env):
    """Processor time of a server's processes for requests of 50 rows, one after another; at is its address."""
    try:
        import psutil
        version = importlib.metadata.version(what.lower())
    except ImportError as e:
        print(f"{what}: NOT RUN ({e})")
        return
    p = subprocess.Popen([sys.executable, *command], cwd=folder, env=dict(os.environ, **env),
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        ready(f"http://{at}/{health}")
        ask = urllib.request.Request(f"http://{at}/{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
        urllib.request.urlopen(ask).read()

        def computed():
            server = psutil.Process(p.pid)
            return sum(processor(one.pid) for one in [server, *server.children(recursive=True)])

        before = computed()
        for _ in range(500):
            urllib.request.urlopen(ask).read()
        each = 1e6 * (computed() - before) / 500
        print(f"{what} {version} with LightGBM: {each:.0f} us of a request of 50 rows of numbers, over HTTP", flush=True)
    finally:
        p.terminate()
        p.wait()


def servers(path, x, folder):
    """Servers that others wrote, around LightGBM, which get encoded numbers."""
    rows, port = x[:50], 18767
    over_http("BentoML", ["-m", "bentoml", "serve", "serve_bento:Trees", "--host", "127.0.0.1", "--port", str(port)],
              f"127.0.0.1:{port}", "readyz", "predict", {"rows": rows.tolist()}, os.path.dirname(os.path.abspath(__file__)),
              COPPICE_TREES=os.path.abspath(path), BENTOML_DO_NOT_TRACK="true")
    for name, settings in (("settings", {"host": "127.0.0.1", "http_port": port, "grpc_port": port + 1,
                                         "metrics_port": port + 2, "parallel_workers": 0}),
                           ("model-settings", {"name": "m", "implementation": "mlserver_lightgbm.LightGBMModel",
                                               "parameters": {"uri": os.path.abspath(path)}})):
        with open(f"{folder}/{name}.json", "w") as f:
            json.dump(settings, f)
    tensor = {"name": "x", "shape": rows.shape, "datatype": "FP64", "data": rows.ravel().tolist()}
    over_http("MLServer", ["-c", "import mlserver.cli; mlserver.cli.main()", "start", "."], f"127.0.0.1:{port}",
              "v2/models/m/ready", "v2/models/m/infer", {"inputs": [tensor]}, folder)


def ready(url):
    for _ in range(300):
        try:
            urllib.request.urlopen(url).read()
            return
        except OSError:
            time.sleep(0.2)


def newest(args):
    """The model file that was trained last."""
    return max(glob.glob(f"{args.out}/cloud/gcs/*/registry/serving/versions/*/model.txt"), key=os.path.getmtime)


def peers(args):
    """Trees alone on encoded numbers."""
    import numpy as np

    path = newest(args)
    rng = np.random.default_rng(1)
    print("\n| trees alone | rows | processor time, us | per row |\n|---|---|---|---|")
    try:
        import lightgbm as lgb
        booster = lgb.Booster(model_file=path)
        x = rng.normal(size=(10_000, booster.num_feature()))
        for n in (1, 50, 10_000):
            timed("LightGBM " + lgb.__version__, lambda: booster.predict(x[:n], raw_score=True, num_threads=1), n)
    except ImportError as e:
        print(f"LightGBM: NOT RUN ({e})")
        return
    try:
        import lleaves
        compiled = lleaves.Model(model_file=path)
        compiled.compile()
        for n in (1, 50, 10_000):
            timed("lleaves " + lleaves.__version__, lambda: compiled.predict(x[:n], n_jobs=1), n)
    except Exception as e:  # it does not install everywhere, and refuses some models
        print(f"lleaves: NOT RUN ({type(e).__name__}: {str(e)[:100]})")
    others(booster, x)
    boosted(x)
    for rows in (1, 50, 10_000):
        x[:rows].astype("<f8").tofile(f"{args.out}/x.f64")
        text = subprocess.run([f"{args.bin}/gauge", "predict", "--model", path, "--values", f"{args.out}/x.f64",
                               "--repeat", "100" if rows < 100 else "4"], check=True, capture_output=True, text=True).stdout
        best = json.loads(text)["cpu_seconds"]
        print(f"| Coppice | {rows} | {1e6 * best:.0f} | {1e6 * best / rows:.1f} |", flush=True)
    servers(path, x, args.out)


def bulk(args):
    """Rows of whole tables for each second of processor time, one thread, by what reads them."""
    import pandas as pd
    import pyarrow.csv
    import pyarrow.parquet

    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
    import coppice
    from coppice import _program

    model = os.path.dirname(newest(args))
    csv, parquet = f"{args.out}/bulk.csv", f"{args.out}/bulk.parquet"
    table(csv, BULK, 3)
    columns = pyarrow.csv.read_csv(csv)
    pyarrow.parquet.write_table(columns, parquet)

    def computed():
        return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))

    def launcher(path):
        subprocess.run([f"{args.bin}/launcher", "predict", "--model", model, "--in", path, "--out", f"{args.out}/scored.csv"],
                       check=True, stdout=subprocess.DEVNULL, env=dict(os.environ, GOMAXPROCS="1"))

    loaded = coppice.Model.load(model)
    ways = {"launcher, CSV": lambda: launcher(csv), "launcher, Parquet": lambda: launcher(parquet)}
    for name, data in (("pandas", pd.read_csv(csv)), ("Arrow", columns)):
        for who, program in (("numpy", None), ("the wheel's program", f"{args.bin}/coppice")):
            def predict(data=data, program=program):
                _program.own = lambda: program
                return loaded.predict(data, threads=1)
            ways[f"Python, {name}, trees by {who}"] = predict
    print(f"\n| {BULK:,} rows, one thread | rows a second of processor time, medians of 3 | elapsed |\n|---|---|---|", flush=True)
    taken = {name: [] for name in ways}
    for _ in range(3):
        for name, way in ways.items():
            at, begun = time.perf_counter(), computed()
            way()
            taken[name].append((computed() - begun, time.perf_counter() - at))
    for name, times in taken.items():
        spent, elapsed = (sorted(t)[1] for t in zip(*times))
        print(f"| {name} | {BULK / spent:,.0f} | {BULK / elapsed:,.0f} |", flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--bin", required=True)
    p.add_argument("--out", required=True)
    p.add_argument("--rows", type=int, default=20_000)
    p.add_argument("--rates", type=lambda s: [int(x) for x in s.split(",")], default=[100, 500, 1000, 2000, 4000])
    p.add_argument("--keep", action="store_true", help="time the model of the last run")
    p.add_argument("--seconds", type=int, default=10)
    p.add_argument("--bulk", action="store_true", help="only whole tables, with the model of the last run")
    args = p.parse_args()
    os.makedirs(args.out, exist_ok=True)
    if not args.keep and not args.bulk:
        model(args)
    if args.bulk:
        bulk(args)
        return
    load = os.getloadavg()[0]
    print(f"load of the machine before: {load:.1f}, on {os.cpu_count()} cores\n")
    print("| rows | asked per s | answered per s | p50, ms | p99, ms | failed | processor time of a request, us |")
    print("|---|---|---|---|---|---|---|")
    server(args)
    peers(args)


if __name__ == "__main__":
    main()
