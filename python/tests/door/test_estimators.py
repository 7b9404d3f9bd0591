"""The estimators: scikit-learn's contract, tables that are not nice, and the same bytes as the command. `make door-test`
runs this in an environment that has the wheel, scikit-learn, pandas and polars."""

import datetime
import decimal
import doctest
import os
import pickle
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

import coppice
from coppice import _estimators, _piped, _program

N = 400
RNG = np.random.default_rng(5)
Y = np.arange(N) % 2
X = pd.DataFrame({"a": RNG.normal(size=N) + Y, "site": [f"s{i % 37}" for i in range(N)]})

# Checks of scikit-learn that do not hold, and why. python/README.md has the same list.
_WEIGHTS = "a row that counts twice is one row, in one part of the split; two rows may be in two"
NOT_HELD: dict[str, dict[str, str]] = {
    "Classifier": {"check_sample_weight_equivalence_on_dense_data": _WEIGHTS},
    "Regressor": {"check_sample_weight_equivalence_on_dense_data": _WEIGHTS},
}


def quick(kind=coppice.Classifier, **more):
    """An estimator that trains one configuration."""
    return kind(**{"trials": 1, "minutes": 1, **more})


# What a strict user of the package writes. Each name has its type.
SURFACE = """
import numpy as np
import coppice

model: coppice.Classifier = coppice.Classifier(trials=1, time="ts", drop=["id"]).fit({"a": [1, 2]}, np.array([0, 1]))
p: np.ndarray = model.predict_proba({"a": [1]})
metrics: dict[str, float] = model.metrics_
number: coppice.Model = coppice.load("folder")
both: np.ndarray = number.predict_proba({"a": [1]})
order: np.ndarray = coppice.Ranker(trials=1).fit({"a": [1.0]}, [1], group=[1]).predict({"a": [1]})
value: np.ndarray = coppice.Regressor(minutes=1).fit({"a": [1.0]}, "a").predict({"a": [1]})
page: str = model.report(show=False)
specs: str = model.specs_["sweep.yaml"]
coppice.Classifier(n_estimators=200)  # type: ignore[call-arg]
"""


# What takes long, and goes through what other tests do.
FULL = unittest.skipUnless(os.environ.get("COPPICE_FULL"), "make door-test FULL=1")

class Ranks(unittest.TestCase):
    """An order within queries: the same model from sizes, values and a column, better than chance, and the command's."""

    def setUp(self):
        rng = np.random.default_rng(8)
        n = 1500
        query = np.repeat(np.arange(n // 10), 10)
        a = rng.normal(size=n)
        grade = np.clip(np.round(a + rng.normal(size=n) + rng.normal(size=n // 10)[query]), 0, 4).astype(int)
        self.frame = pd.DataFrame({"query": [f"q{q}" for q in query], "a": a, "b": rng.normal(size=n), "grade": grade})

    def test_fit(self):
        model = quick(coppice.Ranker).fit(self.frame, "grade", group="query")
        scores = model.predict(self.frame)
        self.assertEqual(scores.shape, (len(self.frame),))
        self.assertIn("ndcg@10", model.metrics_)
        self.assertGreater(model.score(self.frame, "grade", group="query"), 0.8)
        self.assertEqual(list(model.feature_names_in_), ["a", "b"])

        x = self.frame[["a", "b"]]
        sized = quick(coppice.Ranker).fit(x, self.frame.grade, group=[10] * 150)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(sized)).predict(x), sized.predict(x))
        valued = quick(coppice.Ranker).fit(x, self.frame.grade, group=np.repeat(np.arange(150), 10))
        np.testing.assert_array_equal(valued.predict(x), sized.predict(x))
        self.assertEqual(clone(model).get_params(), model.get_params())

    def test_refused(self):
        x, y = self.frame[["a", "b"]], self.frame.grade
        for wrong, group, says in (
            (y, None, "group"), (y, [10] * 149, "add up to 1490"), (y, "query", "no such column"),
            (y + 0.5, [10] * 150, "whole numbers from 0 to 30"), (y + 30, [10] * 150, "whole numbers from 0 to 30"),
        ):  # fmt: skip
            with self.assertRaisesRegex(ValueError, says):
                quick(coppice.Ranker).fit(x, wrong, group=group)
        with self.assertRaisesRegex(coppice.Error, "learns an order, by objective lambdarank or rank_xendcg"):
            quick(coppice.Ranker, objective="poisson").fit(x, y, group=[10] * 150)


class Contract(unittest.TestCase):
    """scikit-learn's own checks, and its tools around an estimator."""

    def checks(self, estimator):
        known, seen = NOT_HELD[type(estimator).__name__], {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for r in check_estimator(estimator, on_fail=None):
                if r["status"] == "failed":
                    seen[r["check_name"]] = str(r["exception"])[:300]
        self.assertEqual(set(seen), set(known), seen)

    def test_unknown_parameters(self):
        """Whichever name was given, what the estimator takes is listed, and where LightGBM's are set."""
        for kind in (coppice.Classifier, coppice.Regressor, coppice.Ranker):
            with self.assertRaisesRegex(TypeError, f"^{kind.__name__} has no parameter 'n_estimators'; it has .*trials, "
                                        ".*LightGBM's parameters go into params=.'n_estimators': ...."):
                kind(n_estimators=200)
            with self.assertRaisesRegex(TypeError, "'depth_max'; it has .*random_state, verbose. LightGBM's parameters"):
                kind(depth_max=3)

    def test_classifier(self):
        self.checks(quick())

    @FULL
    def test_regressor(self):
        self.checks(quick(coppice.Regressor))

    def test_tools(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scores = cross_val_score(quick(), X, Y, cv=2, n_jobs=2)
            self.assertGreater(scores.mean(), 0.6)
            search = GridSearchCV(quick(), {"metric": ["log_loss", "auc"]}, cv=2).fit(X, Y)
            self.assertIn(search.best_params_["metric"], ("log_loss", "auc"))
            pipe = make_pipeline(FunctionTransformer(lambda f: f.assign(b=f.a * 2)), quick()).fit(X, Y)
            self.assertEqual(pipe.predict(X).shape, (N,))

    def test_pickle(self):
        model = quick().fit(X, Y)
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(model.predict_proba(X), again.predict_proba(X))
        self.assertFalse(clone(model).__sklearn_is_fitted__())
        with tempfile.TemporaryDirectory() as folder:
            model.save(f"{folder}/m")
            np.testing.assert_array_equal(coppice.load(f"{folder}/m").predict_proba(X), model.predict_proba(X))
            page = model.report(f"{folder}/page.html", show=False)
            self.assertIn(model.sweep_id_, Path(page).read_text("utf-8"))

    def test_explain(self):
        for kind, y in ((coppice.Classifier, Y), (coppice.Regressor, X["a"].to_numpy() * 3)):
            model = quick(kind).fit(X, y)
            for rows in (X[:50], pl.from_pandas(X[:50])):
                why = model.explain(rows)
                self.assertEqual(list(why.columns), [*model.model_.features, "expected_score"])
                np.testing.assert_allclose(why.sum(axis=1), model.model_.predict(rows, raw=True), atol=1e-9)
                self.assertEqual(why["expected_score"].nunique(), 1)
                self.assertGreater(why["a"].abs().mean(), 0)
        with self.assertRaisesRegex(coppice.Error, "regression has no classes; predict"):
            model.model_.predict_proba(X)
        with self.assertRaises(_estimators.NotFittedError):
            quick().explain(X)
        with self.assertRaisesRegex(ValueError, "yet now missing:\n- site"):
            model.explain(X[["a"]])

    def test_leaderboard(self):
        board = coppice.Classifier(trials=2, minutes=1).fit(X, Y).leaderboard()
        self.assertEqual(list(board.columns[:5]), ["trial", "state", "score", "trees", "seconds"])
        self.assertIn("feature_fraction", board)
        self.assertTrue(board["score"][:2].is_monotonic_increasing, board)  # the third is the final training
        self.assertLess(board.shape[1], 15)

    def test_promote(self):
        with tempfile.TemporaryDirectory() as folder:
            model = quick(name="visits", folder=f"{folder}/cloud").fit(X, Y)
            production = {"COPPICE_PROJECT": "production", "COPPICE_REGISTRY_BUCKET": "production"}
            with unittest.mock.patch.dict(os.environ, production):  # is not where folder= is
                model.promote("it is the first")
            history = _program.tell(["registry", "show", "visits", "--history", "--json"], f"{folder}/cloud")
            self.assertIn("promoted", history)
            with self.assertRaisesRegex(coppice.Error, "temporary"):
                quick().fit(X, Y).promote("no registry is left")

    def test_types(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(f"{folder}/use.py").write_text(SURFACE, encoding="utf-8")
            done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "use.py"], cwd=folder, capture_output=True,
                                  text=True)
            self.assertEqual(done.returncode, 0, done.stdout)

    def test_examples(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.assertEqual(doctest.testmod(_estimators).failed, 0)


class SameBytes(unittest.TestCase):
    """One engine and one way: the estimator's model is the command's, and that of the specs that were saved."""

    def test_command(self):
        model = quick(trials=3, random_state=4).set_params(name="visits").fit(X, Y)
        again = quick(trials=3, random_state=4).set_params(name="visits").fit(X, Y)
        self.assertEqual(model._files["model.txt"], again._files["model.txt"])
        with tempfile.TemporaryDirectory() as folder:
            X.assign(y=Y).to_parquet(f"{folder}/visits.parquet")
            args = ["fit", "visits.parquet", "--label", "y", "--trials", "3", "--minutes", "1", "--seed", "4"]
            subprocess.run([_program.path(), *args, "--out", "version"], check=True, cwd=folder, capture_output=True)
            self.assertEqual(Path(f"{folder}/version/model.txt").read_bytes(), model._files["model.txt"])

    def test_specs(self):
        """They run as they are, and train the same model: with a label of texts, and parameters of every trial."""
        x, y = X.assign(a=X.a + Y, b=RNG.normal(size=N) + 2 * Y), pd.Series(np.array(["no", "yes"])[Y], name="bought")
        params = {"n_estimators": 40, "learning_rate": 1e-1, "min_data_in_leaf": np.int64(5)}
        model = quick(trials=2, params=params).fit(x, y)
        self.assertEqual({k: model.best_params_[k] for k in ("num_iterations", "learning_rate", "min_data_in_leaf")},
                         {"num_iterations": 40, "learning_rate": 0.1, "min_data_in_leaf": 5})
        self.assertEqual(model.feature_importances_.shape, (3,))
        self.assertAlmostEqual(model.feature_importances_.sum(), 1)
        self.assertGreater(model.feature_importances_[2], model.feature_importances_[1])
        with tempfile.TemporaryDirectory() as folder:
            x.assign(bought=y).to_parquet(f"{folder}/table.parquet")
            for name, text in model.specs_.items():
                Path(f"{folder}/{name}").write_text(text, encoding="utf-8")
            quick(folder=f"{folder}/cloud", name="other").fit(X, Y)  # makes the cloud
            for command in (["stage", f"{folder}/dataset.yaml"], ["sweep", f"{folder}/sweep.yaml"],
                            ["predict", "--model", "model", "--in", f"{folder}/table.parquet", "--out", f"{folder}/p.parquet"]):
                _program.tell(command, f"{folder}/cloud")
            got = pd.read_parquet(f"{folder}/p.parquet").iloc[:, -1]
            np.testing.assert_allclose(got, model.predict_proba(x)[:, 1], rtol=1e-12)
        for wrong, says in (({"n_jobs": 2}, "params:.*n_jobs: it is not a training parameter here"),
                            ({"bagging_fraction": 0.5}, "has no effect without bagging_freq")):
            with self.assertRaisesRegex(coppice.InputError, says):
                quick(params=wrong).fit(X, Y)

    def test_said(self):
        """What the command is told of columns the estimator is told, too."""
        table = X.assign(user_id=np.arange(N) % 50, d=[f"{i % 12 + 1:02}/01/2004" for i in range(N)], p=["1,5", "?!"] * (N // 2))
        model = quick(split="random", date_format="dmy", format={"p": "decimal_comma"}, missing=["?!"]).fit(table, Y)
        for text in ('"?!"]', '"d":"dmy"', '"p":"decimal_comma"', "by: random"):
            self.assertIn(text, model.specs_["dataset.yaml"])
        self.assertEqual(model.types_["d"][0], "time")
        self.assertIn("user_id", model.model_.inputs)  # no key, but a feature
        with self.assertRaisesRegex(coppice.InputError, "user_id: the column is then no feature"):
            quick(key="user_id", categorical=["user_id"]).fit(table, Y)
        with self.assertRaisesRegex(coppice.InputError, "which no value tells"):
            quick().fit(table, Y)

    def test_copies(self):
        """A table that was copied makes no champion, and that is said."""
        with self.assertWarnsRegex(_estimators.StagingWarning, "not the champion.*are copies of rows in train"):
            quick().fit(pd.concat([X] * 4), np.tile(RNG.integers(0, 2, N), 4))

    def test_advice(self):
        """What holds a model back is said with what an estimator has: no key of a spec, and no flag."""
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            quick().fit(X.assign(later=Y + np.random.default_rng(1).normal(0, 0.01, N)), Y)
        text = " ".join(str(w.message) for w in said)
        self.assertRegex(text, r"not the champion: .*later.*Leave it out with drop=, or promote\(\) the version")
        self.assertNotRegex(text, r"max_share|--[a-z]")

    def test_missing_labels(self):
        """Rows without a label are left out, as on the command line, and that is said."""
        for kind, y in ((coppice.Classifier, np.where(np.arange(N) == 7, np.nan, Y)), (coppice.Regressor, X.a.where(X.a < 2)),
                        (coppice.Classifier, [None if i == 7 else "ab"[i % 2] for i in range(N)])):
            with self.assertWarnsRegex(_estimators.StagingWarning, "rows? without a label"):
                quick(kind).fit(X, y)

    def test_trees(self):
        """Rows that the program scores have the bits of numpy's, also of several classes and by several threads."""
        few = [quick().fit(X, Y).model_, quick().fit(X, np.arange(N) % 3).model_]
        with unittest.mock.patch.object(_piped, "WORTH", 1), warnings.catch_warnings():
            warnings.simplefilter("error")
            for model in few:
                rows = np.tile(model.encode(X), (50, 1))
                with unittest.mock.patch.object(_program, "own", lambda: None):
                    want = model.score(rows)
                with unittest.mock.patch.object(_piped, "score", wraps=_piped.score) as piped:
                    for threads in (1, 3):
                        self.assertEqual(want.tobytes(), model.score(rows, threads=threads).tobytes())
                    self.assertEqual(piped.call_count, 2)

    def test_drop(self):
        table = frame(**{"a,b": X.a, "b": X.a, 'q"c': X.a})
        model = quick(drop=["a,b", 'q"c', "site"]).fit(table, Y)
        self.assertEqual(sorted(model.model_.inputs), ["a", "b"])

    def test_name(self):
        with self.assertRaisesRegex(ValueError, "letter"):
            quick(name="../elsewhere").fit(X, Y)

    def test_classes(self):
        names = np.array(["red wine", "NA", "b"])
        y = names[np.digitize(X.a, X.a.quantile([0.3, 0.6]))]
        for labels in (y, np.where(y == "b", -3, np.where(y == "NA", 7, 0))):
            model = quick().fit(X, labels)
            self.assertEqual(model.classes_.tolist(), sorted(set(labels.tolist())))
            p = model.predict_proba(X)
            self.assertEqual(p.shape, (N, 3))
            np.testing.assert_allclose(p.sum(axis=1), 1)
            self.assertGreater((model.predict(X) == labels).mean(), 0.6)
            self.assertEqual((p.argmax(axis=1) == np.searchsorted(model.classes_, model.predict(X))).mean(), 1)
            again = pickle.loads(pickle.dumps(model))
            np.testing.assert_array_equal(again.predict_proba(X), p)
            raw, explained = model.model_.predict(X[:5], raw=True), model.explain(X[:5])
            np.testing.assert_array_equal(np.sort(model.model_.predict_proba(X)), np.sort(p))
            for k, c in enumerate(model.model_.classes):
                own = explained[[n for n in explained if n.startswith(f"{c}:")]]
                np.testing.assert_allclose(own.sum(axis=1), raw[:, k])

    def test_plain_line(self):
        """Where there is neither a terminal nor a notebook, a script's output has the result in a line."""
        code = "import coppice, numpy as np; y = np.arange(400) % 2; coppice.Classifier(trials=1).fit(y[:, None] + 0.5, y)"
        said = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True).stderr
        self.assertRegex(said, r"\AClassifier: log_loss [0-9.e-]+ on test, 1 of 1 trials, version 1\n\Z")

    def test_failed_fit(self):
        model = quick().fit(X, Y)
        with self.assertRaises(ValueError):
            model.fit(X, np.ones(N))
        self.assertFalse(model.__sklearn_is_fitted__())
        with self.assertRaisesRegex(ValueError, r"such as frame\['w'\]"):
            model.fit(X, Y, sample_weight="w")

    def test_together(self):
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scores = cross_val_score(quick(folder=f"{folder}/cloud"), X, Y, cv=2, n_jobs=2)
            self.assertGreater(scores.mean(), 0.6)

    def test_nothing_left(self):
        with tempfile.TemporaryDirectory() as temporary:
            code = "import coppice, numpy as np; y = np.arange(60) % 2; coppice.Classifier(trials=1).fit(y[:, None] + 0.5, y)"
            env = os.environ | {"TMPDIR": temporary}
            subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, env=env)
            self.assertEqual(os.listdir(temporary), [])


def frame(**columns):
    """X with other columns."""
    return X.assign(**columns)


DAYS = pd.date_range("2026-01-01", periods=N, freq="h")
STRUCT = pa.array([{"k": i} for i in range(N)])

# Tables that are not nice: what is fitted, and what comes of it: None for a model, or an exception and what it says.
TABLES = {
    "no rows": ((X[:0], Y[:0]), (ValueError, "0 sample")),
    "no columns": ((X[[]], Y), (ValueError, "0 feature")),
    "one row": ((X[:1], Y[:1]), (ValueError, "n_samples=1")),
    "nine rows": ((X[:9], Y[:9]), (ValueError, "at least 10 rows")),
    "ten rows": ((X[:10], Y[:10]), None),
    "one row of a class": ((X[:30], (np.arange(30) == 4) * 1), (ValueError, "the rarer class has 1 of 30 rows")),
    "three rows of a class": ((X[:30], (np.arange(30) < 3) * 1), (ValueError, "at least 4 are needed")),
    "four rows of a class": ((X[:30], (np.arange(30) < 4) * 1), None),
    "one class": ((X, np.ones(N)), (ValueError, "one class")),
    "three classes": ((X, np.arange(N) % 3), None),
    "classes of text": ((X, np.array(["NA", "b c", "1"])[np.arange(N) % 3]), None),
    "classes that no float tells apart": ((X, np.array([1, 2**53, 2**53 + 1])[np.arange(N) % 3]), None),
    "too many classes": ((X, np.arange(N) % 101), (ValueError, "101 classes")),
    "continuous label": ((X, np.linspace(0, 1, N)), (ValueError, "continuous")),
    "no label": ((X, np.full(N, np.nan)), (ValueError, "every label is missing")),
    "infinite label": ((X, np.where(np.arange(N) == 7, np.inf, Y)), (ValueError, "row 7")),
    "label of texts": ((X, np.array(["no", "yes"])[Y]), None),
    "label of a category": ((X, pd.Series(np.array(["no", "yes"])[Y], dtype="category")), None),
    "label of bools": ((X, Y == 1), None),
    "label of strings": ((X, pd.Series(np.array(["no", "yes"])[Y], dtype="string")), None),
    "label by name": ((X.assign(y=Y), "y"), None),
    "label by a wrong name": ((X, "y"), (coppice.InputError, "column 'y'")),
    "label too short": ((X, Y[:-1]), (ValueError, "inconsistent")),
    "constant columns": ((frame(k=1, t="x"), Y), None),
    "all missing": ((frame(k=np.nan, n=None), Y), None),
    "all missing but one": ((frame(k=[1.0] + [np.nan] * (N - 1)), Y), None),
    "only constants": ((pd.DataFrame({"k": np.ones(N)}), Y), None),
    "duplicate names": ((pd.concat([X, X], axis=1), Y), (coppice.InputError, "column 'a'")),
    "names of numbers": ((pd.DataFrame({0: X.a, 1: X.site}), Y), None),
    "names in two levels": ((pd.DataFrame({("u", "a"): X.a, ("u", "b"): X.site}), Y), None),
    "odd names": ((frame(**{"a: [b]": X.a, "é": X.site, "a,b": X.a, "a\"b": X.a, "#": X.a}), Y), None),
    "a name with a line break": ((frame(**{"a\nb": X.a}), Y), (coppice.InputError, "control character")),
    "a blank name": ((frame(**{" ": X.a}), Y), None),
    "rare positives": ((pd.concat([X] * 4), (np.arange(4 * N) % 300 == 7) * 1), None),
    "the label's name": ((X.assign(y=X.a), pd.Series(Y, name="y")), None),
    "mixed types": ((frame(m=[1 if i % 2 else "a" for i in range(N)]), Y), None),
    "objects": ((frame(m=[object() for _ in range(N)]), Y), None),
    "decimals": ((frame(m=[decimal.Decimal(i) / 7 for i in range(N)]), Y), None),
    "lists": ((frame(m=[[1, 2]] * N), Y), None),
    "dicts": ((frame(m=[{"k": 1}] * N), Y), None),
    "nested Arrow": ((pa.table({"a": X.a.to_numpy(), "s": STRUCT}), Y), None),
    "only nested": ((pa.table({"s": STRUCT}), Y), (coppice.Error, "no column of the table is left to be a feature")),
    "bytes": ((frame(m=[b"a\xff" if i % 3 else b"b" for i in range(N)]), Y),
              (coppice.InputError, "column 'm': it holds bytes that are no text in UTF-8")),
    "dates": ((frame(d=[datetime.date(2026, 1, 1) + datetime.timedelta(i) for i in range(N)]), Y), None),
    "dates before 1970": ((frame(d=pd.date_range("1900-01-01", periods=N)), Y), None),
    "times with a zone": ((frame(d=DAYS.tz_localize("Europe/Berlin", ambiguous=True)), Y), None),
    "mixed zones": ((frame(d=[d.tz_localize("UTC" if i % 2 else "Asia/Tokyo") for i, d in enumerate(DAYS)]), Y), None),
    "missing times": ((frame(d=[None if i % 5 == 0 else d for i, d in enumerate(DAYS)]), Y), None),
    "durations": ((frame(d=DAYS - DAYS[0]), Y), None),
    "periods": ((frame(d=DAYS.to_period("D")), Y), None),
    "intervals": ((frame(d=pd.cut(X.a, 5)), Y), None),
    "complex": ((frame(c=np.ones(N) * 1j), Y), None),
    "big integers": ((frame(i=[2**60 + i for i in range(N)]), Y), None),
    "huge integers": ((frame(i=[2**80 + i for i in range(N)]), Y), None),
    "infinity": ((frame(i=np.where(np.arange(N) == 9, np.inf, 1.0)), Y), (coppice.InputError, "row 9")),
    "huge floats": ((frame(i=np.full(N, 1e308)), Y), None),
    "float16": ((frame(i=X.a.astype("float16")), Y), None),
    "bools with missing": ((frame(b=pd.array([None if i % 3 == 0 else i % 2 == 0 for i in range(N)], "boolean")), Y), None),
    "pandas' missing": ((frame(i=pd.array([None if i % 3 == 0 else i for i in range(N)], "Int64")), Y), None),
    "categories of numbers": ((frame(c=pd.Series(np.arange(N) % 5, dtype="category")), Y), None),
    "Arrow's dictionary": ((pa.table({"d": pa.array(X.site).dictionary_encode(), "a": X.a.to_numpy()}), Y), None),
    "an index like a column": ((X.set_index(pd.Index(np.arange(N), name="a")), Y), None),
    "polars": ((pl.from_pandas(X), Y), None),
    "a dict": (({"a": X.a.to_numpy(), "s": X.site.tolist()}, Y), None),
    "a list of lists": (([[float(i % 7), 2.0] for i in range(N)], Y), None),
    "one dimension": ((X.a.to_numpy(), Y), (ValueError, "2D array")),
    "long texts": ((frame(t=["x" * 5000 + str(i % 3) for i in range(N)]), Y), None),
    "invisible texts": ((frame(t=["a\x1b[2J\u202e" if i % 2 else "b" for i in range(N)]), Y), None),
    "texts of numbers": ((frame(t=[str(i % 9) for i in range(N)]), Y), None),
    "a sparse matrix": ((__import__("scipy.sparse", fromlist=["x"]).csr_matrix(np.eye(N)), Y), (TypeError, "sparse")),
    "500 columns": ((pd.DataFrame(RNG.normal(size=(N, 500))), Y), None),
}


class NotNice(unittest.TestCase):
    """Each table ends in a model, or in one exception that says what is wrong with it."""

    def test_tables(self):
        for i, (name, ((x, y), want)) in enumerate(TABLES.items()):
            if i % 4 and not os.environ.get("COPPICE_FULL"):
                continue
            with self.subTest(name), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if want is None:
                    model = quick().fit(x, y)
                    known = x.drop(columns="y") if isinstance(y, str) else x
                    p = model.predict_proba(known)
                    self.assertTrue(np.isfinite(p).all() and (p >= 0).all() and (p <= 1).all())
                    continue
                kind, says = want
                with self.assertRaises(kind) as caught:
                    quick().fit(x, y)
                self.assertIn(says, str(caught.exception))

    @FULL
    def test_5000_columns(self):
        wide = RNG.normal(size=(N, 5000))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.assertEqual(quick().fit(wide, Y).predict_proba(wide).shape, (N, 2))


if __name__ == "__main__":
    unittest.main()
