package show

import (
	"testing"

	"coppice/internal/sweep"
)

func TestBars(t *testing.T) {
	points := func(scores ...float64) (out []sweep.CurvePoint) {
		for i, s := range scores {
			out = append(out, sweep.CurvePoint{Tree: i + 1, Score: s})
		}
		return out
	}
	rising := make([]float64, 8000)
	for i := range rising {
		rising[i] = float64(i)
	}
	for _, tc := range []struct {
		points    []sweep.CurvePoint
		low, high float64
		maximize  bool
		want      string
	}{
		{nil, 0, 1, true, ""},
		{points(0, 1), 0, 1, true, "▁█"},
		{points(0, 1), 0, 1, false, "█▁"},
		{points(3, 3, 3), 3, 3, true, "▅▅▅"},
		{points(rising...), 0, 7999, true, "▁▁▂▂▂▂▂▂▃▃▃▃▃▃▄▄▄▄▄▄▅▅▅▅▅▆▆▆▆▆▆▇▇▇▇▇▇███"},
	} {
		if got := bars(tc.points, curveWidth, tc.low, tc.high, tc.maximize); got != tc.want {
			t.Errorf("%d scores from %v to %v, more is better %t: %q, want %q", len(tc.points), tc.low, tc.high,
				tc.maximize, got, tc.want)
		}
	}
}
