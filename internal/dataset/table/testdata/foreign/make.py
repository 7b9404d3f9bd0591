"""Writes one table as other programs write Parquet, by default and with every encoding and codec that they have.

    python make.py FOLDER ROWS [--all]

want.json holds the values as pyarrow has them: numbers in hexadecimal, so that they can be compared
to the bit. The files beside this script are those of 40 rows (pyarrow 26.0.1, DuckDB 2.0.0, Polars
2.1.0); --all adds every combination of encoding, page version and codec. """

import base64
import datetime
import decimal
import json
import os
import sys

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe

folder, n, everything = sys.argv[1], int(sys.argv[2]), "--all" in sys.argv
rng = np.random.default_rng(1)


def holes(values):
    return [None if rng.random() < 0.15 else v for v in values]


special = [0.0, -0.0, float("inf"), float("-inf"), 5e-324, 1.7976931348623157e308]
when = datetime.datetime(1969, 12, 31)
table = pa.table(
    {
        "f32": pa.array(holes(rng.normal(size=n).astype("float32").tolist()), pa.float32()),
        "f64": pa.array(holes((special + rng.normal(size=n).tolist())[:n]), pa.float64()),
        "f64r": pa.array(rng.normal(size=n)),
        "i32": pa.array(holes(rng.integers(-(2**31), 2**31, n).tolist()), pa.int32()),
        "i64": pa.array(
            holes(([-(2**63), 2**63 - 1, -(2**63)] + rng.integers(-(2**62), 2**62, n).tolist())[:n]), pa.int64()
        ),
        "steps": pa.array(np.cumsum(rng.integers(0, 9, n))),
        "text": pa.array(holes([f"prefix_{i // 7}_{'é' * int(rng.integers(0, 5))}" for i in range(n)]), pa.string()),
        "ts": pa.array(
            [when + datetime.timedelta(seconds=int(x)) for x in rng.integers(0, 10**9, n)], pa.timestamp("us")
        ),
        "flag": pa.array(holes((rng.random(n) < 0.5).tolist()), pa.bool_()),
        "dec": pa.array(
            holes([decimal.Decimal(int(x)).scaleb(-2) for x in rng.integers(-(10**6), 10**6, n)]), pa.decimal128(12, 2)
        ),
        "half": pa.array(rng.normal(size=n).astype("float16")),
        "fixed": pa.array([b"a%04d" % int(x) for x in rng.integers(0, 99, n)], pa.binary(5)),
    }
)
few = table.drop_columns(["half", "fixed"])  # DuckDB and Polars write them as something else


def plain(v):
    if v is None or isinstance(v, str):
        return v
    if isinstance(v, bytes):
        return v.decode()
    if isinstance(v, (bool, int)):
        return str(int(v))
    if isinstance(v, datetime.datetime):
        return str((v - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1))
    return float(v).hex()


def path(name):
    return os.path.join(folder, name + ".parquet")


def write(name, **options):
    pq.write_table(table, path(name), **options)


with open(os.path.join(folder, "want.json"), "w") as f:
    json.dump({c: [plain(v) for v in table[c].to_pylist()] for c in table.column_names}, f, separators=(",", ":"))

split = {c: "BYTE_STREAM_SPLIT" for c in ["f32", "f64", "f64r", "i32", "i64", "half", "fixed", "dec"]}
delta = {
    "i32": "DELTA_BINARY_PACKED",
    "i64": "DELTA_BINARY_PACKED",
    "steps": "DELTA_BINARY_PACKED",
    "ts": "DELTA_BINARY_PACKED",
    "text": "DELTA_BYTE_ARRAY",
    "fixed": "DELTA_BYTE_ARRAY",
    "half": "DELTA_BYTE_ARRAY",
    "dec": "DELTA_BYTE_ARRAY",
    "flag": "RLE",
}
length = {"text": "DELTA_LENGTH_BYTE_ARRAY"}

write("pyarrow")
write("pyarrow-split", use_dictionary=False, column_encoding=split, compression="none")
write(
    "pyarrow-split-v2",
    use_dictionary=False,
    column_encoding=split,
    data_page_version="2.0",
    compression="zstd",
    data_page_size=64,
)
write("pyarrow-delta", use_dictionary=False, column_encoding=delta, compression="brotli", write_page_checksum=True)
write("pyarrow-length-v2", use_dictionary=False, column_encoding=length, data_page_version="2.0", compression="lz4")
con = duckdb.connect()
con.register("few", few)
con.execute(f"copy few to '{path('duckdb')}' (format parquet)")
con.execute(f"copy few to '{path('duckdb-v2')}' (format parquet, parquet_version v2, codec 'lz4_raw')")
pl.from_arrow(few).write_parquet(path("polars"))


class Keys(pe.KmsClient):
    def wrap_key(self, key, master):
        return base64.b64encode(key)

    def unwrap_key(self, key, master):
        return base64.b64decode(key)


for name, secret_footer in {"encrypted": False, "encrypted-columns": True}.items():
    secret = pe.CryptoFactory(lambda _: Keys()).file_encryption_properties(
        pe.KmsConnectionConfig(),
        pe.EncryptionConfiguration(
            footer_key="f", column_keys={"c": ["steps"]}, plaintext_footer=secret_footer, double_wrapping=False
        ),
    )
    with pq.ParquetWriter(path(name), table.select(["steps"]).schema, encryption_properties=secret) as w:
        w.write_table(table.select(["steps"]))

if everything:
    for codec in ["none", "snappy", "gzip", "brotli", "zstd", "lz4"]:
        for version in ["1.0", "2.0"]:
            write(f"pyarrow-{codec}-{version}", compression=codec, data_page_version=version)
            for encodings in [split, delta, length]:
                kind = next(iter(encodings.values())).lower()
                write(
                    f"pyarrow-{codec}-{version}-{kind}",
                    compression=codec,
                    data_page_version=version,
                    use_dictionary=False,
                    column_encoding=encodings,
                    data_page_size=1000,
                )
    for codec in ["uncompressed", "snappy", "gzip", "zstd", "brotli", "lz4_raw"]:
        for version in ["v1", "v2"]:
            con.execute(
                f"copy few to '{path(f'duckdb-{codec}-{version}')}' (format parquet, parquet_version {version}, codec '{codec}')"
            )
    for codec in ["uncompressed", "snappy", "gzip", "brotli", "zstd", "lz4"]:
        pl.from_arrow(few).write_parquet(path(f"polars-{codec}"), compression=codec)
