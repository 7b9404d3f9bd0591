package metric

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"testing"

	"coppice/internal/must"
)

// TestRankingSorts: the radix sort orders rows as the standard library's stable sort does, for predictions that are
// hard for it: few distinct values, an outlier that leaves all others in a corner of the range, all equal, both signs.
// The numbers of rows are around the one up to which it sorts by insertion (24).
func TestRankingSorts(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	shapes := map[string]func(i int) float64{
		"uniform":    func(int) float64 { return r.Float64() },
		"ties":       func(int) float64 { return float64(r.IntN(5)) / 7 },
		"constant":   func(int) float64 { return 0.3 },
		"both signs": func(int) float64 { return r.NormFloat64() * 100 },
		"zeros":      func(int) float64 { return math.Copysign(0, r.Float64()-0.5) },
		"close":      func(int) float64 { return 1 + float64(r.IntN(1000))*0x1p-52 },
		"one outlier": func(i int) float64 {
			if i == 0 {
				return 1e-300
			}
			return 0.1 + r.Float64()*1e-9
		},
		"two floats": func(i int) float64 {
			if i == 0 {
				return -1e300
			}
			return 1 + float64(r.IntN(2))*0x1p-52
		},
		"any bits": func(int) float64 {
			for {
				if p := math.Float64frombits(r.Uint64()); p-p == 0 {
					return p
				}
			}
		},
	}
	for name, shape := range shapes {
		for _, n := range []int{1, 2, 23, 24, 25, 100, 5000} {
			for _, weighted := range []bool{false, true} {
				in := Input{Label: make([]float32, n), Pred: make([]float64, n)}
				for i := range n {
					in.Pred[i], in.Label[i] = shape(i), float32(r.IntN(2))
					if weighted {
						in.Weight = append(in.Weight, r.Float32())
					}
				}
				checkRanking(t, name, in)
			}
		}
	}
}

// checkRanking fails the test unless the steps of a sorted ranking are those of the rows in the order of a stable sort.
func checkRanking(t *testing.T, name string, in Input) {
	t.Helper()
	rows := make([]int, len(in.Pred))
	for i := range rows {
		rows[i] = i
	}
	sort.SliceStable(rows, func(a, b int) bool { return in.Pred[rows[a]] > in.Pred[rows[b]] })
	s, bad := summarize(in)
	if bad != len(in.Pred) {
		t.Fatalf("%s: row %d cannot be ranked, want all to be", name, bad)
	}
	var k ranking
	k.fill(in, s.low, s.high)
	k.sortKeys()
	at := 0
	for i := 0; i < len(k.keys); {
		var got, want step
		got, i = k.nextStep(i)
		want.pred = in.Pred[rows[at]]
		for ; at < len(rows) && in.Pred[rows[at]] == want.pred; at++ {
			w := 1.0
			if in.Weight != nil {
				w = float64(in.Weight[rows[at]])
			}
			if in.Label[rows[at]] == 1 {
				want.pos += w
			} else {
				want.neg += w
			}
		}
		if got != want || i != at { // the same additions in the same order: equal to the last bit
			t.Fatalf("%s, %d rows, weights %v: step %+v up to %d, want %+v up to %d", name, len(in.Pred),
				in.Weight != nil, got, i, want, at)
		}
	}
}

// TestMetricsOfClasses: metrics of several classes have the values of sums that are written out here, a comparison with
// worse predictions shows a gain, and the standard error of a share p of n rows is sqrt(p (1-p) / n). The last row's
// class has the probability 0, which counts as 1e-15.
func TestMetricsOfClasses(t *testing.T) {
	in := Input{Label: []float32{0, 2, 1, 1}, Weight: []float32{1, 2, 1, 4},
		Pred: []float64{.7, .2, .1, .1, .3, .6, .4, .4, .2, 0, 0, 1}}
	for name, want := range map[string]float64{
		"multi_logloss": -(math.Log(.7) + 2*math.Log(.6) + math.Log(.4) + 4*math.Log(1e-15)) / 8,
		"multi_error":   5. / 8, // the third row's class (weight 1) is as likely as another, the fourth's (4) less
	} {
		m := must.Get(Lookup(name))(t)
		if got, err := m.Eval(in); err != nil || math.Abs(got-want) > 1e-12 {
			t.Errorf("%s: got %v, %v, want %v", name, got, err, want)
		}
		worse := append([]float64(nil), in.Pred...)
		worse[0], worse[2] = .1, .7
		c, err := m.Compare(in, worse, Confidence{})
		if err != nil || !(c.Gain > 0) || c.Method != Analytic {
			t.Errorf("%s: compared with worse predictions, got %+v and %v, want a gain", name, c, err)
		}
	}

	rng := rand.New(rand.NewPCG(1, 1))
	var big Input
	for range 5000 {
		p := 0.2 + 0.6*rng.Float64()
		big.Pred = append(big.Pred, p, (1-p)/2, (1-p)/2)
		big.Label = append(big.Label, float32(min(rng.IntN(4), 2)))
	}
	m, _ := Lookup("multi_error")
	i, err := m.Interval(big, Confidence{})
	if want := math.Sqrt(i.Value * (1 - i.Value) / 5000); err != nil || math.Abs(i.Error/want-1) > 1e-3 {
		t.Errorf("multi_error of 5,000 rows has the standard error %v (error %v), want %v", i.Error, err, want)
	}
}

// TestMetricsOfClassesRefuse: invalid labels, weights or predictions, or slices of lengths that do not go together, are
// refused with what is wrong.
func TestMetricsOfClassesRefuse(t *testing.T) {
	m := must.Get(Lookup("multi_logloss"))(t)
	for want, in := range map[string]Input{
		"there are no rows":       {},
		"one for each of several": {Label: []float32{0, 1}, Pred: []float64{.5, .5}},
		"2 is none of 2 classes":  {Label: []float32{0, 2}, Pred: []float64{.5, .5, .5, .5}},
		"is not a probability":    {Label: []float32{0}, Pred: []float64{.5, math.NaN()}},
		"all weights are 0":       {Label: []float32{0}, Pred: []float64{.5, .5}, Weight: []float32{0}},
		"finite weights":          {Label: []float32{0}, Pred: []float64{.5, .5}, Weight: []float32{-1}},
		"1 weights for 2 labels":  {Label: []float32{0, 1}, Pred: []float64{.5, .5, .5, .5}, Weight: []float32{1}},
		"0.5 is none of 2":        {Label: []float32{0.5}, Pred: []float64{.5, .5}},
		"for 3 predictions":       {Label: []float32{0, 1}, Pred: []float64{.5, .5, .5}},
	} {
		_, err := m.Eval(in)
		must.Say(t, fmt.Sprintf("%+v", in), err, want)
	}
}
