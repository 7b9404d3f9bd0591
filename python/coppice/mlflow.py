"""Exports registered versions to MLflow, and lets mlflow.pyfunc.load_model load what was exported.

    import coppice.mlflow
    coppice.mlflow.export("ctr@12", "https://mlflow.example.com", register=True)

MLflow's own client does the calls: credentials, certificates and retries are its own, and so are the stores that a
URI can name.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import platform
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlflow
import mlflow.pyfunc
import numpy as np
import pyarrow.fs as pafs
from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param, RunTag
from mlflow.exceptions import MlflowException
from mlflow.models import Model as Description
from mlflow.models import ModelSignature
from mlflow.types.schema import AnyType, ColSpec, DataType, Schema

from . import __version__, _encoding, _registry
from ._strict import parse_json
from .errors import CorruptError, Error
from .model import Model

_MODEL = "model"  # folder of the run's artifacts
_FILES = "version"  # of the registered version, in the model's folder
_TAG = "coppice.export"
_FINISHED = "FINISHED"
_MAX_TEXT = 65_535  # characters that every release of MLflow takes as a dataset's schema, source or profile
# What coppice needs. It is not listed itself: no index has it, and the one of that name on PyPI is a different project.
_REQUIREMENTS = "mlflow\nnumpy>=1.24\npyarrow>=14\n"
_LIGHTGBM = "4.7.0"  # in which tests load exports


@dataclass(frozen=True)
class Exported:
    """Where an exported version is.

    Attributes:
        experiment: id of the experiment, whose name is the model's.
        run: id of the run.
        model: URI that mlflow.pyfunc.load_model and mlflow.lightgbm.load_model take.
        existed: whether the store had the complete run already.
        registered: version of the store's registered model; empty unless register was asked for.
    """

    experiment: str
    run: str
    model: str
    existed: bool
    registered: str


def export(
    version: str | os.PathLike[str],
    uri: str,
    *,
    register: bool = False,
    where: str | os.PathLike[str] | None = None,
    filesystem: pafs.FileSystem | None = None,
) -> Exported:
    """Adds a version to a tracking store as a run: parameters, metrics, tags, dataset, and a model with all its files.

    It can be repeated: a run that is there and complete stays as it is, and one whose export was interrupted is
    completed. A run is complete in the state FINISHED.

    Args:
        version: MODEL, MODEL@VERSION or MODEL@ALIAS; or the folder of a version, here or as
            gs://BUCKET/registry/MODEL/versions/NUMBER.
        uri: what mlflow.set_tracking_uri takes, such as https://mlflow.example.com.
        register: also make the run a version of the store's registered model of the same name, once.
        where: the place of the registry, a folder or gs://BUCKET; without it, the bucket of COPPICE_REGISTRY_BUCKET.
        filesystem: a pyarrow file system for other places.

    Raises:
        Error: as of Model.load; or the experiment cannot be used.
        mlflow.exceptions.MlflowException: what MLflow's client raises.
    """
    v = _find(os.fspath(version), where, filesystem)
    client = mlflow.MlflowClient(tracking_uri=uri)
    with tempfile.TemporaryDirectory() as folder:
        source = _Source(v, Path(folder))
        experiment = _experiment(client, v.model)
        run, existed = _run(client, experiment, source)
        if not existed:
            # A reader can tell by its state that it is not complete before all of it is there.
            _log(client, run.info.run_id, source)
            source.describe(run.info.run_id)
            client.log_artifacts(run.info.run_id, folder, _MODEL)
            client.set_terminated(run.info.run_id, _FINISHED, source.at)
    registered = _register(client, run, source) if register else ""
    return Exported(experiment, run.info.run_id, f"runs:/{run.info.run_id}/{_MODEL}", existed, registered)


def _find(version: str, where: str | os.PathLike[str] | None, filesystem: pafs.FileSystem | None) -> _registry.Version:
    if "/" in version or os.sep in version:
        return _registry.find(_registry.open_store(version, filesystem), version, None, None, True)
    if where is None:
        bucket = os.environ.get("COPPICE_REGISTRY_BUCKET", "")
        if not bucket:
            raise Error(
                f"{version}: in which registry? Give where=, a version's folder, or set COPPICE_REGISTRY_BUCKET"
            )
        where = bucket if "://" in bucket or os.path.isabs(bucket) else "gs://" + bucket
    model, _, ref = version.partition("@")
    place = os.fspath(where)
    return _registry.find(_registry.open_store(place, filesystem), place, model, ref or None, True)


class _Source:
    """A version, its files in a folder, and what a run says about it."""

    def __init__(self, v: _registry.Version, folder: Path) -> None:
        self._folder, self._number, self.name = folder, v.number, v.model
        record = v.record
        # Versions of equal names in two registries are two runs.
        self.export_id = hashlib.sha256(record).hexdigest()
        self._write(f"{_FILES}/version.json", record)
        files = v.files or {}
        for name, file in files.items():
            self._write(f"{_FILES}/{file.object}", v.read(name))
        self._booster = f"{_FILES}/{files['model.txt'].object}"
        self._inputs = Model.load(folder / _FILES).inputs  # what this package cannot load, MLflow could not either

        said = parse_json(record, "version.json", _registry.MAX_RECORD)
        info = said.get("info") or {}
        self._key, self.by, self.why = str(said.get("key", "")), str(info.get("by", "")), str(info.get("why", ""))
        self._labels, self._tested = info.get("labels") or {}, info.get("metrics") or {}
        self._result = self._json(v, "result.json")  # a version that no sweep has registered has none
        self._dataset = self._json(v, "dataset.json")
        self.at = _milliseconds(str(info.get("at", "")))
        self.began = self.at - int(1000 * (self._result.get("usage") or {}).get("train_seconds", 0))
        self.run_name = f"{v.model}@{v.number}"

    def _write(self, name: str, data: Any) -> None:
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    @staticmethod
    def _json(v: _registry.Version, name: str) -> dict[str, Any]:
        if not v.has(name):
            return {}
        value = parse_json(v.read(name).to_pybytes(), name, _encoding.MAX_BYTES)
        if not isinstance(value, dict):
            raise CorruptError(f"{name}: no JSON object")
        return value

    def params(self) -> list[Param]:
        """The trial's parameters."""
        return [
            Param(_plain(k), v if isinstance(v, str) else json.dumps(v))
            for k, v in sorted((self._result.get("params") or {}).items())
        ]

    def metrics(self) -> list[Metric]:
        """Metrics on valid and test."""
        both = {"valid.": self._result.get("metrics") or {}, "test.": self._tested}
        return [
            Metric(_plain(where + k), float(v), self.at, 0) for where, of in both.items() for k, v in sorted(of.items())
        ]

    def tags(self) -> dict[str, str]:
        """What else is known; labels are tags coppice.NAME, or coppice.label.NAME where that is taken."""
        tags = {
            "mlflow.user": self.by,
            "mlflow.source.type": "LOCAL",
            "mlflow.note.content": self.why,
            "coppice.model": self.name,
            "coppice.version": str(self._number),
            "coppice.key": self._key,
            "coppice.program": __version__,
        }
        own = set(tags)
        for name, value in sorted(self._labels.items()):
            tag = "coppice." + _plain(name)
            if tag in own:
                tag = "coppice.label." + _plain(name)
            if tag in tags:  # two labels that differ only in characters that no tag can have
                tag += "." + hashlib.sha256(name.encode()).hexdigest()[:8]
            tags[tag] = str(value)
        return tags

    def dataset(self) -> Dataset | None:
        """What the version was trained on."""
        m = self._dataset
        if not m:
            return None
        rows = {s["name"]: s["rows"] for s in m.get("splits", [])}
        if "train" in rows:
            rows["train"] //= max(1, (m.get("order") or {}).get("copies", 1))  # of the same rows, in several orders
        uris = [s["uri"] for s in (m.get("about") or {}).get("sources") or []]
        identity = f"{m['name']}@{m['version']}"
        source = json.dumps({"uris": uris, "dataset": identity})
        if len(source) > _MAX_TEXT:
            source = json.dumps({"dataset": identity})
        schema = json.dumps({"mlflow_colspec": _schema(self._inputs).to_dict()})
        profile = json.dumps({"rows": rows, "features": len(m.get("features", []))})
        return Dataset(
            m["name"], m["version"], "coppice", source, schema if len(schema) <= _MAX_TEXT else None, profile
        )

    def describe(self, run: str) -> None:
        """Writes how MLflow loads the model."""
        self._write("requirements.txt", _REQUIREMENTS.encode())
        self._write(
            "python_env.yaml", f"python: {platform.python_version()}\ndependencies:\n- -r requirements.txt\n".encode()
        )
        m = self._dataset
        d = Description(
            artifact_path=_MODEL,
            run_id=run,
            utc_time_created=datetime.datetime.fromtimestamp(self.at / 1000, datetime.timezone.utc).strftime(
                "%Y-%m-%d %H:%M:%S.%f"
            ),
            signature=ModelSignature(inputs=_schema(self._inputs), outputs=Schema([ColSpec(DataType.double)])),
            metadata={
                "model": self.name,
                "version": self._number,
                "dataset": f"{m['name']}@{m['version']}" if m else "",
            },
        )
        d.add_flavor(
            "lightgbm",
            lgb_version=_LIGHTGBM,
            data=self._booster,
            model_class="lightgbm.basic.Booster",
            code=None,
        )
        mlflow.pyfunc.add_to_model(d, loader_module="coppice.mlflow", data=_FILES, python_env="python_env.yaml")
        d.save(str(self._folder / "MLmodel"))


def _schema(columns: list[str]) -> Schema:
    """Columns of any type: MLflow rejects whole numbers declared as doubles, and numbers declared as strings."""
    return Schema([ColSpec(AnyType(), name) for name in sorted(columns)])


def _plain(name: str) -> str:
    """A name as a key of MLflow, which may become the name of a file."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name)


def _milliseconds(at: str) -> int:
    m = re.match(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?Z\Z", at)
    if not m:
        raise CorruptError(f"version.json: it was registered at {at[:40]!r}, which is not a time in UTC")
    seconds = datetime.datetime.fromisoformat(m[1] + "+00:00").timestamp()
    return int(seconds) * 1000 + int(float(m[2] or 0) * 1000)


def _experiment(client: mlflow.MlflowClient, name: str) -> str:
    found = client.get_experiment_by_name(name)
    if found is None:
        try:
            return client.create_experiment(name)
        except MlflowException as e:
            if e.error_code != "RESOURCE_ALREADY_EXISTS":  # another export was faster
                raise
        found = client.get_experiment_by_name(name)
    if found is None or found.lifecycle_stage == "deleted":
        raise Error(f"MLflow's experiment {name} is deleted: restore it, or remove it for good with mlflow gc")
    return found.experiment_id


def _run(client: mlflow.MlflowClient, experiment: str, source: _Source) -> tuple[Any, bool]:
    """The version's run, and whether it is complete."""
    runs = client.search_runs([experiment], f"tags.`{_TAG}` = '{source.export_id}'")
    for run in runs:
        if run.info.status == _FINISHED:
            return run, True
    if runs:
        return runs[0], False
    tags = {_TAG: source.export_id, "mlflow.user": source.by}
    return client.create_run(experiment, source.began, tags, source.run_name), False


def _log(client: mlflow.MlflowClient, run: str, source: _Source) -> None:
    client.log_batch(run, source.metrics(), source.params(), [RunTag(k, v) for k, v in source.tags().items()])
    dataset = source.dataset()
    if dataset is not None:
        client.log_inputs(run, [DatasetInput(dataset, [InputTag("mlflow.data.context", "training")])])


def _register(client: mlflow.MlflowClient, run: Any, source: _Source) -> str:
    for v in client.search_model_versions(f"run_id='{run.info.run_id}'"):
        if v.name == source.name:
            return str(v.version)
    try:
        client.create_registered_model(source.name)
    except MlflowException as e:
        if e.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    tags = {"coppice.version": source.run_name.partition("@")[2], _TAG: source.export_id}
    made = client.create_model_version(
        source.name, f"{run.info.artifact_uri}/{_MODEL}", run.info.run_id, tags, description=source.why
    )
    return str(made.version)


class Loaded:
    """A registered version as MLflow wants one: raw rows in, predictions out."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> np.ndarray:
        """See Model.predict; params may say raw."""
        return self.model.predict(model_input, raw=bool((params or {}).get("raw", False)))


def _load_pyfunc(path: str) -> Loaded:
    return Loaded(Model.load(path))
