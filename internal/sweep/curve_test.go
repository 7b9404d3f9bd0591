package sweep_test

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"

	"coppice/internal/sweep"
)

// TestCurvesAreBounded keeps adding trees: the curve keeps its bound, its first tree and its interval.
func TestCurvesAreBounded(t *testing.T) {
	for _, n := range []int{0, 1, 2, sweep.MaxCurve, sweep.MaxCurve + 1, 5*sweep.MaxCurve + 17, 100_000} {
		c := sweep.Curve{Format: 1, Sweep: "night-1"}
		for tree := 41; tree < 41+n; tree++ {
			c.Add(tree, float64(tree)/100_000+1e-15)
		}
		if len(c.Scores) > sweep.MaxCurve || n > 0 && c.First != 41 || n > sweep.MaxCurve &&
			len(c.Scores) <= sweep.MaxCurve/2 {
			t.Errorf("of %d trees: %d scores from tree %d; want half of %d to all of them from tree 41", n,
				len(c.Scores), c.First, sweep.MaxCurve)
		}
		for i, s := range c.Rounded().Scores {
			if tree := c.First + i*c.Every; s != float64(tree)/100_000 {
				t.Fatalf("of %d trees: score %v at tree %d, want %v", n, s, tree, float64(tree)/100_000)
			}
		}
		if want := (n - 1) / max(c.Every, 1); n > 0 && len(c.Scores) != want+1 {
			t.Errorf("of %d trees, one in %d: %d scores, want %d", n, c.Every, len(c.Scores), want+1)
		}
		data, err := json.Marshal(c.Rounded())
		if err != nil || len(data) > 16<<10 {
			t.Errorf("of %d trees: %d bytes, error %v; want at most 16 KiB", n, len(data), err)
		}
		if back, err := sweep.DecodeCurve(data); n > 0 &&
			(err != nil || !reflect.DeepEqual(back.Scores, c.Rounded().Scores)) {
			t.Errorf("of %d trees: read back %v, error %v", n, back, err)
		}
	}
}

// TestCurvesBeginAnew where a training starts over, and after a score that JSON cannot represent.
func TestCurvesBeginAnew(t *testing.T) {
	var c sweep.Curve
	for tree := 7; tree <= 9; tree++ {
		c.Add(tree, 0.5)
	}
	c.Add(1, 0.25)
	c.Add(2, math.NaN())
	if len(c.Scores) != 0 {
		t.Errorf("after no number: %v, want nothing", c.Scores)
	}
	c.Add(3, 0.75)
	c.Add(4, 1)
	if c.First != 3 || !reflect.DeepEqual(c.Scores, []float64{0.75, 1}) {
		t.Errorf("from tree %d %v, want 0.75 and 1 from tree 3", c.First, c.Scores)
	}
}

func TestJoinCurves(t *testing.T) {
	curve := func(claim, first, every int, scores ...float64) sweep.Curve {
		return sweep.Curve{Claim: claim, First: first, Every: every, Scores: scores}
	}
	for name, tc := range map[string]struct {
		curves []sweep.Curve
		want   []sweep.CurvePoint
	}{
		"none": {nil, nil},
		"one":  {[]sweep.Curve{curve(0, 1, 1, .1, .2)}, []sweep.CurvePoint{{1, .1}, {2, .2}}},
		"gone on": {[]sweep.Curve{curve(1, 3, 1, .3, .4), curve(0, 1, 1, .1, .2, .9)},
			[]sweep.CurvePoint{{1, .1}, {2, .2}, {3, .3}, {4, .4}}},
		"begun again": {[]sweep.Curve{curve(0, 1, 1, .8, .9), curve(1, 5, 1, .9), curve(2, 1, 1, .1, .2)},
			[]sweep.CurvePoint{{1, .1}, {2, .2}}},
		"a gap": {[]sweep.Curve{curve(0, 1, 1, .1), curve(2, 4, 2, .4, .6)},
			[]sweep.CurvePoint{{1, .1}, {4, .4}, {6, .6}}},
		"an empty one": {[]sweep.Curve{curve(0, 1, 1, .1), curve(1, 1, 1)}, []sweep.CurvePoint{{1, .1}}},
	} {
		if got := sweep.JoinCurves(tc.curves); !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: joined to %v, want %v", name, got, tc.want)
		}
	}
}
