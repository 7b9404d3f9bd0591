//go:build !race

package gbt

// raceEnabled says that the race detector is on.
const raceEnabled = false
