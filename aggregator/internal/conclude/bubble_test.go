package conclude

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/must"
	"coppice/internal/registry"
	"coppice/internal/sweep"
)

// TestAggregatorsOverAFoulStore: three aggregators repeatedly consider a sweep that is over, in a synctest bubble.
// Three in ten answers to their writes are lost, with a client that retries or one that gives up, and calls stall for
// minutes. They all reach one conclusion, the one of an undisturbed run, and the registry has one version, promoted
// once. A failure names its seed.
func TestAggregatorsOverAFoulStore(t *testing.T) {
	clean := newWorld(t, options{})
	sweeps := without(t, clean.sweeps)
	want := clean.mustConclude(t)
	files := versionFiles(t, clean.models)

	seeds, failed := uint64(4), 0
	switch {
	case testing.Short():
		seeds = 2
	case os.Getenv("COPPICE_FULL") != "":
		seeds = 12
	}
	for seed := range seeds {
		w := *clean
		w.sweeps, w.models = without(t, sweeps), blob.Memory()

		synctest.Test(t, func(t *testing.T) {
			all, failures := w.consideredBy(t, 3, seed)
			failed += failures
			for i, c := range all {
				if c == nil || c.Outcome != sweep.OutcomeWinner || c.Trial != want.Trial || c.Version != 1 ||
					!c.Gate.Promoted {
					t.Errorf("seed %d: aggregator %d concluded with %+v; want trial %d as version 1, promoted; its "+
						"gate: %+v", seed, i, c, want.Trial, c.Gate)
				}
			}
		})

		if got := versionFiles(t, w.models); got != files {
			t.Errorf("seed %d: the registry has\n%s\nand in a calm sweep\n%s", seed, got, files)
		}
		if events, err := registry.New(w.models).History(t.Context(), "ctr"); err != nil || len(events) != 2 {
			t.Errorf("seed %d: history %+v, %v; want a registration and a promotion", seed, events, err)
		}
	}
	if failed == 0 {
		t.Error("no aggregator met a lost answer")
	}
}

// consideredBy lets n aggregators consider the sweep until each knows how it ended, and returns how often one of them
// failed.
func (w *world) consideredBy(t *testing.T, n int, seed uint64) (all []*sweep.Conclusion, failures int) {
	var mu sync.Mutex
	var group sync.WaitGroup
	all = make([]*sweep.Conclusion, n)

	for i := range n {
		group.Go(func() {
			for turn := range uint64(200) {
				draw := seed<<20 + uint64(i)<<10 + turn
				a := w.aggregator()
				sweeps, models := blobtest.NewLossy(w.sweeps, draw, 0.3), blobtest.NewLossy(w.models, draw+1<<40, 0.3)
				sweeps.Repeats, models.Repeats = seed%2 == 0, seed%2 == 0
				a.Sweeps = blobtest.NewStalling(sweeps, draw, 0.05, 5*time.Minute)
				a.Registry = registry.New(blobtest.NewStalling(models, draw, 0.05, 5*time.Minute))

				c, err := a.Consider(t.Context(), w.plan.Sweep)
				if c != nil && err == nil {
					all[i] = c
					return
				}
				mu.Lock()
				failures++
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return all, failures
}

// versionFiles returns names and checksums of the files of all versions, except the one with their times.
func versionFiles(t *testing.T, models blob.Store) string {
	t.Helper()
	versions := must.Get(registry.New(models).Versions(t.Context(), "ctr"))(t)
	var out strings.Builder
	for _, v := range versions {
		fmt.Fprintln(&out, v.Number, v.Key)
		for _, f := range v.Files {
			fmt.Fprintln(&out, f.Name, f.SHA256)
		}
	}
	return out.String()
}
