"""Exports to MLflow's own store in a database; `make interop` also exports to its server (e2e/mlflow_test.go)."""

import json
import pathlib
import tempfile
import unittest
import warnings
from unittest import mock

from fixture import files, register

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # MLflow's own, and those of its packages
    try:
        import mlflow
    except ImportError as e:
        raise unittest.SkipTest("exports are not tested: MLflow is not installed") from e

    import coppice.mlflow


class Export(unittest.TestCase):
    """What a store has after exports of one version."""

    def setUp(self):
        quiet = warnings.catch_warnings()
        quiet.__enter__()
        self.addCleanup(quiet.__exit__, None, None, None)
        warnings.simplefilter("ignore")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.uri = f"sqlite:///{self.root}/mlflow.db"
        self.client = mlflow.MlflowClient(self.uri)
        self.client.create_experiment("ctr", (self.root / "artifacts").as_uri())

    def version(self, number, labels, **results):
        """Registers a version with these labels, and with results as sweeps leave them."""
        contents = files() | {f"{name}.json": json.dumps(value).encode() for name, value in results.items()}
        record = register(self.root, contents, number) / "version.json"
        info = {
            "at": "2026-01-02T03:04:05.123456789Z",
            "by": "ana",
            "why": "grown",
            "metrics": {"log_loss": 0.125},
            "labels": labels,
        }
        record.write_text(json.dumps(json.loads(record.read_text()) | {"info": info}))
        return f"ctr@{number}"

    def export(self, version, **how):
        """Exports it."""
        return coppice.mlflow.export(version, self.uri, where=self.root, **how)

    def test_what_a_run_says(self):
        """More parameters and labels than one request takes, names that no key can have, several orders of the rows."""
        params = {f"p{i}": i for i in range(250)} | {
            "learning_rate": 0.1,
            "boost_from_average": True,
            "objective": "binary",
        }
        labels = {f"l{i}": str(i) for i in range(250)} | {
            "version": "seven",
            "a b": "blank",
            "a_b": "line",
            "../../escape": "x",
        }
        version = self.version(
            7,
            labels,
            result={"params": params, "metrics": {"log_loss": 0.25}, "usage": {"train_seconds": 3.5}},
            dataset={
                "name": "clicks",
                "version": "0123456789abcdef",
                "splits": [{"name": "train", "rows": 20}, {"name": "test", "rows": 4}],
                "order": {"copies": 2},
            },
        )
        done = self.export(version)
        run = self.client.get_run(done.run)
        self.assertEqual((run.info.run_name, run.info.status, run.info.user_id), ("ctr@7", "FINISHED", "ana"))
        self.assertEqual((run.info.start_time, run.info.end_time), (1767323045123 - 3500, 1767323045123))
        self.assertEqual(run.data.metrics, {"valid.log_loss": 0.25, "test.log_loss": 0.125})
        self.assertEqual(len(run.data.params), 253)
        for key, value in {
            "p249": "249",
            "learning_rate": "0.1",
            "boost_from_average": "true",
            "objective": "binary",
        }.items():
            self.assertEqual(run.data.params[key], value)
        tags = {
            "version": "7",
            "label.version": "seven",
            "a_b": "blank",
            "l249": "249",
            ".._.._escape": "x",
            "key": "k",
        }
        for key, value in tags.items():
            self.assertEqual(run.data.tags["coppice." + key], value)
        self.assertEqual([v for k, v in run.data.tags.items() if k.startswith("coppice.a_b.")], ["line"])
        (used,) = run.inputs.dataset_inputs
        self.assertEqual((used.dataset.name, used.dataset.digest), ("clicks", "0123456789abcdef"))
        self.assertEqual(json.loads(used.dataset.profile)["rows"], {"train": 10, "test": 4})

    def test_the_model_has_every_file(self):
        """Unchanged, and with a record by which they can be checked."""
        version = self.version(1, {})  # which no sweep has registered
        done = self.export(version)
        folder = self.root / "artifacts" / done.run / "artifacts" / "model"
        for name, data in files().items():
            self.assertEqual((folder / "version" / name).read_bytes(), data)
        self.assertEqual(coppice.Model.load(folder / "version").version, 1)
        self.assertNotIn("coppice", (folder / "requirements.txt").read_text())

    def test_once(self):
        """A version is one run and one registered version; one of the same name from another registry is its own."""
        one = self.export(self.version(1, {}), register=True)
        again = self.export("ctr@1", register=True)
        self.assertEqual(
            (one.existed, again.existed, again.run, again.registered), (False, True, one.run, one.registered)
        )
        folder = self.root / "registry/ctr/versions/1"
        record = json.loads((folder / "version.json").read_text())
        record["key"] = "another"
        (folder / "version.json").write_text(json.dumps(record))
        other = coppice.mlflow.export(folder, self.uri)
        self.assertNotEqual(other.run, one.run)
        self.assertEqual(other.registered, "")

    def test_an_interrupted_export_is_completed(self):
        """Its run is not FINISHED until everything is there."""
        version = self.version(1, {"team": "ranking"})
        with mock.patch.object(mlflow.MlflowClient, "log_artifacts", side_effect=OSError("full")), self.assertRaises(
            OSError
        ):
            self.export(version)
        (run,) = self.client.search_runs(["1"])
        self.assertEqual(run.info.status, "RUNNING")
        done = self.export(version)
        self.assertEqual((done.run, done.existed), (run.info.run_id, False))
        self.assertEqual(self.client.get_run(done.run).info.status, "FINISHED")

    def test_refused(self):
        """A damaged version, a place that is not given, and an experiment that is deleted."""
        version = self.version(1, {})
        with mock.patch.dict("os.environ", clear=True), self.assertRaisesRegex(
            coppice.Error, "COPPICE_REGISTRY_BUCKET"
        ):
            coppice.mlflow.export(version, self.uri)
        self.client.delete_experiment("1")
        with self.assertRaisesRegex(coppice.Error, "is deleted"):
            self.export(version)
        (self.root / "registry/ctr/versions/1/model.txt").write_bytes(b"tree\n")
        with self.assertRaises(coppice.CorruptError):
            self.export(version)


if __name__ == "__main__":
    unittest.main()
