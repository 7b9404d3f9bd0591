package calibrate

// Level adapts a calibrator to another model, trained with the same parameters on more rows, among them those given.
// These are in the order of time. c was fitted to the scores of the first model, and its slope is kept.
//
// The level is chosen such that predictions add up to what the new model's uncalibrated ones do. If the labels add up
// to something else, beyond what stretches of time differ by, the log odds are moved towards that: all of the way if
// all is true, which is for a model whose objective shifts its level. Otherwise they move half of the way, since half
// of what is special about the newest rows does not last (docs/LAB.md).
//
// Weights and errors are as in Choose. c is not changed.
func (c *Calibrator) Level(raw []float64, label, weight []float32, all bool) (*Calibrator, error) {
	d, err := prepare(raw, label, weight, true)
	if err != nil {
		return nil, err
	}

	// The calibrated log odds, and how far to move them.
	z := make([]float64, d.len())
	for i, r := range d.raw {
		z[i] = r
		if c.method == Platt {
			z[i] = float64(c.a*r) + c.c
		}
	}
	kept, by := d.solveLevel(z)
	if !all {
		by /= 2
	}

	// A calibrator without parameters gets a slope of 1.
	out := *c
	switch {
	case kept+by == 0:
		return c, nil
	case c.method == None:
		out = Calibrator{method: Platt, a: 1}
	}
	out.c += kept + by
	return &out, nil
}
