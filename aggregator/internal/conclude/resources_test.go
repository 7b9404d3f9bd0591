package conclude

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/must"
	"coppice/internal/registry"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// TestConcludingCostsTheSameAfterYears: a night's conclusion, with its gate, requests as many objects after 180 nights
// as after 90.
func TestConcludingCostsTheSameAfterYears(t *testing.T) {
	t.Parallel()
	var asked [2]int64
	for i, nights := range []int{90, 180} {
		first := newWorld(t, options{})
		first.mustConclude(t)
		r := registry.New(first.models)
		v := must.Get(r.Get(t.Context(), first.plan.Spec.Model, "1"))(t)
		files := map[string][]byte{}
		for _, f := range v.Files {
			files[f.Name] = must.Get(r.ReadFile(t.Context(), v, f.Name))(t)
		}
		for n := range nights {
			info := v.Info
			info.At = created.Add(time.Duration(n-nights) * 24 * time.Hour)
			earlier := must.Get(r.Register(t.Context(), v.Model, fmt.Sprint("earlier-", n), files, info))(t)
			must.Get(r.Promote(t.Context(), v.Model, earlier.Number, registry.Expect{Any: true},
				registry.Act{By: "aggregator", Why: "better", At: info.At}))(t)
		}

		second := newWorld(t, options{into: first, sweep: "night-2", leaves: []int{2, 31, 6}, trees: 40,
			change: func(p *sweep.Plan) { p.Spec.Gate.Margin = 1 }})
		models := &blobtest.Counting{Store: second.models}
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

// TestANewAggregatorRecallsWeeksOfSweeps: with a store that takes 30 ms to answer, its first check of a thousand
// sweeps that have ended takes a second, of two thousand two, and the next check reads none of them again.
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
			store := &distant{Store: w.sweeps}
			late.sweeps = store
			a := late.aggregator()
			begun := time.Now()
			must.Do(t, a.Reconcile(t.Context()))
			took, read := time.Since(begun), store.read.Load()
			t.Logf("%d sweeps: %d objects read in %s", n+1, read, took)
			if most := time.Duration(n+1) * time.Millisecond; took > most || read != int64(n+1) {
				t.Errorf("the first check of %d sweeps read %d objects in %s; want one each and at most %s", n+1, read,
					took, most)
			}
			if err := a.Reconcile(t.Context()); err != nil || store.read.Load() != read {
				t.Errorf("the second check read %d objects more, error %v; want none", store.read.Load()-read, err)
			}
		})
	}
}

// distant is a store that takes 30 ms to give an object.
type distant struct {
	blob.Store
	read atomic.Int64
}

func (d *distant) Open(ctx context.Context, name string, r blob.Range) (io.ReadCloser, blob.Attrs, error) {
	d.read.Add(1)
	<-time.After(30 * time.Millisecond) // by the bubble's clock
	return d.Store.Open(ctx, name, r)
}
