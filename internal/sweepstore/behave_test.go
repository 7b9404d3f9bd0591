package sweepstore_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/problem"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// TestBehaviour: what is written is read back, create-only objects stay as they are, and a damaged object of each kind
// means to every reader what internal/sweep/WIRE.md says. That every blob.Store behaves as the memory used here is
// package blobtest's part.
func TestBehaviour(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		test func(*tester)
	}{
		{"sweeps", (*tester).sweeps},
		{"created once", (*tester).createdOnce},
		{"absent", (*tester).absent},
		{"claims", (*tester).claims},
		{"results", (*tester).results},
		{"files", (*tester).files},
		{"checkpoints", (*tester).checkpoints},
		{"curves", (*tester).curves},
		{"decisions", (*tester).decisions},
		{"promotions", (*tester).promotions},
		{"gathered", (*tester).gathered},
		{"gathered folds", (*tester).gatheredFolds},
		{"rungs", (*tester).rungs},
		{"listing", (*tester).listing},
		{"strangers in a listing", (*tester).strangers},

		{"damaged plan", (*tester).damagedPlan},
		{"damaged claim", (*tester).damagedClaim},
		{"damaged heartbeat", (*tester).damagedHeartbeat},
		{"damaged result", (*tester).damagedResult},
		{"damaged curve", (*tester).damagedCurve},
		{"damaged decision", (*tester).damagedDecision},
		{"damaged end", (*tester).damagedEnd},

		{"contents that do not matter", (*tester).contentsDoNotMatter},
		{"cancelled", (*tester).cancelled},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()

			plan, bucket := newPlan(), blob.Memory()
			c.test(&tester{T: t, ctx: ctx, bucket: bucket, plan: plan,
				sweep: sweepstore.New(bucket, plan.Sweep), trials: sweepstore.NewTrials(bucket, plan)})
		})
	}
}

type tester struct {
	*testing.T
	ctx    context.Context
	bucket blob.Store
	plan   *sweep.Plan
	sweep  *sweepstore.Sweep
	trials *sweepstore.Trials
}

var at = time.Date(2026, 11, 22, 3, 4, 5, 0, time.UTC)

func newPlan() *sweep.Plan {
	p := &sweep.Plan{Format: 1, Sweep: "night-1", Created: at, Job: "projects/p/locations/l/jobs/night-1", Heartbeat: 1,
		Takeover: 2,
		Dataset:  sweep.DatasetRef{Name: "clicks", Version: "0123456789abcdef"},
		Holdout: sweep.Holdout{Valid: sweep.Rows{Split: "valid"}, Calib: sweep.Rows{Split: "calib"},
			Test: sweep.Rows{Split: "test"}},
		Fallback: []sweep.Sizing{{MachineType: "n2-highmem-8"}}}
	p.Spec.Model = "ctr"
	p.Spec.Machine.Fallback = make([]sweep.Fallback, 1)
	for i := range 4 {
		p.Trials = append(p.Trials, sweep.Trial{Number: i})
	}
	return p
}

// must fails unless a step succeeded.
func (t *tester) must(what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: got the error %v, want none", what, err)
	}
}

// created fails unless a create had the expected outcome.
func (t *tester) created(what string, want bool) func(bool, error) {
	t.Helper()
	return func(created bool, err error) {
		t.Helper()
		if err != nil || created != want {
			t.Fatalf("%s: created %t, error %v; want %t and none", what, created, err, want)
		}
	}
}

func (t *tester) equal(what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: read %+v, want %+v", what, got, want)
	}
}

// put writes any bytes under a name.
func (t *tester) put(name, data string) {
	t.Helper()
	if _, err := t.bucket.Put(t.ctx, name, blob.Any, strings.NewReader(data)); err != nil {
		t.Fatalf("put %s: %v", name, err)
	}
}

// putJSON writes v under a name, which its kind's writer would not do.
func (t *tester) putJSON(name string, v any) {
	t.Helper()
	data, err := json.Marshal(v)
	t.must("encode", err)
	t.put(name, string(data))
}

// text returns the contents of a name.
func (t *tester) text(name string) string {
	t.Helper()
	data, _, err := blob.ReadAll(t.ctx, t.bucket, name, 1<<20)
	t.must("read", err)
	return string(data)
}

// wantDamaged fails unless err says that the named object is damaged, and is permanent for every caller.
func (t *tester) wantDamaged(what string, err error, object string) {
	t.Helper()
	if !problem.Is(err, problem.Damaged) || !strings.HasPrefix(err.Error(), object+": ") {
		t.Errorf("%s: error %v; expected that %s is damaged", what, err, object)
	}
}

func (t *tester) claim(trial, number int) sweep.Claim {
	return sweep.Claim{Format: 1, Sweep: t.plan.Sweep, Trial: trial, Claim: number, Job: "night-1", Task: 3, Host: "vm",
		Nonce: fmt.Sprint("n", number), At: at}
}

func (t *tester) result(trial int) sweep.Result {
	o := func(file string) sweep.Object {
		return sweep.Object{Name: sweep.Names(t.plan.Sweep).Attempt(trial, 0) + file, Bytes: 1}
	}
	model := o("model.txt")
	return sweep.Result{Format: 1, Sweep: t.plan.Sweep, Trial: trial, Status: sweep.StatusDone, Score: 0.5,
		Model: &model, Scores: &sweep.Scored{Calib: o("calib.scores"), Test: o("test.scores")}, Started: at,
		Ended: at.Add(time.Minute)}
}

func (t *tester) list() []sweepstore.Listed {
	t.Helper()
	l, err := t.trials.List(t.ctx)
	t.must("list", err)
	if l.Ended.Before(l.Began) || len(l.Trials) != len(t.plan.Trials) {
		t.Fatalf("listing of %d trials from %s to %s", len(l.Trials), l.Began, l.Ended)
	}
	return l.Trials
}
