package plan_test

import (
	"encoding/json"
	"strings"
	"testing"

	"coppice/launcher/internal/plan"
	"coppice/sweep"
)

// TestPopulation: every trial is decided when it is claimed, as many at once as the population has members, and none in an extension.
func TestPopulation(t *testing.T) {
	s := parse(t, "  fixed: [{}, {learning_rate: 0.2}]\n", "  method: pbt\n  population: 4\n", "trials: 8", "trials: 12")
	p, err := build(s, manifest(all...))
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
	if got := sources(p); got != "pbt 12" || p.AtOnce() != 4 || p.Format != sweep.FormatPopulation || len(p.Expected) != 12 || p.Expected[11].Params == nil || p.Sizing.Tasks > 4 {
		t.Errorf("the trials are from %s, %d at once in %d tasks, format %d, %d expected; want 12 of pbt, 4 at once and no more tasks, format %d, 12", got, p.AtOnce(), p.Sizing.Tasks, p.Format, len(p.Expected), sweep.FormatPopulation)
	}
	if notes := strings.Join(p.Notes, "; "); !strings.Contains(notes, "a population of 4 in 3 generations") {
		t.Errorf("the notes are %q, want that they say how many generations there are", notes)
	}

	_, err = plan.Extend(plan.Request{Spec: s, Manifest: manifest(all...), Job: func(id sweep.ID) string { return "jobs/" + string(id) }}, &plan.Ended{Plan: p.Plan}, 4)
	if err == nil || !strings.Contains(err.Error(), "trains a population") {
		t.Errorf("extended a population: got error %v, want it refused", err)
	}
}
