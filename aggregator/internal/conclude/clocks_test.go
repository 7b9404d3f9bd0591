package conclude

import (
	"context"
	"iter"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/sweep"
)

// clocked is a store with the test's clock.
type clocked struct {
	blob.Store
	planned, latest time.Time
}

func (c clocked) Stat(ctx context.Context, name string) (blob.Attrs, error) {
	attrs, err := c.Store.Stat(ctx, name)
	attrs.Updated = c.planned
	return attrs, err
}

func (c clocked) List(ctx context.Context, prefix string) iter.Seq2[blob.Attrs, error] {
	return func(yield func(blob.Attrs, error) bool) {
		for attrs, err := range c.Store.List(ctx, prefix) {
			attrs.Updated = c.latest
			if !yield(attrs, err) {
				return
			}
		}
	}
}

// TestWrongClocksEndNoSweep: the launcher's clock is 400 s behind, the aggregator's 400 s ahead, and the limit is ten
// minutes. It is enforced by the clock of the store, which stamped all objects.
func TestWrongClocksEndNoSweep(t *testing.T) {
	const limit, wrong = 10 * time.Minute, 400 * time.Second
	for _, tc := range []struct {
		lasted time.Duration
		ends   bool
	}{{time.Minute, false}, {limit - time.Second, false}, {limit, true}} {
		w := newWorld(t, options{leaves: []int{2, 3, 4}, skip: func(i int) bool { return i == 2 },
			change: func(p *sweep.Plan) {
				p.Spec.Limits.Sweep = sweep.Duration(limit)
				p.Created = created.Add(-wrong)
			}})
		w.sweeps = clocked{w.sweeps, created, created.Add(tc.lasted)}
		if c := w.at(t, tc.lasted+wrong); (c != nil) != tc.ends {
			t.Errorf("considered %s after the plan by the store's clock: %+v, want a conclusion %t", tc.lasted, c,
				tc.ends)
		}
	}
}
