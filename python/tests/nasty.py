"""Writes a table of clicks whose values are as awkward as real tables': python nasty.py FOLDER SEED ROWS [EMPTY]

It writes nasty.csv, of texts alone, and nasty.parquet, of the types that a warehouse exports. A
greater seed has later times and levels that a smaller one has not. Column EMPTY has no value, and
the type that pandas gives such columns. """

import csv
import datetime
import decimal
import pathlib
import random
import sys

import pyarrow as pa
import pyarrow.parquet as pq

UTC = datetime.timezone.utc
DEVICES = ["phone", "tablet", "tv", " watch", "Größe"]


def rows(seed, count):
    """Typed rows, None where a value is absent."""
    rng = random.Random(seed)
    start = datetime.datetime(2026, 1, 1, tzinfo=UTC) + datetime.timedelta(days=40 * seed)
    for i in range(count):
        user = rng.choice(
            [None, rng.randrange(1000, 1300), rng.randrange(1000, 1040), 900_000 + 1000 * seed + rng.randrange(20)]
        )
        campaign = rng.randrange(60) + 3 * seed
        premium = rng.choice([None, True, False, False])
        ts = start + datetime.timedelta(seconds=i * 300, milliseconds=rng.choice([0, 0, rng.randrange(1000)]))
        site = rng.choice(
            [
                None,
                "s%d.example" % min(rng.randrange(700), rng.randrange(700)),
                " padded ",
                "tab\there",
                "ünï-%d" % rng.randrange(5),
                "NA",
                "007",
                "1e3",
                "true",
            ]
        )
        score = rng.choice(
            [None, float("nan"), -999.0, float("inf"), rng.gauss(0, 1), round(rng.gauss(0, 3), 1), 1e-7, -0.0]
        )
        price = None if rng.random() < 0.1 else decimal.Decimal(rng.randrange(0, 100000)).scaleb(-2)
        signup = None if rng.random() < 0.1 else (start - datetime.timedelta(days=rng.randrange(-3, 900))).date()
        device = rng.choice(DEVICES + [None])
        strange = {" padded ": 0.3, "tab\there": 0.25, "007": 0.4, "1e3": 0.2, "true": 0.35, None: 0.15}.get(
            site, 0
        )  # what calibrating by site finds
        rate = (
            strange
            + 0.05
            + 0.2 * (campaign % 5 == 0)
            + (0.15 if user is not None and user % 7 == 0 else 0)
            + 0.1 * (premium is True)
            + 0.1 * (ts.hour > 18)
        )
        yield {
            "ts": ts,
            "signup": signup,
            "user": user,
            "site": site,
            "campaign": campaign,
            "advertiser": campaign % 12,
            "premium": premium,
            "device": device,
            "price": price,
            "score": score,
            "slot": rng.choice([None, 0, 1, 2, 3, 40]),
            "big": rng.choice(
                [
                    None,
                    2**63 + rng.randrange(30),
                    12345678901234567 + rng.randrange(30),
                    1234567890123456 + rng.randrange(30),
                ]
            ),
            "click": int(rng.random() < rate),
        }


def text_time(rng, ts):
    """One of the ways to write a time."""
    zone = ts.astimezone(datetime.timezone(datetime.timedelta(hours=rng.choice([-8, 2, 5]), minutes=30)))
    fraction = "" if ts.microsecond == 0 else ".%03d" % (ts.microsecond // 1000)
    return rng.choice(
        [
            ts.strftime("%Y-%m-%d %H:%M:%S") + fraction,
            ts.strftime("%Y-%m-%dT%H:%M:%S") + fraction + "Z",
            zone.strftime("%Y-%m-%dT%H:%M:%S") + fraction + zone.strftime("%z"),
            f"{ts.year}-{ts.month}-{ts.day} {ts.hour}:{ts.minute:02d}:{ts.second:02d}{fraction}",
            "  " + ts.strftime("%Y-%m-%d %H:%M:%S") + fraction + " ",
        ]
    )


def texts(rng, row):
    """The row as texts, written in every way that means the same."""
    absent = rng.choice(["", "NA", " NA ", "null"])

    def number(x, forms):
        return absent if x is None else rng.choice(forms)(x)

    as_id = (str, str, lambda x: f"{x}.0", lambda x: f" {x}", lambda x: f"+{x}", lambda x: f"{x}\t")
    as_number = (str, lambda x: f"{x}.", lambda x: f"{x}e0", lambda x: f"0{x}")
    return {
        "ts": text_time(rng, row["ts"]),
        "signup": number(row["signup"], [str, lambda d: f"{d.year}-{d.month}-{d.day}"]),
        "user": number(row["user"], as_id),
        "site": absent if row["site"] is None else row["site"],
        "campaign": number(row["campaign"], as_id),
        "advertiser": number(row["advertiser"], as_id),
        "premium": number(row["premium"], [str, lambda b: str(b).upper(), lambda b: str(b).lower()]),
        "device": absent if row["device"] is None else row["device"],
        "price": number(row["price"], [str, lambda d: repr(float(d)), lambda d: f" {d} "]),
        "score": number(row["score"], [repr, lambda x: f"{x:.17g}"]),
        "slot": number(row["slot"], as_number),
        "big": number(row["big"], [str, lambda x: f"{x}.0", lambda x: f"+{x}"]),
        "click": str(row["click"]),
    }


TYPES = {
    "ts": pa.timestamp("ms", tz="Europe/Berlin"),
    "signup": pa.date32(),
    "user": pa.int64(),
    "site": pa.string(),
    "campaign": pa.int32(),
    "advertiser": pa.int8(),
    "premium": pa.bool_(),
    "device": pa.dictionary(pa.int32(), pa.string()),
    "price": pa.decimal128(10, 2),
    "score": pa.float32(),
    "slot": pa.int16(),
    "big": pa.uint64(),
    "click": pa.int64(),
}


def main():
    folder, seed, count = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    table = list(rows(seed, count))
    rng = random.Random(-seed)
    with open(folder / "nasty.csv", "w", newline="", encoding="utf-8") as f:
        out = csv.DictWriter(f, TYPES)
        out.writeheader()
        out.writerows(texts(rng, row) for row in table)
    arrays = {name: pa.array([row[name] for row in table], type=t) for name, t in TYPES.items()}
    for name in sys.argv[4:]:
        arrays[name] = pa.nulls(count, type=pa.float64())
    pq.write_table(pa.table(arrays), folder / "nasty.parquet")


if __name__ == "__main__":
    main()
