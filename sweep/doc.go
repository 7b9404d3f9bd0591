// Package sweep is the contract between Coppice's stages: what a sweep.yaml may say, what the objects and messages of a
// running sweep are called and hold, which exit codes and environment variables the programs use. WIRE.md beside it is
// the same in prose, with who writes what and why a repeat is harmless.
//
// It knows nobody: no storage, no clock, no engine. Whoever reads an object of another program goes through a decoder of
// this package, because what lies in a bucket may have been written by anyone.
package sweep
