"""calibrator.json: raw scores, which are log odds, to probabilities. internal/calibrate/calibrate.go is the counterpart."""

from __future__ import annotations

import numpy as np

from ._strict import Reader, parse_json

ISOTONIC, PLATT, NONE = "isotonic", "platt", "none"
_MAX_RAW = 1e100
_EDGE = 1e-15
_MAX_KNOTS = 1 << 16
_MAX_BYTES = _MAX_KNOTS * 64


class Calibrator:
    """Maps raw scores to probabilities from 1e-15 to 1 - 1e-15, without changing their order.

    Attributes:
        method: isotonic, platt or none.
    """

    def __init__(self, method: str, x: np.ndarray, y: np.ndarray, a: float, c: float) -> None:
        self.method = method
        self._x, self._y, self._a, self._c = x, y, a, c

    def __call__(self, raw: np.ndarray) -> np.ndarray:
        """The probabilities of raw scores: float64 of the same shape; that of NaN is NaN."""
        z = np.clip(np.asarray(raw, dtype=np.float64), -_MAX_RAW, _MAX_RAW)
        if self.method == ISOTONIC:
            return self._between(z)
        if self.method == PLATT:
            return sigmoid(self._a * z + self._c)
        return sigmoid(z)

    def _between(self, raw: np.ndarray) -> np.ndarray:
        """Constant over each stretch of rows that were pooled, linear between neighbours, and
        constant beyond the ends."""
        x, y = self._x, self._y
        at = np.searchsorted(x, raw)
        low, high = np.clip(at - 1, 0, len(x) - 1), np.clip(at, 0, len(x) - 1)
        inside = low != high
        span = np.where(inside, x[high] - x[low], 1.0)
        t = np.where(inside, (raw - x[low]) / span, 0.0)
        out = np.where(inside, np.minimum(y[low] + (y[high] - y[low]) * t, y[high]), y[high])
        out[np.isnan(raw)] = np.nan
        return out


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
    if method not in (ISOTONIC, PLATT, NONE):
        r.fail(f"method {method[:40]!r}; isotonic, platt and none are possible")
    x = y = np.empty(0)
    slope = constant = 0.0
    if method == ISOTONIC:
        x, y = _knots(r)
    if method == PLATT:
        slope, constant = r.number("a"), r.number("c")
        if slope < 0:
            r.fail(f"a is {slope}, and a calibrator must not descend")
    r.close()
    return Calibrator(method, x, y, slope, constant)


def _knots(r: Reader) -> tuple[np.ndarray, np.ndarray]:
    x, y = np.array(r.ascending("x", _MAX_KNOTS)), np.array(r.numbers("y", _MAX_KNOTS))
    if len(x) == 0 or len(x) != len(y) or np.abs(x).max() > _MAX_RAW or np.any(np.diff(y) < 0):
        r.fail(f"{len(x)} raw scores and {len(y)} probabilities, which must be as many and not descend")
    if y[0] < _EDGE or y[-1] > 1 - _EDGE:
        r.fail(f"y from {y[0]} to {y[-1]} are not all probabilities from {_EDGE} to 1 - {_EDGE}")
    return x, y
