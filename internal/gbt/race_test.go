//go:build race

package gbt

// raceEnabled says whether the race detector is on, which makes everything ten times slower.
const raceEnabled = true
