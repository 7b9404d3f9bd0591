"""Makes table.parquet and fastparquet.parquet: 3,000 rows of pandas categories, of whole numbers,
of texts and of floats, beside the same numbers as they are. The second has only pandas' own account
of its types, as fastparquet writes it. Needs pandas and pyarrow. """

import pathlib

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

HERE = pathlib.Path(__file__).parent
rows = range(3000)
frame = pd.DataFrame(
    {
        "y": [i // 3 % 2 for i in rows],
        "number": [10 * (i % 7) for i in rows],
        "half": [i % 5 / 2 for i in rows],
        "word": ["abc"[i % 3] for i in rows],
    }
)
frame["category"] = frame["number"].astype("category")
frame["half"] = frame["half"].astype("category")
frame["word"] = frame["word"].astype("category")
table = pa.Table.from_pandas(frame, preserve_index=False)
pq.write_table(table, HERE / "table.parquet", compression="zstd")
plain = pa.table(
    {
        name: table[name].cast(table[name].type.value_type) if pa.types.is_dictionary(table[name].type) else table[name]
        for name in table.column_names
    }
)
with pq.ParquetWriter(
    HERE / "fastparquet.parquet", plain.schema.remove_metadata(), compression="zstd", store_schema=False
) as out:
    out.write_table(plain.replace_schema_metadata(None))
    out.add_key_value_metadata({"pandas": table.schema.metadata[b"pandas"].decode()})
