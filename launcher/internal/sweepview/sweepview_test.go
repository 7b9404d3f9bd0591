package sweepview_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/provision"
	"coppice/launcher/internal/sweepview"
)

func world(t *testing.T) (blob.Store, *sweep.Plan) {
	t.Helper()
	p := &sweep.Plan{Format: 1, Sweep: "night-1", Maximize: true, Heartbeat: 1, Takeover: 2,
		Sizing:  sweep.Sizing{Tasks: 2},
		Dataset: sweep.DatasetRef{Name: "clicks", Version: "0123456789abcdef"},
		Holdout: sweep.Holdout{Valid: sweep.Rows{Split: "valid"}, Calib: sweep.Rows{Split: "calib"},
			Test: sweep.Rows{Split: "test"}}}
	p.Spec.Model = "ctr"
	for i := range 5 {
		p.Trials = append(p.Trials, sweep.Trial{Number: i})
	}
	p.Spec.Limits.Sweep = sweep.Duration(time.Hour)
	s := blob.Memory()
	put(t, s, sweep.Names(p.Sweep).Plan(), p)
	return s, p
}

func put(t *testing.T, s blob.Store, name string, v any) {
	t.Helper()
	data := must.Get(json.Marshal(v))(t)
	must.Get(s.Put(t.Context(), name, blob.Any, strings.NewReader(string(data))))(t)
}

func result(p *sweep.Plan, trial int, score float64) sweep.Result {
	o := sweep.Object{Name: sweep.Names(p.Sweep).Attempt(trial, 0) + "x"}
	at := time.Unix(1000, 0)
	return sweep.Result{Format: 1, Sweep: p.Sweep, Trial: trial, Status: sweep.StatusDone, Score: score, Model: &o,
		Scores: &sweep.Scored{Calib: o, Test: o}, Started: at, Ended: at.Add(10 * time.Second)}
}

func TestLook(t *testing.T) {
	store, p := world(t)
	s := must.Get(sweepview.Open(t.Context(), store, p.Sweep))(t)
	look := func() sweepview.State {
		st := must.Get(s.Look(t.Context()))(t)
		return st
	}
	if st := look(); st.Board.Waiting != 5 || st.Running != 0 || st.Conclusion != nil || st.Cancelled {
		t.Errorf("before the first claim: got %+v; want five waiting trials and no conclusion", st)
	}
	if _, ok := s.Left(look()); ok {
		t.Error("an estimate from nothing")
	}
	for _, trial := range []int{0, 1, 2} {
		put(t, store, sweep.Names(p.Sweep).Claim(trial, 0), sweep.Claim{})
	}
	put(t, store, sweep.Names(p.Sweep).Claim(2, 1), sweep.Claim{})
	put(t, store, sweep.Names(p.Sweep).Result(0), result(p, 0, 0.5))
	put(t, store, sweep.Names(p.Sweep).Result(1), "damaged")
	st := look()
	if st.Running != 1 || st.Board.Done != 1 || st.Board.Failed != 1 || st.Board.Waiting != 3 ||
		st.Board.Best().Trial != 0 {
		t.Errorf("midway: got %+v; want one trial done, one failed, one running, three waiting, and trial 0 the best",
			st)
	}
	if left, ok := s.Left(st); !ok || left != (sweep.Range{Expected: 15}) { // 3 trials, 2 at once, 10 s each
		t.Errorf("left %v, want 15 s and no range of one trial", left)
	}
	s.Plan.Spec.Limits.Sweep = sweep.Duration(12 * time.Second)
	if left, ok := s.Left(st); !ok || left != (sweep.Range{Expected: 12}) {
		t.Errorf("left %v of a sweep that may take 12 s", left)
	}
	put(t, store, sweep.Names(p.Sweep).Cancel(), "x")
	put(t, store, sweep.Names(p.Sweep).Conclusion(), sweep.Conclusion{Format: 1, Sweep: p.Sweep,
		Outcome: sweep.OutcomeCancelled})
	if st := look(); !st.Cancelled || st.Conclusion.Outcome != sweep.OutcomeCancelled {
		t.Errorf("after a cancellation: got %+v; want it cancelled and concluded so", st)
	}
}

// TestWhoHoldsATrial: one that was promoted after a pause, or given back, waits for a task and does not run.
func TestWhoHoldsATrial(t *testing.T) {
	store, p := world(t)
	names := sweep.Names(p.Sweep)
	for trial := range 4 { // 0 runs, 1 was given back, 2 was paused, 3 was promoted, 4 has not begun
		put(t, store, names.Claim(trial, 0), sweep.Claim{})
		if trial > 0 {
			put(t, store, names.Release(trial, 0), sweep.Release{})
		}
		if trial > 1 {
			put(t, store, names.Pause(trial, 3), sweep.Pause{})
		}
	}
	put(t, store, names.Promotion(3, 3), sweep.Promotion{})
	s := must.Get(sweepview.Open(t.Context(), store, p.Sweep))(t)
	if st, err := s.Look(t.Context()); err != nil || st.Running != 1 || st.Ready != 2 || st.Paused != 1 {
		t.Errorf("of five trials %d run, %d wait for a task, %d are paused, error %v; want 1, 2 and 1", st.Running,
			st.Ready, st.Paused, err)
	}
	put(t, store, names.Claim(3, 1), sweep.Claim{})
	if st, err := s.Look(t.Context()); err != nil || st.Running != 2 || st.Ready != 1 {
		t.Errorf("after the promoted trial was claimed %d run and %d wait for a task, error %v; want 2 and 1",
			st.Running, st.Ready, err)
	}
}

// TestADamagedResultIsAFailedTrial: a watcher sees what the aggregator counts, and goes on watching.
func TestADamagedResultIsAFailedTrial(t *testing.T) {
	for name, contents := range map[string]any{
		"too long":         strings.Repeat("x", 17<<20),
		"of another trial": result(&sweep.Plan{Sweep: "night-1"}, 3, 0.9),
		"of another sweep": result(&sweep.Plan{Sweep: "night-2"}, 1, 0.9),
		"no result":        "damaged",
	} {
		store, p := world(t)
		s := must.Get(sweepview.Open(t.Context(), store, p.Sweep))(t)
		put(t, store, sweep.Names(p.Sweep).Claim(1, 0), sweep.Claim{})
		put(t, store, sweep.Names(p.Sweep).Result(1), contents)
		st, err := s.Look(t.Context())
		if err != nil {
			t.Errorf("a result that is %s: looking ended with %v, want a failed trial", name, err)
			continue
		}
		r := st.Board.Rows[1].Result
		if st.Board.Failed != 1 || st.Board.Done != 0 || st.Running != 0 || r == nil ||
			!strings.Contains(r.Reason, "cannot be read") {
			t.Errorf("a result that is %s: %d failed, %d done, %d running; want trial 1 failed, because it cannot "+
				"be read", name, st.Board.Failed, st.Board.Done, st.Running)
		}
	}
}

func TestOpen(t *testing.T) {
	store, p := world(t)
	if _, err := sweepview.Open(t.Context(), store, "absent"); !problem.Is(err, problem.NotFound) {
		t.Errorf("opening a sweep that does not exist: got %v, expected that it is not found", err)
	}
	if _, err := sweepview.Open(t.Context(), store, "../x"); err == nil || problem.Is(err, problem.NotFound) {
		t.Errorf("opening ../x: got %v, expected that it is no id", err)
	}
	put(t, store, sweep.Names(p.Sweep).Plan(), "damaged")
	if _, err := sweepview.Open(t.Context(), store, p.Sweep); !problem.Is(err, problem.Damaged) {
		t.Errorf("got %v", err)
	}
	put(t, store, "plans/other.json", "x")
	put(t, store, "plans/not a sweep", "x")
	var ids []sweep.ID
	var err error
	for id, wrong := range sweepstore.List(t.Context(), store) {
		ids, err = append(ids, id), errors.Join(err, wrong)
	}
	if err != nil || len(ids) != 2 || ids[0] != p.Sweep || ids[1] != "other" {
		t.Errorf("the sweeps are %v, error %v; want %s and other", ids, err, p.Sweep)
	}
}

// TestTheFinalTrainingIsNoTrial: while it runs, no trial does, and none is left to be started.
func TestTheFinalTrainingIsNoTrial(t *testing.T) {
	store, p := world(t)
	p.Base = sweep.Params{"num_leaves": 31.0}
	p.Trials[4].Refit, p.Spec.Final = true, &sweep.Final{Rows: sweep.FinalAll}
	put(t, store, sweep.Names(p.Sweep).Plan(), p)
	for i := range 4 {
		put(t, store, sweep.Names(p.Sweep).Result(i), result(p, i, 0.5))
	}
	put(t, store, sweep.Names(p.Sweep).Claim(4, 0), sweep.Claim{})
	s := must.Get(sweepview.Open(t.Context(), store, p.Sweep))(t)
	st := must.Get(s.Look(t.Context()))(t)
	if snap := s.Snapshot(st, provision.SweepJob{}); snap.NotStarted() != 0 || snap.Running != 0 || !snap.Final {
		t.Errorf("%d trials not started, %d running, final training %t; want 0, 0 and that it runs", snap.NotStarted(),
			snap.Running, snap.Final)
	}
}

// TestFewerMachinesTakeLonger: the time left is that of the machines that are there.
func TestFewerMachinesTakeLonger(t *testing.T) {
	store, p := world(t)
	put(t, store, sweep.Names(p.Sweep).Result(0), result(p, 0, 0.5))
	s := must.Get(sweepview.Open(t.Context(), store, p.Sweep))(t)
	st := must.Get(s.Look(t.Context()))(t)
	for running, want := range map[int]float64{0: 20, 1: 80, 2: 40, 4: 20} {
		job := provision.SweepJob{Machines: &provision.Machines{Running: running, Planned: 4}}
		if got := s.Snapshot(st, job).Left; got != want {
			t.Errorf("%d of 4 machines: %v s left, want %v", running, got, want)
		}
	}
}

// TestLeftOfASelection: two of five trials are of the second step, which takes as long as a trial even with a task for
// each, and waits for the first.
func TestLeftOfASelection(t *testing.T) {
	store, p := world(t)
	p.Sizing.Tasks, p.Base = 8, sweep.Params{"num_leaves": 31.0}
	p.Spec.Search.Features = &sweep.Features{Try: sweep.TryForward, Groups: map[string][]string{"a": {"x"}, "b": {"y"},
		"c": {"z"}}}
	p.Trials = append(p.Trials, sweep.Trial{Number: 5})
	for i := range p.Trials {
		p.Trials[i].Open = i > 0
	}
	put(t, store, sweep.Names(p.Sweep).Plan(), p)
	put(t, store, sweep.Names(p.Sweep).Result(0), result(p, 0, 0.5))
	s := must.Get(sweepview.Open(t.Context(), store, p.Sweep))(t)
	st := must.Get(s.Look(t.Context()))(t)
	if left, ok := s.Left(st); !ok || left != (sweep.Range{Expected: 20}) {
		t.Errorf("two steps of three and two trials with eight tasks, 10 s a trial: %v are left (%t), want 20s", left,
			ok)
	}
}

// TestTimeLeftHasARange: as wide as the trials differ, and none where fewer than five have ended.
func TestTimeLeftHasARange(t *testing.T) {
	for _, tc := range []struct {
		ended  int
		spread time.Duration
		want   sweep.Range
	}{{4, time.Second, sweep.Range{Expected: 30}}, {5, 0, sweep.Range{Low: 25, Expected: 25, High: 25}},
		{6, time.Second, sweep.Range{Low: 16, Expected: 20, High: 24}}} { // 2 x 1.095/10 x sqrt(1/6 + 1/4) of 20 s
		store, p := world(t)
		p.Trials = nil
		for i := range 10 {
			p.Trials = append(p.Trials, sweep.Trial{Number: i})
		}
		put(t, store, sweep.Names(p.Sweep).Plan(), p)
		for i := range tc.ended {
			r := result(p, i, 0.5)
			r.Ended = r.Ended.Add(tc.spread * time.Duration(2*(i%2)-1))
			put(t, store, sweep.Names(p.Sweep).Result(i), r)
		}
		s := must.Get(sweepview.Open(t.Context(), store, p.Sweep))(t)
		st := must.Get(s.Look(t.Context()))(t)
		left, _ := s.Left(st)
		for i, v := range []*float64{&left.Low, &left.Expected, &left.High} {
			if got, want := *v, []float64{tc.want.Low, tc.want.Expected, tc.want.High}[i]; math.Abs(got-want) > 1.2 {
				t.Errorf("%d of 10 ended, 10 s more or less %v: %+v left, want %+v", tc.ended, tc.spread, left, tc.want)
			}
		}
	}
}

// TestLatestIsNoOther: what is named @latest may be cancelled, so a plan that cannot be read does not make an older
// sweep the latest.
func TestLatestIsNoOther(t *testing.T) {
	s, p := world(t)
	put(t, s, sweep.Names("a-later").Plan(), p)
	for _, fault := range []blobtest.Fault{blobtest.Refused, blobtest.Forbidden, blobtest.Truncated} {
		bad := must.Get(blobtest.NewFaulty(t.Context(), s, fault, func(name string) bool {
			return name == sweep.Names("a-later").Plan()
		}))(t)
		if id, err := sweepview.Find(t.Context(), bad, sweepview.Latest); err != nil || id != "a-later" {
			t.Errorf("with a plan that is %s, the latest sweep is %q, %v, expected a-later", fault, id, err)
		}
	}
}

// TestAModelForASweep: whoever names a model where a sweep is wanted is told the model's newest sweeps.
func TestAModelForASweep(t *testing.T) {
	bucket := blob.Memory()
	for _, id := range []sweep.ID{"n1", "n2", "n3", "n4"} {
		earlier(t, bucket, id, nil, 10)
	}
	for name, want := range map[string]string{"ctr": "there is no sweep ctr; the newest of model ctr: n4, n3, n2",
		"cvr": "there is no sweep cvr; `launcher status` lists them"} {
		if id, err := sweepview.Find(t.Context(), bucket, name); !problem.Is(err, problem.NotFound) ||
			err.Error() != want {
			t.Errorf("%s: got %q, %v, want %q", name, id, err, want)
		}
	}
}
