package gbt

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// clicked is a table of queries of ten rows, shown by the order of feature 1, which has nothing to do with what people
// want: grades come from feature 0. A row is clicked if it is good and if it is looked at, the less often the lower it
// stands. It returns the grades.
func clicked(seed uint64, rows int) (d *table, grade []float32) {
	d = randomTable(tableSpec{seed: seed, rows: rows, numerical: 4, bins: 40})
	d.Group, d.Position, grade = make([]uint64, rows), make([]float32, rows), make([]float32, rows)
	rng := rand.New(rand.NewPCG(seed, 7))
	for first := 0; first < rows; first += 10 {
		shown := make([]int, min(10, rows-first))
		for i := range shown {
			shown[i] = first + i
		}
		slices.SortStableFunc(shown, func(a, b int) int { return cmp.Compare(d.Columns[1][b], d.Columns[1][a]) })
		for place, r := range shown {
			grade[r] = float32(min(4, int(d.Columns[0][r])/8))
			wanted := rng.Float64() < 0.1+0.8*float64(grade[r])/4
			d.Group[r], d.Position[r], d.Label[r] = uint64(first), float32(place), 0
			if looked := rng.Float64() < 1/float64(1+place); looked && wanted {
				d.Label[r] = 1
			}
		}
	}
	return d, grade
}

// TestPositionsPay: of clicks that depend on the place, a model that knows places learns the order that people want.
func TestPositionsPay(t *testing.T) {
	d, grade := clicked(5, 6000)
	p := rankParams("lambdarank")
	p.NumIterations, p.LearningRate = 60, 0.1
	// the share of pairs of a query that stand in the wrong order
	wrong := func(d *table) float64 {
		score, err := mustTrain(t, &d.Data, p, Options{Threads: 2}).Model.PredictBinned(&d.Data, 1)
		if err != nil {
			t.Fatal(err)
		}
		wrong, all := 0, 0
		for a := range d.Rows {
			for b := a + 1; b < d.Rows && d.Group[a] == d.Group[b]; b++ {
				if grade[a] != grade[b] {
					all++
					if (score[a] > score[b]) != (grade[a] > grade[b]) {
						wrong++
					}
				}
			}
		}
		return float64(wrong) / float64(all)
	}
	with := wrong(d)
	factors := mustTrain(t, &d.Data, p, Options{}).PositionBias
	if len(factors) != 10 || !(factors[0] > factors[1] && factors[1] > factors[4] && factors[4] > factors[9]) {
		t.Errorf("the places add %v; want ten, each less than those before", factors)
	}
	d.Position = nil
	if without := wrong(d); !(with < 0.6*without) {
		t.Errorf("with positions %.3f of the pairs are in the wrong order, without %.3f; want less by two fifths", with,
			without)
	}
}

// TestPositionsByHand compares factors with the definition, added up by place with a library's functions.
func TestPositionsByHand(t *testing.T) {
	d, _ := clicked(6, 300)
	p := rankParams("lambdarank")
	p.PositionBiasRegularization, p.LearningRate = 0.3, 0.2
	each, err := newObjective(&p, &d.Data)
	if err != nil {
		t.Fatal(err)
	}
	raw, want := make([]float64, d.Rows), make([]float64, 10)
	for tree := range 3 {
		each[0].prepare(tree, raw, nil, poolOf(2))
		next := make([]float64, 10)
		for place := range next {
			first, second := 0.0, 0.0
			for r := range d.Rows {
				if int(d.Position[r]) == place {
					g, h := each[0].at(uint32(r), 0)
					first += -g - want[place]*0.3
					second += -h - 0.3
				}
			}
			next[place] = want[place] + 0.2*first/(math.Abs(second)+0.001)
		}
		want = next
		for place, got := range positionsOf(each[0]).learnt() {
			if math.Abs(got-want[place]) > 1e-12 {
				t.Errorf("after tree %d place %d adds %v, want %v", tree, place, got, want[place])
			}
		}
	}
	// The next tree's lambdas are those at scores with the factors.
	each[0].prepare(3, make([]float64, d.Rows), nil, poolOf(1))
	for r := range raw {
		raw[r] = positionsOf(each[0]).factor[int(d.Position[r])]
	}
	got := rankGradients(each[0], d.Rows)
	d.Position, p.PositionBiasRegularization = nil, 0
	plain, err := newObjective(&p, &d.Data)
	if err != nil {
		t.Fatal(err)
	}
	plain[0].prepare(3, raw, nil, poolOf(1))
	if !slices.Equal(got, rankGradients(plain[0], d.Rows)) {
		t.Error("the lambdas are not those at the scores with the factors of their places")
	}
}

func TestPositionsAreRefused(t *testing.T) {
	for want, change := range map[string]func(d *Data, p *Params){
		"positions of 3 rows for 400":   func(d *Data, _ *Params) { d.Position = d.Position[:3] },
		"position 1.5 in row 5":         func(d *Data, _ *Params) { d.Position[5] = 1.5 },
		"position -1 in row 0":          func(d *Data, _ *Params) { d.Position[0] = -1 },
		"whole numbers from 0 to 65535": func(d *Data, _ *Params) { d.Position[399] = maxPosition + 1 },
		"name the column with position: COLUMN": func(d *Data, p *Params) {
			d.Position, p.PositionBiasRegularization = nil, 1
		},
		"it belongs to lambdarank": func(_ *Data, p *Params) {
			p.Objective, p.PositionBiasRegularization = xendcg, 1
		},
	} {
		d, _ := clicked(7, 400)
		p := rankParams("lambdarank")
		change(&d.Data, &p)
		if _, err := Train(t.Context(), &d.Data, p, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want one with %q", err, want)
		}
	}
}
