package calibrate

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"coppice/internal/random"
)

// Choice is the chosen calibrator, and why it was chosen.
type Choice struct {
	Calibrator *Calibrator
	Method     Method
	LogLoss    map[Method]float64 // cross-validated, by method
	Positives  int                // positive rows with a weight above 0
	Reason     string             // in words, for people
}

// folds of the cross-validation.
const folds = 5

// Choose compares no calibration (the plain sigmoid), Platt and isotonic by cross-validated log loss and returns the
// best, fitted to all rows; on a tie the earlier of these. A row's fold is a hash of its index and the seed. Too few
// rows to compare leave the scores uncalibrated. Others that cannot be calibrated are an error, which wraps one of
// the faults above.
func Choose(raw []float64, label, weight []float32, seed uint64) (Choice, error) {
	d, err := prepare(raw, label, weight)
	few := errors.Is(err, ErrTooFew) || errors.Is(err, ErrOneClass) && len(raw) < 2*folds
	if err != nil && !few {
		return Choice{}, err
	}
	if few || d.len() < 2*folds || !d.assignFolds(seed) {
		return Choice{Calibrator: &Calibrator{method: None}, Method: None,
			Reason: fmt.Sprintf("uncalibrated: %d rows are too few to compare methods over %d folds", len(raw),
				folds)}, nil
	}

	c := Choice{LogLoss: map[Method]float64{}}
	for _, y := range d.label {
		c.Positives += int(y)
	}
	for _, m := range methods {
		loss, calibrator := d.crossValidate(m)
		c.LogLoss[m] = loss
		if c.Calibrator == nil || loss < c.LogLoss[c.Method] {
			c.Method = m
			c.Calibrator = calibrator
		}
	}

	c.Reason = c.reason()
	return c, nil
}

// fewPositives is the number of positive rows below which the choice is unreliable: moving a few to another fold may
// change it.
const fewPositives = 200

// words describes a method for people.
func (m Method) words() string {
	if m == None {
		return "uncalibrated"
	}
	return string(m)
}

// reason says what was compared.
func (c Choice) reason() string {
	var others []string
	for _, m := range methods {
		if m != c.Method {
			others = append(others, fmt.Sprintf("%s %.6f", m.words(), c.LogLoss[m]))
		}
	}

	text := fmt.Sprintf("%s has the lowest log loss over %d folds: %.6f against %s",
		c.Method.words(), folds, c.LogLoss[c.Method], strings.Join(others, " and "))
	if c.Positives < fewPositives {
		text += fmt.Sprintf(", by only %d positive rows", c.Positives)
	}
	return text
}

// assignFolds assigns every row to a fold, and returns false if one fold has them all.
func (d *data) assignFolds(seed uint64) bool {
	d.fold = make([]uint8, d.len())
	several := false
	for i, row := range d.row {
		d.fold[i] = uint8(random.Mix(seed^random.Mix(uint64(row)+random.Step)) % folds)
		several = several || d.fold[i] != d.fold[0]
	}
	d.row = nil
	return several
}

// crossValidate returns the mean log loss of every row under the calibrator fitted without its fold, and the calibrator
// fitted to all rows.
func (d *data) crossValidate(m Method) (float64, *Calibrator) {
	fit := d.fitter(m)
	all := fit(everyFold)
	loss, weight := 0.0, 0.0
	for fold := range folds {
		loss += d.foldLoss(fit(fold), fold)
	}
	for i := range d.raw {
		weight += d.weightOf(i)
	}
	return loss / weight, all
}

// foldLoss is the sum of the weighted log losses of one fold's rows. Rows are ascending, so the search for a knot
// resumes at the last one.
func (d *data) foldLoss(c *Calibrator, fold int) float64 {
	return sumBlocks(d.len(), func(begin, end int) (loss float64) {
		knot, _ := slices.BinarySearch(c.x, d.raw[begin])
		for i := begin; i < end; i++ {
			if int(d.fold[i]) != fold {
				continue
			}
			for knot < len(c.x) && c.x[knot] < d.raw[i] {
				knot++
			}

			// Predict would search for the knot of every row; the next one is at or behind the last.
			var p float64
			if c.method == Isotonic {
				p = c.between(knot, d.raw[i])
			} else {
				p = c.Predict(d.raw[i])
			}
			if d.label[i] == 0 {
				p = 1 - p
			}

			loss -= float64(d.weightOf(i) * math.Log(p))
		}
		return loss
	}, func(t *float64, p float64) { *t += p })
}
