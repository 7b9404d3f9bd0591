package worker

import (
	"context"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/sweep"
)

// byTwo lets two machines train a trial.
func byTwo(p *sweep.Plan) {
	p.Spec.Trial = &sweep.Together{Machines: 2}
	p.Heartbeat, p.Takeover = sweep.Duration(100*time.Millisecond), sweep.Duration(10*time.Second)
	p.Sizing.Tasks = 2
}

// patiently is a store through which a holder that has announced itself waits until another machine has done so.
type patiently struct {
	blob.Store
	came *sync.Map // by folder: a channel, closed by the other machine
}

func (s patiently) Put(ctx context.Context, name string, g blob.Generation, r io.Reader) (blob.Attrs, error) {
	a, err := s.Store.Put(ctx, name, g, r)
	folder, id := path.Split(name)
	if !strings.HasSuffix(folder, "/epochs/00000001/workers/") {
		return a, err
	}
	fresh := make(chan struct{})
	there, _ := s.came.LoadOrStore(folder, fresh)
	if id != leaderID {
		close(there.(chan struct{}))
		return a, err
	}
	select {
	case <-there.(chan struct{}):
	case <-ctx.Done():
		return blob.Attrs{}, ctx.Err()
	}
	return a, err
}

// outcomes are those of all trials: what they trained, and what came of it.
func (w *world) outcomes(t *testing.T) (all []string) {
	t.Helper()
	for n := range w.plan.Trials {
		r := w.result(t, n)
		text := fmt.Sprintln(n, r.Status, r.Reason, r.Score, r.Trees, r.TreesGrown, r.Params)
		if r.Model != nil {
			text += r.Model.SHA256
		}
		all = append(all, text)
	}
	return all
}

// TestTrialsOfSeveralMachines: what trials come to is the same by one machine and by two, each of which takes part in
// the other's trial when it has none: with early stopping, with configurations that the holder decides, which continue
// the model of another trial, with trials that wait for each other, on folds, and after samples.
func TestTrialsOfSeveralMachines(t *testing.T) {
	for _, tc := range []struct {
		name  string
		world func(*testing.T, func(*sweep.Plan)) *world
		calm  bool // one trial after the other: both machines train each
	}{
		{"early stopping", func(t *testing.T, and func(*sweep.Plan)) *world { return newWorld(t, 1, and) }, true},
		{"decided by the holder, continuing another", func(t *testing.T, and func(*sweep.Plan)) *world {
			return newWorld(t, 10, func(p *sweep.Plan) { population(p); and(p) })
		}, false},
		{"waiting for each other", func(t *testing.T, and func(*sweep.Plan)) *world {
			return newWorld(t, 3, func(p *sweep.Plan) { stopping(sweep.StopHalving)(p); and(p) })
		}, false},
		{"folds", func(t *testing.T, and func(*sweep.Plan)) *world {
			return newFolded(t, 1, func(p *sweep.Plan) { folded(3, false)(p); and(p) })
		}, false},
		{"after a sample", func(t *testing.T, and func(*sweep.Plan)) *world {
			return newWorld(t, 1, func(p *sweep.Plan) { bySamples(p); and(p) })
		}, true},
		{"continuing a champion", func(t *testing.T, and func(*sweep.Plan)) *world {
			w, _ := continuing(t, sweep.GrowMode, func(p *sweep.Plan) { p.Trials = p.Trials[:1]; and(p) })
			return w
		}, true},
	} {
		alone := tc.world(t, func(*sweep.Plan) {})
		if err := alone.on(t, 0).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		w := tc.world(t, byTwo)
		var wg sync.WaitGroup
		came := new(sync.Map)
		for machine := range 2 {
			k := w.on(t, machine)
			if tc.calm {
				k.Sweeps = patiently{w.sweeps, came}
			}
			wg.Go(func() {
				if err := k.Run(t.Context()); err != nil {
					t.Errorf("%s: task %d: %v", tc.name, machine, err)
				}
			})
		}
		wg.Wait()
		if got, want := w.outcomes(t), alone.outcomes(t); !slices.Equal(got, want) {
			t.Errorf("%s: by two machines:\n%.2000s\nwant as by one:\n%.2000s", tc.name, got, want)
		}
		for n := range w.plan.Trials {
			u := w.result(t, n).Usage
			if tc.calm && (u.Machines != 2 || u.SentBytes == 0) {
				t.Errorf("%s: trial %d by %d machines, which sent %d bytes; want two", tc.name, n, u.Machines,
					u.SentBytes)
			}
			if u.Machines == 1 {
				t.Errorf("%s: the usage of trial %d, by one machine, tells of that; want nothing", tc.name, n)
			}
		}
	}
}
