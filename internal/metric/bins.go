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
