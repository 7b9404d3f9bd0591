package plan_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"coppice/sweep"
)

// TestTrialsComparedBySamples: the plan says at which samples, and older builds do not read it.
func TestTrialsComparedBySamples(t *testing.T) {
	spec := parse(t, "search:", "search:\n  stop: {rule: asha, by: rows}")
	p, err := build(spec, manifest(all...))
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(p.Plan)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sweep.DecodePlan(data); err != nil {
		t.Fatalf("the plan is refused by its reader: %v", err)
	}

	stop := p.Spec.Search.Stop
	if len(stop.Rungs) != sweep.MaxSamples || stop.OneIn(0) != 27 || p.Format != sweep.FormatPauses {
		t.Errorf("rungs %v, the first of one row in %d, format %d; want three, 27 and %d", stop.Rungs, stop.OneIn(0), p.Format, sweep.FormatPauses)
	}
	if want := "after training on one row in 27, then 9, then 3 (asha, one in 3 continues)"; !slices.ContainsFunc(p.Notes, func(n string) bool { return strings.Contains(n, want) }) {
		t.Errorf("the notes are %q; want one with %q", p.Notes, want)
	}

	small := manifest(all...)
	for i := range small.Splits {
		small.Splits[i].Rows = 2000
	}
	if _, err := build(spec, small); err == nil || !strings.Contains(err.Error(), "one in 3 of 2000 rows") {
		t.Errorf("of a small table: got error %v, want one that names its rows", err)
	}
}
