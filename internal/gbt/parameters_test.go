package gbt

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coppice/internal/must"
	"coppice/internal/problem"
)

// TestEveryParameterOfLightGBM: every parameter of LightGBM 4.7 is in paramTable under each of its names, which
// testdata/lightgbm/params.json lists (lightgbm.basic._ConfigAliases). One that another file or flag has, and one that
// is not trained with and asked for something else than what is done, are refused with their notes, which say why.
func TestEveryParameterOfLightGBM(t *testing.T) {
	data := must.Get(os.ReadFile(filepath.Join("testdata", "lightgbm", "params.json")))(t)
	var all map[string][]string
	if err := json.Unmarshal(data, &all); err != nil || len(all) < 140 {
		t.Fatalf("%d parameters, error %v; want all of LightGBM's, which are more than 140", len(all), err)
	}
	for name, aliases := range all {
		for _, word := range append(aliases, name) {
			if s := findAmong(0, len(paramTable), word); s == nil || s.name != name {
				t.Errorf("LightGBM's %s, called %s: found %+v, want the row of %[1]s", name, word, s)
			}
		}
	}
	for _, s := range paramTable[len(trainedWith):] {
		if s.fine != anyValue {
			_, err := ParseParams(map[string]any{s.name: "odd"})
			must.SayAs[*ParamError](t, s.name+": odd", err, s.note)
		}
	}
}

// TestLightGBMsParameters: a parameter of LightGBM that is not trained with is accepted if its value asks for what is
// done anyway, and a note says so. Any other value is refused with the reason.
func TestLightGBMsParameters(t *testing.T) {
	params := map[string]any{"boosting": "gbdt", "verbose": -1, "deterministic": true, "force_col_wise": true,
		"device_type": "cpu", "tree_learner": "serial", "bagging_seed": 3, "linear_tree": false, "num_leaves": 7,
		"objective": "binary"}
	p, err := ParseParams(params)
	if err != nil || p.NumLeaves != 7 {
		t.Fatalf("got %d leaves and %v; want 7", p.NumLeaves, err)
	}
	notes := NoEffect(params) // of all but num_leaves and objective; bagging_seed and boosting come first by name
	if len(notes) != 8 || !strings.HasPrefix(notes[2], "deterministic has no effect here: ") {
		t.Errorf("the notes are %q; want one for each of eight parameters, by name", notes)
	}

	for name, tc := range map[string]struct {
		value any
		says  string
	}{
		"boosting_type": {"dart", "boosting_type: LightGBM has it, Coppice does not: trees are boosted (gbdt), and " +
			"there is no dart, rf or goss; use a lower learning_rate with early stopping (asked for: dart)"},
		"linear_tree": {true, "no linear trees"},
		"top_rate":    {0.3, "rows are not drawn by their gradients"},
		"num_class":   {3, "it belongs to multiclass"},
	} {
		_, err := ParseParams(map[string]any{name: tc.value})
		var of *ParamError
		if !errors.As(err, &of) || of.Name != name || !strings.Contains(err.Error(), tc.says) ||
			problem.Of(err) != problem.Input {
			t.Errorf("%s: %v: got %v; want an error of the input that says %q", name, tc.value, err, tc.says)
		}
	}
}

// TestPlansOfEarlierBuilds: parameters that were removed, and that plans of earlier builds state at their defaults, are
// accepted, and Changed does not list them.
func TestPlansOfEarlierBuilds(t *testing.T) {
	params := Defaults().Map()
	params["forcedsplits_filename"], params["monotone_constraints_method"] = "", "basic"
	params["lambdarank_position_bias_regularization"] = 0.0
	params["boosting"], params["max_drop"], params["skip_drop"], params["uniform_drop"] = "gbdt", 50.0, 0.5, false
	params["data_sample_strategy"], params["top_rate"] = "bagging", 0.2
	must.Equal(t, must.Get(ParseParams(params))(t), Defaults(), "the defaults, parsed")
	if changed := Changed(params); len(changed) > 0 {
		t.Errorf("changed: got %q, want none", changed)
	}
	params["forcedsplits_filename"], params["num_leaves"] = "{}", 7.0
	if changed := Changed(params); !slices.Equal(changed, []string{"forcedsplits_filename", "num_leaves"}) {
		t.Errorf("changed: got %q, want the two that are", changed)
	}
}

// TestParametersDocument: docs/parameters.md is what paramTable and objectives say. To write it anew: go test
// ./internal/gbt -run ParametersDocument -update.
func TestParametersDocument(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "parameters.md")
	want := parametersDocument()
	if *update {
		must.Do(t, os.WriteFile(path, []byte(want), 0o644))
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("docs/parameters.md is not current (%v): go test ./internal/gbt -run ParametersDocument -update", err)
	}
}

// parametersDocument returns what docs/parameters.md has to be.
func parametersDocument() string {
	var b strings.Builder
	b.WriteString(`# Parameters of LightGBM

All parameters of LightGBM 4, and what they are here. Aliases are accepted wherever names are. Why
results differ: [DIVERGENCE.md](../internal/gbt/DIVERGENCE.md). The page is made from the code's
tables by ` + "`go test ./internal/gbt -run ParametersDocument -update`" + `.
`)
	// The documents have one name for the programs.
	program := strings.NewReplacer("|", "\\|", "launcher ", "coppice ", "task train", "coppice task train")
	cell := program.Replace
	head := func(title, columns string) {
		fmt.Fprintf(&b, "\n## %s\n\n| %s |\n|%s\n", title, columns,
			strings.Repeat("---|", strings.Count(columns, "|")+1))
	}
	defaults, sorted := Defaults().Map(), slices.Clone(paramTable[len(trainedWith):])
	slices.SortFunc(sorted, func(a, b paramSpec) int { return strings.Compare(a.name, b.name) })
	list := func(words string) string { return strings.Join(strings.Fields(words), ", ") }
	head("Trained with", "parameter | aliases | default | range | compared with LightGBM")
	for _, s := range trainedWith { // in the order of the model file
		bounds := ""
		if _, number := defaults[s.name].(float64); number {
			bounds = s.bounds()
		}
		fmt.Fprintf(&b, "| `%s` | %s | %v | %s | %s |\n", s.name, list(s.aliases), defaults[s.name], bounds,
			cell(cmp.Or(s.note, "same")))
	}

	// Of the others, by name, those with the same values and reason stand in one row.
	grouped := func(which func(fine string) bool, values func(fine string) string) {
		var ends []string
		names := map[string][]string{}
		for _, s := range sorted {
			if !which(s.fine) {
				continue
			}
			end, name := values(s.fine)+cell(s.note), "`"+s.name+"`"
			if s.aliases != "" {
				name += " (" + list(s.aliases) + ")"
			}
			if names[end] == nil {
				ends = append(ends, end)
			}
			names[end] = append(names[end], name)
		}
		for _, end := range ends {
			fmt.Fprintf(&b, "| %s | %s |\n", strings.Join(names[end], ", "), end)
		}
	}
	none := func(string) string { return "" }
	head("Accepted, without an effect", "parameter (aliases) | values | why")
	grouped(func(fine string) bool { return fine != "" && fine != elsewhere }, func(fine string) string {
		if fine == anyValue {
			return "any | "
		}
		return list(fine) + " | "
	})
	head("Refused", "parameter (aliases) | why")
	grouped(func(fine string) bool { return fine == "" }, none)
	head("Said elsewhere", "parameter (aliases) | where")
	grouped(func(fine string) bool { return fine == elsewhere }, none)

	b.WriteString("\n## Objectives\n\n| objective | aliases | |\n|---|---|---|\n")
	for _, o := range objectives() {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", o.name, strings.Join(strings.Fields(o.aliases), ", "), o.about)
	}
	var others []string
	for name := range foreignObjectives {
		others = append(others, name)
	}
	slices.Sort(others)
	for _, name := range others {
		fmt.Fprintf(&b, "| `%s` | | refused: %s |\n", name, foreignObjectives[name])
	}
	return b.String()
}

// TestParsingIsCheap: ParseParams makes at most five allocations per parameter, so that it cannot be splitting the
// aliases of all parameters for each name. A plan of ten thousand trials parses each one's parameters a few times.
func TestParsingIsCheap(t *testing.T) {
	complete := Defaults().Map()
	allocations := testing.AllocsPerRun(5, func() {
		must.Get(ParseParams(complete))(t)
	})
	if most := float64(5 * len(complete)); allocations > most {
		t.Errorf("parsing %d parameters takes %.0f allocations, expected at most %.0f", len(complete), allocations,
			most)
	}
}

// rootBins counts the thresholds at the trees' roots, by the last bin on the left. The root of every tree must be split
// by a feature with these bounds.
func rootBins(t *testing.T, m *Model, bounds []float64) map[int]int {
	t.Helper()
	seen := map[int]int{}
	for _, tree := range m.Trees {
		seen[slices.Index(bounds, tree.Threshold[0])]++
	}
	return seen
}

// TestExtraTreesDrawThresholds: with extra_trees, each of the 11 thresholds between a feature's 12 bins is drawn about
// equally often for the roots of 1,100 trees: 100 times, within five standard deviations of sqrt(1,100 x 1/11 x 10/11)
// = 9.5. Without it all roots have the best one, which is in the middle. With max_bin 4, the three thresholds between
// four coarse bins are drawn, for any seed.
func TestExtraTreesDrawThresholds(t *testing.T) {
	long(t)
	const bins = 12
	d := randomTable(tableSpec{rows: 20_000, numerical: 1, bins: bins, seed: 3})
	for r, b := range d.Columns[0] { // 1 in the upper half of the bins, but the opposite in every tenth row
		d.Label[r] = 0
		if (int(b) >= bins/2) != (r%10 == 0) {
			d.Label[r] = 1
		}
	}
	p := small()
	p.NumLeaves, p.NumIterations, p.LearningRate = 2, 1100, 1e-4 // so small that all trees see the same gradients
	if seen := rootBins(t, mustTrain(t, &d.Data, p, Options{}).Model, d.Features[0].Bounds); len(seen) != 1 ||
		seen[bins/2-1] == 0 {
		t.Fatalf("without extra_trees the roots by last bin on the left are %v, want all at bin %d", seen, bins/2-1)
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
		t.Errorf("with max_bin 4, the roots by last bin on the left are %v, want three bins", seen)
	}
	p.Seed++
	other := rootBins(t, mustTrain(t, &d.Data, p, Options{}).Model, d.Features[0].Bounds)
	if len(other) != 3 {
		t.Errorf("with another seed, the roots by last bin on the left are %v, want three bins", other)
	}
}

// TestExtraTreesDrawCategories: with extra_trees, the roots of 300 trees have at least five different sets of
// categories, while without it they have at most two: for features that split one category from the rest, and for
// sorted categories.
func TestExtraTreesDrawCategories(t *testing.T) {
	unraced(t)
	d := randomTable(tableSpec{rows: 20_000, categorical: 1, bins: 2, seed: 4})
	p := small()
	p.NumLeaves, p.NumIterations, p.LearningRate, p.MinDataPerGroup, p.CatSmooth = 2, 300, 1e-4, 1, 1
	for _, onehot := range []int{1, 256} { // sorted categories; then one against the rest, as bins are at most 62
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
			t.Errorf("max_cat_to_onehot %d: %d different roots without extra_trees and %d with it, want at most 2 "+
				"and at least 5", onehot, greedy, drawn)
		}
	}
}

// lossOf is a row's loss at a raw score, without terms that do not depend on it.
func lossOf(p *Params, raw, y float64) float64 {
	x := math.Abs(raw - y)
	switch p.Objective {
	case "regression_l1":
		return x
	case "huber":
		if x > p.Alpha {
			return p.Alpha * (x - p.Alpha/2)
		}
		return x * x / 2
	case "quantile":
		return max(p.Alpha*(y-raw), (1-p.Alpha)*(raw-y))
	case "poisson":
		return math.Exp(raw) - y*raw
	case "gamma":
		return y*math.Exp(-raw) + raw
	case "tweedie":
		rho := p.TweedieVariancePower
		return y*math.Exp((1-rho)*raw)/(rho-1) + math.Exp((2-rho)*raw)/(2-rho)
	case "binary", "cross_entropy":
		return max(raw, 0) + math.Log1p(math.Exp(-math.Abs(raw))) - y*raw
	}
	return x * x
}

// TestExtremes: with labels and weights that span many orders of magnitude a training ends with a finite model that is
// no worse on its own rows than the constant that it begins with, or says what is wrong. Objectives of classes and of
// rankings are left out, and the labels of binary stay 0 and 1. Quantiles without weights may be worse (see below).
func TestExtremes(t *testing.T) {
	unraced(t)
	t.Parallel()
	labels := map[string]func(y float64, rng *rand.Rand) float64{
		"huge": func(y float64, _ *rand.Rand) float64 { return y * 1e12 },
		"tiny": func(y float64, _ *rand.Rand) float64 { return y * 1e-12 },
		"huge and tiny": func(y float64, rng *rand.Rand) float64 {
			return y * math.Pow(10, float64(24*rng.IntN(2)-12))
		},
		"a heavy tail": func(y float64, rng *rand.Rand) float64 { return y * math.Exp(6*rng.ExpFloat64()) },
		"far from 0":   func(y float64, _ *rand.Rand) float64 { return y + 1e5 },
		// The factor is 1e12 if IntN draws 0, and 1 otherwise.
		"one huge in 200": func(y float64, rng *rand.Rand) float64 {
			return y * max(1, 1e12*float64(1-rng.IntN(200)))
		},
	}
	weights := map[string]func(rng *rand.Rand) float32{
		"none":  func(*rand.Rand) float32 { return 1 },
		"tiny":  func(*rand.Rand) float32 { return 1e-6 },
		"huge":  func(*rand.Rand) float32 { return 1e6 },
		"mixed": func(rng *rand.Rand) float32 { return float32(math.Pow(10, float64(12*rng.IntN(2)-6))) },
	}
	ofEachObjective(t, 3, func(t *testing.T, drawn *trial, _ *rand.Rand) {
		name, seed := drawn.p.Objective, drawn.p.Seed
		if Classes(name) || Ranks(name) { // their labels are whole numbers, and few
			return
		}
		for labelKind, label := range labels {
			for weightKind, weight := range weights {
				rng := rand.New(rand.NewPCG(seed, 3))
				tr := &trial{table: randomTable(tableSpec{rows: 800, numerical: 4, categorical: 1, bins: 20,
					missing: 0.1, regression: true, seed: seed}), p: small()}
				tr.withObjective(name, rng)
				tr.p.RegSqrt, tr.p.NumIterations = false, 20
				for r, y := range tr.Label {
					if name != "binary" {
						tr.Label[r] = float32(label(float64(y), rng))
					}
					if name == "cross_entropy" {
						tr.Label[r] = min(tr.Label[r], 1)
					}
					if weightKind != "none" {
						tr.Weight = append(tr.Weight, weight(rng))
					}
				}
				got, want, err := lossesOf(t, tr)
				if err != nil {
					if !errors.Is(err, ErrData) && !errors.Is(err, errDiverged) {
						t.Errorf("labels %s, weights %s: got error %v, want one about data or divergence", labelKind,
							weightKind, err)
					}
					continue
				}
				// Without weights, a quantile lies between two labels, as LightGBM's, and not on one of least loss.
				between := name == "quantile" && weightKind == "none" && !math.IsInf(got, 0)
				if !(got <= want+1e-9*math.Abs(want)) && !between {
					t.Errorf("labels %s, weights %s: the model's loss is %v, want at most the constant's, %v",
						labelKind, weightKind, got, want)
				}
			}
		}
	})
}

// lossesOf are the weighted sums of the training rows' losses with a model and with the constant that it begins with.
func lossesOf(t *testing.T, tr *trial) (model, constant float64, err error) {
	res, err := Train(t.Context(), &tr.Data, tr.p, Options{Threads: 1})
	if err != nil {
		return 0, 0, err
	}
	each, err := newObjectives(&tr.p, &tr.Data)
	if err != nil {
		return 0, 0, err
	}
	begin := each[0].init(true)
	for r, y := range tr.Label {
		w := 1.0
		if tr.Weight != nil {
			w = float64(tr.Weight[r])
		}
		model += w * lossOf(&tr.p, res.Model.Predict(tr.row(r)), float64(y))
		constant += w * lossOf(&tr.p, begin, float64(y))
	}
	return model, constant, nil
}
