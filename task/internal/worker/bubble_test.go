package worker

import (
	"fmt"
	"maps"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"coppice/internal/blob/blobtest"
	"coppice/internal/problem"
	"coppice/internal/sweep"
)

// some is how many seeds a test tries: all in full, and not with -short, under the race detector, to which each shows
// the same.
func some(all, few uint64) uint64 {
	if testing.Short() || os.Getenv("COPPICE_FULL") == "" {
		return few
	}
	return all
}

// TestTasksOverAFoulStore runs three tasks in a synctest bubble over a store that loses the answers of three in ten
// writes and stalls for longer than the takeover time; for half of the seeds the client gives up at once, so that
// attempts end. Every trial must be done once, with the model of an undisturbed sweep, be published at most once, and
// leave no checkpoint. A failure names its seed. Which call meets a lost answer is up to the scheduler: if the first
// seeds end no attempt, more of them run.
func TestTasksOverAFoulStore(t *testing.T) {
	const trials = 5
	seeds := some(16, 2)
	want := calmModels(t, trials, nil)

	ended, taken, seed := 0, 0, uint64(0)
	for ; seed < seeds || seed < 100 && (ended == 0 || taken == 0); seed++ {
		w := newWorld(t, trials, nil)
		synctest.Test(t, func(t *testing.T) {
			attempts := w.foul(t, seed)
			ended += attempts - 3
		})
		if got := w.models(t); !maps.Equal(got, want) {
			t.Errorf("seed %d: other models than in a calm sweep", seed)
		}

		told := map[int]int{}
		for _, m := range w.published.messages {
			if told[m.Trial]++; told[m.Trial] > 1 {
				t.Errorf("seed %d: the end of trial %d was told %d times; want once", seed, m.Trial, told[m.Trial])
			}
		}
		for trial := range trials {
			if left, _ := w.checkpointsOf(t, trial); len(left) > 0 {
				t.Errorf("seed %d: trial %d has ended and %d checkpoints are left", seed, trial, len(left))
			}
		}
		taken += len(w.claimsOf(t)) - trials
	}

	t.Logf("%d seeds: %d attempts ended by lost answers, %d claims beyond the first of a trial", seed, ended, taken)
	if ended == 0 || taken == 0 {
		t.Errorf("%d attempts ended and %d trials were taken over; want some of both, or nothing was tested", ended,
			taken)
	}
}

// foul runs three tasks over a faulty store until all have ended well, and returns how many attempts that took.
func (w *world) foul(t *testing.T, seed uint64) (attempts int) {
	lossy := blobtest.NewLossy(w.sweeps, seed, 0.3)
	if lossy.Repeats = seed%2 == 0; !lossy.Repeats {
		lossy = blobtest.NewLossy(w.sweeps, seed, 0.1) // higher, and no attempt would finish
	}
	store := blobtest.NewStalling(lossy, seed, 0.1, 100*time.Second)

	var mu sync.Mutex
	var tasks sync.WaitGroup
	for task := range 3 {
		tasks.Go(func() {
			for attempt := range 100 {
				mu.Lock()
				attempts++
				mu.Unlock()

				worker := w.worker(task)
				worker.Attempt, worker.Sweeps, worker.Nonce = attempt, store, fmt.Sprint(task, "/", attempt)
				err := worker.Run(t.Context())
				if err == nil {
					return
				}
				if !problem.Is(err, problem.Transient) {
					t.Errorf("seed %d, task %d, attempt %d: %v; want a transient error at most", seed, task, attempt,
						err)
				}
			}
			t.Errorf("seed %d: task %d does not come to an end", seed, task)
		})
	}
	tasks.Wait()

	// The last task to finish may have missed a checkpoint that another saved meanwhile; in the cloud the next attempt
	// drops it, if there is one.
	last := w.worker(0)
	last.Attempt = 101
	if err := last.Run(t.Context()); err != nil {
		t.Errorf("seed %d: %v", seed, err)
	}
	for trial := range w.plan.Trials {
		if r := w.result(t, trial); r.Status != sweep.StatusDone && r.Status != sweep.StatusStopped {
			t.Errorf("seed %d: trial %d is %s: %s", seed, trial, r.Status, r.Reason)
		}
	}
	return attempts
}
