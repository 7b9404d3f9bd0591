// Package sweep is the contract between Coppice's stages: the contents of a sweep.yaml, the names and contents of a
// running sweep's objects and messages, and the programs' exit codes and environment variables. WIRE.md beside it
// describes the same in prose, with the writer of each object and why repeating a write is harmless.
//
// It depends on no storage, clock or engine. Objects of other programs must be read through this package's decoders,
// because a bucket's contents may have been written by anyone.
package sweep
