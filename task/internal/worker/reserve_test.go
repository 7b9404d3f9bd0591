package worker

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	otel "go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/gbt"
	"coppice/internal/must"
	"coppice/internal/protocol"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// reserved runs a sweep of so many trials of 8 trees and a final training in a bubble, where a tree takes a minute and
// a write takes pause. limit is limits.sweep in minutes. By the quote the final training of 8 trees takes final minutes
// and a little more, so that no tree ends just when a limit does. attempts are the trees after which the machine goes,
// for each attempt but the last. It returns the world and how long the sweep took.
func reserved(t *testing.T, trials, limit, final int, pause time.Duration, attempts ...int) (w *world,
	took time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w = newWorldOn(t, datasettest.Options{Rows: 1500, Encodings: "{final: true}"}, trials, func(p *sweep.Plan) {
			withFinal(p)
			p.Spec.Limits.Sweep = sweep.Duration(time.Duration(limit) * time.Minute)
			p.Quote = &sweep.Quote{Trial: sweep.Range{Expected: 480},
				Refit: sweep.Range{Expected: float64(60*final + 4)}, RefitPace: float64(60*final+4) / 480}
			for i := range p.Own() {
				p.Trials[i].Params["early_stopping_round"] = 0.0
			}
		})
		w.sweeps = blobtest.Before(w.sweeps, blobtest.Put, func(context.Context, string) error {
			<-time.After(pause)
			return nil
		})
		began := time.Now()
		for attempt, trees := range append(attempts, 0) {
			ctx, goes := context.WithCancel(t.Context())
			worker := w.worker(0)
			worker.Meter, worker.Attempt = &slowMeter{after: trees, goes: goes}, attempt
			err := worker.Run(ctx)
			goes()
			if (err != nil) != (trees > 0) {
				t.Fatalf("attempt %d, which was to end after %d trees: error %v", attempt, trees, err)
			}
		}
		took = time.Since(began)
	})
	return w, took
}

// TestTheFinalTrainingHasItsTime: of four trials the first has time for all its trees. The second is cut, and the
// others are cut or not trained, so that the final training ends within limits.sweep. That holds also where the task's
// machine is lost twice.
//
// Of 28 minutes 13:36 are kept, 1.5 times the 9:04 of the final training, so trials have 14:24. The first takes 8, and
// 6:24 are left for the second: for 6 trees, or one more that is begun, or one less that is lost with a machine.
func TestTheFinalTrainingHasItsTime(t *testing.T) {
	for name, attempts := range map[string][]int{"undisturbed": nil, "interrupted": {3, 9}} {
		w, took := reserved(t, 4, 28, 9, 0, attempts...)
		if r := w.result(t, 0); r.AtLimit || r.TreesGrown != 8 {
			t.Errorf("%s: trial 0: %+v; expected all its trees", name, r)
		}
		r, want := w.result(t, 1), "of 8 trees: the rest of the sweep's 28m0s is kept for the final training"
		if r.Status != sweep.StatusDone || !r.AtLimit || r.TreesGrown < 5 || r.TreesGrown > 7 ||
			!strings.Contains(r.Reason, want) {
			t.Errorf("%s: trial 1: %+v; expected it done, %q", name, r, want)
		}
		for trial := 2; trial < 4; trial++ {
			kept := strings.TrimPrefix(want, "of 8 trees: ")
			if r := w.result(t, trial); !r.Untrained() && !r.AtLimit || !strings.Contains(r.Reason, kept) {
				t.Errorf("%s: trial %d: %+v; expected it cut or not trained, %q", name, trial, r, kept)
			}
		}
		best := w.board(t).Best()
		if r := w.result(t, 4); r.Status != sweep.StatusDone || r.AtLimit || r.Trees != best.Trees ||
			took > 28*time.Minute {
			t.Errorf("%s: the final training: %+v, after %s; expected it done within 28 minutes, with the winner's %d "+
				"trees", name, r, took, best.Trees)
		}
	}
}

// TestTheRestEndsAtOnce: a hundred trials, most of which are not begun any more, do not use up the time that is kept
// for the final training, although each would take two writes of five seconds to be claimed and ended by itself. As
// in TestTheFinalTrainingHasItsTime two trials fill the time, and the third that is claimed ends the other 97.
func TestTheRestEndsAtOnce(t *testing.T) {
	w, took := reserved(t, 100, 28, 9, 5*time.Second)
	claimed, untrained := 0, 0
	for trial := range 100 {
		if r := w.result(t, trial); r.Untrained() && strings.HasSuffix(r.Reason, "is kept for the final training") {
			untrained++
		}
		if _, err := w.sweeps.Stat(t.Context(), sweep.Names(w.plan.Sweep).Claim(trial, 0)); err == nil {
			claimed++
		}
	}
	if r := w.result(t, 100); claimed > 3 || untrained < 97 || r.Status != sweep.StatusDone || r.AtLimit ||
		took > 28*time.Minute {
		t.Errorf("%d trials claimed, %d not trained, and the final training after %s: %+v; expected at most 3, the "+
			"others, and all its trees in 28 minutes", claimed, untrained, took, r)
	}
}

// TestAPausedTrialEndsWithTheRest: when the rest of the time is kept for the final training, endOthers ends the trials
// that have not begun, and the paused trial 2, with its score at its rung. It does not end trial 1, which another task
// trains, or the final training, which is trial 4.
func TestAPausedTrialEndsWithTheRest(t *testing.T) {
	w := newWorld(t, 4, func(p *sweep.Plan) { stopping(sweep.StopASHA)(p); withFinal(p) })
	trials := sweepstore.NewTrials(w.sweeps, w.plan)
	w.claimed(t, 1, 0, 1, 0)
	w.claimed(t, 2, 0, 1, 0)
	must.Get(trials.CreateRung(t.Context(), sweep.Rung{Format: 1, Sweep: w.plan.Sweep, Trial: 2, Step: 3, Score: .7,
		Reason: "behind"}))(t)
	must.Do(t, trials.CreatePause(t.Context(), 2, 0, 3))
	must.Do(t, trials.Release(t.Context(), 2, 0))

	worker := w.worker(0)
	must.Do(t, worker.open(t.Context()))
	worker.measures = new(measures)
	must.Do(t, worker.measures.instruments(noop.Meter{}))
	worker.known.listing = must.Get(trials.List(t.Context()))(t)
	must.Do(t, worker.endOthers(t.Context(), protocol.Finish{Late: true}, "no time"))
	list := must.Get(trials.List(t.Context()))(t)
	for trial, want := range []bool{true, false, true, true, false} {
		must.Equal(t, list.Trials[trial].Ended, want, "trial %d has ended", trial)
	}
	if r := w.result(t, 2); r.Untrained() || r.Score != .7 || r.TreesGrown != 3 || r.Reason != "no time" {
		t.Errorf("the paused trial: %+v; want it stopped at 3 trees with its score", r)
	}
}

// TestTrialsComeFirst: the first trial has a third of the sweep even if the final training is thought to take longer
// than the whole: of 28 minutes that is enough for all 8 trees, and of 20 minutes for 7, the last of which is begun
// within 6:40. Once it is known that the final training cannot end in time, trials are not cut any more, and neither
// are they where there is enough time for all.
func TestTrialsComeFirst(t *testing.T) {
	for _, tc := range []struct{ limit, final, first int }{{28, 600, 8}, {20, 600, 7}, {60, 0, 8}} {
		w, _ := reserved(t, 4, tc.limit, tc.final, 0)
		for trial, want := range []int{tc.first, 8, 8, 8} {
			if r := w.result(t, trial); r.Status != sweep.StatusDone || r.TreesGrown != want {
				t.Errorf("a sweep of %d minutes and a final training of %d, trial %d: %+v; expected %d trees", tc.limit,
					tc.final, trial, r, want)
			}
		}
	}
}

// TestReserveAtAClaim: how long a trial may train follows from what was left of limits.sweep at its claim: with a final
// training that takes as long as a trial, 1.5 times that is kept, so a trial has 2/5 of what is left. The final
// training itself keeps nothing.
func TestReserveAtAClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2, func(p *sweep.Plan) {
			p.Spec.Final = &sweep.Final{Rows: sweep.FinalAll}
			p.Trials[1] = sweep.Trial{Number: 1, Source: sweep.SourceFinal, Refit: true}
			p.Spec.Limits.Sweep = sweep.Duration(time.Hour)
			p.Quote = &sweep.Quote{Trial: sweep.Range{Expected: 480}, Refit: sweep.Range{Expected: 480}, RefitPace: 1}
		})
		for claim := range 2 {
			<-time.After(10 * time.Minute)
			w.claimed(t, 0, claim, 9, claim)
			worker := w.worker(0)
			must.Do(t, worker.open(t.Context()))
			until, ok := worker.reserve(t.Context(), &sweep.Claim{Trial: 0, Claim: claim}, 0)
			// Of the hour, claim 0 is made after 10 minutes and claim 1 after 20.
			if left, want := time.Until(until), time.Duration(50-10*claim)*time.Minute*2/5; !ok || left != want {
				t.Errorf("claim %d: %s are left for trials (%t); expected %s", claim, left, ok, want)
			}
			if _, ok := worker.reserve(t.Context(), &sweep.Claim{Trial: 1}, 0); ok {
				t.Error("time is kept at a claim of the final training itself, want none")
			}
		}
	})
}

// TestBeforeFinal: before there is a best trial, a trial has its share of the time: x and 1.8 times x, 1.2 of the quote
// times 1.5, are what is left. After that it also leaves 1.5 times what the final training of the best trial would
// take, by its trees. If that is no longer possible, nothing is kept. Of limits.sweep at most two thirds are kept.
func TestBeforeFinal(t *testing.T) {
	p := &sweep.Plan{Trials: []sweep.Trial{{}, {Number: 1, Refit: true}},
		Quote: &sweep.Quote{Trial: sweep.Range{Expected: 100}, Refit: sweep.Range{Expected: 120}, RefitPace: 1.2}}
	best := func(seconds float64, trees int) *sweep.Result {
		return &sweep.Result{Trees: trees, TreesGrown: 100, Usage: sweep.Usage{TrainSeconds: seconds}}
	}
	for _, tc := range []struct {
		left, spent, want time.Duration
		best              *sweep.Result
		ok                bool
	}{
		{14 * time.Minute, 0, 5 * time.Minute, nil, true}, // then 1.2 times 1.5 times as long
		// 140 s and 210 s more make 350 s; 1.8 times that are 630 s, and 210 s and 630 s are 14 minutes.
		{14 * time.Minute, 140 * time.Second, 210 * time.Second, nil, true},
		{14 * time.Minute, 0, 5 * time.Minute, best(60, 100), true},
		{14 * time.Minute, 0, 192 * time.Second, best(360, 100), true}, // 7:12, and half as much again
		{14 * time.Minute, 0, 5 * time.Minute, best(480, 50), true},    // 4:48: half of the trees are kept
		{10 * time.Minute, 0, -48 * time.Second, best(360, 100), true}, // 10:48 would be kept
		{8 * time.Minute, 0, 0, best(360, 100), false},                 // 7:12 are too near to the 8 minutes
	} {
		if got, ok := p.BeforeFinal(tc.left, tc.spent, tc.best); ok != tc.ok || ok && got != tc.want {
			t.Errorf("%s left, %s spent, best %+v: %s (%t), want %s (%t)", tc.left, tc.spent, tc.best, got, ok,
				tc.want, tc.ok)
		}
	}
	none := new(sweep.Plan)
	if _, ok := none.BeforeFinal(time.Hour, 0, nil); ok || none.LateFinal(best(60, 50)) != "" {
		t.Errorf("without a final training: time is kept %t, and the end of a reason is %q; want false and none", ok,
			none.LateFinal(best(60, 50)))
	}
	if got := p.FinalTime(best(60, 50)); got != 36*time.Second {
		t.Errorf("%s expected for the final training, want 36s", got)
	}
	p.Spec.Limits.Sweep = sweep.Duration(15 * time.Minute)
	if got, ok := p.BeforeFinal(14*time.Minute, 0, best(500, 100)); got != 4*time.Minute || !ok { // 15 would be kept
		t.Errorf("%s are left for trials (%t), want 4m0s: two thirds of 15 minutes are kept", got, ok)
	}
	p.Spec.Limits.Sweep = sweep.Duration(time.Minute)
	if got, ok := p.BeforeFinal(9*time.Second, 0, best(2, 100)); got != 2400*time.Millisecond || !ok { // and 3 to begin
		t.Errorf("%s of 9 are left for trials (%t), want 2.4s", got, ok)
	}
	want := ": it takes about 36s; raise limits.sweep (1m0s) or fit's --minutes"
	if got := p.LateFinal(best(60, 50)); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// slowMeter is a meter whose counter of trees takes a minute of a bubble's time for every tree. After so many trees it
// calls goes, which takes the machine away.
type slowMeter struct {
	noop.Meter
	after int
	goes  func()
}

// slowTrees is the counter of trees of a slowMeter.
type slowTrees struct {
	noop.Int64Counter
	*slowMeter
}

func (s *slowMeter) Int64Counter(name string, _ ...otel.Int64CounterOption) (otel.Int64Counter, error) {
	if name == "coppice.task.trees" {
		return slowTrees{slowMeter: s}, nil
	}
	return noop.Int64Counter{}, nil
}

func (s slowTrees) Add(context.Context, int64, ...otel.AddOption) {
	<-time.After(time.Minute)
	if s.after--; s.after == 0 {
		s.goes()
	}
}

// limited runs trials of 8 trees in a bubble, where a tree takes a minute, with limits.trial a second below so many
// minutes, so that the limit passes within that tree. There are two trials, or ten with a change of the plan. attempts
// are the trees after which the machine goes, for each attempt but the last.
func limited(t *testing.T, minutes int, change func(*sweep.Plan), attempts ...int) *world {
	n := 2
	if change != nil {
		n = 10
	}
	w := newWorld(t, n, func(p *sweep.Plan) {
		p.Spec.Limits.Trial = sweep.Duration(time.Duration(minutes)*time.Minute - time.Second)
		for i := range p.Trials {
			p.Trials[i].Params["early_stopping_round"] = 0.0
		}
		if change != nil {
			change(p)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		for attempt, trees := range append(attempts, 0) {
			ctx, goes := context.WithCancel(t.Context())
			worker := w.worker(0)
			worker.Meter, worker.Attempt = &slowMeter{after: trees, goes: goes}, attempt
			err := worker.Run(ctx)
			goes()
			if (err != nil) != (trees > 0) {
				t.Fatalf("attempt %d, which was to end after %d trees: error %v", attempt, trees, err)
			}
		}
	})
	return w
}

// trees returns the trees of a trial's model.
func (w *world) trees(t *testing.T, trial int) []*gbt.Tree {
	t.Helper()
	text, _ := must.Get2(blob.ReadAll(t.Context(), w.sweeps, w.result(t, trial).Model.Name, 1<<24))(t)
	m := must.Get(gbt.ReadModel(bytes.NewReader(text)))(t)
	return m.Trees
}

// TestALimitKeepsTheModel: a trial that reaches limits.trial is done, and its result says so. Its model has the first
// trees of the model that it would have had without the limit, and may win.
func TestALimitKeepsTheModel(t *testing.T) {
	whole := limited(t, 60, nil)
	for minutes := 1; minutes < 8; minutes++ {
		w := limited(t, minutes, nil)
		r, want := w.result(t, 0), fmt.Sprintf("stopped at its limit of %s after %d of 8 trees",
			w.plan.Spec.Limits.Trial, minutes)
		if r.Status != sweep.StatusDone || !r.AtLimit || r.Reason != want || r.TreesGrown != minutes ||
			r.Trees != minutes || r.Score != r.Metrics["auc"] {
			t.Fatalf("with a limit of %d minutes the result is %+v; expected it done, %q", minutes, r, want)
		}
		all, some := whole.trees(t, 0), w.trees(t, 0)
		if len(some) != minutes || !slices.EqualFunc(all[:minutes], some, func(a, b *gbt.Tree) bool {
			return slices.Equal(a.LeafValue, b.LeafValue) && slices.Equal(a.Threshold, b.Threshold)
		}) {
			t.Errorf("with a limit of %d minutes the model is not the first %d trees of the whole one", minutes,
				minutes)
		}
		if best := w.board(t).Best(); best == nil || w.board(t).Done != 2 {
			t.Errorf("with a limit of %d minutes: board %+v; expected two trials that may win", minutes, w.board(t))
		}
	}
	if r := whole.result(t, 0); r.AtLimit || r.Reason != "" || r.TreesGrown != 8 {
		t.Errorf("with an hour the result is %+v; expected all trees and no limit", r)
	}
}

// TestALimitWithoutAModel: a trial that reaches limits.trial before its first tree, or while it trains on a sample of
// the rows, has timed out: there is no model to keep.
func TestALimitWithoutAModel(t *testing.T) {
	w := newWorld(t, 1, func(p *sweep.Plan) { p.Spec.Limits.Trial = 1 })
	w.run(t, 0)
	sampled := newWorld(t, 4, func(p *sweep.Plan) {
		stopping(sweep.StopASHA)(p)
		bySamples(p)
		p.Spec.Limits.Trial = 1
	})
	sampled.run(t, 0)
	for name, r := range map[string]*sweep.Result{"of all rows": w.result(t, 0), "of a sample": sampled.result(t, 0)} {
		if r.Status != sweep.StatusTimedOut || r.AtLimit || !strings.Contains(r.Reason, "before it had a model") {
			t.Errorf("%s: got %s: %s; expected it timed out", name, r.Status, r.Reason)
		}
	}
}

// TestALimitAfterATakeover: limits.trial counts the time of the trees that an earlier holder has saved. The next holder
// grows only the trees that are left, none with a limit of three minutes, and the model is that of one task with the
// same limit.
func TestALimitAfterATakeover(t *testing.T) {
	for _, minutes := range []int{3, 5} {
		alone, taken := limited(t, minutes, nil), limited(t, minutes, nil, 3)
		r := taken.result(t, 0)
		if r.TreesGrown != minutes || !r.AtLimit || r.Usage.ResumedTrees != 3 {
			t.Errorf("a limit of %d minutes, taken over after 3 trees: %+v; expected %d trees, 3 of them resumed",
				minutes, r, minutes)
		}
		if !maps.Equal(taken.models(t), alone.models(t)) {
			t.Errorf("a limit of %d minutes: other models after a takeover than of one task, want the same", minutes)
		}
	}
}
