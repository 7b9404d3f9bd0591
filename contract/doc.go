// Package contract compares the table of a night with those of the nights before, and says what is wrong with it before anything is
// trained on it: columns that are missing, renamed or in another unit, rows that come twice, labels that were lost, shuffled or turned
// round. What is usual is learnt from the nights that were accepted; the dataset's spec may say more (dataset.ContractSpec).
//
// Measure makes a Profile of a night, Compare finds what has changed. Both are pure: nothing is read or written, and the same rows
// give the same findings.
package contract
