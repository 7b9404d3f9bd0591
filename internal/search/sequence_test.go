package search

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"coppice/internal/sweep"
)

// TestHalton: a seed decides the sequence, whose points do not depend on how many there are.
func TestHalton(t *testing.T) {
	for _, axes := range []int{1, 2, 3, 40} {
		all := halton(7, maxPoints, axes)
		for i := range maxPoints {
			for j, place := range all.RawRowView(i) {
				if !(place >= 0 && place < 1) {
					t.Fatalf("%d axes: point %d is at %v of axis %d; want a place from 0 to 1, without 1", axes, i,
						place, j)
				}
			}
		}
		if !mat.Equal(all, halton(7, maxPoints, axes)) {
			t.Errorf("%d axes: made twice with one seed, the points differ", axes)
		}
		if !mat.Equal(all.Slice(0, 50, 0, axes), halton(7, 50, axes)) {
			t.Errorf("%d axes: the first 50 points of %d are not those of 50", axes, maxPoints)
		}
		if mat.Equal(all, halton(8, maxPoints, axes)) {
			t.Errorf("%d axes: seeds 7 and 8 give the same points", axes)
		}
	}
}

// TestHaltonFillsEvenly compares the centred discrepancy with that of random points, mean of twenty seeds.
func TestHaltonFillsEvenly(t *testing.T) {
	uniform := func(seed uint64, points, axes int) *mat.Dense {
		out, draw := mat.NewDense(points, axes, nil), rand.New(rand.NewPCG(seed, 1))
		out.Apply(func(int, int, float64) float64 { return draw.Float64() }, out)
		return out
	}
	mean := func(sequence func(uint64, int, int) *mat.Dense, points, axes int) float64 {
		const seeds = 20
		sum := 0.0
		for seed := range uint64(seeds) {
			sum += discrepancy(sequence(seed, points, axes))
		}
		return sum / seeds
	}

	for axes, share := range map[int]float64{3: 0.4, 5: 0.6, 10: 0.9} {
		for _, points := range []int{8, 16, 50, 64, 256} {
			random := mean(uniform, points, axes)
			got := mean(halton, points, axes)
			t.Logf("%d axes, %d points: Halton's %.5f, random %.5f", axes, points, got, random)
			if got > random*share {
				t.Errorf("%d points of %d axes: discrepancy %.5f; want at most %.1f of that of random points, %.5f",
					points, axes, got, share, random)
			}
		}
	}
}

// discrepancy is the square of the centred L2 discrepancy (Hickernell 1998), as of scipy.stats.qmc.discrepancy.
func discrepancy(points *mat.Dense) float64 {
	n, axes := points.Dims()
	single, pairs := 0.0, 0.0
	for i := range n {
		product := 1.0
		for _, x := range points.RawRowView(i) {
			z := math.Abs(x - 0.5)
			product *= 1 + z/2 - z*z/2
		}
		single += product

		for k := range n {
			product := 1.0
			for j, x := range points.RawRowView(i) {
				y := points.At(k, j)
				product *= 1 + math.Abs(x-0.5)/2 + math.Abs(y-0.5)/2 - math.Abs(x-y)/2
			}
			pairs += product
		}
	}
	return math.Pow(13.0/12, float64(axes)) - 2*single/float64(n) + pairs/float64(n*n)
}

// TestSequenceOrRandom: where a sequence has no point that may be proposed, trials are drawn at random.
func TestSequenceOrRandom(t *testing.T) {
	type dist = sweep.Distribution
	many := map[string]dist{}
	for i := range maxSequenceAxes + 1 {
		many[fmt.Sprint("x", i)] = dist{Uniform: []float64{0, 1}}
	}
	one := map[string]dist{"x": {Uniform: []float64{0, 1}}, "kind": {Choice: []any{"a", "b"}}}

	for _, c := range []struct {
		name   string
		search sweep.Search
		trial  int
		want   string
	}{
		{"the first trial", sweep.Search{Random: one}, 0, sweep.MethodHalton},
		{"the last point", sweep.Search{Random: one}, maxPoints - 1, sweep.MethodHalton},
		{"after the last point", sweep.Search{Random: one}, maxPoints, sweep.MethodRandom},
		{"a constraint that holds for half of the points",
			sweep.Search{Random: one, Constraints: []string{"x < 0.5"}}, 5, sweep.MethodHalton},
		{"too many parameters", sweep.Search{Random: many}, 0, sweep.MethodRandom},
	} {
		q := Ask{Search: c.search, Method: sweep.MethodHalton, Seed: 4, Number: 1}
		if c.trial > 0 {
			q.Known = []sweep.Seen{{Trial: c.trial - 1, Params: sweep.Params{"x": 0.25, "kind": "a"},
				Status: sweep.StatusDone}}
		}
		got, err := Next(q)
		if err != nil {
			t.Fatalf("%s: asked for one trial: %v", c.name, err)
		}
		if got[0].Source != c.want {
			t.Errorf("%s: trial %d is from %s, want %s", c.name, c.trial, got[0].Source, c.want)
		}
	}

	// Of 1,024 points about four remain, and then random draws.
	few, err := Next(Ask{Search: sweep.Search{Random: one, Constraints: []string{"x < 0.004"}},
		Method: sweep.MethodHalton,
		Seed:   4, Number: 20})
	if err != nil {
		t.Fatalf("with a constraint that few points keep: %v", err)
	}
	of := map[string]int{}
	for _, s := range few {
		of[s.Source]++
	}
	if n := of[sweep.MethodHalton]; n < 2 || n > 6 || of[sweep.MethodRandom] != 20-n {
		t.Errorf("with a constraint that about four points keep: 20 trials are from %v; want about four from the "+
			"sequence and the others random", of)
	}
}
