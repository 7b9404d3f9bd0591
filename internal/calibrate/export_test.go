package calibrate

// Fit fits one method to all rows, as Choose fits the best. When all scores are equal, every method gives the smoothed
// share of positives everywhere, but None, which has nothing to fit.
func Fit(method Method, raw []float64, label, weight []float32) (*Calibrator, error) {
	d, err := prepare(raw, label, weight)
	if err != nil {
		return nil, err
	}
	return d.fitter(method)(everyFold), nil
}

// Methods are all methods.
func Methods() []Method { return methods }
