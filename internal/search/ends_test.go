package search

import (
	"math"
	"testing"

	"coppice/internal/sweep"
)

// TestExpectedEnds: what a stopped trial would have ended with is what the others gained on the rest of the way.
func TestExpectedEnds(t *testing.T) {
	trial := func(n int, status sweep.Status, scores ...float64) sweep.Seen {
		s := sweep.Seen{Trial: n, Status: status, Score: &scores[len(scores)-1]}
		for i, v := range scores {
			if status == sweep.StatusStopped || i < len(scores)-1 {
				s.Rungs = append(s.Rungs, sweep.RungScore{Step: []int{5, 15, 45}[i], Score: v})
			}
		}
		return s
	}
	seen := []sweep.Seen{
		trial(0, sweep.StatusDone, 0.60, 0.65, 0.68, 0.70),
		trial(1, sweep.StatusDone, 0.62, 0.66, 0.70, 0.71),
		trial(2, sweep.StatusStopped, 0.50),
		trial(3, sweep.StatusStopped, 0.58, 0.60),
		trial(4, sweep.StatusStopped, 0.61, 0.67, 0.66),
		{Trial: 5, Status: sweep.StatusRunning},
		trial(6, sweep.StatusDone, 0.9), // before its first rung
	}

	// Medians of the gains: 0.045 to the second rung, 0.03 to the third, and 0.015 to the end.
	ends := expectedEnds(seen)
	for trial, want := range map[int]float64{2: 0.59, 3: 0.645, 4: 0.675} {
		if math.Abs(ends[trial]-want) > 1e-12 {
			t.Errorf("trial %d would have ended with %v, want %v", trial, ends[trial], want)
		}
	}
	if len(ends) != 3 {
		t.Errorf("%d trials have an expected end, want the three that were stopped: %v", len(ends), ends)
	}

	alone := expectedEnds(seen[2:3])
	if alone[2] != 0.50 {
		t.Errorf("without others a stopped trial would have ended with %v, want its score of 0.5", alone[2])
	}
}

// TestStoppedTrialsInformAtTheirWorth: a search that has seen two whole trainings and many samples does not take the
// two for the best.
func TestStoppedTrialsInformAtTheirWorth(t *testing.T) {
	score := func(v float64) *float64 { return &v }
	p := &sweep.Plan{Maximize: true}
	p.Spec.Search.Stop = &sweep.Stop{Rule: sweep.StopASHA, Eta: 3, Rungs: []int{5}}
	seen := []sweep.Seen{
		{Trial: 0, Status: sweep.StatusDone, Score: score(0.70), Params: sweep.Params{},
			Rungs: []sweep.RungScore{{Step: 5, Score: 0.40}}},
		{Trial: 1, Status: sweep.StatusStopped, Score: score(0.45), Params: sweep.Params{},
			Rungs: []sweep.RungScore{{Step: 5, Score: 0.45}}},
	}
	q := askOf(p, nil, seen)
	if len(q.Known) != 2 || *q.Known[0].Score != 0.70 || math.Abs(*q.Known[1].Score-0.75) > 1e-12 {
		t.Errorf("the method sees %+v; want 0.7 of the trial that is done, and 0.75 of the one that was better "+
			"where it stopped", q.Known)
	}
}
