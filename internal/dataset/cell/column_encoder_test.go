package cell

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/must"
)

func randomFeature(rng *rand.Rand, bounds int) *dataset.Feature {
	f := &dataset.Feature{Name: "x", Kind: dataset.Numeric, MissingBin: -1, OtherBin: -1}
	for len(f.Bounds) < bounds {
		f.Bounds = append(f.Bounds, math.Round(rng.NormFloat64()*1e4)/16)
		slices.Sort(f.Bounds)
		f.Bounds = slices.Compact(f.Bounds)
	}
	f.Bins = bounds + 1
	if f.Bins < dataset.MaxBins && rng.IntN(2) == 0 {
		f.MissingBin, f.Bins = f.Bins, f.Bins+1
	}
	return f
}

func TestSearchFindsTheBin(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for n := range 3 * dataset.MaxBins {
		bounds := n % dataset.MaxBins
		f := randomFeature(rng, bounds)
		if n >= dataset.MaxBins { // cells that hold many bounds, or all of them
			for i := range f.Bounds {
				f.Bounds[i] = math.Copysign(math.Exp(math.Abs(f.Bounds[i])/float64(1000-n)), f.Bounds[i])
			}
			slices.Sort(f.Bounds)
			f.Bounds = slices.Compact(f.Bounds)
			bounds = len(f.Bounds)
			f.Bins = bounds + 1
			if f.MissingBin >= 0 {
				f.MissingBin, f.Bins = f.Bins, f.Bins+1
			}
		}
		c := NewColumnEncoder(f, NewMarkers(nil))
		v := dataset.Values{Type: dataset.Float, Float: []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0,
			math.Copysign(0, -1)}}
		for _, b := range f.Bounds {
			v.Float = append(v.Float, b, math.Nextafter(b, math.Inf(1)), math.Nextafter(b, math.Inf(-1)))
		}
		for range 500 {
			v.Float = append(v.Float, rng.NormFloat64()*1e3)
		}
		out := make([]uint8, len(v.Float))
		must.Get(c.Bins(&v, out, nil))(t)
		for i, x := range v.Float {
			if want := f.BinOfNumber(x); out[i] != want {
				t.Fatalf("%d bounds: %v is in bin %d, not %d", bounds, x, out[i], want)
			}
		}
	}
}

// BenchmarkSearch bins 65,536 numbers: of an even spread, of one over many magnitudes, and where there are few bins.
func BenchmarkSearch(b *testing.B) {
	for name, of := range map[string]struct {
		bins  int
		value func(*rand.Rand) float64
	}{
		"normal": {254, (*rand.Rand).NormFloat64},
		"skewed": {254, func(r *rand.Rand) float64 { return math.Exp(4 * r.NormFloat64()) }},
		"few":    {16, (*rand.Rand).NormFloat64},
	} {
		rng := rand.New(rand.NewPCG(1, 2))
		v := dataset.Values{Type: dataset.Float, Float: make([]float64, 1<<16)}
		for i := range v.Float {
			v.Float[i] = of.value(rng)
		}
		f := &dataset.Feature{Kind: dataset.Numeric, MissingBin: -1, Bounds: boundsOf(of.bins, true, v.Float...)}
		c := NewColumnEncoder(f, NewMarkers(nil))
		out := make([]uint8, len(v.Float))
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(out)))
			for b.Loop() {
				must.Get(c.Bins(&v, out, nil))(b)
			}
		})
	}
}
