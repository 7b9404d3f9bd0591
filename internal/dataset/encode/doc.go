// Package encode turns ids into numbers: for every level of a column, or of several columns together, the mean label
// and the count of its rows (docs/data.md). A row of train sees only earlier rows, in time or in a random order:
// ordered target statistics (Prokhorenkova, Gusev, Vorobev, Dorogush and Gulin, CatBoost: unbiased boosting with
// categorical features, NeurIPS 2018), here made once for a table instead of once for every training. All other rows,
// and those that are predicted later, get the statistics of all rows of train.
//
// Levels are 64-bit hashes here; package ingest hashes a table's values. A Search decides which combinations of columns
// are worth statistics, with a small model that the caller provides (Learner). A Maker then makes the statistics: Add
// stores all rows in a spool, and Run loads the rows of train block by block in their order, adds them to a hash table
// per key, and passes on the binned statistics of each row.
package encode
