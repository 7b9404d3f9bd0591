"""The notebooks of examples/notebooks run from the first cell to the last, and the Python of the first page and of this
package's. `make door-test`."""

import ast
import json
import os
import re
import sys
import tempfile
import unittest
import unittest.mock
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "examples" / "notebooks"


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


class Pages(unittest.TestCase):
    """What the pages begin with runs."""

    def setUp(self):
        rng = np.random.default_rng(7)
        self.frame = pd.DataFrame({"site": rng.integers(0, 40, 2000).astype(str), "price": rng.random(2000)})
        self.frame["is_click"] = (rng.random(2000) < 0.1 + 0.3 * self.frame["price"]).astype(int)
        self.frame["click"] = self.frame["is_click"]
        self.frame["impression_id"] = np.arange(2000)

    def run_first(self, page: str, **names: object) -> dict[str, object]:
        """Runs the first Python block of a page with a search of one trial, and returns its names."""
        text = (ROOT / page).read_text(encoding="utf-8")
        block = re.search("```python\n(.*?)```", text, re.DOTALL)
        assert block, f"{page} has no Python"
        code = re.sub(r"Classifier\([^)]*\)", "Classifier(trials=1)", block[1])
        names["__name__"] = "__main__"
        before = os.getcwd()
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch("webbrowser.open"):
            self.frame.drop(columns="click").to_parquet(Path(folder) / "clicks.parquet")
            os.chdir(folder)
            try:
                exec(compile(code, page, "exec"), names)
            finally:
                os.chdir(before)
        return names

    def test_start(self):
        names = self.run_first("docs/start.md")
        self.assertGreater(names["model"].metrics_["auc"], 0.5)

    def test_package(self):
        frame = self.frame.drop(columns=["is_click", "impression_id"])
        for page in ("python/README.md", "README.md"):
            names = self.run_first(page, frame=frame, tomorrow=frame.drop(columns="click").head(5))
            self.assertEqual(names["p"].shape, (5,), page)


if __name__ == "__main__":
    unittest.main()
