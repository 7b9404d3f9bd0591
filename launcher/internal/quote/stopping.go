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

// splitByRungs gives what trials are expected to take where search.stop ends those that are behind: the part that every
// trial trains, and what those that continue train after it, of which nothing is expected to begin before. Scores are
// random, by the rule of the plan: how much better later trials are is not known, and the high end of a quote has every
// trial train to its end. sample is what a trial takes on the sample of the rows.
func splitByRungs(planned *sweep.Plan, trials []sweep.Trial, seconds, sample []float64) (parts [][]float64) {
	type run struct {
		parts [][]float64
		total float64
	}
	var runs []run
	for seed := range uint64(stopRuns) {
		r := run{parts: make([][]float64, 2)}
		for i, step := range simulateRungs(planned, len(trials), seed) {
			first, rest := sample[i], seconds[i]
			if planned.Spec.Search.Stop.By == sweep.ByTrees {
				n, _ := trials[i].Params["num_iterations"].(float64)
				at := func(step int) float64 { return seconds[i] * min(1, float64(step)/max(n, 1)) }
				if rungs := search.RungsOf(planned, i); len(rungs) > 0 {
					first = at(rungs[0])
				} else {
					first = seconds[i]
				}
				rest = seconds[i] - first
				if step > 0 {
					rest = at(step) - first
				}
			} else if step > 0 {
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

// simulateRungs simulates n trials with random scores that come to their rungs one after the other, and returns at
// which step each ends; 0 for those that train to their end.
func simulateRungs(planned *sweep.Plan, n int, seed uint64) []int {
	rng := rand.New(rand.NewPCG(seed, 0))
	ends, scores := make([]int, n), make([]float64, n)
	var ladder search.Ladder
	// climb takes a trial up from a rung until one makes it wait.
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
		for !halving && resume() {
		}
	}
	// No other trial comes: each that still waits goes on or ends.
	ladder.Last = true
	for resume() {
	}
	return ends
}
