package calibrate

import "math"

// Level returns the calibrator, moved in log odds until its predictions of the rows add up to their labels. It is for a
// model that has been trained on these rows, unlike the one that c was fitted to: what c says of the shape of such
// models' scores stays, but the level is the new model's own. Weights and errors are as in Choose.
func (c *Calibrator) Level(raw []float64, label, weight []float32) (*Calibrator, error) {
	d, err := prepare(raw, label, weight)
	if err != nil {
		return nil, err
	}
	z := make([]float64, d.len())
	for i, r := range d.raw {
		p := c.Predict(r)
		z[i] = math.Log(p) - math.Log1p(-p)
	}

	labels := 0.0
	for i, l := range d.label {
		labels += float64(d.weightOf(i) * float64(l))
	}
	by, _ := d.moveTo(z, labels)
	return c.moved(by), nil
}

// moved is the calibrator with a constant added to its log odds, at the knots of an isotonic one.
func (c *Calibrator) moved(by float64) *Calibrator {
	out := *c
	switch c.method {
	case Isotonic:
		out.y = make([]float64, len(c.y))
		for i, p := range c.y {
			out.y[i] = sigmoid(math.Log(p) - math.Log1p(-p) + by)
		}
	case Platt:
		out.c += by
	default:
		out.method, out.a, out.c = Platt, 1, by
	}
	return &out
}
