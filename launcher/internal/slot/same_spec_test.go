package slot

import (
	"slices"
	"testing"

	"coppice/internal/sweep"
)

// TestSameSpec: neither the allowed cost nor the results of earlier nights make another sweep.
func TestSameSpec(t *testing.T) {
	spec := func(warm string, eta int, budget float64, rungs ...int) *sweep.Spec {
		s := &sweep.Spec{Model: "ctr", Budget: budget}
		s.Search.WarmStart, s.Search.Stop = warm, &sweep.Stop{Rule: sweep.StopASHA, By: sweep.ByTrees, Eta: eta,
			MinTrees: 10, Rungs: rungs}
		return s
	}
	spot := func(is bool) *sweep.Spec {
		s := spec(sweep.WarmAuto, 3, 5, 11, 33)
		s.Machine.Spot = &is
		return s
	}
	before := spec(sweep.WarmAuto, 3, 5, 11, 33)

	for name, tc := range map[string]struct {
		a, b *sweep.Spec
		want bool
	}{
		"another budget":                 {before, spec(sweep.WarmAuto, 3, 7, 11, 33), true},
		"rungs of other winners":         {before, spec(sweep.WarmAuto, 3, 5, 12, 37, 111), true},
		"another eta":                    {before, spec(sweep.WarmAuto, 4, 5, 11, 33), false},
		"other rungs without warm start": {spec("", 3, 5, 11, 33), spec("", 3, 5, 12, 37), false},
		"on demand from now on":          {spot(true), spot(false), false},
	} {
		if got := sameSpec(tc.a, tc.b); got != tc.want {
			t.Errorf("%s: the same spec %t, want %t", name, got, tc.want)
		}
	}
	if got := before.Search.Stop.Rungs; !slices.Equal(got, []int{11, 33}) {
		t.Errorf("after it was compared the spec has the rungs %v, want [11 33]", got)
	}
}
