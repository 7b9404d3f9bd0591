package metric_test

import (
	"encoding/csv"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"testing"

	"coppice/internal/metric"
	"coppice/internal/must"
)

// table returns the columns of testdata/NAME/rows.csv, by name.
func table(t *testing.T, name string) map[string][]string {
	t.Helper()
	f := must.Get(os.Open(filepath.Join("testdata", name, "rows.csv")))(t)
	defer f.Close()
	rows := must.Get(csv.NewReader(f).ReadAll())(t)
	columns := map[string][]string{}
	for j, head := range rows[0] {
		for _, row := range rows[1:] {
			columns[head] = append(columns[head], row[j])
		}
	}
	return columns
}

// float64s parses the words of a column.
func float64s(t *testing.T, words []string) []float64 {
	t.Helper()
	out := make([]float64, len(words))
	for i, w := range words {
		v := must.Get(strconv.ParseFloat(w, 64))(t)
		out[i] = v
	}
	return out
}

// float32s parses the words of a column.
func float32s(t *testing.T, words []string) []float32 {
	t.Helper()
	out := make([]float32, len(words))
	for i, v := range float64s(t, words) {
		out[i] = float32(v)
	}
	return out
}

// wants returns testdata/NAME/want.json: by kind of rows and metric, the expected value.
func wants(t *testing.T, name string) map[string]map[string]float64 {
	t.Helper()
	data := must.Get(os.ReadFile(filepath.Join("testdata", name, "want.json")))(t)
	var want map[string]map[string]float64
	must.Do(t, json.Unmarshal(data, &want))
	if len(want) == 0 {
		t.Fatal("want.json is empty")
	}
	return want
}

func lookup(t *testing.T, name string) metric.Metric {
	t.Helper()
	return must.Get(metric.Lookup(name))(t)
}

// compare fails the test unless the metrics have the wanted values, by name, but for rounding.
func compare(t *testing.T, in metric.Input, want map[string]float64) {
	t.Helper()
	var e metric.Evaluator
	e.Reset(in)
	for name, value := range want {
		got, err := e.Eval(lookup(t, name))
		if err != nil {
			t.Errorf("evaluated %s: error %v", name, err)
			continue
		}
		if math.Abs(got-value) > 1e-12*max(1, math.Abs(value)) {
			t.Errorf("%s: got %.17g, want scikit-learn's %.17g", name, got, value)
		}
	}
}

// TestBinaryAgainstScikitLearn: metrics of labels 0 and 1 are scikit-learn's, with ties and with weights.
func TestBinaryAgainstScikitLearn(t *testing.T) {
	rows := table(t, "binary")
	for key, want := range wants(t, "binary") {
		t.Run(key, func(t *testing.T) {
			in := metric.Input{Label: float32s(t, rows["label"])}
			switch key {
			case "pred plain", "pred weighted":
				in.Pred = float64s(t, rows["pred"])
			case "tied plain", "tied weighted":
				in.Pred = float64s(t, rows["tied"])
			}
			if key == "pred weighted" || key == "tied weighted" {
				in.Weight = float32s(t, rows["weight"])
			}
			compare(t, in, want)
		})
	}
}

// TestRegressionAgainstScikitLearn: metrics of numbers are scikit-learn's, with and without weights.
func TestRegressionAgainstScikitLearn(t *testing.T) {
	rows := table(t, "regression")
	for key, want := range wants(t, "regression") {
		t.Run(key, func(t *testing.T) {
			in := metric.Input{Label: float32s(t, rows["label"]), Pred: float64s(t, rows["pred"])}
			if key == "weighted" {
				in.Weight = float32s(t, rows["weight"])
			}
			compare(t, in, want)
		})
	}
}

// TestRankingAgainstScikitLearn: ranking metrics are scikit-learn's, with and without weights.
func TestRankingAgainstScikitLearn(t *testing.T) {
	rows := table(t, "ranking")
	group := make([]uint64, len(rows["group"]))
	for i, w := range rows["group"] {
		v := must.Get(strconv.ParseUint(w, 10, 64))(t)
		group[i] = v
	}
	for key, want := range wants(t, "ranking") {
		t.Run(key, func(t *testing.T) {
			in := metric.Input{Label: float32s(t, rows["label"]), Pred: float64s(t, rows["pred"]), Group: group}
			if key == "weighted" {
				in.Weight = float32s(t, rows["weight"])
			}
			compare(t, in, want)
		})
	}
}

// TestMeanAveragePrecision: map is LightGBM's formula (src/metric/map_metric.hpp), averaged over all orders of rows
// with equal predictions. There are 40 groups of up to six rows with few distinct predictions, so many are equal.
func TestMeanAveragePrecision(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	var in metric.Input
	var groups [][]int
	for g := range 40 {
		var rows []int
		for range 1 + rng.IntN(6) {
			rows = append(rows, len(in.Pred))
			in.Pred = append(in.Pred, float64(rng.IntN(4)))
			in.Label = append(in.Label, float32(max(0, rng.IntN(5)-2)))
			in.Weight = append(in.Weight, float32(1+rng.IntN(3)))
			in.Group = append(in.Group, uint64(g)*7919)
		}
		groups = append(groups, rows)
	}

	for name, places := range map[string]int{"map": 100, "map@1": 1, "map@3": 3} {
		m := must.Get(metric.Lookup(name))(t)
		got := must.Get(m.Eval(in))(t)
		want, total := 0.0, 0.0
		for _, rows := range groups {
			weight := 0.0
			for _, r := range rows {
				weight += float64(in.Weight[r]) / float64(len(rows))
			}
			want += weight * overOrders(in, rows, places)
			total += weight
		}
		want /= total
		if math.Abs(got-want) > 1e-12 {
			t.Errorf("%s is %v, want %v, the mean over all orders", name, got, want)
		}
	}
}

// overOrders returns a group's average precision by LightGBM's formula, averaged over all orders of its rows in which
// predictions descend.
func overOrders(in metric.Input, rows []int, places int) float64 {
	sum, orders := 0.0, 0
	var try func(k int)
	try = func(k int) {
		if k < len(rows) {
			for i := k; i < len(rows); i++ {
				rows[k], rows[i] = rows[i], rows[k]
				try(k + 1)
				rows[k], rows[i] = rows[i], rows[k]
			}
			return
		}
		if !sort.SliceIsSorted(rows, func(i, j int) bool { return in.Pred[rows[i]] > in.Pred[rows[j]] }) {
			return
		}
		orders++
		hits, all, value := 0, 0, 0.0
		for i, r := range rows {
			if in.Label[r] > 0 {
				all++
				if i < places {
					hits++
					value += float64(hits) / float64(i+1)
				}
			}
		}
		if all == 0 {
			sum++
			return
		}
		sum += value / float64(min(all, places, len(rows)))
	}
	try(0)
	return sum / float64(orders)
}

// TestBins: Bins makes as many bins as asked for, by ascending rank, if there are enough ranks; of three ranks three
// bins, and of no rows none. The sums over all bins are those over all rows, from which Effective and Count follow. The
// order of rows does not matter, which it would if rows of the same rank were divided.
//
// There are 5,000 rows of 20 ranks, each with about 5 % of the weight. Bin k of 8 ends with the rank in which k/8 of
// the weight are reached. An eighth is 12.5 %, more than a rank, so no two bins end with the same rank: there are 8, of
// 2 or 3 ranks.
func TestBins(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	in := metric.Input{}
	var rank, after []float64
	var weight, positive, before, squares float64
	for range 5000 {
		r := math.Floor(20*rng.Float64()) / 20 // one of 20 ranks, which is also the prediction
		label, w := float32(rng.IntN(2)), float32(1+rng.IntN(3))
		in.Label, in.Weight, in.Pred = append(in.Label, label), append(in.Weight, w), append(in.Pred, r)
		rank, after = append(rank, r), append(after, r/2)
		weight, positive, before, squares = weight+float64(w), positive+float64(w*label), before+float64(w)*r,
			squares+float64(w*w)
	}
	bins := metric.Bins(in, rank, after, 8)
	if len(bins) != 8 {
		t.Fatalf("20 ranks made %d bins, expected 8", len(bins))
	}
	few := metric.Input{Label: []float32{0, 1, 0, 1}, Pred: []float64{.1, .2, .2, .3}}
	if got := metric.Bins(few, few.Pred, nil, 8); len(got) != 3 || got[1].Rows != 2 {
		t.Errorf("4 rows of 3 ranks made the bins %+v, expected 3, of which the second has 2 rows", got)
	}
	sum, last := metric.Bin{}, -1.0
	for i, b := range bins {
		if mean := b.Before / b.Weight; mean <= last {
			t.Errorf("bin %d has the mean %v after %v, expected bins to ascend", i, mean, last)
		} else {
			last = mean
		}
		sum = sum.Plus(b)
	}
	if sum.Rows != 5000 || sum.Weight != weight || sum.Positive != positive || math.Abs(sum.Before-before) > 1e-6 ||
		math.Abs(sum.After-before/2) > 1e-6 {
		t.Errorf("the bins sum up to %+v; expected 5000 rows, weight %v, positive %v, before %v", sum, weight, positive,
			before)
	}

	if want := weight * weight / squares; sum.Effective() != want || math.Abs(sum.Count()-positive*want/weight) > 1e-9 {
		t.Errorf("rows of weights 1 to 3 are worth %v, positive ones %v; expected %v and %v", sum.Effective(),
			sum.Count(), want, positive*want/weight)
	}

	// The order of rows changes nothing but the order in which numbers are added.
	reversed := metric.Input{Label: slices.Clone(in.Label), Weight: slices.Clone(in.Weight),
		Pred: slices.Clone(in.Pred)}
	slices.Reverse(reversed.Label)
	slices.Reverse(reversed.Weight)
	slices.Reverse(reversed.Pred)
	for i, b := range metric.Bins(reversed, reversed.Pred, nil, 8) {
		if b.Rows != bins[i].Rows || b.Positive != bins[i].Positive {
			t.Errorf("with the rows the other way round bin %d is %+v, expected %+v", i, b, bins[i])
		}
	}
	if got := metric.Bins(metric.Input{}, nil, nil, 8); len(got) != 0 {
		t.Errorf("no rows made the bins %+v, want none", got)
	}
}

// TestOfConstant: OfConstant of the classes' shares is the metric's value if these shares are predicted for every row.
// It is not defined for shares that are none or that give one class all rows. Tested.Shares adds up the bins of the
// test rows.
func TestOfConstant(t *testing.T) {
	const rows = 40
	for _, tc := range []struct {
		names  []string
		counts []int
	}{
		{[]string{"log_loss", "normalized_entropy", "relative_information_gain", "brier", "auc", "average_precision",
			"accuracy", "error_rate"}, []int{30, 10}},
		{[]string{"multi_logloss", "multi_error"}, []int{24, 12, 4}},
	} {
		var in metric.Input
		shares := make([]float64, len(tc.counts))
		for c, n := range tc.counts {
			shares[c] = float64(n) / rows
			for range n {
				in.Label = append(in.Label, float32(c))
			}
		}
		for range rows {
			if len(shares) == 2 {
				in.Pred = append(in.Pred, shares[1])
			} else {
				in.Pred = append(in.Pred, shares...)
			}
		}
		for _, name := range tc.names {
			m := must.Get(metric.Lookup(name))(t)
			want, err := m.Eval(in)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if got, ok := metric.OfConstant(name, shares); !ok || math.Abs(got-want) > 1e-12 {
				t.Errorf("%s of %v alone: got %v (%t), want %v", name, shares, got, ok, want)
			}
		}
	}
	for _, shares := range [][]float64{nil, {1, 0}, {math.NaN(), 0.5}, {0.5, 2}} {
		if v, ok := metric.OfConstant("log_loss", shares); ok {
			t.Errorf("log_loss of %v: got %v, want that it says nothing", shares, v)
		}
	}
	binary := metric.Tested{Calibrated: true, Bins: []metric.Bin{{Weight: 3, Positive: 1}, {Weight: 5, Positive: 1}}}
	if s := binary.Shares(); len(s) != 2 || s[0] != 0.75 || s[1] != 0.25 {
		t.Errorf("the shares of 2 of 8 are %v, want 0.75 and 0.25", s)
	}
}

// TestOfOne: of a ranking metric, OfOne is the mean over all orders of each group's rows. Of others it is the metric's
// value for predicting the mean label, also if the rows have groups, as patients are for a cross-validation. Unknown
// metrics and r2 are left out. Tested.OfConstant returns such a value if it was recorded.
func TestOfOne(t *testing.T) {
	in := metric.Input{Label: []float32{2, 0, 1, 1, 0}, Group: []uint64{1, 1, 1, 2, 2}}
	ndcg := must.Get(metric.Lookup("ndcg@2"))(t)
	want, orders := 0.0, [][]float64{{1, 2, 3}, {1, 3, 2}, {2, 1, 3}, {2, 3, 1}, {3, 1, 2}, {3, 2, 1}}
	for _, o := range orders {
		for _, of2 := range [][]float64{{1, 2}, {2, 1}} {
			in.Pred = append(o[:3:3], of2...)
			v := must.Get(ndcg.Eval(in))(t)
			want += v / float64(2*len(orders))
		}
	}
	got := metric.OfOne(in, "ndcg@2", "no metric")
	if len(got) != 1 || math.Abs(got["ndcg@2"]-want) > 1e-12 {
		t.Errorf("in random order: got %v, want ndcg@2 %v", got, want)
	}

	// The weighted mean is 2.5; squared errors are 2 x 2.25, .25 and 12.25.
	numbers := metric.Input{Label: []float32{1, 2, 6}, Weight: []float32{2, 1, 1}}
	for _, group := range [][]uint64{nil, {1, 1, 2}} {
		numbers.Group = group
		got = metric.OfOne(numbers, "rmse", "mae", "r2")
		if len(got) != 2 || math.Abs(got["rmse"]-math.Sqrt(17.0/4)) > 1e-12 || math.Abs(got["mae"]-7.0/4) > 1e-12 {
			t.Errorf("the mean of %v by weights %v, in groups %v: got %v, want rmse and mae of 2.5", numbers.Label,
				numbers.Weight, group, got)
		}
	}
	if v, ok := (&metric.Tested{Alone: got}).OfConstant("mae"); !ok || v != got["mae"] {
		t.Errorf("of tested rows: got mae %v (%t), want %v", v, ok, got["mae"])
	}
}
