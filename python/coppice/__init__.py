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
from .model import Model
from ._sweep import Sweep, sweep

if TYPE_CHECKING:
    from ._estimators import Classifier, Regressor, StagingWarning, load
    from ._ranker import Ranker


def __getattr__(name: str) -> Any:
    if name in ("Classifier", "Regressor", "StagingWarning", "load"):  # scikit-learn takes a second to import
        from . import _estimators

        return getattr(_estimators, name)
    if name == "Ranker":
        from ._ranker import Ranker

        return Ranker
    raise AttributeError(f"module 'coppice' has no attribute {name!r}")


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
