//go:build !race

package ingest

// raceEnabled says that the race detector is on.
const raceEnabled = false
