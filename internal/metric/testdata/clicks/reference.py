"""Metrics of clicks and their paired intervals, as a reader of the definitions writes them down.
Reads columns as JSON from standard input (label, weight or null, new, old) and prints what it makes
of them; numpy only, and quadratic memory for the area."""

import json
import sys

import numpy as np


def values(y, w, p):
    rate, q = np.average(y, weights=w), np.clip(np.where(y == 1, p, 1 - p), 1e-15, 1 - 1e-15)
    loss, entropy = np.average(-np.log(q), weights=w), -rate * np.log(rate) - (1 - rate) * np.log1p(-rate)
    return {
        "log_loss": loss,
        "normalized_entropy": loss / entropy,
        "relative_information_gain": 1 - loss / entropy,
        "calibration_ratio": np.sum(w * p) / np.sum(w * y),
        "brier": np.average((p - y) ** 2, weights=w),
    }


def influences(y, w, p):
    rate, q = np.average(y, weights=w), np.clip(np.where(y == 1, p, 1 - p), 1e-15, 1 - 1e-15)
    v, entropy = values(y, w, p), -rate * np.log(rate) - (1 - rate) * np.log1p(-rate)
    ne = (-np.log(q) - v["log_loss"] - v["normalized_entropy"] * np.log((1 - rate) / rate) * (y - rate)) / entropy
    return {
        "log_loss": -np.log(q) - v["log_loss"],
        "normalized_entropy": ne,
        "relative_information_gain": -ne,
        "calibration_ratio": (p - v["calibration_ratio"] * y) / rate,
        "brier": (p - y) ** 2 - v["brier"],
    }


def deviation(w, x):
    n = np.count_nonzero(w)
    return float(np.sqrt(np.sum((w * x) ** 2) / np.sum(w) ** 2 * n / (n - 1)))


def components(y, w, p):
    """The area under the curve, and of every row the share of the other class that it is on the right side of."""
    pos, neg = y == 1, y == 0
    above = np.sign(p[pos][:, None] - p[neg][None, :]) / 2 + 0.5
    share = np.empty(len(y))
    share[pos], share[neg] = np.average(above, axis=1, weights=w[neg]), np.average(above, axis=0, weights=w[pos])
    return np.average(share[pos], weights=w[pos]), share


def delong(y, w, x):
    """The deviation of an area whose components are x, or of a difference of two areas."""
    parts = [(w[y == c], x[y == c] - np.average(x[y == c], weights=w[y == c])) for c in (0, 1)]
    return float(np.sqrt(sum(deviation(*part) ** 2 for part in parts)))


def report(y, w, new, old):
    w = np.ones(len(y)) if w is None else w
    a, b = influences(y, w, new), influences(y, w, old)
    out = {
        m: {"new": v, "old": values(y, w, old)[m], "new_error": deviation(w, a[m]), "error": deviation(w, a[m] - b[m])}
        for m, v in values(y, w, new).items()
    }
    ratio = out["calibration_ratio"]  # compared by its distance from 1 on a logarithmic scale
    slope = [np.sign(ratio[s] - 1) / ratio[s] for s in ("new", "old")]
    ratio["error"] = deviation(w, slope[0] * a["calibration_ratio"] - slope[1] * b["calibration_ratio"])
    (area, x), (other, z) = components(y, w, new), components(y, w, old)
    return out | {"auc": {"new": area, "old": other, "new_error": delong(y, w, x), "error": delong(y, w, x - z)}}


if __name__ == "__main__":
    d = {k: None if v is None else np.array(v, dtype=np.float64) for k, v in json.load(sys.stdin).items()}
    json.dump(report(d["label"], d["weight"], d["new"], d["old"]), sys.stdout, indent=1)
    print()
