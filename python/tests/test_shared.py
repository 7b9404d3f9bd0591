"""Buckets in folders that machines share, as internal/blob/folder writes them, while and after objects are replaced."""

from __future__ import annotations

import os
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from coppice import _registry, _shared
from coppice.errors import CorruptError, NotFoundError

LONG = "x" * 300
PLACES = {
    "a/b.json": "a/b.json@",
    "A b/ü.txt": "%41%20b/%c3%bc.txt@",
    ".hidden/end.": "%2ehidden/end%2e@",
    f"{LONG}/y": f"{'x' * 200}+/{'x' * 100}/y@",
}


class SharedTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = folder.name
        self.tree = Path(folder.name, "bucket-1", "objects")
        for name, place in PLACES.items():
            self.write(place, 7, 0, name)

    def write(self, place: str, generation: int, base: int, text: str, mark: bool = True) -> Path:
        at = self.tree / place
        at.mkdir(parents=True, exist_ok=True)
        (at / f"{base}.w{generation}").write_text(text)
        if mark:
            (at / f"{generation}.{base}.{len(text.encode())}.0badf00d.w{generation}").touch()
        return at

    def test_names(self) -> None:
        s = _registry.open_store(self.top, None)
        self.assertIsInstance(s, _shared.Shared)
        self.assertEqual(sorted(s.list("")), sorted(PLACES))
        self.assertEqual(s.list("a"), ["a/b.json"])
        for name in PLACES:
            self.assertEqual(s.read(name, 1000).to_pybytes().decode(), name)
            self.assertTrue(s.has(name))
        self.assertFalse(s.has("a/c"))
        with self.assertRaises(NotFoundError):
            s.read("a/c", 9)
        with self.assertRaisesRegex(CorruptError, "8 bytes, more than 7"):
            s.read("a/b.json", 7)

    def test_replaced(self) -> None:
        s = _shared.Shared(self.top)
        at = self.write("a/b.json@", 9, 7, "new")  # both marks are there: the newer counts
        self.write("a/b.json@", 11, 9, "newer", mark=False)  # and this is not shown yet
        self.assertEqual(s.read("a/b.json", 9).to_pybytes(), b"new")

        def later(_: float) -> None:  # the mark of what goes, then that of what comes
            for old in at.iterdir():
                old.unlink()
            self.write("a/b.json@", 12, 11, "last")

        (at / "7.w9").unlink()
        with mock.patch("time.sleep", later):
            self.assertEqual(s.read("a/b.json", 9).to_pybytes(), b"last")

    def test_damaged(self) -> None:
        s = _shared.Shared(self.top)
        at = self.tree / "a" / "b.json@"
        (at / "0.w7").write_text("cut")
        with self.assertRaisesRegex(CorruptError, "3 bytes, and had 8"):
            s.read("a/b.json", 9)
        for mark in list(at.iterdir()):
            mark.unlink()
        with mock.patch("time.sleep"), self.assertRaisesRegex(CorruptError, "no mark names its contents"):
            s.read("a/b.json", 9)
        os.symlink(at, self.tree / "a" / "c@")
        self.assertNotIn("a/c", s.list(""))


if __name__ == "__main__":
    unittest.main()
