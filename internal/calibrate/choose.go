package calibrate

import (
	"errors"
	"fmt"
	"math"
)

// Choice is a calibrator, and why it is as it is.
type Choice struct {
	Calibrator *Calibrator
	Method     Method
	Reason     string // in words, for people
}

// fewest is how many rows of one class alone are a fault.
const fewest = 10

// Choose calibrates the scores of rows that the model was not trained on, as far as these rows show that it is needed.
// The slope of the log odds, that of a logistic regression of the labels on the scores, is drawn towards 1 by its
// standard error: what few rows say of it is mostly chance. Predictions add up to what they did, as the model has its
// level from more rows than these, unless the labels add up to something else beyond two standard errors: rows may be
// newer than those of the training, or have been weighted there. Rows of too few labels leave the scores as they are.
// Others that cannot be calibrated are an error, which wraps one of the faults above.
func Choose(raw []float64, label, weight []float32) (Choice, error) {
	none := Choice{Calibrator: &Calibrator{method: None}, Method: None}
	d, err := prepare(raw, label, weight)
	if errors.Is(err, ErrTooFew) || errors.Is(err, ErrOneClass) && len(raw) < fewest {
		none.Reason = fmt.Sprintf("uncalibrated: %d rows of calib have too few labels of one kind", len(raw))
		return none, nil
	}
	if err != nil {
		return Choice{}, err
	}

	positives := 0
	for _, y := range d.label {
		positives += int(y)
	}
	slope, e := newPlatt(d).slope()
	c := &Calibrator{method: Platt, a: max(0, 1+drawn(slope-1, e))}
	reason := fmt.Sprintf("the slope of the log odds is %.3g ± %.2g on %d rows of calib, %d of them positive", slope,
		e, d.len(), positives)
	if c.a == 1 {
		reason += ", which chance explains"
	} else {
		reason += fmt.Sprintf(": they are multiplied by %.3g", c.a)
	}

	z, kept, labels := make([]float64, d.len()), 0.0, 0.0
	for i, r := range d.raw {
		z[i] = float64(c.a * r)
		kept += float64(d.weightOf(i) * sigmoid(r))
		labels += float64(d.weightOf(i) * float64(d.label[i]))
	}
	if c.a != 1 {
		c.c, _ = d.moveTo(z, kept)
	}
	to, moved := d.moveTo(z, labels)
	if by := drawn(to-c.c, moved); by != 0 {
		c.c += by
		reason += fmt.Sprintf("; their labels have another rate beyond chance, and they move by %.2g", by)
	}
	if c.a == 1 && c.c == 0 {
		none.Reason = "uncalibrated: " + reason
		return none, nil
	}
	return Choice{Calibrator: c, Method: Platt, Reason: reason}, nil
}

// drawn is a difference drawn towards 0 by twice its standard error, and 0 where it is no larger: the positive part of
// the estimator of James and Stein (1961), in one dimension. One standard error and three gain less, and one harms more
// (docs/LAB.md).
func drawn(difference, e float64) float64 {
	if !(math.Abs(difference) > 2*e) {
		return 0
	}
	part := 2 * e / difference
	return difference * (1 - float64(part*part))
}

// moveTo returns the constant that, added to the log odds of all rows, makes their probabilities add up to total, and
// its standard error.
func (d *data) moveTo(z []float64, total float64) (by, e float64) {
	// Newton's method in one dimension on a concave function, with bounded steps.
	const steps, precise = 200, 1e-13
	for range steps {
		gradient, curvature := total, 0.0
		for i, z := range z {
			p, w := sigmoid(z+by), d.weightOf(i)
			gradient -= float64(w * p)
			curvature += float64(w * float64(p*(1-p)))
		}
		e = 1 / math.Sqrt(curvature)
		step := min(max(gradient/curvature, -1), 1)
		if by += step; math.Abs(step) < precise {
			break
		}
	}
	return by, e
}
