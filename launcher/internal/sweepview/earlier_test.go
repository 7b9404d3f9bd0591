package sweepview_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/must"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
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
