package worker

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	otel "go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"coppice/internal/blob"
	"coppice/internal/gbt"
	"coppice/internal/must"
	"coppice/internal/sweep"
)

// slowMeter is a meter by which every tree takes a minute of a bubble's time. After so many trees the machine goes.
type slowMeter struct {
	noop.Meter
	after int
	goes  func()
}

type slowTrees struct {
	noop.Int64Counter
	*slowMeter
}

func (s *slowMeter) Int64Counter(name string, _ ...otel.Int64CounterOption) (otel.Int64Counter, error) {
	if name == "coppice.task.trees" {
		return slowTrees{slowMeter: s}, nil
	}
	return noop.Int64Counter{}, nil
}

func (s slowTrees) Add(context.Context, int64, ...otel.AddOption) {
	<-time.After(time.Minute)
	if s.after--; s.after == 0 {
		s.goes()
	}
}

// limited runs two trials of 8 trees with a limit of just under so many minutes: it passes within that tree. Each
// attempt but the last ends after that many trees.
func limited(t *testing.T, minutes int, change func(*sweep.Plan), attempts ...int) *world {
	n := 2
	if change != nil {
		n = 10
	}
	w := newWorld(t, n, func(p *sweep.Plan) {
		p.Spec.Limits.Trial = sweep.Duration(time.Duration(minutes)*time.Minute - time.Second)
		for i := range p.Trials {
			p.Trials[i].Params["early_stopping_round"] = 0.0
		}
		if change != nil {
			change(p)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		for attempt, trees := range append(attempts, 0) {
			ctx, goes := context.WithCancel(t.Context())
			worker := w.worker(0)
			worker.Meter, worker.Attempt = &slowMeter{after: trees, goes: goes}, attempt
			err := worker.Run(ctx)
			goes()
			if (err != nil) != (trees > 0) {
				t.Fatalf("attempt %d, which was to end after %d trees: error %v", attempt, trees, err)
			}
		}
	})
	return w
}

func (w *world) trees(t *testing.T, trial int) []*gbt.Tree {
	t.Helper()
	text, _ := must.Get2(blob.ReadAll(t.Context(), w.sweeps, w.result(t, trial).Model.Name, 1<<24))(t)
	m := must.Get(gbt.ReadModel(bytes.NewReader(text)))(t)
	return m.Trees
}

// TestALimitKeepsTheModel: a trial that reaches limits.trial is done, with the first trees of the model that it would
// have had, and its result says so. Scores and metrics are those of that model.
func TestALimitKeepsTheModel(t *testing.T) {
	whole := limited(t, 60, nil)
	for minutes := 1; minutes < 8; minutes++ {
		w := limited(t, minutes, nil)
		r, want := w.result(t, 0), fmt.Sprintf("stopped at its limit of %s after %d of 8 trees",
			w.plan.Spec.Limits.Trial, minutes)
		if r.Status != sweep.StatusDone || !r.AtLimit || r.Reason != want || r.TreesGrown != minutes ||
			r.Trees != minutes || r.Score != r.Metrics["auc"] {
			t.Fatalf("with a limit of %d minutes the result is %+v; expected it done, %q", minutes, r, want)
		}
		all, some := whole.trees(t, 0), w.trees(t, 0)
		if len(some) != minutes || !slices.EqualFunc(all[:minutes], some, func(a, b *gbt.Tree) bool {
			return slices.Equal(a.LeafValue, b.LeafValue) && slices.Equal(a.Threshold, b.Threshold)
		}) {
			t.Errorf("with a limit of %d minutes the model is not the first %d trees of the whole one", minutes,
				minutes)
		}
		if best := w.board(t).Best(); best == nil || w.board(t).Done != 2 {
			t.Errorf("with a limit of %d minutes: board %+v; expected two trials that may win", minutes, w.board(t))
		}
	}
	if r := whole.result(t, 0); r.AtLimit || r.Reason != "" || r.TreesGrown != 8 {
		t.Errorf("with an hour the result is %+v; expected all trees and no limit", r)
	}
}

// TestALimitWithoutAModel: before the first tree, and while a sample of the rows is trained, there is none to keep.
func TestALimitWithoutAModel(t *testing.T) {
	w := newWorld(t, 1, func(p *sweep.Plan) { p.Spec.Limits.Trial = 1 })
	w.run(t, 0)
	sampled := newWorld(t, 4, func(p *sweep.Plan) {
		stopping(sweep.StopASHA)(p)
		bySamples(p)
		p.Spec.Limits.Trial = 1
	})
	sampled.run(t, 0)
	for name, r := range map[string]*sweep.Result{"of all rows": w.result(t, 0), "of a sample": sampled.result(t, 0)} {
		if r.Status != sweep.StatusTimedOut || r.AtLimit || !strings.Contains(r.Reason, "before it had a model") {
			t.Errorf("%s: got %s: %s; expected it timed out", name, r.Status, r.Reason)
		}
	}
}

// TestALimitAfterATakeover: the time of trees that were saved counts. A trial whose last holder had used up its time is
// done with the trees that were saved; the model is that of one task with the same limit.
func TestALimitAfterATakeover(t *testing.T) {
	for _, minutes := range []int{3, 5} {
		alone, taken := limited(t, minutes, nil), limited(t, minutes, nil, 3)
		r := taken.result(t, 0)
		if r.TreesGrown != minutes || !r.AtLimit || r.Usage.ResumedTrees != 3 {
			t.Errorf("a limit of %d minutes, taken over after 3 trees: %+v; expected %d trees, 3 of them resumed",
				minutes, r, minutes)
		}
		if !maps.Equal(taken.models(t), alone.models(t)) {
			t.Errorf("a limit of %d minutes: other models after a takeover than of one task", minutes)
		}
	}
}
