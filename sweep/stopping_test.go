package sweep_test

import (
	"strings"
	"testing"

	"coppice/sweep"
)

// TestStopBoundsTheTrials: every trial writes down at every rung what it has seen of all others, so a sweep of 10,000 would write gigabytes.
func TestStopBoundsTheTrials(t *testing.T) {
	parse := func(trials, search string) error {
		t.Helper()
		text := strings.NewReplacer("trials: 50", "trials: "+trials, "search:\n", "search:\n"+search).Replace(good)
		_, err := sweep.ParseSpec("sweep.yaml", []byte(text), words())
		return err
	}

	for _, rule := range sweep.StopRules() {
		stop := "  stop: {rule: " + rule + "}\n"
		if err := parse("1000", stop); err != nil {
			t.Errorf("1000 trials with rule %s: got error %v, want none", rule, err)
		}
		want := "sweep.yaml:5:9: trials is 1001: with search.stop a sweep has at most 1000"
		if err := parse("1001", stop); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("1001 trials with rule %s: got error %v, want one with %q", rule, err, want)
		}
	}

	if err := parse("10000", ""); err != nil {
		t.Errorf("10000 trials without stop: got error %v, want none", err)
	}
}
