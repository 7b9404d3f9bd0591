package search

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"coppice/internal/sweep"
)

// TestSequences: a seed decides a sequence, whose points do not depend on how many there are.
func TestSequences(t *testing.T) {
	for source, points := range sequences {
		for _, axes := range []int{1, 2, 3, 40} {
			all := points(7, maxPoints, axes)
			for i := range maxPoints {
				for j, place := range all.RawRowView(i) {
					if !(place >= 0 && place < 1) {
						t.Fatalf("%s with %d axes: point %d is at %v of axis %d; want a place from 0 to 1, without 1",
							source, axes, i, place, j)
					}
				}
			}
			if !mat.Equal(all, points(7, maxPoints, axes)) {
				t.Errorf("%s with %d axes: made twice with one seed, the points differ", source, axes)
			}
			if !mat.Equal(all.Slice(0, 50, 0, axes), points(7, 50, axes)) {
				t.Errorf("%s with %d axes: the first 50 points of %d are not those of 50", source, axes, maxPoints)
			}
			if mat.Equal(all, points(8, maxPoints, axes)) {
				t.Errorf("%s with %d axes: seeds 7 and 8 give the same points", source, axes)
			}
		}
	}
}

// TestSobolIsJoeAndKuos compares with SciPy: scipy.stats.qmc.Sobol(6, scramble=False, bits=32).random(1024) * 1024. The
// shift is taken back by the first point, which is the origin.
func TestSobolIsJoeAndKuos(t *testing.T) {
	all := sobol(3, maxPoints, 6)
	digits := func(point, axis int) uint32 { return uint32(math.Ldexp(all.At(point, axis), 32)) }
	for point, want := range map[int][]uint32{
		1: {512, 512, 512, 512, 512, 512}, 2: {768, 256, 256, 256, 768, 768}, 3: {256, 768, 768, 768, 256, 256},
		4: {384, 384, 640, 896, 384, 128}, 5: {896, 896, 128, 384, 896, 640}, 6: {640, 128, 896, 640, 640, 896},
		7:   {128, 640, 384, 128, 128, 384},
		100: {424, 264, 792, 744, 904, 760}, 1023: {1, 771, 627, 149, 191, 449},
	} {
		var got []uint32
		for axis := range want {
			got = append(got, (digits(point, axis)^digits(0, axis))>>22)
		}
		if !slices.Equal(got, want) {
			t.Errorf("point %d without the shift is at %v 1,024ths; want %v, as SciPy has it", point, got, want)
		}
	}
}

// TestSobolStrata: of the first 2^k points, and of the 2^k after them, one is in each 2^k-th of every axis; and on the
// first two axes one in each of the 2^k equal boxes of any shape.
func TestSobolStrata(t *testing.T) {
	once := func(what string, boxes int, box func(i int) int) {
		t.Helper()
		hits := make([]int, boxes)
		for i := range boxes {
			hits[box(i)]++
		}
		if slices.Max(hits) != 1 {
			t.Errorf("%s: a box of %d has %d points; want one in each", what, boxes, slices.Max(hits))
		}
	}

	for seed := range uint64(5) {
		const axes = 20
		all := sobol(seed, maxPoints, axes)
		for n := 1; n <= maxPoints; n *= 2 {
			for first := 0; first+n <= min(2*n, maxPoints); first += n {
				for j := range axes {
					once(fmt.Sprintf("seed %d, axis %d, from point %d", seed, j, first), n,
						func(i int) int { return int(all.At(first+i, j) * float64(n)) })
				}
				for wide := 1; wide <= n; wide *= 2 {
					once(fmt.Sprintf("seed %d, %d boxes across, from point %d", seed, wide, first), n, func(i int) int {
						return int(all.At(first+i, 0)*float64(wide))*(n/wide) + int(all.At(first+i, 1)*float64(n/wide))
					})
				}
			}
		}
	}
}

// TestSequencesFillEvenly compares the centred discrepancy of the sequences with that of random points, mean of twenty
// seeds.
func TestSequencesFillEvenly(t *testing.T) {
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
			for source, sequence := range sequences {
				got := mean(sequence, points, axes)
				t.Logf("%d axes, %d points: %s %.5f, random %.5f", axes, points, source, got, random)
				if got > random*share {
					t.Errorf("%d points of %d axes: discrepancy %.5f of %s; want at most %.1f of that of random "+
						"points, %.5f", points, axes, got, source, share, random)
				}
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

	for _, method := range []string{MethodHalton, MethodSobol} {
		for _, c := range []struct {
			name   string
			search sweep.Search
			trial  int
			want   string
		}{
			{"the first trial", sweep.Search{Random: one}, 0, method},
			{"the last point", sweep.Search{Random: one}, maxPoints - 1, method},
			{"after the last point", sweep.Search{Random: one}, maxPoints, SourceRandom},
			{"a constraint that holds for half of the points",
				sweep.Search{Random: one, Constraints: []string{"x < 0.5"}}, 5, method},
			{"too many parameters", sweep.Search{Random: many}, 0, SourceRandom},
		} {
			q := Ask{Search: c.search, Method: method, Seed: 4, Number: 1}
			if c.trial > 0 {
				q.Known = []Known{{Trial: c.trial - 1, Params: sweep.Params{"x": 0.25, "kind": "a"}, Status: TrialDone}}
			}
			got, err := Next(q)
			if err != nil {
				t.Fatalf("%s, %s: asked for one trial: %v", method, c.name, err)
			}
			if got[0].Source != c.want {
				t.Errorf("%s, %s: trial %d is from %s, want %s", method, c.name, c.trial, got[0].Source, c.want)
			}
		}

		// Of 1,024 points about four remain, and then random draws.
		few, err := Next(Ask{Search: sweep.Search{Random: one, Constraints: []string{"x < 0.004"}}, Method: method,
			Seed: 4, Number: 20})
		if err != nil {
			t.Fatalf("%s, with a constraint that few points keep: %v", method, err)
		}
		of := map[string]int{}
		for _, s := range few {
			of[s.Source]++
		}
		if n := of[method]; n < 2 || n > 6 || of[SourceRandom] != 20-n {
			t.Errorf("%s, with a constraint that about four points keep: 20 trials are from %v; want about four "+
				"from the sequence and the others random", method, of)
		}
	}
}
