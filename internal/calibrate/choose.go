package calibrate

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Options of Choose. The zero value means five folds, seed 0, and comparing no calibration with Platt and isotonic.
type Options struct {
	Methods []Method
	Folds   int // 2 to 100
	Seed    uint64
}

// Choice is the chosen calibrator, and why it was chosen.
type Choice struct {
	Calibrator *Calibrator
	Method     Method
	LogLoss    map[Method]float64 // cross-validated, of every method compared, and of None
	Folds      int
	Positives  int    // positive rows with a weight above 0
	Reason     string // in words, for people
}

// Choose compares methods by k-fold cross-validated log loss and returns the best, fitted to all rows; on a tie the
// earlier in Options.Methods. None, the plain sigmoid, is always evaluated but only chosen if it is among the methods.
// A row's fold is a hash of its index and the seed. Errors are *DataError and *MethodError.
func Choose(raw []float64, label, weight []float32, o Options) (Choice, error) {
	if len(o.Methods) == 0 {
		o.Methods = []Method{None, Platt, Isotonic}
	}
	if o.Folds == 0 {
		o.Folds = 5
	}

	for _, m := range o.Methods {
		if !slices.Contains(Methods(), m) {
			return Choice{}, &MethodError{Method: m}
		}
	}
	if o.Folds < 2 || o.Folds > 100 {
		return Choice{}, fault(-1, ErrFolds, "%d; use 2 to 100", o.Folds)
	}

	d, err := prepare(raw, label, weight)
	if err != nil {
		return Choice{}, err
	}
	if d.len() < 2*o.Folds {
		return Choice{}, fault(-1, ErrTooFew, "%d with a weight above 0 for %d folds; use at least %d", d.len(),
			o.Folds, 2*o.Folds)
	}
	return choose(d, o)
}

func choose(d *data, o Options) (Choice, error) {
	if !d.assignFolds(o.Folds, o.Seed) {
		return Choice{}, fault(-1, ErrTooFew, "all %d fell into one of %d folds; use more rows", d.len(), o.Folds)
	}

	plain, _ := d.crossValidate(None, o.Folds)
	c := Choice{LogLoss: map[Method]float64{None: plain}, Folds: o.Folds}
	for _, y := range d.label {
		c.Positives += int(y)
	}
	for _, m := range o.Methods {
		loss, calibrator := d.crossValidate(m, o.Folds)
		c.LogLoss[m] = loss
		if c.Calibrator == nil || loss < c.LogLoss[c.Method] {
			c.Method = m
			c.Calibrator = calibrator
		}
	}

	c.Reason = c.reason(o)
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
func (c Choice) reason(o Options) string {
	var others []string
	for _, m := range o.Methods {
		if m != c.Method {
			others = append(others, fmt.Sprintf("%s %.6f", m.words(), c.LogLoss[m]))
		}
	}
	if len(others) == 0 {
		others = []string{"no other method"}
	}

	text := fmt.Sprintf("%s has the lowest log loss over %d folds: %.6f against %s",
		c.Method.words(), c.Folds, c.LogLoss[c.Method], strings.Join(others, " and "))
	if c.Positives < fewPositives {
		text += fmt.Sprintf(", by only %d positive rows", c.Positives)
	}
	if slices.Contains(o.Methods, None) {
		return text
	}

	text += fmt.Sprintf("; uncalibrated it is %.6f", c.LogLoss[None])
	if c.LogLoss[None] < c.LogLoss[c.Method] {
		text += ", which is lower: these scores were well calibrated already"
	}
	return text
}

// assignFolds assigns every row to a fold, and returns false if one fold has them all.
func (d *data) assignFolds(folds int, seed uint64) bool {
	d.fold = make([]uint8, d.len())
	several := false
	for i, row := range d.row {
		d.fold[i] = uint8(mix(seed^mix(uint64(row)+0x9e3779b97f4a7c15)) % uint64(folds))
		several = several || d.fold[i] != d.fold[0]
	}
	d.row = nil
	return several
}

// mix is the finalizer of SplitMix64 (Steele, Lea and Flood 2014), a counter-based generator.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// crossValidate returns the mean log loss of every row under the calibrator fitted without its fold, and the calibrator
// fitted to all rows.
func (d *data) crossValidate(m Method, folds int) (float64, *Calibrator) {
	f := newFitter(m, d)
	all := f.fit(everyFold)
	loss, weight := 0.0, 0.0
	for fold := range folds {
		loss += d.foldLoss(f.fit(fold), fold)
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
