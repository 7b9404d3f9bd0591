package gbt

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"coppice/internal/exact"
	"coppice/internal/must"
)

// withObjective gives a random trial another objective, labels that it takes, made of the trial's, and random values of
// the parameters that belong to it. It returns t.
func (t *trial) withObjective(name string, rng *rand.Rand) *trial {
	t.p.Objective, t.p.ScalePosWeight, t.p.IsUnbalance = name, 1, false
	for r, y := range t.Label {
		switch name {
		case "binary":
			y = float32(int(math.Abs(float64(y))*8) & 1)
		case "cross_entropy":
			y = float32(sigmoid(float64(y)))
		case "poisson":
			y = float32(math.Floor(math.Abs(float64(y)) * 2))
		case "gamma":
			y = float32(math.Abs(float64(y))) + 0.1
		case "tweedie":
			y = max(0, y)
		case "lambdarank", xendcg:
			y = float32(min(max(int(2*y), 0), 4))
			t.Group = append(t.Group, uint64(r/(7+len(t.Features))))
		case softmaxName: // with a class that few rows or none are of
			y = float32(int(math.Abs(float64(y))*4) % 3)
		}
		t.Label[r] = y
	}

	// At least two labels occur, in rows that every trial uses.
	for r := range 4 {
		t.Label[r] = float32(r % 2)
		if name == "gamma" {
			t.Label[r]++
		}
	}
	switch name {
	case softmaxName:
		t.p.NumClass = 3 + rng.IntN(2)
	case "huber":
		t.p.Alpha = 0.1 + rng.ExpFloat64()
	case "quantile":
		t.p.Alpha = 0.02 + float64(0.96*rng.Float64())
	case "poisson":
		t.p.PoissonMaxDeltaStep = 0.1 + rng.Float64()
	case "tweedie":
		t.p.TweedieVariancePower = 1.1 + float64(0.8*rng.Float64())
	case "lambdarank":
		t.p.LambdarankNorm, t.p.TruncationLevel = rng.IntN(2) == 0, 1+rng.IntN(20)
		t.p.Sigmoid, t.p.LabelGain = 0.5+rng.Float64(), "0,1,3,4,8"
	case "regression":
		t.p.RegSqrt = rng.IntN(2) == 0
	}
	return t
}

// ofEachObjective runs a test on random trials of every objective, each with random numbers of its own. trials
// is how many there are in a full test; some makes it fewer in others. The second trial has a larger table.
func ofEachObjective(t *testing.T, trials int, run func(t *testing.T, trial *trial, rng *rand.Rand)) {
	for i, name := range Objectives() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n := range uint64(some(trials)) {
				seed := 1000*uint64(i) + n
				rng := rand.New(rand.NewPCG(seed, 5))
				s := tableOfFew
				if n == 1 {
					s = tableOfSome
				}
				run(t, randomTrial(seed, s).withObjective(name, rng), rng)
			}
		})
	}
}

// TestObjectivesAgainstTheReference: with every objective, the trainer gives the model of the slow but simple trainer
// in reference_test.go, byte for byte, with one thread and with three.
func TestObjectivesAgainstTheReference(t *testing.T) {
	t.Parallel()
	ofEachObjective(t, 10, func(t *testing.T, trial *trial, _ *rand.Rand) {
		want := text(t, newReference(&trial.Data, trial.p).train())
		for _, threads := range []int{1, 3} {
			if got := text(t, mustTrain(t, &trial.Data, trial.p, Options{Threads: threads}).Model); !bytes.Equal(got,
				want) {
				t.Fatalf("%v\nwith %d threads the model is not the reference's: %s", trial, threads,
					firstDifference(got, want))
			}
		}
	})
}

// TestObjectivesKeepTheirInvariants checks every tree of trainings with every objective of one output: it looks at the
// state after each tree, and with several classes other trees have changed it. Those are compared with the reference.
func TestObjectivesKeepTheirInvariants(t *testing.T) {
	t.Parallel()
	ofEachObjective(t, 6, func(t *testing.T, trial *trial, _ *rand.Rand) {
		if Classes(trial.p.Objective) {
			return
		}
		trainChecked(t, trial, Options{Threads: 2})
	})
}

// TestEveryObjectiveSameBytes trains every objective: one thread alone, three, killed and resumed, and workers among
// whom the rows are divided in any way make the same model. No ranking is trained by several.
func TestEveryObjectiveSameBytes(t *testing.T) {
	t.Parallel()
	ofEachObjective(t, 1, func(t *testing.T, first *trial, rng *rand.Rand) {
		for n := range uint64(2) {
			if raceEnabled && n == 0 {
				continue // the second has weights and scattered queries, too
			}
			drawn := randomTrial(first.p.Seed+n, tableOfFew).withObjective(first.p.Objective, rng)
			drawn.p.NumIterations = 4
			if n == 1 {
				drawn.Weight = nil
				for range drawn.Rows {
					w := []float64{1, 0.1, 1e-4, 0}[rng.IntN(4)] * rng.Float64()
					drawn.Weight = append(drawn.Weight, float32(w))
				}
				for r := range 4 {
					drawn.Weight[r] = 1 // rows of both classes
				}
			}
			if n == 1 && Ranks(first.p.Objective) {
				drawn.scattered(rng)
			}
			everyWay(t, drawn, rng)
		}
	})
}

// everyWay fails the test unless a trial gives the same model with one thread and three, when it is killed and resumed
// again and again, and, except for rankings, when its rows are divided among workers.
func everyWay(t *testing.T, trial *trial, rng *rand.Rand) {
	t.Helper()
	opt := Options{Threads: 1, Valid: &trial.Data, Eval: noisyRating(3)}
	whole := mustTrain(t, &trial.Data, trial.p, opt)
	want := text(t, whole.Model)
	same := func(how string, got *Result) {
		t.Helper()
		if !bytes.Equal(text(t, got.Model), want) {
			t.Fatalf("%v\n%s train another model: %s", trial, how, firstDifference(text(t, got.Model), want))
		}
	}
	opt.Threads = 3
	same("three threads", mustTrain(t, &trial.Data, trial.p, opt))
	var kept []byte
	var got *Result
	for got == nil {
		kept, got = killed(t, rng, &trial.Data, trial.p, opt, kept)
	}
	same("those that are killed and resumed", got)

	workers := []int{2, 7}
	switch {
	case raceEnabled:
		workers = []int{3}
	case os.Getenv("COPPICE_FULL") != "":
		workers = []int{1, 2, 3, 4, 7}
	}
	for _, workers := range workers {
		how := []string{"equal", "random", "absurd"}[rng.IntN(3)]
		begin := shares(rng, how, trial.Rows, workers)
		opt.Threads = 1 + rng.IntN(2)
		results, errs := trainTogether(t, &trial.Data, trial.p, opt, begin, -1, nil)
		if Ranks(trial.p.Objective) { // a query's rows may be on several
			if slices.ContainsFunc(errs, func(err error) bool { return !errors.Is(err, ErrData) }) {
				t.Fatalf("%v\n%d workers end with %v, want a ranking refused", trial, workers, errs)
			}
			continue
		}
		for w, got := range results {
			if errs[w] != nil {
				t.Fatalf("%v\nrows from %v: worker %d: got error %v, want a model", trial, begin, w, errs[w])
			}
			same(fmt.Sprintf("workers with rows from %v", begin), got)
		}
	}
}

// TestModelsOfObjectivesAreReadBack trains, writes, reads and predicts: the model that was read turns raw scores into
// the same predictions as the parameters of the training do. Those of objectives with log odds or logarithms are above
// 0.
func TestModelsOfObjectivesAreReadBack(t *testing.T) {
	t.Parallel()
	ofEachObjective(t, 2, func(t *testing.T, trial *trial, _ *rand.Rand) {
		m := mustTrain(t, &trial.Data, trial.p, Options{Threads: 1}).Model
		back := must.Get(ReadModel(bytes.NewReader(text(t, m))))(t)
		scores := make([]float64, trial.Rows*back.Outputs())
		must.Do(t, back.PredictAll(trial.raw, scores, 1))
		trained := append([]float64(nil), scores...)
		back.Transform(scores)
		trial.p.Transform(trained)
		positive := back.Binary() || strings.Contains("cross_entropy poisson gamma tweedie", back.Objective)
		for r, v := range scores {
			if v != trained[r] || math.IsNaN(v) || positive && !(v > 0) {
				t.Fatalf("%v\nrow %d is predicted %v by the model, want %v as Params.Transform gives", trial, r, v,
					trained[r])
			}
		}
	})
}

// TestSlopes: the derivatives of every loss are the difference quotients of the loss as LightGBM's documentation states
// it. h is the second derivative, unless the case states what it is instead: 1 where the loss has none everywhere, and
// for poisson LightGBM's larger one. The losses have the parameters in numbers: alpha is 0.7, poisson_max_delta_step is
// 0.4, and tweedie_variance_power is 1.6, which gives the exponents 1 - 1.6 and 2 - 1.6. Rows count by their weights.
func TestSlopes(t *testing.T) {
	p := Defaults()
	p.Alpha, p.PoissonMaxDeltaStep, p.TweedieVariancePower = 0.7, 0.4, 1.6
	for name, tc := range map[string]struct {
		loss func(s, y float64) float64
		h    func(s, y float64) float64 // nil: by differences
		y    []float64
	}{
		"regression": {loss: func(s, y float64) float64 { return (s - y) * (s - y) / 2 }, y: []float64{-3, 0.2, 5}},
		"regression_l1": {loss: func(s, y float64) float64 { return math.Abs(s - y) }, y: []float64{-3, 0.2, 5},
			h: func(_, _ float64) float64 { return 1 }},
		"huber": {loss: func(s, y float64) float64 {
			if x := math.Abs(s - y); x > 0.7 {
				return 0.7 * (x - 0.35)
			}
			return (s - y) * (s - y) / 2
		}, y: []float64{-3, 0.2, 5}, h: func(_, _ float64) float64 { return 1 }},
		"quantile": {loss: func(s, y float64) float64 { return max(0.7*(y-s), 0.3*(s-y)) },
			y: []float64{-3, 0.2, 5}, h: func(_, _ float64) float64 { return 1 }},
		"poisson": {loss: func(s, y float64) float64 { return math.Exp(s) - y*s }, y: []float64{0, 1, 7},
			h: func(s, _ float64) float64 { return math.Exp(s + 0.4) }},
		"gamma": {loss: func(s, y float64) float64 { return s + y*math.Exp(-s) }, y: []float64{0.1, 1, 7}},
		"tweedie": {loss: func(s, y float64) float64 {
			return -y*math.Exp(-0.6*s)/-0.6 + math.Exp(0.4*s)/0.4
		}, y: []float64{0, 1, 7}},
		"cross_entropy": {loss: func(s, y float64) float64 { return math.Log1p(math.Exp(s)) - y*s },
			y: []float64{0, 0.3, 1}},
		"binary": {loss: func(s, y float64) float64 { return math.Log1p(math.Exp(s)) - y*s }, y: []float64{0, 1, 1}},
	} {
		p := p
		p.Objective = name
		d := &Data{Rows: len(tc.y), Weight: []float32{1, 2, 0.5}}
		for _, y := range tc.y {
			d.Label = append(d.Label, float32(y))
		}
		each, err := newObjectives(&p, d)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		o := each[0]
		for r, label := range d.Label {
			y := float64(label)
			for _, s := range []float64{-2.1, -0.4, 0.61, 1.7} { // at none of them has a loss a kink
				const e = 1e-4
				g, h := gradientOf(o, uint32(r), s)
				wantG := (tc.loss(s+e, y) - tc.loss(s-e, y)) / (2 * e)
				wantH := (tc.loss(s+e, y) - 2*tc.loss(s, y) + tc.loss(s-e, y)) / (e * e)
				if tc.h != nil {
					wantH = tc.h(s, y)
				}
				w := float64(d.Weight[r])
				wantG, wantH = w*wantG, w*wantH
				if math.Abs(g-wantG) > 1e-5*(1+math.Abs(wantG)) || math.Abs(h-wantH) > 1e-5*(1+math.Abs(wantH)) {
					t.Errorf("%s, label %v, score %v: got derivatives %v and %v, want %v and %v", name, y, s, g, h,
						wantG, wantH)
				}
			}
		}
	}
}

// TestQuantiles: plain quantiles are those found by sorting, for values with many ties, of both signs and of any size,
// and for more sets than are counted in one exchange. (Weighted ones are compared by
// TestObjectivesAgainstTheReference.)
func TestQuantiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	kinds := []func(i int) float64{
		func(int) float64 { return rng.NormFloat64() },
		func(int) float64 { return float64(rng.IntN(3)) },
		func(i int) float64 { return float64(i) },
		func(int) float64 { return float64(rng.IntN(3)-1) * 1e-300 },
		func(int) float64 { return math.Copysign(math.Exp(100*rng.NormFloat64()), rng.NormFloat64()) },
	}
	for _, level := range []float64{0.01, 0.5, rng.Float64()} {
		var sets [][]residual
		var size []int
		var want []float64
		for i := range mostWords/byteValues + 10 {
			values := make([]float64, 1+rng.IntN(150))
			all := make([]residual, len(values))
			for r := range values {
				values[r] = kinds[i%len(kinds)](r)
				all[r] = residual{exact.Ordered(values[r]), 1}
			}
			sets, size = append(sets, all), append(size, len(all))
			want = append(want, sortedQuantile(values, nil, level))
		}
		for i, got := range (*link)(nil).plainQuantiles(sets, size, level, newPoolOfSize(1)) {
			if got != want[i] {
				t.Fatalf("the quantile %v of set %d of %d values: got %v, want %v", level, i, size[i], got, want[i])
			}
		}
	}
}

// TestObjectivesRefuseLabels: an objective refuses labels that it has no loss for, or that are all alike, and names the
// row and what it takes.
func TestObjectivesRefuseLabels(t *testing.T) {
	for _, tc := range []struct {
		objective string
		labels    []float32
		want      string
	}{
		{"poisson", []float32{1, -1, 2}, "label -1 in row 1; objective poisson takes labels of 0 or more"},
		{"tweedie", []float32{1, 2, -0.5}, "label -0.5 in row 2; objective tweedie takes labels of 0 or more"},
		{"gamma", []float32{1, 0, 2}, "label 0 in row 1; objective gamma takes labels above 0"},
		{"cross_entropy", []float32{0, 1, 1.5}, "label 1.5 in row 2; objective cross_entropy takes labels from 0 to 1"},
		{"quantile", []float32{3, 3, 3}, errOneClass.Error()},
		{"multiclass", []float32{0, 3, 1}, "label 3 in row 1; objective multiclass with 3 classes takes whole " +
			"numbers from 0 to 2"},
		{"multiclass", []float32{2, 2, 2}, errOneClass.Error()},
	} {
		p := Defaults()
		p.Objective = tc.objective
		if Classes(p.Objective) {
			p.NumClass = 3
		}
		_, err := newObjectives(&p, &Data{Rows: len(tc.labels), Label: tc.labels})
		must.Say(t, fmt.Sprintf("%s of %v", tc.objective, tc.labels), err, tc.want)
	}
}

// ranked is a table of queries of 1 to 40 rows with grades 0 to 4, one query behind the other or, if mixed, with rows
// anywhere. A grade grows with the bin of column 0, of which there are 40, by as much as that of column 1 says, plus
// noise.
func ranked(seed uint64, rows int, mixed bool) *table {
	d := randomTable(tableSpec{seed: seed, rows: rows, numerical: 5, categorical: 1, bins: 40, missing: 0.1})
	rng := rand.New(rand.NewPCG(seed, 7))
	d.Group = make([]uint64, rows)
	for r, left, group := 0, 0, uint64(0); r < rows; r, left = r+1, left-1 {
		if left == 0 {
			left, group = 1+rng.IntN(40), rng.Uint64()
		}
		d.Group[r] = group
		grade := 4 * float64(d.Columns[0][r]) / 40 * float64(1+d.Columns[1][r]%3) / 3
		d.Label[r] = float32(min(max(int(grade+rng.NormFloat64()), 0), 4))
	}
	if mixed {
		rng.Shuffle(rows, func(i, j int) { d.Group[i], d.Group[j] = d.Group[j], d.Group[i] })
	}
	return d
}

// scattered lets the queries of a trial have rows anywhere in the table.
func (t *trial) scattered(rng *rand.Rand) *trial {
	t.Group = slices.Clone(t.Group)
	rng.Shuffle(t.Rows, func(i, j int) { t.Group[i], t.Group[j] = t.Group[j], t.Group[i] })
	return t
}

func rankParams(objective string) Params {
	p := Defaults()
	p.Objective, p.NumIterations, p.NumLeaves, p.MinDataInLeaf = objective, 12, 8, 10
	return p
}

// TestRankGradients: the gradients of lambdarank are those of a plain transcription of its definition, with the
// standard library's functions: all pairs of all queries, each found by looking through the whole table.
func TestRankGradients(t *testing.T) {
	d := ranked(3, 700, true)
	d.Weight = make([]float32, d.Rows)
	raw := make([]float64, d.Rows)
	rng := rand.New(rand.NewPCG(1, 2))
	for r := range raw {
		d.Weight[r] = float32(1+rng.IntN(3)) / 2
		raw[r] = math.Round(3*rng.NormFloat64()) / 2 // often equal
	}
	d.Subset = nil
	for r := range uint32(700) {
		if r%9 != 4 {
			d.Subset = append(d.Subset, r)
		}
	}

	for _, norm := range []bool{true, false} {
		p := rankParams("lambdarank")
		p.LambdarankNorm, p.TruncationLevel, p.Sigmoid, p.LabelGain = norm, 3, 1.7, "0,1,2,5,11"
		each := must.Get(newObjectives(&p, &d.Data))(t)
		obj := each[0]
		obj.prepare(0, raw, nil, newPoolOfSize(3))
		want := plainLambdas(d, raw, p, []float64{0, 1, 2, 5, 11})
		for _, r := range d.Subset {
			g, h := gradientOf(obj, r, raw[r])
			if w := want[r]; math.Abs(g-w[0]) > 1e-8 || math.Abs(h-w[1]) > 1e-8 {
				t.Fatalf("norm %t, row %d: got gradient %v and hessian %v, want %v", norm, r, g, h, w)
			}
		}
	}
}

// TestRowsByScore: sortByScore sorts by descending score, and equal scores by row. In even rounds one score in nine has
// moved since the last tree, by its last bit; in odd ones all have, to quarters that are often equal or differ by
// 1e-15, which is in bits that a key does not have.
func TestRowsByScore(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 2))
	for _, n := range []int{1, 2, 7, 20, 300, 5000} {
		raw, rows := make([]float64, n), make([]uint32, n)
		for r := range rows {
			rows[r] = uint32(r)
		}
		for round := range 6 {
			for r := range raw {
				switch {
				case round%2 == 1:
					raw[r] = math.Round(4*rng.NormFloat64())/4 + 1e-15*float64(rng.IntN(2))
				case rng.IntN(9) == 0:
					raw[r] = math.Nextafter(raw[r], float64(rng.IntN(3)))
				}
			}
			var q query
			q.begin(0, rows, raw)
			q.sortByScore()
			want := slices.Sorted(slices.Values(rows))
			slices.SortStableFunc(want, func(a, b uint32) int { return cmp.Compare(raw[b], raw[a]) })
			if !slices.Equal(rows, want) {
				t.Fatalf("%d rows, tree %d: rows %v, want %v", n, round, rows, want)
			}
			for i, r := range rows {
				if q.score[i] != raw[r] {
					t.Fatalf("%d rows, tree %d: place %d has score %v, want its row's, %v", n, round, i,
						q.score[i], raw[r])
				}
			}
		}
	}
}

// TestRowsOfOneScoreInReverse: rows of equal score that are in reverse order are sorted, too, in time that does not
// grow with the square of their number: with insertion alone these 300,000 rows would take minutes.
func TestRowsOfOneScoreInReverse(t *testing.T) {
	const n = 300_000
	raw, rows := make([]float64, n), make([]uint32, n)
	for i := range rows {
		rows[i] = uint32(n - 1 - i)
	}
	var q query
	q.begin(0, rows, raw)
	q.sortByScore()
	if !slices.IsSorted(rows) {
		t.Error("rows of one score are not in their order, want them ascending")
	}
}

// plainLambdas returns, by row, the gradient and hessian of lambdarank, transcribed from its definition as plainly as
// possible.
func plainLambdas(d *table, raw []float64, p Params, gain []float64) map[uint32][2]float64 {
	byQuery := map[uint64][]uint32{}
	for _, r := range d.Subset {
		byQuery[d.Group[r]] = append(byQuery[d.Group[r]], r)
	}
	out := map[uint32][2]float64{}
	grade := func(r uint32) int { return int(d.Label[r]) }
	for _, rows := range byQuery {
		// The best possible DCG: of the rows in the order of their grades, down to the truncation level.
		best := 0.0
		ideal := slices.Clone(rows)
		slices.SortFunc(ideal, func(a, b uint32) int { return grade(b) - grade(a) })
		for i, r := range ideal[:min(p.TruncationLevel, len(ideal))] {
			best += gain[grade(r)] / math.Log2(float64(i+2))
		}
		// All pairs of which a has the higher grade and one is above the truncation level, in the order of the scores.
		sorted := slices.Clone(rows)
		slices.SortStableFunc(sorted, func(a, b uint32) int { return cmp.Compare(raw[b], raw[a]) })
		sum := 0.0
		for i, a := range sorted {
			for j, b := range sorted {
				if grade(a) <= grade(b) || min(i, j) >= p.TruncationLevel || best == 0 {
					continue
				}
				apart := raw[a] - raw[b]
				change := (gain[grade(a)] - gain[grade(b)]) *
					math.Abs(1/math.Log2(float64(i+2))-1/math.Log2(float64(j+2))) / best
				if p.LambdarankNorm && raw[sorted[0]] != raw[sorted[len(sorted)-1]] {
					change /= 0.01 + math.Abs(apart)
				}
				wrong := 1 / (1 + math.Exp(p.Sigmoid*apart))
				lambda := p.Sigmoid * wrong * change
				h := p.Sigmoid * p.Sigmoid * wrong * (1 - wrong) * change
				out[a] = [2]float64{out[a][0] - lambda, out[a][1] + h}
				out[b] = [2]float64{out[b][0] + lambda, out[b][1] + h}
				sum += 2 * lambda
			}
		}
		// Scale the query's gradients, and weigh its rows.
		factor := 1.0
		if p.LambdarankNorm && sum > 0 {
			factor = math.Log2(1+sum) / sum
		}
		for _, r := range rows {
			w := float64(d.Weight[r]) * factor
			out[r] = [2]float64{out[r][0] * w, out[r][1] * w}
		}
	}
	return out
}

// TestCrossEntropyOfQuery: each tree of rank_xendcg draws another wanted distribution, and so has other gradients. In a
// query of two rows with equal scores they are those that are worked out by hand.
func TestCrossEntropyOfQuery(t *testing.T) {
	d := ranked(5, 60, false)
	p := rankParams(xendcg)
	each := must.Get(newObjectives(&p, &d.Data))(t)
	o := each[0]
	raw := make([]float64, d.Rows)
	o.prepare(4, raw, nil, newPoolOfSize(1))
	again, other := rankGradients(o, d.Rows), 0
	o.prepare(5, raw, nil, newPoolOfSize(1))
	for r, g := range rankGradients(o, d.Rows) {
		if g != again[r] {
			other++
		}
	}
	if other == 0 {
		t.Error("trees 4 and 5: the same gradients; want another distribution for each tree")
	}

	// A query of grades 2 and 0: the wanted shares are in proportion to 2^2-u and 2^0-v, with random numbers u and v
	// from 0 to 1. The softmax of equal scores is 1/2 each.
	q := query{}
	d.Label[0], d.Label[1] = 2, 0
	q.begin(0, []uint32{0, 1}, []float64{0.7, 0.7})
	random := newKey(9, forLabels, 3)
	o.(*ranking).crossEntropyOfQuery(&q, random)
	draw := func(r uint64) float64 { return float64(random.uniform(r)>>32) / (1 << 32) }
	a, b := 4-draw(0), 1-draw(1)
	// By hand, for the first row: the first term is f, and -f for the other row. The second is 1/2 of the other row's
	// term over 1/2, -f, and the third in the same way f: together f. For the other row all are the opposite.
	want := 0.5 - a/(a+b)
	if math.Abs(q.g[0]-want) > 1e-12 || math.Abs(q.g[1]+want) > 1e-12 || q.h[0] != 0.25 || q.h[1] != 0.25 {
		t.Errorf("gradients %v and hessians %v; want %v, its opposite, and a quarter each", q.g, q.h, want)
	}
}

// rankGradients returns the gradient of each row at the scores of the objective's last prepare; the score that is
// passed here does not count.
func rankGradients(o objective, rows int) []float64 {
	all := make([]float64, rows)
	for r := range all {
		all[r], _ = gradientOf(o, uint32(r), 0)
	}
	return all
}

// TestRankRefuses: ranking objectives refuse a table without groups or with too few of them, labels that are not whole
// grades with a gain, and queries whose rows all have the same label.
func TestRankRefuses(t *testing.T) {
	for want, change := range map[string]func(d *Data, p *Params){
		"which rows belong together":      func(d *Data, _ *Params) { d.Group = nil },
		"groups of 3 rows for 400":        func(d *Data, _ *Params) { d.Group = d.Group[:3] },
		"whole grades from 0 to 30":       func(d *Data, _ *Params) { d.Label[5] = 31 },
		"takes whole grades from 0 to 3":  func(_ *Data, p *Params) { p.LabelGain = "0,1,3,7" },
		"label 1.5 in row 5":              func(d *Data, _ *Params) { d.Label[5] = 1.5 },
		"no query has rows with differen": func(d *Data, _ *Params) { clear(d.Label) },
	} {
		d := ranked(2, 400, false)
		p := rankParams("lambdarank")
		change(&d.Data, &p)
		var err error
		if _, err = Train(t.Context(), &d.Data, p, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want one with %q", err, want)
		}
		if param := (*ParamError)(nil); !errors.Is(err, ErrData) && !errors.As(err, &param) {
			t.Errorf("got error %v, want one about the data or a parameter", err)
		}
	}
}
