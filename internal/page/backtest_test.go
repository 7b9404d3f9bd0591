package page_test

import (
	"math"
	"testing"
	"time"

	"coppice/internal/page"
)

// played is a backtest of n nights under three rules.
func played(n int) *page.Backtest {
	b := &page.Backtest{Metric: "log_loss", From: "2026-10-01", To: "2026-10-30", Window: 28, Delay: 1,
		Rules: []page.BacktestRule{{Name: "every night", Decisions: n - 1, Promotions: n - 1, Wrong: n / 2,
			Mean: 0.433}, {Name: "any gain", Promotions: 9, Wrong: 3, Mean: 0.426},
			{Name: "beyond chance", Promotions: 5, Mean: 0.4262}},
		Ages: []page.BacktestAge{{Age: 1, Nights: n - 1, Better: 20, Surely: 9, Mean: 0.001},
			{Age: 7, Nights: n - 7, Better: 21, Surely: 18, Mean: 0.01}}}
	date := func(i int) string { return time.Date(2026, 10, 1+i, 0, 0, 0, 0, time.UTC).Format(time.DateOnly) }
	for i := range n {
		k := page.BacktestNight{Night: date(i), Test: date(i + 1), TrainRows: 420_000,
			TestRows: 15_000, Trees: 90, Value: 0.43 + 0.02*math.Sin(float64(i)),
			Stale: map[int]*page.BacktestGain{}, Rules: map[string]*page.BacktestDecision{}}
		for _, age := range []int{1, 7} {
			if i >= age {
				g := 0.001*float64(age) + 0.002*math.Cos(float64(3*i))
				k.Stale[age] = &page.BacktestGain{Old: k.Value + g, Gain: g, Low: g - 0.002, High: g + 0.002}
			}
		}
		for j := range b.Rules {
			promoted := j == 0 || i%(3*j) == 0
			d := &page.BacktestDecision{Grown: date(i - i%(3*j+1)), Promoted: promoted,
				Value: k.Value + 0.001*float64(j)}
			if promoted && i%4 == 3 {
				d.True = &page.BacktestGain{Gain: -0.001}
			}
			k.Rules[b.Rules[j].Name] = d
		}
		b.Nights = append(b.Nights, k)
	}
	return b
}

func TestBacktestPage(t *testing.T) {
	bare := played(2)
	bare.Ages, bare.Rules = nil, nil
	checkPages(t, map[string]writer{"many": played(30), "one": played(1), "bare": bare, "empty": &page.Backtest{}})
	hostilePages(t, func() writer { return played(9) })
}
