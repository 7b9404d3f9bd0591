"""Predict with models that Coppice registered.

    import coppice
    model = coppice.Model.load("gs://my-registry", model="ctr", version="champion")
    p = model.predict(frame)  # numpy float64, shape (rows,)

The package shares no code with the Go programs. It reads the same files (registry/FORMAT.md, dataset/FORMAT.md) and must
give the same numbers: encoded values to the bit, probabilities to 1e-12.
"""

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

__all__ = [
    "CorruptError",
    "Error",
    "FormatError",
    "InputError",
    "MissingColumnsError",
    "Model",
    "NotFoundError",
    "PrecisionWarning",
    "StorageError",
    "TypeMismatchError",
    "ValueParseError",
]
