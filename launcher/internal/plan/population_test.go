package plan_test

import (
	"encoding/json"
	"strings"
	"testing"

	"coppice/internal/sweep"
)

// TestPopulation: every trial is decided when it is claimed, and as many at once as the population has members.
func TestPopulation(t *testing.T) {
	s := parse(t, "  fixed: [{}, {learning_rate: 0.2}]\n", "  method: pbt\n  population: 4\n", "trials: 8",
		"trials: 12")
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
	if got := sources(p); got != "pbt 12" || p.AtOnce() != 4 || len(p.Expected) != 12 || p.Expected[11].Params == nil ||
		p.Sizing.Tasks > 4 {
		t.Errorf("the trials are from %s, %d at once in %d tasks, %d expected; want 12 of pbt, 4 at once and no more "+
			"tasks, 12", got, p.AtOnce(), p.Sizing.Tasks, len(p.Expected))
	}
	if notes := strings.Join(p.Notes, "; "); !strings.Contains(notes, "a population of 4 in 3 generations") {
		t.Errorf("the notes are %q, want that they say how many generations there are", notes)
	}
}

// TestPopulationOfFew: a space with fewer configurations than the population has members is refused, and one with as
// many is enough for all generations.
func TestPopulationOfFew(t *testing.T) {
	few := func(values string) error {
		s := parse(t, "  fixed: [{}, {learning_rate: 0.2}]\n", "  method: pbt\n  population: 4\n", "trials: 8",
			"trials: 12")
		s.Search.Grid, s.Search.Constraints = nil, nil
		choice := []any{}
		for _, v := range values {
			choice = append(choice, float64(v-'0'))
		}
		s.Search.Random = map[string]sweep.Distribution{"min_data_in_leaf": {Choice: choice}}
		p, err := build(s, manifest(all...))
		if err == nil && strings.Contains(strings.Join(p.Notes, "; "), "will run") {
			t.Errorf("%d configurations for a population of 4: the notes are %q, want none about too few", len(choice),
				p.Notes)
		}
		return err
	}
	if err := few("2345"); err != nil {
		t.Errorf("four configurations for a population of 4: got error %v, want none", err)
	}
	if err := few("234"); err == nil ||
		!strings.Contains(err.Error(), "only 3 different configurations for a population of 4") {
		t.Errorf("three configurations for a population of 4: got error %v, want it refused", err)
	}
}

// TestPopulationNeedsMemory: a trial has memory for the trees that it continues.
func TestPopulationNeedsMemory(t *testing.T) {
	need := func(trials string) int64 {
		s := parse(t, "  fixed: [{}, {learning_rate: 0.2}]\n", "  method: pbt\n  population: 4\n", "trials: 8", trials)
		p, err := build(s, manifest(all...))
		if err != nil {
			t.Fatal(err)
		}
		return p.Sizing.TrialBytes
	}
	two, three := need("trials: 8"), need("trials: 12")
	if grown := three - two; grown < 100*255*100 { // trees, leaves, and bytes of a leaf at least
		t.Errorf("a third generation adds %d bytes to a trial's memory (%d after %d); want those of the second's trees",
			grown, three, two)
	}
}
