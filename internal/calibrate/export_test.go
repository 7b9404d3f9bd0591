package calibrate

// Fit returns the regression that Choose draws back, as it is, and calibrators of the other methods.
func Fit(method Method, raw []float64, label, weight []float32) (*Calibrator, error) {
	d, err := prepare(raw, label, weight, false)
	if err != nil {
		return nil, err
	}
	if method == None {
		return &Calibrator{method: None}, nil
	}
	l := newPlatt(d)
	slope, _ := l.slope() // 1 if the scores are equal: the regression has none then
	a := max(0, slope)
	best, _ := newPlatt(d).fit()
	return &Calibrator{method: Platt, a: a, c: best.c - a*l.mean}, nil
}

// Methods are all methods.
func Methods() []Method { return []Method{None, Platt} }
