package search

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"coppice/internal/must"
)

// drawn returns n random trials of four parameters. The loss depends on two of them: it is lowest where the logarithm
// of rate is 2, and higher by 0.7 unless kind is 1. Parameters idle and none have no effect.
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

// TestImportanceFindsWhatDecides: of four parameters the two that the loss depends on come first, in the order of their
// effects. The first is above what chance gives, and the last is not far above it.
func TestImportanceFindsWhatDecides(t *testing.T) {
	for _, n := range []int{50, 200, 1000} {
		dims, loss := drawn(n, 7)
		got := Importance(dims, loss)
		// fifty trials have eight best ones, too few for the second parameter
		if got[0].Name != "rate" || n >= 200 && got[1].Name != "kind" {
			t.Errorf("%d trials: rate decides, then kind, and the order is %+v", n, got)
		}
		if got[0].Share < got[0].Chance || got[3].Share > 2*got[3].Chance {
			t.Errorf("%d trials: got %+v; want the first's share above its chance, and the last's at most twice its "+
				"chance", n, got)
		}
	}
}

// TestImportanceIsStable: the shares add up to 1, are the same each time, and do not depend on the unit of the loss or,
// for a parameter on a logarithmic scale, on the parameter's unit.
func TestImportanceIsStable(t *testing.T) {
	dims, loss := drawn(60, 3)
	a, b := Importance(dims, loss), Importance(dims, loss)
	sum := 0.0
	for i := range a {
		must.Equal(t, b[i], a[i], "importance %d of the same trials", i)
		sum += a[i].Share
	}
	if math.Abs(sum-1) > 1e-12 {
		t.Errorf("shares add up to %v, expected 1", sum)
	}

	// Change the unit and the origin of the loss, and the unit of rate.
	for i := range loss {
		loss[i] = 1000*loss[i] - 3
		dims[0].Values[i] *= 7
	}
	for i, w := range Importance(dims, loss) {
		if w.Name != a[i].Name || math.Abs(w.Share-a[i].Share) > 1e-9 {
			t.Errorf("in other units %+v became %+v; want the same", a[i], w)
		}
	}
}

// TestImportanceOfThoseThatHaveIt: a parameter that some trials lack is ranked as if the trials that have it were all,
// and one that hardly any trial has is not ranked.
func TestImportanceOfThoseThatHaveIt(t *testing.T) {
	// Every second trial has no rate. Those that have one are in few as well, alone. Only the first
	// FewestForImportance-1 trials have idle.
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

	// Shares depend on the other parameters, so the ratio of chance and share is compared.
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

// TestImportanceOfLittle: too few trials have no importances. A parameter that never changed has none, and one with
// values of 0 on a logarithmic scale has one that is a number.
func TestImportanceOfLittle(t *testing.T) {
	dims, loss := drawn(FewestForImportance-1, 1)
	if got := Importance(dims, loss); got != nil {
		t.Errorf("%d trials have the importances %+v, expected none", len(loss), got)
	}

	// idle never changes, and every second rate is 0, which has no logarithm.
	dims, loss = drawn(40, 1)
	for i := range loss {
		dims[2].Values[i] = 0.5
		dims[0].Values[i] *= float64(i % 2)
	}
	for _, w := range Importance(dims, loss) {
		if math.IsNaN(w.Share) || math.IsNaN(w.Chance) || w.Name == "idle" && w.Share > 1e-9 {
			t.Errorf("got %+v; want numbers, and no share for idle, which never changed", w)
		}
	}
}
