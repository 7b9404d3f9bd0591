package sweepview_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/engine"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/program"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/provision"
	"coppice/launcher/internal/sweepview"
)

// world is a bucket with the plan of a sweep of five trials on two tasks, which may take an hour.
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

// put writes v as JSON.
func put(t *testing.T, s blob.Store, name string, v any) {
	t.Helper()
	data := must.Get(json.Marshal(v))(t)
	must.Get(s.Put(t.Context(), name, blob.Any, strings.NewReader(string(data))))(t)
}

// result is that of a trial that took ten seconds.
func result(p *sweep.Plan, trial int, score float64) sweep.Result {
	o := sweep.Object{Name: sweep.Names(p.Sweep).Attempt(trial, 0) + "x"}
	at := time.Unix(1000, 0)
	return sweep.Result{Format: 1, Sweep: p.Sweep, Trial: trial, Status: sweep.StatusDone, Score: score, Model: &o,
		Scores: &sweep.Scored{Calib: o, Test: o}, Started: at, Ended: at.Add(10 * time.Second)}
}

// TestLook looks at five trials on two tasks: first none is claimed; then one is done, one has a damaged result and one
// runs; at last the sweep is cancelled. In between three trials are left, two at once, of ten seconds each, which the
// one that is done took.
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
		t.Error("before any trial has ended: got an estimate of the time left, want none")
	}

	// Trial 0 is done, 1 has a damaged result, 2 runs as a second attempt.
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
	// Trials 2, 3 and 4, two at once, 10 s each as trial 0 took. The one that runs counts as a whole one.
	if left, ok := s.Left(st); !ok || left != (sweep.Range{Expected: 15}) {
		t.Errorf("left %v (%t), want 15 s and no range of one trial", left, ok)
	}
	s.Plan.Spec.Limits.Sweep = sweep.Duration(12 * time.Second)
	if left, ok := s.Left(st); !ok || left != (sweep.Range{Expected: 12}) {
		t.Errorf("left %v (%t) of a sweep that may take 12 s, want 12 s", left, ok)
	}

	// Cancelled, and concluded.
	put(t, store, sweep.Names(p.Sweep).Cancel(), "x")
	put(t, store, sweep.Names(p.Sweep).Conclusion(), sweep.Conclusion{Format: 1, Sweep: p.Sweep,
		Outcome: sweep.OutcomeCancelled})
	if st := look(); !st.Cancelled || st.Conclusion.Outcome != sweep.OutcomeCancelled {
		t.Errorf("after a cancellation: got %+v; want it cancelled and concluded so", st)
	}
}

// TestWhoHoldsATrial: a trial that was given back, or promoted after a pause, waits for a task: it is Ready and does
// not run until it is claimed again.
func TestWhoHoldsATrial(t *testing.T) {
	store, p := world(t)
	names := sweep.Names(p.Sweep)
	for trial := range 4 { // 0 runs, 1 was given back, 2 was paused, 3 was promoted, 4 has not begun
		put(t, store, names.Claim(trial, 0), sweep.Claim{})
		if trial > 0 {
			put(t, store, names.Release(trial, 0), sweep.Release{})
		}
		if trial > 1 {
			put(t, store, names.Pause(trial, 3), sweep.Pause{}) // at three trees
		}
	}
	put(t, store, names.Promotion(3, 3), sweep.Promotion{})
	s := must.Get(sweepview.Open(t.Context(), store, p.Sweep))(t)
	if st, err := s.Look(t.Context()); err != nil || st.Running != 1 || st.Ready != 2 || st.Paused != 1 {
		t.Errorf("of five trials %d run, %d wait for a task, %d are paused, error %v; want 1, 2 and 1", st.Running,
			st.Ready, st.Paused, err)
	}
	put(t, store, names.Claim(3, 1), sweep.Claim{}) // trial 3's second attempt
	if st, err := s.Look(t.Context()); err != nil || st.Running != 2 || st.Ready != 1 {
		t.Errorf("after the promoted trial was claimed %d run and %d wait for a task, error %v; want 2 and 1",
			st.Running, st.Ready, err)
	}
}

// TestASnapshotOfFolds: a snapshot of a cross-validated sweep counts configurations by state and names the best one,
// the first on the board. A state that it does not know counts as open. It also says what holds a task up.
func TestASnapshotOfFolds(t *testing.T) {
	store, p := world(t)
	s := must.Get(sweepview.Open(t.Context(), store, p.Sweep))(t)
	st := must.Get(s.Look(t.Context()))(t)
	for i, state := range []string{sweep.ConfigurationDone, sweep.ConfigurationDone, sweep.ConfigurationDone, "?",
		sweep.ConfigurationOpen, sweep.ConfigurationDropped, sweep.ConfigurationFailed, sweep.ConfigurationFailed} {
		st.Board.Configurations = append(st.Board.Configurations, sweep.Rated{Configuration: i, State: state})
	}
	st.Trouble = &sweep.Trouble{Task: 3, Text: "no room"}
	got := s.Snapshot(st, provision.SweepJob{})
	if want := "3 done, 1 dropped, 2 failed, 2 open"; got.Folds.String() != want ||
		got.Folds.Best != &st.Board.Configurations[0] || got.Trouble != "task 3: no room" {
		t.Errorf("got %s, the best %+v, trouble %q; want %s, the first, and task 3's", got.Folds, got.Folds.Best,
			got.Trouble, want)
	}
}

// TestADamagedResultIsAFailedTrial: a result that cannot be read, or is of another trial or sweep, is a failed trial,
// as it is for the aggregator. Looking does not fail because of it.
func TestADamagedResultIsAFailedTrial(t *testing.T) {
	for name, contents := range map[string]any{
		"too long":         strings.Repeat("x", 17<<20),                   // 16 MiB are allowed
		"of another trial": result(&sweep.Plan{Sweep: "night-1"}, 3, 0.9), // in the place of trial 1's
		"of another sweep": result(&sweep.Plan{Sweep: "night-2"}, 1, 0.9), // world's is night-1
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

// TestOpen: opening a sweep that does not exist, an impossible id and a damaged plan give errors of different kinds. A
// listing has all possible ids, whatever their plans hold.
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
		t.Errorf("opened a sweep with a damaged plan: got %v; want that kind", err)
	}
	put(t, store, "plans/other.json", "x")
	put(t, store, "plans/not a sweep", "x") // no possible id, since that has no blanks
	var ids []sweep.ID
	var err error
	for id, wrong := range sweepstore.List(t.Context(), store) {
		ids, err = append(ids, id), errors.Join(err, wrong)
	}
	if err != nil || len(ids) != 2 || ids[0] != p.Sweep || ids[1] != "other" {
		t.Errorf("the sweeps are %v, error %v; want %s and other", ids, err, p.Sweep)
	}
}

// TestTheFinalTrainingIsNoTrial: while only the final training runs, a snapshot counts no trial as running, and none as
// not started. Of the five trials of world the last is made the final training, and the other four are done.
func TestTheFinalTrainingIsNoTrial(t *testing.T) {
	store, p := world(t)
	p.Trials[4].Refit, p.Spec.Final = true, &sweep.Final{Rows: sweep.FinalAll} // a plan has both or neither
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

// TestFewerMachinesTakeLonger: four trials of ten seconds on two tasks take 20 s on all four machines, twice that on
// two and four times on one. Without any machine it is the time with all.
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

// TestLeftOfASelection: of a forward selection among three groups, three trials of the first step and two of the second
// are left. With eight tasks each step takes one trial's time, 10 s, and the second waits for the first: 20 s. Trial 0,
// of no step, is done.
func TestLeftOfASelection(t *testing.T) {
	store, p := world(t)
	p.Sizing.Tasks, p.Base = 8, sweep.Params{"num_leaves": 31.0} // a plan with open trials must have Base
	p.Spec.Search.Features = &sweep.Features{Try: sweep.TryForward, Groups: map[string][]string{"a": {"x"}, "b": {"y"},
		"c": {"z"}}}
	p.Trials = append(p.Trials, sweep.Trial{Number: 5}) // world's are 0 to 4
	for i := range p.Trials {
		p.Trials[i].Open = i > 0 // its step sets its parameters: the first one those of 1 to 3, the second of 4 and 5
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

// TestTimeLeftHasARange: from five ended trials on, the time left has a range, which is as wide as their times differ.
// Of ten trials on two tasks, some have ended. These took 10 s less the spread and 10 s plus the spread in turn.
func TestTimeLeftHasARange(t *testing.T) {
	for _, tc := range []struct {
		ended  int
		spread time.Duration
		want   sweep.Range
	}{
		{4, time.Second, sweep.Range{Expected: 30}},          // 6 trials are left, two at once, 10 s each
		{5, 0, sweep.Range{Low: 25, Expected: 25, High: 25}}, // 5 trials are left; equal times make no range
		// 4 trials are left. Two standard errors are 2 x 1.095/10 x sqrt(1/6 + 1/4) of 20 s: 2.83 s. 1.095 is
		// sqrt(6/5) times the spread.
		{6, time.Second, sweep.Range{Low: 17.17, Expected: 20, High: 22.83}},
	} {
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
			if got, want := *v, []float64{tc.want.Low, tc.want.Expected, tc.want.High}[i]; math.Abs(got-want) > 0.01 {
				t.Errorf("%d of 10 ended, 10 s more or less %v: %+v left, want %+v", tc.ended, tc.spread, left, tc.want)
			}
		}
	}
}

// TestLatestIsNoOther: @latest is the newest sweep even if its plan cannot be read. An older one must not take its
// place, since the command that names it may be cancel. Here a-later is the newest, as its plan was written last.
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

// TestAModelForASweep: if a model's name is given for a sweep's, the error names the model's three newest sweeps. If
// there is no model of that name either, the error says how to list sweeps.
func TestAModelForASweep(t *testing.T) {
	bucket := blob.Memory()
	for _, id := range []sweep.ID{"n1", "n2", "n3", "n4"} { // n4 is the newest
		earlier(t, bucket, id, nil, 10) // of the model ctr, as all that earlier writes
	}
	for name, want := range map[string]string{"ctr": "there is no sweep ctr; the newest of model ctr: n4, n3, n2",
		"cvr": "there is no sweep cvr; `launcher status` lists them"} {
		if id, err := sweepview.Find(t.Context(), bucket, name); !problem.Is(err, problem.NotFound) ||
			err.Error() != want {
			t.Errorf("%s: got %q, %v, want %q", name, id, err, want)
		}
	}
}

// earlier writes a sweep with one ended trial for each number of leaves, which is also its score. change, unless nil,
// edits the plan.
func earlier(t *testing.T, bucket blob.Store, id sweep.ID, change func(*sweep.Plan), leaves ...float64) {
	t.Helper()
	p := plan(id)
	if change != nil {
		change(p)
	}
	for i := range leaves {
		p.Trials = append(p.Trials, sweep.Trial{Number: i})
	}
	must.Get(sweepstore.New(bucket, id).CreatePlan(t.Context(), *p))(t)
	for i, n := range leaves {
		o := sweep.Object{Name: sweep.Names(id).Attempt(i, 0) + "x"}
		r := sweep.Result{Format: 1, Sweep: id, Trial: i, Status: sweep.StatusDone, Score: n, Model: &o,
			Scores: &sweep.Scored{Calib: o, Test: o},
			Params: sweep.Params{"num_leaves": n, "seed": 1.0}}
		must.Get(sweepstore.NewTrials(bucket, p).CreateResult(t.Context(), r))(t)
	}
}

// plan is the plan of a sweep without trials that searches 4 to 40 leaves, with a warm start.
func plan(id sweep.ID) *sweep.Plan {
	p := &sweep.Plan{Format: 1, Sweep: id, Created: time.Unix(1, 0).UTC(), Maximize: true, Heartbeat: 1, Takeover: 2,
		Base:    sweep.Params{"seed": 1.0},
		Dataset: sweep.DatasetRef{Name: "clicks", Version: "0123456789abcdef"},
		Holdout: sweep.Holdout{Valid: sweep.Rows{Split: "valid"}, Calib: sweep.Rows{Split: "calib"},
			Test: sweep.Rows{Split: "test"}}}
	p.Spec = sweep.Spec{Model: "ctr", Metric: "auc", Objective: "binary",
		Search: sweep.Search{Method: "auto", WarmStart: "auto",
			Random: map[string]sweep.Distribution{"num_leaves": {Int: []int64{4, 40}}}}}
	return p
}

// TestRead: Earlier returns the newest sweep first, and the best trial of each first, with the parameters that are
// searched. It leaves out sweeps of another model or metric, damaged ones, tonight's own, and trials outside of the
// space of 4 to 40 leaves. A trial's score is its number of leaves, and trials are numbered in the order given: of 10,
// 30 and 20 leaves trial 1 is the best.
func TestRead(t *testing.T) {
	bucket := blob.Memory()
	earlier(t, bucket, "zz-first", nil, 10, 30, 20)
	earlier(t, bucket, "another-model", func(p *sweep.Plan) { p.Spec.Model = "cvr" }, 11)
	earlier(t, bucket, "another-metric", func(p *sweep.Plan) { p.Spec.Metric = "log_loss" }, 12)
	earlier(t, bucket, "too-large", nil, 400)
	earlier(t, bucket, "aa-second", nil, 500, 15, 16) // newer than zz-first, though before it in the alphabet
	earlier(t, bucket, "tonight", nil, 39)
	must.Get(bucket.Put(t.Context(), sweep.Names("damaged").Plan(), blob.Any, strings.NewReader("damaged")))(t)

	found := must.Get(sweepview.Earlier(t.Context(), bucket, plan("tonight")))(t)
	var got []string
	for _, e := range found {
		for _, f := range e.Trials {
			got = append(got, fmt.Sprintf("%s/%d %v %v", e.Sweep, f.Trial, *f.Score, f.Params))
		}
	}
	want := "aa-second/2 16 map[num_leaves:16]; aa-second/1 15 map[num_leaves:15]; zz-first/1 30 " +
		"map[num_leaves:30]; zz-first/2 20 map[num_leaves:20]; zz-first/0 10 map[num_leaves:10]"
	if strings.Join(got, "; ") != want {
		t.Errorf("read %s\nwant %s", strings.Join(got, "; "), want)
	}
}

// TestReadIsBounded: of thirty nights, night-00 to night-29, Earlier returns the ten newest (MaxEarlier), the newest
// first.
func TestReadIsBounded(t *testing.T) {
	bucket := blob.Memory()
	for n := range 3 * sweep.MaxEarlier {
		earlier(t, bucket, sweep.ID(fmt.Sprintf("night-%02d", n)), nil, 10)
	}
	found := must.Get(sweepview.Earlier(t.Context(), bucket, plan("tonight")))(t)
	var got []sweep.ID
	for _, e := range found {
		got = append(got, e.Sweep)
	}
	if len(got) != sweep.MaxEarlier || got[0] != "night-29" || got[len(got)-1] != "night-20" {
		t.Errorf("read %v; want the %d from night-29 down to night-20", got, sweep.MaxEarlier)
	}
}

// TestReadMeans: of a cross-validated sweep Earlier returns the means of configurations whose folds have all ended,
// with the number of their first trial. That includes configurations whose parameters were decided while it ran.
func TestReadMeans(t *testing.T) {
	bucket := blob.Memory()
	p := plan("folds")
	p.Spec.Validate = &sweep.Validate{KFold: 2}
	half := func(f ...uint8) sweep.Rows { return sweep.Rows{Split: "train", Folds: f} }
	p.Folds = sweep.NewFolds("kfold", []sweep.Round{{Train: half(0, 1), Rated: half(2, 3)},
		{Train: half(2, 3), Rated: half(0, 1)}}, true)
	p.Trials = p.Folds.Expand([]sweep.Trial{{Source: "fixed", Params: sweep.Params{"num_leaves": 8.0, "seed": 1.0}},
		{Source: "gp", Open: true}, {Source: "gp", Open: true}})
	must.Get(sweepstore.New(bucket, p.Sweep).CreatePlan(t.Context(), *p))(t)
	// Trials 0 and 1 are the folds of the first configuration (mean .60), 2 and 3 those of the second (.85). Of the
	// third only trial 4 has ended, so that it is left out although .95 would be the best.
	for trial, score := range []float64{0.5, 0.7, 0.8, 0.9, 0.95} {
		of := p.Trials[trial]
		r := sweep.Result{Format: 1, Sweep: p.Sweep, Trial: trial, Status: sweep.StatusDone, Score: score,
			Configuration: of.Configuration, Fold: of.Fold, TrainRows: 10,
			Params: sweep.Params{"num_leaves": 8 + float64(of.Configuration), "seed": 1.0}}
		must.Get(sweepstore.NewTrials(bucket, p).CreateResult(t.Context(), r))(t)
	}

	found := must.Get(sweepview.Earlier(t.Context(), bucket, plan("tonight")))(t)
	got := ""
	for _, e := range found {
		for _, f := range e.Trials {
			got += fmt.Sprintf("%s/%d %.2f %v; ", e.Sweep, f.Trial, *f.Score, f.Params)
		}
	}
	if want := "folds/2 0.85 map[num_leaves:9]; folds/0 0.60 map[num_leaves:8]; "; got != want {
		t.Errorf("read %s\nwant %s", got, want)
	}
}

// TestReadWithAllColumns: of a sweep that compares sets of columns Earlier returns only the trial with all columns.
// With drop_one that is trial 0: trial 1 is without group a and trial 2 without group b. Trial 0 has the lowest of the
// scores 10, 30 and 20, so it is not returned for being the best.
func TestReadWithAllColumns(t *testing.T) {
	bucket := blob.Memory()
	earlier(t, bucket, "sets", func(p *sweep.Plan) {
		p.Spec.Search = sweep.Search{Features: &sweep.Features{Try: sweep.TryDropOne,
			Groups: map[string][]string{"a": {"x"}, "b": {"y"}}}}
	}, 10, 30, 20)
	found, err := sweepview.Earlier(t.Context(), bucket, plan("tonight"))
	if err != nil || len(found) != 1 || len(found[0].Trials) != 1 || found[0].Trials[0].Trial != 0 {
		t.Errorf("found %+v, error %v; want trial 0 alone, the only one with all columns", found, err)
	}
}

// TestReadNoPopulation: of population-based training Earlier returns nothing, since several configurations have trained
// each of its models. The four trials here are two generations of a population of two, all within the space.
func TestReadNoPopulation(t *testing.T) {
	bucket := blob.Memory()
	earlier(t, bucket, "bred", func(p *sweep.Plan) {
		p.Spec.Search.Method, p.Spec.Search.Population = sweep.MethodPBT, 2
		p.Spec.Search.WarmStart = ""
	}, 10, 30, 20, 15)
	found, err := sweepview.Earlier(t.Context(), bucket, plan("tonight"))
	if err != nil || len(found) != 0 {
		t.Errorf("found %+v, error %v; want nothing of a population", found, err)
	}
}

// TestNotPromoted: the error about a winner that was not promoted says which version, the verdict and the reason. Its
// exit code is ExitBlocked for a blocked dataset, else ExitNotPromoted.
func TestNotPromoted(t *testing.T) {
	for verdict, says := range map[sweep.Verdict][2]string{
		sweep.VerdictNotPromoted:   {"not promoted", "log_loss 0.3 is not shown to be better"},
		sweep.VerdictNotComparable: {"not comparable", `it needs the column "price"`},
		sweep.VerdictBlocked:       {"blocked", "blocked: a third of the labels is missing"},
	} {
		reason := says[1]
		c := &sweep.Conclusion{Sweep: "night-1", Outcome: sweep.OutcomeWinner, Model: "ctr", Version: 7,
			Gate: &sweep.GateDecision{Verdict: verdict, Reason: reason}}
		err := sweepview.NotPromoted(c)
		code := map[bool]int{true: sweep.ExitBlocked, false: sweep.ExitNotPromoted}[verdict == sweep.VerdictBlocked]
		got := program.ExitCode(t.Context(), err)
		if got != code ||
			!strings.Contains(err.Error(), "sweep night-1: ctr version 7 is not live: "+says[0]+": "+reason) {
			t.Errorf("%s: got %v, exit code %d; want exit code %d, and why the version is not live", verdict, err, got,
				code)
		}
	}
}

// TestWhereLogsAre: if the job has failed, the error about a sweep without a winner says where its tasks' logs are, for
// each engine: Batch, the local cloud and Slurm.
func TestWhereLogsAre(t *testing.T) {
	err := sweepview.NoWinner(&sweep.Conclusion{Sweep: "night-1", Reason: "x"}, "task 0 failed")
	for _, place := range []string{"Cloud Logging", "local cloud", "COPPICE_SLURM_FOLDER"} {
		if !strings.Contains(err.Error(), place) {
			t.Errorf("%v: want %s named", err, place)
		}
	}
}

// TestPatience: after these answers of the engine about a sweep's job, and some time later, a watcher gives up with the
// case's message, or keeps waiting. It gives up if three answers in a row say that the job is gone while a trial waits,
// at once if the job's programs refused the plan, and otherwise if the job has been finished or gone for longer than an
// aggregator needs: 3 minutes, or an hour once it has begun to conclude (Ending).
func TestPatience(t *testing.T) {
	gone, at := jobIn(engine.Gone, ""), time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	waiting := sweepview.State{Board: sweep.Board{Waiting: 1}}
	for name, tc := range map[string]struct {
		answers []provision.SweepJob
		st      sweepview.State
		later   time.Duration
		says    string // empty if it keeps waiting
	}{
		"not yet visible": {[]provision.SweepJob{gone, gone}, waiting, 0, ""},
		"gone":            {[]provision.SweepJob{gone, gone, gone}, waiting, 0, "its job is gone"},
		"there between":   {[]provision.SweepJob{gone, gone, jobIn(engine.Waiting, ""), gone}, waiting, 0, ""},
		"there, long ago": {[]provision.SweepJob{gone, jobIn(engine.Running, "")}, waiting, time.Hour, ""},
		// In sweepview.State{} no trial waits.
		"all trials ended": {[]provision.SweepJob{gone, gone, gone}, sweepview.State{}, 0, ""},
		"being concluded": {[]provision.SweepJob{gone, gone, gone},
			sweepview.State{Board: waiting.Board, Ending: true}, 50 * time.Minute, ""},
		"concluded too long": {[]provision.SweepJob{jobIn(engine.Done, "")},
			sweepview.State{Ending: true}, 2 * time.Hour, "(job done)"},
		"not concluded at all": {[]provision.SweepJob{gone, gone, gone}, sweepview.State{}, time.Hour,
			"(job gone)"},
		"failed": {[]provision.SweepJob{jobIn(engine.Failed, "exit code 3")}, waiting,
			time.Hour, "(job failed; exit code 3)"},
		"of another build": {[]provision.SweepJob{jobIn(engine.Failed, "")},
			sweepview.State{Board: waiting.Board,
				Trouble: &sweep.Trouble{Refused: true, Text: "coppice v2 wrote it"}}, 0,
			"sweep x: coppice v2 wrote it; then start it again: nothing of it is lost"},
		"failed just now": {[]provision.SweepJob{jobIn(engine.Failed, "")}, waiting, 0, ""},
	} {
		var p sweepview.JobWait
		for _, job := range tc.answers {
			p.Asked(job, at)
		}
		err := p.Lost("x", tc.st, tc.answers[len(tc.answers)-1], at.Add(tc.later))
		if tc.says == "" && err != nil || tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)) {
			t.Errorf("%s: got error %v; want %q, none if that is empty", name, err, tc.says)
		}
	}
}

// jobIn is a job that is in the state.
func jobIn(state engine.Phase, failure string) provision.SweepJob {
	return provision.SweepJob{JobStatus: engine.JobStatus{State: state, Failure: failure}, Finished: state.Ended()}
}

// TestWhatLookingCosts: the first look at a sweep reads each result once: of 400 trials it requests 200 objects more
// than of 200. The next look, after one more result, requests at most six objects, however many trials there are. For
// twice the trials it lists twice the names, or ten more at most. All trials but the last end before the first look.
func TestWhatLookingCosts(t *testing.T) {
	var first, next, listed [2]int64
	for i, trials := range []int{200, 400} {
		_, p := world(t)
		p.Trials = nil
		for n := range trials {
			p.Trials = append(p.Trials, sweep.Trial{Number: n})
		}
		s := blobtest.NewCounting(blob.Memory())
		put(t, s, sweep.Names(p.Sweep).Plan(), p)
		for n := range trials - 1 {
			put(t, s, sweep.Names(p.Sweep).Claim(n, 0), sweep.Claim{})
			put(t, s, sweep.Names(p.Sweep).Result(n), result(p, n, 0.5))
		}
		v := must.Get(sweepview.Open(t.Context(), s, p.Sweep))(t)
		look := func() int64 {
			s.Asked.Store(0)
			s.Listed.Store(0)
			must.Get(v.Look(t.Context()))(t)
			return s.Asked.Load()
		}
		first[i] = look()
		put(t, s, sweep.Names(p.Sweep).Result(trials-1), result(p, trials-1, 0.6))
		next[i], listed[i] = look(), s.Listed.Load()
	}
	t.Logf("the first look requests %d and %d objects, the next %d and %d, and lists %d and %d names", first[0],
		first[1], next[0], next[1], listed[0], listed[1])
	if first[1] != first[0]+200 || next[1] != next[0] || next[0] > 6 || listed[1] > 2*listed[0]+10 {
		t.Errorf("looking at 200 and 400 trials requests %d and %d objects at first, %d and %d later, and lists %d "+
			"and %d names; want one more for each result at first, the same later, and twice the names", first[0],
			first[1], next[0], next[1], listed[0], listed[1])
	}
}
