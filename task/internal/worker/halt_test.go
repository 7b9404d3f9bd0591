package worker

import (
	"context"
	"errors"
	"regexp"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"coppice/internal/blob"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// pauseAt runs two tasks of a job until a trial has so many trees, and pauses the sweep then. The tasks have to leave
// by themselves.
func (w *world) pauseAt(t *testing.T, job string, number, trees int) {
	t.Helper()
	var once sync.Once
	var all sync.WaitGroup
	for task := range 2 {
		worker := w.worker(task)
		worker.Job = job
		worker.Sweeps = &beats{w.sweeps, func(h sweep.Heartbeat) {
			if h.Trees < trees {
				return
			}
			once.Do(func() {
				if created, err := sweepstore.New(w.sweeps, w.plan.Sweep).CreateHalt(t.Context(), number,
					time.Now()); !created || err != nil {
					t.Errorf("pause the sweep: created %t, error %v; want it created", created, err)
				}
			})
		}}
		all.Go(func() {
			if err := worker.Run(t.Context()); err != nil {
				t.Errorf("a task of the sweep that was paused: %v; want no error, which Batch would retry", err)
			}
		})
	}
	all.Wait()
}

// resumedTrees counts the trees that trials did not have to grow again.
func (w *world) resumedTrees(t *testing.T) (trees int) {
	t.Helper()
	for i := range w.plan.Trials {
		trees += w.result(t, i).Usage.ResumedTrees
	}
	return trees
}

// ofAClaim is where the number of a claim is in the objects' names and in their text.
var ofAClaim = regexp.MustCompile(`/attempts/\d+/|claim:\d+ `)

// claimless returns decisions and models without the numbers of the claims under which they were made.
func (w *world) claimless(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for name, text := range w.decisions(t) {
		out[ofAClaim.ReplaceAllString(name, "/")] = ofAClaim.ReplaceAllString(text, "")
	}
	return out
}

// TestAPausedSweepGoesOn: the tasks save, release their trials and leave; those of the next job go on from there, and
// the models are the same as without a pause. Twice, and with trials that wait for each other at rungs.
func TestAPausedSweepGoesOn(t *testing.T) {
	for name, change := range map[string]func(*sweep.Plan){
		"plain": func(*sweep.Plan) {},
		"halving": func(p *sweep.Plan) {
			p.Spec.Search.Stop = &sweep.Stop{Rule: sweep.StopHalving, By: sweep.ByTrees, Eta: 2, MinTrees: 40,
				Rungs: []int{40, 80}}
		},
	} {
		shorter := func(p *sweep.Plan) {
			patient(p)
			for i := range p.Trials {
				// Enough that a trial of 50 trees cannot end before it hears of the pause, on a busy machine either.
				p.Trials[i].Params["num_iterations"] = 500.0
			}
			change(p)
		}
		calm := newWorld(t, 4, shorter)
		calm.tasks(t, 1)

		w := newWorld(t, 4, shorter)
		for turn, trees := range []int{10, 50} {
			job := w.plan.Sweep.JobID(turn)
			w.pauseAt(t, string(job), turn+1, trees)

			list, err := sweepstore.NewTrials(w.sweeps, w.plan).List(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			claims, saved := 0, false
			for _, trial := range list.Trials {
				claims += len(trial.Claims)
				if !trial.Ended && !trial.Free() {
					t.Errorf("%s: trial %d is held after pause %d: %+v; want its claim released", name, trial.Number,
						turn+1, trial.Last)
				}
				on, _ := w.checkpointsOf(t, trial.Number)
				saved = saved || len(on) > 0 && on[len(on)-1] >= trees
			}
			if !saved {
				t.Errorf("%s: no checkpoint of %d trees or more after pause %d", name, trees, turn+1)
			}

			// Batch may start a task of the job again.
			again := w.worker(0)
			again.Job, again.Attempt = string(job), 1
			if err := again.Run(t.Context()); err != nil {
				t.Errorf("%s: a task of a job before pause %d: %v; want no error", name, turn+1, err)
			}
			if list, err = sweepstore.NewTrials(w.sweeps, w.plan).List(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, trial := range list.Trials {
				claims -= len(trial.Claims)
			}
			if claims != 0 {
				t.Errorf("%s: a task of a job before pause %d has made %d claims; want none", name, turn+1, -claims)
			}
		}

		last := w.worker(0)
		last.Job = string(w.plan.Sweep.JobID(2))
		if err := last.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := w.claimless(t)
		for object, want := range calm.claimless(t) {
			if got[object] != want {
				t.Errorf("%s: %s after two pauses: %.300q; want %.300q, as without a pause", name, object, got[object],
					want)
			}
		}
		if n := w.resumedTrees(t); n < 50 {
			t.Errorf("%s: %d trees were resumed; want 50 at least", name, n)
		}
	}
}

// TestAPauseWhileTheDatasetIsCopied: the task does not wait for the copy.
func TestAPauseWhileTheDatasetIsCopied(t *testing.T) {
	w := newWorld(t, 1, nil)
	synctest.Test(t, func(t *testing.T) {
		timer := time.AfterFunc(5*time.Minute, func() {
			if _, err := sweepstore.New(w.sweeps, w.plan.Sweep).CreateHalt(context.WithoutCancel(t.Context()), 1,
				time.Now()); err != nil {
				t.Error(err)
			}
		})
		defer timer.Stop()
		worker := w.worker(0)
		worker.Datasets = stuck{w.datasets}
		if err := worker.Run(t.Context()); err != nil {
			t.Errorf("a task that copied the dataset when the sweep was paused: %v; want no error", err)
		}
	})
	if _, err := w.sweeps.Stat(t.Context(), sweep.Names(w.plan.Sweep).Claim(0, 0)); !errors.Is(err, blob.ErrNotExist) {
		t.Errorf("looked for a claim of a sweep that is paused: %v; want ErrNotExist", err)
	}
}
