package worker

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"coppice/internal/blob/blobtest"
	"coppice/internal/dataset"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/sweep"
)

// fill makes the scratch folder reject writes, as that of a full disk does, and returns a function that undoes it.
func (w *world) fill(t *testing.T) (empty func()) {
	t.Helper()
	w.scratch = filepath.Join(w.scratch, "disk")
	must.Do(t, os.WriteFile(w.scratch, nil, 0o644))
	return func() {
		if err := os.Remove(w.scratch); err != nil {
			t.Error(err)
		}
	}
}

// TestADiskThatIsFull: a task whose disk is full waits until there is room, and then trains. It ends without an error
// if the sweep ends first. If the disk stays full, it ends after half an hour with a transient error.
func TestADiskThatIsFull(t *testing.T) {
	for name, tc := range map[string]struct {
		then     func(w *world, empty func()) // what happens after five minutes
		again    bool                         // the task ends with an error after which there is another attempt
		from, to time.Duration                // when the task ends, from its start
		trained  bool
	}{
		"it is emptied": {func(_ *world, empty func()) { empty() }, false, 5 * time.Minute, 7 * time.Minute, true},
		"the sweep ends": {func(w *world, _ func()) {
			w.putJSON(t, sweep.Names("test-1").Ending(), sweep.Ending{Format: 1, Sweep: "test-1", Trials: []int{}})
		}, false, 5 * time.Minute, 7 * time.Minute, false},
		"it stays full": {func(*world, func()) {}, true, diskPatience - 2*maxDiskPause, diskPatience + maxDiskPause,
			false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2, nil)
			empty := w.fill(t)
			synctest.Test(t, func(t *testing.T) {
				timer := time.AfterFunc(5*time.Minute, func() { tc.then(w, empty) })
				defer timer.Stop()
				start := time.Now()
				err := w.worker(0).Run(t.Context())
				took, again := time.Since(start), problem.Is(err, problem.Transient)
				if (err != nil) != tc.again || again != tc.again || took < tc.from || took > tc.to {
					t.Errorf("after %s the attempt ended with %v; want another one %t, after %s to %s", took, err,
						tc.again, tc.from, tc.to)
				}
				for trial := range w.plan.Trials {
					if tc.trained && w.result(t, trial).Status != sweep.StatusDone {
						t.Errorf("trial %d: %+v; want it done", trial, w.result(t, trial))
					}
				}
			})
		})
	}
}

// TestCancelledDuringTheCopy: when the sweep is cancelled while a machine's dataset does not arrive, both the task that
// copies it and the one that waits for the copy end within three heartbeats.
func TestCancelledDuringTheCopy(t *testing.T) {
	const cancelledAfter = 5 * time.Minute
	w := newWorld(t, 1, nil)
	synctest.Test(t, func(t *testing.T) {
		timer := time.AfterFunc(cancelledAfter, func() { w.put(t, sweep.Names(w.plan.Sweep).Cancel(), "{}") })
		defer timer.Stop()

		start := time.Now()
		var tasks sync.WaitGroup
		for task := range 2 {
			tasks.Go(func() {
				worker := w.worker(task)
				worker.Datasets = blobtest.Before(w.datasets, blobtest.Open,
					func(ctx context.Context, name string) error {
						if strings.HasSuffix(name, dataset.ManifestFile) {
							return nil
						}
						<-ctx.Done() // all else never arrives
						return ctx.Err()
					})
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				if err := worker.Run(ctx); err != nil || time.Since(start) > cancelledAfter+
					3*time.Duration(w.plan.Heartbeat) {
					t.Errorf("task %d ended with %v, %s after its dataset began not to arrive; want no error soon "+
						"after the sweep was cancelled, at %s", task, err, time.Since(start), cancelledAfter)
				}
			})
		}
		tasks.Wait()
	})
}

// TestDamageUnderATrial: a trial whose copy of the dataset is damaged while it trains gets no result, good or bad, from
// that. The task continues with another copy, and the models are those of an undisturbed sweep.
func TestDamageUnderATrial(t *testing.T) {
	want := calmModels(t, 3, nil)

	for name, tc := range map[string]struct {
		files []string
		with  byte
	}{
		"labels zeroed":    {[]string{dataset.TargetsFile(dataset.TrainSplit)}, 0},
		"bins zeroed":      {[]string{dataset.TrainSplit + "/rows.arrow", dataset.TrainSplit + "/columns.arrow"}, 0},
		"bins that cannot": {[]string{dataset.TrainSplit + "/rows.arrow", dataset.TrainSplit + "/columns.arrow"}, 0xff},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 3, nil)
			worker := w.worker(0)
			worker.Sweeps = before(w.sweeps, "trials/0001/claims/0", func() {
				if err := w.overwrite(tc.with, tc.files...); err != nil {
					t.Error(err)
				}
			})
			if err := worker.Run(t.Context()); err != nil {
				t.Fatalf("a copy that was damaged under a trial ended the task with %v, want it to go on with "+
					"another copy", err)
			}
			if got := w.models(t); !maps.Equal(got, want) {
				t.Error("the models are other ones than of a sweep without damage, want the same")
			}
			if r := w.result(t, 1); r.Claim == 0 {
				t.Error("claim 0 of trial 1, which worked on the damaged copy, ended it; want the next claim")
			}
		})
	}
}

// overwrite fills files of the machine's copy with a byte, in place, so that every mapping shows it.
func (w *world) overwrite(with byte, files ...string) error {
	for _, file := range files {
		path := filepath.Join(w.scratch, "datasets", w.plan.Dataset.Name, w.plan.Dataset.Version,
			filepath.FromSlash(file))
		// never shorten it: touching a mapping beyond the end kills the process
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		info, err := f.Stat()
		if err == nil {
			_, err = f.WriteAt(bytes.Repeat([]byte{with}, int(info.Size())), 0)
		}
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// TestNoCheckpointOfADamagedCopy: trees that were grown after labels or bins on the machine's disk had changed are not
// resumed: neither by the next attempt on this machine, which fetches another copy, nor on another machine, which does
// not know of the damage. The machine is taken away before the end of the trial, when the copy would have been
// verified.
func TestNoCheckpointOfADamagedCopy(t *testing.T) {
	want := calmModels(t, 1, patient)

	for _, tc := range []struct {
		elsewhere bool
		file      string
	}{{false, dataset.TargetsFile(dataset.TrainSplit)}, {true, dataset.TargetsFile(dataset.TrainSplit)},
		{true, dataset.TrainSplit + "/rows.arrow"}} {
		w := newWorld(t, 1, patient)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		spoilt := 0 // trees grown when the copy was damaged
		first := w.worker(0)
		first.Sweeps = beats(t, w.sweeps, func(h sweep.Heartbeat) {
			switch {
			case spoilt == 0 && h.Trees >= 5:
				spoilt = h.Trees
				if err := w.overwrite(0, tc.file); err != nil {
					t.Error(err)
				}
			case spoilt > 0 && h.Trees >= spoilt+20:
				cancel()
			}
		})
		if err := first.Run(ctx); err == nil || spoilt == 0 {
			t.Fatalf("the first attempt ended with %v, %s zeroed after %d trees; want it interrupted after that", err,
				tc.file, spoilt)
		}

		next := w.worker(0)
		next.Attempt = 1
		if tc.elsewhere {
			w.scratch = t.TempDir()
			next = w.worker(1)
			next.Host, next.Attempt, next.Scratch = "another", 1, w.scratch
		}
		if err := next.Run(t.Context()); err != nil {
			t.Fatalf("elsewhere %t: the next attempt ended with %v", tc.elsewhere, err)
		}
		if !maps.Equal(w.models(t), want) {
			t.Errorf("elsewhere %t: %s zeroed after %d trees, %d trees resumed: another model than without damage, "+
				"want the same", tc.elsewhere, tc.file, spoilt, w.result(t, 0).Usage.ResumedTrees)
		}
	}
}

// TestACheckpointOutlivesItsCopy: a checkpoint that was saved before the machine's copy was damaged is resumed, and
// leads to the model of an undisturbed sweep, since the copy was verified before it was saved.
func TestACheckpointOutlivesItsCopy(t *testing.T) {
	want := calmModels(t, 1, patient)

	w := newWorld(t, 1, patient)
	w.interrupted(t, 0, 20)
	must.Do(t, w.overwrite(0xff, dataset.TrainSplit+"/rows.arrow"))
	next := w.worker(0)
	next.Attempt = 1
	runs(t, next)
	if r, same := w.result(t, 0), maps.Equal(w.models(t), want); r.Usage.ResumedTrees < 20 || !same {
		t.Errorf("copy damaged after a checkpoint of 20 trees: %d trees resumed, the model of an undisturbed sweep: "+
			"%t; want at least 20, and that model", r.Usage.ResumedTrees, same)
	}
}

// TestAnotherAttemptBelievesNoOldMark: a task's first attempt trusts copies that were verified in the last ten minutes.
// Another attempt trusts only verifications made since it began, since a bad copy may be why there is another attempt.
func TestAnotherAttemptBelievesNoOldMark(t *testing.T) {
	w := newWorld(t, 1, nil)
	first, second := w.worker(0), w.worker(0)
	second.Attempt = 1
	if !first.trustSince().Before(time.Now().Add(-copyTrust + time.Minute)) {
		t.Errorf("a first attempt believes marks since %s, want them of the last %s", first.trustSince(), copyTrust)
	}
	if now := time.Now(); second.trustSince().Before(now) {
		t.Errorf("another attempt believes marks since %s, want none before it began at %s", second.trustSince(), now)
	}
}

// TestADamagedClaimSpendsNoRetries: an attempt that meets a damaged claim, whose holder is unknown, does not fail and
// does not take it for its own. It takes the trial over after the takeover time, and all trials are done.
func TestADamagedClaimSpendsNoRetries(t *testing.T) {
	for name, contents := range map[string]string{
		"no JSON": "damaged", "empty": "", "too long": strings.Repeat(" ", 2<<20),
		"another trial's": `{"format":1,"sweep":"test-1","trial":0,"claim":0,"task":0,"attempt":0}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 3, nil)
			synctest.Test(t, func(t *testing.T) {
				w.put(t, sweep.Names(w.plan.Sweep).Claim(1, 0), contents)
				worker := w.worker(0)
				worker.Attempt = 1
				start := time.Now()
				if err := worker.Run(t.Context()); err != nil {
					t.Fatalf("the next attempt ended with %v, want all trials done", err)
				}

				for trial := range w.plan.Trials {
					w.done(t, trial)
				}
				if r, waited := w.result(t, 1), time.Since(start); r.Claim != 1 || waited < time.Minute ||
					waited > 63*time.Second {
					t.Errorf("claim %d ended the trial after %s; want claim 1 after the takeover time, a minute",
						r.Claim, waited)
				}
			})
		})
	}
}

// TestWaitsForMemory: a trial begins once the machine has the memory that the plan says a trial needs, and not before.
// The task looks once a heartbeat, a second, and finds enough at its fourth look.
func TestWaitsForMemory(t *testing.T) {
	w := newWorld(t, 1, func(p *sweep.Plan) { p.Sizing.TrialBytes = 100 })
	synctest.Test(t, func(t *testing.T) {
		worker := w.worker(0)
		free := []int64{10, 50, 99, 100}
		worker.Available = func() int64 {
			f := free[0]
			if len(free) > 1 {
				free = free[1:]
			}
			return f
		}
		start := time.Now()
		runs(t, worker)
		if waited := time.Since(start); waited != 3*time.Second {
			t.Errorf("waited %s, want 3 s: one for each look that found too little memory", waited)
		}
	})
}

// TestWaitingForMemoryEndsWithTheSweep: a task that waits for memory ends without an error when the sweep is cancelled
// or concluded. If it did not, the test would never end.
func TestWaitingForMemoryEndsWithTheSweep(t *testing.T) {
	for name, object := range map[string]func(sweep.Names) string{"cancelled": sweep.Names.Cancel,
		"concluded": sweep.Names.Ending} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, func(p *sweep.Plan) { p.Sizing.TrialBytes = 100 })
			synctest.Test(t, func(t *testing.T) {
				worker := w.worker(0)
				worker.Available = func() int64 { return 99 }
				time.AfterFunc(time.Hour, func() {
					w.put(t, object(sweep.Names(w.plan.Sweep)), "{}")
				})
				runs(t, worker)
			})
		})
	}
}

// TestTasksOfAMachineAgreeOnItsName: eight tasks of a machine that start at once use one name, the host name of one of
// them, and leave only the file with it. Another machine has another name.
func TestTasksOfAMachineAgreeOnItsName(t *testing.T) {
	scratch := filepath.Join(t.TempDir(), "not-there-yet")
	names := make([]string, 8)
	var all sync.WaitGroup
	for i := range names {
		all.Go(func() { names[i] = MachineName(scratch, "container-"+string(rune('a'+i)), string(rune('a'+i))) })
	}
	all.Wait()
	for i, name := range names {
		if name != names[0] || len(name) != len("container-a") {
			t.Errorf("task %d calls the machine %q, task 0 calls it %q; expected one of the tasks' host names for all",
				i, name, names[0])
		}
	}
	if left, err := os.ReadDir(scratch); err != nil || len(left) != 1 {
		t.Errorf("in the folder there are %v, %v; expected the machine's name alone", left, err)
	}
	if name := MachineName(t.TempDir(), "elsewhere", "n"); name != "elsewhere" {
		t.Errorf("the other machine is called %q, expected its own host name", name)
	}
}

// TestMachineWithoutAName: a task uses its own host name if there is no valid name where it should be, or no folder
// that can be written.
func TestMachineWithoutAName(t *testing.T) {
	for what, create := range map[string]func(path string) error{
		"a folder": func(path string) error { return os.Mkdir(path, 0o755) },
		"nothing":  func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"two lines": func(path string) error {
			return os.WriteFile(path, []byte("vm\nvm\n"), 0o600)
		},
	} {
		scratch := t.TempDir()
		must.Do(t, create(filepath.Join(scratch, machineFile)))
		if name := MachineName(scratch, "own", "n"); name != "own" {
			t.Errorf("with %s in the name's place the machine is called %q, expected the task's host name", what, name)
		}
	}
	if name := MachineName("/dev/null/x", "own", "n"); name != "own" {
		t.Errorf("without a folder the machine is called %q, expected the task's host name", name)
	}
}
