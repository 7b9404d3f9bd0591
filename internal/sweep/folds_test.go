package sweep_test

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/sweep"
)

// TestValidateIsRefused: a validate with missing or impossible parts, or beside what it cannot be combined with, is
// refused with its place. old and new are an edit of the good spec. What is possible is taken, also with a method that
// learns.
func TestValidateIsRefused(t *testing.T) {
	for name, tc := range map[string]struct{ validate, old, new, want string }{
		"neither":       {validate: "{by: group}", want: "validate takes one of kfold and forward"},
		"both":          {validate: "{kfold: 5, forward: 5}", want: "validate takes one of kfold and forward"},
		"one fold":      {validate: "{kfold: 1}", want: "kfold is 1: use 2 to 10"},
		"too many":      {validate: "{kfold: 11}", want: "kfold is 11: use 2 to 10"},
		"no mean":       {validate: "{forward: 2}", want: "forward is 2: use 3 to 10"},
		"by":            {validate: "{kfold: 5, by: user}", want: `by is "user": with kfold, use group`},
		"forward by":    {validate: "{forward: 5, by: group}", want: `by is "group": with kfold, use group`},
		"a misspelling": {validate: "{kfolds: 5}", want: `unknown key "kfolds" (did you mean "kfold"?)`},
		"stops": {validate: "{kfold: 5}", old: "search:\n", new: "search:\n  stop: {rule: asha}\n",
			want: "cannot be combined with search.stop"},
		"trials": {validate: "{kfold: 10}", old: "trials: 50", new: "trials: 1000",
			want: "1000 configurations in 10 folds are over"},
	} {
		_, err := sweep.ParseSpec("sweep.yaml", []byte(strings.Replace(good, tc.old, tc.new, 1)+"validate: "+
			tc.validate+"\n"), words())
		placed(t, name+": validate: "+tc.validate, err, tc.want)
	}
	for _, fine := range []string{"{kfold: 5}", "{kfold: 2, by: group}", "{forward: 3}"} {
		s, err := sweep.ParseSpec("sweep.yaml", []byte(good+"validate: "+fine+"\n"), words())
		if err != nil || s.Validate.Number() < 2 {
			t.Errorf("validate: %s gave %+v, error %v; want it taken", fine, s, err)
		}
	}
	text := strings.Replace(good, "search:\n", "search:\n  method: gp\n", 1) + "validate: {kfold: 5}\n"
	if _, err := sweep.ParseSpec("sweep.yaml", []byte(text), words()); err != nil {
		t.Errorf("validate with search.method: gp gave %v; want it taken", err)
	}
}

// refusedPlans checks that the plan that valid makes can be read, and that each change of it makes reading it an error
// of kind damaged. The keys are parts of the errors.
func refusedPlans(t *testing.T, valid func() *sweep.Plan, changes map[string]func(*sweep.Plan)) {
	t.Helper()
	must.Get(sweep.DecodePlan(must.Get(json.Marshal(valid()))(t)))(t)
	for want, change := range changes {
		p := valid()
		change(p)
		_, err := sweep.DecodePlan(must.Get(json.Marshal(p))(t))
		must.Say(t, "reading a spoiled plan", err, want)
		must.Equal(t, problem.Of(err), problem.Damaged, "the kind of error %v", err)
	}
}

// TestDecodePlanRefuses: a plan that no launcher writes is an error of kind damaged when it is read. Each case spoils
// one value of a valid plan.
func TestDecodePlanRefuses(t *testing.T) {
	refusedPlans(t, plan, map[string]func(*sweep.Plan){
		"format 3; this build reads 1": func(p *sweep.Plan) { p.Format = 3 },
		`sweep id "../x"`:              func(p *sweep.Plan) { p.Sweep = "../x" },
		`jobs/nightly-2" is not that of sweep nightly-1`: func(p *sweep.Plan) {
			p.Job = "projects/p/locations/l/jobs/nightly-2"
		},
		`jobs/" is not that of sweep`:   func(p *sweep.Plan) { p.Job = "projects/p/locations/l/jobs/" },
		"0 trials":                      func(p *sweep.Plan) { p.Trials = nil },
		"trial 7 stands at place 2":     func(p *sweep.Plan) { p.Trials[2].Number = 7 },
		`dataset name "a/../b"`:         func(p *sweep.Plan) { p.Dataset.Name = "a/../b" },
		`dataset version ".."`:          func(p *sweep.Plan) { p.Dataset.Version = ".." },
		`model name ""`:                 func(p *sweep.Plan) { p.Spec.Model = "" },
		"heartbeat 1s, takeover 1s":     func(p *sweep.Plan) { p.Takeover = p.Heartbeat },
		`held-out split "../train"`:     func(p *sweep.Plan) { p.Holdout.Test.Split = "../train" },
		"a budget of 3 without a price": func(p *sweep.Plan) { p.Spec.Budget = 3 },
		"budget is -3":                  func(p *sweep.Plan) { p.Spec.Budget, p.Quote = -3, &sweep.Quote{Hourly: 1} },
		"a quote of -1":                 func(p *sweep.Plan) { p.Quote = &sweep.Quote{Hourly: -1} },
		"quoted for -1 machines":        func(p *sweep.Plan) { p.Quote = &sweep.Quote{VMs: -1} },
		"a quote of 1e+300":             func(p *sweep.Plan) { p.Quote = &sweep.Quote{Cost: sweep.Range{High: 1e300}} },
		"a quote of 1e+301": func(p *sweep.Plan) {
			p.Quote = &sweep.Quote{Refit: sweep.Range{Expected: 1e301}}
		},
		"eta 2 and 32 rungs": func(p *sweep.Plan) { // there can be 31, each at least twice the one before
			stop := &sweep.Stop{Rule: sweep.StopHyperband, By: sweep.ByTrees, Eta: 2}
			for i := range 32 {
				stop.Rungs = append(stop.Rungs, i+1)
			}
			p.Spec.Search.Stop = stop
		},
	})
}

// foldedPlan returns a plan of three configurations in four folds, three of which are trained first. Trials 0 to 8 are
// the first folds, 9 to 11 the fourth folds of configurations 0 to 2, and 12 the refit.
func foldedPlan() *sweep.Plan {
	p := plan()
	p.Spec.Validate = &sweep.Validate{KFold: 4}
	var rounds []sweep.Round
	for f := range uint8(4) {
		r := sweep.Round{Train: sweep.Rows{Split: "train"}, Rated: sweep.Rows{Split: "train", Folds: []uint8{f}}}
		for other := range uint8(4) {
			if other != f {
				r.Train.Folds = append(r.Train.Folds, other)
			}
		}
		rounds = append(rounds, r)
	}
	p.Folds = sweep.NewFolds("kfold", rounds, true)
	p.Trials = p.Folds.Expand(p.Trials[:3])
	return p
}

// TestPlansWithFolds: a plan with folds is the same after a round trip through JSON. Its first folds are in stage 0,
// the later ones in 1 and the refit in 2, and it says of each trial on which rows it is trained and evaluated.
func TestPlansWithFolds(t *testing.T) {
	p := foldedPlan()
	data := must.Get(json.Marshal(p))(t)
	back := must.Get(sweep.DecodePlan(data))(t)
	if back.Fingerprint() != p.Fingerprint() || back.Configurations() != 3 {
		t.Errorf("a plan with folds has %d configurations after its way through JSON, same fingerprint: %t; want 3, "+
			"and the same", back.Configurations(), back.Fingerprint() == p.Fingerprint())
	}
	if got, want := fmt.Sprint(back.Stages()), "[0 0 0 0 0 0 0 0 0 1 1 1 2]"; got != want {
		t.Errorf("stages %s, want %s", got, want)
	}
	if train, rated := back.RowsOf(10); rated.Folds[0] != 3 || !slices.Equal(train[0].Folds, []uint8{0, 1, 2}) ||
		back.Trials[10].Configuration != 1 {
		t.Errorf("trial 10, %+v, trains on %v and is rated on %v; want the fourth fold of configuration 1",
			back.Trials[10], train, rated)
	}
	if train, rated := back.RowsOf(12); rated != nil || len(train) != 2 || train[1].Split != "valid" {
		t.Errorf("the refit trains on %v and is rated on %v; want train and valid, and nothing", train, rated)
	}
}

// TestFoldsThatLeakAreRefused: a plan whose folds evaluate a model on rows that it was trained on, or on earlier ones,
// is refused, and so is one whose trials do not match its folds.
func TestFoldsThatLeakAreRefused(t *testing.T) {
	leaves := sweep.Params{"num_leaves": 3.0}
	refusedPlans(t, foldedPlan, map[string]func(*sweep.Plan){
		"fold 3: rows of fold number 2 are trained on and rated": func(p *sweep.Plan) {
			p.Folds.Rounds[2].Train.Folds[0] = 2
		},
		"fold number 3 is trained on, and fold number 0, which is earlier": func(p *sweep.Plan) {
			p.Spec.Validate = &sweep.Validate{Forward: 4}
		},
		"is rated on valid [2]":          func(p *sweep.Plan) { p.Folds.Rounds[2].Rated.Split = "valid" },
		"is rated on train []":           func(p *sweep.Plan) { p.Folds.Rounds[2].Rated.Folds = nil },
		"1 folds, 3 of them first":       func(p *sweep.Plan) { p.Folds.Rounds = p.Folds.Rounds[:1] },
		"but the plan has none":          func(p *sweep.Plan) { p.Folds = nil },
		"4 folds, 3 of them first":       func(p *sweep.Plan) { p.Spec.Validate = nil }, // which nobody asked for
		"4 folds, 0 of them first":       func(p *sweep.Plan) { p.Folds.First = 0 },
		"4 is fold 1 of":                 func(p *sweep.Plan) { p.Trials[4].Fold = 1 },
		"is fold 2 of configuration 2":   func(p *sweep.Plan) { p.Trials[4].Configuration = 2 },
		"4 is fold 2 of configuration 1": func(p *sweep.Plan) { p.Trials[4].Params = leaves },
		"12 trials of 4 folds":           func(p *sweep.Plan) { p.Trials = p.Trials[:12] }, // no refit
		"trial 12 is fold 0":             func(p *sweep.Plan) { p.Trials[12].Params = leaves },
		"in a sweep that stops trials": func(p *sweep.Plan) {
			p.Spec.Search.Stop = &sweep.Stop{Rule: sweep.StopASHA, By: sweep.ByTrees, Eta: 3}
		},
	})
}

// openFolds returns a plan of two configurations in four folds, the second of which is open: its trials are 3 to 5 and
// 7.
func openFolds() *sweep.Plan {
	p := foldedPlan()
	p.Spec.Search.Method, p.Base = sweep.MethodGP, p.Trials[0].Params
	p.Trials = p.Folds.Expand([]sweep.Trial{{Source: "fixed", Params: p.Trials[0].Params}, {Source: "gp", Open: true}})
	return p
}

// TestPlansWithOpenFolds: all folds of an open configuration are open, and are decided under the number of its first
// fold. For display each gets what was decided. A plan in which they differ, or nothing can decide them, is refused.
func TestPlansWithOpenFolds(t *testing.T) {
	back := must.Get(sweep.DecodePlan(must.Get(json.Marshal(openFolds()))(t)))(t)
	var deciders []int
	for n := range back.Trials {
		deciders = append(deciders, back.Decider(n))
	}
	if got, want := fmt.Sprint(deciders), "[0 0 0 3 3 3 0 3 8]"; got != want || back.Ordinal(4) != 1 {
		t.Errorf("trials are decided under %s, trial 4 is of configuration %d; want %s and 1", got, back.Ordinal(4),
			want)
	}

	// A decision for trial 3, the first fold of configuration 1, shows in all folds of it.
	own := sweep.Params{"num_leaves": 9.0}
	shown := back.WithDecisions(map[int]*sweep.Decision{3: {Trial: 3, Params: own, Own: own, Source: "gp",
		Reason: "why"}})
	for _, n := range []int{3, 4, 5, 7} {
		if got := shown.Trials[n]; got.Params["num_leaves"] != 9.0 || got.Reason != "why" || !got.Open {
			t.Errorf("trial %d is shown as %+v; want it open, with the parameters and reason of the decision", n, got)
		}
	}

	refusedPlans(t, openFolds, map[string]func(*sweep.Plan){
		// One fold of a listed configuration is open, or one of an open configuration is listed.
		"trial 1 is fold 2":             func(p *sweep.Plan) { p.Trials[1].Open, p.Trials[1].Params = true, nil },
		"trial 7 is fold 4":             func(p *sweep.Plan) { p.Trials[7].Open, p.Trials[7].Params = false, own },
		"is open and has parameters":    func(p *sweep.Plan) { p.Trials[7].Params = own },
		"in a plan without base":        func(p *sweep.Plan) { p.Base = nil },
		"has no method that decides it": func(p *sweep.Plan) { p.Spec.Search.Method = sweep.MethodHalton },
		"trial 8 is fold 0":             func(p *sweep.Plan) { p.Trials[8].Open = true }, // the refit
	})
}

// TestSeenConfigurations: a search sees a configuration with the mean of its first folds once all of these have ended.
// If one has ended without a score, it sees it as failed, or as cancelled if people cancelled all that have none. The
// board has an open configuration's parameters from its results.
func TestSeenConfigurations(t *testing.T) {
	p := openFolds()
	own := sweep.Params{"num_leaves": 9.0}
	results := map[int]sweep.Result{}
	for n, score := range map[int]float64{3: 0.5, 4: 0.6, 5: 0.7, 7: 0.9} {
		r := rate(p, n, score, 10, 100)
		r.Params = own
		results[n] = r
	}
	s, ok := p.SeenConfiguration(1, results)
	if !ok || s.Trial != 3 || s.Status != sweep.StatusDone || math.Abs(*s.Score-0.6) > 1e-12 {
		t.Errorf("configuration 1 is seen as %+v, %t; want trial 3 done with the mean of its first three folds, 0.6", s,
			ok)
	}
	if s, ok := p.SeenConfiguration(0, results); ok {
		t.Errorf("configuration 0, none of whose folds has ended, is seen as %+v; want it not seen yet", s)
	}

	// The folds of configuration 1 lose their scores one after the other.
	ends := func(n int, status sweep.Status) { results[n] = sweep.Result{Sweep: p.Sweep, Trial: n, Status: status} }
	for _, c := range []struct {
		trial        int
		status, want sweep.Status
	}{{4, sweep.StatusCancelled, sweep.StatusCancelled}, {5, sweep.StatusTimedOut, sweep.StatusFailed},
		{3, sweep.StatusCancelled, sweep.StatusFailed}} {
		ends(c.trial, c.status)
		if s, ok := p.SeenConfiguration(1, results); !ok || s.Status != c.want || s.Score != nil {
			t.Errorf("after trial %d was %s the configuration is seen as %+v, %t; want it %s without a score", c.trial,
				c.status, s, ok, c.want)
		}
	}

	board := sweep.MakeBoard(p, []sweep.Result{results[3], results[7]})
	at := slices.IndexFunc(board.Configurations, func(c sweep.Rated) bool { return c.Configuration == 1 })
	if at < 0 || board.Configurations[at].Params["num_leaves"] != 9.0 {
		t.Errorf("the board's configurations are %+v; want the open one, 1, with the parameters of its results, %v",
			board.Configurations, own)
	}
}

// rate returns the result of a trial of a fold, with its best iteration and the number of rows that it was trained on.
func rate(p *sweep.Plan, trial int, score float64, best, rows int) sweep.Result {
	of := p.Trials[trial]
	return sweep.Result{Format: 1, Sweep: p.Sweep, Trial: trial, Status: sweep.StatusDone,
		Configuration: of.Configuration, Fold: of.Fold, Score: score,
		BestIteration: best, TrainRows: rows, Metrics: map[string]float64{"auc": score}}
}

// TestBoardOfConfigurations: configurations are ranked by their mean over the folds, in whatever order the results
// come, and those without all folds come last. Configuration 1 has a mean of 0.725, configuration 0 one of 0.675, and
// two folds of configuration 2 have not ended.
func TestBoardOfConfigurations(t *testing.T) {
	p := foldedPlan()
	p.Maximize = true
	var results []sweep.Result
	// Trials 0 to 2 are the first folds of configuration 0, 3 to 5 those of configuration 1, and 6 and 7 two of
	// configuration 2. Trials 9 and 10, the fourth folds of configurations 0 and 1, follow.
	for i, s := range []float64{0.5, 0.6, 0.7, 0.8, 0.6, 0.7, 0.3, 0.3} {
		results = append(results, rate(p, i, s, 10+i, 100))
	}
	results = append(results, rate(p, 9, 0.9, 40, 300), rate(p, 10, 0.8, 10, 100))
	b := sweep.MakeBoard(p, results)
	reversed := slices.Clone(results) // the board's scores point into results
	slices.Reverse(reversed)
	if again := sweep.MakeBoard(p, reversed); !reflect.DeepEqual(again.Configurations, b.Configurations) {
		t.Errorf("with the results in reverse the configurations are %+v, want %+v", again.Configurations,
			b.Configurations)
	}

	first, second, third := b.Configurations[0], b.Configurations[1], b.Configurations[2]
	if first.Configuration != 1 || math.Abs(*first.Mean-0.725) > 1e-12 || first.State != "done" ||
		fmt.Sprint(first.Trials) != "[3 4 5 10]" {
		t.Errorf("first is %+v, mean %v; want configuration 1 with the mean of 0.8, 0.6, 0.7 and 0.8", first,
			*first.Mean)
	}

	// The best iterations are 10, 11 and 12 on 100 rows and 40 on 300: (33 x 100 + 40 x 300) / 600 are 25.5, rounded
	// up. The squared differences of 0.5, 0.6, 0.7 and 0.9 to their mean add up to 0.0875; the standard error is the
	// root of 0.0875 / 3 / 4.
	if second.Configuration != 0 || math.Abs(*second.Mean-0.675) > 1e-12 ||
		math.Abs(*second.SE-0.0853912563829966) > 1e-12 || second.Trees != 26 {
		t.Errorf("second is %+v, mean %v ± %v; want configuration 0 with 0.675 ± 0.0854 and 26 trees", second,
			*second.Mean, *second.SE)
	}
	if third.Configuration != 2 || third.State != "open" || third.Folds != 2 || third.Scores[2] != nil ||
		b.Best() != nil {
		t.Errorf("third is %+v, best trial %+v; want configuration 2, open with two folds, and no trial that may win",
			third, b.Best())
	}

	results = append(results, sweep.Result{Sweep: p.Sweep, Trial: 11, Status: sweep.StatusStopped, Reason: "behind"})
	if c := sweep.MakeBoard(p, results).Configurations[2]; c.State != "dropped" || c.Reason != "behind" {
		t.Errorf("a configuration with a fold that was not trained is %+v; want it dropped, and why", c)
	}
}

// TestResultsOfFolds: the result of a fold is read if it has rows, a possible fold and configuration, and no model.
// Each case spoils one of these. The keys are parts of the errors; an empty one stands for none.
func TestResultsOfFolds(t *testing.T) {
	for want, spoil := range map[string]func(*sweep.Result){
		"":                                   func(*sweep.Result) {},
		"1, 0 rows":                          func(r *sweep.Result) { r.TrainRows = 0 },
		"fold 11 of":                         func(r *sweep.Result) { r.Fold = 11 },
		"fold -1 of":                         func(r *sweep.Result) { r.Fold = -1 },
		"fold 2 of configuration 1, 10 rows": func(r *sweep.Result) { r.Model = &sweep.Object{} },
		"without a model":                    func(r *sweep.Result) { r.Fold = 0 }, // as only that of a fold may be
		"of configuration -1":                func(r *sweep.Result) { r.Configuration = -1 },
	} {
		r := rate(foldedPlan(), 4, 0.5, 3, 10)
		spoil(&r)
		_, err := sweep.DecodeResult(must.Get(json.Marshal(r))(t))
		must.Say(t, "reading the result of a fold", err, want)
	}
}
