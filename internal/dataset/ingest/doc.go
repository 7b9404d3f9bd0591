// Package ingest makes a dataset of a table: Stage does all of it; Encoder applies the same rules to later rows.
//
// A row's way:
//
//	table.Table.Read     a batch of columns, as the file has them
//	cleanRows.eachBatch  rows.go: without rows whose label is missing, not final or left out; with derived columns
//	observeBatch         first pass: kinds, counts, ranges, and a sample of train (survey.go, survey_column.go)
//	survey.describe      between the passes: bins of the sample (cell.FindBounds), what becomes of ids (design.go)
//	pass.writeBatch      second pass, over the same clean rows: to its split (dealRows), value to bin (writeColumn)
//	dataset.Writer       its bins by column and by row, its label, weight, group and fold; ids wait in encode.Maker
//
// A table is read twice, whatever its size, and memory does not grow with its rows. With label.matures and no time from
// which ages count, the newest time has to be known before the first row can be judged: then its column is read once
// more, before (ripener.resolve). The same input gives the same bytes for any number of threads.
//
// Tables are untrusted input. A row that does not fit is a *table.InputError that names file, line or row, and column.
package ingest
