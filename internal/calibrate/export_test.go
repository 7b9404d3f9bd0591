package calibrate

import "slices"

// Fit calibrates raw scores to labels 0 and 1. weight may be nil. Errors are *DataError. When all scores are equal,
// every method gives the smoothed share of positives everywhere, but None, which has nothing to fit.
func Fit(method Method, raw []float64, label, weight []float32) (*Calibrator, error) {
	if !slices.Contains(Methods(), method) {
		return nil, &MethodError{Method: method}
	}
	d, err := prepare(raw, label, weight)
	if err != nil {
		return nil, err
	}
	return newFitter(method, d).fit(everyFold), nil
}
