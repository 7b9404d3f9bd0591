package metric

import (
	"cmp"
	"slices"
)

// Bin is the sums over some rows that a model ranks next to each other. A list of them is enough to draw a reliability
// diagram, and the lift of the rows that are ranked highest.
type Bin struct {
	Rows     int     `json:"rows"`
	Weight   float64 `json:"weight"`          // sum of the weights; Rows without weights
	Positive float64 `json:"positive"`        // weighted sum of the labels
	Before   float64 `json:"before"`          // weighted sum of the predictions before calibration
	After    float64 `json:"after,omitempty"` // the same after calibration; 0 without it

	Squares float64 `json:"squares,omitempty"` // sum of the squared weights; 0 without weights
}

// Plus returns the bin of the rows of both.
func (b Bin) Plus(o Bin) Bin {
	return Bin{Rows: b.Rows + o.Rows, Weight: b.Weight + o.Weight, Positive: b.Positive + o.Positive,
		Before: b.Before + o.Before, After: b.After + o.After, Squares: b.Squares + o.Squares}
}

// Effective is the effective number of rows: how many rows of equal weight are as informative (Kish 1965). A bin
// without Squares counts as one without weights.
func (b Bin) Effective() float64 {
	if b.Squares > 0 {
		return b.Weight * b.Weight / b.Squares
	}
	return float64(b.Rows)
}

// Count is the number of positives among the effective number of rows; 0 if the rows have no weight.
func (b Bin) Count() float64 {
	if b.Weight == 0 {
		return 0
	}
	return b.Positive * b.Effective() / b.Weight
}

// Tested summarises how a sweep's winner predicts the test rows, for pages and reports. Nothing in it depends on when
// or by which process it was made.
type Tested struct {
	Format     int  `json:"format"`     // 1
	Calibrated bool `json:"calibrated"` // predictions are probabilities, before and after calibration
	// Bins have all test rows, sorted by raw score, lowest first. There are none if there are Classes.
	Bins []Bin `json:"bins"`
	// Classes are those of the label if the objective has several.
	Classes []Class `json:"classes,omitempty"`
	// Alone has, by metric, the value of predicting the same for all rows: the mean label or, for a ranking, any score,
	// which leaves the rows of a group in random order. It is not set if there are Classes, from which it follows.
	Alone map[string]float64 `json:"alone,omitempty"`
	// RunnerUp is the comparison with the next-best eligible trial on a sample of the test rows; if the winner is an
	// ensemble, with its best trial. It is nil if there is no such trial or its scores cannot be read.
	RunnerUp *Rival `json:"runner_up,omitempty"`
	// Default is the comparison with the trial of the sweep's parameters before any search, on the same rows. It is nil
	// if there is no such trial, if it won, or if its scores cannot be read.
	Default *Rival `json:"default,omitempty"`
}

// Class summarises the predictions of one class of several.
type Class struct {
	Name   string  `json:"name"`
	Rows   int     `json:"rows"`   // rows with this label
	Weight float64 `json:"weight"` // their weight
	Sum    float64 `json:"sum"`    // weighted sum, over the rows of all classes, of this class's predicted probability
	// Taken has, by class, the weight of the rows with this label for which that class is predicted to be the
	// likeliest.
	Taken []float64 `json:"taken"`
}

// PerClass summarises rows of several classes with these names, in the order of names. Of classes that are predicted to
// be equally likely, the first one is taken. Labels and predictions must be valid, and in.Pred is [rows x classes].
func PerClass(in Input, names []string) []Class {
	k := len(names)
	all := make([]Class, k)
	for c, name := range names {
		all[c] = Class{Name: name, Taken: make([]float64, k)}
	}
	for i, l := range in.Label {
		p, w := in.Pred[i*k:(i+1)*k], in.weight(i)
		best := 0
		for c, v := range p {
			all[c].Sum += w * v
			if v > p[best] {
				best = c
			}
		}
		own := &all[int(l)]
		own.Rows++
		own.Weight += w
		own.Taken[best] += w
	}
	return all
}

// Rival compares another trial, the rival, with the winner on the same rows.
type Rival struct {
	Trial  int     `json:"trial"`
	Metric string  `json:"metric"`
	Rows   int     `json:"rows"`
	New    float64 `json:"new"`  // the winner's value
	Old    float64 `json:"old"`  // the rival's value
	Gain   float64 `json:"gain"` // above 0 if the winner is better
	Low    float64 `json:"low"`  // lower end of the gain's paired 95 % interval
	High   float64 `json:"high"` // upper end

	Calibrated bool `json:"calibrated,omitempty"` // both predict calibrated probabilities; otherwise neither does
}

// By returns a gain as a share of the absolute value of Old, the rival's value. It is not finite if Old is 0.
func (r *Rival) By(gain float64) float64 { return gain / max(r.Old, -r.Old) }

// Bins sorts rows by rank, [rows], lowest first, and divides them into at most n bins of about equal weight. Rows with
// the same rank stay together, so that the result does not depend on the order of the rows. A rank with more weight
// than a bin's share makes a larger bin; then each rank is a bin by itself until the number of bins has caught up.
// in.Pred are the predictions before calibration; after, [rows], those after it, or nil.
func Bins(in Input, rank, after []float64, n int) []Bin {
	order := make([]int, len(rank))
	total := 0.0
	for i := range order {
		order[i] = i
		total += in.weight(i)
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(rank[a], rank[b]), cmp.Compare(a, b)) })

	var out []Bin
	var bin Bin
	seen := 0.0
	for k, i := range order {
		w := in.weight(i)
		seen += w
		bin.Rows++
		bin.Weight += w
		if in.Weight != nil {
			bin.Squares += w * w
		}
		bin.Positive += w * float64(in.Label[i])
		bin.Before += w * in.Pred[i]
		if after != nil {
			bin.After += w * after[i]
		}

		// End the bin where the bins so far have their share of the weight, but not between equal ranks.
		last := k == len(order)-1
		if last || rank[order[k+1]] != rank[i] && seen >= total*float64(len(out)+1)/float64(n) {
			out = append(out, bin)
			bin = Bin{}
		}
	}
	return out
}

// weight returns a row's weight.
func (in *Input) weight(i int) float64 {
	if in.Weight == nil {
		return 1
	}
	return float64(in.Weight[i])
}
