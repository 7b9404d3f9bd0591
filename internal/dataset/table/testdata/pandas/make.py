"""Writes tables with an index as pandas does: python make.py (pandas 3.1, pyarrow 26)."""
import pandas

frame = pandas.DataFrame({"y": [0, 1, 0, 1], "a": [4, 3, 2, 1]})
frame.query("a != 3").to_parquet("unnamed.parquet")  # __index_level_0__
frame.set_index(pandas.Index([7, 9, 8, 12], name="row")).to_parquet("named.parquet")
frame.to_parquet("range.parquet")  # no column
