package warm_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"coppice/blob"
	"coppice/launcher/internal/warm"
	"coppice/sweep"
	"coppice/sweepstore"
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
	if _, err := sweepstore.New(bucket, id).CreatePlan(t.Context(), *p); err != nil {
		t.Fatal(err)
	}
	for i, n := range leaves {
		o := sweep.Object{Name: sweep.Names(id).Attempt(i, 0) + "x"}
		r := sweep.Result{Format: 1, Sweep: id, Trial: i, Status: sweep.StatusDone, Score: n, Model: &o, Scores: &sweep.Scored{Calib: o, Test: o},
			Params: sweep.Params{"num_leaves": n, "seed": 1.0}}
		if _, err := sweepstore.NewTrials(bucket, p).CreateResult(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
}

func plan(id sweep.ID) *sweep.Plan {
	p := &sweep.Plan{Format: 1, Sweep: id, Created: time.Unix(1, 0).UTC(), Maximize: true, Heartbeat: 1, Takeover: 2, Base: sweep.Params{"seed": 1.0},
		Dataset: sweep.DatasetRef{Name: "clicks", Version: "0123456789abcdef"},
		Holdout: sweep.Holdout{Valid: sweep.Rows{Split: "valid"}, Calib: sweep.Rows{Split: "calib"}, Test: sweep.Rows{Split: "test"}}}
	p.Spec = sweep.Spec{Model: "ctr", Metric: "auc", Objective: "binary",
		Search: sweep.Search{Method: "auto", WarmStart: "auto", Random: map[string]sweep.Distribution{"num_leaves": {Int: []int64{4, 40}}}}}
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
	if _, err := bucket.Put(t.Context(), sweep.Names("damaged").Plan(), blob.Any, strings.NewReader("damaged")); err != nil {
		t.Fatal(err)
	}

	found, err := warm.Read(t.Context(), bucket, plan("tonight"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range found {
		for _, f := range e.Trials {
			got = append(got, fmt.Sprintf("%s/%d %v %v", e.Sweep, f.Trial, f.Score, f.Params))
		}
	}
	want := "aa-second/2 16 map[num_leaves:16]; aa-second/1 15 map[num_leaves:15]; zz-first/1 30 map[num_leaves:30]; zz-first/2 20 map[num_leaves:20]; zz-first/0 10 map[num_leaves:10]"
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
	found, err := warm.Read(t.Context(), bucket, plan("tonight"))
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != sweep.MaxEarlier || found[0].Sweep != "night-29" || found[9].Sweep != "night-20" {
		t.Errorf("read %d sweeps; want the %d newest, the newest first", len(found), sweep.MaxEarlier)
	}
}
