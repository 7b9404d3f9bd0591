package worker

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/dataset"
	"coppice/internal/problem"
	"coppice/internal/sweep"
)

// fill makes the scratch folder reject writes, and returns a function that undoes it.
func (w *world) fill(t *testing.T) (empty func()) {
	t.Helper()
	w.scratch = filepath.Join(w.scratch, "disk")
	if err := os.WriteFile(w.scratch, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(w.scratch); err != nil {
			t.Error(err)
		}
	}
}

// TestADiskThatIsFullForAWhile costs no attempt: the task waits until there is room.
func TestADiskThatIsFullForAWhile(t *testing.T) {
	w := newWorld(t, 2, nil)
	empty := w.fill(t)
	synctest.Test(t, func(t *testing.T) {
		timer := time.AfterFunc(5*time.Minute, empty)
		defer timer.Stop()
		if err := w.worker(0).Run(t.Context()); err != nil {
			t.Fatalf("a disk that took nothing for five minutes ended the attempt with %v, want all trials done", err)
		}
		for trial := range w.plan.Trials {
			if r := w.result(t, trial); r.Status != sweep.StatusDone {
				t.Errorf("trial %d: %s: %s; want it done", trial, r.Status, r.Reason)
			}
		}
	})
}

// TestADiskThatStaysFull: the task waits as long as another machine may need, and stops when the sweep ends or,
// finally, asks for another attempt.
func TestADiskThatStaysFull(t *testing.T) {
	for name, ended := range map[string]bool{"the sweep ends": true, "nobody ends it": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, nil)
			w.fill(t)
			synctest.Test(t, func(t *testing.T) {
				if ended {
					timer := time.AfterFunc(7*time.Minute, func() {
						e := sweep.Ending{Format: 1, Sweep: w.plan.Sweep, Trials: []int{}}
						if _, err := blobtest.CreateJSON(context.WithoutCancel(t.Context()), w.sweeps,
							sweep.Names(w.plan.Sweep).Ending(), e); err != nil {
							t.Error(err)
						}
					})
					defer timer.Stop()
				}

				start := time.Now()
				err := w.worker(0).Run(t.Context())
				waited := time.Since(start)
				if again := problem.Is(err, problem.Transient); again == ended || !ended &&
					waited < diskPatience-2*maxDiskPause || ended && (err != nil || waited > 9*time.Minute) {
					t.Errorf("after %s the attempt ended with %v; want no error soon after the sweep has ended, "+
						"else another attempt after about %s", waited, err, diskPatience)
				}
			})
		})
	}
}

// stuck is a store whose objects of some size never arrive.
type stuck struct{ blob.Store }

func (s stuck) Open(ctx context.Context, name string, r blob.Range) (io.ReadCloser, blob.Attrs, error) {
	if strings.HasSuffix(name, dataset.ManifestFile) {
		return s.Store.Open(ctx, name, r)
	}
	<-ctx.Done()
	return nil, blob.Attrs{}, ctx.Err()
}

// TestCancelledDuringTheCopy: neither the task that copies the dataset nor one that waits for it keeps its machine
// after the sweep's end.
func TestCancelledDuringTheCopy(t *testing.T) {
	w := newWorld(t, 1, nil)
	synctest.Test(t, func(t *testing.T) {
		timer := time.AfterFunc(5*time.Minute, func() {
			if _, err := blob.Create(context.WithoutCancel(t.Context()), w.sweeps, sweep.Names(w.plan.Sweep).Cancel(),
				[]byte("{}")); err != nil {
				t.Error(err)
			}
		})
		defer timer.Stop()

		start := time.Now()
		var tasks sync.WaitGroup
		for task := range 2 {
			tasks.Go(func() {
				worker := w.worker(task)
				worker.Datasets = stuck{w.datasets}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				if err := worker.Run(ctx); err != nil || time.Since(start) > 5*time.Minute+
					3*time.Duration(w.plan.Heartbeat) {
					t.Errorf("task %d ended with %v, %s after its dataset began not to arrive; want no error soon "+
						"after the sweep was cancelled, at five minutes", task, err, time.Since(start))
				}
			})
		}
		tasks.Wait()
	})
}

// spoiling damages something once, when an object whose name ends in suffix is written.
type spoiling struct {
	blob.Store
	suffix string
	spoil  func()
	once   sync.Once
}

func (s *spoiling) Put(ctx context.Context, name string, cond blob.Generation, r io.Reader) (blob.Attrs, error) {
	if strings.HasSuffix(name, s.suffix) {
		s.once.Do(s.spoil)
	}
	return s.Store.Put(ctx, name, cond, r)
}

// TestDamageUnderATrial: what is trained on a damaged copy is not a result, good or bad. The task continues with
// another copy, and the models are those of an undisturbed sweep.
func TestDamageUnderATrial(t *testing.T) {
	undisturbed := newWorld(t, 3, nil)
	if err := undisturbed.worker(0).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := undisturbed.models(t)

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
			worker.Sweeps = &spoiling{Store: w.sweeps, suffix: "trials/0001/claims/0", spoil: func() {
				if err := w.overwrite(tc.with, tc.files...); err != nil {
					t.Error(err)
				}
			}}
			if err := worker.Run(t.Context()); err != nil {
				t.Fatalf("a copy that was damaged under a trial ended the task with %v, want it to go on with "+
					"another copy", err)
			}
			if got := w.models(t); !maps.Equal(got, want) {
				t.Error("other models came out than of a sweep without damage")
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

// TestNoCheckpointOfADamagedCopy: labels or bins on the machine's disk change while a trial trains, and the machine is
// taken away before the end of the trial, where the copy would have been verified. Trees grown on wrong data must not
// be resumed, neither by the next attempt here, which fetches another copy, nor by another machine, which does not know
// of the damage.
func TestNoCheckpointOfADamagedCopy(t *testing.T) {
	calm := newWorld(t, 1, patient)
	if err := calm.worker(0).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := calm.models(t)

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
		first.Sweeps = &beats{w.sweeps, func(h sweep.Heartbeat) {
			switch {
			case spoilt == 0 && h.Trees >= 5:
				spoilt = h.Trees
				if err := w.overwrite(0, tc.file); err != nil {
					t.Error(err)
				}
			case spoilt > 0 && h.Trees >= spoilt+20:
				cancel()
			}
		}}
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
			t.Errorf("elsewhere %t: %s zeroed after %d trees, %d trees resumed: another model than without damage",
				tc.elsewhere, tc.file, spoilt, w.result(t, 0).Usage.ResumedTrees)
		}
	}
}

// TestACheckpointOutlivesItsCopy: a checkpoint is saved only after all data that it was trained on has been verified.
// So any task, on this machine or another, can resume from it, even if the copy is damaged later.
func TestACheckpointOutlivesItsCopy(t *testing.T) {
	calm := newWorld(t, 1, patient)
	if err := calm.worker(0).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := calm.models(t)

	for _, damaged := range []bool{false, true} {
		w := newWorld(t, 1, patient)
		w.interrupted(t, 0, 20)
		if damaged {
			if err := w.overwrite(0xff, dataset.TrainSplit+"/rows.arrow"); err != nil {
				t.Fatal(err)
			}
		}

		next := w.worker(0)
		next.Attempt = 1
		if err := next.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r := w.result(t, 0); r.Usage.ResumedTrees < 20 || !maps.Equal(w.models(t), want) {
			t.Errorf("copy damaged %t after a checkpoint of 20 trees: %d trees resumed, the model of an undisturbed "+
				"sweep: %t; want at least 20, and that model", damaged, r.Usage.ResumedTrees,
				maps.Equal(w.models(t), want))
		}
	}
}

// TestAnotherAttemptBelievesNoOldMark: a bad copy may be why there is another attempt.
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
