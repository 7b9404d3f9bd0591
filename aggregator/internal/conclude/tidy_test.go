package conclude

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/must"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// TestCheckpointsGoWithTheSweep: a sweep that was cancelled when its machines had vanished has no task that could empty
// its checkpoints. The aggregator that concludes it does, and what is saved or left behind later goes with a later check.
func TestCheckpointsGoWithTheSweep(t *testing.T) {
	w := newWorld(t, options{skip: func(i int) bool { return i > 0 }})
	names := sweep.Names(w.plan.Sweep)
	saved := []string{names.Checkpoint(1, 0) + "0", names.Checkpoint(1, 0) + "1", names.Checkpoint(2, 3) + "2"}
	save := func(name string) {
		t.Helper()
		must.Get(w.sweeps.Put(t.Context(), name, blob.Any, strings.NewReader("trees")))(t)
	}
	left := func(when string, want int) {
		t.Helper()
		got := 0
		for _, data := range state(t, w.sweeps, names.Trial(1)+"checkpoints/") {
			got += len(data)
		}
		for _, data := range state(t, w.sweeps, names.Trial(2)+"checkpoints/") {
			got += len(data)
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
			t.Errorf("%s was altered", name)
		}
	}

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

// TestAConclusionNeedsNoTidying: a store that lets nobody empty a checkpoint, or a deployment without that right,
// leaves the conclusion as it is.
func TestAConclusionNeedsNoTidying(t *testing.T) {
	w := newWorld(t, options{})
	name := sweep.Names(w.plan.Sweep).Checkpoint(1, 0) + "0"
	must.Get(w.sweeps.Put(t.Context(), name, blob.Any, strings.NewReader("trees")))(t)
	store := w.sweeps
	w.sweeps = unwritable{store, name}
	if c := w.mustConclude(t); c.Outcome != sweep.OutcomeWinner {
		t.Errorf("concluded as %s, want a winner", c.Outcome)
	}
	w.sweeps = store
	must.Do(t, w.aggregator().Reconcile(t.Context()))
	if data := state(t, store, name)[name]; data != "" {
		t.Errorf("%s holds %q once it may be emptied, want nothing", name, data)
	}
}

// unwritable is a store that does not replace one object.
type unwritable struct {
	blob.Store
	name string
}

func (r unwritable) Put(ctx context.Context, name string, cond blob.Generation, data io.Reader) (blob.Attrs, error) {
	if name == r.name {
		return blob.Attrs{}, errors.New("403: no permission storage.objects.delete")
	}
	return r.Store.Put(ctx, name, cond, data)
}
