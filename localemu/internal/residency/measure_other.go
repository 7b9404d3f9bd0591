//go:build !linux

package residency

// Measure is not supported on this system.
func Measure(string, []int) (Sample, error) { return Sample{}, ErrUnsupported }

// Held is not supported on this system.
func Held(int) (int64, error) { return 0, ErrUnsupported }
