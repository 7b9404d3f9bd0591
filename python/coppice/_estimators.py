"""Estimators with scikit-learn's contract. They train with the program (see _program) and predict with what it
registers, so that they are what `launcher fit` is."""

from __future__ import annotations

import functools
import inspect
import json
import os
import re
import shutil
import sys
import tempfile
import warnings
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from . import _program
from ._encoding import inputs
from ._frame import _array, is_missing, table_of
from .errors import Error, InputError
from .model import Model

if TYPE_CHECKING:
    import pandas

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.exceptions import NotFittedError
except ImportError:  # the contract without scikit-learn: what its users would miss first

    class BaseEstimator:  # type: ignore[no-redef]
        """Parameters by the names of the constructor's arguments."""

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            """The parameters by name."""
            return {n: getattr(self, n) for n in _known(type(self))}

        def __repr__(self) -> str:
            usual = inspect.signature(type(self).__init__).parameters
            given = [f"{n}={v!r}" for n, v in self.get_params().items() if repr(v) != repr(usual[n].default)]
            return f"{type(self).__name__}({', '.join(given)})"

        def set_params(self, **params: Any) -> Any:
            """Sets parameters by name."""
            known = self.get_params()
            for name, value in params.items():
                if name not in known:
                    raise ValueError(f"Invalid parameter {name!r} for {type(self).__name__}; there are {sorted(known)}")
                setattr(self, name, value)
            return self

    class ClassifierMixin:  # type: ignore[no-redef]
        """Marks a classifier."""

        _estimator_type = "classifier"

    class RegressorMixin:  # type: ignore[no-redef]
        """Marks a regressor."""

        _estimator_type = "regressor"

    class NotFittedError(ValueError, AttributeError):  # type: ignore[no-redef]
        """The estimator has not been fitted yet."""


_NAME = re.compile(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?\Z")
_LEAST = 10  # rows
_MOST_CLASSES = 100
# no number, no blanks around it, and none of the texts that stand for a missing value
_PLAIN_CLASS = re.compile(r"(?!(na|nan|n/a|null|none|inf|infinity|true|false)$)[A-Za-z]([\w .:/-]{0,80}\w)?", re.IGNORECASE | re.ASCII)
_FEW = 1000  # rows, of whose parts it is not said that they are small


class StagingWarning(UserWarning):
    """What the program finds unusual about a table."""


def _known(kind: type) -> list[str]:
    """Names of an estimator's parameters."""
    return [n for n in inspect.signature(kind.__init__).parameters if n != "self"]


def _unknown(kind: type, name: str) -> str:
    """What is wrong with a parameter that an estimator does not have, and where LightGBM's are."""
    return f"{kind.__name__} has no parameter {name!r}; it has {', '.join(_known(kind))}. " \
        f"LightGBM's parameters go into params={{{name!r}: ...}}"


_Init = TypeVar("_Init", bound=Callable[..., None])


def _telling(init: _Init) -> _Init:
    """An estimator's constructor that says where LightGBM's parameters are."""

    @functools.wraps(init)
    def checked(self: Any, *args: Any, **params: Any) -> None:
        for name in params:
            if name not in _known(type(self)):
                raise TypeError(_unknown(type(self), name))
        init(self, *args, **params)

    return checked  # type: ignore[return-value]


def _in_python(advice: str) -> str:
    """The program's advice in an estimator's words, which has neither flags nor the keys of a spec."""
    advice = re.sub(r"Drop it, or (set|raise) gate\.max_share( to 1)?", "Leave it out with drop=, or promote() the version", advice)
    return re.sub(r"--(\w+)", r"\1", re.sub(r"--(\w+) (?=\d)", r"\1=", advice))


class _Fitted(BaseEstimator):
    """What classifier and regressor share."""

    @_telling
    def __init__(
        self,
        *,
        time: str | None = None,
        key: str | None = None,
        drop: list[str] | None = None,
        categorical: list[str] | None = None,
        missing: list[str] | None = None,
        format: dict[str, str] | None = None,
        date_format: str | None = None,
        split: str | None = None,
        trials: int | None = None,
        minutes: float = 5.0,
        metric: str | None = None,
        params: dict[str, Any] | None = None,
        where: str = "local",
        name: str = "model",
        folder: str | os.PathLike[str] | None = None,
        random_state: Any = None,
        verbose: bool | None = None,
    ) -> None:
        self.time = time
        self.key = key
        self.drop = drop
        self.categorical = categorical
        self.missing = missing
        self.format = format
        self.date_format = date_format
        self.split = split
        self.trials = trials
        self.minutes = minutes
        self.metric = metric
        self.params = params
        self.where = where
        self.name = name
        self.folder = folder
        self.random_state = random_state
        self.verbose = verbose

    # Training.

    def _train(
        self, table: pa.Table, y: pa.Array, named: Any, weight: Any, groups: Any, more: list[str], together: str = "--key"
    ) -> None:
        if not _NAME.match(self.name):
            raise ValueError(f"name={self.name!r}: 1 to 40 of a-z, 0-9 and '-', from a letter to a letter or digit")
        self._columns = table.column_names
        label = _name(named, "y", table)
        args = ["--label", label, "--name", self.name, "--minutes", str(self.minutes), "--seed", str(self._seed())]
        args += ["--where", self.where, *more]
        table = table.append_column(label, y)
        if weight is not None:
            column = _name(weight, "sample_weight", table)
            table = table.append_column(column, pa.array(_weights(weight, table.num_rows)))
            args += ["--weight", column]
        if groups is not None:
            group = _name(groups, "group", table)
            groups = np.asarray(groups)
            if groups.shape != (table.num_rows,):
                raise ValueError(f"groups has the shape {groups.shape}, expected {(table.num_rows,)}")
            table = table.append_column(group, _array(group, groups))
            args += [together, group]
        elif self.key is not None:
            args += ["--key", self.key]
        said = {"--time": self.time, "--metric": self.metric, "--split": self.split, "--date-format": self.date_format}
        for flag, value in said.items():
            if value is not None:
                args += [flag, str(value)]
        if self.trials is not None:
            args += ["--trials", str(self.trials)]
        formats = [f"{column}={f}" for column, f in (self.format or {}).items()]
        lists = {"--drop": self.drop, "--categorical": self.categorical, "--missing": self.missing, "--format": formats}
        for flag, names in lists.items():
            one = [names] if isinstance(names, str) else names or ()
            args += [part for n in one for part in (flag, str(n))]

        with _program.scratch() as scratch:
            file, out, params = f"{scratch}/table.parquet", f"{scratch}/version", f"{scratch}/params"
            pq.write_table(table, file, row_group_size=1 << 17)
            if self.params:
                Path(params).write_text(json.dumps(self.params, indent=0, default=_plain), encoding="utf-8")
                args += ["--params", params]
            args = ["fit", file, *args, "--out", out, "--page", f"{scratch}/page.html", "--save-specs", scratch]
            if self.where == "local":
                args += ["--data", os.fspath(self.folder) if self.folder is not None else f"{scratch}/cloud"]
            progress = _Progress(self.verbose)
            try:
                done = _program.run(args, progress, {file: "the table", f"--label {label}": "the label", params: "params"})
            finally:
                progress.close()
            self._files = {p.relative_to(out).as_posix(): p.read_bytes() for p in Path(out).rglob("*") if p.is_file()}
            self._page = Path(f"{scratch}/page.html").read_text(encoding="utf-8")
            specs = {n: Path(f"{scratch}/{n}").read_text("utf-8") for n in ("dataset.yaml", "sweep.yaml")}
            self.specs_ = {n: text.replace(file, "table.parquet") for n, text in specs.items()}
        for key in ("page", "folder"):  # they were in the temporary folder
            done.pop(key, None)
        self._done = done
        self.version_ = done["version"]
        self.sweep_id_ = done["sweep"]
        self.metrics_ = dict(done.get("test") or {})
        self.types_ = {t["name"]: (t["kind"], t["because"]) for t in done.get("types") or ()}
        self._model = self._restore()
        if self.verbose or self.verbose is None and not progress.notebook:  # which shows the estimator itself
            sys.stderr.write(self._line() + "\n")
        if self.verbose:
            sys.stderr.write("".join(f"  {n}: {kind} ({why})\n" for n, (kind, why) in [*self.types_.items()][:40]))
        said = [f["text"] for f in done.get("found") or () if f["about"] == "left out" and "without a label" in f["text"]]
        if not done["champion"]:
            said.append(f"the model is registered, but not the champion: {done.get('why')}")
        for text in [*said, *(done.get("warnings") or ())]:
            asked = " itself is not a feature" in text and (self.key is not None or groups is not None)
            if table.num_rows < _FEW and " has only " in text or asked:
                continue
            warnings.warn(_in_python(text), StagingWarning, stacklevel=3)

    def _line(self) -> str:
        """The result in a line."""
        d = self._done
        metric = d.get("metric", "")
        scores = [f"{metric} {self.metrics_[metric]:.6g} on test"] if metric in self.metrics_ else []
        scores += [f"{d['done']} of {d['trials']} trials, version {self.version_}"]
        return f"{type(self).__name__}: {', '.join(scores)}"

    def _seed(self) -> int:
        state = self.random_state
        if state is None:
            return 0
        if isinstance(state, (int, np.integer)):
            return int(state) & 0x7FFFFFFF
        return int(state.randint(0, 2**31 - 1)) if hasattr(state, "randint") else int(state.integers(0, 2**31 - 1))

    def _table(self, X: Any, fitting: bool) -> pa.Table:
        if isinstance(X, str):
            raise ValueError(f"Expected a table with two dimensions, got the text {X[:40]!r}")
        table, names = table_of(X)
        shape = np.shape(X) if isinstance(X, np.ndarray) else (table.num_rows, table.num_columns)
        for n, what in ((shape[1], "feature"), (shape[0], "sample")):
            if n == 0:
                raise ValueError(f"Found array with 0 {what}(s) (shape={shape}) while a minimum of 1 is required.")
        _check_numbers(table)
        if fitting:
            self.__dict__.pop("_model", None)  # whatever happens now, the old one does not belong to what is set below
            self.n_features_in_ = table.num_columns
            self.__dict__.pop("feature_names_in_", None)
            if names is not None:
                self.feature_names_in_ = np.array(names, dtype=object)
            return table
        known = getattr(self, "feature_names_in_", None)
        if names is None and table.num_columns != self.n_features_in_:
            raise ValueError(
                f"X has {table.num_columns} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input"
            )
        if names is None and known is not None:
            table = table.rename_columns([str(n) for n in known])
        elif names is not None and known is not None and names != list(known) and set(names) != set(known):
            _check_names(names, list(known))
        return table

    # What has been trained.

    def _fitted(self) -> Model:
        if "_model" not in self.__dict__:
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet. Call 'fit' with appropriate arguments "
                "before using this estimator."
            )
        return self._model

    def __sklearn_is_fitted__(self) -> bool:
        return "_model" in self.__dict__

    @property
    def model_(self) -> Model:
        """The registered version that predicts."""
        return self._fitted()

    def _restore(self) -> Model:
        with tempfile.TemporaryDirectory(prefix="coppice-") as folder:
            _write(self._files, Path(folder))
            return Model.load(folder)

    def __getstate__(self) -> dict[str, Any]:
        inherited = getattr(super(), "__getstate__", None)
        state = dict(inherited()) if inherited else dict(self.__dict__)
        state.pop("_model", None)  # its files are there
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        inherited = getattr(super(), "__setstate__", None)
        if inherited:
            inherited(state)
        else:
            self.__dict__.update(state)
        if "_files" in state:
            self._model = self._restore()

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Writes the model's files into a new folder, for coppice.load, coppice.Model.load and `launcher predict`."""
        self._fitted()
        path = Path(folder)
        if path.exists() and any(path.iterdir()):
            raise Error(f"{path} exists and is not empty")
        _write(self._files, path)

    def report(self, path: str | os.PathLike[str] | None = None, *, show: bool = True) -> str:
        """Writes the sweep's page (into a temporary file, if path is not given), opens it, and returns its path."""
        self._fitted()
        if path is None:
            handle, path = tempfile.mkstemp(prefix="coppice-", suffix=".html")
            os.close(handle)
        Path(path).write_text(self._page, encoding="utf-8")
        if show:
            webbrowser.open(Path(path).resolve().as_uri())
        return os.fspath(path)

    def promote(self, why: str, alias: str = "champion") -> None:
        """Makes the version live: of a registry in folder=, or with where="batch" the deployment's."""
        self._fitted()
        if self.where == "local" and self.folder is None:
            raise Error("the registry of this fit was temporary; fit with folder=, or save() the model")
        version = f"{self.name}@{self.version_}"
        args = ["registry", "promote", version, "--alias", alias, "--why", why]
        _program.tell(args, None if self.folder is None else os.fspath(self.folder))

    def leaderboard(self) -> pandas.DataFrame:
        """The trials as a pandas.DataFrame, best first: trial, state, score on valid, trees, seconds, and a column for
        each parameter that differs between trials."""
        import pandas

        self._fitted()
        rows = [dict(row) for row in self._done.get("leaderboard") or []]
        params = pandas.DataFrame([row.pop("params", None) or {} for row in rows])
        differ = [name for name in params if params[name].astype(str).nunique() > 1]
        return pandas.DataFrame(rows).join(params[differ])

    def explain(self, X: Any) -> pandas.DataFrame:
        """What each feature adds to the raw score of each row: its SHAP values, by the program.

        Args:
            X: rows as for predict.

        Returns:
            a pandas.DataFrame, shape (rows, features + 1), a column for each feature of model_.features. A column of
            ids or texts may have made several features, such as its rate. The last column, expected_score, is
            the same in every row; with it a row adds up to model_.predict(X, raw=True): log odds, or of a regressor
            the value. Of several classes each has such columns, with its name in the registry (model_.classes) and a
            colon before theirs. Thousands of rows take seconds.
        """
        import pandas

        model = self._fitted()
        with _program.scratch() as scratch:
            version, file, out = f"{scratch}/version", f"{scratch}/table.parquet", f"{scratch}/out.parquet"
            _write(self._files, Path(version))
            pq.write_table(self._table(X, fitting=False), file, row_group_size=1 << 17)
            args = ["predict", "--model", version, "--in", file, "--out", out, "--contributions"]
            _program.run(args, names={file: "the table"})
            table = pq.read_table(out)
        added = {}
        for c in [f"{c}:" for c in model.classes] or [""]:
            added |= {c + f: table.column(f"contribution:{c}{f}").to_numpy() for f in model.features}
            expected = f"expected_score:{c}".removesuffix(":")
            added[c + "expected_score"] = table.column(expected).to_numpy()
        return pandas.DataFrame(added)

    @property
    def feature_importances_(self) -> np.ndarray:
        """The share of each column of X in the gain of all splits: float64, shape (n_features_in_,)."""
        model = self._fitted()
        encoding, text = model._encoder.encoding, model._text.decode()
        gains, made = np.zeros(len(encoding.features)), dict.fromkeys(self._columns, 0.0)
        for of, gain in zip(re.findall(r"^split_feature=(.*)$", text, re.M), re.findall(r"^split_gain=(.*)$", text, re.M)):
            np.add.at(gains, np.array(of.split(), int), np.array(gain.split(), float))
        for feature, gain in zip(encoding.features, gains / (gains.sum() or 1)):
            columns = inputs([feature], list(encoding.tables))
            for c in columns:
                made[c] += gain / len(columns)
        return np.array(list(made.values()))

    @property
    def best_params_(self) -> dict[str, Any]:
        """All parameters of the trial that won."""
        self._fitted()
        return next(dict(row["params"]) for row in self._done["leaderboard"] if row["trial"] == self._done["trial"])

    def summary(self) -> dict[str, Any]:
        """What `launcher fit --json` says: what was decided, metrics on test, the most important features."""
        self._fitted()
        return dict(self._done)

    def _repr_html_(self) -> str:
        if "_model" not in self.__dict__:
            return f"<code>{type(self).__name__}()</code>"
        from html import escape

        d = self._done
        rows = [(f["about"], f["text"]) for f in d.get("found") or ()]
        rows += [("on test", ", ".join(f"{k} {v:.6g}" for k, v in sorted(self.metrics_.items())))]
        rows += [("without features", d["without_features"])] if "without_features" in d else []
        rows += [("uses", ", ".join(f"{f['name']} {f['gain']:.0%}" for f in d.get("features") or ()))]
        cells = "".join(f"<tr><th>{escape(a)}</th><td>{escape(b)}</td></tr>" for a, b in rows)
        return f"<table><caption>{escape(type(self).__name__)}, version {self.version_}</caption>{cells}</table>"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.target_tags.required = True
        return tags


class Classifier(ClassifierMixin, _Fitted):
    """A classifier. Probabilities of two classes are calibrated, of several they are the softmax of their scores.

    >>> import coppice, pandas
    >>> frame = pandas.DataFrame({"site": list("abab") * 50, "n": range(200), "click": [0, 1, 0, 0] * 50})
    >>> model = coppice.Classifier(trials=2).fit(frame, "click")
    >>> model.predict_proba(frame).shape
    (200, 2)

    Args:
        time: name of a column of times: older rows train, newer ones judge. By default the only such column.
        key: name of a column whose rows stay together, such as user_id.
        drop: columns that are not features. categorical: columns of numbers that are names.
        missing: further texts that stand for a missing value. split: "random", or the name of a column that says train,
          valid, calib or test of each row.
        format: how texts of columns are read, by name: "number", "decimal_comma", "dmy" or "mdy"; by default as all values
          of the column agree. date_format: "dmy" or "mdy", for dates whose values do not tell.
        trials: configurations to try; by default ten a minute.
        minutes: how long to search. What has been trained by then counts.
        metric: what is optimised; log_loss by default, multi_logloss of several classes, for a regressor rmse.
        params: LightGBM's parameters that every trial shall have, such as {"n_estimators": 200}; they are not searched.
        where: "local", or "batch": the table is staged here, and trained on Google Cloud Batch, with the
          environment of the launcher.
        name: of the model in the registry.
        folder: where the local cloud keeps datasets, sweeps and models; by default nothing is kept but
          what the estimator holds.
        random_state: a seed, or a numpy generator. The same seed, trials and table give the same model on machines
          of up to seven cores, if minutes suffice; on larger ones the order of results counts.
        verbose: True shows progress, False shows nothing; by default progress on terminals and in notebooks, and
          elsewhere a line with the result on stderr.

    Attributes:
        classes_: the labels, ascending. n_features_in_, feature_names_in_: as scikit-learn has them.
        metrics_: metrics on the rows of test, which chose nothing. feature_importances_, best_params_.
        specs_: the specs as YAML, by file name. They run as they are beside table.parquet: X and the label, by its name.
        types_: what each column became, and why: numeric, time or categorical.
        sweep_id_, version_: what the program calls them. model_: the coppice.Model.
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Classifier:
        """Trains on a table.

        Args:
            X: a pandas or polars DataFrame, a pyarrow.Table, a dict of arrays or a numpy array, shape (rows, columns).
            y: labels, shape (rows,), or the name of X's column that holds them.
            sample_weight: shape (rows,), 0 or more. groups: rows of a group stay together, shape (rows,).
        """
        if y is None:
            raise ValueError("This estimator requires y to be passed, but the target y is None")
        named, (X, y) = y, _apart(X, y)
        table = self._table(X, fitting=True)
        labels, there = _labels(y, table.num_rows)
        known = labels[there]
        _enough(len(known))
        if known.dtype.kind == "f" and (known != np.floor(known)).any():
            raise ValueError("Unknown label type: continuous. Maybe you are trying to fit a classifier, which expects "
                             "discrete classes, on a regression target with continuous values")
        try:
            self.classes_, place = np.unique(known, return_inverse=True)
        except TypeError as e:
            raise ValueError(f"Unknown label type: y mixes types that cannot be compared: {e}") from e
        if sample_weight is not None:
            heavy = np.unique(known[_weights(sample_weight, len(labels))[there] > 0])
            if len(heavy) < 2:
                raise ValueError(f"Classifier can't train when only one class has rows with a sample_weight above 0: {heavy[:1]}")
        if len(self.classes_) > _MOST_CLASSES:
            raise ValueError(f"y has {len(self.classes_)} classes, and {_MOST_CLASSES} are the most: group the rare ones")
        if len(self.classes_) < 2:
            raise ValueError(f"Classifier can't train when only one class is present: every label is {self.classes_[0]}")
        names = _class_names(self.classes_)
        values = np.full(len(labels), None, dtype=object)
        values[there] = names[place].tolist()
        more = ["--objective", "multiclass"] if len(names) > 2 else []
        if not more and names.dtype.kind not in "iu":  # of numbers it is the greater one
            more = ["--positive", str(names[1])]
        self._train(table, pa.array(values), named, sample_weight, groups, more)
        if len(names) > 2:
            order = list(self._model.classes)
            self._places = [order.index(str(n)) for n in names]
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes, of two calibrated: float64, shape (rows, len(classes_))."""
        p = self._fitted().predict_proba(self._table(X, fitting=False))
        return p[:, self._places] if len(self.classes_) > 2 else p

    def predict(self, X: Any) -> np.ndarray:
        """The likeliest class of each row, shape (rows,)."""
        p = self.predict_proba(X)
        return self.classes_[(p[:, 1] > 0.5).astype(int) if p.shape[1] == 2 else p.argmax(axis=1)]

    def decision_function(self, X: Any) -> np.ndarray:
        """Log odds of the second class: float64, shape (rows,). Of several classes the logarithms of their
        probabilities, shape (rows, len(classes_))."""
        self._fitted()
        if len(self.classes_) > 2:
            return np.log(np.maximum(self.predict_proba(X), 1e-15))
        p = np.clip(self.predict_proba(X)[:, 1], 1e-15, 1 - 1e-15)
        return np.log(p) - np.log1p(-p)

    if ClassifierMixin.__module__ == __name__:

        def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
            """The share of rows whose class is predicted."""
            return float(np.average(self.predict(X) == np.asarray(y), weights=sample_weight))


class Regressor(RegressorMixin, _Fitted):
    """Predicts a number. Parameters and attributes are those of Classifier, and

    Args:
        objective: how it is learnt: "regression" (squared error), "regression_l1", "huber", "quantile", "poisson", "gamma",
          "tweedie" or "cross_entropy" (labels from 0 to 1); with a number behind an @ where
          LightGBM has a parameter, as in "quantile@0.5" or "tweedie@1.3".

    >>> import coppice, numpy
    >>> x = numpy.linspace(0, 1, 300).reshape(-1, 1)
    >>> model = coppice.Regressor(trials=1).fit(x, x[:, 0] ** 2)
    >>> model.predict(x).shape
    (300,)
    """

    @_telling
    def __init__(
        self,
        *,
        objective: str = "regression",
        time: str | None = None,
        key: str | None = None,
        drop: list[str] | None = None,
        categorical: list[str] | None = None,
        missing: list[str] | None = None,
        format: dict[str, str] | None = None,
        date_format: str | None = None,
        split: str | None = None,
        trials: int | None = None,
        minutes: float = 5.0,
        metric: str | None = None,
        params: dict[str, Any] | None = None,
        where: str = "local",
        name: str = "model",
        folder: str | os.PathLike[str] | None = None,
        random_state: Any = None,
        verbose: bool | None = None,
    ) -> None:
        super().__init__(
            time=time, key=key, drop=drop, categorical=categorical, missing=missing, format=format, date_format=date_format,
            split=split, trials=trials, minutes=minutes, metric=metric, params=params, where=where, name=name, folder=folder,
            random_state=random_state, verbose=verbose,
        )  # fmt: skip
        self.objective = objective

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Regressor:
        """Trains on a table; see Classifier.fit."""
        if y is None:
            raise ValueError("This estimator requires y to be passed, but the target y is None")
        named, (X, y) = y, _apart(X, y)
        table = self._table(X, fitting=True)
        target, there = _labels(y, table.num_rows)
        _enough(there.sum())
        try:
            target = target.astype(np.float64)
        except (TypeError, ValueError) as e:
            raise ValueError(f"Unknown label type: y holds {target.dtype} values, not numbers") from e
        self._train(table, pa.array(target, from_pandas=True), named, sample_weight, groups, ["--objective", str(self.objective)])
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The predicted values: float64, shape (rows,)."""
        model = self._fitted()
        return model.predict(self._table(X, fitting=False))

    if RegressorMixin.__module__ == __name__:

        def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
            """The coefficient of determination."""
            y = np.asarray(y, dtype=np.float64)
            rest = np.average((y - self.predict(X)) ** 2, weights=sample_weight)
            return float(1 - rest / np.average((y - np.average(y, weights=sample_weight)) ** 2, weights=sample_weight))


def load(folder: str | os.PathLike[str]) -> Model:
    """The coppice.Model in a folder that save, or `launcher fit --out`, has written."""
    return Model.load(folder)


def _apart(X: Any, y: Any) -> tuple[Any, Any]:
    """The table without its label, and the label, where y is the name of a column."""
    if not isinstance(y, str):
        return X, y
    table, names = table_of(X)
    if names is None or y not in names:
        raise InputError(f"the table has no such column; it has {', '.join((names or ['no names'])[:20])}", y)
    return table.drop_columns([y]), table.column(y)


def _labels(y: Any, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels as an array, one for each row, and which are not missing."""
    if isinstance(y, (pa.Array, pa.ChunkedArray)):
        y = y.to_pandas() if y.null_count else y.to_numpy(zero_copy_only=False) if isinstance(y, pa.Array) else y.to_numpy()
    values = np.asarray(y)
    if np.iscomplexobj(values):
        raise ValueError("Complex data not supported")
    if values.ndim == 2 and values.shape[1] == 1:
        try:
            from sklearn.exceptions import DataConversionWarning as kind
        except ImportError:
            kind = UserWarning  # type: ignore[assignment,misc]
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected. Please change the shape of y to (n_samples, )",
            kind,
            stacklevel=3,
        )
        values = values[:, 0]
    if values.ndim != 1:
        raise ValueError(f"y should be a 1d array, got an array of shape {values.shape} instead.")
    if len(values) != rows:
        raise ValueError(f"Found input variables with inconsistent numbers of samples: [{rows}, {len(values)}]")
    if values.dtype == object:
        absent = np.array([is_missing(v) for v in values], dtype=bool)
        plain = np.array(values[~absent].tolist())
        if absent.any() and plain.dtype.kind in "iuf":  # numbers beside pandas.NA
            values = np.full(len(values), np.nan)
            values[~absent] = plain
    else:
        absent = values != values  # NaN, NaT
    if absent.all():
        raise ValueError("Input y contains NaN: every label is missing")
    if values.dtype.kind == "f" and np.isinf(values).any():
        raise ValueError(f"Input y contains infinity or a value too large: row {int(np.argmax(np.isinf(values)))}")
    return values, ~absent


def _class_names(classes: np.ndarray) -> np.ndarray:
    """What several classes are called in the registry: as they are, if the programs take them for what they are, else
    by their numbers."""
    if classes.dtype.kind in "iuf":  # whole, as fit() has checked
        exact = (classes > -(1 << 53)).all() and (classes < 1 << 53).all()
        return classes.astype(np.int64) if exact else np.arange(len(classes))
    texts = [c for c in classes.tolist() if isinstance(c, str) and _PLAIN_CLASS.fullmatch(c)]
    return classes if len(texts) == len(classes) else np.arange(len(classes))


def _enough(rows: int) -> None:
    if rows < _LEAST:
        raise ValueError(f"n_samples={rows}: at least {_LEAST} rows are needed to train, to choose and to judge")


def _name(given: Any, default: str, table: pa.Table) -> str:
    """What a column is called that is not one of X: as it was given, or by default."""
    name = given if isinstance(given, str) else getattr(given, "name", None)
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        name = default
    while name in table.column_names:
        name += "_"
    return name


def _plain(value: Any) -> Any:
    """A number or array of numpy's as JSON has it."""
    return value.tolist()


def _weights(weight: Any, rows: int) -> np.ndarray:
    if isinstance(weight, str):
        raise ValueError(f"sample_weight={weight!r}: give a weight for each row, such as frame[{weight!r}]")
    values = np.asarray(weight, dtype=np.float64)
    if values.ndim == 0:
        values = np.full(rows, float(values))
    if values.ndim != 1:
        raise ValueError("Sample weights must be 1D array or scalar")
    if len(values) != rows:
        raise ValueError(f"sample_weight.shape == {values.shape}, expected {(rows,)}!")
    if not np.isfinite(values).all() or (values < 0).any():
        raise ValueError("sample_weight has to be 0 or more, and finite")
    if not (values > 0).any():
        raise ValueError("every sample_weight is zero: there is no row to train on")
    return values


def _check_numbers(table: pa.Table) -> None:
    import pyarrow.compute as pc

    for name, column in zip(table.column_names, table.columns):
        if pa.types.is_floating(column.type):
            infinite = pc.any(pc.is_inf(column)).as_py()
            if infinite:
                row = int(np.argmax(np.isinf(column.to_numpy())))
                raise InputError("the value is infinity; leave it missing, or bound it", name, row)


def _check_names(names: list[str], known: list[str]) -> None:
    gone = sorted(set(known) - set(names))
    if gone:  # columns that the model does not know do not matter
        lines = ["The feature names should match those that were passed during fit."]
        lines += ["Feature names seen at fit time, yet now missing:", *(f"- {n}" for n in gone[:5])]
        raise ValueError("\n".join(lines) + "\n")


def _write(files: dict[str, bytes], folder: Path) -> None:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


class _Progress:
    """One line that says how far a sweep is, on terminals and in notebooks."""

    def __init__(self, verbose: bool | None) -> None:
        self.notebook = "ipykernel" in sys.modules
        self.shown = (sys.stderr.isatty() or self.notebook) if verbose is None else verbose
        self.width = 0

    def __call__(self, line: dict[str, Any]) -> None:
        if not self.shown or "waiting" not in line:
            return
        text = f"{line['done']} of {line['done'] + line['failed'] + line['waiting']} trials"
        if best := line.get("best"):
            text += f", best {best.get('score', float('nan')):.6g}"
        sys.stderr.write("\r" + text.ljust(min(self.width, shutil.get_terminal_size().columns - 1)))
        sys.stderr.flush()
        self.width = max(self.width, len(text))

    def close(self) -> None:
        """Removes the line."""
        if self.width:
            sys.stderr.write("\r" + " " * self.width + "\r")
            sys.stderr.flush()
