package metric

import (
	"math"
	"math/rand/v2"
	"sort"
	"testing"
)

// TestRankingSorts compares the radix sort with the library's stable sort on predictions that are hard for it: few
// distinct values, one outlier that leaves all others in a corner of the range, everything equal, both signs.
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
			return map[bool]float64{true: 1e-300, false: 0.1 + r.Float64()*1e-9}[i == 0]
		},
		"two floats": func(i int) float64 {
			return map[bool]float64{true: -1e300, false: 1 + float64(r.IntN(2))*0x1p-52}[i == 0]
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

func checkRanking(t *testing.T, name string, in Input) {
	t.Helper()
	rows := make([]int, len(in.Pred))
	for i := range rows {
		rows[i] = i
	}
	sort.SliceStable(rows, func(a, b int) bool { return in.Pred[rows[a]] > in.Pred[rows[b]] })
	s, bad := summarize(in)
	if bad != len(in.Pred) {
		t.Fatalf("%s: row %d", name, bad)
	}
	var k ranking
	k.fill(in, s.low, s.high)
	k.sort()
	at := 0
	for i := 0; i < len(k.keys); {
		var got, want step
		got, i = k.next(i)
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
