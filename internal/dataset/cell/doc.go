// Package cell turns one value of a table into what a model sees, by the same rules in staging and in prediction:
//
//	what a text says: a number, a time, a missing value, an id in one of its spellings (text, timetext, spelling.go)
//	where bins end: FindBounds of a sample's distinct numbers, MostFrequent of its texts (binning.go, distinct.go)
//	value to bin: ColumnEncoder, for a column of a batch (column_encoder.go, search.go)
//	value to hash: PartReader for the levels of ids, Keys for splits and groups (part.go, hash.go)
//	raw rows to a model's inputs: Encoder, with the statistics of ids looked up (encoder.go, inputs.go)
package cell
