"""Writes types.parquet, a small file with every type that the reader knows, nulls among the values,
in two row groups, and want.json, what pyarrow reads back. Run it with a Python that has pyarrow:
python make.py """

import datetime as dt
import decimal
import json
import pathlib
import struct

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

here = pathlib.Path(__file__).parent
D = decimal.Decimal
n = None
utc = dt.timezone.utc
t0 = dt.datetime(2017, 7, 2, 10, 3, 20, 123456)
columns = {
    "bool": (pa.bool_(), [True, n, False, True]),
    "int8": (pa.int8(), [-128, 127, n, 0]),
    "int16": (pa.int16(), [-32768, n, 32767, 5]),
    "int32": (pa.int32(), [-(2**31), 2**31 - 1, n, 0]),
    "int64": (pa.int64(), [-(2**63), 2**63 - 1, n, 2**53 + 1]),
    "uint8": (pa.uint8(), [255, 0, n, 1]),
    "uint16": (pa.uint16(), [65535, n, 0, 1]),
    "uint32": (pa.uint32(), [2**32 - 1, n, 2**31, 1]),
    "uint64": (pa.uint64(), [2**64 - 1, n, 2**63, 1]),
    "half": (pa.float16(), [np.float16(1.5), n, np.float16(-65504), np.float16(5.960464477539063e-08)]),
    "float": (pa.float32(), [0.1, n, float("inf"), -0.0]),
    "double": (pa.float64(), [0.1, n, float("nan"), -1e300]),
    "string": (pa.string(), ["a", "", n, "Zürich"]),
    "large": (pa.large_string(), ["x" * 300, n, "", "y"]),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), ["a", "b", n, "a"]),
    "binary": (pa.binary(), [b"abc", n, b"", "ü".encode()]),
    "fixed": (pa.binary(3), [b"abc", n, b"xyz", b"123"]),
    "date32": (pa.date32(), [dt.date(2017, 7, 2), n, dt.date(1969, 12, 31), dt.date(9999, 12, 31)]),
    "date64": (pa.date64(), [dt.date(2017, 7, 2), n, dt.date(1969, 12, 31), dt.date(9999, 12, 31)]),
    "ms": (
        pa.timestamp("ms"),
        [t0.replace(microsecond=123000), n, dt.datetime(1969, 12, 31, 23, 59, 59, 999000), t0.replace(microsecond=0)],
    ),
    "us": (
        pa.timestamp("us", "UTC"),
        [t0.replace(tzinfo=utc), n, dt.datetime(1, 1, 1, tzinfo=utc), t0.replace(tzinfo=utc)],
    ),
    "ns": (pa.timestamp("ns"), [1499000000000000001, n, -1, 0]),
    "time32": (pa.time32("ms"), [dt.time(10, 3, 20, 123000), n, dt.time(0), dt.time(1)]),
    "time64": (pa.time64("us"), [dt.time(10, 3, 20, 123456), n, dt.time(0), dt.time(1)]),
    "dec9": (pa.decimal128(9, 2), [D("1234567.89"), n, D("-0.01"), D("0.00")]),
    "dec18": (pa.decimal128(18, 0), [D("999999999999999999"), n, D("-1"), D("0")]),
    "dec38": (pa.decimal128(38, 0), [D("12345678901234567890123456789012345678"), n, D("-1"), D("9007199254740993")]),
    "dec38s": (pa.decimal128(38, 10), [D("1234567890123456789012345678.0123456789"), n, D("-0.0000000001"), D("2.5")]),
    "dec76": (pa.decimal256(76, 3), [D("1" * 70 + ".125"), n, D("-2.5"), D("0.125")]),
    "null": (pa.null(), [n, n, n, n]),
    "required": (pa.int64(), [1, 2, 3, 4]),
    "list": (pa.list_(pa.int32()), [[1], n, [], [2, 3]]),
    "struct": (pa.struct([("x", pa.int32())]), [{"x": 1}, n, {"x": n}, {"x": 2}]),
    "map": (pa.map_(pa.string(), pa.int32()), [[("a", 1)], n, [], []]),
}
fields = [pa.field(name, t, nullable=name != "required") for name, (t, _) in columns.items()]
table = pa.table([pa.array(v, t) for t, v in columns.values()], schema=pa.schema(fields))

for name, options in {
    "types.parquet": dict(compression="snappy"),
    "types_v2.parquet": dict(compression="zstd", data_page_version="2.0", use_dictionary=False, version="2.6"),
    "types_gzip.parquet": dict(compression="gzip", data_page_size=1),
}.items():
    pq.write_table(table, here / name, row_group_size=3, **options)

# INT96 needs a writer's option that touches every timestamp.
pq.write_table(
    pa.table({"at": pa.array([1499000000000000001, n, -1, 0], pa.timestamp("ns"))}),
    here / "int96.parquet",
    use_deprecated_int96_timestamps=True,
)
# Beyond what nanoseconds can count, as Spark writes 9999-12-31: patched in, because pyarrow refuses to.
data = bytearray((here / "int96.parquet").read_bytes())
old = struct.pack("<qI", 1499000000000000001 % (86400 * 10**9), 2440588 + 1499000000000000001 // (86400 * 10**9))
for place in range(len(data)):
    if data[place : place + 12] == old:
        data[place + 8 : place + 12] = struct.pack("<I", 5373484)
(here / "int96_far.parquet").write_bytes(data)


def text(v, t):
    if v is None:
        return "<null>"
    if pa.types.is_boolean(t):
        return "true" if v else "false"
    if pa.types.is_decimal(t):
        if t.scale == 0:
            return str(int(v))
        return "%r" % float(v)
    if pa.types.is_floating(t):
        return "%r" % float(v)
    if isinstance(v, bytes):
        return v.decode()
    if isinstance(v, dt.datetime):
        v = v.replace(tzinfo=None)
        return v.isoformat(timespec="microseconds") + "Z"
    if isinstance(v, dt.date):
        return v.isoformat()
    return str(v)


want = {}
for name, (t, _) in columns.items():
    if pa.types.is_nested(t):
        continue
    column = table[name].combine_chunks()
    if name == "ns":
        column = column.cast(pa.int64())
    if pa.types.is_time(t):
        column = column.cast(pa.int32() if t == pa.time32("ms") else pa.int64())
    want[name] = [text(v, t) for v in column.to_pylist()]
(here / "want.json").write_text(json.dumps(want, indent=1, ensure_ascii=False) + "\n")
