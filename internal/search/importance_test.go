package search

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// drawn returns trials of four parameters, two of which matter.
func drawn(n int, seed uint64) (dims []Dimension, loss []float64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	dims = []Dimension{{Name: "rate", Log: true}, {Name: "kind", Categories: 3}, {Name: "idle"},
		{Name: "none", Categories: 2}}
	for range n {
		x := []float64{math.Exp(rng.Float64() * 5), float64(rng.IntN(3)), rng.Float64(), float64(rng.IntN(2))}
		for i := range dims {
			dims[i].Values = append(dims[i].Values, x[i])
		}
		l := math.Abs(math.Log(x[0]) - 2)
		if x[1] != 1 {
			l += 0.7
		}
		loss = append(loss, l+0.05*rng.NormFloat64())
	}
	return dims, loss
}

// Parameters that matter come first and above chance; the others are not above it.
func TestImportanceFindsWhatDecides(t *testing.T) {
	for _, n := range []int{50, 200, 1000} {
		dims, loss := drawn(n, 7)
		got := Importance(dims, loss)
		// fifty trials have eight best ones, too few for the second parameter
		if got[0].Name != "rate" || n >= 200 && got[1].Name != "kind" {
			t.Errorf("%d trials: rate decides, then kind, and the order is %+v", n, got)
		}
		if got[0].Share < got[0].Chance || got[3].Share > 2*got[3].Chance {
			t.Errorf("%d trials: the most important is not above chance, or the least is far above: %+v", n, got)
		}
	}
}

// TestImportanceIsStable: shares add up to 1, are the same each time, and do not depend on units.
func TestImportanceIsStable(t *testing.T) {
	dims, loss := drawn(60, 3)
	a, b := Importance(dims, loss), Importance(dims, loss)
	sum := 0.0
	for i := range a {
		if a[i] != b[i] {
			t.Errorf("the same trials have the importances %+v and %+v", a[i], b[i])
		}
		sum += a[i].Share
	}
	if math.Abs(sum-1) > 1e-12 {
		t.Errorf("shares add up to %v, expected 1", sum)
	}

	// The unit of the loss does not matter, nor does that of a parameter measured by its logarithm.
	for i := range loss {
		loss[i] = 1000*loss[i] - 3
		dims[0].Values[i] *= 7
	}
	for i, w := range Importance(dims, loss) {
		if w.Name != a[i].Name || math.Abs(w.Share-a[i].Share) > 1e-9 {
			t.Errorf("in other units %+v became %+v", a[i], w)
		}
	}
}

// TestImportanceOfThoseThatHaveIt: a parameter that some trials lack is ranked as if the trials that have it were all,
// and one that hardly any trial has is not ranked.
func TestImportanceOfThoseThatHaveIt(t *testing.T) {
	dims, loss := drawn(200, 3)
	few, fewLoss := make([]Dimension, 1), []float64{}
	few[0] = Dimension{Name: "rate", Log: true}
	for i := range loss {
		if i%2 == 0 {
			dims[0].Values[i] = math.NaN()
			loss[i] = -1 // the best trials have no rate
		} else {
			few[0].Values, fewLoss = append(few[0].Values, dims[0].Values[i]), append(fewLoss, loss[i])
		}
		if i >= FewestForImportance-1 {
			dims[2].Values[i] = math.NaN()
		}
	}

	got, alone := Importance(dims, loss), Importance(few, fewLoss)
	place := func(name string) int { return slices.IndexFunc(got, func(w Weight) bool { return w.Name == name }) }
	if place("idle") >= 0 || place("rate") != 0 || len(alone) != 1 {
		t.Fatalf("got %+v; expected rate to be first and idle, which %d trials have, not to be there", got,
			FewestForImportance-1)
	}
	if a, b := got[0].Chance/got[0].Share, alone[0].Chance/alone[0].Share; math.Abs(a-b) > 1e-9 {
		t.Errorf("chance is %v of the importance among all trials, and %v among those that have the parameter; "+
			"expected the same", a, b)
	}
}

// TestImportanceOfLittle: too few trials have no importances, and a parameter that never changed has none.
func TestImportanceOfLittle(t *testing.T) {
	dims, loss := drawn(FewestForImportance-1, 1)
	if got := Importance(dims, loss); got != nil {
		t.Errorf("%d trials have the importances %+v, expected none", len(loss), got)
	}

	// A parameter that never changed, and one whose 0 has no logarithm.
	dims, loss = drawn(40, 1)
	for i := range loss {
		dims[2].Values[i] = 0.5
		dims[0].Values[i] *= float64(i % 2)
	}
	for _, w := range Importance(dims, loss) {
		if math.IsNaN(w.Share) || math.IsNaN(w.Chance) || w.Name == "idle" && w.Share > 1e-9 {
			t.Errorf("a parameter that never changed: %+v", w)
		}
	}
}
