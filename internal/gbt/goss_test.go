package gbt

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// withGOSS makes a trial draw its rows by their gradients, from the second or third tree on.
func (t *trial) withGOSS(rng *rand.Rand) *trial {
	t.p.DataSampleStrategy, t.p.TopRate, t.p.OtherRate = "goss", 0.05+float64(0.4*rng.Float64()),
		0.05+float64(0.4*rng.Float64())
	t.p.BaggingFraction, t.p.BaggingFreq, t.p.PosBaggingFraction, t.p.NegBaggingFraction = 1, 0, 1, 1
	t.p.LearningRate = 0.4 + float64(0.2*rng.Float64())
	t.p.NumIterations = 7
	return t
}

// TestGOSSDraws: the rows of the largest |g h| are all drawn, of the others as many as asked for, and the weights of
// these make up for those that are not drawn.
func TestGOSSDraws(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	for seed := range uint64(20) {
		trial := randomTrial(seed, tableOfFew).withObjective("regression", rng).withGOSS(rng)
		each, err := newObjective(&trial.p, &trial.Data)
		if err != nil {
			t.Fatal(err)
		}
		obj := each[0]
		s, err := newGOSS(&trial.p, &trial.Data)
		if err != nil {
			t.Fatal(err)
		}
		raw := make([]float64, trial.Rows)
		for r := range raw {
			raw[r] = rng.NormFloat64()
		}
		rows := usedRows(&trial.Data)
		n := len(rows)
		size := func(r uint32) float64 {
			g, h := gradientOf(obj, r, raw[r])
			return math.Abs(g * h)
		}
		sizes := make([]float64, 0, n)
		own := 0.0
		for _, r := range rows {
			sizes = append(sizes, size(r))
			own += float64(s.of(r))
		}
		slices.Sort(sizes)
		least := sizes[max(n-s.top, 0)]

		in := s.draw(newKey(seed, forBag, 3), obj, raw, rows, make([]uint32, n), poolOf(2))
		if !slices.IsSorted(rows[:in]) || !slices.IsSorted(rows[in:]) {
			t.Fatalf("seed %d: bag and rest are not ascending", seed)
		}
		large, others := 0, 0
		for i, r := range rows {
			switch {
			case size(r) < least && i < in:
				others++
			case size(r) >= least && i >= in:
				t.Fatalf("seed %d: row %d of size %v is not in the bag, the least of %d rows is %v", seed, r, size(r),
					s.top, least)
			case size(r) >= least:
				if large++; s.weight[r] != s.of(r) {
					t.Fatalf("seed %d: row %d has the weight %v, want its own, %v", seed, r, s.weight[r], s.of(r))
				}
			}
		}
		if want := min(s.rest, n-large); others != want || in != large+others || large < s.top {
			t.Fatalf("seed %d: %d rows drawn, %d large and %d others; want %d or more and %d", seed, in, large, others,
				s.top, want)
		}
		if trial.Weight == nil {
			total := 0.0
			for _, r := range rows[:in] {
				total += float64(s.weight[r])
			}
			if math.Abs(total-own) > 1e-3*own {
				t.Errorf("seed %d: the bag weighs %v, all rows %v", seed, total, own)
			}
		}
	}
}

func treesOf(text []byte) string {
	trees, _, _ := strings.Cut(string(text), "end of trees")
	return trees
}

func TestGOSSRefuses(t *testing.T) {
	for want, m := range map[string]map[string]any{
		"top_rate: has no effect without data_sample_strategy: goss": {"top_rate": 0.3},
		"data_sample_strategy: goss draws the rows, and bagging would draw others; keep one": {
			"data_sample_strategy": "goss", "bagging_fraction": 0.5, "bagging_freq": 1},
		"data_sample_strategy: top_rate 0.8 and other_rate 0.3 are more than all rows": {
			"data_sample_strategy": "goss", "top_rate": 0.8, "other_rate": 0.3},
		"data_sample_strategy: goss needs gradients that change, and those of rf do not": {
			"data_sample_strategy": "goss", "boosting": "rf", "feature_fraction": 0.5},
		"boosting: it is a way of drawing rows here, as in LightGBM 4: data_sample_strategy: goss": {
			"boosting": "goss"},
	} {
		_, err := ParseParams(m)
		var pe *ParamError
		if !errors.As(err, &pe) || err.Error() != want {
			t.Errorf("%v: got  %v\nwant %s", m, err, want)
		}
	}
}
