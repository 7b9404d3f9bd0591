"""A model's trees in the form for scoring many rows.

As in internal/gbt/predict.go, a batch of rows has one bit of a byte per row, and every predicate, such as "price <=
1.5", is evaluated once for all trees that use it. Of the rows that reach a node, those whose answer is yes go left:
an AND of two rows of bytes. A level of all trees is one call of numpy, so that a call costs little beside its work.
The ANDs grow with the number of nodes and not the depth, so rows walk down a large tree one by one, by the same
answers.

Every row reaches the leaf that Model.Predict of internal/gbt finds, and values are added in the order of the trees:
scores are the same bits."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from ._trees import CATEGORICAL, DEFAULT_LEFT, MISSING_NAN, MISSING_ZERO, Trees

_ZERO = 1e-35  # the magnitude up to which a value is zero, if zero means missing
_RULES = 5  # of missing values: they are 0, less or more than all bounds, and so is zero or not
_REPLACED = np.array([0, -np.inf, np.inf, -np.inf, np.inf])  # by rule: bounds are finite
_ZERO_RULE = 3  # the first whose zeros are missing

_CATEGORIES = 256  # of a set that is looked up in a table; of features.json a feature has no more
_WIDE = 1 << 16  # answers to predicates of larger sets that are evaluated at once

_ROWS = 1 << 10  # of a batch
_FLAT = 1 << 8  # leaves of a tree that is ANDed: their numbers fit a byte
_BLOCK = 1 << 14  # leaves of the trees of a block. A tree counts some more, and a large one less: it has few predicates
# of its own.
_TREE = 8
_SUMMED = 1 << 16  # values of leaves that are read at once


class Forest:
    """Scores rows. It does not change and may be used from any thread.

    Attributes:
        leaves: of all trees.
    """

    def __init__(self, trees: Trees) -> None:
        self._blocks: list[_Block] = []
        first = leaf = 0
        leaves = trees.leaves.astype(np.int64)
        self.leaves = int(leaves.sum())
        cost = np.cumsum(_TREE + np.minimum(leaves, np.maximum(leaves // 16, _FLAT)))
        while first < len(cost):
            before = cost[first - 1] if first else 0
            last = max(int(np.searchsorted(cost, before + _BLOCK, side="right")), first + 1)
            self._blocks.append(_Block(trees, first, last, leaf))
            leaf += int(trees.leaves[first:last].sum())
            first = last

    def __call__(self, x: np.ndarray, threads: int = 0) -> np.ndarray:
        """The raw scores of rows.

        Args:
            x: float64, shape (rows, features).
            threads: 0 takes all processors.

        Returns:
            float64, shape (rows,).
        """
        out = np.zeros(len(x))
        firsts = range(0, len(x), _ROWS)

        def score(first: int) -> None:
            last = first + _ROWS
            for block in self._blocks:
                block.add(x[first:last], out[first:last])

        threads = min(threads if threads > 0 else processors(), len(firsts))
        if threads <= 1:
            for first in firsts:
                score(first)
        else:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(score, firsts))
        return out


@dataclass(frozen=True)
class _Level:
    """Nodes at one depth. Rows of bytes of their left children are followed by those of their right children.

    Attributes:
        begin: the first of these. predicate: by node. reached: by node, its row among those of the
        level above; None for roots.
    """

    begin: int
    predicate: np.ndarray
    reached: np.ndarray | None


class _Block:
    """Consecutive trees, and the predicates of their nodes."""

    def __init__(self, trees: Trees, first: int, last: int, leaf: int) -> None:
        """Takes the trees from first, which begins with this leaf, up to, but without, last."""
        leaves = trees.leaves[first:last].astype(np.int64)
        leaf_begin = _begins(leaves)
        self._values = trees.values[leaf : leaf + int(leaves.sum())]
        inner = leaves - 1
        node_begin = _begins(inner)
        nodes = slice(leaf - first, leaf - first + int(inner.sum()))

        feature, threshold, decision = trees.feature[nodes], trees.threshold[nodes], trees.decision[nodes]
        predicates = np.empty(len(feature), dtype=np.int64)
        categorical = decision & CATEGORICAL != 0
        self._numbers = _Numbers(feature, threshold, decision, np.flatnonzero(~categorical), predicates)
        self._sets = _Sets(trees, feature, threshold, np.flatnonzero(categorical), predicates, self._numbers.count)

        # Nodes and, as negative numbers, leaves are numbered through the block.
        of_tree = np.repeat(np.arange(len(leaves)), inner)
        left, right = (
            np.where(child >= 0, child + node_begin[of_tree], child - leaf_begin[of_tree])
            for child in (trees.left[nodes].astype(np.int64), trees.right[nodes].astype(np.int64))
        )
        flat = leaves <= _FLAT
        level, reached = node_begin[flat & (inner > 0)], None
        self._levels: list[_Level] = []
        at, of_leaf = 0, np.zeros(len(self._values), dtype=np.int64)
        while len(level):
            self._levels.append(_Level(at, predicates[level], reached))
            children = np.concatenate([left[level], right[level]])
            goes_on = children >= 0
            of_leaf[~children[~goes_on]] = at + np.flatnonzero(~goes_on)
            level, reached, at = children[goes_on], np.flatnonzero(goes_on), at + len(children)
        self._nodes = at  # rows of bytes

        # Trees of about as many leaves find theirs together.
        self._exits = []
        bits = np.frexp(inner)[1]
        for n in np.unique(bits[flat]):
            of = np.flatnonzero(bits == n)
            number = np.arange(1 << n)[:, None]
            there = number < leaves[of]
            rows = np.where(there, of_leaf[np.where(there, leaf_begin[of] + number, 0)], at)
            self._exits.append((of, leaf_begin[of, None].astype(np.int32), rows))
        self._trees = len(leaves)

        self._large, self._roots = np.flatnonzero(~flat), node_begin[~flat]
        self._predicates, self._children = predicates, np.stack([right, left], axis=1)

    def add(self, x: np.ndarray, sums: np.ndarray) -> None:
        """Adds the values of the rows' leaves, in x of shape (rows, features), to sums of shape (rows,)."""
        width = -(-len(x) // 8)
        answers = np.empty((self._numbers.count + self._sets.count, width), dtype=np.uint8)
        self._numbers.answer(x, answers)
        self._sets.answer(x, answers)

        leaf = np.empty((self._trees, 8 * width), dtype=np.int32)  # by tree and row, numbered through the block
        self._find(self._reach(answers), leaf)
        if len(self._large):
            leaf[self._large] = self._walk(answers)
        step = max(_SUMMED // (8 * width), 1)
        for first in range(0, self._trees, step):
            values = self._values[leaf[first : first + step]]
            values[0, : len(x)] += sums
            # Of a row of eight and more values, numpy adds one tree after the other.
            sums[:] = np.add.reduce(values, axis=0)[: len(x)]

    def _reach(self, answers: np.ndarray) -> np.ndarray:
        """By node but roots, the bits of rows that reach it, and at last none: uint8, shape (nodes + 1, bytes)."""
        rows = np.empty((self._nodes + 1, answers.shape[1]), dtype=np.uint8)
        rows[-1] = 0
        above = rows
        for level in self._levels:
            n = len(level.predicate)
            yes = answers[level.predicate]
            children = rows[level.begin : level.begin + 2 * n]
            if level.reached is None:
                children[:n] = yes
                np.invert(yes, out=children[n:])
            else:
                here = above[level.reached]
                np.bitwise_and(here, yes, out=children[:n])
                np.bitwise_xor(here, children[:n], out=children[n:])
            above = children
        return rows

    def _find(self, rows: np.ndarray, leaf: np.ndarray) -> None:
        """Writes the leaves that rows reach."""
        width = rows.shape[1]
        for trees, begin, of_leaf in self._exits:
            reached = rows[of_leaf]  # by number, tree, byte
            # Bit after bit of the leaves' numbers: the rows that reach one whose number has the bit.
            bits, bit = np.zeros((len(trees), width, 8), dtype=np.uint8), 0
            while len(reached) > 1:
                bits[:, :, bit] = np.bitwise_or.reduce(reached[1::2], axis=0)
                reached = reached[::2] | reached[1::2]
                bit += 1
            leaf[trees] = _transposed(bits) + begin

    def _walk(self, answers: np.ndarray) -> np.ndarray:
        """The leaves of large trees that rows reach: int64, shape (large trees, rows)."""
        rows = 8 * answers.shape[1]
        at, row = np.repeat(self._roots, rows), np.tile(np.arange(rows), len(self._roots))
        byte, bit = row >> 3, (row & 7).astype(np.uint8)
        out, walks = np.empty_like(at), np.arange(len(at))
        while len(at):
            yes = answers[self._predicates[at], byte] >> bit & 1
            at = self._children[at, yes]
            ends, goes_on = np.flatnonzero(at < 0), np.flatnonzero(at >= 0)
            out[walks[ends]] = ~at[ends]
            at, byte, bit, walks = at[goes_on], byte[goes_on], bit[goes_on], walks[goes_on]
        return out.reshape(len(self._roots), rows)


class _Numbers:
    """Predicates "value <= bound".

    Attributes:
        count: of predicates.
    """

    def __init__(
        self,
        feature: np.ndarray,
        threshold: np.ndarray,
        decision: np.ndarray,
        nodes: np.ndarray,
        predicates: np.ndarray,
    ) -> None:
        """Numbers the predicates of some nodes, those of equal features and rules for missing values together."""
        missing, left = decision[nodes] & (MISSING_NAN | MISSING_ZERO), decision[nodes] & DEFAULT_LEFT != 0
        rule = np.select([missing == MISSING_NAN, missing == MISSING_ZERO], [1 + ~left, _ZERO_RULE + ~left], 0)
        key, bound = feature[nodes].astype(np.int64) * _RULES + rule, threshold[nodes]
        order = np.lexsort((bound, key))
        key, bound = key[order], bound[order]
        new = np.ones(len(order), dtype=bool)
        new[1:] = (key[1:] != key[:-1]) | (bound[1:] != bound[:-1])
        predicates[nodes[order]] = np.cumsum(new) - 1

        self._bounds = bound[new][:, None]
        self.count = len(self._bounds)
        columns, begins = np.unique(key[new], return_index=True)
        self._of = list(zip(begins.tolist(), [*begins[1:].tolist(), self.count]))
        self._feature, rule = columns // _RULES, columns % _RULES
        self._replaced, self._zero = _REPLACED[rule][:, None], np.flatnonzero(rule >= _ZERO_RULE)

    def answer(self, x: np.ndarray, answers: np.ndarray) -> None:
        """Writes the answers of rows to the first rows of answers."""
        values = np.zeros((len(self._of), 8 * answers.shape[1]))
        values[:, : len(x)] = x.T[self._feature]
        missing = np.isnan(values)
        if len(self._zero):
            missing[self._zero] |= np.abs(values[self._zero]) <= _ZERO
        np.copyto(values, self._replaced, where=missing)
        for column, (begin, end) in zip(values, self._of):
            bits = np.packbits(column <= self._bounds[begin:end], bitorder="little")
            answers[begin:end] = bits.reshape(end - begin, -1)


class _Sets:
    """Predicates "value in set".

    Attributes:
        count: of predicates.
    """

    def __init__(
        self,
        trees: Trees,
        feature: np.ndarray,
        threshold: np.ndarray,
        nodes: np.ndarray,
        predicates: np.ndarray,
        first: int,
    ) -> None:
        """Numbers the predicates of some nodes from first on, by feature, of which eight share a table."""
        self._first, self.count, self._words = first, 0, trees.words
        self._tables: list[tuple[int, int, np.ndarray]] = []
        self._wide: list[tuple[int, int, np.ndarray, np.ndarray]] = []
        number = threshold[nodes].astype(np.int64)
        begin, size = trees.bounds[number], trees.bounds[number + 1] - trees.bounds[number]
        key = feature[nodes].astype(np.int64) * 2 + (size > _CATEGORIES // 32)
        order = np.argsort(key, kind="stable")
        for at in np.split(order, np.flatnonzero(np.diff(key[order])) + 1) if len(order) else ():
            column, wide = divmod(int(key[at[0]]), 2)
            predicates[nodes[at]] = first + self.count + np.arange(len(at))
            if wide:
                self._wide.append((first + self.count, column, begin[at], size[at]))
                self.count += len(at)
            else:
                self._tables.append((first + self.count, column, self._table(begin[at], size[at])))
                self.count += 8 * len(self._tables[-1][2])

    def _table(self, begin: np.ndarray, size: np.ndarray) -> np.ndarray:
        """Bit i of [n, c] says whether set 8n + i has category c; the last column is for all others."""
        groups, word = -(-len(begin) // 8), np.arange(_CATEGORIES // 32)
        there = word < size[:, None]
        words = np.zeros((groups * 8, len(word)), dtype="<u4")
        words[: len(begin)][there] = self._words[(begin[:, None] + word)[there]]
        bits = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little").reshape(groups, 8, _CATEGORIES)
        table = np.zeros((groups, _CATEGORIES + 1), dtype=np.uint8)
        table[:, :-1] = np.packbits(bits, axis=1, bitorder="little")[:, 0]
        return table

    def answer(self, x: np.ndarray, answers: np.ndarray) -> None:
        """Writes the answers of rows to their rows of answers."""
        width = answers.shape[1]
        for first, column, table in self._tables:
            category = self._categories(x, column, width, _CATEGORIES)
            sets = _transposed(table[:, category].reshape(len(table), width, 8)).reshape(len(table), width, 8)
            answers[first : first + 8 * len(table)] = sets.transpose(0, 2, 1).reshape(-1, width)
        for first, column, begin, size in self._wide:
            category = self._categories(x, column, width, 1 << 31)
            step = max(_WIDE // (8 * width), 1)
            for i in range(0, len(begin), step):
                there = category >> 5 < size[i : i + step, None]
                word = self._words[begin[i : i + step, None] + np.where(there, category >> 5, 0)]
                bits = there & (word >> (category & 31).astype(np.uint32) & 1 != 0)
                answers[first + i : first + i + len(bits)] = np.packbits(bits, axis=1, bitorder="little")

    @staticmethod
    def _categories(x: np.ndarray, column: int, width: int, other: int) -> np.ndarray:
        """The categories of rows: int64, shape (8 * width,). Other is for those from it on, and for what is none."""
        category = np.full(8 * width, other, dtype=np.int64)
        value = x[:, column]
        valid = (value > -1) & (value < other)  # as in LightGBM, -0.5 without its fraction is category 0
        category[: len(x)][valid] = value[valid].astype(np.int64)
        return category


def _transposed(bits: np.ndarray) -> np.ndarray:
    """Exchanges byte and bit in every eight bytes (Hacker's Delight, 7-3): uint8, from shape (n, bytes, 8) to
    (n, 8 * bytes)."""
    w = np.ascontiguousarray(bits).view("<u8")
    for shift, mask in ((7, 0x00AA00AA00AA00AA), (14, 0x0000CCCC0000CCCC), (28, 0x00000000F0F0F0F0)):
        t = (w >> np.uint64(shift) ^ w) & np.uint64(mask)
        w = w ^ t ^ (t << np.uint64(shift))
    return w.view(np.uint8).reshape(len(bits), -1)


def _begins(counts: np.ndarray) -> np.ndarray:
    return np.cumsum(counts) - counts


def processors() -> int:
    """Those on which this process may run."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
