package search

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"coppice/internal/must"
	"coppice/internal/sweep"
)

// foldedBoard returns the plan and the board of a sweep that trains configurations in five folds, of which the first
// three are trained first. scores are by configuration, then fold. 0, or a score that is missing at the end, is a fold
// that has not ended. Configuration i has i+2 leaves, and its fold f took 10 x f trees, f counting from 1.
func foldedBoard(maximize bool, scores ...[]float64) (*sweep.Plan, sweep.Board) {
	// Five folds, each evaluated on two fold numbers and trained on the other eight, of which only the number matters
	// here.
	p := &sweep.Plan{Sweep: "s-1", Maximize: maximize,
		Spec: sweep.Spec{Metric: "auc", Validate: &sweep.Validate{KFold: 5}}}
	var rounds []sweep.Round
	for f := range uint8(5) {
		rounds = append(rounds, sweep.Round{Train: sweep.Rows{Split: "train", Folds: make([]uint8, 8)},
			Rated: sweep.Rows{Split: "train", Folds: []uint8{2 * f, 2*f + 1}}})
	}
	p.Folds = sweep.NewFolds("kfold", rounds, true)
	var configurations []sweep.Trial
	for i := range scores {
		configurations = append(configurations,
			sweep.Trial{Params: sweep.Params{"num_leaves": float64(i + 2), "num_iterations": 100.0,
				"early_stopping_round": 5.0}})
	}
	p.Trials = p.Folds.Expand(configurations)

	// The results of the folds that have ended.
	var results []sweep.Result
	for _, t := range p.Trials[:len(p.Trials)-1] {
		if s := scores[t.Configuration]; t.Fold <= len(s) && s[t.Fold-1] != 0 {
			results = append(results, sweep.Result{Sweep: p.Sweep, Trial: t.Number, Fold: t.Fold,
				Configuration: t.Configuration, Status: sweep.StatusDone, Score: s[t.Fold-1],
				BestIteration: 10 * t.Fold, TrainRows: 80, Metrics: map[string]float64{"auc": s[t.Fold-1],
					"log_loss": 0.5}})
		}
	}
	return p, sweep.MakeBoard(p, results)
}

// TestDrop: a configuration is dropped after its first folds if a paired t-test finds it worse than the best, or if a
// fold has no score; the best is not. The numbers are scipy's: scipy.stats.t.sf(mean/se, 2) with
// se = sqrt(var(ddof=1) * (1/3 + 1/4)), since there are three folds and each is a fourth of the rows trained on.
func TestDrop(t *testing.T) {
	best := []float64{0.60, 0.62, 0.64}
	for name, tc := range map[string]struct {
		scores []float64
		want   string // none where it is not dropped
	}{
		"behind in all": {[]float64{0.58, 0.598, 0.622},
			"behind configuration 0 by 0.02 ± 0.0015 auc over the same 3 folds (paired t-test, p = 0.0029)"},
		"a little, always":    {[]float64{0.595, 0.612, 0.633}, "p = 0.015"},
		"behind in some":      {[]float64{0.58, 0.61, 0.64}, ""}, // p = 0.16
		"the same gap":        {[]float64{0.35, 0.37, 0.39}, "by 0.25"},
		"as good":             {best, ""},
		"better":              {[]float64{0.61, 0.63, 0.65}, ""},
		"a fold has no score": {[]float64{0.9, 0, 0.9}, "configuration 1 has no score in fold 2 (trial 4)"},
	} {
		for _, maximize := range []bool{true, false} {
			ours, theirs := best, tc.scores
			if !maximize {
				ours, theirs = negated(best), negated(tc.scores)
			}
			p, b := foldedBoard(maximize, ours, theirs)
			got := Drop(p, b, 1)
			if (tc.want == "") != (got == "") || !strings.Contains(got, tc.want) {
				t.Errorf("%s, maximize %t: dropped for %q; want %q", name, maximize, got, tc.want)
			}
			if own := Drop(p, b, 0); name != "better" && own != "" {
				t.Errorf("%s, maximize %t: configuration 0, the best, is dropped for %q; want it kept", name, maximize,
					own)
			}
		}
	}
}

// negated returns the numbers with the opposite sign.
func negated(x []float64) []float64 {
	out := make([]float64, len(x))
	for i := range x {
		out[i] = -x[i]
	}
	return out
}

// TestChoose: of the configurations that have all folds, the one with the best mean is chosen, although another one has
// better scores in its first folds. The refit trains as many trees as its folds did in the mean, 30 of 10, 20, 30, 40
// and 50, and the reason says by how much it leads. The plan is not changed.
func TestChoose(t *testing.T) {
	p, b := foldedBoard(true, []float64{.5, .5, .5, .5, .5}, []float64{.6, .7, .6, .7, .6}, []float64{.9, .9, .9},
		[]float64{.6, .6, .6, .6, .6})
	c, none := Choose(p, b, nil)
	if c == nil {
		t.Fatalf("chose nothing: %s", none)
	}
	if want := "configuration 1 has the highest mean auc over 5 folds, 0.640 ± 0.024; next is configuration 3 with " +
		"0.6"; c.Reason != want {
		t.Errorf("chosen for %q, want %q", c.Reason, want)
	}
	if got, want := fmt.Sprint(c.Params), "map[early_stopping_round:0 num_iterations:30 num_leaves:3]"; got != want {
		t.Errorf("the refit trains %s, want %s", got, want)
	}
	must.Equal(t, p.Trials[1].Params["num_iterations"], 100.0, "num_iterations in the plan after choosing")
}

// TestChooseByRequirements: the configuration that is chosen meets the requirements with its means over the folds. The
// expectations are the configuration's number; -1 says that none is chosen, with the requirement in the reason. Bytes
// of the model are only known after the refit, so a requirement on them excludes none.
func TestChooseByRequirements(t *testing.T) {
	p, b := foldedBoard(true, []float64{.5, .5, .5, .5, .5}, []float64{.6, .7, .6, .7, .6})
	for text, want := range map[string]int{"auc < 0.55": 0, "trees <= 30": 1, "model_bytes < 10": 1,
		"log_loss < 0.4": -1, "brier < 1": -1} {
		r := must.Get(CompileRequire(text, func(m string) (string, error) { return m, nil }))(t)
		c, none := Choose(p, b, []*Condition{r})
		if named := text[:4]; want < 0 && c == nil && strings.Contains(none, named) { // such as "brie" of brier
			continue
		}
		if want < 0 || c == nil || c.Configuration != want {
			t.Errorf("with %s: chose %+v (%s); want configuration %d", text, c, none, want)
		}
	}
}

// TestDecideConfigurations: a search over configurations in folds proposes the same as a search over single trials with
// the same results. Configuration n of the former is trial n of the latter, and trial 3n of its own plan: that of the
// first of its three first folds.
func TestDecideConfigurations(t *testing.T) {
	score := func(own sweep.Params) *float64 {
		v := own["learning_rate"].(float64) + own["num_leaves"].(float64)/100
		return &v
	}
	for _, method := range []string{sweep.MethodAuto, sweep.MethodGP} {
		// plain has single trials, cross the same configurations in folds.
		plain := &sweep.Plan{Format: 1, Maximize: true, Base: sweep.Params{"seed": 1.0}}
		plain.Spec.Seed, plain.Spec.Search = 3,
			sweep.Search{Method: method, Constraints: []string{"num_leaves <= 200 * learning_rate"},
				Random: map[string]sweep.Distribution{"learning_rate": {LogUniform: []float64{0.01, 0.5}},
					"num_leaves": {LogInt: []int64{4, 64}}}}
		plain.Trials = []sweep.Trial{{Number: 0, Params: sweep.Params{"learning_rate": 0.1, "num_leaves": 16.0,
			"seed": 1.0}}}
		for n := 1; n < 14; n++ {
			plain.Trials = append(plain.Trials, sweep.Trial{Number: n, Source: method, Open: true})
		}
		cross, _ := foldedBoard(true)
		cross.Base, cross.Spec = plain.Base, plain.Spec
		cross.Trials = cross.Folds.Expand(plain.Trials)

		// Decide one after the other in both, from the same scores.
		seen := []sweep.Seen{{Trial: 0, Status: sweep.StatusDone, Score: score(plain.Trials[0].Params)}}
		for n := 1; n < len(plain.Trials); n++ {
			want := must.Get(Decide(plain, n, seen, nil))(t)
			folded := slices.Clone(seen)
			for i := range folded {
				folded[i].Trial = 3 * folded[i].Trial
			}
			got, err := Decide(cross, 3*n, folded, nil)
			if err != nil || got.Trial != 3*n || keyOf(got.Params) != keyOf(want.Params) || got.Reason != want.Reason {
				t.Fatalf("%s: configuration %d was decided as %+v, error %v; want trial %d with what a search over "+
					"trials comes to, %+v", method, n, got, err, 3*n, want)
			}
			seen = append(seen, sweep.Seen{Trial: n, Status: sweep.StatusDone, Score: score(want.Params),
				Params: want.Params})
		}
	}
}
