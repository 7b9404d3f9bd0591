package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"coppice/internal/blob"
	"coppice/internal/cloud"
	"coppice/internal/dataset"
	"coppice/internal/fit"
	"coppice/internal/gbt"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/program"
	"coppice/internal/protocol"
	"coppice/internal/sweep"
	"coppice/task/internal/stage"
)

// TestSameModelsHoweverManyTasks: one task with one thread, and three tasks with three threads each, train the same
// models. Each trial is claimed once, and its end is published once, with its score.
func TestSameModelsHoweverManyTasks(t *testing.T) {
	alone := newWorld(t, 7, nil)
	alone.run(t, 0)
	together := newWorld(t, 7, func(p *sweep.Plan) { p.Sizing.ThreadsPerTask = 3 })
	together.tasks(t, 3)
	a, b := alone.models(t), together.models(t)
	for i := range a {
		if a[i] != b[i] {
			t.Errorf("trial %d has other files with three tasks than with one, want the same", i)
		}
	}
	if n := len(together.published.messages); n != 7 {
		t.Errorf("%d messages for 7 trials, want one each", n)
	}
	for i, m := range together.published.messages {
		want := map[string]string{"sweep": "test-1", "trial": fmt.Sprint(m.Trial),
			"traceparent": m.Sweep.TraceParent("trial", fmt.Sprint(m.Trial))}
		if !maps.Equal(together.published.attrs[i], want) {
			t.Errorf("message %d has the attributes %v, want %v", i, together.published.attrs[i], want)
		}
		if r := together.result(t, m.Trial); m.Score != r.Score || m.Status != r.Status {
			t.Errorf("message %+v does not have the score and status of result %+v", m, r)
		}
	}
	for i := range 7 {
		if _, err := together.sweeps.Stat(t.Context(), "sweeps/test-1/trials/"+fmt.Sprintf("%04d", i)+
			"/claims/1"); !errors.Is(err, blob.ErrNotExist) {
			t.Errorf("trial %d: looked for a second claim: got error %v, want ErrNotExist", i, err)
		}
	}
}

// TestResultSaysWhatTheModelDoes: a trial's result has its score, metrics, number of trees and time, and names a model
// and scores that can be read.
func TestResultSaysWhatTheModelDoes(t *testing.T) {
	w := newWorld(t, 1, nil)
	w.run(t, 0)
	r := w.result(t, 0)
	if r.Score != r.Metrics["auc"] || len(r.Metrics) != 3 || !(r.Score > 0.55) || r.Trees < 1 ||
		r.TreesGrown < r.Trees || r.Usage.TrainSeconds <= 0 {
		t.Errorf("a finished trial: got %+v; want its AUC of over .55 as score, three metrics, trees and time", r)
	}
	text, _ := must.Get2(blob.ReadAll(t.Context(), w.sweeps, r.Model.Name, 1<<24))(t)
	m, err := gbt.ReadModel(bytes.NewReader(text))
	if err != nil || len(m.Trees) != r.Trees {
		t.Fatalf("the model has %d trees, %v, expected the %d that its result states", len(m.Trees), err, r.Trees)
	}
	data, _ := must.Get2(blob.ReadAll(t.Context(), w.sweeps, r.Scores.Test.Name, 1<<24))(t)
	scores, err := sweep.DecodeScores(data)
	if err != nil || len(scores) == 0 {
		t.Fatalf("%d scores of test, %v, expected some", len(scores), err)
	}
}

// TestABadCandidateIsAResult: a trial with a wrong parameter has a failed result with the reason. The task goes on with
// the others, also if no message can be published.
func TestABadCandidateIsAResult(t *testing.T) {
	w := newWorld(t, 3, func(p *sweep.Plan) { p.Trials[1].Params["num_leaves"] = "many" })
	w.published.err = errors.New("no broker") // and messages may be lost
	w.run(t, 0)
	if r := w.result(t, 1); r.Status != sweep.StatusFailed || !strings.Contains(r.Reason, "num_leaves") {
		t.Errorf("a wrong num_leaves: the trial is %s: %s; want it failed, with num_leaves as the reason", r.Status,
			r.Reason)
	}
	for _, i := range []int{0, 2} {
		w.done(t, i)
	}
}

// TestEarlierClaims: a task takes a trial that has claims over at once if an earlier attempt of its own made the last
// one, or if that was released. Otherwise it takes the trial over after a minute, the takeover time, and at most three
// heartbeats, of a second each. A trial on which five tasks have died has failed. The cases are claims on the second of
// two trials; the first is trained in any case.
func TestEarlierClaims(t *testing.T) {
	for _, tc := range []struct {
		name          string
		by, claims    int // the task that made them, and how many, each in another attempt
		released      bool
		task, attempt int
		job           string

		claim    int // that ends the trial
		from, to time.Duration
		failed   string
	}{
		{"of a dead task", 9, 1, false, 0, 0, "", 1, time.Minute, 63 * time.Second, ""},
		{"of its own attempt before", 4, 1, false, 4, 1, "", 1, 0, 2 * time.Second, ""},
		// a sweep that could not get its first machines has a second job; the first one's task may be alive
		{"of the same task in another job", 4, 1, false, 4, 1, "nightly-1-f1", 1, time.Minute, 63 * time.Second, ""},
		// Claims that were released are no deaths, however many there are.
		{"released", 9, 2 * sweep.MaxClaims, true, 0, 0, "", 2 * sweep.MaxClaims, 0, 10 * time.Second, ""},
		// It is given up without a claim of its own: the result is under the last claim, numbered from 0.
		{"of five that died of it", 9, sweep.MaxClaims, false, 0, 0, "", sweep.MaxClaims - 1, time.Minute,
			63 * time.Second, "5 tasks died while training it"},
	} {
		w := newWorld(t, 2, nil)
		names := sweep.Names(w.plan.Sweep)
		synctest.Test(t, func(t *testing.T) {
			for claim := range tc.claims {
				w.claimed(t, 1, claim, tc.by, claim)
				if tc.released {
					w.put(t, names.Release(1, claim), "{}")
				}
			}
			worker, start := w.worker(tc.task), time.Now()
			worker.Job, worker.Attempt = tc.job, tc.attempt
			runs(t, worker)

			var c sweep.Claim
			r, took := w.result(t, 1), time.Since(start)
			_, err := blob.ReadJSON(t.Context(), w.sweeps, names.Claim(1, r.Claim), &c)
			if err != nil || c.Job != tc.job || r.Claim != tc.claim || r.Attempt != tc.attempt || took < tc.from ||
				took > tc.to {
				t.Errorf("%s: ended after %s: %+v, under claim %+v (error %v); want claim %d of job %q and attempt "+
					"%d, after %s to %s", tc.name, took, r, c, err, tc.claim, tc.job, tc.attempt, tc.from, tc.to)
			}
			want := sweep.StatusDone
			if tc.failed != "" {
				want = sweep.StatusFailed
			}
			if r.Status != want || !strings.Contains(r.Reason, tc.failed) {
				t.Errorf("%s: it ended %s: %s; want %s %q", tc.name, r.Status, r.Reason, want, tc.failed)
			}
			if r := w.result(t, 0); r.Status != sweep.StatusDone {
				t.Errorf("%s: the other trial: got %+v; want it done", tc.name, r)
			}
		})
	}
}

// TestWhileItTrains: a training ends at its next heartbeat if the sweep was cancelled, or if another task has taken
// over or ended the trial. The other task's result stays. Only after a cancellation the task does not go on with the
// next trial.
func TestWhileItTrains(t *testing.T) {
	other := sweep.Result{Format: 1, Sweep: "test-1", Trial: 0, Status: sweep.StatusFailed, Reason: "by another task"}
	for name, tc := range map[string]struct {
		write  func(*world, sweep.Names)
		reason string
		goesOn bool
	}{
		"cancelled": {func(w *world, n sweep.Names) { w.put(t, n.Cancel(), "{}") }, errCancelled.Error(), false},
		"superseded": {func(w *world, n sweep.Names) {
			w.claimed(t, 0, 1, 7, 0)
			w.putJSON(t, n.Result(0), other)
		}, other.Reason, true},
		"ended": {func(w *world, n sweep.Names) { w.putJSON(t, n.Result(0), other) }, other.Reason, true},
	} {
		w := newWorld(t, 2, slow)
		names := sweep.Names(w.plan.Sweep)
		worker := w.worker(0)
		worker.Sweeps = before(w.sweeps, "heartbeats", func() { tc.write(w, names) })
		runs(t, worker)
		r := w.result(t, 0)
		want := other.Status
		if !tc.goesOn {
			want = sweep.StatusCancelled
		}
		if r.Status != want || r.Reason != tc.reason {
			t.Errorf("%s: trial 0 ended %s: %s; want %s: %s", name, r.Status, r.Reason, want, tc.reason)
		}
		if _, err := w.sweeps.Stat(t.Context(), names.Claim(1, 0)); (err == nil) != tc.goesOn {
			t.Errorf("%s: the next trial was claimed: %v; want it %t", name, err, tc.goesOn)
		} else if tc.goesOn && w.result(t, 1).Status != sweep.StatusDone {
			t.Errorf("%s: the next trial: got %+v; want it done", name, w.result(t, 1))
		}
	}
}

// TestLeavesTheLivingAlone: a task does not take over a trial whose holder writes heartbeats, and ends without it.
func TestLeavesTheLivingAlone(t *testing.T) {
	w := newWorld(t, 2, nil)
	synctest.Test(t, func(t *testing.T) {
		w.claimed(t, 1, 0, 9, 0)
		ctx, stop := context.WithCancel(t.Context())
		var other sync.WaitGroup
		other.Go(func() { // the other task's heartbeat
			for i := 0; pause(ctx, 700*time.Millisecond) == nil; i++ {
				w.put(t, sweep.Names(w.plan.Sweep).Heartbeat(1, 0), strconv.Itoa(i))
			}
		})
		w.run(t, 0)
		stop()
		other.Wait()
		_, err := w.sweeps.Stat(t.Context(), sweep.Names(w.plan.Sweep).Claim(1, 1))
		if !errors.Is(err, blob.ErrNotExist) {
			t.Errorf("looked for a claim after that of the living holder: got error %v, want ErrNotExist", err)
		}
	})
}

// TestTheFirstResultWins: if another task has written a trial's result just before, that result stays, and this task
// publishes no message.
func TestTheFirstResultWins(t *testing.T) {
	w := newWorld(t, 1, nil)
	first := sweep.Result{Format: 1, Sweep: "test-1", Trial: 0, Claim: 1, Status: sweep.StatusFailed, Reason: "mine"}
	worker := w.worker(0)
	worker.Sweeps = before(w.sweeps, "result.json", func() {
		w.putJSON(t, sweep.Names(w.plan.Sweep).Result(0), first)
	})
	runs(t, worker)
	if r := w.result(t, 0); r.Reason != "mine" || len(w.published.messages) != 0 {
		t.Errorf("the result is %+v after %d messages; want the one that was written first, and no message", r,
			len(w.published.messages))
	}
}

// errBroken is the error of a store that fails.
var errBroken = errors.New("storage is out of reach")

// TestStorageFailures: a task that cannot write a claim, a file or a result ends with a transient error, so that Batch
// tries again. One that cannot write heartbeats, checkpoints or curves trains its trial all the same.
func TestStorageFailures(t *testing.T) {
	for part, ends := range map[string]bool{"claims": true, "model.txt": true, "test.scores": true, "result.json": true,
		"heartbeats": false, "checkpoints": false, "/curves/": false} {
		w := newWorld(t, 1, long)
		worker := w.worker(0)
		worker.Sweeps = broken(w.sweeps, part)
		switch err := worker.Run(t.Context()); {
		case ends && (!problem.Is(err, problem.Transient) || !errors.Is(err, errBroken)):
			t.Errorf("the store fails at %s: the worker ended with %v; want a transient error that wraps errBroken",
				part, err)
		case !ends && (err != nil || w.result(t, 0).Status != sweep.StatusDone):
			t.Errorf("the store fails at %s: the worker ended with %v; want the trial done", part, err)
		}
	}
}

// TestDamagedDatasetIsPermanent: a damaged or missing dataset is an error that is not transient, since no other attempt
// would mend it.
func TestDamagedDatasetIsPermanent(t *testing.T) {
	w := newWorld(t, 1, nil)
	name := sweep.DatasetDir(w.plan.Dataset.Name, w.plan.Dataset.Version) + "train/rows.arrow"
	data, _ := must.Get2(blob.ReadAll(t.Context(), w.datasets, name, 1<<26))(t)
	data[len(data)/2] ^= 1
	must.Get(w.datasets.Put(t.Context(), name, blob.Any, bytes.NewReader(data)))(t)
	err := w.worker(0).Run(t.Context())
	var corrupt *dataset.CorruptError
	if !errors.As(err, &corrupt) || problem.Is(err, problem.Transient) {
		t.Errorf("a changed byte in train/rows.arrow: error %v, want a lasting *dataset.CorruptError", err)
	}
	missing := newWorld(t, 1, func(p *sweep.Plan) { p.Dataset.Version = "0000000000000000" })
	if err := missing.worker(0).Run(t.Context()); !errors.Is(err, blob.ErrNotExist) ||
		problem.Is(err, problem.Transient) {
		t.Errorf("a dataset that is not there: error %v, want a lasting blob.ErrNotExist", err)
	}
}

// TestAnEndedSweepTrainsNothing: a task that starts after the sweep's ending was written writes nothing about any
// trial.
func TestAnEndedSweepTrainsNothing(t *testing.T) {
	w := newWorld(t, 2, nil)
	w.putJSON(t, sweep.Names(w.plan.Sweep).Ending(), sweep.Ending{Format: 1, Sweep: w.plan.Sweep})
	w.run(t, 0)
	for attrs, err := range w.sweeps.List(t.Context(), sweep.Names(w.plan.Sweep).Trials()) {
		t.Errorf("the sweep has %q (%v), want nothing of a trial", attrs.Name, err)
	}
}

// TestAliveWhileUploading: a task keeps its trial while it uploads a file, even if that takes five times the takeover
// time and another task starts meanwhile.
func TestAliveWhileUploading(t *testing.T) {
	w := newWorld(t, 1, nil)
	synctest.Test(t, func(t *testing.T) {
		store := w.sweeps
		first := w.worker(0)
		var second sync.WaitGroup
		first.Sweeps = before(store, "calib.scores", func() {
			second.Go(func() { w.run(t, 1) })
			if err := pause(t.Context(), 5*time.Duration(w.plan.Takeover)); err != nil {
				t.Error(err)
			}
		})
		runs(t, first)
		second.Wait()
		if r := w.result(t, 0); r.Claim != 0 {
			t.Errorf("the trial was taken over during the upload: %+v, want claim 0", r)
		}
	})
}

// TestAHeartbeatThatHangs: a heartbeat that the store does not answer delays the holder by at most a quarter of the
// takeover time. The holder notices all the same that the sweep was cancelled, or that another task has taken over or
// ended its trial.
func TestAHeartbeatThatHangs(t *testing.T) {
	names := sweep.Names("test-1")
	for name, tc := range map[string]struct {
		object string
		want   error
	}{
		"nothing happened": {"", nil},
		"cancelled":        {names.Cancel(), errCancelled},
		"superseded":       {names.Claim(0, 1), errSuperseded},
		"ended":            {names.Result(0), errEndedElsewhere},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, nil)
			if tc.object != "" {
				w.put(t, tc.object, "{}")
			}
			synctest.Test(t, func(t *testing.T) {
				worker := w.worker(0)
				worker.Sweeps = instead(w.sweeps, "/heartbeats/", func(ctx context.Context) error {
					<-ctx.Done()
					return ctx.Err()
				})
				must.Do(t, worker.open(t.Context()))

				training, abort := context.WithCancelCause(t.Context())
				defer abort(nil)
				start := time.Now()
				err := worker.beat(t.Context(), &sweep.Claim{Trial: 0}, &pulse{sampled: start}, abort)
				if took, limit := time.Since(start), time.Duration(w.plan.Takeover)/4; !errors.Is(err,
					context.DeadlineExceeded) || took > limit {
					t.Errorf("a heartbeat that hangs took %s and ended with %v; want it to miss its deadline within %s",
						took, err, limit)
				}
				if got := context.Cause(training); !errors.Is(got, tc.want) {
					t.Errorf("after a heartbeat that hung the training was ended with %v, want %v", got, tc.want)
				}
			})
		})
	}
}

// TestClassify: classify says why a training ended early, by its error, the error of the task's context, and the cause
// for which the trial's context was cancelled. Where several reasons hold, the one that comes first in the table
// counts.
func TestClassify(t *testing.T) {
	store := problem.As(problem.Transient, errors.New("the store is gone"))
	damaged, paused := fmt.Errorf("%w: found late", errCopy), &pausedError{3}
	told, stopped := context.Canceled, &stoppedError{3, .5, "others are better"}
	bad := errors.New("num_leaves is wrong")

	for _, tc := range []struct {
		name             string
		err, told, cause error
		why              protocol.Why
		reason           error
	}{
		{"trained", nil, nil, nil, protocol.NoReason, nil},
		{"trained, though told to go", nil, told, told, protocol.NoReason, nil},
		{"trained, though superseded", nil, nil, errSuperseded, protocol.NoReason, nil},

		{"told to go", told, told, told, protocol.ToldToGo, told},
		{"told to go, and superseded", told, told, errSuperseded, protocol.ToldToGo, told},
		{"told to go, and the sweep is over", told, told, errCancelled, protocol.ToldToGo, told},
		{"told to go, and paused", paused, told, told, protocol.ToldToGo, told},
		{"told to go, and wrong", bad, told, told, protocol.ToldToGo, told},

		{"superseded", told, nil, errSuperseded, protocol.Superseded, errSuperseded},
		{"superseded, without a store", store, nil, errSuperseded, protocol.Superseded, errSuperseded},
		{"ended elsewhere", told, nil, errEndedElsewhere, protocol.EndedElsewhere, errEndedElsewhere},
		{"ended elsewhere, on a damaged copy", damaged, nil, errEndedElsewhere, protocol.EndedElsewhere,
			errEndedElsewhere},

		{"without a store", store, nil, nil, protocol.Broken, store},
		{"without a store, the sweep cancelled", store, nil, errCancelled, protocol.NoReason, nil},
		{"without a store, the sweep concluded", store, nil, errEnded, protocol.NoReason, nil},
		{"on a damaged copy", damaged, nil, nil, protocol.Broken, damaged},
		{"on a damaged copy, the sweep cancelled", damaged, nil, errCancelled, protocol.NoReason, nil},

		{"paused", paused, nil, nil, protocol.Paused, paused},
		{"paused, the sweep cancelled", paused, nil, errCancelled, protocol.Paused, paused},

		{"behind others", stopped, nil, nil, protocol.NoReason, nil},
		{"at its limit", gbt.ErrLimit, nil, nil, protocol.NoReason, nil},
		{"wrong", bad, nil, nil, protocol.NoReason, nil},
		{"the sweep cancelled", told, nil, errCancelled, protocol.NoReason, nil},
	} {
		if why, reason := classify(tc.err, tc.told, tc.cause); why != tc.why || !errors.Is(reason, tc.reason) {
			t.Errorf("%s: got %d (%v), want %d (%v)", tc.name, why, reason, tc.why, tc.reason)
		}
	}
}

// TestWhatIsWorthAnotherAttempt: retryable makes an error transient, so that Batch retries the task, unless it is about
// the input, the setup, damaged or missing objects, or another version.
func TestWhatIsWorthAnotherAttempt(t *testing.T) {
	for _, tc := range []struct {
		err       error
		permanent bool
	}{
		{errors.New("connection reset"), false},
		{context.Canceled, false},
		{fs.ErrPermission, false},
		{fs.ErrNotExist, true},
		{sweep.NotA("plan", errors.New("x")), true},
		{problem.New(problem.Damaged, "x"), true},
		{&dataset.CorruptError{}, true},
		{stage.ErrVersion, true},
		{problem.New(problem.Input, "x"), true},
		{problem.New(problem.Conflict, "x"), false},
		{&cloud.SetupError{}, true},
		{&cloud.PermissionError{}, true},
		{fmt.Errorf("%w: split valid", fit.ErrNoRows), true},
	} {
		err := retryable(fmt.Errorf("a: %w", tc.err))
		if transient := problem.Is(err, problem.Transient); transient == tc.permanent {
			t.Errorf("%T: transient %t, expected %t", tc.err, transient, !tc.permanent)
		}
	}
	if err := retryable(nil); err != nil {
		t.Errorf("no error became %v", err)
	}
}

// TestATaskToldToStopIsTriedAgain: Transient gives every error the exit code that Batch retries, whatever its kind. It
// is for a task that was told to stop.
func TestATaskToldToStopIsTriedAgain(t *testing.T) {
	for _, cause := range []error{
		errors.New("connection reset"),
		fs.ErrNotExist,
		problem.New(problem.Damaged, "x"),
		&dataset.CorruptError{},
		stage.ErrVersion,
		problem.New(problem.Input, "x"),
		problem.New(problem.Conflict, "x"),
		&cloud.PermissionError{},
	} {
		err := Transient(fmt.Errorf("a: %w", cause))
		if code := program.ExitCode(t.Context(), err); code != sweep.ExitTransient {
			t.Errorf("a task told to stop that met %T ended with exit code %d, expected %d", cause, code,
				sweep.ExitTransient)
		}
	}
}
