"""model.txt: LightGBM's text of trees.

LightGBM trusts its files: children that form a cycle hang it, and numbers out of range end the
process or take gigabytes. Here everything is checked; internal/gbt/model_read.go is the
counterpart and refuses the same."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np

from .errors import FormatError

BINARY = "binary sigmoid:1"
# What a raw score is, by objective: the log odds of a probability, the logarithm of a prediction, its signed square root,
# or the prediction.
LOG_ODDS, LOG_MEAN, ROOT, AS_IS = "log odds", "log mean", "root", "as is"
SOFTMAX = "softmax"  # one raw score for each class
OUTPUTS = {
    BINARY: LOG_ODDS,
    "cross_entropy": LOG_ODDS,
    **dict.fromkeys(("regression", "regression_l1", "huber", "fair", "quantile", "mape", "lambdarank", "rank_xendcg"), AS_IS),
    **dict.fromkeys(("regression sqrt", "regression_l1 sqrt", "fair sqrt", "mape sqrt", "quantile sqrt"), ROOT),
    **dict.fromkeys(("poisson", "gamma", "tweedie"), LOG_MEAN),
}
MAX_CLASSES = 1000
_CLASSES = re.compile(r"multiclass num_class:([1-9][0-9]{0,3})|multiclassova num_class:([1-9][0-9]{0,3}) sigmoid:1").fullmatch
MAX_LINE = 16 << 20  # of the head
MAX_LEAVES = 1 << 17
MAX_TREES = 1_000_001  # of the most iterations, and one for a first score
_MAX_WORDS = 1 << 22  # of a tree's sets of categories

# Bits of a node's decision. Neither of the last two: a missing value is 0.
CATEGORICAL, DEFAULT_LEFT, MISSING_ZERO, MISSING_NAN = 1, 2, 4, 8

_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")
_BLANK = re.compile(rb"\n*")
_SPECIAL = re.compile(r"[^a-zA-Z0-9_.-]")
_INT = re.compile(rb"0|-?[1-9][0-9]*").fullmatch
_NUMBER = re.compile(rb"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?").fullmatch

_HEAD = frozenset(
    b"tree version num_class num_tree_per_iteration label_index max_feature_idx objective feature_names"
    b" feature_infos tree_sizes".split()
)
_TREE = frozenset(b"Tree num_leaves num_cat leaf_value".split())
_NODES = b"split_feature threshold decision_type left_child right_child".split()
_INFINITE = {b"inf": b"1.7976931348623157e308", b"-inf": b"-1.7976931348623157e308"}
_SETS = b"cat_boundaries cat_threshold".split()
_MEASURED = b"split_gain internal_value internal_weight internal_count leaf_weight leaf_count".split()
_AVERAGE = b"average_output"  # of predictions that are means of trees: LightGBM's random forests
_OPTIONAL = frozenset([*_NODES, *_SETS, *_MEASURED, b"shrinkage", b"is_linear"])


@dataclass(frozen=True)
class Trees:
    """A model file that has been checked.

    Attributes:
        objective: as outputs() takes it. names: of the features.
        split: by feature, 1 if some node compares it as a number, 2 if as a category, 3 if both.
        leaves: by tree, their number; a tree has one node less. values: of the leaves of all trees, one after the
            other.
        feature, threshold, decision, left, right: by node of all trees. A child c is a node of the same tree, or if
            negative its leaf ~c. A threshold of a category's node is the number of a set.
        bounds, words: set i has the category c if c is less than 32 times bounds[i + 1] - bounds[i], and bit c % 32 of
            words[bounds[i] + c // 32] is set.
    """

    objective: str
    names: list[str]
    split: np.ndarray
    leaves: np.ndarray
    values: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    decision: np.ndarray
    left: np.ndarray
    right: np.ndarray
    bounds: np.ndarray
    words: np.ndarray

    def of(self, k: int, n: int) -> Trees:
        """The trees of the k-th of n outputs: the trees of a round follow each other."""
        if n == 1:
            return self
        mine = np.arange(len(self.leaves)) % n == k
        nodes, leaves = np.repeat(mine, self.leaves - 1), np.repeat(mine, self.leaves)
        return replace(
            self, leaves=self.leaves[mine], values=self.values[leaves], feature=self.feature[nodes],
            threshold=self.threshold[nodes], decision=self.decision[nodes], left=self.left[nodes], right=self.right[nodes],
        )  # fmt: skip


def outputs(objective: str) -> tuple[str, int] | None:
    """What the raw scores of an objective are, and how many a row has; None if it cannot be read."""
    if objective in OUTPUTS:
        return OUTPUTS[objective], 1
    found = _CLASSES(objective)
    if not found:
        return None
    n = int(found[1] or found[2])
    return (SOFTMAX if found[1] else LOG_ODDS, n) if 2 <= n <= MAX_CLASSES else None


class _Arrays:
    """Arrays of Trees, to which tree after tree is added as bytes: an array of a small tree is larger than its text."""

    _FORMS = {
        "leaves": "i4",
        "values": "f8",
        "feature": "i4",
        "threshold": "f8",
        "decision": "u1",
        "left": "i4",
        "right": "i4",
        "bounds": "i8",
        "words": "u4",
    }

    def __init__(self) -> None:
        self._bytes = {name: bytearray() for name in self._FORMS}
        self.add(bounds=np.zeros(1))

    def add(self, **arrays: np.ndarray) -> None:
        """Adds to the ends of arrays."""
        for name, values in arrays.items():
            self._bytes[name] += values.astype(self._FORMS[name]).tobytes()

    def size(self, name: str) -> int:
        """How many values an array has."""
        return len(self._bytes[name]) // np.dtype(self._FORMS[name]).itemsize

    def all(self) -> dict[str, np.ndarray]:
        """The arrays."""
        return {name: np.frombuffer(data, dtype=self._FORMS[name]) for name, data in self._bytes.items()}


def read(data: bytes) -> Trees:
    """Reads a model file."""
    r = _Reader(data)
    r.begins(b"tree", 'it does not begin with the line "tree"; is it a LightGBM text model?')
    head = r.block(_HEAD, frozenset([b"monotone_constraints", _AVERAGE]))

    def one_of(key: bytes, *values: str) -> str:
        have = head[key].decode()
        if have not in values:
            r.fail(f"{key.decode()}={have[:40]}; this package reads {', '.join(values)}", key)
        return have

    one_of(b"version", "v2", "v3", "v4")
    objective = head[b"objective"].decode()
    known = outputs(objective)
    if known is None:
        text = ", ".join(["multiclass", "multiclassova", *OUTPUTS])
        r.fail(f"objective={objective[:40]}; this package reads {text}", b"objective")
    classes = known[1]
    one_of(b"num_class", str(classes))
    one_of(b"num_tree_per_iteration", str(classes))
    names = r.words(head, b"feature_names").decode().split(" ")
    if "" in names:
        r.fail("no feature_names", b"feature_names")
    r.ints(head, b"label_index", 1, 0, 1 << 31)
    r.ints(head, b"max_feature_idx", 1, len(names) - 1, len(names) - 1)
    r.count(head, b"feature_infos", len(names))
    if b"monotone_constraints" in head:
        r.ints(head, b"monotone_constraints", len(names), -1, 1)
    if head[b"tree_sizes"].count(b" ") >= MAX_TREES:
        r.fail(f"tree_sizes: more than {MAX_TREES} trees", b"tree_sizes")
    sizes = r.ints(head, b"tree_sizes", None, 1, 1 << 31)

    if not len(sizes):
        r.fail("no tree")
    if len(sizes) % classes:
        r.fail(f"{len(sizes)} trees cannot be divided among {classes} classes")

    split, arrays = np.zeros(len(names), dtype=np.uint8), _Arrays()
    for number, size in enumerate(sizes.tolist()):
        begin = r.start
        _tree(r, number, split, arrays)
        if r.start - begin != size:
            r.fail(f"tree {number} has {r.start - begin} bytes where tree_sizes says {size}")
    out = arrays.all()
    if _AVERAGE in head:
        if head[_AVERAGE]:
            r.fail("average_output has no value")
        out["values"] = out["values"] / (len(sizes) // classes)  # the mean as a sum
    r.begins(b"end of trees", 'the line "end of trees" belongs here')
    return Trees(objective, names, split, **out)


class _Reader:
    """Lines of the file, and the values in them."""

    def __init__(self, data: bytes) -> None:
        self._data, self.start, self._number = data, 0, 0  # start: of the next line
        self._lines: dict[bytes, int] = {}  # of the keys of the last block

    def fail(self, message: str, key: bytes = b"") -> NoReturn:
        """Raises FormatError at the line of a key, or else the last line that was read."""
        raise FormatError(f"model.txt, line {self._lines.get(key, self._number)}: {message}")

    def begins(self, line: bytes, message: str) -> None:
        """Fails unless this is the next line."""
        if not self._data.startswith(line + b"\n", self.start):
            self._number += 1
            self.fail(message)

    def line(self) -> bytes | None:
        """The next line; None at the end. One that is not ended by a newline is none."""
        end = self._data.find(b"\n", self.start)
        if end < 0:
            return None
        line = self._data[self.start : end]
        self.start, self._number = end + 1, self._number + 1
        return line

    def block(self, required: frozenset[bytes], optional: frozenset[bytes]) -> dict[bytes, bytes]:
        """Lines KEY=VALUE up to an empty one, and all empty ones after it."""
        keys: dict[bytes, bytes] = {}
        self._lines = {}
        while True:
            line = self.line()
            if line is None:
                self.fail("the file ends here, without the line \"end of trees\"")
            if not line:
                break
            key, equals, value = line.partition(b"=")
            shown = repr(key[:40].decode("utf-8", "replace"))
            if _CONTROL.search(line):
                self.fail(f"a control character in {shown}")
            try:
                line.decode()
            except UnicodeDecodeError:
                self.fail("it is not UTF-8")
            if not equals and line not in (b"tree", _AVERAGE):  # LightGBM ends the process where a tree's line has none
                self.fail(f'{shown} without "="')
            if b"=" in value:
                self.fail(f'{shown} has a second "="')
            if key in keys:
                self.fail(f"{shown} a second time")
            if key not in required and key not in optional:
                self.fail(f"{shown} is not a key that this package knows")
            if len(value) > MAX_LINE and required is _HEAD:
                self.fail(f"{shown} has {len(value)} bytes, more than the {MAX_LINE} that a line of the head may have")
            keys[key], self._lines[key] = value, self._number
        for key in sorted(required - keys.keys()):
            self.fail(f"the lines above lack {key.decode()}")
        blank = _BLANK.match(self._data, self.start).end()
        self._number, self.start = self._number + blank - self.start, blank
        return keys

    def words(self, keys: dict[bytes, bytes], key: bytes) -> bytes:
        """A value that consists of words with a space between them."""
        value = keys.get(key, b"")
        if value[:1] == b" " or value[-1:] == b" " or b"  " in value:
            self.fail(f"{key.decode()}: one space belongs between two values, and none elsewhere", key)
        return value

    def count(self, keys: dict[bytes, bytes], key: bytes, n: int | None) -> list[bytes]:
        """The words of a value, which must be n."""
        value = self.words(keys, key)
        have = value.count(b" ") + 1 if value else 0
        if n is not None and have != n:
            self.fail(f"{key.decode()} has {have} values, expected {n}", key)
        return value.split(b" ") if value else []

    def ints(self, keys: dict[bytes, bytes], key: bytes, n: int | None, low: int, high: int) -> np.ndarray:
        """Whole numbers from low to high."""
        words = self.count(keys, key, n)
        out = np.empty(len(words), dtype=np.int64)
        for i, w in enumerate(words):
            if not _INT(w) or len(w) > 19 or not low <= (v := int(w)) <= high:
                text = f"{_shown(w)} at position {i}; whole numbers from {low} to {high} are possible"
                self.fail(f"{key.decode()}: {text}", key)
            out[i] = v
        return out

    def numbers(self, keys: dict[bytes, bytes], key: bytes, n: int) -> np.ndarray:
        """Finite numbers."""
        words = self.count(keys, key, n)
        if key == b"threshold":  # LightGBM's own readers have infinities there; no value is beyond the largest number here
            words = [_INFINITE.get(w, w) for w in words]
        for i, w in enumerate(words):
            if not _NUMBER(w):
                self.fail(f"{key.decode()}: {_shown(w)} at position {i} is not a decimal number", key)
        out = np.array([float(w) for w in words], dtype=np.float64)
        if not np.isfinite(out).all():
            at = int(np.argmin(np.isfinite(out)))
            self.fail(f"{key.decode()}: {_shown(words[at])} at position {at} is too large", key)
        return out


def plain_names(names: list[str]) -> list[str]:
    """The names that features have in a model file: without characters that LightGBM refuses, and all different."""
    out: dict[str, None] = {}
    for i, name in enumerate(names):
        plain = _SPECIAL.sub("_", name)
        while not plain or plain in out:
            plain = f"{plain}_{i}"
        out[plain] = None
    return list(out)


def _shown(word: bytes) -> str:
    return repr(word[:40].decode("utf-8", "replace"))


def _tree(r: _Reader, number: int, split: np.ndarray, arrays: _Arrays) -> None:
    r.begins(b"Tree=%d" % number, f"the line Tree={number} belongs here")
    keys = r.block(_TREE, _OPTIONAL)
    if b"is_linear" in keys:
        r.ints(keys, b"is_linear", 1, 0, 0)
    if b"shrinkage" in keys:
        r.numbers(keys, b"shrinkage", 1)
    leaves = int(r.ints(keys, b"num_leaves", 1, 1, MAX_LEAVES)[0])
    sets = int(r.ints(keys, b"num_cat", 1, 0, leaves - 1)[0])
    inner = leaves - 1

    values = r.numbers(keys, b"leaf_value", leaves)
    feature = r.ints(keys, b"split_feature", inner, 0, len(split) - 1)
    threshold = r.numbers(keys, b"threshold", inner)
    decision = r.ints(keys, b"decision_type", inner, 0, 11)
    left = r.ints(keys, b"left_child", inner, -leaves, inner - 1)
    right = r.ints(keys, b"right_child", inner, -leaves, inner - 1)
    for key in _MEASURED:
        n = leaves if key.startswith(b"leaf") else inner
        if keys.get(key):
            r.ints(keys, key, n, 0, (1 << 63) - 1) if key.endswith(b"count") else r.numbers(keys, key, n)

    _children(r, left, right)
    categorical = decision & CATEGORICAL != 0
    wrong = categorical & ~((threshold >= 0) & (threshold < sets) & (threshold == np.trunc(threshold)))
    if wrong.any():
        node = int(np.argmax(wrong))
        r.fail(f"node {node} has the category set {threshold[node]} of {sets}")
    np.bitwise_or.at(split, feature, np.where(categorical, 2, 1).astype(np.uint8))

    bounds = r.ints(keys, b"cat_boundaries", sets + 1 if sets else 0, 0, _MAX_WORDS)
    if sets and (bounds[0] != 0 or (np.diff(bounds) <= 0).any()):
        r.fail("cat_boundaries do not ascend from 0")
    words = r.ints(keys, b"cat_threshold", int(bounds[-1]) if sets else 0, 0, (1 << 32) - 1)

    threshold[categorical] += arrays.size("bounds") - 1
    arrays.add(bounds=bounds[1:] + arrays.size("words"), words=words)
    arrays.add(leaves=np.array([leaves]), values=values, feature=feature, threshold=threshold)
    arrays.add(decision=decision, left=left, right=right)


def _children(r: _Reader, left: np.ndarray, right: np.ndarray) -> None:
    """Every node and leaf is the child of exactly one earlier node: no path leaves the tree, and every one ends."""
    children = np.stack([left, right], axis=1).ravel()
    nodes = np.repeat(np.arange(len(left)), 2)
    order = np.argsort(children, kind="stable")
    again = np.zeros(len(children), dtype=bool)
    again[order[1:]] = children[order[1:]] == children[order[:-1]]
    wrong = again | ((children >= 0) & (children <= nodes))
    if wrong.any():
        at = int(np.argmax(wrong))
        r.fail(f"node {nodes[at]} has the child {children[at]}")
