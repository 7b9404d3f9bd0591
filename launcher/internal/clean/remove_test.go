package clean

import (
	"context"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"coppice/internal/blob"
	"coppice/internal/dataset"
	"coppice/internal/problem"
	"coppice/internal/registry"
	"coppice/internal/sweep"
)

// mortal is a store that one process uses, until it is killed.
type mortal struct {
	*dated
	killed *atomic.Bool
}

func (m mortal) Put(ctx context.Context, name string, cond blob.Generation, r io.Reader) (blob.Attrs, error) {
	if m.killed.Load() {
		return blob.Attrs{}, errDead
	}
	return m.dated.Put(ctx, name, cond, r)
}

func (m mortal) Remove(ctx context.Context, name string, at blob.Generation) error {
	if m.killed.Load() {
		return errDead
	}
	return m.dated.Remove(ctx, name, at)
}

func (m mortal) List(ctx context.Context, prefix string) iter.Seq2[blob.Attrs, error] {
	if m.killed.Load() {
		return func(yield func(blob.Attrs, error) bool) { yield(blob.Attrs{}, errDead) }
	}
	return m.dated.List(ctx, prefix)
}

// TestInterrupted: a run ends, in each way, while it hides manifests, one of whose versions has just been promoted. Its
// dataset is whole at once, or after the next run if it was killed; and the one after that ends where all else goes.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"cancelled", "killed", "cannot list", "cannot remove", "taken over"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			e := few(t)
			ref := e.refs[2]
			manifest := sweep.DatasetDir("clicks", strings.TrimPrefix(ref, "clicks@")) + dataset.ManifestFile
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var killed atomic.Bool
			q := e.request()
			q.Datasets, q.Sweeps = mortal{e.datasets, &killed}, mortal{e.sweeps, new(atomic.Bool)}
			if how == "cannot list" {
				q.Datasets, q.Sweeps = mortal{e.datasets, new(atomic.Bool)}, mortal{e.sweeps, &killed}
			}
			promoted := false
			var once sync.Once
			e.datasets.before = func(object string) {
				if object == manifest {
					once.Do(func() {
						_, err := e.r.Promote(t.Context(), "ctr", 2, registry.Expect{Any: true}, e.act())
						e.must(err)
						promoted = true
					})
					return
				}
				if !promoted {
					return
				}
				e.datasets.before = nil
				switch how {
				case "cancelled":
					cancel()
				case "killed", "cannot list":
					killed.Store(true)
				case "cannot remove":
					e.datasets.dies = 1
				case "taken over":
					e.remove(e.request())
				}
			}
			_, err := Remove(ctx, q)
			if promoted = e.datasets.before == nil; !promoted || (err == nil) != (how == "taken over") {
				t.Fatalf("it was not interrupted: %v", err)
			}
			e.datasets.dies = 0
			if err := e.whole(ref); (err == nil) != (how != "killed") {
				t.Errorf("at once the dataset is whole: %v", err)
			}
			e.remove(e.request())
			e.promoted = append(e.promoted, 2)
			for _, n := range e.promoted {
				if err := e.whole(e.refs[n]); err != nil {
					t.Errorf("the dataset of version %d is gone: %v", n, err)
				}
				if _, err := e.sweeps.Stat(t.Context(), e.trialOf(n)); err != nil {
					t.Errorf("the trial of version %d is gone: %v", n, err)
				}
			}
			e.now = e.now.Add(2 * Grace) // what has come back meanwhile is no longer young
			e.remove(e.request())
			if err := e.whole(e.refs[3]); err == nil {
				t.Error("what nobody needs is still there")
			}
		})
	}
}

// TestAJournalOfAnotherFormat is refused before anything is written: this build would put nothing of it back.
func TestAJournalOfAnotherFormat(t *testing.T) {
	t.Parallel()
	e := few(t)
	const journal = `{"format": 2, "hidden": {}}`
	if _, err := e.datasets.Put(t.Context(), journalName, blob.Absent, strings.NewReader(journal)); err != nil {
		t.Fatal(err)
	}
	before := e.all()
	_, err := Remove(t.Context(), e.request())
	if !problem.Is(err, problem.Conflict) || !strings.Contains(err.Error(), "format 2, and this build reads 1") {
		t.Errorf("%v, expected a conflict that names both formats", err)
	}
	if after := e.all(); !slices.Equal(after, before) {
		t.Errorf("%d objects were there, and %d are", len(before), len(after))
	}
}
