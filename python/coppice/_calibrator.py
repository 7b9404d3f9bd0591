"""calibrator.json: raw scores, which are log odds, to probabilities. internal/calibrate/calibrate.go is the counterpart."""

from __future__ import annotations

import re

import numpy as np

from ._encoding import is_column
from ._strict import Reader, parse_json

ISOTONIC, PLATT, NONE = "isotonic", "platt", "none"
_MAX_RAW = 1e100
_EDGE = 1e-15
_MAX_KNOTS = 1 << 16
_MAX_SEGMENTS = 1 << 17
_MAX_BYTES = _MAX_KNOTS * 64 + _MAX_SEGMENTS * 64
_MAX_BY, _MAX_SHIFT = 4, 4.0
_KEY = re.compile(r"[0-9a-f]{16}\Z")


class Calibrator:
    """Maps raw scores to probabilities from 1e-15 to 1 - 1e-15, without changing their order.

    Attributes:
        method: isotonic, platt or none.
        by: columns whose values decide about a row's segment; empty where all rows are calibrated alike.
    """

    def __init__(self, method: str, x: np.ndarray, y: np.ndarray, a: float, c: float) -> None:
        self.method = method
        self.by: tuple[str, ...] = ()
        self._keys, self._shifts = np.empty(0, dtype=np.uint64), np.empty(0)
        self._x, self._y, self._a, self._c = x, y, a, c

    def __call__(self, raw: np.ndarray, segments: np.ndarray | None = None) -> np.ndarray:
        """The probabilities of raw scores: float64 of the same shape; that of NaN is NaN. segments
        are the hashes of by (uint64)."""
        p = self._whole(raw)
        if segments is None or len(self._keys) == 0:
            return p
        at = np.minimum(np.searchsorted(self._keys, segments), len(self._keys) - 1)
        shift = np.where(self._keys[at] == segments, self._shifts[at], 0.0)
        return np.where(shift != 0, sigmoid(np.log(p) - np.log1p(-p) + shift), p)

    def _whole(self, raw: np.ndarray) -> np.ndarray:
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
    """Reads calibrator.json: format 1, or 2 with segments; numbers finite, nothing that descends."""
    r = Reader(parse_json(data, "calibrator.json", _MAX_BYTES), "calibrator.json")
    form = r.integer("format", 1, 2)
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
    c = Calibrator(method, x, y, slope, constant)
    if form == 2:
        _read_segments(r, c)
    r.close()
    return c


def _read_segments(r: Reader, c: Calibrator) -> None:
    by = r.texts("by", _MAX_BY)
    if not by or len(set(by)) != len(by) or not all(is_column(name) for name in by):
        r.fail("by is not one to four different columns")
    keys, shifts = r.texts("segments", _MAX_SEGMENTS), np.array(r.numbers("shifts", _MAX_SEGMENTS))
    if not all(_KEY.match(k) for k in keys) or any(a >= b for a, b in zip(keys, keys[1:])):
        r.fail("segments are not ascending hashes of 16 hexadecimal digits")
    if len(keys) != len(shifts) or np.any(np.abs(shifts) > _MAX_SHIFT):
        r.fail(f"{len(keys)} segments and {len(shifts)} shifts, which must be as many and at most {_MAX_SHIFT}")
    c.by, c._keys, c._shifts = tuple(by), np.array([int(k, 16) for k in keys], dtype=np.uint64), shifts


def _knots(r: Reader) -> tuple[np.ndarray, np.ndarray]:
    x, y = np.array(r.ascending("x", _MAX_KNOTS)), np.array(r.numbers("y", _MAX_KNOTS))
    if len(x) == 0 or len(x) != len(y) or np.abs(x).max() > _MAX_RAW or np.any(np.diff(y) < 0):
        r.fail(f"{len(x)} raw scores and {len(y)} probabilities, which must be as many and not descend")
    if y[0] < _EDGE or y[-1] > 1 - _EDGE:
        r.fail(f"y from {y[0]} to {y[-1]} are not all probabilities from {_EDGE} to 1 - {_EDGE}")
    return x, y
