// Package encode makes numbers of ids: for every level of a column, or of several columns together, the mean label and the
// count of its rows (docs/ids.md). A row of train sees only the rows that come before it in time, or in an order drawn by
// lot: ordered target statistics (Prokhorenkova, Gusev, Vorobev, Dorogush and Gulin, CatBoost: unbiased boosting with
// categorical features, NeurIPS 2018), here made once for a table instead of once for every training. All other rows, and
// those that are predicted later, get the statistics of all rows of train.
//
// It knows levels as hashes of 64 bits. How a table's values become hashes is package ingest's matter, and which levels are
// worth a table is asked of a small model that the caller lends (Learner).
package encode
