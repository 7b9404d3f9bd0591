// Package e2e holds the tests of the built programs: whole sweeps on the local cloud, calm and under faults, and models
// that Python loads. They take minutes and are run by `make e2e`, `make chaos`, `make interop` and `make quality`, with
// the tag e2e.
package e2e
