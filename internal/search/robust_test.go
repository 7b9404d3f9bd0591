package search_test

import (
	"testing"

	"coppice/internal/search"
	"coppice/internal/sweep"
)

// TestAskWithstandsFailures makes every eighth trial fail whatever its configuration, as preempted machines do:
// proposals are still near the best.
func TestAskWithstandsFailures(t *testing.T) {
	s := sweep.Search{Random: map[string]sweep.Distribution{"x": {Uniform: []float64{0, 1}},
		"y": {Uniform: []float64{0, 1}}}}
	loss := func(p sweep.Params) float64 {
		return square(p["x"].(float64)-0.3) + square(p["y"].(float64)-0.6)
	}
	for _, trials := range []int{60, 300, 900} {
		r := search.Ask{Search: s, Method: sweep.MethodRandom, Number: trials}
		for _, one := range next(t, r) {
			k := scored(one.Trial, one.Params, loss(one.Params))
			if one.Trial%8 == 3 {
				k.Status = sweep.StatusFailed
			}
			r.Known = append(r.Known, k)
		}
		r.Method, r.Number = sweep.MethodGP, 4
		for i, one := range next(t, r) {
			if v := loss(one.Params); v > 0.05 {
				t.Errorf("after %d trials, proposal %d has a loss of %.3g: %+v", trials, i, v, one)
			}
		}
	}
}

func square(x float64) float64 { return x * x }
