//go:build !race

package gbt

// raceEnabled says whether the race detector is on.
const raceEnabled = false
