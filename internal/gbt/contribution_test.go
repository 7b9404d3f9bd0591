package gbt

import (
	"errors"
	"math"
	"slices"
	"testing"

	"coppice/internal/must"
	"coppice/internal/problem"
)

// TestLightGBMContributions compares with predict(pred_contrib=True) of LightGBM.
func TestLightGBMContributions(t *testing.T) {
	want := readCSV(t, "contrib.csv", ',')
	rows := readCSV(t, "rows.csv", ',')[:len(want)]
	m := readModel(t, "old_binary.txt")
	f := m.Features()
	var x []float64
	for _, row := range rows {
		for i := range f {
			x = append(x, number(t, row[i]))
		}
	}
	got := make([]float64, len(rows)*(f+1))
	must.Do(t, m.Contributions(x, got, 2))
	for r, row := range want {
		for i := range f + 1 {
			if w, g := number(t, row[i]), got[r*(f+1)+i]; math.Abs(w-g) > 1e-12 {
				t.Errorf("row %d, feature %d: %v, LightGBM says %v", r, i, g, w)
			}
		}
	}
}

// shapByHand is what a feature adds to a tree's score, averaged over all orders in which features become known.
func shapByHand(t *Tree, x []float64, features, wanted int) float64 {
	var value func(node int, known []bool) float64
	value = func(node int, known []bool) float64 {
		if node < 0 {
			return t.LeafValue[^node]
		}
		if known[t.Feature[node]] {
			if t.goesLeft(node, x[t.Feature[node]]) {
				return value(t.Left[node], known)
			}
			return value(t.Right[node], known)
		}
		left, right := t.rowsBelow(t.Left[node]), t.rowsBelow(t.Right[node])
		return (left*value(t.Left[node], known) + right*value(t.Right[node], known)) / (left + right)
	}
	factorial := func(n int) float64 { return math.Gamma(float64(n) + 1) }

	sum := 0.0
	for set := range 1 << features {
		if set>>wanted&1 == 1 {
			continue
		}
		known, size := make([]bool, features), 0
		for f := range known {
			if known[f] = set>>f&1 == 1; known[f] {
				size++
			}
		}
		before := value(0, known)
		known[wanted] = true
		sum += factorial(size) * factorial(features-size-1) / factorial(features) * (value(0, known) - before)
	}
	return sum
}

// TestContributions compares with the definition, on rows with missing values and categories and on deep trees with
// repeated features.
func TestContributions(t *testing.T) {
	d := randomTable(tableSpec{rows: 2500, numerical: 4, categorical: 2, bins: 30, missing: 0.2, seed: 6})
	p := small()
	p.NumIterations, p.NumLeaves, p.MinDataInLeaf = 3, 40, 3
	m := mustTrain(t, &d.Data, p, Options{}).Model
	const f, rows = 6, 40
	out := make([]float64, rows*(f+1))
	must.Do(t, m.Contributions(d.raw[:rows*f], out, 1))
	for r := range rows {
		got, sum := out[r*(f+1):(r+1)*(f+1)], 0.0
		for i := range f {
			want := 0.0
			for _, tree := range m.Trees {
				want += shapByHand(tree, d.row(r), f, i)
			}
			if math.Abs(got[i]-want) > 1e-10 {
				t.Errorf("row %d, feature %d: %v, by definition %v", r, i, got[i], want)
			}
		}
		for _, v := range got {
			sum += v
		}
		if raw := m.Predict(d.row(r)); math.Abs(sum-raw) > 1e-10 {
			t.Errorf("row %d: contributions add up to %v, the score is %v", r, sum, raw)
		}
	}

	again := make([]float64, len(out))
	if err := m.Contributions(d.raw[:rows*f], again, 3); err != nil || !slices.Equal(again, out) {
		t.Errorf("three threads give other numbers: %v", err)
	}
	if err := m.Contributions(d.raw[:5], out, 1); !errors.Is(err, ErrData) {
		t.Errorf("five values: %v", err)
	}

	// A model file may have counts for leaves but not for nodes.
	leaves, nodes := m.Trees[0].LeafCount, m.Trees[0].InternalCount
	for name, counts := range map[string][2][]int{"leaves": {make([]int, len(leaves)), nodes},
		"nodes": {leaves, make([]int, len(nodes))}} {
		m.Trees[0].LeafCount, m.Trees[0].InternalCount = counts[0], counts[1]
		if err := m.Contributions(d.raw[:rows*f], out, 1); !problem.Is(err, problem.Input) {
			t.Errorf("a model without counts of %s: got %v, expected an error about the input", name, err)
		}
	}
}
