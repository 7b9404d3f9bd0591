package quote

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"coppice/internal/search"
	"coppice/internal/sweep"
)

// stopRuns is how often a sweep with search.stop is simulated; the median is quoted.
const stopRuns = 15

// splitByRungs estimates what trials take where search.stop ends those that are behind, in two phases (see work): the
// seconds of what every trial trains before its first comparison, and the seconds of those that continue after it.
// seconds and sample are by trial: what it takes to its end, and what it takes on the sample of the rows that a rule by
// rows compares on.
//
// The plan's rule is simulated with random scores, since nobody knows how much better later trials are. The result is
// the simulation with the median total. Its first part has all trials, its second those that go on.
func splitByRungs(planned *sweep.Plan, trials []sweep.Trial, seconds, sample []float64) (parts [][]float64) {
	type run struct {
		parts [][]float64
		total float64
	}
	var runs []run
	for seed := range uint64(stopRuns) {
		r := run{parts: make([][]float64, 2)}
		for i, end := range simulateRungs(planned, len(trials), seed) {
			// By rows: the sample first, then all rows from the start, unless the trial ended.
			first, rest := sample[i], seconds[i]
			if planned.Spec.Search.Stop.By == sweep.ByTrees {
				// By trees: up to the first rung, then up to where it ends. Without rungs all is the first part. A plan
				// whose trials do not say how many trees they have is quoted as if the first part were all.
				trees, _ := trials[i].Params["num_iterations"].(float64)
				upTo := func(step int) float64 { return seconds[i] * min(1, float64(step)/max(trees, 1)) }
				if rungs := search.RungsOf(planned, i); len(rungs) > 0 {
					first = upTo(rungs[0])
				} else {
					first = seconds[i]
				}
				rest = seconds[i] - first
				if end > 0 {
					rest = upTo(end) - first
				}
			} else if end > 0 {
				rest = 0
			}
			r.total += first + rest
			r.parts[0] = append(r.parts[0], first)
			if rest > 0 {
				r.parts[1] = append(r.parts[1], rest)
			}
		}
		runs = append(runs, r)
	}
	slices.SortFunc(runs, func(a, b run) int { return cmp.Compare(a.total, b.total) })
	return runs[stopRuns/2].parts
}

// simulateRungs simulates n trials with random scores that reach their rungs (the steps at which search.stop compares
// trials) one after the other. It returns by trial the step at which the rule ends it; 0 if it trains to its end.
func simulateRungs(planned *sweep.Plan, n int, seed uint64) []int {
	rng := rand.New(rand.NewPCG(seed, 0))
	ends, scores := make([]int, n), make([]float64, n)
	var ladder search.Ladder
	// climb takes a trial up from the step from, 0 for its start, until a rung makes it wait or none is left. Whatever
	// the verdict other than to go on, the trial waits until resume judges it.
	climb := func(trial, from int) {
		for _, step := range search.RungsOf(planned, trial) {
			if step <= from {
				continue
			}
			own := sweep.Reached{Step: step, Trial: trial, Score: scores[trial]}
			verdict := search.AtRung(planned, own, ladder.Reached)
			ladder.Reached = append(ladder.Reached, own)
			if verdict.Action != search.GoOn {
				ladder.Paused = append(ladder.Paused, own)
				return
			}
		}
	}
	// resume acts on the first verdict on a waiting trial: it climbs on, or ends at its rung. It reports whether there
	// was one.
	resume := func() bool {
		verdicts := search.Resumable(planned, ladder)
		if len(verdicts) == 0 {
			return false
		}
		r := verdicts[0].Reached
		ladder.Paused = slices.DeleteFunc(ladder.Paused, func(o sweep.Reached) bool { return o.Trial == r.Trial })
		if verdicts[0].Action == search.GoOn {
			climb(r.Trial, r.Step)
		} else {
			ends[r.Trial] = r.Step
		}
		return true
	}

	halving := planned.Spec.Search.Stop.Rule == sweep.StopHalving
	// As trials come, those that are among the best meanwhile are resumed. Halving judges a rung once all have come.
	for trial := range n {
		scores[trial] = rng.Float64()
		climb(trial, 0)
		for !halving && resume() { // it ends, as each call takes a trial off its rung
		}
	}
	// No other trial comes: each that still waits goes on or ends.
	ladder.Last = true
	for resume() {
	}
	return ends
}
