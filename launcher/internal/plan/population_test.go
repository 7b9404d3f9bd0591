package plan_test

import (
	"strings"
	"testing"

	"coppice/internal/sweep"
)

// TestPopulation: every trial is decided when it is claimed, and as many at once as the population has members.
func TestPopulation(t *testing.T) {
	p := built(t, breeding(t, "trials: 12"), manifest(all...))
	readBack(t, p)
	if got := sources(p); got != "pbt 12" || p.AtOnce() != 4 || len(p.Expected) != 12 || p.Expected[11].Params == nil ||
		p.Sizing.Tasks > 4 {
		t.Errorf("the trials are from %s, %d at once in %d tasks, %d expected; want 12 of pbt, 4 at once and no more "+
			"tasks, 12", got, p.AtOnce(), p.Sizing.Tasks, len(p.Expected))
	}
	if notes := strings.Join(p.Notes, "; "); !strings.Contains(notes, "a population of 4 in 3 generations") {
		t.Errorf("the notes are %q, want that they say how many generations there are", notes)
	}
}

// breeding is a spec of a population of four.
func breeding(t *testing.T, trials string, edits ...string) *sweep.Spec {
	t.Helper()
	return parse(t, append([]string{"  fixed: [{}, {learning_rate: 0.2}]\n", "  method: pbt\n  population: 4\n",
		"trials: 8", trials}, edits...)...)
}

// TestPopulationOfFew: a space with fewer configurations than the population has members is refused, and one with as
// many is enough for all generations.
func TestPopulationOfFew(t *testing.T) {
	few := func(values string) *sweep.Spec {
		return breeding(t, "trials: 12", "num_leaves: {log_int: [15, 255]}", "min_data_in_leaf: {choice: "+values+"}")
	}
	refused(t, "only 3 different configurations for a population of 4", few("[2, 3, 4]"), manifest(all...))
	if p := built(t, few("[2, 3, 4, 5]"), manifest(all...)); strings.Contains(strings.Join(p.Notes, "; "), "will run") {
		t.Errorf("four configurations for a population of 4: the notes are %q, want none about too few", p.Notes)
	}
}

// TestPopulationNeedsMemory: a trial has memory for the trees that it continues.
func TestPopulationNeedsMemory(t *testing.T) {
	two := built(t, breeding(t, "trials: 8"), manifest(all...)).Sizing.TrialBytes
	three := built(t, breeding(t, "trials: 12"), manifest(all...)).Sizing.TrialBytes
	if grown := three - two; grown < 100*255*100 { // trees, leaves, and bytes of a leaf at least
		t.Errorf("a third generation adds %d bytes to a trial's memory (%d after %d); want those of the second's trees",
			grown, three, two)
	}
}
