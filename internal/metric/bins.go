package metric

import (
	"cmp"
	"slices"
)

// Bin is the sums over some rows that a model ranks next to each other: sufficient to draw a reliability diagram, and
// the gain from taking the rows that rank highest.
type Bin struct {
	Rows     int     `json:"rows"`
	Weight   float64 `json:"weight"`          // sum of the weights; Rows without weights
	Positive float64 `json:"positive"`        // weighted sum of the labels
	Before   float64 `json:"before"`          // weighted sum of the predictions before calibration
	After    float64 `json:"after,omitempty"` // and after it; 0 without calibration

	Squares float64 `json:"squares,omitempty"` // sum of the squared weights; 0 without weights
}

// Plus returns the union of both.
func (b Bin) Plus(o Bin) Bin {
	return Bin{Rows: b.Rows + o.Rows, Weight: b.Weight + o.Weight, Positive: b.Positive + o.Positive, Before: b.Before +
		o.Before, After: b.After + o.After,
		Squares: b.Squares + o.Squares}
}

// Effective is the number of equally weighted rows with the same information (Kish 1965). Without squares it is an
// upper bound.
func (b Bin) Effective() float64 {
	if b.Squares > 0 {
		return b.Weight * b.Weight / b.Squares
	}
	return float64(b.Rows)
}

// Count is the weighted sum of the labels, converted to a number of equal rows.
func (b Bin) Count() float64 {
	if b.Weight == 0 {
		return 0
	}
	return b.Positive * b.Effective() / b.Weight
}

// Tested summarises a winner's test rows in bins. Nothing in it depends on when or by which process it was made.
type Tested struct {
	Format     int  `json:"format"`     // 1
	Calibrated bool `json:"calibrated"` // predictions are probabilities, before and after calibration
	// Bins cover all test rows by raw score, lowest first.
	Bins []Bin `json:"bins"`
	// Classes are those of a label of several, in whose place there are no bins.
	Classes []Class `json:"classes,omitempty"`
	// Alone is what one prediction for all rows scores, by metric, unless there are Classes, whose shares say it: the
	// mean label, or of a ranking any score, which leaves the rows of a group in random order.
	Alone map[string]float64 `json:"alone,omitempty"`
	// RunnerUp is the next-best eligible trial, of an ensemble its best trial, on the sampled test rows; nil if there
	// is none or it cannot be read.
	RunnerUp *Rival `json:"runner_up,omitempty"`
	// Default is the trial of the parameters as they are, on the same rows; nil if there is none, it won, or its scores
	// cannot be read.
	Default *Rival `json:"default,omitempty"`
}

// Class is what is predicted for the rows of a class, and of the class.
type Class struct {
	Name   string  `json:"name"`
	Rows   int     `json:"rows"`
	Weight float64 `json:"weight"`
	Sum    float64 `json:"sum"` // weighted sum of its predictions over the rows of all classes
	// Taken is the weight of its rows by the class that is likeliest for them.
	Taken []float64 `json:"taken"`
}

// PerClass sums up rows of several classes, whose labels and predictions are valid.
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

// Rival compares another trial with the winner, both uncalibrated, on the same rows.
type Rival struct {
	Trial  int     `json:"trial"`
	Metric string  `json:"metric"`
	Rows   int     `json:"rows"`
	New    float64 `json:"new"`  // the winner's value
	Old    float64 `json:"old"`  // the rival's value
	Gain   float64 `json:"gain"` // above 0 if the winner is better
	Low    float64 `json:"low"`  // of a 95 % interval, paired
	High   float64 `json:"high"`

	Calibrated bool `json:"calibrated,omitempty"` // both are
}

// By is a gain as a share of what the rival has.
func (r *Rival) By(gain float64) float64 { return gain / max(r.Old, -r.Old) }

// Bins divides rows by rank, lowest first, into at most n bins of about equal weight. Rows of equal rank stay together,
// so that the result does not depend on the order of the rows. after may be nil; in.Pred is the prediction before
// calibration.
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
