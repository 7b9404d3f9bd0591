"""What texts mean."""

import datetime
import json
import math
import pathlib
import random
import unittest

import fixture  # noqa: F401
import numpy as np
import pyarrow as pa

from coppice import _text

# As dataset.AppendNumber writes them.
NUMBER_TEXTS = [
    (1234567.5, "1.2345675e+06"), (0.1, "0.1"), (1e-05, "1e-05"), (0.0001, "0.0001"), (123456.7, "123456.7"), (1e21, "1e+21"),
    (9007199254740992.0, "9007199254740992"), (9007199254740994.0, "9.007199254740994e+15"), (1e-300, "1e-300"), (-2.5e-07, "-2.5e-07"),
    (3.0000000000000004, "3.0000000000000004"), (math.inf, "+Inf"), (-math.inf, "-Inf"), (99999.5, "99999.5"), (100000.5, "100000.5"),
    (1000000000000000.5, "1.0000000000000005e+15"), (1e16, "1e+16"), (-0.0, "0"), (1001.0, "1001"), (-3.25, "-3.25"), (0.00012, "0.00012"),
]  # fmt: skip


class Numbers(unittest.TestCase):
    def test_texts(self):
        for x, want in NUMBER_TEXTS:
            self.assertEqual(want, _text.number_text(x))

    def test_what_is_a_number(self):
        numbers = {
            "17": 17,
            " +17. ": 17,
            "-.5e1": -5,
            "1E+3": 1000,
            "0052": 52,
            "inf": math.inf,
            "-Infinity": -math.inf,
            "\t3": 3,
        }
        for s, want in numbers.items():
            self.assertEqual(want, _text.parse_number(s), s)
        for s in ("NaN", "1e400", "-1e999"):
            self.assertTrue(math.isnan(_text.parse_number(s)), s)
        for s in (
            "",
            ".",
            "+",
            "1_000",
            "0x10",
            "1e",
            "e1",
            "1 2",
            "٣",
            "infinit",
            "true",
            "\u00a05",
            "1\n",
            "\n1",
            "1e5e5",
            "--1",
        ):
            self.assertIsNone(_text.parse_number(s), s)

    def test_plain_numbers(self):
        for s, want in {
            "1001": 1001,
            "1001.0": 1001,
            " -0 ": 0,
            "0.5": 0.5,
            ".5": 0.5,
            "123456789012345": 123456789012345,
        }.items():
            self.assertEqual(want, _text.plain_number(s), s)
        for s in ("007", "1e3", "1234567890123456", "1.00000000000000000", "", "x"):
            self.assertIsNone(_text.plain_number(s), s)

    def test_columns_of_numbers(self):
        texts = ["1", " 2.5 ", "1e3", "NA", "-999", "-999.00", "True", "inf", "", "x", "1\n", "1e999"]
        got, bad = _text.numbers_of(pa.array(texts, pa.large_string()), _text.Missing(["", "NA", "-999.0"]))
        nan = math.nan
        np.testing.assert_array_equal([1, 2.5, 1000, nan, nan, nan, 1, math.inf, nan, nan, nan, nan], got)
        self.assertEqual(["x", "1\n"], [t for t, b in zip(texts, bad) if b])

    def test_one_id_however_it_is_written(self):
        def hashes(*texts):
            return _text.hash_texts(pa.array(texts, pa.large_string()), _text.Missing(["", "NA", "-999.0"])).tolist()

        self.assertEqual(1, len(set(hashes("1001", "1001.0", " 1001", "+1001", "1001.", "\t1001.000 "))))
        self.assertEqual(1, len(set(hashes("true", "True", " TRUE"))))
        self.assertEqual(1, len(set(hashes("", "NA", " NA\t", "-999.0", "-999", "-999.00"))))
        self.assertEqual(6, len(set(hashes("7", "07", "7e0", "seven", "NA", "na"))))


class Times(unittest.TestCase):
    MARKERS = _text.Missing(["NA"])

    def test_both_ways_agree_with_datetime(self):
        rng = random.Random(1)
        texts, want = [], []
        for _ in range(2000):
            t = datetime.datetime(1, 1, 1) + datetime.timedelta(seconds=rng.randrange(9999 * 365 * 86400))
            seconds = (t - datetime.datetime(1970, 1, 1)) // datetime.timedelta(seconds=1)
            date = f"{t.year:04d}-{t.month:02d}-{t.day:02d}"
            nanos = rng.randrange(10**9)
            texts += [date, f"{date}T{t:%H:%M:%S}", f"{date} {t:%H:%M:%S}.{nanos:09d}Z", f"{date} {t:%H:%M}"]
            want += [seconds - seconds % 86400, seconds, seconds + nanos / 1e9, seconds - seconds % 60]
        got, bad = _text.times_of(pa.array(texts, pa.large_string()), self.MARKERS)
        self.assertFalse(bad.any())
        self.assertEqual([float(x) for x in want], got.tolist())
        self.assertEqual(got.tolist(), [_text.parse_time(t) for t in texts])

    def test_zones_and_short_forms(self):
        noon = 1499000600.0  # 2017-07-02 13:03:20 UTC
        for s in (
            "2017-07-02T13:03:20Z",
            "2017-07-02T15:03:20+02:00",
            "2017-7-2 15:03:20 +02",
            "2017-07-02 07:33:20-0530",
            " 2017-07-02t13:03:20,000 z",
        ):
            self.assertEqual(noon, _text.parse_time(s), s)
        self.assertEqual(noon - 20 - 3 * 60 - 13 * 3600, _text.parse_time("2017-7-2"))

    def test_the_texts_that_go_reads(self):
        path = pathlib.Path(__file__).parents[2] / "internal/dataset/cell/testdata/texts.json"
        for form, texts in json.loads(path.read_text("utf-8")).items():
            for text, want in texts.items():
                if form in ("number", "decimal_comma"):
                    self.assertEqual(want, _text.parse_marked(text, form), (form, text))
                    continue
                x = _text.parse_moment(text, "" if form == "time" else form)
                self.assertEqual(want, x and _text.time_text(*x, False), (form, text))

    def test_what_is_no_time(self):
        texts = [
            "2017-02-29",
            "2017-13-01",
            "2017-00-01",
            "2017-07-02Z",
            "2017-07-02 24:00",
            "2017-07-02 10:60",
            "2017-07-02 10:03:20.",
            "17-07-02",
            "2017-07-02 10:03:20+19",
            "x" * 19,
        ]
        got, bad = _text.times_of(pa.array(texts + ["NA"], pa.large_string()), self.MARKERS)
        self.assertEqual([True] * len(texts) + [False], bad.tolist())
        self.assertTrue(np.isnan(got).all())

    def test_texts_of_times(self):
        for (sec, nsec, day), want in {
            (0, 0, False): "1970-01-01T00:00:00Z", (-1, 500_000_000, False): "1969-12-31T23:59:59.5Z", (951782400, 0, True): "2000-02-29",
            (253402300799, 999_999_999, False): "9999-12-31T23:59:59.999999999Z",
        }.items():  # fmt: skip
            self.assertEqual(want, _text.time_text(sec, nsec, day))


if __name__ == "__main__":
    unittest.main()
