package search_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"coppice/internal/must"
	"coppice/internal/search"
	"coppice/internal/strictyaml"
	"coppice/internal/sweep"
)

// pausing returns a plan that maximizes its score and stops trials by a rule, with an eta of 3 and rungs at 3 and 9.
func pausing(rule string) *sweep.Plan {
	p := &sweep.Plan{Maximize: true}
	p.Spec.Search.Stop = &sweep.Stop{Rule: rule, Eta: 3, MinTrees: 3, Rungs: []int{3, 9}}
	return p
}

// reached returns what is known of trials 0, 1, 2 ... at the rung step: these scores.
func reached(step int, scores ...float64) (out []sweep.Reached) {
	for trial, score := range scores {
		out = append(out, sweep.Reached{Step: step, Trial: trial, Score: score})
	}
	return out
}

// checkResumable checks that Resumable returns these trials, in this order and all with this action. Each verdict has
// to follow from what it says that it has seen.
func checkResumable(t *testing.T, p *sweep.Plan, l search.Ladder, action string, want ...int) {
	t.Helper()
	var got []int
	for _, r := range search.Resumable(p, l) {
		got = append(got, r.Trial)
		if r.Action != action {
			t.Errorf("what becomes of trial %d: got %+v, want it to %s", r.Trial, r.RungVerdict, action)
		}
		if again := search.AfterPause(p, r.Reached, r.Seen(), r.Last); again != r.RungVerdict {
			t.Errorf("the verdict on trial %d is %+v, and %+v from what it has seen; want the same", r.Trial,
				r.RungVerdict, again)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("with %+v: trials %v are to %s, want %v", l, got, action, want)
	}
}

// TestRungs: the rungs are the highest number divided by eta again and again, each time rounded down, as long as that
// is not below the lowest. The highest number itself is no rung.
func TestRungs(t *testing.T) {
	for _, tc := range []struct {
		low, high, eta int
		want           []int
	}{{10, 1000, 3, []int{12, 37, 111, 333}}, {1, 8, 2, []int{1, 2, 4}}, {50, 100, 3, nil}, {0, 3, 3, []int{1}}} {
		if got := search.Rungs(tc.low, tc.high, tc.eta); !slices.Equal(got, tc.want) {
			t.Errorf("rungs from %d to %d by %d: got %v, want %v", tc.low, tc.high, tc.eta, got, tc.want)
		}
	}
}

// TestOneInEtaGoesOn: with an eta of 3, the best three of nine trials at a rung go on, and the others stop, in whatever
// order the scores are given. If the score is minimized the lowest are the best. A trial that is as good as the last
// one that goes on does so, too.
func TestOneInEtaGoesOn(t *testing.T) {
	p := pausing(sweep.StopASHA)
	all := reached(3, 0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
	after := func(trial int) search.RungVerdict {
		seen := slices.Delete(slices.Clone(all), trial, trial+1)
		rand.New(rand.NewPCG(1, 2)).Shuffle(len(seen), func(i, j int) { seen[i], seen[j] = seen[j], seen[i] })
		return search.AfterPause(p, all[trial], seen, true)
	}
	for trial := range all {
		if v := after(trial); (v.Action == search.GoOn) != (trial >= 6) || v.Reason == "" {
			t.Errorf("trial %d of nine with rising scores: got %+v; want the last three to go on", trial, v)
		}
	}

	// Minimized, trials 0 to 2 go on, and then trial 3 as well, since it is as good as trial 2.
	p.Maximize = false
	if v := after(8); v.Action != search.Stop {
		t.Errorf("the highest loss: got %+v, want it to stop", v)
	}
	all[3].Score = all[2].Score
	if v := after(3); v.Action != search.GoOn || !strings.Contains(v.Reason, "behind by 0") {
		t.Errorf("behind by 0: got %+v, want it to go on", v)
	}
	// Three go on by their rank, the last of which, trial 2, has 0.2. Trial 4 has 0.4.
	if v := after(4); v.Action != search.Stop || !strings.Contains(v.Reason, "behind by 0.2") {
		t.Errorf("behind by 0.2: got %+v, want it to stop", v)
	}
}

// TestNoNumberRanksLast: trials whose score is NaN or an infinity rank last, even +Inf where higher is better. So with
// an eta of 2 the three others of six go on.
func TestNoNumberRanksLast(t *testing.T) {
	p := pausing(sweep.StopASHA)
	p.Spec.Search.Stop.Eta = 2
	all := reached(3, math.NaN(), 0.5, math.Inf(1), 0.4, math.Inf(-1), 0.3)
	for trial, want := range []string{search.Stop, search.GoOn, search.Stop, search.GoOn, search.Stop, search.GoOn} {
		v := search.AfterPause(p, all[trial], slices.Delete(slices.Clone(all), trial, trial+1), true)
		must.Equal(t, v.Action, want, "trial %d with the score %v", trial, all[trial].Score)
	}
}

// TestHyperbandHasBrackets: with three rungs there are four brackets, whose trials have 3, 2, 1 and 0 rungs. The
// earlier a bracket compares its trials, the more trials it has. A trial goes on at a rung that its bracket skips.
func TestHyperbandHasBrackets(t *testing.T) {
	p := pausing(sweep.StopHyperband)
	p.Spec.Search.Stop.Rungs = []int{1, 3, 9}
	trials := map[int]int{} // by number of rungs
	for trial := range 200 {
		trials[len(search.RungsOf(p, trial))]++
	}
	if !(trials[3] > trials[2] && trials[2] > trials[1] && trials[1] >= trials[0] && trials[0] > 0) {
		t.Errorf("200 trials by their number of rungs: got %v; want fewer with fewer rungs, and some with none", trials)
	}
	// Trial 2 compares at rung 9 at most, and so not at rung 3, where its score is the worst. By the shares of
	// bracketOf, 27, 12, 6 and 4 of 49, its place 0.85 (3 x 0.618 less the whole part) is in the third bracket.
	if rungs := search.RungsOf(p, 2); len(rungs) > 1 {
		t.Fatalf("trial 2 has the rungs %v, want one at most", rungs)
	}
	if v := search.AtRung(p, sweep.Reached{Step: 3, Trial: 2, Score: -1}, reached(3, 0, 1)); v.Action != search.GoOn {
		t.Errorf("trial 2 at a rung that its bracket skips: got %+v, want it to go on", v)
	}
}

// TestTrialsPauseAtARung: at a rung no trial is stopped. With asha and an eta of 3, the first two wait, since they are
// too few to be compared, and the third, which is the best, goes on. With halving all wait.
func TestTrialsPauseAtARung(t *testing.T) {
	for rule, want := range map[string][3]string{sweep.StopASHA: {search.Wait, search.Wait, search.GoOn},
		sweep.StopHalving: {search.Wait, search.Wait, search.Wait}} {
		p := pausing(rule)
		for n := range 3 {
			v := search.AtRung(p, sweep.Reached{Step: 3, Trial: n, Score: float64(n)}, reached(3, 0, 1)[:n])
			if v.Action != want[n] || v.Reason == "" {
				t.Errorf("%s: the best of %d at a rung: got %+v; want %s, with a reason", rule, n+1, v, want[n])
			}
		}
	}
}

// TestPausedTrialsArePromoted: with asha a paused trial goes on once enough others were worse at its rung, here two.
// When no other trial comes any more, the best trial of a rung goes on, the highest rung first. Then all others end,
// the best first.
func TestPausedTrialsArePromoted(t *testing.T) {
	p := pausing(sweep.StopASHA)
	at := reached(3, 0.5, 0.7, 0.6, 0.4, 0.3)
	checkResumable(t, p, search.Ladder{Paused: at[:2], Reached: at[:2]}, search.GoOn)
	checkResumable(t, p, search.Ladder{Paused: at, Reached: at}, search.GoOn, 1)

	// Trial 1 has gone on, and waits at the next rung alone. It goes on again only when no other will come.
	next := sweep.Reached{Step: 9, Trial: 1, Score: 0.8}
	others := slices.Delete(slices.Clone(at), 1, 2)
	ladder := search.Ladder{Paused: append(slices.Clone(others), next), Reached: append(slices.Clone(at), next)}
	checkResumable(t, p, ladder, search.GoOn)
	ladder.Last = true
	checkResumable(t, p, ladder, search.GoOn, 1)

	// Once it has gone on, the four others end.
	ladder.Paused = others
	checkResumable(t, p, ladder, search.Stop, 2, 0, 3, 4)
}

// TestHalvingWaitsForAll: with halving no paused trial gets a verdict as long as another one may come to its rung. Then
// the best third of the seven, rounded down to two, go on, and once these have gone the others end. That seven trials
// may still come to the next rung, 9, does not matter.
func TestHalvingWaitsForAll(t *testing.T) {
	p := pausing(sweep.StopHalving)
	at := reached(3, 0.5, 0.7, 0.6, 0.4, 0.3, 0.65, 0.2)
	checkResumable(t, p, search.Ladder{Paused: at, Reached: at, Coming: map[int]int{3: 1}}, search.GoOn)
	all := search.Ladder{Paused: at, Reached: at, Coming: map[int]int{3: 0, 9: 7}}
	checkResumable(t, p, all, search.GoOn, 1, 5)
	all.Paused = slices.DeleteFunc(slices.Clone(at), func(r sweep.Reached) bool { return r.Trial == 1 || r.Trial == 5 })
	checkResumable(t, p, all, search.Stop, 2, 0, 3, 4, 6)

	// Trial 0 has 0.5, behind 0.7, 0.65 and 0.6; the last that goes on has 0.65.
	v := search.AfterPause(p, at[0], at[1:], true)
	if !strings.Contains(v.Reason, "rank 4 of 7 at rung 3; 2 continue, and it is behind by 0.15") {
		t.Errorf("the fourth of seven: got %+v, want rank 4", v)
	}
}

// oneByOne returns what Resumable and Behind have to find for a ladder, computed in the plainest way: AfterPause is
// asked about every paused trial by itself. found has the verdicts as text, in their order.
func oneByOne(t *testing.T, p *sweep.Plan, l search.Ladder) (found []string, behind []int) {
	t.Helper()
	// best are the paused trials in the order of verdicts; judged asks about one of them.
	best := slices.SortedFunc(slices.Values(l.Paused), func(a, b sweep.Reached) int {
		byScore := cmp.Compare(a.Score, b.Score)
		if p.Maximize {
			byScore = -byScore
		}
		return cmp.Or(cmp.Compare(b.Step, a.Step), byScore, cmp.Compare(a.Trial, b.Trial))
	})
	judged := func(own sweep.Reached, last bool) (search.RungVerdict, []sweep.Reached) {
		seen := []sweep.Reached{}
		for _, other := range l.Reached {
			if other.Step == own.Step && other.Trial != own.Trial {
				seen = append(seen, other)
			}
		}
		slices.SortFunc(seen, func(a, b sweep.Reached) int { return cmp.Compare(a.Trial, b.Trial) })
		return search.AfterPause(p, own, seen, last), seen
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

// TestVerdictsOfAllAreThoseOfEach: Resumable and Behind, which sort each rung once, find the same as oneByOne does.
// That is tried on 2,000 random ladders with every rule, with ties, scores that are not finite, and paused trials whose
// score the ladder does not know. They have to give 2,000 verdicts, or little would be tested.
func TestVerdictsOfAllAreThoseOfEach(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	values := []float64{0.1, 0.2, 0.2, 0.25, 0.3, 0.4, 0.5, math.Inf(1), math.Inf(-1), math.NaN()}
	verdicts := 0
	for n := range 2000 {
		// A random plan, and a random ladder of up to 19 trials.
		p := pausing([]string{sweep.StopASHA, sweep.StopHalving, sweep.StopHyperband}[n%3])
		stop := p.Spec.Search.Stop
		stop.Eta, p.Maximize = 2+r.IntN(3), r.IntN(2) == 0
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

		// Compare what comes out.
		want, beaten := oneByOne(t, p, l)
		var got []string
		for _, f := range search.Resumable(p, l) {
			got = append(got, fmt.Sprint(f.Reached, f.RungVerdict, f.Seen(), f.Last))
		}
		if !slices.Equal(got, want) {
			t.Fatalf("ladder %d, %+v with %+v: got %q; one by one %q", n, *stop, l, got, want)
		}
		if behind := search.Behind(p, l); !slices.Equal(behind, beaten) {
			t.Fatalf("ladder %d, %+v with %+v: behind are %v; one by one %v", n, *stop, l, behind, beaten)
		}
		verdicts += len(got)
	}
	if verdicts < 2000 {
		t.Errorf("there were %d verdicts on 2000 ladders; want more, or little was tested", verdicts)
	}
}

// surveyed returns a request whose known trials are so many random ones, with their quality as the score.
func surveyed(t *testing.T, s sweep.Search, results int) search.Ask {
	t.Helper()
	r := search.Ask{Search: s, Method: sweep.MethodRandom, Maximize: true}
	for len(r.Known) < results {
		r.Number = min(1000, results-len(r.Known))
		for _, one := range next(t, r) {
			r.Known = append(r.Known, scored(one.Trial, one.Params, quality(one.Params)))
		}
	}
	return r
}

// processor returns the processor time that a request takes. A time above the limit is measured again, twice at most,
// since other work of the process may have added to it.
func processor(t *testing.T, r search.Ask, limit time.Duration) (took time.Duration) {
	t.Helper()
	used := func() time.Duration {
		var u syscall.Rusage
		must.Do(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	for range 3 {
		runtime.GC() // what was there before is not this search's
		start := used()
		next(t, r)
		if took = used() - start; took <= limit {
			break
		}
	}
	return took
}

// TestAskTakesTimeInProportion: 200 proposals take at most three times as long as 100, and 100 proposals after 8,000
// results at most twice as long as after 2,000, since what the model sees is bounded. With a process that grew by every
// running trial, twice the proposals took four times as long.
func TestAskTakesTimeInProportion(t *testing.T) {
	if os.Getenv("COPPICE_FULL") == "" {
		t.Skip("with COPPICE_FULL=1: it searches among 10,000 results")
	}
	few, many := surveyed(t, spaces()["mixed"], 2_000), surveyed(t, spaces()["mixed"], 8_000)
	few.Method, few.Number = sweep.MethodAuto, 100
	many.Method, many.Number = sweep.MethodAuto, 100
	once := processor(t, few, math.MaxInt64)
	if all := processor(t, many, 2*once); all > 2*once {
		t.Errorf("100 proposals took %v after 2,000 results and %v after 8,000; expected at most twice as much", once,
			all)
	}
	few.Number = 200
	if twice := processor(t, few, 3*once); twice > 3*once {
		t.Errorf("after 2,000 results 100 proposals took %v and 200 took %v; expected at most 3 times as much", once,
			twice)
	}
}

// TestAskWithManyRunning: of 240 running trials the process sees 100 (maxRunning), as the reason says, and it sees the
// same ones whether trials are asked for at once or one after the other. 20 more trials have results.
func TestAskWithManyRunning(t *testing.T) {
	r := surveyed(t, spaces()["numbers"], 260)
	for i := range r.Known[20:] {
		r.Known[20+i].Status, r.Known[20+i].Score = sweep.StatusRunning, nil
	}
	r.Method, r.Number = sweep.MethodAuto, 4
	got := next(t, r)
	checkSame(t, r, got)
	if want := "20 results and 100 running"; !strings.Contains(got[0].Reason, want) {
		t.Errorf("after 20 results and with 240 running the reason is %q; expected %q in it", got[0].Reason, want)
	}
}

// TestAskOfManyLevels: for the Gaussian process a choice is one axis, as a number is, however many levels it has. So a
// proposal among ten choices with 5,000 levels each allocates at most 100 MB more than one among ten numbers, for the
// lists of levels, and at most 150 MB in all. With an axis for each level, the 200 known trials alone would be 80 MB,
// and so would each set of candidates.
func TestAskOfManyLevels(t *testing.T) {
	s := sweep.Search{Random: map[string]sweep.Distribution{}}
	numbers := sweep.Search{Random: map[string]sweep.Distribution{}}
	for j := range 10 {
		var levels []any
		for i := range 5_000 {
			levels = append(levels, fmt.Sprint("level ", i))
		}
		s.Random[fmt.Sprint("choice", j)] = sweep.Distribution{Choice: levels}
		numbers.Random[fmt.Sprint("number", j)] = sweep.Distribution{Uniform: []float64{0, 1}}
	}
	allocated := func(s sweep.Search) (mb uint64) {
		r := surveyed(t, s, 200)
		r.Method, r.Number = sweep.MethodGP, 1
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		next(t, r)
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) >> 20
	}
	choices, plain := allocated(s), allocated(numbers)
	if most := min(150, plain+100); choices > most {
		t.Errorf("one proposal among ten choices with 5,000 levels each allocated %d MB, and among ten numbers %d; "+
			"want at most %d", choices, plain, most)
	}
}

// known returns a function that resolves the names of values, for CompileRequire: it knows these names, as they are or
// as identifiers.
func known(names []string) func(string) (string, error) {
	identifier := strings.NewReplacer("@", "_at_", "%", "pct", ".", "_").Replace
	by := make(map[string]string, len(names))
	for _, name := range names {
		by[identifier(name)] = name
	}
	return func(name string) (string, error) {
		if full, ok := by[identifier(name)]; ok {
			return full, nil
		}
		return "", fmt.Errorf("unknown name %.60q%s", name, strictyaml.Suggest(name, names))
	}
}

// TestAskWithstandsFailures: although every eighth trial fails whatever its configuration, as on machines that are
// preempted, the proposals after 60 to 900 trials are near the best: their loss is at most 0.05, of at most 0.85.
func TestAskWithstandsFailures(t *testing.T) {
	s := sweep.Search{Random: map[string]sweep.Distribution{"x": {Uniform: []float64{0, 1}},
		"y": {Uniform: []float64{0, 1}}}}
	loss := func(p sweep.Params) float64 {
		return square(p["x"].(float64)-0.3) + square(p["y"].(float64)-0.6)
	}
	for _, trials := range []int{60, 300, 900} {
		r := search.Ask{Search: s, Method: sweep.MethodRandom, Number: trials}
		for _, one := range next(t, r) {
			k := scored(one.Trial, one.Params, loss(one.Params))
			if one.Trial%8 == 3 {
				k.Status = sweep.StatusFailed
			}
			r.Known = append(r.Known, k)
		}
		r.Method, r.Number = sweep.MethodGP, 4
		for i, one := range next(t, r) {
			if v := loss(one.Params); v > 0.05 {
				t.Errorf("after %d trials, proposal %d, %+v, has a loss of %.3g, want at most 0.05", trials, i, one, v)
			}
		}
	}
}

func square(x float64) float64 { return x * x }
