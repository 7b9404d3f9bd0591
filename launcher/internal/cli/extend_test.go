package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"coppice/internal/blob/blobtest"
	"coppice/internal/search"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// plan reads a sweep's plan from the bucket.
func (w *world) plan(id sweep.ID) *sweep.Plan {
	w.t.Helper()
	p, _, err := sweepstore.New(w.buckets["sweeps"], id).Plan(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// distinct fails if two trials have the same configuration.
func distinct(t *testing.T, p *sweep.Plan) {
	t.Helper()
	of := map[string]int{}
	for _, trial := range p.Trials {
		if trial.Open {
			continue
		}
		key := sweep.ConfigurationKey(trial.Params)
		if other, twice := of[key]; twice {
			t.Errorf("sweep %s: trials %d and %d have the same configuration", p.Sweep, other, trial.Number)
		}
		of[key] = trial.Number
	}
}

// TestExtend extends a sweep that has ended, twice.
func TestExtend(t *testing.T) {
	w := newWorld(t)
	w.staged()
	w.refused(sweep.ExitNotFound, "there is no sweep night-1", "extend", "night-1", "--trials", "3")
	w.must("sweep", w.file("sweep.yaml", sweepYAML), "--id", "night-1", "--no-wait")
	w.refused(sweep.ExitConflict, "sweep night-1 has not ended", "extend", "night-1", "--trials", "3")

	w.jobs.submitted = map[sweep.ID]int{}
	w.concluded(sweep.OutcomeWinner)(w.plan("night-1"))
	w.refused(sweep.ExitUsage, "--trials is 0", "extend", "night-1")
	out := w.must("extend", "night-1", "--trials", "3", "--id", "night-2", "--no-wait")
	for _, want := range []string{"sweep night-2: 3 more trials",
		"extends sweep night-1: 4 of its 4 trials compete", "the best so far is trial 3, version 1 of ctr"} {
		if !strings.Contains(out, want) {
			t.Errorf("extended by 3 trials: got\n%s\nwant %q in it", out, want)
		}
	}

	old, p := w.plan("night-1"), w.plan("night-2")
	distinct(t, p)
	if p.Inherits() != 4 || len(p.Own()) != 3 || p.Sizing.Tasks > 3 ||
		p.Dataset.Version != old.Dataset.Version {
		t.Errorf("the plan has %d trials of before, %d of its own, %d tasks, dataset %s; want 4, 3, no more than 3, %s",
			p.Inherits(), len(p.Own()), p.Sizing.Tasks, p.Dataset.Version, old.Dataset.Version)
	}
	for i, trial := range old.Trials {
		if r := p.Inherited(i); jsonOf(t, p.Trials[i].Params) != jsonOf(t, trial.Params) || r.Sweep != "night-1" ||
			r.Score != 0.6+float64(i)/100 || jsonOf(t, r.Params) != jsonOf(t, trial.Params) {
			t.Errorf("trial %d of night-2 is %+v with %+v; want that of night-1, with its score and parameters", i,
				p.Trials[i], r)
		}
	}

	// These are the trials that random search would have tried next.
	longer := strings.Replace(sweepYAML, "trials: 4", "trials: 7", 1)
	w.must("sweep", w.file("longer.yaml", longer), "--id", "longer", "--no-wait")
	if got, want := jsonOf(t, p.Trials[4:]), jsonOf(t, w.plan("longer").Trials[4:]); got != want {
		t.Errorf("the new trials are %s; a sweep of 7 trials has %s after its first four", got, want)
	}

	// The same command attaches, and the extension is extended.
	w.must("extend", "night-1", "--trials", "3", "--id", "night-2", "--no-wait")
	if n := w.jobs.submitted["night-2"]; n != 2 {
		t.Errorf("extended twice with one id: %d submissions, want 2, of which the second attaches", n)
	}
	w.ended(p, sweep.Conclusion{Outcome: sweep.OutcomeNoWinner, Reason: "none is better"}, 0.5)
	var again struct {
		Plan sweep.Plan `json:"plan"`
	}
	if err := json.Unmarshal([]byte(w.must("extend", "night-2", "--trials", "2", "--dry-run", "--json")),
		&again); err != nil {
		t.Fatal(err)
	}
	distinct(t, &again.Plan)
	if e := again.Plan.Extends; len(e.Results) != 7 || e.Results[0].Sweep != "night-1" ||
		e.Results[6].Sweep != "night-2" || e.Winner == nil || e.Winner.Sweep != "night-1" {
		t.Errorf("the extension of an extension goes on from %+v; want the results of both, and the winner of the "+
			"first", e)
	}
}

// ended writes the results of a plan's own trials, all with one score, and the ending.
func (w *world) ended(p *sweep.Plan, c sweep.Conclusion, score float64) {
	w.t.Helper()
	trials := sweepstore.NewTrials(w.buckets["sweeps"], p)
	for _, t := range p.Own() {
		o := sweep.Object{Name: sweep.Names(p.Sweep).Attempt(t.Number, 0) + "x"}
		r := sweep.Result{Format: 1, Sweep: p.Sweep, Trial: t.Number, Status: sweep.StatusDone, Score: score, Trees: 10,
			TreesGrown: 10, Params: t.Params, Model: &o, Scores: &sweep.Scored{Calib: o, Test: o}}
		if _, err := trials.CreateResult(w.t.Context(), r); err != nil {
			w.t.Fatal(err)
		}
	}
	c.Format, c.Sweep, c.At = 1, p.Sweep, w.now
	if _, err := sweepstore.New(w.buckets["sweeps"], p.Sweep).CreateConclusion(w.t.Context(), c); err != nil {
		w.t.Fatal(err)
	}
}

// TestExtendACancelledSweep: trials that it did not train come first, except those that a person cancelled, and results
// written after its ending do not count.
func TestExtendACancelledSweep(t *testing.T) {
	w := newWorld(t)
	w.staged()
	w.must("sweep", w.file("sweep.yaml", sweepYAML), "--id", "night-1", "--no-wait")
	names := sweep.Names("night-1")
	o := sweep.Object{Name: names.Attempt(0, 0) + "x"}
	done := sweep.Result{Format: 1, Sweep: "night-1", Trial: 0, Status: sweep.StatusDone, Score: 0.7, Model: &o,
		Scores: &sweep.Scored{Calib: o, Test: o}}
	late := done
	late.Trial = 2
	late.Model = &sweep.Object{Name: names.Attempt(2, 0) + "x"}
	late.Scores = &sweep.Scored{Calib: *late.Model, Test: *late.Model}
	for name, v := range map[string]any{
		names.Result(0): done,
		names.Result(1): sweep.Result{Format: 1, Sweep: "night-1", Trial: 1, Status: sweep.StatusCancelled,
			ByHand: true, Reason: "a person has cancelled it"},
		names.Result(2): late,
		names.Ending():  sweep.Ending{Format: 1, Sweep: "night-1", Cancelled: true, Trials: []int{0, 1}},
		names.Conclusion(): sweep.Conclusion{Format: 1, Sweep: "night-1", Outcome: sweep.OutcomeCancelled,
			Reason: "the sweep was cancelled"},
	} {
		if _, err := blobtest.CreateJSON(t.Context(), w.buckets["sweeps"], name, v); err != nil {
			t.Fatal(err)
		}
	}

	w.must("extend", "night-1", "--trials", "3", "--id", "night-2", "--no-wait")
	old, p := w.plan("night-1"), w.plan("night-2")
	if len(p.Own()) != 3 || jsonOf(t, p.Trials[4].Params) != jsonOf(t, old.Trials[2].Params) ||
		jsonOf(t, p.Trials[5].Params) != jsonOf(t, old.Trials[3].Params) ||
		!strings.Contains(p.Trials[4].Reason, "trial 2 of sweep night-1") || p.Trials[6].Reason != "" {
		t.Errorf("trials 4 to 6 are %s; want trials 2 and 3 of night-1, which were not trained to their end, and a "+
			"new one", jsonOf(t, p.Trials[4:]))
	}
	if r := p.Inherited(2); r.Status != sweep.StatusCancelled || !strings.Contains(r.Reason, "had not ended when") ||
		p.Extends.Winner != nil {
		t.Errorf("trial 2, which ended too late, is %+v, and the winner %+v; want it cancelled, and no winner", r,
			p.Extends.Winner)
	}
}

// TestExtendASearchThatLearns: the new trials are open, decisions use all results and their scores at rungs, and can be
// reproduced.
func TestExtendASearchThatLearns(t *testing.T) {
	w := newWorld(t)
	w.staged()
	spec := strings.Replace(sweepYAML, "search: {random: {num_leaves: {log_int: [4, 40]}}}",
		"search: {method: gp, fixed: [{num_leaves: 9}, {num_leaves: 10}, {num_leaves: 30}, {num_leaves: 40}], "+
			"random: {num_leaves: {log_int: [4, 40]}}, stop: {rule: asha, min_trees: 5}}", 1)
	w.must("sweep", w.file("sweep.yaml", spec), "--id", "night-1", "--no-wait")
	old := w.plan("night-1")
	trials := sweepstore.NewTrials(w.buckets["sweeps"], old)
	if _, err := trials.CreateRung(t.Context(), sweep.Rung{Format: 1, Sweep: "night-1", Trial: 1, Step: 11, Score: 0.5,
		Reason: "first"}); err != nil {
		t.Fatal(err)
	}
	w.ended(old, sweep.Conclusion{Outcome: sweep.OutcomeWinner, Trial: 0, Model: "ctr", Version: 1}, 0.7)
	w.must("extend", "night-1", "--trials", "2", "--id", "night-2", "--no-wait")

	p := w.plan("night-2")
	if len(p.Own()) != 2 || !p.Trials[4].Open || !p.Trials[5].Open || len(p.Base) == 0 ||
		jsonOf(t, p.Spec.Search.Stop.Rungs) != jsonOf(t, old.Spec.Search.Stop.Rungs) {
		t.Fatalf("the new trials are %s, rungs %v; want two open ones, and the rungs of night-1", jsonOf(t, p.Own()),
			p.Spec.Search.Stop.Rungs)
	}
	fresh, known, rungs := sweepstore.NewTrials(w.buckets["sweeps"], p), map[int]sweep.Seen{},
		map[sweepstore.RungKey]sweep.Reached{}
	list, err := fresh.List(t.Context())
	if err == nil {
		err = fresh.Gather(t.Context(), list, 4, known)
	}
	if err == nil {
		err = fresh.GatherRungs(t.Context(), list, 4, 11, 11, rungs)
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(known) != 4 || known[3].Score == nil || *known[3].Score != 0.7 ||
		rungs[sweepstore.RungKey{Step: 11, Trial: 1}].Score != 0.5 {
		t.Errorf("a task of night-2 knows %+v and rungs %v; want the four results of night-1 and the rung", known,
			rungs)
	}
	s, err := search.Decide(p, 4, []sweep.Seen{known[0], known[1], known[2], known[3]}, nil)
	if err != nil || s.Source != sweep.MethodGP && s.Source != sweep.MethodHalton {
		t.Errorf("trial 4 was decided as %+v, error %v", s, err)
	}
	if out := w.must("leaderboard", "night-2"); strings.Count(out, "sweep night-1") != 4 {
		t.Errorf("the leaderboard is\n%s\nwant the four trials of night-1 named as such", out)
	}
	if out := w.must("why", "night-2", "0"); !strings.Contains(out, "launcher why night-1 0") {
		t.Errorf("why a trial of the extended sweep was tried:\n%s\nwant where that is to be asked", out)
	}
	if out := w.must("status", "night-2"); !strings.Contains(out, "│ 2 not started") ||
		!strings.Contains(out, "night-1, with 4 trials") {
		t.Errorf("the status is\n%s\nwant none of its own trials done, and what it extends", out)
	}
}

// TestExtendRefuses says why a sweep cannot be extended.
func TestExtendRefuses(t *testing.T) {
	w := newWorld(t)
	w.staged()
	w.must("stage", w.file("dataset.yaml", "name: plain\nsource: clicks.csv\nlabel: is_click\ndrop: "+
		"[revenue]\ncategorical: [campaign_id]\nencodings: none\nsplit: {by: hash, key: user_id, train: 0.6, valid: "+
		"0.4}\n"))
	for _, tc := range []struct {
		id           sweep.ID
		from, to     string
		says, trials string
	}{
		{"folds", "dataset: clicks", "dataset: plain\nvalidate: {kfold: 2}", "uses cross-validation", "3"},
		{"grid", "random: {num_leaves: {log_int: [4, 40]}}", "grid: {num_leaves: [4, 8, 16, 32]}",
			"has tried every configuration", "3"},
		{"learns", "random:", "method: gp, random:", "at most 1000", "997"},
	} {
		w.must("sweep", w.file("sweep.yaml", strings.Replace(sweepYAML, tc.from, tc.to, 1)), "--id", string(tc.id),
			"--no-wait")
		p := w.plan(tc.id)
		if tc.id == "folds" {
			p.Trials = nil // none has ended
		}
		w.ended(p, sweep.Conclusion{Outcome: sweep.OutcomeNoWinner, Reason: "because"}, 0.7)
		w.refused(sweep.ExitInput, tc.says, "extend", string(tc.id), "--trials", tc.trials)
	}
}
