package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/fit"
	"coppice/internal/gbt"
	"coppice/internal/metric"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/sweep"
	"coppice/task/internal/stage"
)

// long changes a plan to trials that take a tenth of a second, draw rows and columns at random, and are saved every few
// milliseconds.
func long(p *sweep.Plan) {
	for i := range p.Trials {
		p.Trials[i].Params["num_iterations"], p.Trials[i].Params["early_stopping_round"] = 600.0, 0.0
		p.Trials[i].Params["bagging_fraction"], p.Trials[i].Params["bagging_freq"],
			p.Trials[i].Params["feature_fraction"] = 0.7, 1.0, 0.8
	}
	p.Heartbeat, p.Takeover = sweep.Duration(2*time.Millisecond), sweep.Duration(4*time.Millisecond)
}

// checkpointsOf returns the numbers of trees in a trial's checkpoints that are not empty, ascending, with -1 for a
// damaged one, and their names by number of trees.
func (w *world) checkpointsOf(t *testing.T, trial int) (trees []int, names map[int]string) {
	t.Helper()
	names = map[int]string{}
	for attrs, err := range w.sweeps.List(t.Context(), sweep.Names(w.plan.Sweep).Checkpoints(trial)) {
		must.Do(t, err)
		if attrs.Size == 0 {
			continue
		}
		data, _ := must.Get2(blob.ReadAll(t.Context(), w.sweeps, attrs.Name, 1<<24))(t)
		n := -1
		if c, err := gbt.ReadCheckpoint(data); err == nil {
			n = c.Trees()
		}
		trees, names[n] = append(trees, n), attrs.Name
	}
	slices.Sort(trees)
	return trees, names
}

var errGone = errors.New("this machine is gone")

// TestMachinesVanishAnywhere: whatever the storage operation at which a task dies, and however often, the next attempt
// goes on, no trial has damaged checkpoints or more than three, and the models are those of a sweep without deaths. The
// seed is another one each time, and is logged.
func TestMachinesVanishAnywhere(t *testing.T) {
	if testing.Short() {
		t.Skip("it finds no race that shorter tests do not")
	}
	calm := newWorld(t, 2, long)
	worker, left := calm.worker(0), int64(math.MaxInt64)
	worker.Sweeps = mortal(calm.sweeps, &left, nil)
	runs(t, worker)
	want, operations := calm.models(t), int(math.MaxInt64-left)
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 0))
	deaths, resumed := 0, 0
	rounds := int(some(3, 1))
	// The number of saves depends on the trainer's speed here and now, so some rounds may resume nothing.
	for round := 0; round < rounds || round < 30 && (deaths < 2 || resumed == 0); round++ {
		w := newWorld(t, 2, long)
		for attempt := 0; ; attempt++ {
			ctx, cancel := context.WithCancel(t.Context())
			worker := w.worker(0)
			worker.Attempt = attempt
			// Each machine lives longer, so that the trial is not given up for deaths before its first checkpoint.
			left := int64(30*(1+attempt) + rng.IntN(operations/2))
			worker.Sweeps = mortal(w.sweeps, &left, cancel)
			err := worker.Run(ctx)
			cancel()
			if err == nil {
				break
			}
			deaths++
			if !problem.Is(err, problem.Transient) {
				t.Fatalf("seed %d: the attempt ended with %v, want a transient error", seed, err)
			}
			for trial := range w.plan.Trials {
				if trees, _ := w.checkpointsOf(t, trial); len(trees) > 3 || slices.Contains(trees, -1) {
					t.Fatalf("seed %d: trial %d has checkpoints of %v trees; want at most three, and none damaged (-1)",
						seed, trial, trees)
				}
			}
		}
		for trial := range w.plan.Trials { // models() explains why one is not done
			resumed += w.result(t, trial).Usage.ResumedTrees
		}
		got := w.models(t)
		for trial := range want {
			if got[trial] != want[trial] {
				t.Fatalf("seed %d: trial %d has another model than without deaths, want the same", seed, trial)
			}
		}
	}
	t.Logf("seed %d: %d deaths, %d trees resumed", seed, deaths, resumed)
	if deaths < 2 || resumed == 0 {
		t.Errorf("seed %d: %d deaths, %d trees resumed; want two deaths and some trees, or little was tested", seed,
			deaths, resumed)
	}
}

// interrupted runs an attempt of task 0 until a heartbeat tells of so many trees, tells it to stop, and returns its
// log.
func (w *world) interrupted(t *testing.T, attempt, trees int) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var log bytes.Buffer
	worker := w.worker(0)
	worker.Attempt, worker.Log = attempt, slog.New(slog.NewTextHandler(&log, nil))
	worker.Sweeps = beats(t, w.sweeps, func(h sweep.Heartbeat) {
		if h.Trees >= trees {
			cancel()
		}
	})
	if err := worker.Run(ctx); !problem.Is(err, problem.Transient) || !errors.Is(err, context.Canceled) {
		t.Fatalf("told to stop, the task ended with %v, want a transient error; log:\n%s", err, &log)
	}
	return log.String()
}

// patient changes a plan as long does, but with an interval between checkpoints so long that only the first trees are
// saved.
func patient(p *sweep.Plan) {
	long(p)
	p.Trials[0].Params["num_iterations"] = 600.0
	p.Takeover = sweep.Duration(time.Hour)
}

// TestSavedWhenToldToGo: a task that is told to stop saves a checkpoint, from which the next attempt resumes. If the
// newest one is damaged the one before is used, and the log says so. The result counts the resumed trees, no checkpoint
// is left, and the model is that of a sweep without interruptions.
func TestSavedWhenToldToGo(t *testing.T) {
	w := newWorld(t, 1, patient)
	w.interrupted(t, 0, 20)
	first, _ := w.checkpointsOf(t, 0)
	if len(first) == 0 || first[len(first)-1] < 20 {
		t.Fatalf("told to go after 20 trees: checkpoints %v, want one of so many", first)
	}
	furthest := first[len(first)-1]
	w.interrupted(t, 1, furthest+20)
	both, names := w.checkpointsOf(t, 0)
	if len(both) != 2 || both[0] < furthest || both[1] < furthest+20 {
		t.Fatalf("told to go 20 trees later: checkpoints %v after %v, want two that are no older", both, first)
	}

	// The newest is damaged: the one before is used.
	data, _ := must.Get2(blob.ReadAll(t.Context(), w.sweeps, names[both[1]], 1<<24))(t)
	data[len(data)/2] ^= 1
	must.Get(w.sweeps.Put(t.Context(), names[both[1]], blob.Any, bytes.NewReader(data)))(t)
	var log bytes.Buffer
	last := w.worker(0)
	last.Attempt, last.Log = 2, slog.New(slog.NewTextHandler(&log, nil))
	runs(t, last)
	if r := w.result(t, 0); r.Usage.ResumedTrees != both[0] || r.TreesGrown != 600 || r.Claim != 2 {
		t.Errorf("resumed after SIGTERM: got %+v; want 600 trees in claim 2, those before the signal resumed", r)
	}
	if text := log.String(); !strings.Contains(text, "damaged") || !strings.Contains(text, names[both[1]]) {
		t.Errorf("the log is\n%s\nwant it to name the damaged checkpoint %s", text, names[both[1]])
	}
	if trees, _ := w.checkpointsOf(t, 0); trees != nil {
		t.Errorf("the trial is finished and has checkpoints of %v trees, want none", trees)
	}
	calm := newWorld(t, 1, patient)
	calm.run(t, 0)
	if w.models(t)[0] != calm.models(t)[0] {
		t.Error("the model is another one than without interruptions, want the same")
	}
}

// TestTimeSpentBeforeCounts: limits.trial counts the time that earlier holders spent on the trees that are resumed. A
// checkpoint of another build is dropped, so the time spent on it does not count.
func TestTimeSpentBeforeCounts(t *testing.T) {
	w := newWorld(t, 1, patient)
	w.interrupted(t, 0, 20)
	for _, version := range []string{"", "v2"} { // the last discards it
		same := version == ""
		again := w.worker(0)
		again.Version = version
		ds, err := stage.Open(t.Context(), stage.Request{Store: w.datasets, Dataset: w.plan.Dataset, Scratch: w.scratch,
			Log: again.Log})
		must.Do(t, err)
		defer ds.Close()
		must.Do(t, again.open(t.Context()))
		again.table = fit.NewTable(ds)
		again.metric = must.Get(metric.Lookup(w.plan.Spec.Metric))(t)

		again.plan.Spec.Limits.Trial = 1 // a nanosecond, already used up by the checkpoint
		k := again.newTraining(t.Context(), &sweep.Claim{Trial: 0, Claim: 1})
		must.Do(t, k.resume())
		began := time.Now()
		k.limitTime()
		if goesOn, spent := k.from != nil, k.deadline.Before(began); goesOn != same || spent != same {
			t.Errorf("build %q goes on: %t, with its limit used up: %t; want both %t", version, goesOn, spent, same)
		}
	}
}

// TestProgressDoesNotCountAsDeath: claims whose holders vanished after a checkpoint do not count as deaths of the
// trial. After five of them and four without a checkpoint the trial is trained; after five without one it has failed.
func TestProgressDoesNotCountAsDeath(t *testing.T) {
	for nowhere, status := range map[int]sweep.Status{sweep.MaxClaims - 1: sweep.StatusDone,
		sweep.MaxClaims: sweep.StatusFailed} {
		w := newWorld(t, 1, nil)
		synctest.Test(t, func(t *testing.T) {
			for claim := range sweep.MaxClaims + nowhere {
				w.claimed(t, 0, claim, 9, claim)
				if claim >= sweep.MaxClaims { // the claims that got nowhere come last
					continue
				}
				for _, slot := range []string{"0", "1"} { // emptied meanwhile
					w.put(t, sweep.Names(w.plan.Sweep).Checkpoint(0, claim)+slot, "")
				}
			}
			w.run(t, 0)
			if r := w.result(t, 0); r.Status != status {
				t.Errorf("after %d claims that got nowhere the trial is %s: %s; want %s", nowhere, r.Status, r.Reason,
					status)
			}
		})
	}
}

// TestCheckpointsOfEndedTrialsGo: checkpoints of a trial whose holder vanished after it had written the result are
// dropped by the task that finds that every trial has ended, whether or not the aggregator has written the ending by
// then.
func TestCheckpointsOfEndedTrialsGo(t *testing.T) {
	for _, concluded := range []bool{false, true} {
		w := newWorld(t, 2, nil)
		names := sweep.Names(w.plan.Sweep)
		for i := range w.plan.Trials {
			w.claimed(t, i, 0, 9, 0)
		}
		left := func() { // what comes about while trial 0, which this task still trains, ends
			w.put(t, names.Checkpoint(1, 0)+"1", "left behind")
			if concluded {
				w.putJSON(t, names.Ending(), sweep.Ending{Format: 1, Sweep: w.plan.Sweep, Trials: []int{0, 1}})
			}
		}
		r := sweep.Result{Format: 1, Sweep: w.plan.Sweep, Trial: 1, Status: sweep.StatusFailed,
			Reason: "by a holder that vanished then"}
		w.putJSON(t, names.Result(1), r)

		worker := w.worker(9) // the task that has claimed both trials, in its next attempt
		worker.Attempt = 1
		worker.Sweeps = after(w.sweeps, "trials/0000/result.json", left)
		runs(t, worker)
		if trees, _ := w.checkpointsOf(t, 1); len(trees) != 0 {
			t.Errorf("every trial has ended, with the ending written: %t; %d checkpoints hold something, want none",
				concluded, len(trees))
		}
	}
}

// some returns how many seeds a test tries: all of them with COPPICE_FULL, and few otherwise or with -short. Under the
// race detector, which runs with -short, every seed shows the same.
func some(all, few uint64) uint64 {
	if testing.Short() || os.Getenv("COPPICE_FULL") == "" {
		return few
	}
	return all
}

// TestTasksOverAFoulStore: over a store that loses answers and stalls, three tasks train every trial to the model of an
// undisturbed sweep, publish its end at most once, and leave no checkpoint. The store loses the answers of three in ten
// writes, and stalls for longer than the takeover time. For half of the seeds its client gives up at once, so that
// attempts end. Which call meets a lost answer is up to the scheduler: if the first seeds end no attempt, or lead to no
// takeover, more of them run.
func TestTasksOverAFoulStore(t *testing.T) {
	const trials = 5
	seeds := some(16, 2)
	want := calmModels(t, trials, nil)

	ended, taken, seed := 0, 0, uint64(0)
	for ; seed < seeds || seed < 100 && (ended == 0 || taken == 0); seed++ {
		w := newWorld(t, trials, nil)
		synctest.Test(t, func(t *testing.T) {
			attempts := w.foul(t, seed)
			ended += attempts - 3 // each of the three tasks has one that ended well
		})
		if got := w.models(t); !maps.Equal(got, want) {
			t.Errorf("seed %d: other models than in a calm sweep, want the same", seed)
		}

		told := map[int]int{}
		for _, m := range w.published.messages {
			if told[m.Trial]++; told[m.Trial] > 1 {
				t.Errorf("seed %d: the end of trial %d was told %d times; want once", seed, m.Trial, told[m.Trial])
			}
		}
		for trial := range trials {
			if left, _ := w.checkpointsOf(t, trial); len(left) > 0 {
				t.Errorf("seed %d: trial %d has ended and %d checkpoints are left, want none", seed, trial, len(left))
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

// foul runs three tasks over a store that loses answers and stalls, each with new attempts until one ends well. All
// trials have to be done or stopped then. It returns how many attempts that took.
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
		t.Errorf("seed %d: the last attempt ended with %v, want no error", seed, err)
	}
	for trial := range w.plan.Trials {
		if r := w.result(t, trial); r.Status != sweep.StatusDone && r.Status != sweep.StatusStopped {
			t.Errorf("seed %d: trial %d is %s: %s; want it done or stopped", seed, trial, r.Status, r.Reason)
		}
	}
	return attempts
}

// mortal returns a store as seen from a machine that vanishes without notice after so many operations, listings not
// counted: from then on every operation fails. left is counted down, and die is called.
func mortal(s blob.Store, left *int64, die func()) blob.Store {
	return &blobtest.Hooked{Store: s, Before: func(_ context.Context, call blobtest.Call, _ string) error {
		if call != blobtest.List && atomic.AddInt64(left, -1) < 0 {
			die()
			return errGone
		}
		return nil
	}}
}

// beats returns a store that calls seen with every heartbeat before it is written.
func beats(t *testing.T, s blob.Store, seen func(sweep.Heartbeat)) blob.Store {
	return &blobtest.Hooked{Store: s, Writes: func(name string, data []byte) ([]byte, error) {
		if strings.Contains(name, "/heartbeats/") {
			var h sweep.Heartbeat
			if err := json.Unmarshal(data, &h); err != nil {
				t.Errorf("the heartbeat %q cannot be decoded: %v", data, err)
			}
			seen(h)
		}
		return data, nil
	}}
}
