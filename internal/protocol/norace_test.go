//go:build !race

package protocol

const (
	racing     = false
	mostStates = 4_000_000
)
