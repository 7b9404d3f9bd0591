package worker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coppice/internal/blob"
	"coppice/internal/dataset"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/fit"
	"coppice/internal/gbt"
	"coppice/internal/metric"
	"coppice/internal/must"
	"coppice/internal/search"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// selecting returns a change of a plan that makes it a forward selection among these groups.
func selecting(f *sweep.Features) func(*sweep.Plan) {
	return func(p *sweep.Plan) {
		sets, open, err := search.Sets(f, 0, 1)
		if err != nil {
			panic(err)
		}
		p.Spec.Search.Features, p.Base, p.Trials = f, p.Trials[0].Params, nil
		for _, kept := range sets {
			params := maps.Clone(p.Base)
			maps.Copy(params, f.Params(kept))
			p.Trials = append(p.Trials, sweep.Trial{Number: len(p.Trials), Source: f.Try, Params: params})
		}
		for range open {
			p.Trials = append(p.Trials, sweep.Trial{Number: len(p.Trials), Source: f.Try, Open: true})
		}
	}
}

// newSelection plans a forward selection among four groups of one column each, beside the table's other columns, in k
// folds if k is above 0.
func newSelection(t *testing.T, k int) *world {
	t.Helper()
	o := datasettest.Options{Rows: 1500}
	if k > 0 {
		o = datasettest.Options{Rows: 1500, Encodings: "none",
			Split: "{by: hash, key: user_id, train: 0.6, valid: 0.15, calib: 0.1, test: 0.15}\ngroup: user_id"}
	}
	_, m := datasettest.Dir(t, o)
	names := make([]string, len(m.Features))
	for i := range m.Features {
		names[i] = m.Features[i].Name
	}
	if len(names) < 5 {
		t.Fatalf("the table has the columns %v, want five or more", names)
	}
	return newWorldOn(t, o, 1, func(p *sweep.Plan) {
		selecting(&sweep.Features{Try: sweep.TryForward, Rest: len(names) - 4,
			Groups: map[string][]string{"a": names[:1], "b": names[1:2], "c": names[2:3], "d": names[3:4]}})(p)
		if k > 0 {
			folded(k, false)(p)
		}
	})
}

// TestForwardSelection: one task and four come to the same selection, with the same scores and numbers of trees,
// without folds and with three. checkSelection checks each step against the results. Trials of steps that the selection
// does not reach are stopped with the reason.
func TestForwardSelection(t *testing.T) {
	for _, k := range []int{0, 3} {
		t.Run(fmt.Sprint(k, " folds"), func(t *testing.T) {
			var selections []string
			for _, tasks := range []int{1, 4} {
				w := newSelection(t, k)
				w.tasks(t, tasks)
				selections = append(selections, w.checkSelection(t))
			}
			// With folds other scores may select all groups, so that every step is reached.
			if k == 0 && !strings.Contains(selections[0], "stopped the selection ended") {
				t.Errorf("got the selection\n%s\nwant some trial to be stopped since the selection ended",
					selections[0])
			}
			if selections[0] != selections[1] {
				t.Errorf("one task comes to the selection\n%s\nand four to\n%s\nwant the same", selections[0],
					selections[1])
			}
		})
	}
}

// chosen repeats a forward selection from the scores on the board alone, in the plainest way: it takes the best group
// of each step as long as the score is better than before. It returns the groups in their order.
func chosen(p *sweep.Plan, b sweep.Board) (selected []string) {
	f, scores := p.Spec.Search.Features, map[int]float64{}
	for _, row := range b.Rows {
		if row.Result != nil && row.Result.Status == sweep.StatusDone && p.Folds == nil {
			scores[row.Trial.Number] = row.Result.Score
		}
	}
	for _, c := range b.Configurations {
		if c.Mean != nil {
			scores[c.Configuration] = *c.Mean
		}
	}
	// Configuration 1 has none of the groups.
	rest, score := f.Names(), scores[1]
	for step := 0; len(rest) > 1; step++ {
		best := -1
		for c := range rest {
			if v := scores[f.StepBegins(step)+c]; v > score {
				best, score = c, v
			}
		}
		if best < 0 {
			return selected
		}
		selected, rest = append(selected, rest[best]), slices.Delete(rest, best, best+1)
	}
	return selected
}

// checkSelection checks that every trial of a forward selection has the groups that chosen says, or is stopped where
// the selection has ended, and that every decision can be reproduced. It returns as text what was selected and trained.
func (w *world) checkSelection(t *testing.T) (text string) {
	t.Helper()
	f := w.plan.Spec.Search.Features
	trials := sweepstore.NewTrials(w.sweeps, w.plan)
	selected := chosen(w.plan, w.board(t))
	over := false
	for n := range w.plan.Configurations() {
		trial := n
		if w.plan.Folds != nil {
			trial = n * w.plan.Folds.First
		}
		// A configuration of a step that was not reached is not trained.
		r := w.result(t, trial)
		step, _, open := f.Step(n)
		if open && step > len(selected) {
			if over = true; r.Status != sweep.StatusStopped || !strings.Contains(r.Reason, "the selection ended with") {
				t.Errorf("configuration %d of step %d after %v was selected: %s: %s; want it stopped, since the "+
					"selection has ended", n, step+1, selected, r.Status, r.Reason)
			}
			text += fmt.Sprintln(n, r.Status, r.Reason)
			continue
		}
		kept, ok := f.Kept(r.Params)
		if r.Status != sweep.StatusDone || !ok {
			t.Fatalf("configuration %d: %s: %s, groups %v; want it done with whole groups", n, r.Status, r.Reason, kept)
		}
		text += fmt.Sprintln(n, f.Describe(kept), r.Score, r.Trees)
		if !open {
			continue
		}

		// It has what was selected in the steps before, and one more.
		names := f.Names()
		want := slices.Clone(selected[:step])
		var got []string
		for i, has := range kept {
			if has && !slices.Contains(want, names[i]) {
				got = append(got, names[i])
			} else if has {
				want = slices.DeleteFunc(want, func(s string) bool { return s == names[i] })
			}
		}
		if len(want) > 0 || len(got) != 1 {
			t.Errorf("configuration %d of step %d has %s; want %v and one more", n, step+1, f.Describe(kept),
				selected[:step])
		}

		// Its decision has seen the scores of all steps before, and comes out again from them.
		d, err := trials.Decision(t.Context(), trial)
		if err != nil || d == nil {
			t.Fatalf("the decision of trial %d: got %v (error %v), want one", trial, d, err)
		}
		ended := map[int]bool{}
		for _, s := range d.Seen {
			if s.Params != nil {
				t.Errorf("the decision of trial %d repeats the columns of trial %d, %v; want its score only", trial,
					s.Trial, s.Params)
			}
			ended[w.plan.Ordinal(s.Trial)] = s.Status == sweep.StatusDone
		}
		for before := range f.StepBegins(step) {
			if step > 0 && !ended[before] {
				t.Errorf("the decision of configuration %d in step %d has not seen configuration %d end, of a step "+
					"before; it has seen %+v", n, step+1, before, d.Seen)
			}
		}
		replay(t, w.plan, d)
	}
	if len(selected) == 0 {
		t.Error("nothing was selected; want at least one group")
	}
	return fmt.Sprintln(selected, over) + text
}

// population changes a plan to a population of five members, in as many generations as its trials make.
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

// TestPopulation: a population comes to the same members with the same bytes whether one task trains it, four that
// start at once, or one that is interrupted in every generation. Each member continues a model of the generation
// before, and training its lineage again makes its model again: see members.
func TestPopulation(t *testing.T) {
	ways := []struct {
		name  string
		tasks int // that run to the end together; 0: attempts of one task, most of which are interrupted
	}{{"one task", 1}, {"four tasks", 4}, {"interrupted", 0}}
	var all []string
	for _, way := range ways {
		w := newWorld(t, 15, population)
		if way.tasks == 0 {
			// Four attempts lose their machines, each when it has decided one of these trials: two in the first
			// generation, trials 0 to 4, and one in each later one. Attempt 9 ends the sweep; any number above 3 would
			// do.
			for attempt, trial := range []int{0, 4, 7, 13} {
				w.until(t, attempt, sweep.Names(w.plan.Sweep).Decision(trial), 1)
			}
			worker := w.worker(0)
			worker.Attempt = 9
			runs(t, worker)
		}
		w.tasks(t, way.tasks)
		all = append(all, w.members(t, way.name))
	}
	for i, text := range all[1:] {
		if text != all[0] {
			t.Errorf("one task comes to the population\n%.1500s\nand %q comes to\n%.1500s\nwant the same", all[0],
				ways[i+1].name, text)
		}
	}
}

// members checks every member's decision, parent and number of trees, and that the last member's lineage makes its
// model again. It returns the members' scores and checksums as text. way is for the messages.
func (w *world) members(t *testing.T, way string) (text string) {
	t.Helper()
	trials := sweepstore.NewTrials(w.sweeps, w.plan)
	replaced := 0
	for n := range w.plan.Trials {
		r := w.done(t, n)
		d, err := trials.Decision(t.Context(), n)
		if err != nil || d == nil {
			t.Fatalf("%s: the decision of trial %d: got %v (error %v), want one", way, n, d, err)
		}
		replay(t, w.plan, d)

		// Every generation adds 8 trees to the model that it continues.
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

// again trains a member's lineage one after the other, each from the model before, and then the member, and returns the
// checksum of its model.
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

// TestALostModelEndsItsLine: if the model that a member is to continue is damaged, the member's trial fails with that
// reason, and those that continue other models are done.
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
	// One of the other four may continue the same model.
	if done < 3 {
		t.Errorf("%d of the other four of the generation are done; want at least 3, those that continue other models",
			done)
	}
}
