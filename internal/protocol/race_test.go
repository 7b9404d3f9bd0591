//go:build race

package protocol

// The race detector makes an exploration ten times as long, and there is only one goroutine to check; so only the
// nearest states are explored.
const (
	racing     = true
	mostStates = 250_000
)
