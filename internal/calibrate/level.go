package calibrate

// Level returns the calibrator with a level of its own for a model that has been trained on the rows, in order of time,
// unlike the one that c was fitted to: what c says of the shape of such models' scores stays, but predictions add up to
// what they did, unless the labels add up to something else beyond what stretches of time differ by. Then they move
// half of the way, since half of what the newest rows have of their own does not last (docs/LAB.md), or all of it, for
// a model whose level is not that of its labels. Weights and errors are as in Choose.
func (c *Calibrator) Level(raw []float64, label, weight []float32, all bool) (*Calibrator, error) {
	d, err := prepare(raw, label, weight, true)
	if err != nil {
		return nil, err
	}
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
