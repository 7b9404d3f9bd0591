package sweepview_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/engine"
	"coppice/internal/must"
	"coppice/internal/program"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/provision"
	"coppice/launcher/internal/sweepview"
)

// earlier writes a sweep whose trials have so many leaves, with the number of leaves as score.
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

// TestRead: the newest sweep first, of each the best first, what does not fit the space or the question left out.
func TestRead(t *testing.T) {
	bucket := blob.Memory()
	earlier(t, bucket, "zz-first", nil, 10, 30, 20)
	earlier(t, bucket, "another-model", func(p *sweep.Plan) { p.Spec.Model = "cvr" }, 11)
	earlier(t, bucket, "another-metric", func(p *sweep.Plan) { p.Spec.Metric = "log_loss" }, 12)
	earlier(t, bucket, "too-large", nil, 400)
	earlier(t, bucket, "aa-second", nil, 500, 15, 16)
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

// TestReadIsBounded: a bucket of many nights fills a plan with the newest of them only.
func TestReadIsBounded(t *testing.T) {
	bucket := blob.Memory()
	for n := range 3 * sweep.MaxEarlier {
		earlier(t, bucket, sweep.ID(fmt.Sprintf("night-%02d", n)), nil, 10)
	}
	found := must.Get(sweepview.Earlier(t.Context(), bucket, plan("tonight")))(t)
	if len(found) != sweep.MaxEarlier || found[0].Sweep != "night-29" || found[9].Sweep != "night-20" {
		t.Errorf("read %d sweeps; want the %d newest, the newest first", len(found), sweep.MaxEarlier)
	}
}

// TestReadMeans: a cross-validated sweep informs by the means of its configurations, also of those that were decided
// while it ran, under the number of their first fold.
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
	for trial, score := range []float64{0.5, 0.7, 0.8, 0.9, 0.95} { // one fold of the last configuration has not ended
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

// TestReadWithAllColumns: of a sweep that compared sets of columns only the set of all informs.
func TestReadWithAllColumns(t *testing.T) {
	bucket := blob.Memory()
	earlier(t, bucket, "sets", func(p *sweep.Plan) {
		p.Spec.Search = sweep.Search{Features: &sweep.Features{Try: sweep.TryDropOne,
			Groups: map[string][]string{"a": {"x"}, "b": {"y"}}}}
	}, 10, 30, 20)
	found, err := sweepview.Earlier(t.Context(), bucket, plan("tonight"))
	if err != nil || len(found) != 1 || len(found[0].Trials) != 1 || found[0].Trials[0].Trial != 0 {
		t.Errorf("found %+v, error %v; want trial 0 of the sweep alone", found, err)
	}
}

// TestReadNoPopulation: a population's scores are those of models that several configurations have trained.
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

// TestNotPromoted: if the winner is not promoted, the launcher ends with an exit code and a sentence of its own.
func TestNotPromoted(t *testing.T) {
	for verdict, says := range map[sweep.Verdict][2]string{
		sweep.VerdictNotPromoted:   {"", "log_loss 0.3 is not shown to be better"},
		sweep.VerdictNotComparable: {" (it cannot be compared)", `it needs the column "price"`},
		sweep.VerdictBlocked:       {" (blocked)", "blocked: a third of the labels is missing"},
	} {
		reason := says[1]
		c := &sweep.Conclusion{Sweep: "night-1", Outcome: sweep.OutcomeWinner, Model: "ctr", Version: 7,
			Gate: &sweep.GateDecision{Verdict: verdict, Reason: reason}}
		err := sweepview.NotPromoted(c)
		code := map[bool]int{true: sweep.ExitBlocked, false: sweep.ExitNotPromoted}[verdict == sweep.VerdictBlocked]
		got := program.ExitCode(t.Context(), err)
		if got != code ||
			!strings.Contains(err.Error(), "version 7 of ctr is registered and was not promoted"+says[0]+": "+reason) {
			t.Errorf("%s: %v, exit code %d", verdict, err, got)
		}
	}
}

// TestWhereLogsAre: on each engine, a sweep without a winner says where its tasks' logs are.
func TestWhereLogsAre(t *testing.T) {
	err := sweepview.NoWinner(&sweep.Conclusion{Sweep: "night-1", Reason: "x"}, "task 0 failed")
	for _, place := range []string{"Cloud Logging", "local cloud", "COPPICE_SLURM_FOLDER"} {
		if !strings.Contains(err.Error(), place) {
			t.Errorf("%v: want %s named", err, place)
		}
	}
}

// TestPatience: after which answers a watcher gives up, and with which message.
func TestPatience(t *testing.T) {
	gone, at := of(engine.Gone, ""), time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	waiting := sweepview.State{Board: sweep.Board{Waiting: 1}}
	for name, tc := range map[string]struct {
		answers []provision.SweepJob
		st      sweepview.State
		later   time.Duration
		says    string // empty if it keeps waiting
	}{
		"not yet visible":  {[]provision.SweepJob{gone, gone}, waiting, 0, ""},
		"gone":             {[]provision.SweepJob{gone, gone, gone}, waiting, 0, "its job is gone"},
		"there between":    {[]provision.SweepJob{gone, gone, of(engine.Waiting, ""), gone}, waiting, 0, ""},
		"there, long ago":  {[]provision.SweepJob{gone, of(engine.Running, "")}, waiting, time.Hour, ""},
		"all trials ended": {[]provision.SweepJob{gone, gone, gone}, sweepview.State{}, 0, ""},
		"being concluded": {[]provision.SweepJob{gone, gone, gone},
			sweepview.State{Board: waiting.Board, Ending: true}, 50 * time.Minute,
			""},
		"concluded too long": {[]provision.SweepJob{of(engine.Done, "")},
			sweepview.State{Ending: true}, 2 * time.Hour, "(job done)"},
		"not concluded at all": {[]provision.SweepJob{gone, gone, gone}, sweepview.State{}, time.Hour,
			"(job gone)"},
		"failed": {[]provision.SweepJob{of(engine.Failed, "exit code 3")}, waiting,
			time.Hour, "(job failed; exit code 3)"},
		"of another build": {[]provision.SweepJob{of(engine.Failed, "")},
			sweepview.State{Board: waiting.Board,
				Trouble: &sweep.Trouble{Refused: true, Text: "coppice v2 wrote it"}}, 0,
			"sweep x: coppice v2 wrote it; then start it again: nothing of it is lost"},
		"failed just now": {[]provision.SweepJob{of(engine.Failed, "")}, waiting, 0, ""},
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

// of is a job that is in the state.
func of(state engine.Phase, failure string) provision.SweepJob {
	return provision.SweepJob{JobStatus: engine.JobStatus{State: state, Failure: failure}, Finished: state.Ended()}
}

// TestWhatLookingCosts: the first look at a sweep reads each result once, and the next one only what is new, whether
// there are 200 trials or 400.
func TestWhatLookingCosts(t *testing.T) {
	var first, next, listed [2]int64
	for i, trials := range []int{200, 400} {
		_, p := world(t)
		p.Trials = nil
		for n := range trials {
			p.Trials = append(p.Trials, sweep.Trial{Number: n})
		}
		s := &blobtest.Counting{Store: blob.Memory()}
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
