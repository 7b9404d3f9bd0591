package page_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"coppice/internal/page"
)

// drawn is a sweep of n trials over k parameters p0, p1, ... The first eight trials were planned: they have the same
// values and better scores than all others. The scores of the others are noise plus effect times the logarithm of p0.
func drawn(seed uint64, n, k int, effect float64) *page.Sweep {
	rng := rand.New(rand.NewPCG(seed, 7))
	s := &page.Sweep{ID: "null", Metric: "auc", Maximize: true}
	for i := range k {
		s.Params = append(s.Params, page.Param{Name: fmt.Sprint("p", i), Log: i%2 == 1})
	}
	for i := range n {
		t := page.TrialRow{Number: i, State: page.StateComplete, From: []string{"halton", "gp"}[i%2],
			Score: rng.NormFloat64()}
		for range k {
			t.Values = append(t.Values, math.Exp(3*rng.Float64()))
		}
		if t.Score += effect * math.Log(t.Values[0]); i < 8 {
			t.From, t.Score, t.Values = "portfolio", 5+rng.Float64(), slices.Repeat([]float64{2}, k)
		}
		s.Trials = append(s.Trials, t)
	}
	return s
}

// TestNothingMattersInNoise: of sweeps in which no parameter matters, at most one in twenty names one, although the
// planned trials share their values and are better than the others. A parameter that decides is always named.
func TestNothingMattersInNoise(t *testing.T) {
	const sweeps = 60 // so at most 3 may
	named, found := 0, 0
	for seed := range uint64(sweeps) {
		if len(drawn(seed, 50, 8, 0).Matter()) > 0 {
			named++
		}
	}
	if named > sweeps/20 {
		t.Errorf("%d of %d null sweeps name a parameter, want at most 5 %%", named, sweeps)
	}
	for seed := range uint64(5) {
		if slices.Contains(drawn(seed, 120, 8, 3).Matter(), "p0") {
			found++
		}
	}
	if found < 5 {
		t.Errorf("a parameter that decides is named in %d of 5 sweeps, want all", found)
	}
}
