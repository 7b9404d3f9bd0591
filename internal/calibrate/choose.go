package calibrate

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/dustin/go-humanize"
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
//
// Rows divided by time are in its order, and their standard errors are at least those of stretches: tomorrow has the
// luck of its own day, too.
func Choose(raw []float64, label, weight []float32, byTime bool) (Choice, error) {
	none := Choice{Calibrator: &Calibrator{method: None}, Method: None}
	d, err := prepare(raw, label, weight, byTime)
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
	c := &Calibrator{method: Platt, a: max(0, 1+shrinkToZero(slope-1, e))}
	reason := fmt.Sprintf("the slope of the log odds is %.3g ± %.2g on %s rows of calib, %s of them positive",
		slope, e, humanize.Comma(int64(d.len())), humanize.Comma(int64(positives)))
	if c.a == 1 {
		reason += ", which chance explains"
	} else {
		reason += fmt.Sprintf(": they are multiplied by %.3g; the rest may be chance", c.a)
	}

	z := make([]float64, d.len())
	for i, r := range d.raw {
		z[i] = float64(c.a * r)
	}
	var by float64
	if c.c, by = d.solveLevel(z); by != 0 {
		c.c += by
		reason += fmt.Sprintf("; the share of positives is off beyond chance, and they move by %.2g", by)
	}
	if c.a == 1 && c.c == 0 {
		none.Reason = "uncalibrated: " + reason
		return none, nil
	}
	return Choice{Calibrator: c, Method: Platt, Reason: reason}, nil
}

// shrinkToZero is a difference drawn towards 0 by twice its standard error, and 0 where it is no larger: the positive
// part of the estimator of James and Stein (1961), in one dimension. One standard error and three gain less, and one
// harms more (docs/LAB.md).
func shrinkToZero(difference, e float64) float64 {
	if !(math.Abs(difference) > 2*e) {
		return 0
	}
	part := 2 * e / difference
	return difference * (1 - float64(part*part))
}

// solveLevel returns the constant that, added to the log odds z of all rows, makes their probabilities add up to what
// the raw scores do, and what to add to it because the labels add up to something else beyond chance.
func (d *data) solveLevel(z []float64) (kept, by float64) {
	scores, labels := 0.0, 0.0
	for i, r := range d.raw {
		scores += float64(d.weightOf(i) * sigmoid(r))
		labels += float64(d.weightOf(i) * float64(d.label[i]))
	}
	if !slices.Equal(z, d.raw) {
		kept, _ = d.moveTo(z, scores)
	}
	to, curvature := d.moveTo(z, labels)
	apart := d.varianceOverTime(func(i int) float64 { return (float64(d.label[i]) - sigmoid(z[i]+to)) / curvature })
	return kept, shrinkToZero(to-kept, math.Sqrt(max(1/curvature, apart)))
}

// moveTo returns the constant that, added to the log odds of all rows, makes their probabilities add up to total, and
// the curvature of the loss there, which is the inverse of its variance.
func (d *data) moveTo(z []float64, total float64) (by, curvature float64) {
	// Newton's method in one dimension on a concave function, with bounded steps.
	const steps, precise = 200, 1e-13
	for range steps {
		gradient := total
		curvature = 0
		for i, z := range z {
			p, w := sigmoid(z+by), d.weightOf(i)
			gradient -= float64(w * p)
			curvature += float64(w * float64(p*(1-p)))
		}
		step := min(max(gradient/curvature, -1), 1)
		if by += step; math.Abs(step) < precise {
			break
		}
	}
	return by, curvature
}

// varianceOverTime is the variance of an estimate over the stretches of time, where of is what each row adds to it; 0
// if rows are in no order.
func (d *data) varianceOverTime(of func(row int) float64) (variance float64) {
	if d.stretch == nil {
		return 0
	}
	var sums [stretches]float64
	for i, s := range d.stretch {
		sums[s] += float64(d.weightOf(i) * of(i))
	}
	for _, s := range sums {
		variance += float64(s * s)
	}
	return variance * stretches / (stretches - 1)
}
