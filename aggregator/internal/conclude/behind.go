package conclude

import (
	"context"
	"fmt"
	"slices"

	"coppice/internal/problem"
	"coppice/internal/search"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// listBeaten returns, ascending, the trials without a result that others have beaten at a rung, a number of trees
// after which the search compares trials and pauses the worse ones. Those are the paused trials that would be stopped
// if no other trial reached their rung, and those of which it is decided already. A sweep that ends before they do
// counts them as stopped.
//
// A paused trial that is among the best at its rung is not listed, nor is one whose score there cannot be read: both
// would have continued.
func (a *Aggregator) listBeaten(ctx context.Context, k *known) ([]int, error) {
	if !k.plan.Pauses() {
		return nil, nil
	}

	var trials []int
	var ladder search.Ladder
	scores := map[sweepstore.RungKey]sweep.Reached{}
	gathered := map[int]bool{}
	for _, t := range k.listing.Trials {
		step := t.PausedAt() // 0 if it never was paused
		if _, ended := k.results[t.Number]; ended || step == 0 {
			continue
		}
		if !t.Paused { // not any more: it was decided whether it continues
			ends, err := a.decidedToEnd(ctx, k, t.Number, step)
			if err != nil {
				return nil, err
			}
			if ends {
				trials = append(trials, t.Number)
			}
			continue
		}

		if !gathered[step] {
			// No trial is left out: -1 is none.
			if err := k.trials.GatherRungs(ctx, k.listing, -1, step, step, scores); err != nil {
				return nil, err
			}
			gathered[step] = true
		}
		if own, read := scores[sweepstore.RungKey{Step: step, Trial: t.Number}]; read {
			ladder.Paused = append(ladder.Paused, own)
		}
	}

	// All scores at these rungs, by which search.Behind ranks the paused trials. As in the tasks, trials that have
	// failed since do not count. With halving they do: otherwise its verdicts would depend on how soon a trial fails.
	halving := k.plan.Spec.Search.Stop.Rule == sweep.StopHalving
	for _, s := range scores {
		r, ended := k.results[s.Trial]
		if halving || !ended || r.Status == sweep.StatusDone || r.Status == sweep.StatusStopped {
			ladder.Reached = append(ladder.Reached, s)
		}
	}

	trials = append(trials, search.Behind(k.plan, ladder)...)
	slices.Sort(trials)
	return trials, nil
}

// decidedToEnd reports whether it was decided that a trial, paused at the rung of step trees, ends there. It is false
// while nothing is decided, and if the record of the decision is damaged. An error is one of the store.
func (a *Aggregator) decidedToEnd(ctx context.Context, k *known, trial, step int) (bool, error) {
	decision, err := k.trials.Promotion(ctx, trial, step)
	switch {
	case problem.Is(err, problem.Damaged):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read whether trial %d continues after %d trees: %w", trial, step, err)
	}
	return decision != nil && !decision.Promoted, nil
}
