// Package ingest turns tables into datasets: it reads CSV and Parquet, finds out what each column is, bins it, and writes
// the files of package dataset. Stage does all of that; Encoder applies the same rules to rows that come later.
//
// A table is read twice, in batches: once to learn kinds, counts, ranges and a sample of rows to make bins from, once to
// write the bins. What is kept in memory does not grow with the number of rows. The same input gives the same bytes,
// whatever the number of threads.
//
// Tables are other people's files. A row that does not fit is a *TableError that names file, line or row, and column.
package ingest
