"""A small registered version with every kind of feature, made without the Go programs."""

import copy
import hashlib
import json
import pathlib
import struct
import sys
import tempfile
import unittest

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import lightgbm  # noqa: E402

import coppice  # noqa: E402
from coppice import _hash, _levels, _text, _trees  # noqa: E402

TOKENS = ["", "NA", "-999.0"]
PARTS = {
    "user": {"column": "user", "kind": "categorical"},
    "site": {"column": "site", "kind": "categorical"},
    "price~": {"column": "price", "kind": "numeric", "bounds": [1.5, 10.0]},
    "ts.hour": {"column": "ts", "kind": "time", "take": "hour"},
    "ts": {"column": "ts", "kind": "time"},
    "signup": {"column": "signup", "kind": "time"},
}


def numeric(name, bounds=(), missing=True, **more):
    """A numeric feature."""
    bins = len(bounds) + 1
    return {
        "name": name,
        "kind": "numeric",
        "why": "type",
        "bins": bins + missing,
        "bounds": list(bounds),
        "missing_bin": bins if missing else -1,
        "other_bin": -1,
        "missing": 3,
    } | more


def categorical(name, categories, missing=True, **more):
    """A categorical feature."""
    n = len(categories)
    counts = list(range(n, 0, -1))
    return {
        "name": name,
        "kind": "categorical",
        "why": "text",
        "bins": n + 1 + missing,
        "categories": categories,
        "counts": counts,
        "missing_bin": n + 1 if missing else -1,
        "other_bin": n,
        "missing": 3,
    } | more


def derived(name, what, table=-1, of=()):
    """A derived feature."""
    return numeric(name, **{"from": {"what": what, "table": table, "of": [PARTS[p] for p in of]}})


def level(*hashes):
    """The hash of a level of these parts."""
    h = _hash.begin(1)
    for x in hashes:
        h = _hash.join(h, np.array([x], dtype=np.uint64))
    return int(h[0])


def text(s):
    """The hash of a part that is a text."""
    return int(_text.hash_texts(pa.array([s], pa.large_string()), _text.Missing(TOKENS))[0])


def in_range(i):
    """The hash of a part that lies in a range."""
    return int(_hash.ranges(np.array([i]))[0])


# The levels of each table: parts, sum of labels, rows, last time.
TABLES = [
    (["site"], -1, False, [([text("a.example")], 3.0, 10, 0.0), ([text("b.example")], 1.0, 20, 0.0)]),
    (
        ["user"],
        0,
        True,
        [([text("1001")], 5.0, 8, 1000.0), ([text("1002")], 0.0, 2, 2000.0), ([int(_hash.missing())], 1.0, 4, 3000.0)],
    ),
    (
        ["user", "price~"],
        1,
        False,
        [([text("1001"), in_range(1)], 2.0, 3, 0.0), ([text("true"), in_range(2)], 1.0, 1, 0.0)],
    ),
]


def encoding():
    """The contents of features.json."""
    tables, first = [], 0
    for of, back_off, recency, levels in TABLES:
        t = {
            "of": [PARTS[p] for p in of],
            "first": first,
            "levels": len(levels),
            "floor": 1,
            "prior": 0.25,
            "strength": 4.0,
            "back_off": back_off,
        }
        tables.append(t | ({"recency": True} if recency else {}))
        first += len(levels)
    e = {
        "format": 2,
        "features": [
            numeric("price", [1.5, 10.0], range={"min": 0, "median": 1, "max": 2}),
            {"name": "ts", "kind": "time", "why": "type", "bins": 1, "missing_bin": -1, "other_bin": -1, "missing": 0},
            categorical("device", ["phone", "1.0", "True", " tv"]),
            categorical("user", ["1001", "7.5"], missing=False),
            categorical("user:levels", ["1002"], **{"from": {"what": "levels", "table": -1, "of": [PARTS["user"]]}}),
            derived("site:rate", "rate", 0),
            derived("user:rate", "rate", 1),
            derived("user:count", "count", 1),
            derived("user:recency", "recency", 1, ["ts"]),
            derived("user+price~:rate", "rate", 2),
            derived("ts.hour", "hour", of=["ts"]),
            derived("ts.weekday", "weekday", of=["ts"]),
            derived("signup.age", "age", of=["ts", "signup"]),
        ],
        "missing": TOKENS,
        "tables": tables,
    }
    return copy.deepcopy(e)  # tests alter it


def levels_arrow():
    """The contents of levels.arrow."""
    rows = []
    for _, _, _, levels in TABLES:
        rows += sorted((level(*parts), s, n, last) for parts, s, n, last in levels)
    hashes, sums, counts, last = zip(*rows)
    return arrow(
        pa.record_batch(
            [pa.array(hashes, pa.uint64()), pa.array(sums), pa.array(counts, pa.uint32()), pa.array(last)],
            names=["hash", "sum", "rows", "last"],
        )
    )


def arrow(batch):
    """A file of one record batch whose columns begin at multiples of 64 bytes, as Coppice writes it: pyarrow's file,
    with its columns moved."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as w:
        w.write_batch(batch)
    data = bytearray(sink.getvalue())
    file = _levels._Arrow(memoryview(data))
    block = file.footer.vector(3, 24)[0]
    at, length = (file.footer.get(form, block + k) for form, k in (("q", 0), ("i", 8)))
    message = _levels._Table(memoryview(data), at + 8, at + length).follow(at + 8)
    buffers, n = message.child(2).vector(2, 16)

    body = bytearray()
    for k in range(n):
        old, size = (message.get("q", buffers + 16 * k + 8 * j) for j in (0, 1))
        body += bytes(-len(body) % 64)
        struct.pack_into("<q", data, buffers + 16 * k, len(body))
        body += data[at + length + old : at + length + old + size]
    pad = -(at + length) % 64
    struct.pack_into("<I", data, at + 4, length + pad - 8)
    struct.pack_into("<q", data, message.field(3), len(body))
    struct.pack_into("<i", data, block + 8, length + pad)
    struct.pack_into("<q", data, block + 16, len(body))
    return bytes(data[: at + length] + bytes(pad) + body + data[file.footer_at :])


def model_txt(encoded):
    """A few trees that ask for every feature of an encoding."""
    rng = np.random.default_rng(1)
    features = encoded["features"]
    categories = [i for i, f in enumerate(features) if f["kind"] == "categorical"]
    x = rng.normal(size=(400, len(features))) * 10
    for i in categories:
        x[:, i] = rng.integers(0, features[i]["bins"], size=400)
    weight = np.array([20.0 if i in categories else 1.0 for i in range(len(features))])
    y = ((x - x.mean(axis=0)) @ weight + rng.normal(size=400) > 0).astype(float)
    params = {
        "objective": "binary",
        "num_leaves": 8,
        "verbose": -1,
        "min_data_in_leaf": 2,
        "min_data_per_group": 2,
        "num_threads": 1,
        "deterministic": True,
    }
    names = _trees.plain_names([f["name"] for f in features])
    data = lightgbm.Dataset(x, y, feature_name=names, categorical_feature=categories)
    return lightgbm.train(params, data, 8).model_to_string().encode()


def files():
    """All files of the version."""
    e = encoding()
    calibrator = {"format": 1, "method": "platt", "a": 0.75, "c": -0.125}
    return {
        "model.txt": model_txt(e),
        "features.json": json.dumps(e).encode(),
        "calibrator.json": json.dumps(calibrator).encode(),
        "levels.arrow": levels_arrow(),
    }


def register(root, contents, number=1, model="ctr"):
    """Writes a version below root as the registry does, and gives its folder."""
    folder = pathlib.Path(root) / "registry" / model / "versions" / str(number)
    folder.mkdir(parents=True)
    listed = []
    for name, data in sorted(contents.items()):
        (folder / name).write_bytes(data)
        listed.append(
            {
                "name": name,
                "object": f"registry/{model}/versions/{number}/{name}",
                "bytes": len(data),
                "sha256": hashlib.sha256(data).hexdigest(),
            }
        )
    record = {"format": 1, "model": model, "version": number, "key": "k", "info": {"at": "2026-11-24T18:31:37.681116078Z", "by": "a test"}, "files": listed}
    (folder / "version.json").write_text(json.dumps(record))
    return folder


def point(root, alias, number, model="ctr"):
    """Points an alias at a version."""
    folder = pathlib.Path(root) / "registry" / model / "aliases"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{alias}.json").write_text(json.dumps({"format": 1, "model": model, "alias": alias, "version": number}))


class Case(unittest.TestCase):
    """Tests that only read the version."""

    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.TemporaryDirectory()
        cls.model = coppice.Model.load(register(cls.dir.name, files()))

    @classmethod
    def tearDownClass(cls):
        cls.dir.cleanup()
