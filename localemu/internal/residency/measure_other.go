//go:build !linux

package residency

// Measure cannot measure here.
func Measure(string, []int) (Sample, error) { return Sample{}, ErrUnsupported }
