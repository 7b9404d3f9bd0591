"""Predict with models that Coppice registered, and look at the sweeps that they come from.

    import coppice
    model = coppice.Model.load("gs://my-registry", model="ctr", version="champion")
    p = model.predict(frame)  # numpy float64, shape (rows,)

The package shares no code with the Go programs. It reads the same files
(internal/registry/FORMAT.md, internal/dataset/FORMAT.md) and must give the same numbers: encoded
values and raw scores to the bit, probabilities to 1e-12. """

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
from ._sweep import Drawing, Sweep, sweep

__version__ = "1.0.0"

__all__ = [
    "CorruptError",
    "Drawing",
    "Error",
    "FormatError",
    "InputError",
    "MissingColumnsError",
    "Model",
    "NotFoundError",
    "PrecisionWarning",
    "StorageError",
    "Sweep",
    "TypeMismatchError",
    "ValueParseError",
    "sweep",
]
