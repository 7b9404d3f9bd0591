"""Columns of unusual types, as a table to train on and as rows to predict."""

import datetime
import decimal
import io
import unittest

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse

from coppice._columns import Table
from coppice._estimators import _labels
from coppice._frame import table_of
from coppice.errors import InputError

_D = decimal.Decimal

# Type in Parquet, and kind of the rows to predict.
READ = {
    "polars Categorical": (pl.DataFrame({"x": pl.Series(["a", "b", None], dtype=pl.Categorical)}), "string", "text"),
    "polars Enum": (pl.DataFrame({"x": pl.Series(["a", "b", None], dtype=pl.Enum(["a", "b"]))}), "string", "text"),
    "polars Decimal": (pl.DataFrame({"x": pl.Series([_D("1.5"), None])}), "decimal128", "float"),
    "polars Int128": (pl.DataFrame({"x": pl.Series([1, None], dtype=pl.Int128)}), "int64", "int"),
    "polars Int128 of ids": (pl.DataFrame({"x": pl.Series([2**100, None], dtype=pl.Int128)}), "string", "text"),
    "polars bytes": (pl.DataFrame({"x": [b"a", b"b", None]}), "string", "text"),
    "polars Duration": (pl.DataFrame({"x": [datetime.timedelta(1), None]}), "duration", "int"),
    "decimal32": (pa.table({"x": pa.array([_D("1.5"), None], pa.decimal32(5, 2))}), "decimal128", "float"),
    "decimal64": (pa.table({"x": pa.array([_D("1.5"), None], pa.decimal64(12, 2))}), "decimal128", "float"),
    "runs": (pa.table({"x": pa.RunEndEncodedArray.from_arrays([1, 3], ["a", "b"])}), "string", "text"),
    "binary views": (pa.table({"x": pa.array([b"a"], pa.binary_view())}), "string", "text"),
    "pandas bytes": (pd.DataFrame({"x": [b"a", b"b"]}), "string", "text"),
    "pandas.NA among objects": (pd.DataFrame({"x": pd.Series([1, pd.NA], dtype=object)}), "int64", "int"),
    "pandas.NA among texts": (pd.DataFrame({"x": pd.Series(["a", pd.NA], dtype=object)}), "string", "text"),
    "pandas periods": (pd.DataFrame({"x": pd.period_range("2024-01", periods=2, freq="M")}), "string", "text"),
    "pandas sparse": (pd.DataFrame({"x": pd.arrays.SparseArray([0.0, 1.0])}), "double", "float"),
}
REFUSED = {
    "bytes that are no text": (pd.DataFrame({"x": [b"a", b"\xff"]}), InputError, "no text in UTF-8"),
    "polars bytes that are no text": (pl.DataFrame({"x": [b"\xff"]}), InputError, "no text in UTF-8"),
    "intervals": (pa.table({"x": pa.array([(1, 2, 3)], pa.month_day_nano_interval())}), InputError, "leave it out"),
    "scipy": (scipy.sparse.csr_matrix(np.eye(3)), TypeError, "toarray"),
}


class Columns(unittest.TestCase):
    def test_read(self):
        for name, (data, parquet, kind) in READ.items():
            with self.subTest(name):
                file = io.BytesIO()
                pq.write_table(table_of(data)[0], file)
                got = pq.read_schema(io.BytesIO(file.getvalue())).field("x").type
                got = got.value_type if pa.types.is_dictionary(got) else got
                self.assertIn(parquet, str(got))
                self.assertEqual(kind, Table(data, ["x"])._columns["x"][0])

    def test_refused(self):
        for name, (data, error, said) in REFUSED.items():
            with self.subTest(name), self.assertRaisesRegex(error, said):
                table_of(data)

    def test_missing_labels(self):
        for y, want in (
            (pd.Series([1, 0, pd.NA], dtype="Int64"), [1, 0]),
            (pd.Series([1.5, pd.NA, 2], dtype=object), [1.5, 2]),
            (pd.Series(["a", pd.NA, "b"]), ["a", "b"]),
        ):
            values, there = _labels(y, 3)
            self.assertEqual(want, values[there].tolist())
            self.assertNotEqual(object if not isinstance(want[0], str) else None, values.dtype)


if __name__ == "__main__":
    unittest.main()
