package reproduce_test

import (
	"strings"
	"testing"

	"coppice/internal/problem"
	"coppice/internal/sweep"
	"coppice/launcher/internal/reproduce"
)

// TestLineage: a lineage (the parameters of the trials whose models a trial continues) that the trial cannot have is
// refused before anything is opened or trained. One that it can have is not: then only the missing dataset is an error.
func TestLineage(t *testing.T) {
	p := &sweep.Plan{}
	for n := range 6 {
		p.Trials = append(p.Trials, sweep.Trial{Number: n, Open: true})
	}
	p.Spec.Metric = "auc"
	p.Spec.Search.Random = map[string]sweep.Distribution{"num_leaves": {Int: []int64{4, 40}}}
	own := sweep.Params{"num_leaves": 8.0}
	// Generations have two trials: 0 and 1 are the first, which continue no model, 2 and 3 the second, 4 and 5 the
	// third. A trial of the third continues two models, one after the other. Without a population no trial continues
	// any.
	for name, tc := range map[string]struct {
		method  string
		trial   int
		lineage []sweep.Params
		want    string // part of the error; empty if the lineage is accepted
	}{
		"right":            {sweep.MethodPBT, 4, []sweep.Params{own, own}, ""},
		"first generation": {sweep.MethodPBT, 1, nil, ""},
		"lost": {sweep.MethodPBT, 4, nil,
			"trial 4 is of generation 3, but the version's result has a lineage of 0"},
		"too long":      {sweep.MethodPBT, 2, make([]sweep.Params, 10_000), "a lineage of 10000"},
		"no population": {sweep.MethodGP, 4, []sweep.Params{own, own}, "a lineage of 2"},
		"another parameter": {sweep.MethodPBT, 2, []sweep.Params{{"max_bin": 1e9}},
			`"max_bin" in generation 1, which the sweep does not search`},
	} {
		p.Spec.Search.Method, p.Spec.Search.Population = tc.method, 2
		_, err := reproduce.Run(t.Context(), reproduce.Recipe{Plan: p, Trial: tc.trial, Params: own,
			Lineage: tc.lineage, Dir: t.TempDir()})
		refused := problem.Is(err, problem.Input)
		switch {
		case tc.want == "" && (err == nil || refused):
			t.Errorf("%s: got error %v, want only that there is no dataset", name, err)
		case tc.want != "" && (!refused || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s: got error %v, want %q", name, err, tc.want)
		}
	}
}
