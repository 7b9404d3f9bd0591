package plan_test

import (
	"encoding/json"
	"testing"

	"coppice/internal/must"
	"coppice/internal/sweep"
	"coppice/launcher/internal/plan"
)

// TestSequences: a sweep over the points of a sequence is planned the same twice, and begins as a longer one does.
func TestSequences(t *testing.T) {
	planned := func(trials string) (*plan.Planned, string) {
		p := built(t, learner(t, "method: auto", "method: "+sweep.MethodHalton, "trials: 20", "trials: "+trials),
			manifest(all...))
		text := must.Get(json.Marshal(p.Trials[:20]))(t)
		return p, string(text)
	}
	p, first := planned("20")
	if again, text := planned("20"); text != first || again.Fingerprint() != p.Fingerprint() {
		t.Errorf("planned twice, the trials are\n%s\nand\n%s\nwant the same", first, text)
	}
	if _, text := planned("32"); text != first {
		t.Errorf("20 trials are\n%s\nwant the first of a sweep of 32\n%s", first, text)
	}
}
