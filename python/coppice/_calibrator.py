"""calibrator.json: raw scores, which are log odds, to probabilities. internal/calibrate/calibrate.go is the counterpart."""

from __future__ import annotations

import numpy as np

from ._strict import Reader, parse_json

PLATT, NONE = "platt", "none"
_MAX_RAW = 1e100
_EDGE = 1e-15
_MAX_BYTES = 4 << 10


class Calibrator:
    """Maps raw scores to probabilities from 1e-15 to 1 - 1e-15, without changing their order.

    Attributes:
        method: platt or none.
    """

    def __init__(self, method: str, a: float, c: float) -> None:
        self.method = method
        self._a, self._c = a, c

    def __call__(self, raw: np.ndarray) -> np.ndarray:
        """The probabilities of raw scores: float64 of the same shape; that of NaN is NaN."""
        z = np.clip(np.asarray(raw, dtype=np.float64), -_MAX_RAW, _MAX_RAW)
        if self.method == PLATT:
            return sigmoid(self._a * z + self._c)
        return sigmoid(z)


def sigmoid(z: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-z)), kept away from 0 and 1."""
    with np.errstate(over="ignore"):
        return np.clip(1 / (1 + np.exp(-z)), _EDGE, 1 - _EDGE)


def decode(data: bytes) -> Calibrator:
    """Reads calibrator.json: numbers finite, nothing that descends."""
    r = Reader(parse_json(data, "calibrator.json", _MAX_BYTES), "calibrator.json")
    if r.integer("format", 1, 2) == 2:
        r.fail("calibrate: is gone; all rows are calibrated alike: leave it out, and train again")
    method = r.text("method")
    if method not in (PLATT, NONE):
        r.fail(f"method {method[:40]!r}; platt and none are possible")
    slope = constant = 0.0
    if method == PLATT:
        slope, constant = r.number("a"), r.number("c")
        if slope < 0:
            r.fail(f"a is {slope}, and a calibrator must not descend")
    r.close()
    return Calibrator(method, slope, constant)
