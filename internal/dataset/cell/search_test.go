package cell

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"
	"time"
)

// randomBounds are up to 254 ascending bounds of one of the shapes that columns have, some of them nasty.
func randomBounds(rng *rand.Rand) []float64 {
	var all []float64
	shape, scale := rng.IntN(7), math.Exp(rng.NormFloat64()*float64(rng.IntN(40)))
	for range 1 + rng.IntN(254) {
		x := rng.NormFloat64() * scale
		switch shape {
		case 1:
			x = math.Exp(rng.NormFloat64() * 20)
		case 2:
			x = math.Float64frombits(rng.Uint64()) // anything that there is
		case 3:
			x = math.Round(x / scale * 50)
		case 4:
			x = 1 + float64(rng.IntN(400))*0x1p-52 // neighbours
		case 5:
			x = float64(rng.IntN(400)) * 5e-324
		}
		if x-x == 0 { // finite
			all = append(all, x)
		}
	}
	for _, x := range []float64{-zero, zero, 0, math.Copysign(0, -1), -999, 1e9, -math.MaxFloat64, math.MaxFloat64} {
		if rng.IntN(6) == 0 {
			all = append(all, x)
		}
	}
	slices.Sort(all)
	all = slices.CompactFunc(all, func(a, b float64) bool { return a == b })
	return all[:min(254, len(all))]
}

// The bin of a number is how many bounds are less than it, whatever cells the bounds lead to.
func TestSearchIsExact(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	ways := map[string]int{}
	for range 3000 {
		bounds := randomBounds(rng)
		s := NewSearcher(bounds)
		xs := []float64{math.NaN(), math.Copysign(math.NaN(), -1), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1),
			math.MaxFloat64, -math.MaxFloat64, 5e-324, -999}
		for _, b := range bounds {
			xs = append(xs, b, math.Nextafter(b, math.Inf(1)), math.Nextafter(b, math.Inf(-1)),
				b*(1+rng.NormFloat64()/100), b+rng.NormFloat64())
		}
		out := make([]uint8, len(xs))
		s.Find(xs, out, 255)
		for i, x := range xs {
			want := uint8(255)
			if x == x { // not NaN
				want = uint8(sort.SearchFloat64s(bounds, x))
			}
			if out[i] != want {
				t.Fatalf("%v is in bin %d, want %d, of bounds %v", x, out[i], want, bounds)
			}
		}
		switch {
		case s.guide == nil:
			ways["everywhere"]++
		case s.cells.byBits:
			ways["by bits"]++
		case s.inCell > 1:
			ways["three"]++
		default:
			ways["one"]++
		}
	}
	if len(ways) != 4 {
		t.Errorf("some ways to search were never taken: %v", ways)
	}
}
