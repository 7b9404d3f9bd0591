"""The notebooks of examples/notebooks run from the first cell to the last. `make door-test`."""

import ast
import json
import os
import sys
import unittest
import warnings
from pathlib import Path

FOLDER = Path(__file__).parents[3] / "examples" / "notebooks"


def run(name: str) -> list[object]:
    """Runs the code cells of a notebook in one namespace, and returns what each would show."""
    book = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    assert book["nbformat"] == 4, f"{name}: got nbformat {book['nbformat']}, want 4"
    names: dict[str, object] = {"__name__": "__main__"}
    shown = []
    for number, cell in enumerate(book["cells"]):
        if cell["cell_type"] != "code":
            continue
        assert not cell["outputs"] and cell["execution_count"] is None, f"{name}, cell {number}: clear its outputs"
        tree = ast.parse("".join(cell["source"]), f"{name}, cell {number}")
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, f"{name}, cell {number}", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), f"{name}, cell {number}", "eval"), names)
            shown.append(getattr(value, "_repr_html_", lambda: repr(value))())
    return shown


class Notebooks(unittest.TestCase):
    """Each shows what it says."""

    def setUp(self):
        # the command coppice is this environment's
        self.path = os.environ["PATH"]
        os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + self.path
        self.addCleanup(os.environ.__setitem__, "PATH", self.path)

    def test_all_are_here(self):
        self.assertEqual(sorted(p.name for p in FOLDER.glob("*.ipynb")), ["first-model.ipynb", "same-every-night.ipynb"])

    def test_first_model(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a first notebook shows no warnings
            shown = run("first-model.ipynb")
        self.assertIn("on test", shown[1])
        self.assertIn("site", shown[3])

    def test_same_every_night(self):
        shown = run("same-every-night.ipynb")
        scores = [float(x) for x in shown[-1].removeprefix("array([").removesuffix("])").split(",")]
        self.assertTrue(len(scores) == 2 and min(scores) > 0.9, f"got the scores {scores}, want two above .9")


if __name__ == "__main__":
    unittest.main()
