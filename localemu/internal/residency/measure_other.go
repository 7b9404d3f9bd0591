//go:build !linux

package residency

// Measure is not supported on this system.
func Measure(string, []int) (Sample, error) { return Sample{}, ErrUnsupported }
