//go:build race

package ingest

// raceEnabled says that the race detector is on, which makes everything ten times slower.
const raceEnabled = true
