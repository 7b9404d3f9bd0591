// Package ingest turns tables into datasets: it reads CSV and Parquet, determines the kind of each column, bins it, and
// writes the files of package dataset. Stage does all of that; Encoder applies the same rules to later rows.
//
// A table is read twice, in batches: once for kinds, counts, ranges and a sample of rows to make bins from, once to
// write the bins. Memory does not grow with the number of rows. The same input gives the same bytes for any number of
// threads.
//
// Tables are untrusted input. A row that does not fit is a *table.Error that names file, line or row, and column.
package ingest
