package judge_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"coppice/aggregator/internal/judge"
	"coppice/internal/sweep"
)

// TestLabelsThatTheChampionDoesNotKnow: labels that are shuffled, inverted, lost or made up are blocked, although a new
// model trained on them would win; labels that drift naturally are not.
func TestLabelsThatTheChampionDoesNotKnow(t *testing.T) {
	for name, tc := range map[string]struct {
		change  func(rng *rand.Rand, labels []float32)
		blocked string // part of the reason; empty if nothing is blocked
	}{
		"honest": {func(*rand.Rand, []float32) {}, ""},
		"a tenth fewer clicks": {func(rng *rand.Rand, y []float32) {
			for i := range y {
				if rng.IntN(10) == 0 {
					y[i] = 0
				}
			}
		}, ""},
		"a sale, a fifth more clicks": {func(rng *rand.Rand, y []float32) {
			for i := range y {
				if rng.Float64() < 0.2*0.07 {
					y[i] = 1
				}
			}
		}, ""},
		"shuffled": {func(rng *rand.Rand, y []float32) {
			rng.Shuffle(len(y), func(i, j int) {
				y[i], y[j] = y[j], y[i]
			})
		}, "ranks tonight's labels"},
		"turned round": {func(_ *rand.Rand, y []float32) {
			for i := range y {
				y[i] = 1 - y[i]
			}
		}, "ranks tonight's labels"},
		"half of them lost": {func(rng *rand.Rand, y []float32) {
			for i := range y {
				if rng.IntN(2) == 0 {
					y[i] = 0
				}
			}
		}, "tonight's mean label"},
		"a fifth made up": {func(rng *rand.Rand, y []float32) {
			for i := range y {
				if rng.IntN(5) == 0 {
					y[i] = 1
				}
			}
		}, "tonight's mean label"},
	} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(5, 1))
			w := world{rng, -3}
			e := judge.Evidence{Binary: true, Seed: 1, Champion: 4, Tonight: w.rows(20_000, 0.2, 0.2),
				Earlier: earlier(w.rows(20_000, 0.2, 0.2), 4), Shares: even}
			tc.change(rng, e.Tonight.Label)
			for i, y := range e.Tonight.Label { // the new model has memorised these labels
				e.Tonight.New[i] = 0.01 + 0.98*float64(y)
			}
			d := judge.Judge(gate(nil), logLoss(t), e)
			if blocked := d.Verdict == sweep.VerdictBlocked; blocked != (tc.blocked != "") ||
				!strings.Contains(d.Reason, tc.blocked) || blocked && d.Passed {
				t.Errorf("verdict %s, passed %t: %s\nwant it blocked for %q", d.Verdict, d.Passed, d.Reason, tc.blocked)
			}
		})
	}
}
