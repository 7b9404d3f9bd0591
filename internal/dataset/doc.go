// Package dataset defines the binned dataset that every trial of a sweep trains on: how it is written, opened by mmap
// and verified. FORMAT.md beside it describes the format.
//
// A dataset is a folder. Each of its splits (train, valid, calib, test) holds the binned values twice, one byte per
// value, as uncompressed Arrow IPC files that other tools can read too: row by row for building histograms, and column
// by column for partitioning and prediction. Opening maps the files and checks their metadata; its cost does not depend
// on their size, and all processes of a machine share one copy in the page cache.
//
// Files come from buckets and from others' disks, so every decoder of this package validates its input: an error is
// typed and names file and byte; invalid input never causes a fault.
package dataset
