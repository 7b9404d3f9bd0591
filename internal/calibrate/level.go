package calibrate

// Level adapts a calibrator to another model, trained with the same parameters on more rows, among them those given.
// These are in the order of time. c was fitted to the scores of the first model, and its slope is kept.
//
// The level is chosen such that predictions add up to what the new model's uncalibrated ones do. If the labels add up
// to something else, beyond what chance and the differences between stretches of time explain, the log odds are moved
// towards that by what is left of the difference after shrinkToZero. With all, they move by all of this, which is for a
// model whose objective shifts its level. Otherwise they move by half, since half of what is special about the newest
// rows does not last (docs/LAB.md).
//
// A nil weight means 1 for every row. Rows that cannot be calibrated are an error, which wraps one of the faults of
// this package. c is not changed; it is returned itself if nothing is to be added.
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
