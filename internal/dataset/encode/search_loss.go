package encode

import (
	"math"
)

// isHeldOut reports whether row i is held out in some fold.
func (r *run) isHeldOut(i int) bool { return int(r.heldOutIn[i]) < len(r.folds) }

// lossOf returns the loss of row i with this score: log loss for a binary label, else half the squared error.
func (s *Search) lossOf(i int, score float64) float64 {
	y := float64(s.Label[i])
	if !s.Binary {
		return (y - score) * (y - score) / 2
	}

	// The log loss is log(1 + exp(score)) for label 0, and the same of -score for label 1. Written with exp(-|score|),
	// it does not overflow.
	if y > 0 {
		score = -score
	}
	return max(score, 0) + math.Log1p(math.Exp(-math.Abs(score)))
}

// slope is how a row's loss changes with its score: g is the negative first derivative, and h the second derivative.
type slope struct{ g, h float64 }

// slopeOf returns the slope of lossOf for row i at this score.
func (s *Search) slopeOf(i int, score float64) slope {
	y := float64(s.Label[i])
	if !s.Binary {
		return slope{y - score, 1}
	}
	p := 1 / (1 + math.Exp(-score)) // of label 1
	return slope{y - p, p * (1 - p)}
}

// lossHasRisen reports whether a batch of keys has to be undone. before is the losses without the batch, of the same
// rows as r.loss. Without times, the batch is undone if the mean loss has risen by more than patience standard errors.
// With times the test is stricter: the batch is undone unless the loss has clearly fallen, since rows of one day err
// together.
func (r *run) lossHasRisen(before []float64) bool {
	if r.validationRows != nil {
		return !LossHasFallen(before, r.loss, acceptErrors)
	}
	mean, standardError := r.meanChange(before)
	return mean > patience*standardError
}

// meanChange returns the mean of r.loss minus before, row by row, and its standard error. Rows without a loss (NaN) are
// left out. Both results are NaN if before has no rows.
func (r *run) meanChange(before []float64) (mean, standardError float64) {
	n, total, squares := 0.0, 0.0, 0.0
	for i, b := range before {
		if change := r.loss[i] - b; !math.IsNaN(change) {
			n++
			total += change
			squares += change * change
		}
	}
	mean = total / n
	variance := max(squares/n-mean*mean, 0) // of one row's change; rounding could make it negative
	return mean, math.Sqrt(variance / n)
}

// settledShare is the share of a constant model's loss below which no keys are looked for: the columns predict nearly
// perfectly then. On such a table every pair of columns seems to help, and a search would take minutes for nothing.
const settledShare = 0.01

// constantLoss returns the mean loss of the held-out rows if each is predicted as their mean label.
func (r *run) constantLoss() float64 {
	labels, n := 0.0, 0
	for i := range r.score {
		if r.isHeldOut(i) {
			labels, n = labels+float64(r.s.Label[i]), n+1
		}
	}
	score := labels / float64(n)
	if r.s.Binary {
		score = math.Log(score / (1 - score)) // log odds
	}

	loss := 0.0
	for i := range r.score {
		if r.isHeldOut(i) {
			loss += r.s.lossOf(i, score)
		}
	}
	return loss / float64(n)
}

// meanLoss returns the mean of r.loss.
func (r *run) meanLoss() float64 {
	return sum(r.loss) / float64(len(r.loss))
}
