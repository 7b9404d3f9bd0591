"""The estimator of an order."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pyarrow as pa

from ._frame import is_missing
from ._estimators import _apart, _enough, _Fitted, _labels, _telling

_MAX_GRADE = 30


class Ranker(_Fitted):
    """Learns the order of the rows of each query, by LambdaMART. Parameters and attributes are those of Classifier, and

    Args:
        objective: "lambdarank", or "rank_xendcg", which is faster.
        metric: what is optimised; ndcg@10 by default, or ndcg, map@5 ...

    >>> import coppice, numpy
    >>> x = numpy.random.default_rng(1).normal(size=(600, 2))
    >>> model = coppice.Ranker(trials=1).fit(x, (x[:, 0] > 0) * 1, group=[10] * 60)
    >>> model.predict(x).shape
    (600,)
    """

    @_telling
    def __init__(
        self,
        *,
        objective: str = "lambdarank",
        time: str | None = None,
        key: str | None = None,
        drop: list[str] | None = None,
        categorical: list[str] | None = None,
        missing: list[str] | None = None,
        format: dict[str, str] | None = None,
        date_format: str | None = None,
        split: str | None = None,
        trials: int | None = None,
        minutes: float = 5.0,
        metric: str | None = None,
        params: dict[str, Any] | None = None,
        where: str = "local",
        name: str = "model",
        folder: str | os.PathLike[str] | None = None,
        random_state: Any = None,
        verbose: bool | None = None,
    ) -> None:
        super().__init__(
            time=time, key=key, drop=drop, categorical=categorical, missing=missing, format=format, date_format=date_format,
            split=split, trials=trials, minutes=minutes, metric=metric, params=params, where=where, name=name, folder=folder,
            random_state=random_state, verbose=verbose,
        )  # fmt: skip
        self.objective = objective

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, group: Any = None) -> Ranker:
        """Trains on a table.

        Args:
            X: rows, as Classifier.fit takes them.
            y: grades, whole numbers from 0 to 30, higher is better: shape (rows,), or the name of X's column.
            sample_weight: shape (rows,), 0 or more.
            group: which rows belong to one query: the name of X's column, which is then no feature; or a value for each
              row, shape (rows,); or, as for LGBMRanker, the sizes of queries whose rows are neighbours, which add up to
              the rows. If it could be both, it is a value for each row.
        """
        if y is None:
            raise ValueError("This estimator requires y to be passed, but the target y is None")
        named, (X, y) = y, _apart(X, y)
        X, group = _apart(X, group)
        table = self._table(X, fitting=True)
        labels, there = _labels(y, table.num_rows)
        grades = labels[there]
        _enough(len(grades))
        if grades.dtype.kind not in "iufb" or not ((grades == np.floor(grades)) & (grades >= 0) & (grades <= _MAX_GRADE)).all():
            raise ValueError(f"y should be grades, whole numbers from 0 to {_MAX_GRADE}")
        more = ["--objective", str(self.objective)]
        values = np.full(len(labels), None, dtype=object)
        values[there] = grades.astype(np.int8).tolist()
        self._train(table, pa.array(values), named, sample_weight, _by_row(group, table.num_rows), more, "--group")
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Scores that order the rows of a query, the best highest: float64, shape (rows,). Scores of different queries
        say nothing of each other."""
        return self._fitted().predict(self._table(X, fitting=False))

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, group: Any = None) -> float:
        """The mean NDCG@10 of the queries; one without a grade above 0 counts 1. group is as in fit."""
        rows, y = _apart(X, y)
        rows, group = _apart(rows, group)
        scores = self.predict(rows)
        gains = 2.0 ** _labels(y, len(scores))[0] - 1
        known: dict[Any, int] = {}  # a row without a query is one of its own
        of_row = [object() if is_missing(g) else g for g in _by_row(group, len(scores)).tolist()]
        number = np.array([known.setdefault(g, len(known)) for g in of_row])
        sizes = np.bincount(number)
        values: list[float] = []
        weights: list[float] = []
        for of in np.split(np.argsort(number, kind="stable"), np.cumsum(sizes)[:-1]):
            discounts = 1 / np.log2(np.arange(2, min(len(of), 10) + 2))
            best = np.sort(gains[of])[::-1][:10] @ discounts
            got = gains[of][np.argsort(-scores[of], kind="stable")][:10] @ discounts
            values.append(float(got / best) if best else 1.0)
            weights.append(1.0 if sample_weight is None else float(np.mean(np.asarray(sample_weight)[of])))
        return float(np.average(values, weights=weights))


def _by_row(group: Any, rows: int) -> np.ndarray:
    """A value for each row."""
    if group is None:
        raise ValueError(
            "group is missing: which rows belong to one query? fit and score take group=, the name of a column of X, "
            "a value for each row, or sizes"
        )
    if isinstance(group, (pa.Array, pa.ChunkedArray)):
        group = group.to_pandas()
    values = np.asarray(group)
    if values.ndim != 1:
        raise ValueError(f"group has the shape {values.shape}, expected one dimension")
    if len(values) == rows:
        return values
    if values.dtype.kind not in "iu" or (values < 0).any() or values.sum() != rows:
        total = f", which add up to {values.sum()}" if values.dtype.kind in "iu" else ""
        raise ValueError(f"group has {len(values)} values{total}, expected one for each of {rows} rows, or sizes that add up to them")
    return np.repeat(np.arange(len(values)), values)
