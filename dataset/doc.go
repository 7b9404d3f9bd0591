// Package dataset is the binned file that every candidate of a sweep trains on: how it is written, opened by mmap and
// verified. FORMAT.md beside it is the same in prose.
//
// A dataset is a folder. Each of its splits (train, valid, calib, test) holds the binned values twice, one byte per value,
// as uncompressed Arrow IPC files that other tools can read too: row by row for building histograms, and column by column
// for partitioning and prediction. Opening maps the files and checks their metadata; it costs the same whatever their
// size, and every process of a machine shares one copy in the page cache.
//
// Files come out of buckets and off other people's disks, so every decoder of this package validates before it believes:
// what is wrong is a typed error that names file and byte, never a fault.
package dataset
