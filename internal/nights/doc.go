// Package nights compares the table of a night with those of the nights before, and reports what is wrong with it
// before anything is trained on it: columns that are missing, renamed or in another unit, repeated rows, labels that
// were lost, shuffled or inverted. What is usual is learnt from accepted nights; the dataset's spec may add rules
// (dataset.ContractSpec).
//
// Measure makes a Profile of a night, Compare finds what has changed. Both are pure functions: nothing is read or
// written, and the same rows give the same findings.
package nights
