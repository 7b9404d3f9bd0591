package conclude

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"coppice/internal/blob"
	"coppice/internal/dataset"
	"coppice/internal/must"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
)

// overwrite replaces an object's bytes.
func overwrite(t *testing.T, s blob.Store, name, text string) {
	t.Helper()
	must.Get(s.Put(t.Context(), name, blob.Any, strings.NewReader(text)))(t)
}

// reworded is the registry with a report as another build would have worded it.
func (w *world) reworded(t *testing.T) blob.Store {
	t.Helper()
	old := registry.New(w.models)
	v := must.Get(old.Find(t.Context(), "ctr", string(w.plan.Sweep)))(t)
	files := map[string][]byte{}
	for _, f := range v.Files {
		files[f.Name] = must.Get(old.ReadFile(t.Context(), v, f.Name))(t)
	}
	files[scorer.FileReport] = bytes.Replace(files[scorer.FileReport], []byte("has the highest"),
		[]byte("is the best by"), 1)

	out := blob.Memory()
	must.Get(registry.New(out).Register(t.Context(), "ctr", string(w.plan.Sweep), files, v.Info))(t)
	return out
}

// TestDamageAfterRegistering: an aggregator stops between registering and concluding, before or after moving the
// champion, and something is damaged before the next one runs. The sweep still has a winner, because the registry has
// its version.
func TestDamageAfterRegistering(t *testing.T) {
	clean := newWorld(t, options{})
	want := clean.mustConclude(t)
	names := sweep.Names(clean.plan.Sweep)
	data := sweep.DatasetDir(clean.plan.Dataset.Name, clean.plan.Dataset.Version)

	for name, tc := range map[string]struct {
		spoil    func(*testing.T, *world)
		promotes bool // expected if not promoted before
		unread   bool // the version's record cannot be read, and so neither can the report
	}{
		"nothing": {func(*testing.T, *world) {}, true, false},
		"sample":  {func(t *testing.T, w *world) { flip(t, w.datasets, data+dataset.SampleFile) }, false, false},
		"winner's result": {func(t *testing.T, w *world) { overwrite(t, w.sweeps, names.Result(want.Trial), "{") },
			true, false},
		"winner's model": {func(t *testing.T, w *world) {
			flip(t, w.sweeps, names.Attempt(want.Trial, 0)+"model.txt")
		}, true, false},
		"plan":   {func(t *testing.T, w *world) { overwrite(t, w.sweeps, names.Plan(), "{") }, true, false},
		"ending": {func(t *testing.T, w *world) { overwrite(t, w.sweeps, names.Ending(), "{") }, true, false},
		"key": {func(t *testing.T, w *world) {
			overwrite(t, w.models, "registry/ctr/keys/"+string(w.plan.Sweep)+".json", "{")
		}, true, false},
		"another's wording": {func(t *testing.T, w *world) { w.models = merged(t, w.models, w.reworded(t)) }, true,
			false},
		"version": {func(t *testing.T, w *world) {
			overwrite(t, w.models, "registry/ctr/versions/1/version.json", "{")
		}, false, true},
	} {
		for _, promoted := range []bool{true, false} {
			when := ", not promoted yet"
			if promoted {
				when = ", promoted"
			}
			t.Run(name+when, func(t *testing.T) {
				w := newWorldLike(t, clean)
				if !promoted {
					w.models = without(t, w.models, "registry/ctr/aliases/champion.json",
						"registry/ctr/history/champion/00000001.json")
				}
				tc.spoil(t, w)

				c, err := w.aggregator().Consider(t.Context(), w.plan.Sweep)
				if err != nil || c == nil {
					t.Fatalf("concluding gives %+v and %v; want a winner", c, err)
				}
				if c.Outcome != sweep.OutcomeWinner || c.Version != 1 || c.Model != "ctr" {
					t.Fatalf("concluded with %s, version %d of %q (%s); want version 1 of ctr as winner", c.Outcome,
						c.Version, c.Model, c.Reason)
				}
				if !tc.unread && (c.Trial != want.Trial || c.Test["auc"] != want.Test["auc"] || c.Verified == nil ||
					c.Calibration == nil) {
					t.Errorf("concluded with trial %d, auc %v; want trial %d, auc %v, as registered", c.Trial,
						c.Test["auc"], want.Trial, want.Test["auc"])
				}
				if moved := promoted || tc.promotes; c.Gate == nil || c.Gate.Promoted != moved {
					t.Errorf("the gate says %+v; want the version promoted: %t", c.Gate, moved)
				}

				// The next aggregator finds what this one left.
				again, err := w.aggregator().Consider(t.Context(), w.plan.Sweep)
				if err != nil || again == nil || again.Version != 1 {
					t.Errorf("asked again: %+v, %v; want the same conclusion", again, err)
				}
			})
		}
	}
}

// newWorldLike is a world with the objects of a concluded one, except the conclusion.
func newWorldLike(t *testing.T, w *world) *world {
	t.Helper()
	out := *w
	out.datasets, out.models = without(t, w.datasets), without(t, w.models)
	out.sweeps = without(t, w.sweeps, sweep.Names(w.plan.Sweep).Conclusion())
	return &out
}

// merged is a store with the objects of two; on conflict, the second's.
func merged(t *testing.T, a, b blob.Store) blob.Store {
	t.Helper()
	out := without(t, a)
	for name, text := range state(t, b, "") {
		overwrite(t, out, name, text)
	}
	return out
}

// TestTheQuorumCountsAtTheEnd: with too few models there is no winner, even if every trial has ended.
func TestTheQuorumCountsAtTheEnd(t *testing.T) {
	fail := func(r *sweep.Result, _ map[string][]byte) {
		if r.Trial > 0 {
			r.Status, r.Reason = sweep.StatusFailed, "no luck"
		}
	}
	for trials, want := range map[int]sweep.Outcome{2: sweep.OutcomeWinner, 3: sweep.OutcomeNoWinner} {
		c := newWorld(t, options{leaves: []int{4, 8, 6}[:trials], store: fail}).mustConclude(t)
		if c.Outcome != want {
			text, _ := json.Marshal(c)
			t.Errorf("1 of %d trials is done, and the quorum is half of them: %s; want %s", trials, text, want)
		}
	}
}

// TestStoppedTrialsNeedNoQuorum: trials stopped because others were better do not count against the quorum.
func TestStoppedTrialsNeedNoQuorum(t *testing.T) {
	stop := func(r *sweep.Result, _ map[string][]byte) {
		if r.Trial > 0 {
			r.Status, r.Reason = sweep.StatusStopped, "at 4 trees: rank 3 of 3"
		}
	}
	c := newWorld(t, options{leaves: []int{4, 8, 6}, store: stop}).mustConclude(t)
	if c.Outcome != sweep.OutcomeWinner || c.Trial != 0 || c.Done != 1 || c.Failed != 0 {
		t.Errorf("one trial is done and two were stopped: outcome %s, trial %d, %d done, %d failed; want trial 0 to "+
			"win, and none failed", c.Outcome, c.Trial, c.Done, c.Failed)
	}
}
