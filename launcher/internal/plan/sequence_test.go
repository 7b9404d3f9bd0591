package plan_test

import (
	"encoding/json"
	"testing"
	"time"

	"coppice/internal/sweep"
	"coppice/launcher/internal/plan"
)

// TestSequences: a sweep over the points of a sequence is planned the same twice, and an extension has the points that
// a longer sweep would have had.
func TestSequences(t *testing.T) {
	asJSON := func(trials []sweep.Trial) string {
		text, err := json.Marshal(trials)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	planned := func(method, trials string) *plan.Planned {
		p, err := build(learner(t, "method: auto", "method: "+method, "trials: 20", "trials: "+trials),
			manifest(all...))
		if err != nil {
			t.Fatalf("%s, %s trials: %v", method, trials, err)
		}
		return p
	}

	const method = sweep.MethodHalton
	p, long := planned(method, "20"), planned(method, "32")
	if again := planned(method, "20"); asJSON(again.Trials) != asJSON(p.Trials) ||
		again.Fingerprint() != p.Fingerprint() {
		t.Errorf("%s: planned twice, the trials are\n%s\nand\n%s\nwant the same", method, asJSON(p.Trials),
			asJSON(again.Trials))
	}

	old := &plan.Ended{Plan: p.Plan, Results: map[int]sweep.Result{}}
	for i := range p.Trials {
		old.Results[i] = sweep.Result{Format: sweep.FormatVersion, Sweep: p.Sweep, Trial: i,
			Status: sweep.StatusDone, Score: 0.7, Metrics: map[string]float64{"auc": 0.7}}
	}
	spec := p.Spec
	more, err := plan.Extend(plan.Inputs{Spec: &spec, Manifest: manifest(all...),
		Job: func(id sweep.ID) string { return "jobs/" + string(id) }, Now: time.Unix(2, 0)}, old, 12)
	if err != nil {
		t.Fatalf("%s, 12 more trials: %v", method, err)
	}
	if asJSON(more.Trials) != asJSON(long.Trials) {
		t.Errorf("%s: 20 trials and 12 more are\n%s\nwant those of a sweep of 32\n%s", method, asJSON(more.Trials),
			asJSON(long.Trials))
	}
	if n := len(more.Own()); n != 12 || more.Open() {
		t.Errorf("%s, 12 more trials: it trains %d, open: %t; want 12, all listed", method, n, more.Open())
	}
}
