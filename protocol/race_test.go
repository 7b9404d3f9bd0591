//go:build race

package protocol

// The race detector makes a walk ten times as long, and there is but one goroutine: it sees the nearest states only.
const (
	racing     = true
	mostStates = 250_000
)
