"""Loading: places, aliases, checksums; predicting."""

import json
import os
import pathlib
import tempfile
import unittest
import unittest.mock

import fixture
import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
from test_encode import table

import coppice
from coppice import _calibrator, _registry


class Loading(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.files = fixture.files()

    def setUp(self):
        self._dir = tempfile.TemporaryDirectory()
        self.addCleanup(self._dir.cleanup)
        self.root = self._dir.name
        self.folder = fixture.register(self.root, self.files)

    def test_places(self):
        fixture.register(self.root, self.files, number=2)
        fixture.register(self.root, self.files, number=10)
        self.assertEqual(10, coppice.Model.load(self.root, model="ctr").version)  # the newest
        fixture.point(self.root, "champion", 2)
        fixture.point(self.root, "canary", 1)
        for arguments, want in [((), 2), (("champion",), 2), (("canary",), 1), ((10,), 10), (("10",), 10)]:
            self.assertEqual(want, coppice.Model.load(self.root, "ctr", *arguments).version)
        m = coppice.Model.load(self.folder)
        self.assertEqual(("ctr", 1, "binary", "platt"), (m.name, m.version, m.objective, m.calibration))
        self.assertIn("ctr version 1: binary", repr(m))
        local = pafs.SubTreeFileSystem(self.root, pafs.LocalFileSystem())
        self.assertEqual(2, coppice.Model.load("", "ctr", filesystem=local).version)
        self.assertEqual(1, coppice.Model.load("registry/ctr/versions/1", filesystem=local).version)

    def test_what_is_not_there(self):
        for call in (
            lambda: coppice.Model.load(self.root),
            lambda: coppice.Model.load(self.root, "other"),
            lambda: coppice.Model.load(self.root, "ctr", 7),
            lambda: coppice.Model.load(self.root, "ctr", "canary"),
            lambda: coppice.Model.load("/nowhere/at/all"),
            lambda: coppice.Model.load(self.folder / "model.txt"),
        ):
            with self.assertRaises(coppice.NotFoundError):
                call()
        for model, says in ((None, "with model=, ctr$"), ("cttr", "no model 'cttr' with a version; there are ctr$")):
            with self.assertRaisesRegex(coppice.NotFoundError, says):
                coppice.Model.load(self.root, model)
        for call in (
            lambda: coppice.Model.load(self.root, "../x"),
            lambda: coppice.Model.load(self.root, "ctr", "../1"),
            lambda: coppice.Model.load(self.root, version=1),
            lambda: coppice.Model.load("s3://x"),
        ):
            with self.assertRaises(coppice.Error):
                call()
        with self.assertRaises(coppice.Error):
            coppice.Model.load(self.root, "ctr", 0)

    def test_a_local_cloud_of_another_build(self):
        cloud = pathlib.Path(self.root) / "cloud"
        registry = cloud / "gcs" / "coppice-registry"
        registry.mkdir(parents=True)
        os.rename(pathlib.Path(self.root) / "registry", registry / "registry")
        mark = cloud / "gcs" / ".format"
        mark.write_text('{"format":2,"build":"v1"}')
        coppice.Model.load(cloud, "ctr")
        mark.write_text('{"format":3,"build":"v9"}')
        for where in (cloud, registry, f"{registry}/"):
            with self.assertRaisesRegex(coppice.FormatError, "its format is 3 and this package reads 2: use coppice v9"):
                coppice.Model.load(where, "ctr")
        os.rename(registry, cloud / "moved")
        with self.assertRaisesRegex(coppice.FormatError, "its format is 3"):
            coppice.Model.load(cloud, "ctr")

    def test_a_flipped_bit_is_refused(self):
        for name, data in self.files.items():
            for at in (0, len(data) // 2, len(data) - 1):
                bad = bytearray(data)
                bad[at] ^= 1
                (self.folder / name).write_bytes(bad)
                with self.subTest(name, at=at), self.assertRaisesRegex(coppice.CorruptError, "SHA-256"):
                    coppice.Model.load(self.folder)
            (self.folder / name).write_bytes(data[:-1])
            with self.assertRaises(coppice.CorruptError):
                coppice.Model.load(self.folder)
            os.remove(self.folder / name)
            with self.assertRaises(coppice.CorruptError):
                coppice.Model.load(self.folder)
            (self.folder / name).write_bytes(data)
        coppice.Model.load(self.folder)

    def test_unverified(self):
        os.remove(self.folder / "version.json")
        with self.assertRaises(coppice.NotFoundError):
            coppice.Model.load(self.folder)
        m = coppice.Model.load(self.folder, verify=False)
        self.assertEqual(("", 0), (m.name, m.version))

    def test_a_file_is_there_without_being_read(self):
        os.remove(self.folder / "version.json")
        local = pafs.SubTreeFileSystem(self.root, pafs.LocalFileSystem())
        for store, folder in (
            (_registry.Folder(str(self.folder)), ""),
            (_registry.Bucket(local, "registry", "here"), "ctr/versions/1/"),
        ):
            v = _registry.Version(store, folder, verify=False)
            with unittest.mock.patch.object(store, "read", side_effect=AssertionError("it was read")):
                self.assertTrue(v.has("levels.arrow"))
                self.assertFalse(v.has("report.json"))

    def test_a_file_that_lies_elsewhere(self):
        record = json.loads((self.folder / "version.json").read_text())
        f = next(f for f in record["files"] if f["name"] == "model.txt")
        other = self.folder / "other" / f["sha256"][:16]
        other.mkdir(parents=True)
        os.rename(self.folder / "model.txt", other / "model.txt")
        f["object"] = f"registry/ctr/versions/1/other/{f['sha256'][:16]}/model.txt"
        (self.folder / "version.json").write_text(json.dumps(record))
        coppice.Model.load(self.folder)

    def test_hostile_records(self):
        good = json.loads((self.folder / "version.json").read_text())

        def altered(**change):
            return good | change

        def file(**change):
            return altered(files=[good["files"][0] | change] + good["files"][1:])

        for bad in (
            [], "x", {}, altered(format=2), altered(format=True), altered(version=2), altered(version="1"), altered(model="x"), altered(model=None), altered(files=[]), altered(files=None), altered(files=[1]),
            file(object="registry/ctr/versions/1/../../../etc/passwd"), file(object="/etc/passwd"), file(name="../x"), file(name=""), file(bytes=-1), file(bytes=1 << 40), file(sha256="0"), file(sha256=None),
            altered(files=good["files"] * 2), altered(files=good["files"] * 20),
        ):  # fmt: skip
            (self.folder / "version.json").write_text(json.dumps(bad))
            with self.subTest(str(bad)[:100]), self.assertRaises(coppice.CorruptError):
                coppice.Model.load(self.folder)
        for text in (
            b"",
            b"{",
            b"\xff",
            b"[" * 100_000,
            b'{"format": NaN}',
            b'{"format": 1, "format": 1}',
            b"0" * (2 << 20),
        ):
            (self.folder / "version.json").write_bytes(text)
            with self.subTest(text[:20]), self.assertRaises(coppice.CorruptError):
                coppice.Model.load(self.folder)
        (self.folder / "version.json").write_text(json.dumps(good))
        gone = self.folder / "deleted.json"
        deleted = {"format": 1, "model": "ctr", "version": 1, "by": "me", "why": "x", "at": "2026-11-24T00:00:00Z"}
        for record, error in (
            (deleted, coppice.NotFoundError),
            (deleted | {"version": 2}, coppice.CorruptError),
            (deleted | {"withdrawn": 1}, coppice.CorruptError),
            ([], coppice.CorruptError),
        ):
            gone.write_text(json.dumps(record))
            for where in ((self.root, "ctr", 1), (self.folder,)):
                with self.subTest(str(record)[:100], where=where), self.assertRaises(error):
                    coppice.Model.load(*where)
        gone.write_text(json.dumps(deleted | {"withdrawn": True}))
        coppice.Model.load(self.root, "ctr", 1)
        coppice.Model.load(self.folder)
        gone.unlink()
        (self.folder / "version.json").write_bytes(b"0" * (2 << 20))
        fixture.point(self.root, "staging", 0)
        with self.assertRaisesRegex(coppice.NotFoundError, "'staging' of ctr was removed"):
            coppice.Model.load(self.root, "ctr", "staging")
        fixture.point(self.root, "champion", 1)
        alias = fixture.pathlib.Path(self.root) / "registry/ctr/aliases/champion.json"
        for bad in (
            {"format": 1, "model": "ctr", "alias": "other", "version": 1},
            {"format": 1, "model": "ctr", "alias": "champion", "version": "../2"},
            {"format": 9},
        ):
            alias.write_text(json.dumps(bad))
            with self.assertRaises(coppice.CorruptError):
                coppice.Model.load(self.root, "ctr")


class Predicting(fixture.Case):
    def test_predict_is_its_parts(self):
        t = table()
        raw = self.model.predict(t, raw=True)
        self.assertEqual(((5,), np.float64), (raw.shape, raw.dtype))
        np.testing.assert_array_equal(raw, self.model.score(self.model.encode(t)))
        np.testing.assert_array_equal(self.model.calibrate(raw), self.model.predict(t))
        np.testing.assert_array_equal(self.model.predict(t), self.model.predict(t, threads=1))
        both = self.model.predict_proba(t, threads=1)
        np.testing.assert_array_equal(both, np.column_stack([1 - self.model.predict(t), self.model.predict(t)]))

    def test_sigmoids(self):
        z = np.array([-800.0, -40, -1, 0, 2, 40, 800, np.nan])

        def sigmoid(x):
            with np.errstate(over="ignore"):
                return np.clip(1 / (1 + np.exp(-x)), 1e-15, 1 - 1e-15)

        platt = _calibrator.decode(b'{"format": 1, "method": "platt", "a": 0.5, "c": -1}')
        np.testing.assert_array_equal(sigmoid(0.5 * z - 1), platt(z))
        none = _calibrator.decode(b'{"format": 1, "method": "none"}')
        np.testing.assert_array_equal(sigmoid(z), none(z))

    def test_scores_of_the_wrong_shape(self):
        with self.assertRaises(coppice.Error):
            self.model.score(np.zeros((3, 2)))

    def test_other_columns_do_not_matter(self):
        t = table().append_column("nested", pa.array([[1]] * 5))
        np.testing.assert_array_equal(self.model.predict(table()), self.model.predict(t))


if __name__ == "__main__":
    unittest.main()
