package worker

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"coppice/internal/dataset/datasettest"
	"coppice/internal/search"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// selecting makes the plan a forward selection among these groups.
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

// newSelection plans a selection among four groups of one or two columns, in folds if k is above 0.
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

// TestForwardSelection: one task and four come to the same selection, with the same scores and numbers of trees.
// checkSelection holds each step against the results: it has the best group of the step before, and trials of steps
// that the selection does not reach are stopped with the reason.
func TestForwardSelection(t *testing.T) {
	for _, k := range []int{0, 3} {
		t.Run(fmt.Sprint(k, " folds"), func(t *testing.T) {
			var selections []string
			for _, tasks := range []int{1, 4} {
				w := newSelection(t, k)
				w.tasks(t, tasks)
				selections = append(selections, w.checkSelection(t))
			}
			if k == 0 && !strings.Contains(selections[0], "stopped the selection ended") {
				t.Errorf("no trial shows the end of the selection:\n%s", selections[0])
			}
			if selections[0] != selections[1] {
				t.Errorf("one task and four come to different selections:\n%s\n%s", selections[0], selections[1])
			}
		})
	}
}

// chosen repeats the selection from the scores alone: the best group of each step, while the score is better than
// before.
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
	rest, score := f.Names(), scores[1] // with none of the groups
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

// checkSelection checks the trials of a selection against their results, and returns what they trained.
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
		d, err := trials.Decision(t.Context(), trial)
		if err != nil || d == nil {
			t.Fatalf("the decision of trial %d: %v, %v", trial, d, err)
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
		if err := replay(w.plan, d); err != nil {
			t.Errorf("made the decision of trial %d again: %v", trial, err)
		}
	}
	if len(selected) == 0 {
		t.Error("nothing was selected; want at least one group")
	}
	return fmt.Sprintln(selected, over) + text
}
