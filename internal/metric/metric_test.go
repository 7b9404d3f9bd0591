package metric_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coppice/internal/metric"
	"coppice/internal/must"
	"coppice/internal/problem"
)

// all returns the metrics of the given kinds, some with several arguments, except gamma's, which take no labels of 0.
func all(t *testing.T, kinds ...metric.Kind) []metric.Metric {
	t.Helper()
	var out []metric.Metric
	for _, name := range append(metric.Names(), "precision@40", "recall@7%", "lift@12", "ece@7", "ndcg@3") {
		if m := lookup(t, name); slices.Contains(kinds, m.Kind) && !strings.HasPrefix(name, "gamma") {
			out = append(out, m)
		}
	}
	return out
}

// rows returns n random rows with labels 0 and 1, of which both occur, probabilities that are right on the whole, and
// groups of about eight. distinct is how many different values the predictions take; with 0 all are different. Weights
// are whole numbers from 0 to 3.
func rows(r *rand.Rand, n, distinct int, weighted bool) metric.Input {
	in := metric.Input{Label: make([]float32, n), Pred: make([]float64, n), Group: make([]uint64, n)}
	for i := range n {
		p := r.Float64()
		if distinct > 0 {
			p = float64(1+r.IntN(distinct)) / float64(1+distinct)
		}
		in.Pred[i] = p
		if r.Float64() < 0.1+0.8*p {
			in.Label[i] = 1
		}
		in.Group[i] = uint64(r.IntN(n/8 + 1))
		if weighted {
			in.Weight = append(in.Weight, float32(r.IntN(4)))
		}
	}
	in.Label[0], in.Label[1] = 0, 1
	return in
}

// permuted returns the rows in a random order.
func permuted(r *rand.Rand, in metric.Input) metric.Input {
	var out metric.Input
	for _, i := range r.Perm(len(in.Pred)) {
		out = appendRow(out, in, i)
	}
	return out
}

// appendRow appends row i of in to out.
func appendRow(out, in metric.Input, i int) metric.Input {
	out.Label = append(out.Label, in.Label[i])
	out.Pred = append(out.Pred, in.Pred[i])
	out.Group = append(out.Group, in.Group[i])
	if in.Weight != nil {
		out.Weight = append(out.Weight, in.Weight[i])
	}
	return out
}

// eval returns a metric's value, and fails the test if there is none.
func eval(t *testing.T, m metric.Metric, in metric.Input) float64 {
	t.Helper()
	v, err := m.Eval(in)
	if err != nil {
		t.Fatalf("evaluated %s: error %v", m.Name, err)
	}
	return v
}

// near fails the test unless got is want but for rounding: 1e-12, or as much of want.
func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= 1e-12*max(1, math.Abs(want))) {
		t.Errorf("%s: got %.17g, want %.17g", what, got, want)
	}
}

// seeded returns a generator with a random seed, which it logs: these tests must hold for any rows.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// TestOrderOfRowsDoesNotMatter: a metric has the same value for the rows in another order, also with equal predictions
// and with weights.
func TestOrderOfRowsDoesNotMatter(t *testing.T) {
	r := seeded(t)
	for _, n := range []int{60, 200, 3000} {
		for _, distinct := range []int{0, 9} {
			for _, weighted := range []bool{false, true} {
				in := rows(r, n, distinct, weighted)
				shuffled := permuted(r, in)
				for _, m := range all(t, metric.Binary, metric.Ranking, metric.Regression) {
					near(t, fmt.Sprintf("%s of %d rows", m.Name, n), eval(t, m, shuffled), eval(t, m, in))
				}
			}
		}
	}
}

// TestWeightTwoIsTheRowTwice: a row whose weight is a whole number counts as that many rows.
func TestWeightTwoIsTheRowTwice(t *testing.T) {
	r := seeded(t)
	for _, distinct := range []int{0, 9} {
		in := rows(r, 500, distinct, true)
		var repeated metric.Input
		for i, w := range in.Weight {
			for range int(w) {
				repeated = appendRow(repeated, in, i)
			}
		}
		repeated.Weight = nil
		for _, m := range all(t, metric.Binary, metric.Regression) {
			near(t, m.Name, eval(t, m, in), eval(t, m, repeated))
		}
	}
}

// TestOnlyTheOrderOfPredictionsMatters: metrics with RankOnly have the same value, to the bit, if an increasing
// function is applied to the predictions.
func TestOnlyTheOrderOfPredictionsMatters(t *testing.T) {
	r := seeded(t)
	checked := 0
	for _, weighted := range []bool{false, true} {
		in := rows(r, 2000, 300, weighted)
		moved := in
		moved.Pred = nil
		for _, p := range in.Pred {
			moved.Pred = append(moved.Pred, math.Log(p+1e-9)*1e3) // far outside 0 to 1
		}
		for _, m := range all(t, metric.Binary, metric.Ranking) {
			if m.RankOnly {
				checked++
				if a, b := eval(t, m, in), eval(t, m, moved); a != b {
					t.Errorf("%s: %v and, after an increasing function, %v; want the same", m.Name, a, b)
				}
			}
		}
	}
	if checked < 10 {
		t.Errorf("%d metrics with RankOnly were checked, want at least 10", checked)
	}
}

// TestTiesCountAsTheMeanOverTheirOrders: a metric of rows with equal predictions is its mean over all ways to break the
// ties. There are four rows with .5 and two with .2, which is 24 x 2 ways.
func TestTiesCountAsTheMeanOverTheirOrders(t *testing.T) {
	pred := []float64{0.9, 0.5, 0.5, 0.5, 0.5, 0.2, 0.2}
	label := []float32{1, 1, 0, 0, 1, 1, 0}
	for _, name := range []string{"auc", "precision@3", "recall@3", "lift@2", "precision@50%", "ndcg", "ndcg@3"} {
		m := lookup(t, name)
		sum, n := 0.0, 0.0
		permute([]int{0, 1, 2, 3}, func(a []int) {
			permute([]int{0, 1}, func(b []int) {
				p := slices.Clone(pred)
				for i, x := range a {
					p[1+i] += float64(x) * 1e-3
				}
				for i, x := range b {
					p[5+i] += float64(x) * 1e-3
				}
				sum += eval(t, m, metric.Input{Label: label, Pred: p, Group: make([]uint64, 7)})
				n++
			})
		})
		if n != 48 {
			t.Fatalf("%s was averaged over %v orders, want 48", name, n)
		}
		near(t, name, eval(t, m, metric.Input{Label: label, Pred: pred, Group: make([]uint64, 7)}), sum/n)
	}
}

// permute calls yield with s in every order.
func permute(s []int, yield func([]int)) {
	if len(s) == 0 {
		yield(s)
		return
	}
	var walk func(k int)
	walk = func(k int) {
		if k == len(s) {
			yield(s)
			return
		}
		for i := k; i < len(s); i++ {
			s[k], s[i] = s[i], s[k]
			walk(k + 1)
			s[k], s[i] = s[i], s[k]
		}
	}
	walk(0)
}

// TestKnownValues: metrics have the values that are known without calculating: for constant, perfect and reversed
// predictions, and in a few cases at the edges, which are explained beside them.
func TestKnownValues(t *testing.T) {
	constant := metric.Input{Label: []float32{0, 1, 0, 0}, Pred: []float64{0.25, 0.25, 0.25, 0.25}}
	perfect := metric.Input{Label: []float32{0, 1, 0, 1}, Pred: []float64{0, 1, 0, 1}}
	wrong := metric.Input{Label: []float32{0, 1, 0, 1}, Pred: []float64{1, 0, 1, 0}}
	for _, tc := range []struct {
		name string
		in   metric.Input
		want float64
	}{
		{"auc", constant, 0.5},
		{"auc", perfect, 1},
		{"auc", wrong, 0},
		{"average_precision", constant, 0.25},
		{"log_loss", perfect, -math.Log(1 - 1e-15)}, // probabilities are kept 1e-15 away from 0 and 1
		{"log_loss", wrong, -math.Log(1e-15)},
		{"normalized_entropy", constant, 1},
		{"ece", constant, 0},
		{"ece", wrong, 1},
		{"brier", wrong, 1},
		{"accuracy", perfect, 1},
		{"error_rate", wrong, 1},
		{"f1", wrong, 0},
		{"precision@2", constant, 0.25},
		{"recall@25%", constant, 0.25},
		{"lift@1", perfect, 2},
		{"precision@100%", perfect, 0.5},
		// The first 1 % of two rows is 0.02 of the first row, which holds the only positive.
		{"recall@1%", metric.Input{Label: []float32{1, 0}, Pred: []float64{1, 0}}, 0.02},
		// 0 and -0 are a tie.
		{"auc", metric.Input{Label: []float32{1, 0}, Pred: []float64{0, math.Copysign(0, -1)}}, 0.5},
		// The farthest and the nearest two numbers are told apart.
		{"auc", metric.Input{Label: []float32{1, 0}, Pred: []float64{math.MaxFloat64, -math.MaxFloat64}}, 1},
		{"auc", metric.Input{Label: []float32{1, 0}, Pred: []float64{math.SmallestNonzeroFloat64, 0}}, 1},
	} {
		near(t, fmt.Sprintf("%s of %v", tc.name, tc.in), eval(t, lookup(t, tc.name), tc.in), tc.want)
	}
}

// TestInputErrors: rows for which a metric is not defined are refused with an *InputError that names the row and says
// what is wrong with it.
func TestInputErrors(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	two := []float64{0.2, 0.3}
	ok := []float32{0, 1}
	for name, tc := range map[string]struct {
		metric string
		in     metric.Input
		want   string
	}{
		"empty": {"auc", metric.Input{}, "auc: there are no rows"},
		"labels": {"auc", metric.Input{Label: ok[:1], Pred: two},
			"auc: the columns have different lengths: 1 labels for 2 predictions"},
		"weights": {"mae", metric.Input{Label: ok, Weight: ok[:1], Pred: two},
			"mae: the columns have different lengths: 1 weights for 2 predictions"},
		"groups": {"ndcg", metric.Input{Label: ok, Pred: two, Group: []uint64{1}},
			"ndcg: the columns have different lengths: 1 groups for 2 predictions"},
		"no groups": {"ndcg", metric.Input{Label: ok, Pred: two},
			"ndcg: the rows have no groups: name the dataset's group column"},
		"grade": {"ndcg", metric.Input{Label: []float32{1, 31}, Pred: two, Group: []uint64{1, 1}},
			"ndcg: row 1: the label cannot be used: 31, and ndcg is for whole grades 0 to 30"},
		"nan prediction": {"auc", metric.Input{Label: ok, Pred: []float64{0.1, nan}},
			"auc: row 1: the prediction cannot be used: NaN is not a finite number"},
		"inf prediction": {"rmse", metric.Input{Label: ok, Pred: []float64{inf, 0}},
			"rmse: row 0: the prediction cannot be used: +Inf is not a finite number"},
		"raw score": {"log_loss", metric.Input{Label: ok, Pred: []float64{0.5, -3}},
			"log_loss: row 1: the prediction cannot be used: -3 is not a probability; raw scores need the sigmoid " +
				"first"},
		"label": {"brier", metric.Input{Label: []float32{0.5, 1}, Pred: two},
			"brier: row 0: the label cannot be used: 0.5, and brier is for labels 0 and 1"},
		"nan label": {"auc", metric.Input{Label: []float32{1, float32(nan)}, Pred: two},
			"auc: row 1: the label cannot be used: NaN, and auc is for labels 0 and 1"},
		"weighted label": {"auc", metric.Input{Label: []float32{1, 2}, Weight: ok, Pred: two},
			"auc: row 1: the label cannot be used: 2, and auc is for labels 0 and 1"},
		"nan number": {"r2", metric.Input{Label: []float32{1, float32(nan)}, Pred: two},
			"r2: row 1: the label cannot be used: NaN is not a finite number"},
		"negative weight": {"auc", metric.Input{Label: ok, Weight: []float32{1, -1}, Pred: two},
			"auc: row 1: the weight cannot be used: -1; use finite weights of 0 or more"},
		"infinite weight": {"l2", metric.Input{Label: ok, Weight: []float32{1, float32(inf)}, Pred: two},
			"l2: row 1: the weight cannot be used: +Inf; use finite weights of 0 or more"},
		"no weight": {"log_loss", metric.Input{Label: ok, Weight: []float32{0, 0}, Pred: two},
			"log_loss: all weights are 0"},
		"no weight mae": {"mae", metric.Input{Label: ok, Weight: []float32{0, 0}, Pred: two},
			"mae: all weights are 0"},
		"no positive": {"auc", metric.Input{Label: []float32{0, 0}, Pred: two},
			"auc: all labels are the same: none is 1, so auc is not defined"},
		"no negative": {"auc", metric.Input{Label: []float32{1, 1}, Pred: two},
			"auc: all labels are the same: none is 0, so auc is not defined"},
		"weightless one": {"ap", metric.Input{Label: ok, Weight: []float32{1, 0}, Pred: two},
			"average_precision: all labels with a weight above 0 are the same: none is 1, so average_precision is " +
				"not defined"},
		"no entropy": {"ne", metric.Input{Label: []float32{1, 1}, Pred: two},
			"normalized_entropy: all labels are the same: the base rate has no entropy, so normalized_entropy is not " +
				"defined"},
		"f1": {"f1", metric.Input{Label: []float32{0, 0}, Pred: two},
			"f1: all labels are the same: none is 1, so f1 is not defined"},
		"constant": {"r2", metric.Input{Label: []float32{4, 4}, Pred: two},
			"r2: all labels are the same: there is no variance to explain, so r2 is not defined"},
		"too few": {"precision@3", metric.Input{Label: ok, Pred: two},
			"precision@3: there are fewer rows than the metric looks at: the rows' weight is 2; use a lower count " +
				"or a share, such as 1%"},
		"overflow": {"l2", metric.Input{Label: ok, Pred: []float64{1e200, 0}},
			"l2: the value is too large for a float64"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := lookup(t, tc.metric).Eval(tc.in)
			var e *metric.InputError
			if !errors.As(err, &e) || err.Error() != tc.want {
				t.Errorf("evaluating %s: got %v (%T)\nwant the *InputError %s", tc.metric, err, err, tc.want)
			}
		})
	}
}

// TestLookup: a metric is found by its name, its aliases and its name as an identifier, whatever the spelling of the
// argument. A misspelled name is an error that suggests the nearest one or, if none is near, lists all. A wrong
// argument is an error that says what to use.
func TestLookup(t *testing.T) {
	for name, want := range map[string]string{
		"AUC": "auc", " auc ": "auc", "roc_auc": "auc", "binary_logloss": "log_loss", "log-loss": "log_loss",
		"ap": "average_precision", "rig": "relative_information_gain", "calibration": "calibration_ratio",
		"mse": "l2", "precision@1%": "precision@1%", "precision@0.01": "precision@1%", "P@0.5%": "precision@0.5%",
		"lift@0.05": "lift@5%", "precision@0.07": "precision@7%", "recall@100": "recall@100", "recall@1": "recall@1",
		"recall@1.0":            "recall@100%",
		"precision@0.333333333": "precision@33.3333%", "ece@15": "ece", "ece@20": "ece@20", "ndcg@5": "ndcg@5",
		"ndcg":              "ndcg",
		"precision_at_1pct": "precision@1%", "precision_at_0_5pct": "precision@0.5%", "ece_at_20": "ece@20",
		"lift_at_100": "lift@100",
	} {
		m, err := metric.Lookup(name)
		if err != nil || m.Name != want {
			t.Errorf("%q: got %q, %v; want %q", name, m.Name, err, want)
		}
	}
	sorted := metric.Names()
	slices.Sort(sorted)
	known := strings.Join(sorted, ", ")
	for name, want := range map[string]string{
		"acu":           `unknown metric "acu" (known: ` + known + `)`,
		"binary_loglos": `unknown metric "binary_loglos" (did you mean "binary_logloss"?)`,
		"log_los":       `unknown metric "log_los" (did you mean "log_loss"?)`,
		"precision": "metric precision needs @ and the top rows to look at: @1% and @0.01 are the top " +
			"hundredth, @100 is a hundred rows",
		"precision@": "metric precision needs @ and the top rows to look at: @1% and @0.01 are the top " +
			"hundredth, @100 is a hundred rows",
		"precision@0": "metric precision@0: give the top rows as a share or a count: @1% and @0.01 are the " +
			"top hundredth, @100 is a hundred rows",
		"precision@101%": "metric precision@101%: give the top rows as a share or a count: @1% and @0.01 are " +
			"the top hundredth, @100 is a hundred rows",
		"precision@inf": "metric precision@inf: give the top rows as a share or a count: @1% and @0.01 are the " +
			"top hundredth, @100 is a hundred rows",
		"precision@-5": "metric precision@-5: give the top rows as a share or a count: @1% and @0.01 are the " +
			"top hundredth, @100 is a hundred rows",
		"recall@99999999999": "metric recall@99999999999: give the top rows as a share or a count: @1% and @0.01 " +
			"are the top hundredth, @100 is a hundred rows",
		"ece@1":  "metric ece@1: give the number of bins, 2 to 10000",
		"ndcg@x": "metric ndcg@x: give the number of places, 1 or more",
		"auc@5":  "metric auc@5: this metric takes nothing after an @",
	} {
		_, err := metric.Lookup(name)
		if err == nil || err.Error() != want {
			t.Errorf("%q:\ngot  %v\nwant %s", name, err, want)
		}
	}
}

// TestMetricsAreDocumented: the table of docs/sweep.md has one row for each metric and no other. It says of what kind
// the metric is, which values are better, and in some words what it is.
func TestMetricsAreDocumented(t *testing.T) {
	text := must.Get(os.ReadFile(filepath.Join("..", "..", "docs", "sweep.md")))(t)
	_, table, _ := strings.Cut(string(text), "\n## Metrics\n")
	table, _, _ = strings.Cut(table, "\n## ")
	for _, name := range metric.Names() {
		m := lookup(t, name)
		must.Equal(t, m.Name, name, "%q looks up", name)
		better := "lower"
		if m.Maximize {
			better = "higher"
		}
		if m.Aim != 0 {
			better = fmt.Sprintf("closer to %v", m.Aim)
		}
		row := fmt.Sprintf("| `%s` | %s | %s | ", name, m.Kind, better)
		if _, rest, _ := strings.Cut(table, "\n"+row); len(rest) < 10 || strings.IndexByte(rest, '|') < 5 {
			t.Errorf("the part Metrics of docs/sweep.md lacks this row, with what the metric is:\n%s", row)
		}
	}
	must.Equal(t, strings.Count(table, "\n| `"), len(metric.Names()), "rows of docs/sweep.md, part Metrics")
}

// identifier is the metric's name where only letters, digits and underscores may stand: precision_at_1pct.
func identifier(m metric.Metric) string {
	return strings.NewReplacer("@", "_at_", "%", "pct", ".", "_").Replace(m.Name)
}

// FuzzLookup: any text is refused as bad input, or finds a metric whose name finds it again, also as an identifier.
func FuzzLookup(f *testing.F) {
	for _, s := range []string{"auc", "precision@1%", "lift@0.05", "ece@20", "ndcg_at_3", "p@1e3", "r_at_0_5pct",
		"value(label*4-(prediction>.1?1:0))"} {
		f.Add(s)
	}
	for _, s := range metric.Names() {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		m, err := metric.Lookup(name)
		if err != nil {
			if !problem.Is(err, problem.Input) {
				t.Fatalf("looking up %q: got %v, which does not say that the input is at fault", name, err)
			}
			return
		}
		names := []string{m.Name, identifier(m)}
		if m.Kind == metric.OfRows { // an expression is no identifier
			names = names[:1]
		} else if strings.ContainsAny(names[1], "@%.") {
			t.Fatalf("%q has the identifier %q, want one without marks", m.Name, names[1])
		}
		for _, again := range names {
			must.Equal(t, must.Get(metric.Lookup(again))(t).Name, m.Name, "%q finds %q, which finds", name, again)
		}
	})
}

// TestEvaluatorKeepsItsMemory: an Evaluator that is used again gives the same values as a new one, whatever rows it had
// before, and allocates nothing for rows that are no more than before.
func TestEvaluatorKeepsItsMemory(t *testing.T) {
	r := seeded(t)
	big, small, weighted := rows(r, 5000, 0, false), rows(r, 700, 40, false), rows(r, 3000, 40, true)
	var e metric.Evaluator
	for range 2 {
		for _, in := range []metric.Input{big, small, weighted} {
			e.Reset(in)
			for _, m := range all(t, metric.Binary, metric.Regression, metric.Ranking) {
				got := must.Get(e.Eval(m))(t)
				if want := eval(t, m, in); got != want {
					t.Errorf("%s: %v by an evaluator that is used again, %v by a new one", m.Name, got, want)
				}
			}
		}
	}
	for _, m := range all(t, metric.Binary, metric.Regression, metric.Ranking) {
		allocated := testing.AllocsPerRun(3, func() {
			e.Reset(weighted)
			must.Get(e.Eval(m))(t)
		})
		if allocated > 0 {
			t.Errorf("%s allocates %v times, want never", m.Name, allocated)
		}
	}
}
