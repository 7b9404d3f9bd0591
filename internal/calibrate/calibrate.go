// Package calibrate turns raw scores into calibrated probabilities: of the rows that get 0.03, three in a hundred are
// positive. Choose corrects the slope and the level of the log odds, as far as the rows show beyond chance that it is
// needed:
//
//	raw scores, labels, weights -> data (checked, sorted) -> slope and its error -> Choice
//	Choice.Calibrator -> calibrator.json -> Predict
//
// A raw score is the model's output in log odds, before any sigmoid. Every calibrator is non-decreasing (up to the last
// bit of math.Exp), so it does not change rankings, and stays within 1e-15 and 1 - 1e-15, so that log losses stay
// finite.
//
// Weights are relative: only their proportions count. They are scaled to add up to the effective number of rows (Kish
// 1965: the square of their sum divided by the sum of their squares), so that standard errors do not depend on their
// unit.
//
// The same rows give the same bytes for any number of processors.
package calibrate

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Method is a way of calibrating.
type Method string

// The methods.
const (
	Platt Method = "platt" // a sigmoid of the raw score: two parameters
	None  Method = "none"  // the plain sigmoid, as the model was trained
)

const (
	// maxRaw bounds raw scores, so that their squares do not overflow.
	maxRaw = 1e100
	// edge is the least distance of a probability from 0 and 1.
	edge = 1e-15
)

// Calibrator maps raw scores to probabilities. It is made by Choose, Level or Decode, is immutable, and safe for
// concurrent use.
type Calibrator struct {
	method Method
	a, c   float64 // Platt: sigmoid(a raw + c). a is not negative.
}

// Method returns how the calibrator was fitted.
func (c *Calibrator) Method() Method { return c.method }

// String describes the calibrator in a few words, for people.
func (c *Calibrator) String() string {
	if c.method == Platt {
		return fmt.Sprintf("sigmoid(%.6g raw %+.6g)", c.a, c.c)
	}
	return "sigmoid(raw)"
}

// Predict returns the probability for a raw score; NaN for NaN. A score beyond ±maxRaw counts as ±maxRaw.
func (c *Calibrator) Predict(raw float64) float64 {
	if math.IsNaN(raw) {
		return raw
	}

	raw = min(max(raw, -maxRaw), maxRaw)
	if c.method == Platt {
		return sigmoid(float64(c.a*raw) + c.c)
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

// sigmoid is 1 / (1 + e^-z), limited to edge and 1-edge. For negative z it is often computed as e^z / (1 + e^z), but
// with rounding that is not always ascending.
func sigmoid(z float64) float64 {
	return min(max(1/(1+math.Exp(-z)), edge), 1-edge)
}

// Faults of the rows, for use with errors.Is.
var (
	ErrTooFew   = errors.New("there are too few rows")
	ErrLength   = errors.New("the columns have different lengths")
	ErrScore    = errors.New("the raw score cannot be used")
	ErrLabel    = errors.New("the label cannot be used")
	ErrWeight   = errors.New("the weight cannot be used")
	ErrOneClass = errors.New("all labels are the same")
)

// fault returns an error that wraps what and reads "calibrate: row N: what: detail". A row of -1 stands for no single
// row.
func fault(row int, what error, format string, args ...any) error {
	where := ""
	if row >= 0 {
		where = fmt.Sprintf("row %d: ", row)
	}
	return fmt.Errorf("calibrate: %s%w: %s", where, what, fmt.Sprintf(format, args...))
}
