// Package calibrate turns raw scores into calibrated probabilities: of the rows that get 0.03, three in a hundred are
// positive. It fits isotonic regression, Platt's sigmoid and beta calibration, and chooses between them by
// cross-validated log loss (Choose).
//
// A raw score is the model's output in log odds, before any sigmoid. Every calibrator is non-decreasing (up to the last
// bit of math.Exp), so it does not change rankings, and stays within 1e-15 and 1 - 1e-15, so that log losses stay
// finite.
//
// Weights are relative. They are scaled to add up to the effective number of rows (Kish 1965: the square of their sum
// divided by the sum of their squares), because all methods smooth with imaginary rows, whose influence must not depend
// on the weights' unit.
//
// The same rows give the same bytes for any number of processors.
package calibrate

import (
	"fmt"
	"math"
	"slices"
)

// Method is a way of calibrating.
type Method string

// The methods.
const (
	Isotonic Method = "isotonic" // non-decreasing and piecewise linear: needs many rows, assumes nothing
	Platt    Method = "platt"    // a sigmoid of the raw score: two parameters
	Beta     Method = "beta"     // a sigmoid of ln p and ln(1-p): three parameters
	None     Method = "none"     // the plain sigmoid, as the model was trained
)

// Methods returns all methods.
func Methods() []Method { return []Method{Isotonic, Platt, Beta, None} }

const (
	// maxRaw bounds raw scores, so that their squares do not overflow.
	maxRaw = 1e100
	// edge is the least distance of a probability from 0 and 1.
	edge = 1e-15
)

// Calibrator maps raw scores to probabilities. It is made by Fit or Decode, is immutable, and safe for concurrent use.
type Calibrator struct {
	method Method
	// Isotonic: x is strictly ascending, y non-decreasing.
	x, y []float64
	// Platt: sigmoid(a raw + c). Beta, with p = sigmoid(raw): sigmoid(a ln p - b ln(1-p) + c). a and b are not
	// negative.
	a, b, c float64

	segments *Segments // nil: every row is calibrated alike
}

// Method returns how the calibrator was fitted.
func (c *Calibrator) Method() Method { return c.method }

// String describes the calibrator in a few words, for people.
func (c *Calibrator) String() string {
	switch c.method {
	case Isotonic:
		return fmt.Sprintf("isotonic with %d knots from %.4g to %.4g", len(c.x), c.y[0], c.y[len(c.y)-1])
	case Platt:
		return fmt.Sprintf("sigmoid(%.6g raw %+.6g)", c.a, c.c)
	case Beta:
		return fmt.Sprintf("sigmoid(%.6g ln p %+.6g ln(1-p) %+.6g)", c.a, -c.b, c.c)
	}
	return "sigmoid(raw)"
}

// Predict returns the probability for a raw score outside of all segments; NaN for NaN.
//
// Isotonic calibration is constant over each stretch of rows that were pooled and linear between neighbouring
// stretches; outside the scores that it was fitted to it stays at its first and last value.
func (c *Calibrator) Predict(raw float64) float64 {
	if math.IsNaN(raw) {
		return raw
	}

	raw = min(max(raw, -maxRaw), maxRaw)
	switch c.method {
	case Isotonic:
		i, _ := slices.BinarySearch(c.x, raw)
		return c.between(i, raw)
	case Platt:
		return sigmoid(float64(c.a*raw) + c.c)
	case Beta:
		u, v := logarithms(raw)
		return sigmoid(float64(c.a*u) + float64(c.b*v) + c.c)
	}
	return sigmoid(raw)
}

// PredictAll appends the probability of every raw score to dst, which may be nil or raw[:0].
func (c *Calibrator) PredictAll(dst, raw []float64) []float64 {
	dst = slices.Grow(dst, len(raw))
	for _, r := range raw {
		dst = append(dst, c.Predict(r))
	}
	return dst
}

// between is the value at raw, where i is the first knot not below it.
func (c *Calibrator) between(i int, raw float64) float64 {
	if i == 0 {
		return c.y[0]
	}
	if i == len(c.x) {
		return c.y[i-1]
	}
	x0, x1, y0, y1 := c.x[i-1], c.x[i], c.y[i-1], c.y[i]
	t := (raw - x0) / (x1 - x0)
	return min(y0+float64((y1-y0)*t), y1) // rounding must not raise it above the next knot
}

// fitter fits one method to the same rows repeatedly, leaving out a different fold each time.
type fitter struct {
	method Method
	d      *data
	l      *logistic
	from   coefficients // of the first fit; the starting point of the others
}

func newFitter(method Method, d *data) *fitter {
	f := &fitter{method: method, d: d}
	if method == Platt || method == Beta {
		f.l = newLogistic(method, d)
	}
	return f
}

func (f *fitter) fit(without int) *Calibrator {
	switch {
	case f.l != nil:
		found := f.l.fit(without, f.from)
		if !f.from.begun {
			f.from = found
		}
		return f.l.calibrator(found)
	case f.method == Isotonic:
		return fitIsotonic(f.d, without)
	}
	return &Calibrator{method: None}
}

// sigmoid is written so that rounding keeps its order: the quotient e/(1+e), usual for negative z, does not.
func sigmoid(z float64) float64 {
	return min(max(1/(1+math.Exp(-z)), edge), 1-edge)
}

// logarithms are ln p and -ln(1-p) of p = sigmoid(raw), exact where p itself would round to 0 or 1.
func logarithms(raw float64) (u, v float64) {
	l := math.Log1p(math.Exp(-math.Abs(raw)))
	return min(raw, 0) - l, max(raw, 0) + l
}
