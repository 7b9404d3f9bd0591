package metric_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"coppice/internal/metric"
)

// Rows of one rank stay together, and no row is lost: the sums of the bins are the sums of the rows.
func TestBins(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	in := metric.Input{}
	var rank, after []float64
	var weight, positive, before, squares float64
	for range 5000 {
		r := math.Floor(20*rng.Float64()) / 20 // many of one rank
		label, w := float32(rng.IntN(2)), float32(1+rng.IntN(3))
		in.Label, in.Weight, in.Pred = append(in.Label, label), append(in.Weight, w), append(in.Pred, r)
		rank, after = append(rank, r), append(after, r/2)
		weight, positive, before, squares = weight+float64(w), positive+float64(w*label), before+float64(w)*r,
			squares+float64(w*w)
	}
	bins := metric.Bins(in, rank, after, 8)
	if len(bins) < 5 || len(bins) > 8 {
		t.Fatalf("20 ranks made %d bins, expected 5 to 8", len(bins))
	}
	sum, last := metric.Bin{}, -1.0
	for i, b := range bins {
		if mean := b.Before / b.Weight; mean <= last {
			t.Errorf("bin %d has the mean %v after %v, expected bins to ascend", i, mean, last)
		} else {
			last = mean
		}
		sum = sum.Plus(b)
	}
	if sum.Rows != 5000 || sum.Weight != weight || sum.Positive != positive || math.Abs(sum.Before-before) > 1e-6 ||
		math.Abs(sum.After-before/2) > 1e-6 {
		t.Errorf("the bins sum up to %+v; expected 5000 rows, weight %v, positive %v, before %v", sum, weight, positive,
			before)
	}

	if want := weight * weight / squares; sum.Effective() != want || math.Abs(sum.Count()-positive*want/weight) > 1e-9 {
		t.Errorf("rows of weights 1 to 3 are worth %v, positive ones %v; expected %v and %v", sum.Effective(),
			sum.Count(), want, positive*want/weight)
	}

	// The order of rows changes nothing but the order in which numbers are added.
	reversed := metric.Input{Label: slices.Clone(in.Label), Weight: slices.Clone(in.Weight),
		Pred: slices.Clone(in.Pred)}
	slices.Reverse(reversed.Label)
	slices.Reverse(reversed.Weight)
	slices.Reverse(reversed.Pred)
	for i, b := range metric.Bins(reversed, reversed.Pred, nil, 8) {
		if b.Rows != bins[i].Rows || b.Positive != bins[i].Positive {
			t.Errorf("with the rows the other way round bin %d is %+v, expected %+v", i, b, bins[i])
		}
	}
	if got := metric.Bins(metric.Input{}, nil, nil, 8); len(got) != 0 {
		t.Errorf("no rows made the bins %+v", got)
	}
}
