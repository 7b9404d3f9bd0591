"""Train models of tables, predict with them, and look at the sweeps that they come from.

    import coppice
    model = coppice.Classifier().fit(frame, "click")
    p = model.predict_proba(frame)[:, 1]

Or with a registered model:

    model = coppice.Model.load("gs://my-registry", model="ctr", version="champion")
    p = model.predict(frame)  # numpy float64, shape (rows,)

Training is done by the program in the wheel. What predicts shares no code with the Go programs. It reads the same files
(internal/registry/FORMAT.md, internal/dataset/FORMAT.md) and must give the same numbers: encoded
values and raw scores to the bit, probabilities to 1e-12. """

import os
import signal
import sys

# As the command coppice, Ctrl-C ends this process without a traceback, as it does the program that replaces it.
_started = sys.orig_argv[1:3]
if os.name == "posix" and (_started == ["-m", "coppice"] or os.path.basename("".join(_started[:1])) == "coppice"):
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # before the imports that take a moment

import importlib
from typing import TYPE_CHECKING, Any

from ._program import TrainingError
from .errors import (
    CorruptError,
    Error,
    FormatError,
    InputError,
    MissingColumnsError,
    NotFoundError,
    PrecisionWarning,
    StorageError,
    TypeMismatchError,
    ValueParseError,
)

if TYPE_CHECKING:
    from ._estimators import Classifier, Regressor, StagingWarning, load
    from ._ranker import Ranker
    from ._sweep import Sweep, sweep
    from .model import Model

# The command coppice needs none of these, and Ctrl-C while they are imported would be a traceback: scikit-learn takes a
# second, numpy and pyarrow a third of one.
_LATER = {
    "Classifier": "_estimators",
    "Model": "model",
    "Ranker": "_ranker",
    "Regressor": "_estimators",
    "StagingWarning": "_estimators",
    "Sweep": "_sweep",
    "load": "_estimators",
    "sweep": "_sweep",
}


def __getattr__(name: str) -> Any:
    if name in ("model", "mlflow"):
        return importlib.import_module(f".{name}", __name__)
    if name in _LATER:
        return getattr(importlib.import_module(f".{_LATER[name]}", __name__), name)
    raise AttributeError(f"module 'coppice' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__version__ = "0.9.0"

__all__ = [
    "Classifier",
    "CorruptError",
    "Error",
    "FormatError",
    "InputError",
    "MissingColumnsError",
    "Model",
    "NotFoundError",
    "PrecisionWarning",
    "Ranker",
    "Regressor",
    "StagingWarning",
    "StorageError",
    "Sweep",
    "TrainingError",
    "TypeMismatchError",
    "ValueParseError",
    "load",
    "sweep",
]
