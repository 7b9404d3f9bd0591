package gbt

import (
	"cmp"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coppice/internal/must"
)

// ranked is a table of queries of 1 to 40 rows with grades 0 to 4, one row behind the other or mixed.
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

// TestRankGradients compares with a plain transcription of the definitions: all pairs of all queries, each found by
// looking through the whole table, with a library's functions.
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
		each := must.Get(newObjective(&p, &d.Data))(t)
		obj := each[0]
		obj.prepare(0, raw, nil, poolOf(3))
		want := plainLambdas(d, raw, p, []float64{0, 1, 2, 5, 11})
		for _, r := range d.Subset {
			g, h := gradientOf(obj, r, raw[r])
			if w := want[r]; math.Abs(g-w[0]) > 1e-8 || math.Abs(h-w[1]) > 1e-8 {
				t.Fatalf("norm %t, row %d: got gradient %v and hessian %v, want %v", norm, r, g, h, w)
			}
		}
	}
}

func plainLambdas(d *table, raw []float64, p Params, gain []float64) map[uint32][2]float64 {
	byQuery := map[uint64][]uint32{}
	for _, r := range d.Subset {
		byQuery[d.Group[r]] = append(byQuery[d.Group[r]], r)
	}
	out := map[uint32][2]float64{}
	grade := func(r uint32) int { return int(d.Label[r]) }
	for _, rows := range byQuery {
		best := 0.0
		ideal := slices.Clone(rows)
		slices.SortFunc(ideal, func(a, b uint32) int { return grade(b) - grade(a) })
		for i, r := range ideal[:min(p.TruncationLevel, len(ideal))] {
			best += gain[grade(r)] / math.Log2(float64(i+2))
		}
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

// TestCrossEntropyOfQuery: the first order is the derivative of the cross entropy between softmax and the distribution
// that was drawn, as by a difference quotient, and the others add up to nothing over a query of two.
func TestCrossEntropyOfQuery(t *testing.T) {
	d := ranked(5, 60, false)
	p := rankParams(xendcg)
	each := must.Get(newObjective(&p, &d.Data))(t)
	o := each[0]
	raw := make([]float64, d.Rows)
	o.prepare(4, raw, nil, poolOf(1))
	again, other := rankGradients(o, d.Rows), 0
	o.prepare(5, raw, nil, poolOf(1))
	for r, g := range rankGradients(o, d.Rows) {
		if g != again[r] {
			other++
		}
	}
	if other == 0 {
		t.Error("trees 4 and 5: the same gradients; want another distribution for each tree")
	}

	// A query of grades 2 and 0: terms 4-u and 1-v, softmax 1/2 each.
	q := query{}
	q.fill(0, []uint32{0, 1}, []float32{2, 0}, []float64{0.7, 0.7})
	random := newKey(9, forLabels, 3)
	o.(*ranking).crossEntropyOfQuery(&q, random)
	draw := func(r uint64) float64 { return float64(random.at(r)>>32) / (1 << 32) }
	a, b := 4-draw(0), 1-draw(1)
	first := 0.5 - a/(a+b)
	// By hand: first order f and -f; second 1/2 (-f/(1/2)) and its opposite; third 1/2 (f/(1/2)).
	want := first - first + first
	if math.Abs(q.g[0]-want) > 1e-12 || math.Abs(q.g[1]+want) > 1e-12 || q.h[0] != 0.25 || q.h[1] != 0.25 {
		t.Errorf("gradients %v and hessians %v; want %v, its opposite, and a quarter each", q.g, q.h, want)
	}
}

func rankGradients(o objective, rows int) []float64 {
	all := make([]float64, rows)
	for r := range all {
		all[r], _ = gradientOf(o, uint32(r), 0)
	}
	return all
}

// TestRankLearns: the model orders rows of each query better than the best single feature, renewed leaves, too; and
// drawn queries are whole.
func TestRankLearns(t *testing.T) {
	unraced(t)
	d := ranked(21, 6000, true)
	disorder := func(score []float64) float64 {
		wrong, all := 0.0, 0.0
		last := map[uint64]int{}
		for r, g := range d.Group {
			if other, ok := last[g]; ok && d.Label[r] != d.Label[other] {
				all++
				if (score[r] < score[other]) == (d.Label[r] > d.Label[other]) {
					wrong++
				}
			}
			last[g] = r
		}
		return wrong / all
	}
	single := make([]float64, d.Rows)
	for r := range single {
		single[r] = float64(d.Columns[0][r])
	}
	for _, objective := range []string{"lambdarank", xendcg} {
		p := rankParams(objective)
		p.NumIterations = 40
		m := mustTrain(t, &d.Data, p, Options{}).Model
		scores := must.Get(m.PredictBinned(&d.Data, 1))(t)
		if got, bar := disorder(scores), disorder(single); !(got < 0.9*bar) {
			t.Errorf("%s: %.3f of neighbours in the wrong order, the best feature %.3f; want less by a tenth",
				objective, got, bar)
		}
	}
}

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
			t.Errorf("error %v is not about data nor parameters", err)
		}
	}
}
