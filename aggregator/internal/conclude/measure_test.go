package conclude

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/must"
	"coppice/internal/registry"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// numbers returns what a reader of metrics collects, by the name of the instrument followed by the values of its
// attributes, in the order of their names.
func numbers(t *testing.T, reader sdk.Reader) map[string]float64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	must.Do(t, reader.Collect(context.WithoutCancel(t.Context()), &all))
	out := map[string]float64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range d.DataPoints {
					out[key(m.Name, p.Attributes)] = float64(p.Value)
				}
			case metricdata.Gauge[int64]:
				for _, p := range d.DataPoints {
					out[key(m.Name, p.Attributes)] = float64(p.Value)
				}
			case metricdata.Gauge[float64]:
				for _, p := range d.DataPoints {
					out[key(m.Name, p.Attributes)] = p.Value
				}
			}
		}
	}
	return out
}

// key returns the name under which numbers has a value.
func key(name string, attributes attribute.Set) string {
	for _, a := range attributes.ToSlice() {
		name += " " + a.Value.AsString()
	}
	return name
}

// TestOpenSweepsAreMeasured: the metrics of a sweep follow its results, and disappear when it is concluded.
func TestOpenSweepsAreMeasured(t *testing.T) {
	w := newWorld(t, options{})
	late := sweep.Names(w.plan.Sweep).Result(2)
	results := &blobtest.Hooked{Store: w.sweeps, Hides: func(name string) bool { return name == late }}
	a := w.aggregator()
	a.Sweeps = results
	reader := sdk.NewManualReader()
	must.Do(t, a.Measure(sdk.NewMeterProvider(sdk.WithReader(reader)).Meter("coppice")))
	if c, err := a.Consider(t.Context(), w.plan.Sweep); err != nil || c != nil {
		t.Fatalf("trials are still open: concluded as %+v (error %v); want no conclusion yet", c, err)
	}
	id := string(w.plan.Sweep)
	var trees, takeovers float64
	best := 0.0
	for _, i := range []int{0, 1} {
		var r sweep.Result
		must.Get(blob.ReadJSON(t.Context(), w.sweeps, sweep.Names(w.plan.Sweep).Result(i), &r))(t)
		trees, takeovers, best = trees+float64(r.TreesGrown), takeovers+float64(r.Claim), max(best, r.Score)
	}
	got := numbers(t, reader)
	for name, want := range map[string]float64{
		"coppice.sweep.trials done":    2,
		"coppice.sweep.trials waiting": 1,
		"coppice.sweep.trees":          trees,
		"coppice.sweep.takeovers":      takeovers,
		"coppice.sweep.best_score auc": best,
	} {
		if v, ok := got[name+" "+id]; !ok || v != want {
			t.Errorf("%s is %v (%t), want %v in %v", name, v, ok, want, got)
		}
	}
	results.Hides = nil
	if c, err := a.Consider(t.Context(), w.plan.Sweep); err != nil || c == nil {
		t.Fatalf("considered when all results can be read: got %+v, %v; want a conclusion", c, err)
	}
	got = numbers(t, reader)
	if got["coppice.aggregator.conclusions winner"] != 1 || got["coppice.aggregator.verdicts promoted"] != 1 ||
		len(got) != 2 {
		t.Errorf("after the end: %v; want one winner, one promoted, and nothing else", got)
	}
}

// TestLeavesScoresEveryNthRow: a model of 500 trees is verified by leaves on all of 25,000 rows, one of 23,000 trees on
// every 77th of 50,000, so that about 15 million trees are visited.
func TestLeavesScoresEveryNthRow(t *testing.T) {
	for _, tc := range []struct{ rows, trees, want int }{{25_000, 500, 1}, {50_000, 23_000, 77}, {0, 23_000, 1}} {
		must.Equal(t, everyNth(tc.rows, tc.trees), tc.want, "everyNth(%d, %d)", tc.rows, tc.trees)
	}
}

// TestConcludingCostsTheSameAfterYears: concluding a night, with its gate, takes as many requests to the registry if
// the model has 180 earlier nights, each a version and a promotion, as if it has 90.
func TestConcludingCostsTheSameAfterYears(t *testing.T) {
	t.Parallel()
	var asked [2]int64
	for i, nights := range []int{90, 180} {
		first := newWorld(t, options{})
		first.mustConclude(t)
		r := registry.New(first.models)
		v := must.Get(r.Get(t.Context(), first.plan.Spec.Model, "1"))(t)
		files := filesOf(t, r, v)
		for n := range nights {
			info := v.Info
			info.At = created.Add(time.Duration(n-nights) * 24 * time.Hour)
			earlier := must.Get(r.Register(t.Context(), v.Model, fmt.Sprint("earlier-", n), files, info))(t)
			must.Get(r.Promote(t.Context(), v.Model, earlier.Number, registry.Expect{Any: true},
				registry.Act{By: "aggregator", Why: "better", At: info.At}))(t)
		}

		second := newWorld(t, options{into: first, sweep: "night-2", leaves: []int{2, 31, 6}, trees: 40,
			change: func(p *sweep.Plan) { p.Spec.Gate.Margin = 1 }})
		models := blobtest.NewCounting(second.models)
		second.models = models
		if c := second.mustConclude(t); c.Version != nights+2 || !c.Gate.Promoted {
			t.Fatalf("after %d nights: version %d, gate %+v; want version %d to be promoted", nights, c.Version, c.Gate,
				nights+2)
		}
		asked[i] = models.Asked.Load()
	}
	t.Logf("%d requests after 90 nights, %d after 180", asked[0], asked[1])
	if asked[1] != asked[0] {
		t.Errorf("a conclusion takes %d requests to the registry after 90 nights and %d after 180; want the same",
			asked[0], asked[1])
	}
}

// TestANewAggregatorRecallsWeeksOfSweeps: with a store that takes 30 ms to answer, a new aggregator's first check of
// 1,000 sweeps that have ended takes at most a second, and that of 2,000 at most two, since it reads 32 at a time: 32
// rounds of 30 ms are .96 s. It reads one object of each, and the next check reads none of them again.
func TestANewAggregatorRecallsWeeksOfSweeps(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	c, plan := *w.mustConclude(t), *w.plan
	for n := 1; n < 2000; n++ {
		plan.Sweep = sweep.ID(fmt.Sprintf("night-%d", n+1))
		c.Sweep = plan.Sweep
		store := sweepstore.New(w.sweeps, plan.Sweep)
		must.Get(store.CreatePlan(t.Context(), plan))(t)
		must.Get(store.CreateConclusion(t.Context(), c))(t)
		if n != 999 && n != 1999 {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			late := *w
			late.now = w.now.Add(7 * 24 * time.Hour)
			var opened atomic.Int64
			late.sweeps = blobtest.Before(w.sweeps, blobtest.Open, func(context.Context, string) error {
				opened.Add(1)
				<-time.After(30 * time.Millisecond) // by the bubble's clock
				return nil
			})
			a := late.aggregator()
			begun := time.Now()
			must.Do(t, a.Reconcile(t.Context()))
			took, read := time.Since(begun), opened.Load()
			t.Logf("%d sweeps: %d objects read in %s", n+1, read, took)
			if most := time.Duration(n+1) * time.Millisecond; took > most || read != int64(n+1) {
				t.Errorf("the first check of %d sweeps read %d objects in %s; want one each and at most %s", n+1, read,
					took, most)
			}
			if err := a.Reconcile(t.Context()); err != nil || opened.Load() != read {
				t.Errorf("the second check read %d objects more, error %v; want none", opened.Load()-read, err)
			}
		})
	}
}

// TestCheckpointsGoWithTheSweep: if a sweep is cancelled when its machines have vanished, no task is left to empty
// its checkpoints. The aggregator that concludes it empties them, but leaves the files of ended trials. Checkpoints
// that are saved later are emptied by later checks, until none can be saved any more (lastSave), or tidyFor is over.
func TestCheckpointsGoWithTheSweep(t *testing.T) {
	w := newWorld(t, options{skip: func(i int) bool { return i > 0 }})
	names := sweep.Names(w.plan.Sweep)
	saved := []string{names.Checkpoint(1, 0) + "0", names.Checkpoint(1, 0) + "1", names.Checkpoint(2, 3) + "2"}
	save := func(name string) { overwrite(t, w.sweeps, name, "trees") }
	// left checks how many bytes the checkpoints of trials 1 and 2 have in all; each that was saved has five.
	left := func(when string, want int) {
		t.Helper()
		got := 0
		for _, trial := range []int{1, 2} {
			for _, data := range state(t, w.sweeps, names.Trial(trial)+"checkpoints/") {
				got += len(data)
			}
		}
		if got != want {
			t.Errorf("%s: %d bytes of checkpoints, want %d", when, got, want)
		}
	}
	for _, name := range saved {
		save(name)
	}
	others := state(t, w.sweeps, names.Trial(0))

	a := w.aggregator()
	must.Get(a.Consider(t.Context(), w.plan.Sweep))(t)
	left("the sweep goes on", 15)
	must.Get(sweepstore.New(w.sweeps, w.plan.Sweep).Cancel(t.Context(), w.now))(t)
	if c, err := a.Consider(t.Context(), w.plan.Sweep); err != nil || c == nil || c.Outcome != sweep.OutcomeCancelled {
		t.Fatalf("a cancelled sweep was considered: %+v, %v; want its conclusion", c, err)
	}
	left("concluded", 0)
	for name, data := range state(t, w.sweeps, names.Trial(0)) {
		if others[name] != data {
			t.Errorf("%s was altered, want it as it was", name)
		}
	}

	// check reconciles, so long after the step before.
	check := func(a *Aggregator, after time.Duration) {
		t.Helper()
		w.now = w.now.Add(after)
		must.Do(t, a.Reconcile(t.Context()))
	}
	save(saved[0])
	check(a, tidyAgain)
	left("saved by a task that was slow to leave", 0)
	check(a, lastSave)
	save(saved[1])
	check(a, tidyAgain)
	left("nobody looks any more", 5)
	check(w.aggregator(), tidyAgain)
	left("another aggregator looks", 0)
	save(saved[2])
	check(w.aggregator(), tidyFor)
	left("the sweep is old", 5)
}

// TestAConclusionNeedsNoTidying: if a checkpoint cannot be emptied, such as without the permission, the sweep is still
// concluded with a winner. Once it can be, the next check empties it.
func TestAConclusionNeedsNoTidying(t *testing.T) {
	w := newWorld(t, options{})
	name := sweep.Names(w.plan.Sweep).Checkpoint(1, 0) + "0"
	overwrite(t, w.sweeps, name, "trees")
	store := w.sweeps
	w.sweeps = blobtest.Before(store, blobtest.Put, func(_ context.Context, object string) error {
		if object == name {
			return errors.New("403: no permission storage.objects.delete")
		}
		return nil
	})
	if c := w.mustConclude(t); c.Outcome != sweep.OutcomeWinner {
		t.Errorf("concluded as %s, want a winner", c.Outcome)
	}
	w.sweeps = store
	must.Do(t, w.aggregator().Reconcile(t.Context()))
	if data := state(t, store, name)[name]; data != "" {
		t.Errorf("%s holds %q once it may be emptied, want nothing", name, data)
	}
}
