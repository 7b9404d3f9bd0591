package judge_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"coppice/aggregator/internal/judge"
	"coppice/internal/metric"
	"coppice/internal/must"
	"coppice/internal/sweep"
)

// TestRowsWithoutAColumn: where earlier nights have kept no bids, a value of bids is not known, rather than 0, and
// tonight's rows decide; where tonight has none, nothing is compared.
func TestRowsWithoutAColumn(t *testing.T) {
	m := must.Get(metric.Lookup("value(4 * prediction > bid ? 4 * label - bid : 0)"))(t)
	w := world{rand.New(rand.NewPCG(1, 7)), -1}
	e := judge.Evidence{Binary: true, Champion: 1, Tonight: w.rows(3000, 0.2, 0.6), Shares: even,
		Earlier: earlier(w.rows(3000, 0.2, 0.6), 1)}
	bids := make([]float32, 3000)
	for i := range bids {
		bids[i] = float32(i % 4)
	}
	const unknown = "it is not known here: the rows have no bid"

	e.Tonight.Values = map[string][]float32{"bid": bids}
	d := judge.Judge(gate(nil), m, e)
	said := ""
	for _, c := range d.Checks {
		said += c.Name + ": " + c.Reason + "\n"
	}
	want := "not compared on rows of earlier nights: " + m.Name + ": " + unknown
	if !d.Passed || d.Old == 0 || !strings.Contains(said, want) {
		t.Errorf("with bids of tonight alone: %+v\n%s", d, said)
	}

	e.Tonight.Values = nil
	if d := judge.Judge(gate(nil), m, e); d.Passed || !strings.Contains(d.Reason, unknown) {
		t.Errorf("without bids: %+v", d)
	}
}

// TestAFirstVersionBeatsAConstant: a regression that is worse than always predicting the mean, or an order that is no
// better than a random one, does not go live where nothing else did. Later ones are compared with the champion.
func TestAFirstVersionBeatsAConstant(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 8))
	for _, name := range []string{"rmse", "mae", "ndcg@5"} {
		m := must.Get(metric.Lookup(name))(t)
		for _, knows := range []float64{0, 1} {
			var e judge.Evidence
			for i := range 2000 {
				label := float64(i * 7 % 5)
				e.Tonight.Label = append(e.Tonight.Label, float32(label))
				e.Tonight.New = append(e.Tonight.New, knows*label+(1-knows)*4*r.Float64())
				if m.Kind == metric.Ranking {
					e.Tonight.Group = append(e.Tonight.Group, uint64(i/10))
					e.Tonight.New[i] = (2*knows - 1) * label
				}
			}
			e.Shares = even
			d := judge.Judge(gate(nil), m, e)
			if d.Passed != (knows == 1) || knows == 0 && !strings.Contains(d.Reason, "one prediction for all rows") {
				t.Errorf("%s of a model that knows %g of the labels: %+v", name, knows, *d)
			}
		}
	}
}

// TestALeakThatTreesDoNotAllSee: where trees draw their columns, one that knows the label has less than the limit of
// the first trees' gain. A first version with it does not go live, unless any share is allowed.
func TestALeakThatTreesDoNotAllSee(t *testing.T) {
	w := world{rand.New(rand.NewPCG(1, 9)), -1}
	e := judge.Evidence{Binary: true, Tonight: w.rows(3000, 0.2, 0.6), Leak: `column "rowid" alone`,
		Shares: []judge.Share{{Column: "rowid", Share: 0.88}, {Column: "x", Share: 0.12}}}
	anyShare := func(g *sweep.Gate) { g.MaxShare = 1 }
	const want = `column "rowid" alone: does it know`
	for name, d := range map[string]*sweep.GateDecision{
		"a first version": judge.Judge(gate(nil), logLoss(t), e), "any share": judge.Judge(gate(anyShare), logLoss(t),
			e)} {
		if d.Passed != (name == "any share") || !d.Passed && !strings.Contains(d.Reason, want) {
			t.Errorf("%s: %+v", name, *d)
		}
	}
}

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
