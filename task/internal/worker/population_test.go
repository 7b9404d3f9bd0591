package worker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"coppice/internal/blob"
	"coppice/internal/dataset"
	"coppice/internal/fit"
	"coppice/internal/gbt"
	"coppice/internal/metric"
	"coppice/internal/must"
	"coppice/internal/search"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// population makes the plan one of five members in three generations.
func population(p *sweep.Plan) {
	p.Spec.Seed = 3
	p.Spec.Search.Method, p.Spec.Search.Population = sweep.MethodPBT, 5
	p.Spec.Search.Random = map[string]sweep.Distribution{"num_leaves": {LogInt: []int64{2, 31}},
		"learning_rate": {LogUniform: []float64{0.02, 0.5}}, "feature_fraction": {Uniform: []float64{0.3, 1}}}
	p.Base = p.Trials[0].Params
	p.Base["early_stopping_round"] = 0.0
	for i := range p.Trials {
		p.Trials[i] = sweep.Trial{Number: i, Source: sweep.MethodPBT, Open: true}
	}
}

// TestPopulation: a population has the same members with the same bytes for one task, for four that start at once, and
// when tasks are interrupted in every generation; each member continues the model of the generation before, and its
// lineage makes its model again.
func TestPopulation(t *testing.T) {
	var all []string
	for _, way := range []string{"one task", "four tasks", "interrupted"} {
		w := newWorld(t, 15, population)
		switch way {
		case "interrupted":
			// Each loses its machine in the trial that it holds; the next attempt goes on from there.
			for attempt, trial := range []int{0, 4, 7, 13} {
				w.until(t, attempt, sweep.Names(w.plan.Sweep).Decision(trial), 1)
			}
			worker := w.worker(0)
			worker.Attempt = 9
			runs(t, worker)
		default:
			var wg sync.WaitGroup
			for task := range map[string]int{"one task": 1, "four tasks": 4}[way] {
				wg.Go(func() {
					if err := w.worker(task).Run(t.Context()); err != nil {
						t.Errorf("%s: task %d: %v", way, task, err)
					}
				})
			}
			wg.Wait()
		}

		all = append(all, w.members(t, way))
	}
	for i, text := range all[1:] {
		if text != all[0] {
			t.Errorf("one task and way %d come to different populations:\n%.1500s\n%.1500s", i+1, all[0], text)
		}
	}
}

// members checks every member's decision and lineage, and returns their scores and checksums.
func (w *world) members(t *testing.T, way string) (text string) {
	t.Helper()
	trials := sweepstore.NewTrials(w.sweeps, w.plan)
	replaced := 0
	for n := range w.plan.Trials {
		r := w.result(t, n)
		if r.Status != sweep.StatusDone {
			t.Fatalf("%s: trial %d: %s: %s; want it done", way, n, r.Status, r.Reason)
		}
		d, err := trials.Decision(t.Context(), n)
		if err != nil || d == nil {
			t.Fatalf("%s: the decision of trial %d: %v, %v", way, n, d, err)
		}
		if err := replay(w.plan, d); err != nil {
			t.Errorf("%s: made the decision of trial %d again: %v", way, n, err)
		}

		generation := n / 5
		if (r.From == nil) != (generation == 0) || r.Trees != 8*(generation+1) {
			t.Errorf("%s: trial %d of generation %d has %d trees and continues %+v; want %d trees, 8 of them its own",
				way, n, generation, r.Trees, r.From, 8*(generation+1))
			continue
		}
		if r.From != nil {
			parent := w.result(t, r.From.Trial)
			if r.From.Model != *parent.Model || len(r.From.Lineage) != generation ||
				w.plan.Generation(r.From.Trial) != generation-1 {
				t.Errorf("%s: trial %d continues %+v; want the model of a trial of generation %d, with %d ancestors",
					way, n, r.From, generation-1, generation)
			}
			if r.From.Trial != n-5 {
				replaced++
			}
		}
		text += fmt.Sprintln(n, r.Score, r.Trees, r.Model.SHA256, r.Params["num_leaves"])
	}
	if replaced != 2 {
		t.Errorf("%s: %d members go on from another's model; want one in each of two generations", way, replaced)
	}

	last := w.result(t, 14)
	if got, want := w.again(t, last), last.Model.SHA256; got != want {
		t.Errorf("%s: trained from its lineage again, trial 14 has another model: %.16s instead of %.16s", way, got,
			want)
	}
	return text
}

// again trains a member from its lineage, and returns the checksum of its model.
func (w *world) again(t *testing.T, r *sweep.Result) string {
	t.Helper()
	ds := must.Get(dataset.Open(filepath.Join(w.scratch, "datasets", w.plan.Dataset.Name, w.plan.Dataset.Version)))(t)
	defer ds.Close()
	auc := must.Get(metric.Lookup("auc"))(t)
	table := fit.NewTable(ds)
	q := fit.Request{Metric: auc, Threads: 1}
	q.Rows, q.Valid = w.plan.RowsOf(0)
	var text bytes.Buffer
	for i, own := range append(r.From.Lineage, search.Own(w.plan, r.Params)) {
		complete := must.Get(table.Complete(w.plan.Base, own))(t)
		q.Params = must.Get(gbt.ParseParams(complete))(t)
		if i > 0 {
			q.Input = must.Get(fit.Input(ds.Manifest, text.Bytes()))(t)
		}
		o := must.Get(table.Train(t.Context(), q))(t)
		text.Reset()
		must.Get(o.Model.WriteTo(&text))(t)
	}
	return fmt.Sprintf("%x", sha256.Sum256(text.Bytes()))
}

// TestALostModelEndsItsLine: a model that is gone when a member is to continue it ends that member's trial with the
// reason, and no other's.
func TestALostModelEndsItsLine(t *testing.T) {
	w := newWorld(t, 10, population)
	worker := w.worker(0)
	worker.Sweeps = after(w.sweeps, sweep.Names(w.plan.Sweep).Decision(5), func() {
		d, err := sweepstore.NewTrials(w.sweeps, w.plan).Decision(context.Background(), 5)
		if err == nil {
			_, err = w.sweeps.Put(context.Background(), d.From.Model.Name, blob.Any, strings.NewReader("damaged"))
		}
		if err != nil {
			t.Error(err)
		}
	})
	runs(t, worker)
	if r := w.result(t, 5); r.Status != sweep.StatusFailed || !strings.Contains(r.Reason, "which it continues") {
		t.Errorf("the model that trial 5 continues was lost: %s: %s; want it failed with that reason", r.Status,
			r.Reason)
	}
	done := 0
	for n := 6; n < 10; n++ {
		if r := w.result(t, n); r.Status == sweep.StatusDone {
			done++
		}
	}
	if done < 3 {
		t.Errorf("%d of the other four of the generation are done; want all that do not continue the lost model", done)
	}
}
