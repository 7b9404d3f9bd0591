package judge_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coppice/aggregator/internal/judge"
	"coppice/internal/metric"
	"coppice/internal/must"
	"coppice/internal/sweep"
)

// world generates clicks of known probability, and the predictions of models with errors of a given size.
type world struct {
	r    *rand.Rand
	base float64 // mean log odds of a click
}

// rows draws n rows and the predictions of two models for them. The errors of these have the standard deviations errNew
// and errOld in log odds; their means are corrected so that predictions add up to the labels.
func (w world) rows(n int, errNew, errOld float64) judge.Judged {
	var r judge.Judged
	for range n {
		z := w.base + 1.2*w.r.NormFloat64()
		label := float32(0)
		if w.r.Float64() < sigmoid(z) {
			label = 1
		}
		r.Label = append(r.Label, label)
		r.New = append(r.New, sigmoid(z+errNew*w.r.NormFloat64()-errNew*errNew/2))
		r.Old = append(r.Old, sigmoid(z+errOld*w.r.NormFloat64()-errOld*errOld/2))
	}
	return r
}

// earlier returns rows as those of one earlier night, which a version keeps.
func earlier(r judge.Judged, version int) []judge.Judged {
	r.Night = version
	return []judge.Judged{r}
}

func sigmoid(z float64) float64 { return 1 / (1 + math.Exp(-z)) }

// gate returns the default gate by log loss, changed by change, which may be nil.
func gate(change func(*sweep.Gate)) sweep.Gate {
	g := (&sweep.Spec{Metric: "log_loss"}).Gated()
	if change != nil {
		change(&g)
	}
	return g
}

func logLoss(t *testing.T) metric.Metric {
	t.Helper()
	return must.Get(metric.Lookup("log_loss"))(t)
}

// even are shares of the gain of which none is suspicious.
var even = []judge.Share{{Column: "a", Share: 0.5}, {Column: "b", Share: 0.5}}

// TestEqualModels: of 100 models that are as good as the champion, at least 95 pass; if they have to be shown to be
// better (min_gain), at most 5 do. Of models that are worse by more than the margin and the interval together, none
// passes.
func TestEqualModels(t *testing.T) {
	m := logLoss(t)
	for name, tc := range map[string]struct {
		gate        func(*sweep.Gate)
		rows        int
		errNew      float64
		least, most int // of 100
	}{
		"equal":       {nil, 2000, 0.3, 95, 100},
		"to be shown": {func(g *sweep.Gate) { g.MinGain = new(float64) }, 2000, 0.3, 0, 5},
		// An error of 0.55 in log odds, where the champion's is 0.3, makes the log loss 3.5 % worse.
		"worse by 3.5 %":  {nil, 20_000, 0.55, 0, 0},
		"equal, and many": {nil, 20_000, 0.3, 95, 100},
	} {
		t.Run(name, func(t *testing.T) {
			// 100 nights of 2,000 rows. Of ten times as many rows there are ten nights, and each counts for ten.
			promoted, nights := 0, 100*2000/tc.rows
			for night := range uint64(nights) {
				w := world{rand.New(rand.NewPCG(night, 7)), -3}
				e := judge.Evidence{Binary: true, Seed: night, Champion: 1, Tonight: w.rows(tc.rows, tc.errNew, 0.3),
					Earlier: earlier(w.rows(tc.rows, tc.errNew, 0.3), 1), Shares: even}
				if judge.Judge(gate(tc.gate), m, e).Passed {
					promoted += 100 / nights
				}
			}
			t.Logf("%d of 100 became the champion", promoted)
			if promoted < tc.least || promoted > tc.most {
				t.Errorf("%d of 100 became the champion, want %d to %d", promoted, tc.least, tc.most)
			}
		})
	}
}

// TestFewRowsHoldNothingBack: with a weak signal and 700 rows, nothing shows that a model beats the base rate or is
// calibrated. It still passes if it is as good as the champion. On every second night both predict 40 % too few clicks,
// since the rate has changed; that holds a model back no more than the champion.
func TestFewRowsHoldNothingBack(t *testing.T) {
	m, held := logLoss(t), 0
	for night := range uint64(100) {
		w := world{rand.New(rand.NewPCG(night, 11)), -3}
		e := judge.Evidence{Binary: true, Seed: night, Champion: 1, Tonight: w.rows(700, 0.9, 0.9),
			Earlier: earlier(w.rows(700, 0.9, 0.9), 1), Shares: even}
		if night%2 == 1 {
			e.Tonight.New, e.Tonight.Old = scaled(e.Tonight.New, 0.6), scaled(e.Tonight.Old, 0.6)
		}
		if d := judge.Judge(gate(nil), m, e); !d.Passed {
			held++
			t.Log(d.Reason)
		}
	}
	if held > 2 {
		t.Errorf("%d of 100 models as good as the one before were held back, want at most 2", held)
	}
}

// TestUsualGains: if models of earlier nights differed by 1 %, a model that is 1.5 % worse on an earlier night's rows
// passes. If they differed by .2 %, or the model is 6 % worse, or the spec has a margin of its own, it does not.
func TestUsualGains(t *testing.T) {
	for name, tc := range map[string]struct {
		usual, errNew, margin float64 // an error of 0.42 makes the model 1.5 % worse than the old one's 0.3, 0.7 6 %
		want                  bool
	}{
		"usual": {0.01, 0.42, 0, true}, "unusual": {0.002, 0.42, 0, false}, "far beyond": {0.01, 0.7, 0, false},
		"a margin": {0.01, 0.42, 0.0025, false},
	} {
		e := judge.Evidence{Binary: true, Champion: 9, Shares: even,
			Tonight: world{rand.New(rand.NewPCG(1, 7)), -3}.rows(2000, 0.3, 0.3),
			Earlier: earlier(world{rand.New(rand.NewPCG(2, 7)), -3}.rows(60_000, tc.errNew, 0.3), 4)}
		for i := range 9 {
			e.Gains = append(e.Gains, tc.usual*float64(i+1)/5) // the median of nine is tc.usual
		}
		d := judge.Judge(gate(func(g *sweep.Gate) { g.Margin = tc.margin }), logLoss(t), e)
		if d.Passed != tc.want {
			t.Errorf("%s: passed %t, expected %t: %s (%+v)", name, d.Passed, tc.want, d.Reason, d.Checks)
		}
	}
}

// TestBetterModelsArePromoted: of 20 models with a third of the champion's error, 0.2 for 0.6 in log odds, at least 19
// pass the whole gate.
func TestBetterModelsArePromoted(t *testing.T) {
	m, promoted := logLoss(t), 0
	for night := range uint64(20) {
		w := world{rand.New(rand.NewPCG(night, 8)), -3}
		e := judge.Evidence{Binary: true, Seed: night, Champion: 1, Tonight: w.rows(40_000, 0.2, 0.6),
			Earlier: earlier(w.rows(20_000, 0.2, 0.6), 1), Shares: even}
		if d := judge.Judge(gate(nil), m, e); d.Passed {
			promoted++
		} else {
			t.Log(d.Reason)
		}
	}
	if promoted < 19 {
		t.Errorf("%d of 20 better models became the champion, want at least 19", promoted)
	}
}

// TestChecksNameTheirVersion: the check of tonight's rows names the champion, version 3. That of earlier nights' rows,
// called reference, names the latest sound version, 5.
func TestChecksNameTheirVersion(t *testing.T) {
	w := world{rand.New(rand.NewPCG(1, 9)), -2}
	d := judge.Judge(gate(nil), logLoss(t), judge.Evidence{Binary: true, Champion: 3, Latest: 5, Shares: even,
		Tonight: w.rows(2000, 0.2, 0.6), Earlier: earlier(w.rows(2000, 0.2, 0.6), 4)})
	got := map[string]int{}
	for _, c := range d.Checks {
		got[c.Name] = c.Version
	}
	if got["tonight"] != 3 || got["reference"] != 5 {
		t.Errorf("compared with versions %v, want 3 tonight and 5 on earlier nights", got)
	}
}

// TestRowsOfClasses: a row with a prediction for each class is one row.
func TestRowsOfClasses(t *testing.T) {
	m := must.Get(metric.Lookup("multi_logloss"))(t)
	rows := world{rand.New(rand.NewPCG(1, 9)), -2}.rows(1000, 0.2, 0.6)
	var r judge.Judged
	r.Label = rows.Label
	for i := range rows.Label {
		r.New = append(r.New, 0.9-0.9*rows.New[i], 0.9*rows.New[i], 0.1)
		r.Old = append(r.Old, 0.9-0.9*rows.Old[i], 0.9*rows.Old[i], 0.1)
	}
	got := judge.Judge(gate(nil), m, judge.Evidence{Champion: 1, Tonight: r, Earlier: earlier(r, 1), Shares: even})
	if got.Rows != 1000 || !strings.Contains(got.Reason, "1,000 sampled test rows") {
		t.Errorf("judged on %d rows: %s; want 1000 of tonight", got.Rows, got.Reason)
	}
}

// kinds draws n rows of three classes, and the predictions of two models with errors of such sizes in log odds. bad
// replaces a row's class. The new model predicts as if it had learnt from these labels: for a class that bad
// exchanges, it is called with a nil generator.
func kinds(seed uint64, n int, errNew, errOld float64, bad func(r *rand.Rand, class int) int) (out judge.Judged) {
	r := rand.New(rand.NewPCG(seed, 3))
	for range n {
		var z [3]float64
		p := func(err float64) []float64 {
			var q [3]float64
			sum := 0.0
			for k := range z {
				q[k] = math.Exp(z[k] + err*r.NormFloat64())
				sum += q[k]
			}
			return []float64{q[0] / sum, q[1] / sum, q[2] / sum}
		}
		for k := range z {
			z[k] = []float64{0, -0.5, -1}[k] + 1.5*r.NormFloat64()
		}
		class, u, known := 0, r.Float64(), p(errNew)
		for _, q := range p(0)[:2] {
			if u -= q; u > 0 {
				class++
			}
		}
		out.Label = append(out.Label, float32(bad(r, class)))
		for k := range known { // as a model learns it from the labels; of shuffled ones it learns their shares
			out.New = append(out.New, known[bad(nil, k)])
		}
		out.Old = append(out.Old, p(errOld)...)
	}
	return out
}

// same leaves a class as it is.
func same(_ *rand.Rand, class int) int { return class }

// nightOfClasses is the evidence of a night of three classes, on which both models have the same error. bad is as in
// kinds, and is of tonight's labels alone.
func nightOfClasses(seed uint64, bad func(*rand.Rand, int) int) judge.Evidence {
	return judge.Evidence{Classes: []string{"red", "green", "blue"}, Seed: seed, Champion: 3, Shares: even,
		Tonight: kinds(seed, 2000, 0.3, 0.3, bad), Earlier: earlier(kinds(seed+100, 2000, 0.3, 0.3, same), 3)}
}

// TestGoodNightsOfClasses: of ten good nights of three classes, at least nine pass.
func TestGoodNightsOfClasses(t *testing.T) {
	m, spec, promoted := must.Get(metric.Lookup("multi_logloss"))(t), sweep.Spec{Metric: "multi_logloss"}, 0
	for seed := range uint64(10) {
		d := judge.Judge(spec.Gated(), m, nightOfClasses(seed, same))
		if d.Passed {
			promoted++
		} else {
			t.Log(d.Reason)
		}
	}
	if promoted < 9 {
		t.Errorf("%d of 10 good nights passed, want at least 9", promoted)
	}
}

// TestNightsOfClasses: labels that are shuffled, and two classes that are swapped, block a night. A champion that has
// fallen behind in one class does not. A first model that knows no more than the shares of the classes is not promoted.
// Nothing can be compared with a champion of other classes. No reason speaks of positive rows or the base rate.
func TestNightsOfClasses(t *testing.T) {
	m, spec := must.Get(metric.Lookup("multi_logloss"))(t), sweep.Spec{Metric: "multi_logloss"}
	for name, tc := range map[string]struct {
		change  func(*judge.Evidence)     // of the evidence; nil for none
		bad     func(*rand.Rand, int) int // as in kinds
		verdict sweep.Verdict
		says    string // part of the reason
	}{
		"shuffled": {nil, func(r *rand.Rand, class int) int {
			if r == nil { // kinds asks what the new model predicts: the true class
				return class
			}
			return r.IntN(3)
		}, sweep.VerdictBlocked, "tonight's labels are not like theirs"},
		"swapped": {nil, func(_ *rand.Rand, class int) int { return []int{0, 2, 1}[class] }, sweep.VerdictBlocked,
			`tonight's rows of this class look like those of class "green"`},
		"fallen behind in one class": {func(e *judge.Evidence) {
			// It predicts red by the row's number, 0 or 0.6, and green always with 0.3; only blue is as it was.
			for i := range e.Tonight.Label {
				e.Tonight.Old[3*i], e.Tonight.Old[3*i+1] = 0.6*float64(i%2), 0.3
			}
		}, same, sweep.VerdictPromoted, "better than version 3"},
		// What the caller says when the champion's classes are others.
		"one class gone": {func(e *judge.Evidence) { e.NotTonight, e.NotReference = "it predicts others", "it, too" },
			same, sweep.VerdictNotComparable, "it predicts others"},
		"first, and knows the shares alone": {func(e *judge.Evidence) {
			e.Champion, e.Tonight.Old, e.Earlier = 0, nil, nil // there is no champion
			for i := range e.Tonight.New {
				e.Tonight.New[i] = []float64{0.4, 0.3, 0.3}[i%3]
			}
		}, same, sweep.VerdictNotPromoted, "times that of always predicting the classes' shares on 2000 test rows"},
	} {
		e := nightOfClasses(50, tc.bad)
		if tc.change != nil {
			tc.change(&e)
		}
		d := judge.Judge(spec.Gated(), m, e)
		if d.Verdict != tc.verdict || d.Passed != (tc.verdict == sweep.VerdictPromoted) ||
			!strings.Contains(d.Reason, tc.says) {
			t.Errorf("%s: got %s (%s), want %s with %q", name, d.Verdict, d.Reason, tc.verdict, tc.says)
		}
		if strings.Contains(d.Reason, "positive") || strings.Contains(d.Reason, "base rate") {
			t.Errorf("%s: got %q, want no words of two classes", name, d.Reason)
		}
	}
}

// TestSentences: each kind of evidence leads to its verdict, with sentences that say why. Each case changes one thing
// of evidence in which the new model is better than version 3, the champion, or changes the gate.
func TestSentences(t *testing.T) {
	// world.rows takes their number, and the errors, in log odds, of the new model's predictions and of the old one's.
	// In good these are 0.2 and 0.6. A case that says 0.30, 0.301 has models that are equally good.
	w := func(seed uint64) world { return world{rand.New(rand.NewPCG(seed, 9)), -2} }
	good := func() judge.Evidence {
		return judge.Evidence{Binary: true, Champion: 3, Tonight: w(1).rows(20_000, 0.2, 0.6),
			Earlier: earlier(w(2).rows(10_000, 0.2, 0.6), 3), Shares: even}
	}
	for name, tc := range map[string]struct {
		change  func(*judge.Evidence)
		gate    func(*sweep.Gate)
		verdict sweep.Verdict
		says    []string
	}{
		"good": {nil, nil, sweep.VerdictPromoted, []string{
			"better than version 3 on 20,000 sampled test rows: log_loss", ", gain 0.0",
			", margin 0.0039;", // sweep.DefaultMargin, 1 %, of the champion's log loss, 0.39
			"better than version 3 on 10,000 rows of earlier nights: log_loss"}},
		// Champion 0 means that there is none.
		"first": {func(e *judge.Evidence) { e.Champion = 0 }, nil, sweep.VerdictPromoted,
			[]string{"first version of this model"}},
		"first, of a copied table": {func(e *judge.Evidence) { e.Champion, e.Copied = 0, "70 % are copies" }, nil,
			sweep.VerdictNotPromoted, []string{"70 % are copies"}},
		"later, of a copied table": {func(e *judge.Evidence) { e.Copied = "70 % are copies" }, nil,
			sweep.VerdictPromoted, []string{"better than version 3"}},
		"no gate": {func(e *judge.Evidence) { e.Shares[0].Share = 1 },
			func(g *sweep.Gate) { g.Against = sweep.AgainstNone }, sweep.VerdictPromoted, []string{"no gate"}},
		"blocked": {func(e *judge.Evidence) { e.Blocked = []string{"half the labels are gone"} }, nil,
			sweep.VerdictBlocked, []string{"blocked: half the labels are gone"}},
		"blocked without a gate": {func(e *judge.Evidence) { e.Blocked = []string{"x"} },
			func(g *sweep.Gate) { g.Against = sweep.AgainstNone }, sweep.VerdictBlocked, []string{"blocked: x"}},
		"noise": {func(e *judge.Evidence) { e.Tonight = w(3).rows(15_536, 0.30, 0.301) }, nil,
			sweep.VerdictPromoted, []string{"no worse than version 3"}},
		"few rows": {func(e *judge.Evidence) { e.Tonight = w(3).rows(500, 0.30, 0.301) }, nil,
			sweep.VerdictPromoted, []string{"not shown to be worse than version 3"}},
		"by hand": {nil, func(g *sweep.Gate) { g.Promote = sweep.PromoteByHand }, sweep.VerdictNotPromoted,
			[]string{"it passes, but is not promoted because gate.promote is by-hand: better than version 3"}},
		"worse": {func(e *judge.Evidence) { e.Tonight = w(3).rows(20_000, 0.8, 0.2) }, nil,
			sweep.VerdictNotPromoted, []string{"worse than version 3"}},
		// The errors 0.2 and 0.6 differ by less than 0.1 in log loss.
		"not enough": {nil, func(g *sweep.Gate) { g.MinGain = new(0.1) }, sweep.VerdictNotPromoted,
			[]string{"not shown to be better by enough on 30,000 rows of tonight and earlier nights",
				"required above 0.1"}},
		"a gain over a champion without predictions": {func(e *judge.Evidence) {
			clear(e.Tonight.Label) // of one class: tonight's AUC is not known
			// On earlier nights only the latest sound version, 5, has predictions, and the champion has none.
			e.Latest, e.Earlier[0].Last, e.Earlier[0].Old = 5, e.Earlier[0].Old, nil
		}, func(g *sweep.Gate) { g.Metric, g.MinGain = "auc", new(float64) }, sweep.VerdictNotPromoted,
			[]string{"not shown to be better by enough: version 3 cannot be compared"}},
		"refresh": {func(e *judge.Evidence) { e.Tonight = w(3).rows(20_000, 0.3, 0.3) },
			func(g *sweep.Gate) { g.Margin = 0.01 }, sweep.VerdictPromoted,
			[]string{"no worse than version 3", "margin 0.01"}},
		"the same": {func(e *judge.Evidence) { e.Tonight.Old = slices.Clone(e.Tonight.New) },
			func(g *sweep.Gate) { g.Margin = 0.01 }, sweep.VerdictNotPromoted,
			[]string{"makes the same predictions"}},
		"worse on earlier nights": {func(e *judge.Evidence) { e.Earlier = earlier(w(4).rows(10_000, 0.7, 0.2), 3) },
			nil,
			sweep.VerdictNotPromoted, []string{"worse than version 3 on 10,000 rows of earlier nights"}},
		"promises too much": {func(e *judge.Evidence) { e.Tonight.New = scaled(e.Tonight.New, 1.5) }, nil,
			sweep.VerdictNotPromoted, []string{"predicted ", " % more positives than observed",
				"allowed: 20 % fewer to 25 % more"}},
		"a third of the labels lost": {func(e *judge.Evidence) { e.Earlier[0].New = scaled(e.Earlier[0].New, 0.6) },
			nil,
			sweep.VerdictNotPromoted, []string{" % fewer positives than observed on", "rows of earlier nights",
				"allowed: 25 % fewer"}},
		"bent": {func(e *judge.Evidence) { bend(&e.Tonight) },
			func(g *sweep.Gate) { g.Calibration.Ratio = []float64{0.1, 10} }, sweep.VerdictNotPromoted,
			[]string{"calibration error", "of the base rate", "limit 25 %"}},
		"knows nothing": {func(e *judge.Evidence) { e.Champion = 0; nothing(&e.Tonight) }, nil,
			sweep.VerdictNotPromoted, []string{"normalized entropy", "no better than the base rate"}},
		"leak": {func(e *judge.Evidence) {
			e.Shares = []judge.Share{{Column: "is_paid", Share: 0.94}, {Column: "a", Share: 0.06}}
		}, nil, sweep.VerdictNotPromoted,
			[]string{`column "is_paid" has 94 % of the gain`, "does it know the label?"}},
		"leak on the first night": {func(e *judge.Evidence) {
			e.Champion = 0
			e.Shares = []judge.Share{{Column: "is_paid", Share: 0.94}, {Column: "a", Share: 0.06}}
		}, nil,
			sweep.VerdictNotPromoted, []string{`column "is_paid"`}},
		"another schema": {func(e *judge.Evidence) { e.NotTonight = "it needs the column \"x\"" }, nil,
			sweep.VerdictPromoted, []string{`needs the column "x"`, "rows of earlier nights", "better than"}},
		"no earlier rows": {func(e *judge.Evidence) {
			e.Earlier, e.NotReference = nil, "no earlier version has been the champion"
		}, nil, sweep.VerdictPromoted,
			[]string{"not compared on rows of earlier nights: no earlier"}},
		"neither": {func(e *judge.Evidence) { e.NotTonight, e.NotReference = "it needs \"x\"", "it needs \"y\"" }, nil,
			sweep.VerdictNotComparable,
			[]string{`version 3 cannot be compared`, `needs "x"`, `needs "y"`, "by hand"}},
		// All labels are 0, for which no AUC is defined, and earlier nights are not compared.
		"one class": {func(e *judge.Evidence) { clear(e.Tonight.Label); e.NotReference = "none" },
			func(g *sweep.Gate) { g.Metric = "auc" }, sweep.VerdictNotComparable, []string{"cannot be compared"}},
	} {
		t.Run(name, func(t *testing.T) {
			e := good()
			e.Shares = slices.Clone(e.Shares)
			if tc.change != nil {
				tc.change(&e)
			}
			g := gate(tc.gate)
			m := must.Get(metric.Lookup(g.Metric))(t)
			d := judge.Judge(g, m, e)
			// By hand, a version passes and yet is not promoted.
			if d.Verdict != tc.verdict || d.Passed != (tc.verdict == sweep.VerdictPromoted || name == "by hand") {
				t.Errorf("verdict %s, passed %v, want %s: %s", d.Verdict, d.Passed, tc.verdict, d.Reason)
			}
			for _, part := range tc.says {
				if !strings.Contains(d.Reason, part) {
					t.Errorf("the reason is %q, want it to say %q", d.Reason, part)
				}
			}
			if again := judge.Judge(g, m, e); fmt.Sprint(*again) != fmt.Sprint(*d) {
				t.Errorf("the same evidence is judged as %+v, then %+v; want the same", *d, *again)
			}
		})
	}
}

// TestLikeTheVersionBefore: predictions that do not add up to the labels pass if they add up to those of the version
// before, with the rows' weights. Here half of the rows weigh 9, the others 1. In the first case the version before is
// right, and the new one predicts 1.8 times as much for the heavy rows and 0.2 times as much for the others: without
// weights the sums are equal. With them the new one's is 0.9 * 1.8 + 0.1 * 0.2 = 1.64 times the other; 1.25 is allowed.
// In the second case both predict 1.8 times as much for all rows.
func TestLikeTheVersionBefore(t *testing.T) {
	for name, tc := range map[string]struct {
		heavy, light float64 // by how much the new model's predictions for these rows are too high
		before       bool    // the version before predicts the same
		want         bool
	}{"only without weights": {1.8, 0.2, false, false}, "with weights": {1.8, 1.8, true, true}} {
		r := world{rand.New(rand.NewPCG(1, 9)), -3}.rows(20_000, 0, 0)
		r.Weight = make([]float32, len(r.Label))
		for i := range r.Label {
			by := tc.heavy
			if r.Weight[i] = 9; i%2 == 1 {
				r.Weight[i], by = 1, tc.light
			}
			r.New[i] = min(by*r.New[i], 0.999) // hardly any is that large
			if tc.before {
				r.Old[i] = 0.99 * r.New[i]
			}
		}
		d := judge.Judge(gate(nil), logLoss(t), judge.Evidence{Binary: true, Champion: 3, Tonight: r, Shares: even,
			NotReference: "none"})
		i := slices.IndexFunc(d.Checks, func(c sweep.GateCheck) bool { return c.Name == "calibration" })
		if i < 0 {
			t.Fatalf("%s: the decision is %+v, want a check of the sum", name, d)
		}
		if got := d.Checks[i]; got.Passed != tc.want || strings.Contains(got.Reason, "like version 3") != tc.want {
			t.Errorf("%s: the check of the sum is %+v, want passed: %t", name, got, tc.want)
		}
	}
}

// scaled returns probabilities times a factor, at most 1.
func scaled(p []float64, by float64) []float64 {
	out := make([]float64, len(p))
	for i := range p {
		out[i] = min(p[i]*by, 1)
	}
	return out
}

// bend changes the new model's predictions: low ones become lower and high ones higher, so that their order stays.
func bend(r *judge.Judged) {
	for i, p := range r.New {
		r.New[i] = sigmoid(2.2*math.Log(p/(1-p)) + 1.9)
	}
}

// nothing replaces the new model's predictions by random ones around the base rate.
func nothing(r *judge.Judged) {
	rate := 0.0
	for _, l := range r.Label {
		rate += float64(l) / float64(len(r.Label))
	}
	random := rand.New(rand.NewPCG(3, 3))
	for i := range r.New {
		r.New[i] = rate * (0.5 + random.Float64())
	}
}

// TestRowsWithoutAColumn: a metric that is a formula of a column, bid, is not known on rows that have kept no bids.
// If these are earlier nights' rows, tonight's decide, and the checks say why the others were not compared. If
// tonight's have none, the model does not pass.
func TestRowsWithoutAColumn(t *testing.T) {
	m := must.Get(metric.Lookup("value(4 * prediction > bid ? 4 * label - bid : 0)"))(t)
	w := world{rand.New(rand.NewPCG(1, 7)), -1}
	e := judge.Evidence{Binary: true, Champion: 1, Tonight: w.rows(3000, 0.2, 0.6), Shares: even,
		Earlier: earlier(w.rows(3000, 0.2, 0.6), 1)}
	bids := make([]float32, 3000) // one for each of tonight's rows
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
		t.Errorf("with bids of tonight alone: %+v; want it passed, and what is not compared, in\n%s", d, said)
	}

	e.Tonight.Values = nil
	if d := judge.Judge(gate(nil), m, e); d.Passed || !strings.Contains(d.Reason, unknown) {
		t.Errorf("without bids: got %+v, want it not to pass because %q", d, unknown)
	}
}

// TestLabelsThatTheChampionDoesNotKnow: tonight's labels that are shuffled, inverted, lost or made up block the
// night, because the champion predicts them far worse than those of an earlier night. That the new model, trained on
// them, would win does not matter. Labels that have changed a little, as on ordinary nights, do not block.
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
				if rng.Float64() < 0.2*0.07 { // about 7 % of the labels are 1
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
		// The mean label becomes 0.5 times what the champion predicts; a factor of 1.6, up or down, is allowed.
		"half of them lost": {func(rng *rand.Rand, y []float32) {
			for i := range y {
				if rng.IntN(2) == 0 {
					y[i] = 0
				}
			}
		}, "tonight's mean label"},
		// 0.2 of the rows and 0.07 of the others are positive: nearly four times as many.
		"a fifth made up": {func(rng *rand.Rand, y []float32) {
			for i := range y {
				if rng.IntN(5) == 0 {
					y[i] = 1
				}
			}
		}, "tonight's mean label"},
	} {
		t.Run(name, func(t *testing.T) {
			// The two models were equally good, with errors of 0.2, before tonight's labels were changed.
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
