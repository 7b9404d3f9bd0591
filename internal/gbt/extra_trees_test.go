package gbt

import (
	"bytes"
	"math"
	"slices"
	"testing"
)

// rootBins counts the thresholds at the trees' roots, by the last bin on the left. Trees without a split are skipped.
func rootBins(t *testing.T, m *Model, bounds []float64) map[int]int {
	t.Helper()
	seen := map[int]int{}
	for _, tree := range m.Trees {
		seen[slices.Index(bounds, tree.Threshold[0])]++
	}
	return seen
}

// TestExtraTreesDrawThresholds has one feature, whose best threshold is the same for every tree; a drawn one varies.
func TestExtraTreesDrawThresholds(t *testing.T) {
	long(t)
	const bins = 12
	d := randomTable(tableSpec{rows: 20_000, numerical: 1, bins: bins, seed: 3})
	for r, b := range d.Columns[0] {
		d.Label[r] = 0
		if (int(b) >= bins/2) != (r%10 == 0) {
			d.Label[r] = 1
		}
	}
	p := small()
	p.NumLeaves, p.NumIterations, p.LearningRate = 2, 1100, 1e-4
	if seen := rootBins(t, mustTrain(t, &d.Data, p, Options{}).Model, d.Features[0].Bounds); len(seen) != 1 ||
		seen[bins/2-1] == 0 {
		t.Fatalf("greedy roots are behind bins %v", seen)
	}
	p.ExtraTrees = true
	seen := rootBins(t, mustTrain(t, &d.Data, p, Options{}).Model, d.Features[0].Bounds)
	for b := range bins - 1 {
		if n := seen[b]; math.Abs(float64(n)-100) > 50 {
			t.Errorf("%d of 1100 roots are behind bin %d, expected about 100 behind each: %v", n, b, seen)
		}
	}
	p.MaxBin = 4
	if seen := rootBins(t, mustTrain(t, &d.Data, p, Options{}).Model, d.Features[0].Bounds); len(seen) != 3 {
		t.Errorf("with max_bin 4, roots are behind bins %v", seen)
	}
	p.Seed++
	other := rootBins(t, mustTrain(t, &d.Data, p, Options{}).Model, d.Features[0].Bounds)
	if len(other) != 3 {
		t.Errorf("with another seed, roots are behind bins %v", other)
	}
}

// TestExtraTreesDrawCategories: one of a few categories, or one length of the sorted run of many.
func TestExtraTreesDrawCategories(t *testing.T) {
	unraced(t)
	d := randomTable(tableSpec{rows: 20_000, categorical: 1, bins: 2, seed: 4})
	p := small()
	p.NumLeaves, p.NumIterations, p.LearningRate, p.MinDataPerGroup, p.CatSmooth = 2, 300, 1e-4, 1, 1
	for _, onehot := range []int{1, 256} {
		p.MaxCatToOnehot = onehot
		distinct := func() int {
			seen := map[binSet]bool{}
			for _, tree := range mustTrain(t, &d.Data, p, Options{}).Model.Trees {
				seen[tree.left[0]] = true
			}
			return len(seen)
		}
		p.ExtraTrees = false
		greedy := distinct()
		p.ExtraTrees = true
		if drawn := distinct(); greedy > 2 || drawn < 5 {
			t.Errorf("max_cat_to_onehot %d: %d different greedy roots, %d drawn ones", onehot, greedy, drawn)
		}
	}
}

// TestExtraTreesDoNotDependOnTheCrew has leaves so small that goroutines would otherwise prepare them one each, and
// ahead of their turn.
func TestExtraTreesDoNotDependOnTheCrew(t *testing.T) {
	d := randomTable(tableSpec{rows: 30_000, numerical: 6, categorical: 2, bins: 60, missing: 0.1, seed: 6})
	p := small()
	p.ExtraTrees, p.NumLeaves, p.NumIterations = true, 200, 4
	want := text(t, mustTrain(t, &d.Data, p, Options{Threads: 1}).Model)
	for _, threads := range []int{2, 4} {
		if got := text(t, mustTrain(t, &d.Data, p, Options{Threads: threads}).Model); !bytes.Equal(got, want) {
			t.Errorf("%d threads make another model: %s", threads, firstDifference(got, want))
		}
	}
}
