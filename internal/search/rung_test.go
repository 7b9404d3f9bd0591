package search_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coppice/internal/search"
	"coppice/internal/sweep"
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
		written := sweep.Promotion{Trial: r.Trial, Step: r.Step, Score: r.Score,
			Promoted: r.Verdict.Action == search.GoOn, Reason: r.Verdict.Reason, Seen: r.Seen(), Last: r.Last}
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

// TestTrialsPauseAtARung: none is stopped there, the first ones have nobody to be compared with, and with halving all
// wait.
func TestTrialsPauseAtARung(t *testing.T) {
	for rule, want := range map[string][3]string{sweep.StopASHA: {search.Wait, search.Wait, search.GoOn},
		sweep.StopHalving: {search.Wait, search.Wait, search.Wait}} {
		p := pausing(rule)
		for n := range 3 {
			v, err := search.AtRung(p, sweep.Reached{Step: 3, Trial: n, Score: float64(n)}, reached(3, 0, 1)[:n])
			if err != nil || v.Action != want[n] || v.Rung != 3 || v.Reason == "" {
				t.Errorf("%s: the best of %d at a rung: got %+v, error %v; want %s, with a reason", rule, n+1, v, err,
					want[n])
			}
		}
	}
	old := pausing(sweep.StopASHA)
	old.Format = sweep.FormatOpen
	if v, err := search.AtRung(old, sweep.Reached{Step: 3, Trial: 9, Score: -1}, reached(3, 0, 1)); err != nil ||
		v.Action != search.Stop {
		t.Errorf("the worst of three, in a plan of an earlier build: got %+v, error %v; want it to stop", v, err)
	}
}

// TestPausedTrialsArePromoted when enough others were worse, the highest rung first; at the end the best of each rung
// goes on, and the others end.
func TestPausedTrialsArePromoted(t *testing.T) {
	p := pausing(sweep.StopASHA)
	at := reached(3, 0.5, 0.7, 0.6, 0.4, 0.3)
	resumable(t, p, search.Ladder{Paused: at[:2], Reached: at[:2]}, search.GoOn)
	resumable(t, p, search.Ladder{Paused: at, Reached: at}, search.GoOn, 1)

	// Trial 1 has gone on, and waits at the next rung.
	ladder := search.Ladder{Paused: append(slices.Delete(slices.Clone(at), 1, 2), reached(9, 0, 0.8)[1]),
		Reached: append(slices.Clone(at), reached(9, 0, 0.8)[1])}
	resumable(t, p, ladder, search.GoOn)
	ladder.Last = true
	resumable(t, p, ladder, search.GoOn, 1)
	ladder.Paused = ladder.Paused[:4]
	resumable(t, p, ladder, search.Stop, 2, 0, 3, 4)

	// Behind by no more than the noise is as good.
	p.Spec.Search.Stop.Noise = 0.15
	resumable(t, p, search.Ladder{Paused: at, Reached: at}, search.GoOn, 1, 2)
}

// TestPromotionsThatFollowFromNoScore are the same when made again, unless they say the opposite.
func TestPromotionsThatFollowFromNoScore(t *testing.T) {
	for _, r := range []sweep.Promotion{
		{Promoted: true, Unread: true, Reason: "its score at the rung cannot be read"},
		{Promoted: false, Enough: true, Reason: "the sweep has enough: trial 3 has it"},
	} {
		r.Trial, r.Step = 4, 3
		if err := search.ReplayPromotion(pausing(sweep.StopASHA), &r); err != nil {
			t.Errorf("made again that promoted is %t, %s: %v", r.Promoted, r.Reason, err)
		}
		r.Promoted = !r.Promoted
		if err := search.ReplayPromotion(pausing(sweep.StopASHA), &r); err == nil {
			t.Errorf("made again that promoted is %t, %s: got no error, want one", r.Promoted, r.Reason)
		}
	}
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

// oneByOne is what Resumable has to find, with every paused trial compared by itself.
func oneByOne(t *testing.T, p *sweep.Plan, l search.Ladder) (found []string, behind []int) {
	t.Helper()
	best := slices.SortedFunc(slices.Values(l.Paused), func(a, b sweep.Reached) int {
		byScore := cmp.Compare(a.Score, b.Score)
		if p.Maximize {
			byScore = -byScore
		}
		return cmp.Or(cmp.Compare(b.Step, a.Step), byScore, cmp.Compare(a.Trial, b.Trial))
	})
	judged := func(own sweep.Reached, last bool) (search.Verdict, []sweep.Reached) {
		seen := []sweep.Reached{}
		for _, other := range l.Reached {
			if other.Step == own.Step && other.Trial != own.Trial {
				seen = append(seen, other)
			}
		}
		slices.SortFunc(seen, func(a, b sweep.Reached) int { return cmp.Compare(a.Trial, b.Trial) })
		v, err := search.AfterPause(p, own, seen, last)
		if err != nil {
			t.Fatal(err)
		}
		return v, seen
	}

	var promoted, ended []string
	halving := p.Spec.Search.Stop.Rule == sweep.StopHalving
	for _, own := range best {
		if v, _ := judged(own, true); v.Action == search.Stop {
			behind = append(behind, own.Trial)
		}
		if halving && l.Coming[own.Step] > 0 {
			continue
		}
		switch v, seen := judged(own, l.Last || halving); v.Action {
		case search.GoOn:
			promoted = append(promoted, fmt.Sprint(own, v, seen, l.Last || halving))
		case search.Stop:
			ended = append(ended, fmt.Sprint(own, v, seen, l.Last || halving))
		}
	}
	slices.Sort(behind)
	if len(promoted) > 0 {
		return promoted, behind
	}
	return ended, behind
}

// TestVerdictsOfAllAreThoseOfEach: that each rung is put in order once changes no verdict, whatever the rule, ties,
// noise, scores that are no numbers, and trials of which the ladder does not know the score.
func TestVerdictsOfAllAreThoseOfEach(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	values := []float64{0.1, 0.2, 0.2, 0.25, 0.3, 0.4, 0.5, math.Inf(1), math.Inf(-1), math.NaN()}
	verdicts := 0
	for n := range 2000 {
		p := pausing([]string{sweep.StopASHA, sweep.StopHalving, sweep.StopHyperband}[n%3])
		stop := p.Spec.Search.Stop
		stop.Eta, stop.Noise, p.Maximize = 2+r.IntN(3), []float64{0, 0, 0.1}[r.IntN(3)], r.IntN(2) == 0
		l := search.Ladder{Last: r.IntN(2) == 0, Coming: map[int]int{9: r.IntN(2)}}
		for trial := range r.IntN(20) {
			at := sweep.Reached{Step: 3, Trial: trial, Score: values[r.IntN(len(values))]}
			if r.IntN(3) == 0 { // it has been promoted, and may wait again
				l.Reached = append(l.Reached, at)
				at.Step, at.Score = 9, r.Float64()
			}
			if r.IntN(10) > 0 {
				l.Reached = append(l.Reached, at)
			}
			if r.IntN(4) > 0 {
				l.Paused = append(l.Paused, at)
			}
		}
		r.Shuffle(len(l.Reached), func(i, j int) { l.Reached[i], l.Reached[j] = l.Reached[j], l.Reached[i] })

		want, beaten := oneByOne(t, p, l)
		found, err := search.Resumable(p, l)
		var got []string
		for _, f := range found {
			got = append(got, fmt.Sprint(f.Reached, f.Verdict, f.Seen(), f.Last))
		}
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("ladder %d, %+v with %+v: got %q, error %v; one by one %q", n, *stop, l, got, err, want)
		}
		behind, err := search.Behind(p, l)
		if err != nil || !slices.Equal(behind, beaten) {
			t.Fatalf("ladder %d, %+v with %+v: behind are %v, error %v; one by one %v", n, *stop, l, behind, err,
				beaten)
		}
		verdicts += len(got)
	}
	if verdicts < 2000 {
		t.Errorf("there were %d verdicts on 2000 ladders; want more, or little was tested", verdicts)
	}
}

// thousand is a ladder with a thousand paused trials.
func thousand() (l search.Ladder) {
	for trial := range 1000 {
		at := sweep.Reached{Step: 3, Trial: trial, Score: float64(trial*7919%1000) / 1000}
		l.Paused, l.Reached = append(l.Paused, at), append(l.Reached, at)
	}
	l.Last = true
	return l
}

// BenchmarkResumable is what each look of a task costs at the end of the largest sweep.
func BenchmarkResumable(b *testing.B) {
	p, l := pausing(sweep.StopASHA), thousand()
	for b.Loop() {
		if found, err := search.Resumable(p, l); err != nil || len(found) == 0 {
			b.Fatalf("%d verdicts, error %v", len(found), err)
		}
	}
}
