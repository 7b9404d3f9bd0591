package calibrate

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/dustin/go-humanize"
)

// Choice is the result of Choose: a calibrator and the reason for it.
type Choice struct {
	Calibrator *Calibrator
	Method     Method
	Reason     string // in words, for people
}

// fewest is the number of rows from which on it is an error of Choose if all are of a single class. Fewer are just too
// few to calibrate.
const fewest = 10

// Choose calibrates the scores of rows that the model was not trained on, as far as these rows show that it is needed.
// A nil weight means 1 for every row.
//
// It computes a slope and a level. The slope of the log odds is that of a logistic regression of the labels on the
// scores, drawn towards 1 by its standard error, since what few rows say of it is mostly chance. The level stays such
// that predictions add up to what the raw scores' do: the model has learnt it from more rows than these. But if the
// labels add up to something else beyond two standard errors, the level is moved. That happens if the rows are newer
// than those of the training, or if those were weighted.
//
// With byTime, the rows are in the order of time. Then standard errors are at least what stretches of time show: the
// rows of a day share that day's luck, and tomorrow has its own.
//
// If fewer than two rows have a weight above 0, or there are fewer than ten rows and those of weight above 0 have the
// same label, the scores are left as they are. Other rows that cannot be calibrated are an error, which wraps one of
// the faults of this package.
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

	// The slope, and the reason in words.
	positives := 0
	for _, y := range d.label {
		positives += int(y)
	}
	slope, e := newPlatt(d).slope()
	c := &Calibrator{method: Platt, a: max(0, 1+shrinkToZero(slope-1, e))} // below 0, it would turn the ranking around
	reason := fmt.Sprintf("the slope of the log odds is %.3g ± %.2g on %s rows of calib, %s of them positive",
		slope, e, humanize.Comma(int64(d.len())), humanize.Comma(int64(positives)))
	if c.a == 1 {
		reason += ", which chance explains"
	} else {
		reason += fmt.Sprintf(": they are multiplied by %.3g; the rest may be chance", c.a)
	}

	// The level, given the slope.
	z := make([]float64, d.len())
	for i, r := range d.raw {
		z[i] = float64(c.a * r)
	}
	kept, by := d.solveLevel(z)
	c.c = kept + by
	if by != 0 {
		reason += fmt.Sprintf("; the share of positives is off beyond chance, and they move by %.2g", by)
	}
	if c.a == 1 && c.c == 0 {
		none.Reason = "uncalibrated: " + reason
		return none, nil
	}
	return Choice{Calibrator: c, Method: Platt, Reason: reason}, nil
}

// shrinkToZero draws a difference with standard error e towards 0; up to twice e it becomes 0. It is the positive part
// of the estimator of James and Stein (1961) in one dimension, with twice the standard error. One and three standard
// errors in place of two were measured to gain less, and one also to harm more (docs/LAB.md).
func shrinkToZero(difference, e float64) float64 {
	if !(math.Abs(difference) > 2*e) {
		return 0
	}
	part := 2 * e / difference
	return difference * (1 - float64(part*part))
}

// solveLevel returns two constants to be added to the log odds z, [rows]. With kept, the probabilities add up to what
// those of the raw scores do. by is to be added as well if the labels add up to something else beyond chance; otherwise
// it is 0.
func (d *data) solveLevel(z []float64) (kept, by float64) {
	scores, labels := 0.0, 0.0
	for i, r := range d.raw {
		scores += float64(d.weightOf(i) * sigmoid(r))
		labels += float64(d.weightOf(i) * float64(d.label[i]))
	}

	// The constants that make the probabilities add up to each of the two sums.
	if !slices.Equal(z, d.raw) {
		kept, _ = d.moveTo(z, scores)
	}
	to, curvature := d.moveTo(z, labels)
	apart := d.varianceOverTime(func(i int) float64 { return (float64(d.label[i]) - sigmoid(z[i]+to)) / curvature })
	return kept, shrinkToZero(to-kept, math.Sqrt(max(1/curvature, apart)))
}

// moveTo returns the constant that, added to the log odds z of all rows, makes their probabilities add up to total
// (both by weight). total must be above 0 and below the weight of all rows. It also returns the curvature of the log
// loss there, by this constant; one over it is the constant's variance.
func (d *data) moveTo(z []float64, total float64) (by, curvature float64) {
	// Newton's method in one dimension on a concave function. Steps are bounded, because they become much too long
	// where almost all probabilities are near 0 or 1 and the curvature is near 0.
	const steps, precise = 200, 1e-13
	for range steps {
		gradient := total
		curvature = 0
		for i, logOdds := range z {
			p, w := sigmoid(logOdds+by), d.weightOf(i)
			gradient -= float64(w * p)
			curvature += float64(w * float64(p*(1-p)))
		}
		step := min(max(gradient/curvature, -1), 1)
		by += step
		if math.Abs(step) < precise {
			break
		}
	}
	return by, curvature
}

// varianceOverTime is the variance of an estimate as the stretches of time show it: each stretch counts as a single
// observation. of returns what a row of weight 1 adds to the estimate. The result is 0 if the rows are in no order of
// time.
func (d *data) varianceOverTime(of func(row int) float64) (variance float64) {
	if d.stretch == nil {
		return 0
	}

	// The variance of a sum of independent terms with mean 0 is the sum of their squares, times n/(n-1).
	var sums [stretches]float64
	for i, s := range d.stretch {
		sums[s] += float64(d.weightOf(i) * of(i))
	}
	for _, s := range sums {
		variance += float64(s * s)
	}
	return variance * stretches / (stretches - 1)
}
