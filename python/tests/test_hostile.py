"""Files that no writer of Coppice made: each is refused with FormatError, whatever vouches for it."""

import copy
import json
import os
import random
import tempfile
import unittest

import fixture
import fuzz
import hostile
import numpy as np
import pyarrow as pa

import coppice
from coppice import _calibrator, _encoding, _levels


def ipc(batch, copies=1, new=pa.ipc.new_file):
    if copies == 1 and new is pa.ipc.new_file and not any(c.null_count for c in batch.columns):
        return pa.py_buffer(fixture.arrow(batch))
    sink = pa.BufferOutputStream()
    with new(sink, batch.schema) as w:
        for _ in range(copies):
            w.write_batch(batch)
    return sink.getvalue()


class Features(unittest.TestCase):
    def refused(self, change):
        e = fixture.encoding()
        change(e)
        with self.assertRaises(coppice.FormatError, msg=json.dumps(e)[:200]):
            _encoding.decode(json.dumps(e).encode())

    def test_the_good_one(self):
        e = _encoding.decode(json.dumps(fixture.encoding()).encode())
        self.assertEqual((13, 3, 7), (len(e.features), len(e.tables), e.levels))

    def test_format_and_structure(self):
        for version in (0, 1, 3, "2", None, True, 2.5):
            self.refused(lambda e: e.update(format=version))
        for change in (
            lambda e: e.update(features=[]), lambda e: e.update(features=None), lambda e: e.update(features=e["features"] * 2), lambda e: e.update(features=[7]), lambda e: e.update(missing=[7]),
            lambda e: e.update(missing=["x"] * 1001), lambda e: e.update(missing=["x" * 2000]), lambda e: e.update(surprise=1), lambda e: e["features"][0].update(surprise=1), lambda e: e.update(tables=[{}]),
            lambda e: e.pop("tables"),
        ):  # fmt: skip
            self.refused(change)
        for text in (b"", b"[]", b"null", b"{}", b"[" * 200_000, b'{"format": 1e999}', b"\xff\xfe"):
            with self.assertRaises(coppice.FormatError):
                _encoding.decode(text)

    def test_features(self):
        def of(i, **change):
            return lambda e: e["features"][i].update(change)

        for change in (
            of(0, name=""), of(0, name="a\nb"), of(0, name="__row"), of(0, name=7), of(0, name="x" * 2000), of(0, kind="x"), of(0, bins=0), of(0, bins=256), of(0, bins=5), of(0, missing_bin=2), of(0, other_bin=1),
            of(0, bounds=[2, 1]), of(0, bounds=[1, 1]), of(0, bounds=["1"]), of(0, bounds=[True, 2]), of(0, bounds=[10**400, 1]), of(0, categories=["a"]), of(0, missing=-1),
            of(2, categories=["a", "a", "b", "c"]), of(2, categories=["a"]), of(2, counts=[1]), of(2, counts=[-1, 1, 1, 1]), of(2, bounds=[1]), of(2, categories=[1, 2, 3, 4]), of(2, other_bin=-1),
        ):  # fmt: skip
            self.refused(change)

    def test_derivations(self):
        def of(i, **change):
            return lambda e: e["features"][i]["from"].update(change)

        for change in (
            of(5, what="x"), of(5, table=-1), of(5, table=3), of(5, table=1.0), of(5, of=[fixture.PARTS["ts"]]), of(8, of=[]), of(8, table=0), of(8, of=[fixture.PARTS["user"]]), of(8, of=[fixture.PARTS["ts.hour"]]),
            of(10, table=0), of(10, of=[fixture.PARTS["price~"]]), of(12, of=[fixture.PARTS["ts"]]), of(4, table=0), of(4, of=[fixture.PARTS["ts"]]), of(4, what="rate"), of(5, surprise=1),
            lambda e: e["features"][0].update({"from": 7}), lambda e: e["features"][5].update(kind="time"),
        ):  # fmt: skip
            self.refused(change)

    def test_classes(self):
        for classes in (["a"], ["a", "a"], ["a", "\u00fc" * 101]):
            self.refused(lambda e, classes=classes: e.update(classes=classes))

    def test_rates_of_classes(self):
        def of(k):
            return lambda e: (e.update(classes=["a", "b"]), e["tables"][0].update({"class": k}))

        changed = fixture.encoding()
        of(2)(changed)
        self.assertEqual(_encoding.decode(json.dumps(changed).encode()).tables[0].one_of, 2)
        self.refused(of(3))

    def test_tables(self):
        def of(i, **change):
            return lambda e: e["tables"][i].update(change)

        def part(**change):
            return lambda e: e["tables"][2]["of"][1].update(change)

        for change in (
            of(1, back_off=1), of(1, back_off=2), of(0, back_off=0), of(1, back_off=-2), of(1, first=3), of(1, first=-1), of(0, levels=-1), of(0, levels=1 << 40), of(0, floor=0), of(0, strength=0), of(0, strength=-1),
            of(0, prior=None), of(0, prior="x"), of(0, of=[]), of(0, of=[fixture.PARTS["user"]] * 5), of(1, recency=1), of(1, recency=False),
            of(0, **{"class": 1}), of(0, **{"class": -1}), of(0, **{"class": "a"}),
            part(kind="x"), part(column=""), part(take="hour"), part(bounds=[3, 2]), part(kind="categorical"), part(bounds=[float("1e308"), 10**309]), part(take="minute", kind="time"),
        ):  # fmt: skip
            self.refused(change)

    def test_altered_at_random(self):
        """Whatever is put wherever, the outcome is an encoding or a FormatError."""
        rng = random.Random(5)
        junk = [
            None,
            True,
            -1,
            0,
            1,
            2,
            255,
            256,
            1 << 70,
            1.5,
            1e308,
            "",
            "x",
            "rate",
            "time",
            [],
            {},
            [1, 2],
            {"what": "rate"},
            [[]],
        ]

        def alter(v):
            if isinstance(v, (dict, list)) and v and rng.random() < 0.8:
                key = rng.choice(list(v) if isinstance(v, dict) else range(len(v)))
                v[key] = alter(v[key])
                return v
            return copy.deepcopy(rng.choice(junk))

        read = refused = 0
        for _ in range(3000):
            data = json.dumps(alter(fixture.encoding())).encode()
            try:
                _encoding.decode(data)
                read += 1
            except coppice.FormatError:
                refused += 1
        self.assertTrue(read and refused > 1000, (read, refused))


class Levels(unittest.TestCase):
    def setUp(self):
        self.encoding = _encoding.decode(json.dumps(fixture.encoding()).encode())
        self.good = pa.ipc.open_file(pa.BufferReader(fixture.levels_arrow())).get_batch(0)

    def refused(self, buffer):
        with self.assertRaises(coppice.FormatError):
            _levels.read(buffer, self.encoding)

    def test_the_good_one(self):
        self.assertEqual(7, len(_levels.read(ipc(self.good), self.encoding).hash))

    def test_shapes(self):
        b = self.good
        self.refused(ipc(b.slice(1)))
        self.refused(ipc(b, copies=2))
        self.refused(ipc(b, new=pa.ipc.new_stream))
        self.refused(ipc(b.select(["hash", "sum", "rows"])))
        self.refused(ipc(b.select(["sum", "hash", "rows", "last"])))
        self.refused(ipc(b.set_column(0, "hash", b.column(0).cast(pa.float64(), safe=False))))
        self.refused(ipc(b.set_column(0, "hash", b.column(0).take(pa.array([6, 5, 4, 3, 2, 1, 0])))))
        self.refused(ipc(b.set_column(1, "sum", pa.array([None] + [1.0] * 6))))
        self.refused(pa.py_buffer(b""))
        self.refused(pa.py_buffer(b"ARROW1\0\0" + b"\0" * 100 + b"ARROW1"))

    def test_numbers_that_are_none(self):
        b = self.good
        weights = b.append_column("weight", pa.array([1.0] * 7)).select(["hash", "sum", "rows", "weight", "last"])
        self.assertEqual(7, len(_levels.read(ipc(weights), self.encoding).weight))
        for bad in (float("nan"), float("inf"), -float("inf")):
            self.refused(ipc(b.set_column(1, "sum", pa.array([1.0] * 6 + [bad]))))
            self.refused(ipc(b.set_column(3, "last", pa.array([bad] + [1.0] * 6))))
            self.refused(ipc(weights.set_column(3, "weight", pa.array([1.0] * 3 + [bad] + [1.0] * 3))))
        self.refused(ipc(weights.set_column(3, "weight", pa.array([1.0] * 6 + [-1.0]))))

    def test_altered_bytes(self):
        """Whatever byte is altered, the outcome is levels or a FormatError."""
        rng = random.Random(6)
        good = ipc(self.good).to_pybytes()
        for _ in range(500):
            bad = bytearray(good)
            bad[rng.randrange(len(bad))] = rng.randrange(256)
            try:
                _levels.read(pa.py_buffer(bytes(bad)), self.encoding)
            except coppice.FormatError:
                pass


class Others(unittest.TestCase):
    def test_calibrators(self):
        for bad in (
            {"format": 2, "method": "none"}, {"format": 1, "method": "x"}, {"format": 1, "method": "none", "a": 1}, {"format": 1, "method": "platt", "a": 1}, {"format": 1, "method": "platt", "a": -1, "c": 0},
            {"format": 1, "method": "platt", "a": 1, "b": 1, "c": 0}, {"format": 1, "method": "beta", "a": 1, "b": 1, "c": 0}, {"format": 1, "method": "isotonic", "a": 1, "c": 0}, {"format": 1, "method": "platt", "a": True, "c": 0},
            {"format": 1, "method": "platt", "a": "1", "c": 0}, {"format": 1, "method": "platt", "a": 1, "c": 0, "x": [0]}, [], 7,
        ):  # fmt: skip
            with self.subTest(str(bad)), self.assertRaises(coppice.FormatError):
                _calibrator.decode(json.dumps(bad).encode())


# A large case of each file; `make interop FULL=1` reads all.
LARGE = (
    "features.json: as many lists as there may be",
    "calibrator.json: numbers without end",
    "version.json: as many objects as a mebibyte holds",
    "model.txt: sizes of trees",
    "levels.arrow: zeros",
)


class Versions(unittest.TestCase):
    """The cases that the Go programs refuse, too, in a process of its own whose memory and time are bounded."""

    def test_cases(self):
        child = hostile.python()
        self.addCleanup(lambda: child.close())
        with tempfile.TemporaryDirectory() as folder:
            start = child.ask(hostile.written(hostile.version(), folder + "/v"))["memory"]
            for name, want, files in hostile.cases():
                with self.subTest(name):
                    try:
                        got = child.ask(hostile.written(files, folder + "/v"))
                    except RuntimeError as e:
                        child = hostile.python()
                        self.fail(f"{name}: {e}")
                    self.assertEqual(want is None, "refused" in got, got)
                    if want is None:
                        self.assertRegex(got["refused"], r"(model\.txt|(features|calibrator|version)\.json|levels\.arrow)")
                    else:
                        np.testing.assert_allclose(got["scores"], want, atol=1e-12)
            self.assertLess(got["memory"] - start, hostile.GROWTH, "KiB of memory for all of them")

    def test_large(self):
        """What is as large as it may be and wrong is refused within the time and memory of docs/serving.md."""
        with tempfile.TemporaryDirectory() as folder:
            for name, _, files in hostile.cases("large.json"):
                if name not in LARGE and not os.environ.get("COPPICE_FULL"):
                    continue
                with self.subTest(name):
                    child = hostile.python()
                    self.addCleanup(child.close)
                    start = child.ask(hostile.written(hostile.version(), folder + "/v"))["memory"]
                    got = child.ask(hostile.written(files, folder + "/v"))
                    child.close()
                    self.assertIn("refused", got)
                    self.assertLess(got["memory"] - start, 1 << 20, f"KiB of memory for {name}")
                    self.assertLess(got["seconds"], 15, f"seconds for {name}")

    def test_altered_at_random(self):
        """Whatever is altered, the version is refused or predicts; a longer run is `make fuzz-versions`."""
        child = hostile.python()
        self.addCleanup(child.close)
        with tempfile.TemporaryDirectory() as folder:
            rng, refused = random.Random(7), 0
            for _ in range(300):
                files = fuzz.altered(rng, hostile.version())
                answer = child.ask(hostile.written(files, folder + "/v"))
                refused += "refused" in answer
        self.assertTrue(50 < refused < 300, f"{refused} of 300 were refused")


if __name__ == "__main__":
    unittest.main()
