package search

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/diff/fd"
	"gonum.org/v1/gonum/mat"

	"coppice/internal/must"
	"coppice/internal/sweep"
)

// TestHalton: the points of the Halton sequence are in the unit cube, are the same for one seed and others for another,
// and do not depend on how many there are.
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
			t.Errorf("%d axes: made twice with one seed, the points differ; want the same", axes)
		}
		if !mat.Equal(all.Slice(0, 50, 0, axes), halton(7, 50, axes)) {
			t.Errorf("%d axes: the first 50 points of %d are not those of 50; want the same", axes, maxPoints)
		}
		if mat.Equal(all, halton(8, maxPoints, axes)) {
			t.Errorf("%d axes: seeds 7 and 8 give the same points; want different ones", axes)
		}
	}
}

// TestHaltonFillsEvenly: the squared centred discrepancy of Halton points is at most 0.4 of that of random points on 3
// axes, 0.6 on 5 and 0.9 on 10, each the mean of twenty seeds: the more axes, the less the sequence gains.
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
				t.Errorf("%d points of %d axes: squared discrepancy %.5f; want at most %.1f of that of random points, "+
					"%.5f", points, axes, got, share, random)
			}
		}
	}
}

// discrepancy returns the square of the centred L2 discrepancy (Hickernell 1998) of points in the unit cube, as
// scipy.stats.qmc.discrepancy does. It is lower, the more evenly the points fill the cube.
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

// TestSequenceOrRandom: a trial takes a point of the sequence if one may be proposed. It is drawn at random after the
// last point, with more parameters than the sequence has axes or without any, and where constraints leave no point.
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
		{"no parameters", sweep.Search{}, 0, sweep.MethodRandom},
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
		must.Equal(t, got[0].Source, c.want, "%s: trial %d is from", c.name, c.trial)
	}

	// Of 1,024 points about four remain, and then random draws.
	few, err := Next(Ask{Search: sweep.Search{Random: one, Constraints: []string{"x < 0.004"}},
		Method: sweep.MethodHalton, Seed: 4, Number: 20})
	if err != nil {
		t.Fatalf("with a constraint that few points keep: %v", err)
	}
	count := map[string]int{} // by source
	for _, s := range few {
		count[s.Source]++
	}
	if n := count[sweep.MethodHalton]; n < 2 || n > 6 || count[sweep.MethodRandom] != 20-n {
		t.Errorf("with a constraint that about four points keep: 20 trials are from %v; want two to six from the "+
			"sequence and the others random", count)
	}
}

// TestExpectedEnds: a stopped trial is expected to end with its score and what other trials gained on the rest of the
// way: from rung to rung, and from the last rung to the end, the median. Without others it keeps its score. The rungs
// are at 5, 15 and 45 trees. A trial's scores are those at its rungs and, if it is done, at its end.
func TestExpectedEnds(t *testing.T) {
	trial := func(n int, status sweep.Status, scores ...float64) sweep.Seen {
		s := sweep.Seen{Trial: n, Status: status, Score: &scores[len(scores)-1]}
		for i, v := range scores {
			if status == sweep.StatusStopped || i < len(scores)-1 {
				s.Rungs = append(s.Rungs, sweep.RungScore{Step: []int{5, 15, 45}[i], Score: v})
			}
		}
		return s
	}
	seen := []sweep.Seen{
		trial(0, sweep.StatusDone, 0.60, 0.65, 0.68, 0.70),
		trial(1, sweep.StatusDone, 0.62, 0.66, 0.70, 0.71),
		trial(2, sweep.StatusStopped, 0.50),
		trial(3, sweep.StatusStopped, 0.58, 0.60),
		trial(4, sweep.StatusStopped, 0.61, 0.67, 0.66),
		{Trial: 5, Status: sweep.StatusRunning},
		trial(6, sweep.StatusDone, 0.9), // before its first rung
	}

	// The gains are 0.05, 0.04, 0.02 and 0.06 from the first rung to the second (trials 0, 1, 3 and 4), 0.03, 0.04 and
	// -0.01 from there to the third (0, 1 and 4), and 0.02 and 0.01 from there to the end (0 and 1). Their medians are
	// 0.045, 0.03 and 0.015. Trial 2 lacks all three, trial 3 the last two, and trial 4 the last.
	ends := expectedEnds(seen)
	for trial, want := range map[int]float64{2: 0.59, 3: 0.645, 4: 0.675} {
		if math.Abs(ends[trial]-want) > 1e-12 {
			t.Errorf("trial %d would have ended with %v, want %v", trial, ends[trial], want)
		}
	}
	if len(ends) != 3 {
		t.Errorf("%d trials have an expected end, want the three that were stopped: %v", len(ends), ends)
	}

	alone := expectedEnds(seen[2:3])
	must.Equal(t, alone[2], 0.50, "the end of a stopped trial without others, which is its score")
}

// TestStoppedTrialsInformAtTheirWorth: the method sees a stopped trial with the score that it would have ended with.
// The trial that is done gained 0.3 from the rung on, where the stopped one was better by 0.05. So 0.45 counts as 0.75.
func TestStoppedTrialsInformAtTheirWorth(t *testing.T) {
	score := func(v float64) *float64 { return &v }
	p := &sweep.Plan{Maximize: true}
	p.Spec.Search.Stop = &sweep.Stop{Rule: sweep.StopASHA, Eta: 3, Rungs: []int{5}}
	seen := []sweep.Seen{
		{Trial: 0, Status: sweep.StatusDone, Score: score(0.70), Params: sweep.Params{},
			Rungs: []sweep.RungScore{{Step: 5, Score: 0.40}}},
		{Trial: 1, Status: sweep.StatusStopped, Score: score(0.45), Params: sweep.Params{},
			Rungs: []sweep.RungScore{{Step: 5, Score: 0.45}}},
	}
	q := askOf(p, nil, seen)
	if len(q.Known) != 2 || *q.Known[0].Score != 0.70 || math.Abs(*q.Known[1].Score-0.75) > 1e-12 {
		t.Errorf("the method sees %+v; want 0.7 of the trial that is done, and 0.75 of the one that was better "+
			"where it stopped", q.Known)
	}
}

// TestFittingGradient: the gradient of the posterior density equals central differences of its value, for observations
// of three searches in a space of four axes, of which axis 2 has a single value. The parameters are three length
// scales, two variances and the correlation of searches.
func TestFittingGradient(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	columns := []column{{0, true}, {1, false}, {3, true}}
	var k known
	for i := range 12 {
		k.rows = append(k.rows, []float64{rng.Float64(), float64(i%3 - 1), rng.Float64()})
		k.ages = append(k.ages, i%3)
		k.z = append(k.z, rng.NormFloat64())
		k.doubt = append(k.doubt, float64(i%2))
	}
	f := newFitting(columns, k, 4)
	if len(f.squares) != 3 || len(f.prior) != 6 {
		t.Fatalf("%d length scales and %d parameters, expected 3 and 6", len(f.squares), len(f.prior))
	}

	for range 5 {
		x := f.start()
		for i := range x {
			x[i] += 0.5 * rng.NormFloat64()
		}
		want := fd.Gradient(nil, f.loss, x, &fd.Settings{Formula: fd.Central})
		got := make([]float64, len(x))
		f.gradient(got, x)
		for i := range got {
			if math.Abs(got[i]-want[i]) > 1e-4*(1+math.Abs(want[i])) {
				t.Errorf("parameter %d: got the gradient %g, want that of differences, %g", i, got[i], want[i])
			}
		}
	}
}

// TestLogImprovement: the logarithm of the expected improvement agrees with the plain formula where that can be
// computed, and grows with the expectation, also far below the best value, where the formula would give 0. In units of
// the standard deviation 0.3 is 0.15: -0.01125 is -0.15^2/2, and 0.5596177 the normal distribution function at 0.15.
func TestLogImprovement(t *testing.T) {
	if got, want := math.Exp(logImprovement(0.3, 2)),
		2*(math.Exp(-0.01125)/math.Sqrt(2*math.Pi)+0.15*0.5596177); math.Abs(got-want) > 1e-6 {
		t.Errorf("mean 0.3 and std 2: got the improvement %g, want %g", got, want)
	}
	last := math.Inf(-1)
	for mean := -200.0; mean < 5; mean += 0.01 {
		gain := logImprovement(mean, 1)
		if !(gain > last) {
			t.Fatalf("mean %g: got %g, want it above that of the mean before, %g", mean, gain, last)
		}
		last = gain
	}
}

// TestWarped: warping keeps the order of scores and equal scores equal, and gives numbers of at most 5, whatever the
// outliers. So it does where more than half of the scores are the best one, which is their median then. Scores that are
// all equal become 0; 0.1 has no exact sum.
func TestWarped(t *testing.T) {
	for name, in := range map[string][]float64{
		"outliers":           {-1e300, 0.5, 0.6, 0.6, 0.61, 0.62, math.SmallestNonzeroFloat64, 0.9},
		"most are the best":  {0.9, 0.9, 0.9, 0.5, 0.7},
		"most are the worst": {0.5, 0.5, 0.5, 0.9, 0.7},
	} {
		out := warpScores(in)
		for i := range in {
			for j := range in {
				if in[i] < in[j] && !(out[i] < out[j]) || in[i] == in[j] && out[i] != out[j] {
					t.Errorf("%s: %g and %g became %g and %g, want their order kept", name, in[i], in[j], out[i],
						out[j])
				}
			}
			if !sweep.Finite(out[i]) || math.Abs(out[i]) > 5 {
				t.Errorf("%s: %g became %g, want it finite, and at most 5", name, in[i], out[i])
			}
		}
	}
	for n := range 20 {
		for _, v := range warpScores(slices.Repeat([]float64{0.1}, n+1)) {
			must.Equal(t, v, 0, "each of %d equal scores", n+1)
		}
	}
}
