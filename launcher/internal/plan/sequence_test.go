package plan_test

import (
	"encoding/json"
	"testing"

	"coppice/internal/sweep"
	"coppice/launcher/internal/plan"
)

// TestSequences: a sweep over the points of a sequence is planned the same twice, and begins as a longer one does.
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

	if asJSON(p.Trials) != asJSON(long.Trials[:20]) {
		t.Errorf("%s: 20 trials are\n%s\nwant the first of a sweep of 32\n%s", method, asJSON(p.Trials),
			asJSON(long.Trials[:20]))
	}
}
