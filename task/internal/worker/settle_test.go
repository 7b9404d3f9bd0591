package worker

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	"coppice/internal/must"
	"coppice/internal/search"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// open returns a change of a plan that leaves all trials but the first open, to be decided by a method over these
// ranges.
func open(method string, random map[string]sweep.Distribution) func(*sweep.Plan) {
	return func(p *sweep.Plan) {
		p.Spec.Seed, p.Spec.EarlyStoppingRounds = 3, 5
		p.Spec.Params = sweep.Params{"num_iterations": 8.0}
		p.Spec.Search.Method, p.Spec.Search.Random = method, random
		p.Base = p.Trials[0].Params
		for i := range p.Trials[1:] {
			p.Trials[i+1] = sweep.Trial{Number: i + 1, Source: method, Open: true}
		}
	}
}

// Ranges for open.
var (
	wide = map[string]sweep.Distribution{"num_leaves": {LogInt: []int64{2, 31}},
		"learning_rate": {LogUniform: []float64{0.02, 0.5}}}
	// nine configurations, none of which equals the first trial, which has 4 leaves
	narrow = map[string]sweep.Distribution{"num_leaves": {Choice: []any{3.0, 5.0, 7.0}},
		"learning_rate": {Choice: []any{0.05, 0.1, 0.2}}}
)

// decided returns the decisions of all open trials. It fails the test unless every trial is done, with the parameters
// that its decision says, no two with the same, and every decision can be reproduced from its record.
func (w *world) decided(t *testing.T) map[int]*sweep.Decision {
	t.Helper()
	trials := sweepstore.NewTrials(w.sweeps, w.plan)
	list := must.Get(trials.List(t.Context()))(t)
	decisions := map[int]*sweep.Decision{}
	for _, listed := range list.Trials {
		d := must.Get(trials.Decision(t.Context(), listed.Number))(t)
		if d != nil {
			decisions[listed.Number] = d
		}
	}

	by := map[string]int{}
	for i, trial := range w.plan.Trials {
		r := w.done(t, i)
		key := sweep.ConfigurationKey(r.Params)
		if other, twice := by[key]; twice {
			t.Errorf("trials %d and %d have both trained %v, want different configurations", other, i, r.Params)
		}
		by[key] = i

		d := decisions[i]
		if !trial.Open {
			if d != nil {
				t.Errorf("trial %d is listed in the plan and has the decision %+v, want none", i, d)
			}
			continue
		}
		if d == nil {
			t.Fatalf("trial %d is open and has trained without a decision, want one", i)
		}
		if sweep.ConfigurationKey(d.Params) != key {
			t.Errorf("trial %d was trained with %v, want what its decision says, %v", i, r.Params, d.Params)
		}
		replay(t, w.plan, d)
	}
	return decisions
}

// TestOpenTrialsAreDecided: one task decides open trials one after the other, each from the results of all trials
// before. At least one is proposed by the Gaussian process, which takes over after the first eight of fourteen.
func TestOpenTrialsAreDecided(t *testing.T) {
	for _, method := range []string{sweep.MethodAuto, sweep.MethodGP} {
		t.Run(method, func(t *testing.T) {
			w := newWorld(t, 14, open(method, wide))
			w.run(t, 0)
			learnt := 0
			for i, d := range w.decided(t) {
				if len(d.Seen) != i {
					t.Errorf("trial %d: the decision has seen %d trials, want all %d before it", i, len(d.Seen), i)
				}
				for _, s := range d.Seen {
					if s.Status != sweep.StatusDone || s.Score == nil {
						t.Errorf("trial %d has seen %+v; want the result of a trial that is done", i, s)
					}
				}
				if d.Source == sweep.MethodGP {
					learnt++
				}
			}
			if learnt == 0 {
				t.Error("no trial was proposed by a model of the results, want at least one")
			}
		})
	}
}

// TestOpenTrialsOfSeveralObjectives: the last decision of a sweep with three objectives has seen every trial with its
// values in all three, and is made by the Gaussian process with weights. Every result has a standard error of its
// score. Of eleven trials the last is number 10; the process takes over after eight.
func TestOpenTrialsOfSeveralObjectives(t *testing.T) {
	w := newWorld(t, 11, func(p *sweep.Plan) {
		open(sweep.MethodGP, wide)(p)
		p.Spec.Goals = []sweep.Goal{{Name: "auc", Maximize: true}, {Name: "model_bytes"}, {Name: "leaves"}}
		p.Spec.Pick = &sweep.Pick{Best: "auc", Within: sweep.DefaultWithin}
	})
	w.run(t, 0)

	last := w.decided(t)[10]
	for i, s := range last.Seen {
		r := w.result(t, i)
		// A tree has at least one leaf.
		if want := []float64{r.Score, float64(r.Model.Bytes), float64(r.Leaves)}; !reflect.DeepEqual(s.Values, want) ||
			r.Leaves < r.Trees {
			t.Errorf("trial %d was seen with %v, expected %v, with a leaf or more for each of %d trees", i, s.Values,
				want, r.Trees)
		}
		if r.ScoreSE == nil || !(*r.ScoreSE > 0 && *r.ScoreSE < 0.2) {
			t.Errorf("the standard error of trial %d is %v, expected some hundredths", i, r.ScoreSE)
		}
	}
	if last.Source != sweep.MethodGP || !strings.Contains(last.Reason, "; weights auc 0.") {
		t.Errorf("trial 10 is from %s: %s; expected the process, with the weights it used", last.Source, last.Reason)
	}
}

// TestADamagedDecision: an open trial whose decision is damaged fails with that reason, since it is not known what it
// was to train, and the other trials are done.
func TestADamagedDecision(t *testing.T) {
	w := newWorld(t, 4, open(sweep.MethodGP, wide))
	w.put(t, sweep.Names(w.plan.Sweep).Decision(2), "damaged")
	w.run(t, 0)
	got := map[int]sweep.Status{}
	for i := range w.plan.Trials {
		got[i] = w.result(t, i).Status
	}
	if want := (map[int]sweep.Status{0: "done", 1: "done", 2: "failed", 3: "done"}); !maps.Equal(got, want) {
		t.Errorf("the trials ended as %v, want %v", got, want)
	}
	if r := w.result(t, 2); !strings.Contains(r.Reason, "decision") {
		t.Errorf("trial 2 failed because of %q; want the decision named", r.Reason)
	}
}

// TestNoConfigurationIsLeft: where a space has nine configurations for eleven open trials, the two that are left over
// fail with that reason, and all others are done.
func TestNoConfigurationIsLeft(t *testing.T) {
	w := newWorld(t, 12, open(sweep.MethodGP, narrow))
	w.run(t, 0)
	counts := map[sweep.Status]int{}
	for i := range w.plan.Trials {
		r := w.result(t, i)
		counts[r.Status]++
		if r.Status == sweep.StatusFailed && !strings.Contains(r.Reason, "no configuration is left") {
			t.Errorf("trial %d failed because of %q, want that no configuration is left", i, r.Reason)
		}
	}
	if want := "map[done:10 failed:2]"; fmt.Sprint(counts) != want {
		t.Errorf("12 trials on 1 + 9 configurations ended as %v, want %s", counts, want)
	}
}

// TestOneTaskIsInterrupted: if the only task of a search that learns is killed, just after it has written an object of
// any kind, its next attempt goes on with what was begun first. So it comes to the same configurations and scores as a
// task that was not killed.
func TestOneTaskIsInterrupted(t *testing.T) {
	asha := &sweep.Stop{Rule: sweep.StopASHA, By: sweep.ByTrees, MinTrees: 2, Eta: 2, Rungs: []int{2, 4}}
	for name, stop := range map[string]*sweep.Stop{"": nil, " with asha": asha} {
		if stop == nil && os.Getenv("COPPICE_FULL") == "" {
			continue // the other is killed at the same moments, and at more
		}
		change := func(p *sweep.Plan) {
			open(sweep.MethodGP, wide)(p)
			// With one task by the plan, what was begun ends first (Worker.rules); newPlan has three.
			p.Sizing.Tasks, p.Spec.Search.Stop = 1, stop
		}
		outcome := func(t *testing.T, w *world) map[int]string {
			w.run(t, 0)
			out := map[int]string{}
			for i := range w.plan.Trials {
				r := w.result(t, i)
				out[i] = fmt.Sprint(r.Status, r.Score, r.Params["num_leaves"], r.Params["learning_rate"])
			}
			return out
		}
		var want map[int]string
		calm := newWorld(t, 7, change)
		synctest.Test(t, func(t *testing.T) { want = outcome(t, calm) })
		for _, at := range []string{"0002/claims/", "0003/decision.json", "0003/heartbeats/", "configurations/",
			"/rungs/", "/pauses/", "/promotions/"} {
			if stop == nil && strings.HasPrefix(at, "/") {
				continue // without rungs no such object is written
			}
			w := newWorld(t, 7, change)
			synctest.Test(t, func(t *testing.T) {
				w.until(t, 0, at, 1)
				if got := outcome(t, w); !maps.Equal(got, want) {
					t.Errorf("killed after it wrote %s, the sweep%s ended as\n%v\nexpected\n%v", at, name, got, want)
				}
			})
		}
	}
}

// replay makes a recorded decision again, from what it has seen. The test fails if another one comes out.
func replay(t *testing.T, p *sweep.Plan, d *sweep.Decision) {
	t.Helper()
	s := must.Get(search.Decide(p, d.Trial, d.Seen, d.Refused))(t)
	if sweep.ConfigurationKey(s.Params) != sweep.ConfigurationKey(d.Own) || s.Source != d.Source ||
		s.Reason != d.Reason || (s.Parent == nil) != (d.From == nil) ||
		s.Parent != nil && *s.Parent != d.From.Trial {
		t.Errorf("trial %d was decided as %v (%s: %s); from what it has seen comes %+v, want the same", d.Trial, d.Own,
			d.Source, d.Reason, s)
	}
}

// replayPromotion makes a recorded verdict on a paused trial again, from what it has seen. The test fails if another
// one comes out.
func replayPromotion(t *testing.T, p *sweep.Plan, r *sweep.Promotion) {
	t.Helper()
	if r.Unread && r.Promoted { // nothing could be compared
		return
	}
	v := search.AfterPause(p, sweep.Reached{Step: r.Step, Trial: r.Trial, Score: r.Score}, r.Seen, r.Last)
	if r.Unread || (v.Action == search.GoOn) != r.Promoted || v.Reason != r.Reason {
		t.Errorf("trial %d at %d trees: promoted is %t (%s), unread %t; from what had been seen comes %s (%s), want "+
			"the same", r.Trial, r.Step, r.Promoted, r.Reason, r.Unread, v.Action, v.Reason)
	}
}

// TestValueChoosesAnotherTrial: a sweep by a value of the table and one by log loss train the same models, since log
// loss stops the trials of both, as their curves say. But they have different best trials. One sweep has three threads.
// The value counts 1 for each positive row that is predicted above .35, and -1 for each negative one.
func TestValueChoosesAnotherTrial(t *testing.T) {
	const value = "value(prediction > 0.35 ? 2 * label - 1 : 0)"
	run := func(metric string, maximize bool, threads int) (w *world, best int) {
		w = newWorld(t, 5, func(p *sweep.Plan) {
			p.Spec.Metric, p.Maximize, p.Metrics = metric, maximize, []string{"log_loss", value}
			p.Sizing.ThreadsPerTask = threads
			for _, trial := range p.Trials {
				trial.Params["num_iterations"], trial.Params["learning_rate"] = 40.0, 0.2
			}
		})
		w.run(t, 0)
		for i := range w.plan.Trials {
			r, than := w.result(t, i), w.result(t, best)
			if r.Score != r.Metrics[metric] {
				t.Errorf("trial %d has the score %v, want its %s of %v", i, r.Score, metric, r.Metrics)
			}
			if r.Score != than.Score && (r.Score > than.Score) == maximize {
				best = i
			}
		}
		return w, best
	}
	loss, byLoss := run("log_loss", false, 1)
	own, byValue := run(value, true, 3)
	if byLoss == byValue {
		t.Errorf("trial %d is the best by log loss and by the value, want different ones", byLoss)
	}
	a, b := loss.models(t), own.models(t)
	for i := range a {
		if a[i] != b[i] || loss.result(t, i).BestIteration != own.result(t, i).BestIteration {
			t.Errorf("trial %d has another model where a value chooses, want the same", i)
		}
	}

	trials := sweepstore.NewTrials(own.sweeps, own.plan)
	c, err := trials.Curve(t.Context(), 0, 0)
	if err != nil || c.Metric != "log_loss" || len(c.Scores) != own.result(t, 0).TreesGrown {
		t.Errorf("the learning curve is %+v (error %v), want log_loss after each of %d trees", c, err,
			own.result(t, 0).TreesGrown)
	}
}
