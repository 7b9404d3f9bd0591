package search_test

import (
	"slices"
	"strings"
	"testing"

	"coppice/search"
	"coppice/sweep"
)

func pausing(rule string) *sweep.Plan {
	p := &sweep.Plan{Maximize: true}
	p.Spec.Search.Stop = &sweep.Stop{Rule: rule, Eta: 3, MinTrees: 3, Rungs: []int{3, 9}}
	p.Adapt()
	return p
}

// reached gives trials 0, 1, 2 ... their scores at a rung.
func reached(step int, scores ...float64) (out []sweep.Reached) {
	for trial, score := range scores {
		out = append(out, sweep.Reached{Step: step, Trial: trial, Score: score})
	}
	return out
}

// resumable checks the trials of which can be said what becomes of them, and that each verdict can be reproduced.
func resumable(t *testing.T, p *sweep.Plan, l search.Ladder, action string, want ...int) {
	t.Helper()
	found, err := search.Resumable(p, l)
	if err != nil {
		t.Fatal(err)
	}
	var got []int
	for _, r := range found {
		got = append(got, r.Trial)
		if r.Verdict.Action != action {
			t.Errorf("what becomes of trial %d: got %+v, want it to %s", r.Trial, r.Verdict, action)
		}
		written := sweep.Promotion{Trial: r.Trial, Step: r.Step, Score: r.Score, Promoted: r.Verdict.Action == search.GoOn, Reason: r.Verdict.Reason, Seen: r.Seen, Last: r.Last}
		if err := search.ReplayPromotion(p, &written); err != nil {
			t.Errorf("made the verdict on trial %d again: %v", r.Trial, err)
		}
		written.Promoted = !written.Promoted
		if err := search.ReplayPromotion(p, &written); err == nil {
			t.Errorf("made the opposite of the verdict on trial %d again: got no error, want one", r.Trial)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("with %+v: trials %v are to %s, want %v", l, got, action, want)
	}
}

// TestTrialsPauseAtARung: none is stopped there, the first ones have nobody to be compared with, and with halving all wait.
func TestTrialsPauseAtARung(t *testing.T) {
	for rule, want := range map[string][3]string{sweep.StopASHA: {search.Wait, search.Wait, search.GoOn}, sweep.StopHalving: {search.Wait, search.Wait, search.Wait}} {
		p := pausing(rule)
		for n := range 3 {
			v, err := search.AtRung(p, sweep.Reached{Step: 3, Trial: n, Score: float64(n)}, reached(3, 0, 1)[:n])
			if err != nil || v.Action != want[n] || v.Rung != 3 || v.Reason == "" {
				t.Errorf("%s: the best of %d at a rung: got %+v, error %v; want %s, with a reason", rule, n+1, v, err, want[n])
			}
		}
	}
	old := pausing(sweep.StopASHA)
	old.Format = sweep.FormatOpen
	if v, err := search.AtRung(old, sweep.Reached{Step: 3, Trial: 9, Score: -1}, reached(3, 0, 1)); err != nil || v.Action != search.Stop {
		t.Errorf("the worst of three, in a plan of an earlier build: got %+v, error %v; want it to stop", v, err)
	}
}

// TestPausedTrialsArePromoted when enough others were worse, the highest rung first; at the end the best of each rung goes on, and the others end.
func TestPausedTrialsArePromoted(t *testing.T) {
	p := pausing(sweep.StopASHA)
	at := reached(3, 0.5, 0.7, 0.6, 0.4, 0.3)
	resumable(t, p, search.Ladder{Paused: at[:2], Reached: at[:2]}, search.GoOn)
	resumable(t, p, search.Ladder{Paused: at, Reached: at}, search.GoOn, 1)

	// Trial 1 has gone on, and waits at the next rung.
	ladder := search.Ladder{Paused: append(slices.Delete(slices.Clone(at), 1, 2), reached(9, 0, 0.8)[1]), Reached: append(slices.Clone(at), reached(9, 0, 0.8)[1])}
	resumable(t, p, ladder, search.GoOn)
	ladder.Last = true
	resumable(t, p, ladder, search.GoOn, 1)
	ladder.Paused = ladder.Paused[:4]
	resumable(t, p, ladder, search.Stop, 2, 0, 3, 4)

	// Behind by no more than the noise is as good.
	p.Spec.Search.Stop.Noise = 0.15
	resumable(t, p, search.Ladder{Paused: at, Reached: at}, search.GoOn, 1, 2)
}

// TestHalvingWaitsForAll that may come to a rung; then the best of it go on, and next the others end.
func TestHalvingWaitsForAll(t *testing.T) {
	p := pausing(sweep.StopHalving)
	at := reached(3, 0.5, 0.7, 0.6, 0.4, 0.3, 0.65, 0.2)
	resumable(t, p, search.Ladder{Paused: at, Reached: at, Coming: map[int]int{3: 1}}, search.GoOn)
	all := search.Ladder{Paused: at, Reached: at, Coming: map[int]int{3: 0, 9: 7}}
	resumable(t, p, all, search.GoOn, 1, 5)
	all.Paused = slices.DeleteFunc(slices.Clone(at), func(r sweep.Reached) bool { return r.Trial == 1 || r.Trial == 5 })
	resumable(t, p, all, search.Stop, 2, 0, 3, 4, 6)

	v, err := search.AfterPause(p, at[0], at[1:], true)
	if err != nil || !strings.Contains(v.Reason, "rank 4 of 7 at rung 3; 2 go on, and it is behind by 0.15") {
		t.Errorf("the fourth of seven: got %+v, error %v", v, err)
	}
}
