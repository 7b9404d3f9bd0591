"""Trees scored by a program through pipes: its scores or, whatever it does wrong, numpy's."""

import pathlib
import sys
import unittest.mock

import fixture
import numpy as np

import coppice
from coppice import _piped, _program

# Programs that read a model and rows of two numbers, and answer with the sum of each.
READ = """
import array, struct, sys
model = sys.stdin.buffer.read(struct.unpack("<Q", sys.stdin.buffer.read(8))[0])
x = array.array("d", sys.stdin.buffer.read())
out = array.array("d", [a + b for a, b in zip(x[::2], x[1::2])]).tobytes()
assert model == b"trees"
"""
WRITE = "sys.stdout.buffer.write(out)\n"
ROWS = np.random.default_rng(1).normal(size=(5000, 2))


def summed(rows):
    """What the programs should say."""
    return rows.sum(axis=1)


class Piped(unittest.TestCase):
    def score(self, program, batches=(ROWS[:4000], ROWS[4000:])):
        out = np.empty(len(ROWS))
        _piped.score([sys.executable, "-c", program], b"trees", batches, out, summed)
        return out

    def test_scores(self):
        np.testing.assert_array_equal(self.score(READ + WRITE), summed(ROWS))

    def test_failures(self):
        for what, program in {
            "ends with a status": READ + WRITE + "sys.exit(3)",
            "reads nothing": "",
            "reads no rows": "import sys; sys.stdin.buffer.read(13)",
            "writes too little": READ + "sys.stdout.buffer.write(out[:-1])",
            "writes too much": READ + WRITE + "sys.stdout.buffer.write(b'x')",
            "writes much too much, and reads late": "import sys; sys.stdout.buffer.write(bytes(1 << 20))\n" + READ,
            "has another first score": READ + "out = bytes([out[0] ^ 1]) + out[1:]\n" + WRITE,
        }.items():
            with self.subTest(what), self.assertRaises(_piped.Failed):
                self.score(program)
        for status, program in {
            "(Broken pipe|status 1 and 0 of 40000 bytes)": "import sys; sys.exit('x' * (1 << 20) + '\\nno memory')",
            "status 3 and 40000 of 40000 bytes": READ + WRITE + "print('no memory', file=sys.stderr); sys.exit(3)",
        }.items():
            with self.assertRaisesRegex(_piped.Failed, status + ": no memory$"):
                self.score(program)
        with self.assertRaisesRegex(_piped.Failed, "not there"):
            _piped.score(["./not there"], b"", [ROWS], np.empty(len(ROWS)), summed)

    def test_rows_that_cannot_be_encoded(self):
        def batches():
            yield ROWS[:10]
            raise coppice.ValueParseError("row 11")

        with self.assertRaisesRegex(coppice.ValueParseError, "row 11"):
            self.score(READ + WRITE, batches())


class Fallback(fixture.Case):
    def test_numpy_scores_if_the_program_cannot(self):
        rows = np.random.default_rng(2).normal(size=(50, len(self.model.features)))
        want = self.model.score(rows)
        with unittest.mock.patch.object(_piped, "WORTH", 1):
            with unittest.mock.patch.object(_program, "own", lambda: pathlib.Path("not there")):
                with self.assertWarnsRegex(RuntimeWarning, "not there.*numpy scores instead"):
                    got = self.model.score(rows)
        self.assertEqual(want.tobytes(), got.tobytes())


if __name__ == "__main__":
    unittest.main()
