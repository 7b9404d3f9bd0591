"""Hashes against constants that internal/dataset/encode/hash.go gives."""

import math
import unittest

import fixture  # noqa: F401  (finds the package)
import numpy as np
import pyarrow as pa

from coppice import _hash

TEXTS = [
    ("", 0xCBF29CE484222325, 0xEF0E6848E906724F),
    ("a", 0xAF63DC4C8601EC8C, 0xE9A50C92EECFA105),
    ("1001", 0x0D826AF0F88E4BD7, 0x547913A48DFF7D71),
    ("true", 0x5B5C98EF514DBFA5, 0xE2BC756DB6519F12),
    ("Zürich", 0x0EF841596F67FDC0, 0xE7916F3618AF0193),
    (
        "a longer text with spaces, 64 bytes and more so that loops are seen to end",
        0xA154F0C2BDC1DE6F,
        0xF7ECF2DA84BA2836,
    ),
]
NUMBERS = [
    (0.0, 0xC9090FD19E209470),
    (-0.0, 0xC9090FD19E209470),
    (1.0, 0x7EC36F9EE9B8E32A),
    (-1.5, 0xE5BA0130E4942B25),
    (1e300, 0xDA74A4E9D23D3A88),
    (1001.0, 0x22D735F6E742DCA6),
    (1.7976931348623157e308, 0x8A6BAED0D4E0B92C),
    (math.nan, 0x20C5B486E45803DB),
]
RANGES = [(0, 0xED374FD0046B9201), (1, 0xAD667F6B17E8040C), (7, 0xA652564EC1342F65), (254, 0xDE46615720B511E7)]


class Hashes(unittest.TestCase):
    def test_mix(self):
        got = _hash.mix(np.array([0, 1, 2**64 - 1], dtype=np.uint64))
        self.assertEqual([0xE220A8397B1DCDAF, 0x910A2DEC89025CC1, 0xE4D971771B652C20], got.tolist())

    def test_texts(self):
        for strings in (
            pa.array([t for t, _, _ in TEXTS]),
            pa.array(["x"] + [t for t, _, _ in TEXTS], pa.large_string()).slice(1),
        ):
            self.assertEqual([f for _, f, _ in TEXTS], _hash.fnv(strings).tolist())
            self.assertEqual([h for _, _, h in TEXTS], _hash.texts(strings).tolist())

    def test_texts_of_very_different_lengths(self):
        texts = ["é" * 5000, "", "ab", "x" * 300, "ab", "y" * 299] + list("abcdef")

        def one(s):
            h = 14695981039346656037
            for b in s.encode():
                h = ((h ^ b) * 1099511628211) % 2**64
            return h

        self.assertEqual([one(t) for t in texts], _hash.fnv(pa.array(texts)).tolist())
        self.assertEqual([], _hash.fnv(pa.array([], pa.string())).tolist())

    def test_numbers_and_ranges(self):
        self.assertEqual([h for _, h in NUMBERS], _hash.numbers(np.array([x for x, _ in NUMBERS])).tolist())
        self.assertEqual([h for _, h in RANGES], _hash.ranges(np.array([i for i, _ in RANGES])).tolist())
        self.assertEqual(0x20C5B486E45803DB, int(_hash.missing()))

    def test_levels(self):
        one = _hash.join(_hash.begin(1), _hash.texts(pa.array(["1001"])))
        two = _hash.join(one, _hash.ranges(np.array([3])))
        self.assertEqual([0xCDE005ADBA778FE6, 0xD1274223E6B646F3], [int(one[0]), int(two[0])])


if __name__ == "__main__":
    unittest.main()
