package gbt

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestPathSmoothByHand: below an unsmoothed root, values are means of the rows' own value and the parent's, weighted as
// in LightGBM's documentation. With squared error and no weights, hessians are counts.
func TestPathSmoothByHand(t *testing.T) {
	d := randomTable(tableSpec{rows: 3000, numerical: 3, categorical: 1, bins: 20, regression: true, seed: 5})
	p := small()
	p.Objective, p.NumIterations, p.LearningRate, p.CatL2, p.PathSmooth = "regression", 1, 1, 0, 200
	tree := mustTrain(t, &d.Data, p, Options{}).Model.Trees[0]
	sum, count := make([]float64, tree.Leaves()), make([]float64, tree.Leaves())
	for r, y := range d.Label {
		leaf := 0
		for leaf >= 0 {
			if tree.left[leaf].has(int(d.Columns[tree.Feature[leaf]][r])) {
				leaf = tree.Left[leaf]
			} else {
				leaf = tree.Right[leaf]
			}
		}
		sum[^leaf] += float64(y)
		count[^leaf]++
	}
	var below func(node int) (s, n float64)
	below = func(node int) (float64, float64) {
		if node < 0 {
			return sum[^node], count[^node]
		}
		s, n := below(tree.Left[node])
		s2, n2 := below(tree.Right[node])
		return s + s2, n + n2
	}
	all, rows := below(0)
	bias := all / rows
	var check func(node int, parent float64)
	check = func(node int, parent float64) {
		s, n := below(node)
		want := s/n - bias
		if node != 0 {
			want = (want*n + parent*p.PathSmooth) / (n + p.PathSmooth)
		}
		if node < 0 {
			if got := tree.LeafValue[^node] - bias; math.Abs(got-want) > 1e-4 {
				t.Errorf("leaf %d of %v rows has the value %v, expected %v", ^node, n, got, want)
			}
			return
		}
		if got := tree.InternalValue[node] - bias; math.Abs(got-want) > 1e-4 {
			t.Errorf("node %d of %v rows has the value %v, expected %v", node, n, got, want)
		}
		check(tree.Left[node], want)
		check(tree.Right[node], want)
	}
	check(0, 0)
}

// TestMonotoneOnAGrid trains on labels that contradict every direction, and moves one feature of many rows over all its
// bins, while others may be missing.
func TestMonotoneOnAGrid(t *testing.T) {
	long(t)
	for _, missing := range []float64{0, 0.1} {
		monotoneOnAGrid(t, missing)
	}
}

func monotoneOnAGrid(t *testing.T, missing float64) {
	const features = 4
	d := randomTable(tableSpec{rows: 8000, numerical: features, categorical: 2, bins: 16, missing: missing, seed: 7})
	rng := rand.New(rand.NewPCG(7, 7))
	for r := range d.Rows { // waves and interactions
		x := slices.Clone(d.row(r))
		for f := range x {
			if math.IsNaN(x[f]) {
				x[f] = 20
			}
		}
		signal := math.Sin(x[0]) + math.Cos(x[1]) + math.Cos(x[2]/2) + math.Sin(x[0]*x[2]/20) + x[3]/16*math.Sin(x[4])
		d.Label[r] = 0
		if rng.Float64() < Probability(2*signal) {
			d.Label[r] = 1
		}
	}
	p := small()
	p.NumIterations, p.NumLeaves, p.MinDataInLeaf = 20, 31, 5
	against := func(m *Model, f int, direction float64) int {
		n := 0
		for r := range 300 {
			x := slices.Clone(d.row(r))
			x[r%features] = math.NaN()
			last := -direction * inf
			for b := range 16 {
				x[f] = float64(b)
				v := m.Predict(x)
				if direction*(v-last) < -1e-9 {
					n++
				}
				last = v
			}
		}
		return n
	}
	free := mustTrain(t, &d.Data, p, Options{}).Model
	for f, direction := range []float64{1, -1, 1} {
		if against(free, f, direction) == 0 {
			t.Fatalf("the labels do not go against feature %d's direction", f)
		}
	}
	for name, change := range map[string]func(*Params){
		"alone": func(*Params) {}, "path_smooth": func(p *Params) { p.PathSmooth = 20 },
		"extra_trees":               func(p *Params) { p.ExtraTrees = true },
		"max_delta_step, lambda_l1": func(p *Params) { p.MaxDeltaStep, p.LambdaL1 = 0.3, 1 },
		"max_bin":                   func(p *Params) { p.MaxBin = 7 },
	} {
		p := p
		change(&p)
		p.MonotoneConstraints = "name:numa=1,numb=-1,numc=1"
		bound := mustTrain(t, &d.Data, p, Options{Threads: 2}).Model
		for f, direction := range []float64{1, -1, 1} {
			if n := against(bound, f, direction); n > 0 {
				t.Errorf("%s, %v missing: %d steps of feature %d go against its direction", name, missing, n, f)
			}
		}
		counts, _ := bound.Importance()
		if slices.Contains(counts[:3], 0) || against(bound, 3, 1) == 0 || against(bound, 3, -1) == 0 {
			t.Errorf("%s: features split %v times, and the free one is monotone: the test tests nothing", name, counts)
		}
	}
}

// limited returns the parameters of this file, one at a time and all at once, for a table whose first features are
// numerical.
func limited() map[string]func(*Params) {
	all := map[string]func(*Params){
		"extra trees": func(p *Params) { p.ExtraTrees = true },
		"path smooth": func(p *Params) { p.PathSmooth = 40 },
		"monotone":    func(p *Params) { p.MonotoneConstraints = "name:numa=1,numb=-1,numc=-1" },
	}
	all["all limits"] = func(p *Params) {
		for _, name := range []string{"extra trees", "path smooth", "monotone"} {
			all[name](p)
		}
	}
	return all
}

// TestLimitsSameBytes: for any number of threads, and after resuming with a different one.
func TestLimitsSameBytes(t *testing.T) {
	rows, trees, counts, kept := 80_000, 6, []int{2, 4}, []int{1, 4}
	if raceEnabled { // two chunks of rows instead of four, and one of each kind of check
		rows, trees, counts, kept = 40_000, 3, []int{4}, []int{2}
	}
	d := randomTable(tableSpec{rows: rows, numerical: 6, categorical: 3, bins: 80, missing: 0.05, weights: true,
		seed: 10})
	v := randomTable(tableSpec{rows: 5000, numerical: 6, categorical: 3, bins: 80, missing: 0.05, seed: 10})
	d.Copies = 2
	for name, change := range limited() {
		t.Run(name, func(t *testing.T) {
			p := small()
			p.NumIterations, p.NumLeaves, p.EarlyStoppingRound = trees, 40, 50
			change(&p)
			opt := Options{Threads: 1, Valid: &v.Data, Eval: logLoss(v.Label), Shift: -1}
			want := mustTrain(t, &d.Data, p, opt)
			for _, threads := range counts {
				opt.Threads = threads
				got := mustTrain(t, &d.Data, p, opt)
				if !bytes.Equal(text(t, got.Model), text(t, want.Model)) || got.Metric != want.Metric {
					t.Fatalf("%d threads make another model: %s", threads,
						firstDifference(text(t, got.Model), text(t, want.Model)))
				}
			}
			for _, after := range kept {
				c, err := ReadCheckpoint(encoded(t, checkpointed(t, &d.Data, p, opt, after)))
				if err != nil {
					t.Fatal(err)
				}
				again := opt
				again.Resume, again.Threads = c, 2
				got := mustTrain(t, &d.Data, p, again)
				if got.Resumed != after || !bytes.Equal(text(t, got.Model), text(t, want.Model)) ||
					got.Metric != want.Metric {
					t.Fatalf("resumed after %d trees: %+v, expected %+v", after, got, want)
				}
			}
			plain := small()
			plain.NumIterations, plain.NumLeaves, plain.EarlyStoppingRound = p.NumIterations, p.NumLeaves,
				p.EarlyStoppingRound
			if bytes.Equal(text(t, mustTrain(t, &d.Data, plain, opt).Model), text(t, want.Model)) {
				t.Error("the model is that without the parameter")
			}
		})
	}
}

// TestLimitsRefused: values that contradict each other or the table.
func TestLimitsRefused(t *testing.T) {
	type values = map[string]any
	for _, tc := range []struct {
		values values
		want   string
	}{
		{values{"path_smooth": 1, "min_data_in_leaf": 1}, "path_smooth: needs min_data_in_leaf of 2 or more"},
		{values{"neg_bagging": 0.5}, "neg_bagging: LightGBM has it, Coppice does not: positive and negative rows are " +
			"drawn alike; use bagging_fraction with bagging_freq: 1, or scale_pos_weight"},
		{values{"interaction_constraints": "[0,1]"}, "interaction_constraints: LightGBM has it, Coppice does not: " +
			"all features may meet on a path; ignore_column leaves features out"},
		{values{"bagging_by_query": true}, "bagging_by_query: LightGBM has it, Coppice does not: rows are drawn, " +
			"whatever their query; use bagging_fraction with bagging_freq: 1"},
		{values{"mc": "1,2"},
			"mc: \"2\" is not a direction; 1 is upwards, -1 downwards and 0 either; names come after name:"},
		{values{"mc_method": "advanced"},
			"mc_method: LightGBM has it, Coppice does not: directions are kept as by basic; intermediate and " +
				"advanced gain little and take longer"},
		{values{"monotone_constraints": "name:a=1,a=-1"}, "monotone_constraints: column \"a\" has two directions"},
		{values{"monotone_constraints": "name:a"}, "monotone_constraints: \"a\" has no direction; write \"a=1\""},
		{values{"extra_trees": 1}, "extra_trees: expected true or false, found 1"},
	} {
		_, err := ParseParams(tc.values)
		var pe *ParamError
		if !errors.As(err, &pe) || err.Error() != tc.want {
			t.Errorf("%v: got  %v\nwant %s", tc.values, err, tc.want)
		}
	}
	d := randomTable(tableSpec{rows: 500, numerical: 2, categorical: 1, bins: 10, seed: 4})
	for want, change := range map[string]func(*Params){
		`monotone_constraints: column "cat c" is categorical and has no order`:                                      func(p *Params) { p.MonotoneConstraints = "0,0,1" },
		`monotone_constraints: 2 directions for the table's 3 columns; give one for each, or name some after name:`: func(p *Params) { p.MonotoneConstraints = "0,1" },
		`monotone_constraints: there is no column "num" (did you mean "numa"?)`:                                     func(p *Params) { p.MonotoneConstraints = "name:num=1" },
		`path_smooth: needs min_data_in_leaf of 2 or more`:                                                          func(p *Params) { p.PathSmooth, p.MinDataInLeaf = 1, 0 },
	} {
		p := small()
		change(&p)
		_, err := Train(context.Background(), &d.Data, p, Options{})
		var pe *ParamError
		if !errors.As(err, &pe) || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

// TestLimitsAreCanonical: lists of the same columns are the same configuration, however they are written.
func TestLimitsAreCanonical(t *testing.T) {
	columns := []string{"age", "price", "a,b", "twice", "twice", "k=v", "[x]"}
	for in, want := range map[any]string{
		"": "", "0,0,0,0,0,0,0": "", "name:age=0": "",
		"1,-1,0,0,0,0,0": "name:age=1,price=-1", "name: price=-1, age = 1": "name:age=1,price=-1",
		"name:k=v=-1":   "name:k=v=-1",
		"0,0,1,0,0,0,0": "0,0,1,0,0,0,0", "0,0,0,0,-1,0,0": "0,0,0,0,-1,0,0",
	} {
		checkCanonical(t, monotoneConstraints, in, columns, want)
	}
	checkCanonical(t, monotoneConstraints, []any{1.0, 0, -1, 0, 0, 0, 0}, columns, "1,0,-1,0,0,0,0")
	checkCanonical(t, monotoneConstraints, []any{1.0, -1, 0, 0, 0, 0, 0}, columns, "name:age=1,price=-1")
}

func checkCanonical(t *testing.T, name string, in any, columns []string, want string) {
	t.Helper()
	p, err := ParseParams(map[string]any{name: in})
	if err == nil {
		p, err = p.ForColumns(columns)
	}
	if got := p.Map()[name]; want == "error" && err == nil || want != "error" && (err != nil || got != want) {
		t.Errorf("%s %v gives %q, %v; want %q", name, in, got, err, want)
		return
	}
	if err != nil {
		return
	}
	again, err := ParseParams(p.Map())
	if err != nil || again != p {
		t.Errorf("%s %v: its map gives %+v, %v", name, in, again, err)
	}
	if again, err = again.ForColumns(columns); err != nil || again != p {
		t.Errorf("%s %v: a second time gives %+v, %v", name, in, again, err)
	}
}

// TestLimitsInTheModel: a model mentions newer parameters only if set, and columns by number.
func TestLimitsInTheModel(t *testing.T) {
	d := randomTable(tableSpec{rows: 3000, numerical: 6, categorical: 3, bins: 20, seed: 11})
	plain := text(t, mustTrain(t, &d.Data, small(), Options{}).Model)
	p := small()
	limited()["all limits"](&p)
	m := mustTrain(t, &d.Data, p, Options{}).Model
	for _, line := range []string{
		"[extra_trees: 1]", "[path_smooth: 40]", "[monotone_constraints: 1,-1,-1,0,0,0,0,0,0]",
	} {
		if !bytes.Contains(text(t, m), []byte(line+"\n")) {
			t.Errorf("the model has no %q", line)
		}
		if name, _, _ := strings.Cut(line, ":"); bytes.Contains(plain, []byte(name)) {
			t.Errorf("a model without it has a line %s", name)
		}
	}
	raw := make([]float64, d.Rows)
	if err := m.PredictAll(d.raw, raw, 2); err != nil {
		t.Fatal(err)
	}
	checkAgainstLeaves(t, m, d, raw)
}
