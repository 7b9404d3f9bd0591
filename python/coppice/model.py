"""A registered model that predicts."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow.fs as pafs

from . import _calibrator, _encoding, _forest, _levels, _piped, _program, _registry, _trees
from ._columns import Table
from ._encoder import Encoder
from ._forest import Forest
from .errors import Error, FormatError, NotFoundError

_LOCAL = os.path.join("gcs", "coppice-registry")  # in the folder of a local cloud
_BATCH_ROWS = 1 << 17


class Model:
    """A version of a model. It does not change and may be used from any thread.

    Attributes:
        name: of the model; empty where the files say none. version: its number; 0 where the files
          say none. objective: LightGBM's name, such as "binary" or "poisson". features: names of the columns of the
          model's matrix, as encode() gives it. inputs: names of the raw columns that predict() and
          encode() need. calibration: "platt", "none", or "" where predictions are not
          calibrated (regression, several classes). classes: the names of several classes, in the
          order of predict()'s columns; () otherwise.
    """

    def __init__(
        self,
        forest: list[Forest],
        text: bytes,
        objective: str,
        encoder: Encoder,
        calibrator: _calibrator.Calibrator | None,
        name: str = "",
        version: int = 0,
    ) -> None:
        """Use Model.load."""
        self.name, self.version = name, version
        self.objective, self._output = objective.partition(" ")[0], (_trees.outputs(objective) or ("",))[0]
        self.classes: tuple[str, ...] = encoder.encoding.classes
        self.features: list[str] = [f.name for f in encoder.encoding.features]
        self.inputs: list[str] = list(encoder.encoding.inputs)
        self.calibration = "" if calibrator is None else calibrator.method
        self._forest, self._text, self._encoder, self._calibrator = forest, text, encoder, calibrator

    def __repr__(self) -> str:
        return (
            f"<coppice.Model {self.name or '?'} version {self.version or '?'}: {self.objective}, "
            f"{len(self.features)} features of {len(self.inputs)} columns>"
        )

    @classmethod
    def load(
        cls,
        where: str | os.PathLike[str],
        model: str | None = None,
        version: int | str | None = None,
        *,
        verify: bool = True,
        filesystem: pafs.FileSystem | None = None,
    ) -> Model:
        """Loads a version and checks its files against the lengths and SHA-256 that were registered.

        Args:
            where: the folder of a version (with model.txt, features.json, version.json ...), on
              this machine or as gs://BUCKET/PREFIX; or,
                with model=, what holds the registry: gs://BUCKET, or a folder in which registry/
                  lies, the folder of a local cloud (coppice-data), or a bucket in a folder that
                  machines share. Cloud Storage is reached with the application default credentials,
                  or where STORAGE_EMULATOR_HOST says.
            model: name of a model in the registry.
            version: its number or an alias; left out, the champion, or the newest version where there is no champion.
            verify: False loads files that no version.json vouches for.
            filesystem: a pyarrow file system to read where from, instead of one by its scheme.

        Raises:
            NotFoundError: there is no such version.
            CorruptError: a file is damaged, missing or of an unknown format (then FormatError, which is one).
            StorageError: the place cannot be read.
        """
        text = os.fspath(where)
        if os.path.isdir(os.path.join(text, _LOCAL)):
            text = os.path.join(text, _LOCAL)
        _registry.check_local(text)
        store = _registry.open_store(text, filesystem)
        if model is None and not store.has("version.json") and (names := _registry.models(store)):
            raise NotFoundError(f"{text} holds a registry: choose one of its models with model=, {', '.join(names)}")
        v = _registry.find(store, text, model, version, verify)
        encoding = _encoding.decode(v.read("features.json").to_pybytes())
        held = encoding.levels > 0 or v.has("levels.arrow")
        levels = _levels.read(v.read("levels.arrow"), encoding) if held else _levels.none()
        calibrator = _calibrator.decode(v.read("calibrator.json").to_pybytes()) if v.has("calibrator.json") else None
        text = v.read("model.txt").to_pybytes()
        trees = _trees.read(text)
        _check_together(trees, encoding, levels, calibrator)
        n = max(1, len(encoding.classes))
        forest = [Forest(trees.of(k, n)) for k in range(n)]
        return cls(forest, text, trees.objective, Encoder(encoding, levels), calibrator, v.model, v.number)

    def predict(self, data: Any, raw: bool = False, *, threads: int = 0) -> np.ndarray:
        """Scores a table: the calibrated probability of the label, or of a regression the value.

        Args:
            data: a pandas.DataFrame, pyarrow.Table or RecordBatch, a dict of arrays, or whatever
              hands on an Arrow stream (polars). It
                needs the columns that inputs names; others do not matter.
            raw: the model's raw scores (log odds) instead.
            threads: that score; 0 takes all processors.

        Returns:
            float64, shape (rows,); of several classes (rows, len(classes)).

        Raises:
            MissingColumnsError: columns are not there.
            TypeMismatchError, ValueParseError: a column or a value is not what the model was trained on.
        """
        table = Table(data, self.inputs)

        def encoded() -> Iterator[np.ndarray]:
            values = np.empty((min(table.rows, _BATCH_ROWS), len(self.features)))
            for first in range(0, table.rows, _BATCH_ROWS):
                batch = values[: min(table.rows - first, _BATCH_ROWS)]
                columns = table.slice(first, len(batch))
                self._encoder.encode(columns, batch)
                yield batch

        scores = self._scores(encoded, table.rows, threads)
        return scores if raw else self.calibrate(scores)

    def predict_proba(self, data: Any, *, threads: int = 0) -> np.ndarray:
        """Probabilities of classes, as scikit-learn has them. Arguments and errors are those of predict().

        Returns:
            float64, shape (rows, 2): that the label is not the one that is predicted, and that it is; of several
            classes shape (rows, len(classes)), in their order.

        Raises:
            Error: the model predicts no classes.
        """
        if self._calibrator is None and not self.classes:
            raise Error(f"predict_proba: {self.objective} has no classes; predict() gives its values")
        p = self.predict(data, threads=threads)
        return p if self.classes else np.column_stack([1 - p, p])

    def encode(self, data: Any) -> np.ndarray:
        """The model's matrix of a table: what its trees see.

        A number is itself and NaN where it is missing, a time seconds since 1970-01-01 00:00 UTC, a
        category its bin (missing values have one too), a rate a float32's value, a count rows, a
        recency seconds, an hour 0 up to 24, a weekday 0 (Monday) to 6, an age days.

        Returns:
            float64, shape (rows, len(features)).
        """
        table = Table(data, self.inputs)
        out = np.empty((table.rows, len(self.features)))
        for first in range(0, table.rows, _BATCH_ROWS):
            batch = out[first : first + _BATCH_ROWS]
            self._encoder.encode(table.slice(first, len(batch)), batch)
        return out

    def score(self, values: np.ndarray, *, threads: int = 0) -> np.ndarray:
        """The raw scores of rows of model values, float64 of shape (rows, len(features)): float64, shape (rows,), of
        several classes (rows, len(classes))."""
        values = np.asarray(values, dtype=np.float64)
        if values.ndim != 2 or values.shape[1] != len(self.features):
            raise Error(f"an array of shape {values.shape} where (rows, {len(self.features)}) belongs")
        return self._scores(lambda: [values], len(values), threads)

    def _scores(self, batches: Callable[[], Iterable[np.ndarray]], rows: int, threads: int) -> np.ndarray:
        """Raw scores: of the wheel's program, or else of numpy."""

        def by_numpy(values: np.ndarray) -> np.ndarray:
            scores = [forest(values, threads) for forest in self._forest]
            return np.column_stack(scores) if self.classes else scores[0]

        out = np.empty((rows, len(self.classes)) if self.classes else rows)
        program = _program.own()
        if program is not None and rows * sum(forest.leaves for forest in self._forest) >= _piped.WORTH:
            command = [str(program), "trees", str(threads if threads > 0 else _forest.processors())]
            try:
                _piped.score(command, self._text, batches(), out, by_numpy)
                return out
            except _piped.Failed as e:
                warnings.warn(f"{e}; numpy scores instead, which is several times slower", RuntimeWarning, stacklevel=3)
        first = 0
        for batch in batches():
            out[first : first + len(batch)] = by_numpy(batch)
            first += len(batch)
        return out

    def calibrate(self, raw: np.ndarray) -> np.ndarray:
        """Turns raw scores into what predict() gives: float64 of the same shape, (rows,) or (rows, len(classes))."""
        raw = np.atleast_1d(np.asarray(raw, dtype=np.float64))
        if self._calibrator is not None:
            return self._calibrator(raw)
        if self._output == _trees.SOFTMAX:
            e = np.exp(raw - raw.max(axis=-1, keepdims=True))
            return e / e.sum(axis=-1, keepdims=True)
        with np.errstate(over="ignore"):
            if self._output == _trees.LOG_ODDS:
                return 1 / (1 + np.exp(-raw))
            if self._output == _trees.LOG_MEAN:
                return np.exp(raw)
        return np.copysign(raw * raw, raw) if self._output == _trees.ROOT else raw.copy()


def _check_together(
    trees: _trees.Trees,
    encoding: _encoding.Encoding,
    levels: _levels.Levels,
    calibrator: _calibrator.Calibrator | None,
) -> None:
    """Refuses files that are right by themselves and do not belong together. internal/scorer/together.go is the
    counterpart."""
    names = _trees.plain_names([f.name for f in encoding.features])
    if len(names) != len(trees.names):
        raise FormatError(f"model.txt has {len(trees.names)} features, features.json {len(names)}")
    for i, (have, want) in enumerate(zip(trees.names, names)):
        if have != want:
            raise FormatError(f"model.txt: feature {i} is {have[:60]!r}; that of features.json would be {want[:60]!r}")
    for i, f in enumerate(encoding.features):
        if trees.split[i] & (1 if f.kind == _encoding.CATEGORICAL else 2):
            raise FormatError(f"model.txt: a node splits the {f.kind} feature {f.name[:60]!r} as one of another kind")
    outputs = (_trees.outputs(trees.objective) or ("", 1))[1]
    if outputs != max(1, len(encoding.classes)):
        raise FormatError(f"model.txt has {outputs} outputs, and features.json names {len(encoding.classes)} classes")
    binary = trees.objective == _trees.BINARY
    if binary != (calibrator is not None):
        raise FormatError(
            "calibrator.json is missing, which a model of probabilities needs"
            if binary
            else "calibrator.json belongs to a model of probabilities, which model.txt is not"
        )
    if binary:
        levels.check_binary()
        for i, t in enumerate(encoding.tables):
            if not 0 <= t.prior <= 1:
                raise FormatError(f"features.json: tables[{i}]: prior {t.prior}, where labels are 0 and 1")
