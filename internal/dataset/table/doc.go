// Package table reads and writes tables as columns of rows: CSV and Parquet, and JSON lines, which are only read:
//
//	Expand lists a source's files; Open reads their headers and matches their columns
//	  by its first bytes and its name each file is delimited text (csv.go), lines of JSON objects
//	  (jsonl.go) or Parquet (parquet.go): a source
//	  a source fills batches; Table.Read passes them on, file after file, one read ahead of its use
//	a Batch is some consecutive rows: for each column asked for, dataset.Values
//
// The seam between the formats and everything behind them is source (table_read.go), and what crosses it is a
// Batch of dataset.Values: texts, 64-bit floats or 64-bit integers (Bool, Int, Time with a unit), and which are null.
// What a text means, and which values stand for a missing one, is decided behind the seam.
//
// Tables are untrusted input. What cannot be read is an *InputError that names file, line or row, and column
// where possible.
package table
