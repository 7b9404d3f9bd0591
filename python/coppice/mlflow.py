"""Lets mlflow.pyfunc.load_model load what `launcher registry export --mlflow` has written."""

from __future__ import annotations

from typing import Any

import numpy as np

from .model import Model


class Loaded:
    """A registered version as MLflow wants one: raw rows in, predictions out."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> np.ndarray:
        """See Model.predict; params may say raw."""
        return self.model.predict(model_input, raw=bool((params or {}).get("raw", False)))


def _load_pyfunc(path: str) -> Loaded:
    return Loaded(Model.load(path))
