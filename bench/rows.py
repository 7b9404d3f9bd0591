"""The rows of the comparison: what each one runs, on which table, and the ratio that it has to reach.

A row is a function of a Session that takes measurements in pairs, ours and then a peer's, and records them.
"""

import json
import os
import shutil
import tempfile

import numpy as np

import measure
import quality
import tables
import trial
from session import TREES

# Row: what is done, and peer: the ratio of its time to ours that is asked for (None: shown, nothing asked).
DENSE_TARGETS = {"lightgbm": 3.0, "xgboost": 2.5, "hessboost": 2.0, "ydf": None}
TARGETS = {
    "dense31": ("1,000,000 x 28, 31 leaves", DENSE_TARGETS | {"sklearn": 3.0}),
    "dense255": ("1,000,000 x 28, 255 leaves", DENSE_TARGETS),
    "quantized31": ("1,000,000 x 28, 31 leaves, LightGBM with use_quantized_grad", {"quantized": 1.3}),
    "quantized255": ("1,000,000 x 28, 255 leaves, LightGBM with use_quantized_grad", {"quantized": 1.3}),
    "kddcup99": ("kddcup99, 31 leaves", {"lightgbm": 1.5, "lightgbm, our bins": None}),
    "nycflights": ("nycflights13, 31 leaves", {"lightgbm": 1.5, "lightgbm, our bins": None}),
    "flights": ("flight_delays, 31 leaves", {"lightgbm": 1.5, "lightgbm, our bins": None}),
    "sparse": ("200,000 x 400, 90 % zeros, 31 leaves", {"lightgbm": 1.2}),
    "threads31": ("1,000,000 x 28, 31 leaves, our 2 threads", {"coppice, 1 thread": 1.8}),
    "threads255": ("1,000,000 x 28, 255 leaves, our 2 threads", {"coppice, 1 thread": 1.8}),
    "predict": ("predict 1,000,000 rows, 500 trees of 63 leaves", {"lightgbm": 1.5, "leaves": 2.0}),
    "stage": ("stage 1,000,000 x 28 from Parquet, 1 thread", {"lightgbm Dataset": 2.0}),
    "stage2": ("stage 1,000,000 x 28 from Parquet, 2 threads", {"lightgbm Dataset": None}),
    "search": (
        "50 candidates on 2 cores, 300,000 x 28, from Parquet to best model",
        {"joblib": 2.5, "joblib, reads every time": None, "ray": 3.0},
    ),
}
MEMORY_TARGET = 2.0  # joblib's peak memory by ours in the search
# times the rounds and the seeds: a second of training says less than ten, and so does one that
# needs both processors undisturbed
SMALL_TABLE_ROUNDS = 3
SYNTHETIC = ("dense", "sparse")


def dense(s, row, leaves):
    folder = s.dense()
    s.compare(row, folder, leaves, {p: (p, folder) for p in TARGETS[row][1]})


def real(s, row):
    folder = s.real(row)
    s.compare(
        row,
        folder,
        31,
        {"lightgbm": ("lightgbm", folder), "lightgbm, our bins": ("lightgbm", s.on_our_bins(folder))},
        SMALL_TABLE_ROUNDS,
    )


def sparse(s, row):
    folder = s.sparse()
    s.compare(row, folder, 31, {"lightgbm": ("lightgbm", folder)})


def threads(s, row, leaves):
    folder = s.dense()
    s.pairs(
        row,
        lambda: s.train(folder, leaves, 2),
        {"coppice, 1 thread": lambda: s.train(folder, leaves)},
        SMALL_TABLE_ROUNDS,
    )


def predict(s, row):
    """All three score the same float64 rows in memory with the same model; their scores are compared, too."""
    folder, model, values = s.dense(), s.scratch + "/model.txt", s.scratch + "/values.f64"
    s.train(folder, 63, 2, model, 500)
    tables.load(folder + "/train.pickle")[0].astype("<f8").tofile(values)

    def gauge(scorer):
        scores = f"{s.scratch}/{scorer}.f64"
        out = measure.run(
            [
                s.programs + "/gauge",
                "predict",
                "--model",
                model,
                "--values",
                values,
                "--scorer",
                scorer,
                "--scores",
                scores,
            ],
            measure.processors(1),
        )
        return dict(measure.last_json(out), worst=difference(s, scorer))

    def lightgbm():
        r = measure.last_json(s.python("peer.py", "predict", model, values, s.scratch + "/lightgbm.f64"))
        return dict(r, worst=difference(s, "lightgbm"))

    s.pairs(row, lambda: gauge("coppice"), {"lightgbm": lightgbm, "leaves": lambda: gauge("leaves")})
    os.remove(values)


def difference(s, scorer):
    """The largest difference between a scorer's scores and ours."""
    ours, theirs = (np.fromfile(f"{s.scratch}/{name}.f64", dtype="<f8") for name in ("coppice", scorer))
    worst = float(np.max(np.abs(ours - theirs)))
    if not worst <= 1e-9:
        raise measure.Failed(f"{scorer} scores differ from ours by up to {worst}")
    return worst


def stage(s, row, count):
    """Ours is the launcher from start to end, files written; LightGBM's begins after its imports
    and stays in memory."""
    import pyarrow.parquet as pq

    folder = s.dense()
    table = pq.read_table(folder + "/dense.parquet")
    source = f"{s.scratch}/plain.parquet"
    pq.write_table(table.slice(0, s.rows(1_000_000)).drop_columns(["part"]), source)
    with open(f"{s.scratch}/plain.yaml", "w") as f:
        f.write("name: plain\nsource: plain.parquet\nlabel: label\n")

    def ours():
        out = f"{s.scratch}/plain"
        run = measure.run(
            [
                s.programs + "/launcher",
                "stage",
                f"{s.scratch}/plain.yaml",
                "--out",
                out,
                "--threads",
                str(count),
                "--json",
            ],
            measure.processors(count),
        )
        if json.loads(run.out)["existed"]:
            raise measure.Failed("the dataset had been staged before")
        shutil.rmtree(out)
        return {"seconds": run.seconds, "cpu_seconds": run.cpu_seconds}

    s.pairs(
        row,
        ours,
        {
            "lightgbm Dataset": lambda: measure.last_json(
                s.python("peer.py", "stage", source, "--threads", str(count), threads=count)
            )
        },
    )


def configurations(count=50):
    """Random configurations, the same for everybody and in every run."""
    rng = np.random.Generator(np.random.PCG64(50))

    def log(low, high):
        return float(np.exp(rng.uniform(np.log(low), np.log(high))))

    return [
        {
            "learning_rate": round(log(0.03, 0.3), 4),
            "num_leaves": int(log(8, 128)),
            "min_data_in_leaf": int(log(10, 1000)),
            "feature_fraction": round(rng.uniform(0.4, 1), 2),
            "bagging_fraction": round(rng.uniform(0.5, 1), 2),
            "bagging_freq": 1,
            "lambda_l2": round(log(0.01, 100), 3),
        }
        for _ in range(count)
    ]


SWEEP = """name: search
dataset: search
metric: log_loss
trials: {trials}
early_stopping_rounds: {patience}
params: {{num_iterations: {trees}}}
search:
  fixed: {fixed}
machine: {{type: n2-highmem-2, vms: 1, threads_per_task: 1, tasks_per_vm: 2, local_ssd: 1}}
limits: {{trial: 30m, sweep: 2h}}
"""


def search(s, row):
    """Everything counts: ours stages, sweeps, verifies, calibrates and registers, emulated cloud included."""
    rows = s.rows(300_000)
    folder = s.table(f"search-{rows}", lambda: with_parts(rows))
    fixed = configurations()
    with open(s.scratch + "/configurations.json", "w") as f:
        json.dump(fixed, f)
    with open(s.scratch + "/sweep.yaml", "w") as f:
        f.write(SWEEP.format(trials=len(fixed), patience=trial.PATIENCE, trees=trial.TREES, fixed=json.dumps(fixed)))

    def ours():
        cloud = tempfile.mkdtemp(dir=s.scratch)
        script = f'"{s.programs}/launcher" stage "{folder}/dataset.yaml" --json >&2 && "{s.programs}/launcher" sweep "{s.scratch}/sweep.yaml" --json'
        run = measure.run(
            [s.programs + "/localemu", "exec", "--data", cloud, "--", "sh", "-c", script],
            measure.processors(2),
            memory=True,
        )
        shutil.rmtree(cloud)
        return dict(outcome(run), **whole(run))

    def peer(how):
        run = s.python(
            "search.py", how, folder + "/search.parquet", s.scratch + "/configurations.json", processors=2, memory=True
        )
        return dict(measure.last_json(run), **whole(run))

    s.pairs(
        row,
        ours,
        {
            "joblib": lambda: peer("joblib"),
            "joblib, reads every time": lambda: peer("naive"),
            "ray": lambda: peer("ray"),
        },
    )


def whole(run):
    return {"seconds": run.seconds, "peak_pss": run.sampler.peak_pss, "at_peak": run.sampler.at_peak}


def outcome(run):
    """What the sweep ended with, from the last line that it printed."""
    last = measure.last_json(run)
    won = last.get("conclusion", {})
    if won.get("outcome") != "winner" or last["failed"]:
        raise measure.Failed(f"the sweep ended without its winner: {json.dumps(last)[:2000]}")
    return {"candidates": last["done"], "log_loss": won["valid"]["log_loss"], "auc": won["valid"]["auc"]}


def with_parts(rows):
    """The dense table with rows to calibrate and to test on, too, which a sweep needs; the peers leave them aside."""
    t = tables.dense(rows, 2 * (rows // 5))
    t.name = "search"
    held = np.flatnonzero(~t.train())
    t.frame.loc[held[len(held) // 2 :], "part"] = "calib"
    t.frame.loc[held[3 * len(held) // 4 :], "part"] = "test"
    return t


def drawn(s, table, seed):
    """A table of quality's as a seed draws it: the whole of a synthetic one, which rows are held
    out of a real one, unless its own column says so. Where the bounds of bins fall is drawn with
    it; on one table it would be the same luck for every seed."""
    if table == "dense":
        return tables.dense(s.rows(1_000_000), seed=(11, seed))
    if table == "sparse":
        return tables.sparse(s.rows(200_000), seed=(12, seed))
    if table == "flights":
        return tables.flights(s.data, None)
    return {"kddcup99": tables.kddcup, "nycflights": tables.nycflights}[table](s.data, np.random.default_rng((5, seed)))


def rate_seeds(s, row):
    """Log loss and AUC on valid, ours and LightGBM's on both binnings; rows and features are drawn anew for
    every tree and seed. Real tables are smaller and say less, so they get more seeds."""
    for table, forms in {
        "dense": {"dense31": 31, "dense255": 255},
        **{t: {t: 31} for t in ("sparse", "kddcup99", "nycflights", "flights")},
    }.items():
        seeds = s.seeds if table in SYNTHETIC else s.seeds * SMALL_TABLE_ROUNDS
        for seed in range(1, seeds + 1):
            with tempfile.TemporaryDirectory(dir=s.scratch) as folder:
                tables.keep(drawn(s, table, seed), folder, ".parquet" if table in SYNTHETIC else ".csv", "none")
                place = tables.stage(s.programs, folder + "/dataset.yaml", folder + "/staged")
                own = [tables.load(f"{folder}/{split}.pickle") for split in ("train", "valid")]
                same = tables.same_bins(place)
                for name, leaves in forms.items():
                    params = dict(quality.SAMPLED, num_leaves=leaves, learning_rate=0.1, num_iterations=TREES)
                    ours = quality.coppice(s.programs, place, params, seed, s.scratch)
                    s.record(row, "coppice", table=name, seed=seed, log_loss=ours["log_loss"], auc=ours["auc"])
                    s.record(row, "lightgbm", table=name, seed=seed, **quality.lightgbm(*own, params, seed))
                    s.record(row, "lightgbm, our bins", table=name, seed=seed, **quality.lightgbm(*same, params, seed))


RUN = {
    "quality": lambda s: rate_seeds(s, "quality"),
    "dense31": lambda s: dense(s, "dense31", 31),
    "dense255": lambda s: dense(s, "dense255", 255),
    "quantized31": lambda s: dense(s, "quantized31", 31),
    "quantized255": lambda s: dense(s, "quantized255", 255),
    "kddcup99": lambda s: real(s, "kddcup99"),
    "nycflights": lambda s: real(s, "nycflights"),
    "flights": lambda s: real(s, "flights"),
    "sparse": lambda s: sparse(s, "sparse"),
    "threads31": lambda s: threads(s, "threads31", 31),
    "threads255": lambda s: threads(s, "threads255", 255),
    "predict": lambda s: predict(s, "predict"),
    "stage": lambda s: stage(s, "stage", 1),
    "stage2": lambda s: stage(s, "stage2", 2),
    "search": lambda s: search(s, "search"),
}
