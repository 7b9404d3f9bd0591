package search

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"coppice/internal/must"
	"coppice/internal/sweep"
)

// foldedBoard is a sweep of configurations in five folds with these scores; none is NaN, and 0 is a fold that has not
// ended.
func foldedBoard(maximize bool, scores ...[]float64) (*sweep.Plan, sweep.Board) {
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

// TestDrop: the numbers are scipy's, scipy.stats.t.sf(mean/se, 2) with se = sqrt(var(ddof=1) * (1/3 + 1/4)).
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
			if own := Drop(p, b, 0); name != "better" && name != "the same gap" && own != "" {
				t.Errorf("%s, maximize %t: the best is dropped for %q", name, maximize, own)
			}
		}
	}
}

func negated(x []float64) []float64 {
	out := make([]float64, len(x))
	for i := range x {
		out[i] = -x[i]
	}
	return out
}

// TestChoose: of the configurations with all folds the one of the best mean is trained again, by the trees of its
// folds, and the reason says by how much it leads.
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
	if p.Trials[1].Params["num_iterations"] != 100.0 {
		t.Error("choosing has changed the plan")
	}
}

// TestChooseByRequirements: a configuration has to meet the requirements by its means; without one that does, none is
// chosen, and why is said.
func TestChooseByRequirements(t *testing.T) {
	p, b := foldedBoard(true, []float64{.5, .5, .5, .5, .5}, []float64{.6, .7, .6, .7, .6})
	for text, want := range map[string]int{"auc < 0.55": 0, "trees <= 30": 1, "model_bytes < 10": 1,
		"log_loss < 0.4": -1, "brier < 1": -1} {
		r := must.Get(CompileRequire(text, func(m string) (string, error) { return m, nil }))(t)
		c, none := Choose(p, b, []*Condition{r})
		if want < 0 && c == nil && strings.Contains(none, text[:4]) {
			continue
		}
		if want < 0 || c == nil || c.Configuration != want {
			t.Errorf("with %s: chose %+v (%s); want configuration %d", text, c, none, want)
		}
	}
}

// TestDecideConfigurations: a search over configurations in folds proposes what a search over trials with the same
// results does.
func TestDecideConfigurations(t *testing.T) {
	score := func(own sweep.Params) *float64 {
		v := own["learning_rate"].(float64) + own["num_leaves"].(float64)/100
		return &v
	}
	for _, method := range []string{sweep.MethodAuto, sweep.MethodGP} {
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

		seen := []sweep.Seen{{Trial: 0, Status: sweep.StatusDone, Score: score(plain.Trials[0].Params)}}
		for n := 1; n < len(plain.Trials); n++ {
			want := must.Get(Decide(plain, n, seen, nil))(t)
			folded := slices.Clone(seen)
			for i := range folded {
				folded[i].Trial = 3 * folded[i].Trial // of the first of three first folds
			}
			got, err := Decide(cross, 3*n, folded, nil)
			if err != nil || got.Trial != 3*n || keyOf(got.Params) != keyOf(want.Params) || got.Reason != want.Reason {
				t.Fatalf("%s: configuration %d was decided as %+v, error %v; want trial %d with what a search over "+
					"trials comes to, %+v", method, n, got, err, 3*n, want)
			}
			if err := Replay(cross, &sweep.Decision{Trial: 3 * n, Own: got.Params, Source: got.Source,
				Reason: got.Reason, Seen: folded}); err != nil {
				t.Errorf("%s: configuration %d, made again: %v; want the same", method, n, err)
			}
			seen = append(seen, sweep.Seen{Trial: n, Status: sweep.StatusDone, Score: score(want.Params),
				Params: want.Params})
		}
	}
}
