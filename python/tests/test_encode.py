"""Raw columns to model values: what each is, and that it does not matter how a column is typed."""

import datetime
import decimal
import math
import unittest
import warnings

import fixture
import numpy as np
import pyarrow as pa

import coppice

try:
    import pandas as pd
except ImportError:
    pd = None

UTC = datetime.timezone.utc
NAN = math.nan
NOON = datetime.datetime(2026, 3, 2, 12, 30, tzinfo=UTC)  # a Monday
BASE = {
    "price": [1.0, 1.5, 2.0, None, -999.0],
    "ts": [NOON] * 5,
    "device": ["phone", "1.0", "gone", None, "NA"],
    "user": ["1001", "1002", "7.5", None, "unseen"],
    "site": ["a.example", "b.example", "a.example", "c.example", None],
    "signup": [NOON - datetime.timedelta(days=1, hours=6), None, NOON, NOON, NOON],
}


def table(**columns):
    return pa.table({name: columns.get(name, values) for name, values in BASE.items()})


class Case(fixture.Case):
    def column(self, data, feature):
        return self.model.encode(data)[:, self.model.features.index(feature)].tolist()

    def assert_same(self, want, got):
        np.testing.assert_array_equal(np.array(want, dtype=float), np.array(got, dtype=float))


class Values(Case):
    def test_shape_and_names(self):
        v = self.model.encode(table())
        self.assertEqual((5, len(self.model.features)), v.shape)
        self.assertEqual(np.float64, v.dtype)
        self.assertEqual(["price", "ts", "device", "user", "site", "signup"], self.model.inputs)

    def test_every_kind_of_feature(self):
        seconds = NOON.timestamp()
        f32 = lambda x: float(np.float32(x))  # noqa: E731
        a, b, prior = f32((3 + 4 * 0.25) / 14), f32((1 + 4 * 0.25) / 24), 0.25
        users = [f32((5 + 4 * a) / 12), f32(4 * b / 6), f32(4 * a / 4), f32((1 + 4 * prior) / 8), f32(4 * prior / 4)]
        want = {
            "price": [1, 1.5, 2, NAN, NAN],
            "ts": [seconds] * 5,
            "device": [0, 1, 4, 5, 5],
            "user": [0, 2, 1, 2, 2],
            "user:levels": [1, 0, 1, 2, 1],
            "site:rate": [a, b, a, prior, prior],
            "user:rate": users,
            "user:count": [8, 2, 0, 4, 0],
            "user:recency": [seconds - 1000, seconds - 2000, NAN, seconds - 3000, NAN],
            "user+price~:rate": [f32(users[0]), users[1], users[2], users[3], users[4]],
            "ts.hour": [12.5] * 5,
            "ts.weekday": [0] * 5,
            "signup.age": [1.25, NAN, 0, 0, 0],
        }
        for name, values in want.items():
            with self.subTest(name):
                self.assert_same(values, self.column(table(), name))
        with_pair = self.column(table(price=[2.0] * 5), "user+price~:rate")
        self.assertEqual(f32((2 + 4 * users[0]) / 7), with_pair[0])

    def test_before_1970(self):
        t = table(ts=[datetime.datetime(1969, 12, 31, 23, 0, tzinfo=UTC)] * 5)
        self.assert_same([23] * 5, self.column(t, "ts.hour"))
        self.assert_same([2] * 5, self.column(t, "ts.weekday"))

    def test_infinities_are_clamped(self):
        greatest = np.finfo(float).max
        self.assert_same(
            [greatest, -greatest, 0, 1, 2], self.column(table(price=[math.inf, -math.inf, 0, 1, 2]), "price")
        )

    def test_batches_are_one_table(self):
        big = pa.concat_tables([table()] * 3)
        original = coppice.model._BATCH_ROWS
        coppice.model._BATCH_ROWS = 4
        try:
            small = self.model.encode(big)
            self.assertEqual(15, len(self.model.predict(big)))
            with self.assertRaises(coppice.ValueParseError) as caught:
                self.model.encode(table(price=["1", "2", "3", "4", "five"]))
        finally:
            coppice.model._BATCH_ROWS = original
        np.testing.assert_array_equal(self.model.encode(big), small)
        self.assertEqual(("price", 4, "five"), (caught.exception.column, caught.exception.row, caught.exception.value))

    def test_no_rows(self):
        self.assertEqual((0, len(self.model.features)), self.model.encode(table().slice(0, 0)).shape)
        self.assertEqual((0,), self.model.predict(table().slice(0, 0)).shape)

    def test_absent_everywhere(self):
        nothing = {name: [None] * 3 for name in BASE}
        v = self.model.encode(nothing)
        self.assertTrue(np.isnan(v[:, 0]).all() and (v[:, self.model.features.index("user:count")] == 4).all())


class Types(Case):
    """The same values in other types."""

    def same(self, name, *others):
        want = self.model.encode(table())
        for other in others:
            with self.subTest(type=str(getattr(other, "type", type(other)))):
                np.testing.assert_array_equal(want, self.model.encode(dict(table().to_pydict(), **{name: other})))

    def test_numbers(self):
        x = BASE["price"]
        self.same(
            "price",
            pa.array(x, pa.float32()),
            [str(v) if v is not None else "" for v in x],
            [None if v is None else f" {v}" for v in x],
        )
        self.same(
            "price",
            np.array([1, 1.5, 2, NAN, -999]),
            pa.array([None if v is None else decimal.Decimal(v) for v in x], pa.decimal128(10, 2)),
        )
        self.same(
            "price",
            pa.array(x, pa.float16()),
            np.array([1, 1.5, 2, NAN, -999], dtype=">f4"),
            np.ma.masked_array([1, 1.5, 2, 7, 7], mask=[0, 0, 0, 1, 1]),
        )

    def test_whole_numbers(self):
        want = self.column(table(price=[1, 2, 3, None, 5]), "price")
        for t in (pa.int8(), pa.uint16(), pa.int64(), pa.uint64(), pa.decimal128(20, 0), pa.decimal128(30, 2)):
            self.assert_same(want, self.column(table(price=pa.array([1, 2, 3, None, 5]).cast(t)), "price"))
        small = pa.array([None if x is None else decimal.Decimal(x) for x in (1, 2, 3, None, 5)], pa.decimal128(5, 0))
        self.assert_same(want, self.column(table(price=small), "price"))
        self.assert_same(
            [1, 0, NAN], self.column({n: v[:3] for n, v in BASE.items()} | {"price": [True, False, None]}, "price")
        )

    def test_texts(self):
        x = BASE["device"]
        a = pa.array(x)
        self.same(
            "device",
            a.dictionary_encode(),
            a.cast(pa.large_string()),
            a.cast(pa.binary()),
            pa.array(x, pa.string_view()),
            np.array(x, dtype=object),
        )
        self.same(
            "device",
            pa.DictionaryArray.from_arrays(pa.array([3, 0, 1, None, 2]), pa.array(["1.0", "gone", "NA", "phone"])),
        )
        self.same(
            "device",
            pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3, 4]), pa.array(["phone", "1.0", "gone", None, "NA"])),
        )

    def test_ids(self):
        users = {"1001": pa.array(["1001"] * 5)}
        want = self.model.encode(table(user=users["1001"]))
        at = [
            i for i, name in enumerate(self.model.features) if name != "user"
        ]  # whose one byte tells texts apart as they are
        for ids in (
            [1001] * 5,
            [1001.0] * 5,
            ["1001.0"] * 5,
            [" 1001\t"] * 5,
            pa.array([1001] * 5, pa.uint64()),
            pa.array([decimal.Decimal("1001.00")] * 5),
            pa.array([1001] * 5).dictionary_encode(),
        ):
            got = self.model.encode(table(user=ids))
            np.testing.assert_array_equal(want[:, at], got[:, at])
        for ids in ([1001] * 5, np.array([1001.0] * 5)):
            np.testing.assert_array_equal(want, self.model.encode(table(user=pa.array(ids))))

    def test_truth_values(self):
        device = self.column(table(device=[True, False, None, True, True]), "device")
        self.assert_same([2, 4, 5, 2, 2], device)
        want = self.column(table(user=[True] * 5, price=[20.0] * 5), "user+price~:rate")
        for texts in (["True"] * 5, ["TRUE"] * 5, [" true"] * 5):
            self.assert_same(want, self.column(table(user=texts, price=[20.0] * 5), "user+price~:rate"))
        self.assertNotEqual(want, self.column(table(user=["truth"] * 5, price=[20.0] * 5), "user+price~:rate"))

    def test_categories_by_meaning(self):
        self.assert_same([1, 1, 4, 5, 5], self.column(table(device=[1.0, 1.0, 2.0, NAN, -999.0]), "device"))
        self.assert_same([1, 4, 5, 5, 4], self.column(table(device=pa.array([1, 2, None, -999, 7])), "device"))
        self.assert_same([3, 3, 1, 2, 2], self.column(table(device=[" tv", "tv", "1", "true", "TRUE"]), "device"))

    def test_times(self):
        stamps = pa.array([NOON] * 5, pa.timestamp("us", tz="UTC"))
        self.same(
            "ts",
            stamps.cast(pa.timestamp("s", tz="Asia/Kolkata")),
            stamps.cast(pa.timestamp("ms")),
            stamps.cast(pa.timestamp("ns", tz="UTC")),
        )
        self.same(
            "ts",
            ["2026-03-02 12:30"] * 5,
            ["2026-3-2T13:30:00+01:00"] * 5,
            np.array(["2026-03-02T12:30"] * 5, dtype="datetime64[m]"),
        )
        self.same("ts", [NOON.astimezone(datetime.timezone(datetime.timedelta(hours=-7)))] * 5)

    def test_dates(self):
        day = datetime.date(2026, 3, 1)
        want = self.column(table(signup=[day] * 5), "signup.age")
        self.assert_same([36.5 * 3600 / 86400] * 5, want)
        for days in (
            pa.array([day] * 5, pa.date64()),
            ["2026-03-01"] * 5,
            np.array(["2026-03-01"] * 5, dtype="datetime64[D]"),
            np.array(["2026-03-01"] * 5, dtype="datetime64[s]"),
        ):
            self.assert_same(want, self.column(dict(table().to_pydict(), signup=days), "signup.age"))

    def test_record_batches_and_chunks(self):
        t = table()
        for data in (t.to_batches()[0], pa.concat_tables([t.slice(0, 2), t.slice(2)]), t.to_pydict()):
            np.testing.assert_array_equal(self.model.encode(t), self.model.encode(data))
        d = table(
            device=pa.chunked_array(
                [pa.array(["phone", "1.0"]).dictionary_encode(), pa.array(["gone", None, "NA"]).dictionary_encode()]
            )
        )
        np.testing.assert_array_equal(self.model.encode(t), self.model.encode(d))

    def test_streams_and_records(self):
        class Stream:
            def __arrow_c_stream__(self, requested_schema=None):
                return table().__arrow_c_stream__(requested_schema)

        np.testing.assert_array_equal(self.model.encode(table()), self.model.encode(Stream()))
        columns = {n: v[:3] for n, v in BASE.items()} | {
            "device": ["phone", "1.0", "gone"],
            "price": [1.0, 1.5, 2.0],
            "signup": ["2026-03-01T06:30Z", "", "2026-03-02 12:30"],
            "ts": ["2026-03-02T12:30"] * 3,
        }
        dtypes = [(n, "M8[s]" if n == "ts" else "f8" if n == "price" else "U20") for n in columns]
        records = np.array(list(zip(*columns.values())), dtype=dtypes)
        np.testing.assert_array_equal(self.model.encode(table())[:3], self.model.encode(records))

    def test_lost_digits_are_told(self):
        with self.assertWarns(coppice.PrecisionWarning):
            self.model.encode(table(user=[2.0**60] * 5))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.model.encode(table(user=[2**60] * 5))


@unittest.skipUnless(pd, "pandas is not installed")
class Pandas(Case):
    def test_as_it_comes(self):
        frame = table().to_pandas()
        np.testing.assert_array_equal(self.model.encode(table()), self.model.encode(frame))
        np.testing.assert_array_equal(
            self.model.encode(table()), self.model.encode(frame.astype({"device": "category", "user": "category"}))
        )
        shuffled = frame.iloc[[3, 1, 4, 0, 2]]
        np.testing.assert_array_equal(self.model.encode(table())[[3, 1, 4, 0, 2]], self.model.encode(shuffled))

    def test_whole_numbers_with_gaps_become_floats(self):
        ids = pd.Series([1001, 1002, None, 1001, 5])
        self.assertEqual("float64", str(ids.dtype))
        want = self.model.encode(table(user=pa.array([1001, 1002, None, 1001, 5])))
        frame = table().to_pandas()
        for user in (ids, ids.astype("Int64"), ids.astype("Int64").astype("category"), ids.astype(object)):
            np.testing.assert_array_equal(want, self.model.encode(frame.assign(user=user)))

    def test_truth_values_with_gaps_become_objects(self):
        frame = table().to_pandas()
        want = self.model.encode(table(device=[True, None, False, True, None]))
        for device in (
            pd.Series([True, None, False, True, NAN], dtype=object),
            pd.Series([True, None, False, True, None], dtype="boolean"),
        ):
            np.testing.assert_array_equal(want, self.model.encode(frame.assign(device=device)))

    def test_times(self):
        frame = table().to_pandas()
        want = self.model.encode(frame)
        for ts in (
            frame.ts.dt.tz_convert("America/New_York"),
            frame.ts.dt.tz_localize(None),
            frame.ts.dt.as_unit("ns"),
            frame.ts.dt.tz_convert("Asia/Tokyo").astype(object),
        ):
            np.testing.assert_array_equal(want, self.model.encode(frame.assign(ts=ts)))

    def test_other_types(self):
        frame = table().to_pandas()
        want = self.model.encode(frame)
        for price in (
            frame.price.astype("Float64"),
            frame.price.astype("Sparse[float]"),
            frame.price.astype("float64[pyarrow]"),
            frame.price.astype(object),
        ):
            np.testing.assert_array_equal(want, self.model.encode(frame.assign(price=price)))
        for device in (
            frame.device.astype("string"),
            frame.device.astype("string[pyarrow]"),
            frame.device.astype(object),
        ):
            np.testing.assert_array_equal(want, self.model.encode(frame.assign(device=device)))

    def test_mixed_objects(self):
        frame = table().to_pandas().assign(user=pd.Series([1001, None, 1002, "1001", 3], dtype=object))
        with self.assertRaises(coppice.TypeMismatchError) as caught:
            self.model.encode(frame)
        self.assertEqual(("user", 3, "1001"), (caught.exception.column, caught.exception.row, caught.exception.value))

    def test_two_columns_of_one_name(self):
        frame = table().to_pandas()
        with self.assertRaisesRegex(coppice.InputError, "2 columns of this name"):
            self.model.encode(pd.concat([frame, frame[["user"]]], axis=1))


class Refused(Case):
    def refused(self, kind, data, column=None, row=None):
        with self.assertRaises(kind) as caught:
            self.model.encode(data)
        self.assertIsInstance(caught.exception, coppice.InputError)
        self.assertEqual((column, row), (caught.exception.column, caught.exception.row), str(caught.exception))
        return str(caught.exception)

    def test_missing_columns(self):
        with self.assertRaises(coppice.MissingColumnsError) as caught:
            self.model.predict(table().drop_columns(["user", "ts"]))
        self.assertEqual(["ts", "user"], caught.exception.columns)
        self.assertIn("lacks 2 columns that the model needs: 'ts', 'user'; it has ", str(caught.exception))
        with self.assertRaisesRegex(coppice.MissingColumnsError, r"lacks 1 column .*'user' \(did you mean 'User'\?\);"):
            self.model.predict(table().rename_columns(["User" if n == "user" else n for n in table().column_names]))

    def test_types(self):
        self.refused(coppice.TypeMismatchError, table(ts=[1.5] * 5), "ts", 0)
        self.refused(coppice.TypeMismatchError, table(price=[None, None, NOON, NOON, NOON]), "price", 2)
        self.refused(coppice.TypeMismatchError, table(price=[[1]] * 5), "price")
        self.refused(coppice.TypeMismatchError, dict(table().to_pydict(), price=[1, 2, 3, "x", 4]), "price", 3)
        self.refused(coppice.TypeMismatchError, dict(table().to_pydict(), user=[1, 2, 3, 2**70, 4]), "user", 3)
        self.refused(coppice.TypeMismatchError, dict(table().to_pydict(), price=np.zeros((5, 2))), "price")
        self.refused(coppice.TypeMismatchError, dict(table().to_pydict(), price="12345"), "price")
        self.refused(coppice.TypeMismatchError, table(device=pa.array([b"\xff"] * 5)), "device")
        self.refused(coppice.TypeMismatchError, dict(table().to_pydict(), device=["\ud800"] * 5), "device")

    def test_values(self):
        self.assertIn(
            "'dear'", self.refused(coppice.ValueParseError, table(price=["1", "NA", "dear", "4", "5"]), "price", 2)
        )
        self.refused(coppice.ValueParseError, table(ts=["2026-03-02", "2026-02-30", "", "", ""]), "ts", 1)
        self.refused(coppice.ValueParseError, table(ts=["7"] * 5), "ts", 0)
        unused = pa.DictionaryArray.from_arrays(pa.array([0] * 5), pa.array(["1", "no number"]))
        self.assert_same([1] * 5, self.column(table(price=unused), "price"))

    def test_tables(self):
        self.refused(coppice.InputError, dict(table().to_pydict(), site=["a"]), "site")
        for nonsense in (None, 7, "text", [1, 2], np.zeros((2, 2))):
            self.refused(coppice.InputError, nonsense)


if __name__ == "__main__":
    unittest.main()
