"""Scores of trees: the same bits as of walking down each, and what LightGBM gives."""

import random
import unittest

import fixture
import lightgbm
import numpy as np

from coppice import _forest, _trees

ODD = [0.0, -0.0, 1e-35, -1e-35, 1.0000000000000002e-35, 5e-324, -5e-324, 1e308, -1e308, 1.0, -1.0]
ODD_VALUES = [*ODD, np.nan, np.inf, -np.inf, 0.99, -0.5, 31.0, 32.0, 255.0, 256.0, 63.5, 2.0**31 - 0.5, 2.0**31, 1e300]


def a_tree(rng, features, leaves, categorical=0.0, chain=False):
    """Lines of a random tree. Nodes are numbered in the order of splitting."""
    left, right, parent = [], [], [None]
    for node in range(leaves - 1):
        leaf = len(parent) - 1 if chain else rng.randrange(len(parent))
        if parent[leaf] is not None:
            side, at = parent[leaf]
            side[at] = node
        children = [~leaf, ~len(parent)]
        sides = [left, right] if rng.random() < 0.5 else [right, left]
        for side, child in zip(sides, children):
            side.append(child)
        parent[leaf] = (sides[0], node)
        parent.append((sides[1], node))

    feature = [rng.randrange(features) for _ in left]
    threshold, decision, bounds, words = [], [], [0], []
    for f in feature:
        if f < categorical * features:  # a feature is of one kind
            threshold.append(len(bounds) - 1)
            decision.append(1)
            words += [rng.getrandbits(32) & rng.getrandbits(32) for _ in range(rng.choice((1, 2, 8, 9, 40)))]
            bounds.append(len(words))
        else:
            threshold.append(rng.choice((rng.choice(ODD), rng.gauss(0, 1), rng.randrange(99) / 3)))
            decision.append(rng.choice((0, 2, 4, 6, 8, 10)))
    lines = {
        "num_leaves": [leaves],
        "num_cat": [len(bounds) - 1],
        "leaf_value": [rng.choice((rng.gauss(0, 1), rng.gauss(0, 1), 1e15, -1e-300)) for _ in range(leaves)],
        "split_feature": feature,
        "threshold": threshold,
        "decision_type": decision,
        "left_child": left,
        "right_child": right,
    }
    if len(bounds) > 1:
        lines |= {"cat_boundaries": bounds, "cat_threshold": words}
    return lines


def a_model(features, trees):
    """model.txt of trees."""
    texts = []
    for i, lines in enumerate(trees):
        values = "\n".join(f"{key}={' '.join(map(repr, value))}" for key, value in lines.items())
        texts.append(f"Tree={i}\n{values}\n\n\n")
    head = (
        f"tree\nversion=v4\nnum_class=1\nnum_tree_per_iteration=1\nlabel_index=0\nmax_feature_idx={features - 1}\n"
        f"objective=regression\nfeature_names={' '.join(f'f{i}' for i in range(features))}\n"
        f"feature_infos={' '.join(['none'] * features)}\ntree_sizes={' '.join(str(len(t)) for t in texts)}\n\n"
    )
    return (head + "".join(texts) + "end of trees\n").encode()


def walk(lines, x):
    """The value of a tree for a row, by the rules of internal/gbt/tree.go."""
    node = 0 if lines["split_feature"] else ~0
    while node >= 0:
        v, threshold, decision = x[lines["split_feature"][node]], lines["threshold"][node], lines["decision_type"][node]
        missing = v != v
        if decision & 1:
            begin, end = lines["cat_boundaries"][threshold : threshold + 2]
            words = lines["cat_threshold"][begin:end]
            c = int(v) if -1 < v < 2**31 else -1
            left = 0 <= c < 32 * len(words) and words[c // 32] >> c % 32 & 1
        elif decision & 8 and missing or decision & 4 and (missing or -1e-35 <= v <= 1e-35):
            left = decision & 2
        else:
            left = (0.0 if missing else v) <= threshold
        node = lines["left_child" if left else "right_child"][node]
    return lines["leaf_value"][~node]


def rows(rng, n, features):
    """Values near thresholds, categories, and odd ones."""
    kinds = (lambda: rng.gauss(0, 1), lambda: rng.randrange(99) / 3, lambda: rng.randrange(1300) * 1.0)
    values = [rng.choice((rng.choice(kinds)(), rng.choice(ODD_VALUES))) for _ in range(n * features)]
    return np.array(values).reshape(n, features)


class Scores(unittest.TestCase):
    def check(self, trees, x, features, threads=1):
        forest = _forest.Forest(_trees.read(a_model(features, trees)))
        want = np.zeros(len(x))
        for lines in trees:
            want += [walk(lines, row) for row in x]
        np.testing.assert_array_equal(want, forest(x, threads))
        return forest

    def test_the_bits_of_walking(self):
        seed = random.randrange(1 << 32)
        rng = random.Random(seed)
        for name, features, trees in (
            ("one leaf", 1, [(1,)] * 3),
            ("one split", 1, [(2, c) for c in (0, 1) * 20]),
            ("powers of two", 3, [(n, 0.4) for n in (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 63, 64, 65)]),
            ("numbers", 5, [(31,)] * 30),
            ("sets", 4, [(40, 1)] * 30),
            ("mixed", 12, [(63, 0.4)] * 20),
            ("chains", 3, [(600, 0.3, True), (200, 0.3, True), (9, 0.3, True)]),
            ("large and small", 9, [(n, 0.2) for n in (5000, 20, 257, 1, 256, 255)]),
        ):
            with self.subTest(name, seed=seed):
                trees = [a_tree(rng, features, *tree) for tree in trees]
                for n in (0, 1, 7, 8, 9, 100):
                    self.check(trees, rows(rng, n, features), features)

    def test_several_blocks_and_batches(self):
        seed = random.randrange(1 << 32)
        rng = random.Random(seed)
        trees = [a_tree(rng, 5, 250, 0.2) for _ in range(70)]
        with self.subTest(seed=seed):
            x = rows(rng, 300, 5)
            forest = self.check(trees, x, 5, 2)
            self.assertGreater(len(forest._blocks), 1)
            np.testing.assert_array_equal(np.tile(forest(x, 1), 20), forest(np.tile(x, (20, 1)), 2))
            self.assertGreater(6000, 2 * _forest._ROWS)

    def test_lightgbm_agrees(self):
        """Except on what is 0 to it and not to us: numbers nearer to 0 than 1e-35."""
        text = fixture.model_txt(fixture.encoding())
        rng = np.random.default_rng(3)
        x = rng.normal(size=(3000, len(fixture.encoding()["features"]))) * 10
        x[:, 2:5] = rng.integers(-2, 18, size=(3000, 3)) / 2  # -0.5 is category 0
        x[rng.random(x.shape) < 0.1] = np.nan
        want = lightgbm.Booster(model_str=text.decode()).predict(x, raw_score=True)
        self.assertGreater(len(np.unique(want)), 100)
        np.testing.assert_allclose(_forest.Forest(_trees.read(text))(x), want, rtol=0, atol=1e-12)


if __name__ == "__main__":
    unittest.main()
