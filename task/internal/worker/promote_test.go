package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/must"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// decisions returns all rungs and promotions of the sweep, without times and without who wrote them, and the models.
func (w *world) decisions(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for attrs, err := range w.sweeps.List(t.Context(), sweep.Names(w.plan.Sweep).Trials()) {
		if err != nil {
			t.Fatal(err)
		}
		_, part, _, _ := sweep.Names(w.plan.Sweep).ParseTrialObject(attrs.Name)
		switch data, _, err := blob.ReadAll(t.Context(), w.sweeps, attrs.Name, 1<<24); {
		case err != nil:
			t.Fatal(err)
		case part == sweep.PartRung || part == sweep.PartPromotion:
			var v map[string]any
			must.Do(t, json.Unmarshal(data, &v))
			maps.DeleteFunc(v, func(key string, _ any) bool {
				return slices.Contains([]string{"at", "write_id", "task", "attempt"}, key)
			})
			out[attrs.Name] = fmt.Sprint(v)
		case strings.HasSuffix(attrs.Name, "model.txt"):
			out[attrs.Name] = string(data)
		}
	}
	return out
}

// TestHalvingIsTheSameForAnyNumberOfTasks: rungs, what becomes of paused trials, and models.
func TestHalvingIsTheSameForAnyNumberOfTasks(t *testing.T) {
	var want map[string]string
	for _, tasks := range []int{1, 2, 5} {
		w := newWorld(t, 9, stopping(sweep.StopHalving))
		w.tasks(t, tasks)
		if stopped, done := w.stopped(t, true); stopped != 8 || done != 1 {
			t.Errorf("%d tasks, nine trials, one in three goes on at two rungs: %d stopped, %d done; want 8 and 1",
				tasks, stopped, done)
		}
		got := w.decisions(t)
		if want == nil {
			want = got
		}
		for name := range maps.Keys(want) {
			if got[name] != want[name] {
				t.Errorf("%d tasks: %s is %.300q; with one task it is %.300q", tasks, name, got[name], want[name])
			}
		}
		if len(got) != len(want) || len(got) < 9+3+9+3 {
			t.Errorf("%d tasks: %d rungs, promotions and models; with one task %d", tasks, len(got), len(want))
		}
	}
}

// TestAPromotedTrialIsTheSame: trials arrive from the worst to the best, so that many are paused and promoted, by
// several tasks; some have lost their checkpoints. Those that are done have the models of a sweep without rungs.
func TestAPromotedTrialIsTheSame(t *testing.T) {
	reversed := func(p *sweep.Plan) {
		stopping(sweep.StopASHA)(p)
		for i := range p.Trials {
			p.Trials[i].Params["learning_rate"] = 0.3 / float64(len(p.Trials)-i)
		}
	}
	plain := newWorld(t, 9, func(p *sweep.Plan) {
		reversed(p)
		p.Spec.Search.Stop = nil
	})
	plain.tasks(t, 1)

	for _, lost := range []bool{false, true} {
		w := newWorld(t, 9, reversed)
		worker := w.worker(0)
		if lost {
			worker.Sweeps = before(w.sweeps, "promotions", func() { w.dropAll(t) })
		}
		runs(t, worker)
		if _, done := w.stopped(t, true); done < 1 {
			t.Errorf("checkpoints lost %t: no trial is done; want one at least", lost)
		}
		promoted := 0
		for i := range w.plan.Trials {
			if _, err := w.sweeps.Stat(t.Context(), sweep.Names("test-1").Promotion(i, 3)); err == nil {
				promoted++
			}
			if r := w.result(t, i); r.Status == sweep.StatusDone {
				if got, want := w.model(t, i), plain.model(t, i); !bytes.Equal(got, want) {
					t.Errorf("checkpoints lost %t: the model of trial %d, once paused, has %d bytes; want the %d "+
						"bytes of one never paused", lost, i, len(got), len(want))
				}
			}
		}
		if promoted < 3 {
			t.Errorf("checkpoints lost %t: %d trials were paused at 3 trees; want some, or nothing was tested", lost,
				promoted)
		}
	}
}

// dropAll empties all checkpoints.
func (w *world) dropAll(t *testing.T) {
	t.Helper()
	for trial := range w.plan.Trials {
		_, names := w.checkpointsOf(t, trial)
		for _, name := range names {
			w.put(t, name, "")
		}
	}
}

// TestAPausedTrialWhoseScoreIsLost is promoted, and the record says why, so that it can be made again.
func TestAPausedTrialWhoseScoreIsLost(t *testing.T) {
	w := newWorld(t, 4, stopping(sweep.StopHalving))
	worker, trials := w.worker(0), sweepstore.NewTrials(w.sweeps, w.plan)
	worker.Sweeps = before(w.sweeps, "pauses", func() { // of trial 0, the first to be paused
		w.put(t, sweep.Names(w.plan.Sweep).Rung(0, 3), "{")
	})
	runs(t, worker)
	p, err := trials.Promotion(t.Context(), 0, 3)
	if err != nil || p == nil || !p.Promoted || !p.Unread {
		t.Fatalf("what became of a trial whose rung is damaged: got %+v, error %v; want it promoted because its "+
			"score is unread", p, err)
	}
	if err := replayPromotion(w.plan, p); err != nil {
		t.Errorf("made again that a trial whose score is unread goes on: %v", err)
	}
}

// TestALaterHolderWasFirstAtTheRung: a holder that was taken for dead, and is not, follows what its successor has
// written at the rung.
func TestALaterHolderWasFirstAtTheRung(t *testing.T) {
	w := newWorld(t, 1, stopping(sweep.StopASHA))
	worker := w.worker(0)
	// The successor writes between this holder's look at the others and its own write.
	worker.Sweeps = before(w.sweeps, "/rungs/3", func() {
		r := sweep.Rung{Format: sweep.FormatVersion, Sweep: w.plan.Sweep, Claim: 1, Step: 3, Score: 0.7,
			Reason: "it goes on"}
		if created, err := sweepstore.NewTrials(w.sweeps, w.plan).CreateRung(t.Context(), r); err != nil || !created {
			t.Errorf("the successor at the rung: created %t, error %v", created, err)
		}
	})

	// a holder that never reads what is there tries to write for ever
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must.Do(t, worker.Run(ctx))
	if r := w.result(t, 0); r.Status != sweep.StatusDone || len(r.Rungs) != 2 || r.Rungs[0].Score != 0.7 {
		t.Errorf("it ended %s with %v at rungs: %s; want done, past both rungs, with 0.7 at the first as written there",
			r.Status, r.Rungs, r.Reason)
	}
}

// TestTheNextBestReplacesAFailedTrial: when nothing is left to train, a promoted trial that has failed no longer keeps
// others from going on.
func TestTheNextBestReplacesAFailedTrial(t *testing.T) {
	w := newWorld(t, 2, stopping(sweep.StopASHA))
	worker, best := w.worker(0), -1
	worker.Sweeps = before(w.sweeps, "claims/1", func() { // of the one that is promoted first
		for i := range w.plan.Trials {
			if _, err := w.sweeps.Stat(t.Context(), sweep.Names(w.plan.Sweep).Promotion(i, 3)); err != nil {
				continue
			}
			best = i
			r := sweep.Result{Format: 1, Sweep: w.plan.Sweep, Trial: i, Status: sweep.StatusFailed,
				Reason: "its tasks died"}
			w.putJSON(t, sweep.Names(w.plan.Sweep).Result(i), r)
		}
	})
	runs(t, worker)
	if best < 0 {
		t.Fatal("no trial was promoted; want one, or nothing was tested")
	}
	other := w.result(t, 1-best)
	if other.Status != sweep.StatusDone {
		t.Errorf("trial %d was promoted and failed, and the other ended %s: %s; want done", best, other.Status,
			other.Reason)
	}
	p, err := sweepstore.NewTrials(w.sweeps, w.plan).Promotion(t.Context(), 1-best, 3)
	if err != nil || p == nil || !p.Promoted || len(p.Seen) != 0 {
		t.Fatalf("what became of the other: %+v, error %v; want that it was promoted, having seen no trial that counts",
			p, err)
	}
	if err := replayPromotion(w.plan, p); err != nil {
		t.Error(err)
	}
}
