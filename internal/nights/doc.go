// Package nights compares the table of a night with those of the nights before, and reports what is wrong with it
// before anything is trained on it: columns that are missing, renamed or in another unit, repeated rows, labels that
// were lost, shuffled or inverted. What is usual is learnt from accepted nights; the dataset's spec may add rules
// (dataset.ContractSpec). A night is one version of a dataset, staged for one day.
//
// Measure makes a Profile of a night, Compare finds what has changed. Both are pure functions: nothing is read or
// written, and the same rows give the same findings.
//
// The thresholds were chosen by hand, with the tuned kinds of faults of nightstest in view (Kind.Tuned). How they do on
// the other kinds and on good nights is measured in docs/LAB.md. A number with another source says so.
//
//	Measure            profile.go, column.go, segments.go, ties.go: a night in numbers
//	NewWitness         witness.go: the mean label that earlier nights lead to expect of each row
//	Compare            compare.go: tonight's numbers against the range of each over recent nights:
//	  itself, first    compare_first.go: copies, columns that duplicate others
//	  columns, rows    compare_columns.go, compare_volume.go: what is missing, repeated, late
//	  values, labels   compare_values.go, within.go, compare_labels.go, segments.go: what has moved by more than it
//	                   ever did, in all rows, in those with one level, and in parts of the table
//	Finding, Record    finding.go, record.go: what is said of it, and kept for the next night
package nights
