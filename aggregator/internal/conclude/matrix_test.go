package conclude

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/dataset"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// TestFaultsOfEveryObject is the matrix of what an aggregator does about an object with which something is wrong for
// good, by the table of internal/sweep/WIRE.md. A row is a kind of objects, the columns are the faults. The sweep is
// concluded with the
//
//	best      or the next trial,
//	none      without a winner,
//	kept      best, and the champion stays as it is,
//
// or it
//
//	goes on, waits for a person who is told (stuck, setup), or for the next check (again).
func TestFaultsOfEveryObject(t *testing.T) {
	plain := newWorld(t, options{})
	plain.mustConclude(t)
	second := newWorld(t, options{into: plain, sweep: "night-2", leaves: []int{2, 31, 6}, trees: 40,
		change: func(p *sweep.Plan) { p.Spec.Gate.Margin = 1 }})
	names, prefix := sweep.Names("night-2"), sweep.DatasetDir(second.plan.Dataset.Name, second.plan.Dataset.Version)
	undisturbed := &world{datasets: second.datasets, sweeps: without(t, second.sweeps),
		models: without(t, second.models), now: second.now, plan: second.plan}
	c := undisturbed.mustConclude(t)
	best := c.Trial
	if got := comesTo(c, nil, best); got != "best" {
		t.Fatalf("undisturbed: %q, %+v; want the best trial to win and to be promoted", got, c)
	}
	with := func(create func(context.Context, *sweepstore.Sweep) (bool, error)) func(t *testing.T, w *world) {
		return func(t *testing.T, w *world) {
			if ok, err := create(t.Context(), sweepstore.New(w.sweeps, "night-2")); !ok || err != nil {
				t.Fatalf("prepare: created %t, error %v", ok, err)
			}
		}
	}
	nothing := func(*testing.T, *world) {}

	for _, row := range []struct {
		kind  string
		match string
		begin func(*testing.T, *world)
		late  bool // long after the ending
		want  [5]string
	}{
		{"plan", names.Plan(), nothing, false, [5]string{"stuck", "setup", "again", "stuck", "goes on"}},
		{"result of the best", names.Result(best), nothing, false, [5]string{"next", "setup", "again", "next",
			"goes on"}},
		{"its model", names.Attempt(best, 0) + "model.txt", nothing, false, [5]string{"next", "setup", "again", "next",
			"next"}},
		{"its scores", names.Attempt(best, 0) + "test.scores", nothing, false,
			[5]string{"next", "setup", "again", "next", "next"}},
		{"its model, later", names.Attempt(best, 0) + "model.txt", nothing, true,
			[5]string{"next", "setup", "next", "next", "next"}},
		{"cancellation", names.Cancel(), with(func(ctx context.Context, s *sweepstore.Sweep) (bool, error) {
			return s.Cancel(ctx, created)
		}), false, [5]string{"cancelled", "setup", "again", "cancelled", "best"}},
		{"ending", names.Ending(), with(func(ctx context.Context, s *sweepstore.Sweep) (bool, error) {
			return s.CreateEnding(ctx, sweep.Ending{Format: 1, Sweep: "night-2", At: created, Trials: []int{0, 1, 2}})
		}), false, [5]string{"stuck", "setup", "again", "stuck", "best"}},
		{"conclusion", names.Conclusion(), with(func(ctx context.Context, s *sweepstore.Sweep) (bool, error) {
			return s.CreateConclusion(ctx, sweep.Conclusion{Format: 1, Sweep: "night-2",
				Outcome: sweep.OutcomeNoWinner, At: created, Reason: "x"})
		}), false, [5]string{"stuck", "setup", "again", "stuck", "best"}},
		{"manifest", prefix + dataset.ManifestFile, nothing, false, [5]string{"none", "setup", "again", "none",
			"none"}},
		{"sample", prefix + dataset.SampleFile, nothing, false, [5]string{"none", "setup", "again", "none", "none"}},
		{"targets", prefix + dataset.TargetsFile("test"), nothing, false, [5]string{"none", "setup", "again", "none",
			"none"}},
		{"champion's alias", "registry/ctr/aliases/champion.json", nothing, false,
			[5]string{"kept", "setup", "again", "kept", "best"}},
		{"champion's record", "registry/ctr/versions/1/version.json", nothing, false,
			[5]string{"kept", "setup", "again", "kept", "kept"}},
		{"champion's model", "registry/ctr/versions/1/" + scorer.FileModel, nothing, false,
			[5]string{"kept", "setup", "again", "kept", "kept"}},
		// The alias holds its last event itself, and the one before it led to the version before.
		{"champion's event", "registry/ctr/history/champion/00000001.json", nothing, false,
			[5]string{"best", "best", "best", "best", "best"}},
	} {
		t.Run(row.kind, func(t *testing.T) {
			for i, fault := range blobtest.Faults {
				var c *sweep.Conclusion
				var err error
				synctest.Test(t, func(t *testing.T) {
					w := &world{datasets: second.datasets, models: second.models, now: created.Add(time.Hour),
						plan: second.plan}
					w.sweeps = without(t, second.sweeps)
					row.begin(t, w)
					struck := 0
					for _, s := range []*blob.Store{&w.datasets, &w.sweeps, &w.models} {
						bad := must.Get(blobtest.NewFaulty(t.Context(), *s, fault, func(name string) bool {
							return name == row.match
						}))(t)
						*s, struck = bad, struck+bad.Struck()
					}
					if struck != 1 {
						t.Fatalf("%s: %d objects, want one", row.kind, struck)
					}
					a := w.aggregator()
					c, err = a.Consider(t.Context(), "night-2")
					if row.late {
						w.now = w.now.Add(filePatience)
						c, err = a.Consider(t.Context(), "night-2")
					}
				})
				if got := comesTo(c, err, best); got != row.want[i] {
					t.Errorf("%s, %s: %q (error %v, %+v); want %q", row.kind, fault, got, err, c, row.want[i])
				}
			}
		})
	}
}

func comesTo(c *sweep.Conclusion, err error, best int) string {
	switch {
	case errors.As(err, new(*sweep.DecodeError)):
		return "stuck"
	case problem.Of(err) == problem.Environment:
		return "setup"
	case problem.Of(err) == problem.Damaged:
		return "damaged"
	case err != nil:
		return "again"
	case c == nil:
		return "goes on"
	case c.Outcome == sweep.OutcomeCancelled:
		return "cancelled"
	case c.Outcome == sweep.OutcomeNoWinner:
		return "none"
	case c.Trial != best:
		return "next"
	case c.Gate == nil || !c.Gate.Promoted:
		return "kept"
	}
	return "best"
}
