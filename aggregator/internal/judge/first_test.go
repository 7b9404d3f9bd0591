package judge_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coppice/aggregator/internal/judge"
	"coppice/internal/metric"
	"coppice/internal/must"
	"coppice/internal/sweep"
)

// TestAFirstVersionBeatsAConstant: a first version of a regression or a ranking passes if it knows the labels, and
// not if it scores no better than one prediction for all rows.
func TestAFirstVersionBeatsAConstant(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 8))
	for _, name := range []string{"rmse", "mae", "r2", "ndcg@5"} {
		m := must.Get(metric.Lookup(name))(t)
		for _, knows := range []float64{0, 1} {
			var e judge.Evidence
			for i := range 2000 {
				label := float64(i * 7 % 5) // 0 to 4, in turn 0, 2, 4, 1 and 3
				e.Tonight.Label = append(e.Tonight.Label, float32(label))
				e.Tonight.New = append(e.Tonight.New, knows*label+(1-knows)*4*r.Float64())
				if m.Kind == metric.Ranking {
					e.Tonight.Group = append(e.Tonight.Group, uint64(i/10))
					e.Tonight.New[i] = (2*knows - 1) * label // in the labels' order, or in reverse
				}
			}
			e.Shares = even
			d := judge.Judge(gate(nil), m, e)
			if d.Passed != (knows == 1) || knows == 0 && !strings.Contains(d.Reason, "one prediction for all rows") {
				t.Errorf("%s of a model that knows %g of the labels: got %+v, want it to pass only if that is 1", name,
					knows, *d)
			}
		}
	}
}

// TestAFirstVersionNeedsRowsThatJudgeIt: a first version is not promoted if tonight's rows cannot show that it beats a
// model that knows nothing, since no other check would judge it. That is so if all labels are the same, if the metric
// is not defined for one prediction (poisson for a mean of 0), and if it has not scored the rows. A later version is
// compared with the champion instead, and no check speaks of a first one.
func TestAFirstVersionNeedsRowsThatJudgeIt(t *testing.T) {
	same := slices.Repeat([]float32{0}, 1000)
	for name, tc := range map[string]struct {
		metric string
		e      judge.Evidence
		says   string
	}{
		"no positive row": {"log_loss", judge.Evidence{Binary: true, Tonight: judge.Judged{Label: same,
			New: slices.Repeat([]float64{0.001}, 1000), Old: slices.Repeat([]float64{0.002}, 1000)}},
			"has to beat the base rate, which 1,000 test rows cannot show: normalized_entropy: all labels are the " +
				"same"},
		"one class": {"multi_logloss", judge.Evidence{Classes: []string{"red", "blue"}, Tonight: judge.Judged{
			Label: same, New: slices.Repeat([]float64{0.9, 0.1}, 1000),
			Old: slices.Repeat([]float64{0.8, 0.2}, 1000)}},
			"has to beat the classes' shares, which 1,000 test rows cannot show: all rows are of one class"},
		"counts of 0": {"poisson", judge.Evidence{Tonight: judge.Judged{Label: same,
			New: slices.Repeat([]float64{0.001}, 1000), Old: slices.Repeat([]float64{0.002}, 1000)}},
			"has to beat one prediction for all rows, which 1,000 test rows cannot show: poisson is not defined"},
		"no rows": {"log_loss", judge.Evidence{Binary: true, NotTonight: "the sample has none"},
			"cannot be judged on tonight's test rows: the sample has none; fix that, or promote by hand"},
	} {
		g, m := (&sweep.Spec{Metric: tc.metric}).Gated(), must.Get(metric.Lookup(tc.metric))(t)
		tc.e.Shares = even
		if d := judge.Judge(g, m, tc.e); d.Verdict != sweep.VerdictNotPromoted || d.Sound ||
			!strings.Contains(d.Reason, tc.says) {
			t.Errorf("%s: a first version gets %s: %s; want it not promoted, because %q", name, d.Verdict, d.Reason,
				tc.says)
		}
		tc.e.Champion, tc.e.NotReference = 3, "there are none"
		if d := judge.Judge(g, m, tc.e); strings.Contains(d.Reason, "first version") {
			t.Errorf("%s: a later version gets %s: %s; want no word of a first one", name, d.Verdict, d.Reason)
		}
	}
}

// TestALeakThatTreesDoNotAllSee: if trees draw their columns at random, a column that knows the label may have less
// of the gain than the limit, here .88 of .9. A first version does not pass if that column alone ranks the label
// (Evidence.Leak), unless gate.max_share allows any share. A later version, which is compared with another, does.
func TestALeakThatTreesDoNotAllSee(t *testing.T) {
	w := world{rand.New(rand.NewPCG(1, 9)), -1}
	e := judge.Evidence{Binary: true, Tonight: w.rows(3000, 0.2, 0.6), Leak: `column "rowid" alone`,
		NotReference: "none", Shares: []judge.Share{{Column: "rowid", Share: 0.88}, {Column: "x", Share: 0.12}}}
	const why = `column "rowid" alone: does it know`
	for name, tc := range map[string]struct {
		champion int // 0 if the version is the first
		limit    float64
		want     bool
	}{"first": {0, 0.9, false}, "first, any share": {0, 1, true}, "later": {1, 0.9, true}} {
		g := gate(func(g *sweep.Gate) { g.MaxShare = tc.limit })
		e.Champion = tc.champion
		if d := judge.Judge(g, logLoss(t), e); d.Passed != tc.want || strings.Contains(d.Reason, why) == tc.want {
			t.Errorf("%s: got %+v; want it to pass: %t, or else %q", name, *d, tc.want, why)
		}
	}
}
