package sweep_test

import (
	"strings"
	"testing"

	"coppice/internal/sweep"
)

// TestStopBoundsTheTrials: at every rung every trial records all that it has seen of the others, so a sweep of 10,000
// would write gigabytes.
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

// TestRungsOfWinnersAreNoOtherSweep: with warm_start the rungs follow from the trees of earlier winners, which change
// from day to day.
func TestRungsOfWinnersAreNoOtherSweep(t *testing.T) {
	with := func(warm string, rungs ...int) *sweep.Plan {
		p := plan()
		p.Spec.Search.WarmStart, p.Spec.Search.Stop = warm, &sweep.Stop{Rule: sweep.StopASHA, Eta: 3, MinTrees: 10,
			Rungs: rungs}
		return p
	}

	p, later := with(sweep.WarmAuto, 11, 33), with(sweep.WarmAuto, 12, 37, 111)
	if p.Fingerprint() != later.Fingerprint() {
		t.Error("with warm_start other rungs make another fingerprint; want the same")
	}
	if got := p.Spec.Search.Stop.Rungs; len(got) != 2 {
		t.Errorf("after its fingerprint was taken the plan has the rungs %v, want [11 33]", got)
	}
	if later.Spec.Search.Stop.Eta = 4; p.Fingerprint() == later.Fingerprint() {
		t.Error("another eta makes the same fingerprint; want another")
	}
	if with("", 11, 33).Fingerprint() == with("", 12, 37).Fingerprint() {
		t.Error("without warm_start other rungs make the same fingerprint; want another")
	}
}
