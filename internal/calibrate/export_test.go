package calibrate

// Fit returns the regression that Choose draws back, as it is, and calibrators of the other methods.
func Fit(method Method, raw []float64, label, weight []float32) (*Calibrator, error) {
	d, err := prepare(raw, label, weight)
	if err != nil {
		return nil, err
	}
	switch method {
	case Isotonic: // of earlier builds
		c := &Calibrator{method: Isotonic}
		for x := -6.0; x < 6; x += 1.0 / 64 {
			c.x, c.y = append(c.x, x), append(c.y, sigmoid(2*x-1))
		}
		return c, nil
	case Platt:
		l := newPlatt(d)
		best, _ := l.fit()
		a := max(0, best.slope/l.scale)
		return &Calibrator{method: Platt, a: a, c: best.c - a*l.mean}, nil
	}
	return &Calibrator{method: None}, nil
}

// Methods are all methods.
func Methods() []Method { return []Method{None, Platt, Isotonic} }
