// Package encode turns ids into numbers: for every level of a column, or of several columns together, the mean label
// and the count of its rows (docs/data.md). A row of train sees only earlier rows, in time or in a random order:
// ordered target statistics (Prokhorenkova, Gusev, Vorobev, Dorogush and Gulin, CatBoost: unbiased boosting with
// categorical features, NeurIPS 2018), here made once for a table instead of once for every training. All other rows,
// and those that are predicted later, get the statistics of all rows of train.
//
// Levels are 64-bit hashes here. Package ingest hashes a table's values, and a small model provided by the caller
// (Learner) decides which levels are worth a table.
package encode
