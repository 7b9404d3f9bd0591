package extend

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"coppice/internal/search"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/plan"
)

// paused finds out what the trials that had been paused when their sweep ended are to the next one. Those that others
// beat are stopped with the scores that they had, as if the sweep had come to end them. Those that would have gone on,
// had the sweep not had enough, are to be finished.
func paused(ctx context.Context, trials *sweepstore.Trials, list sweepstore.Listing, ending *sweep.Ending,
	old *plan.Ended) error {
	if !old.Plan.Pauses() {
		return nil
	}

	var behind []int
	if ending != nil {
		behind = ending.Behind
	}
	for _, trial := range behind {
		passed, err := trials.AtPause(ctx, list.Trials[trial])
		if err != nil {
			return fmt.Errorf("where trial %d of sweep %s was paused: %w", trial, old.Plan.Sweep, err)
		}
		if len(passed) == 0 { // damaged since
			continue
		}
		at := passed[len(passed)-1]
		old.Results[trial] = sweep.Result{Format: sweep.FormatVersion, Sweep: old.Plan.Sweep, Trial: trial,
			Status: sweep.StatusStopped, Params: old.Plan.Trials[trial].Params,
			Score: at.Score, Metrics: map[string]float64{}, TreesGrown: at.Step, Rungs: passed,
			Reason: fmt.Sprintf("%s: it was paused there, behind others, when sweep %s was concluded",
				old.Plan.Spec.Search.Stop.Reached(at.Step), old.Plan.Sweep)}
	}

	if !old.Plan.EndsByRule() {
		return nil
	}
	return cutShort(ctx, trials, list, behind, old)
}

// cutShort finds the trials that were stopped at a rung because their sweep had enough, and not because others were
// better. Those that the ending has counted as stopped are, whatever was decided about them later.
func cutShort(ctx context.Context, trials *sweepstore.Trials, list sweepstore.Listing, counted []int,
	old *plan.Ended) error {
	ladder := search.Ladder{}
	for _, t := range list.Trials {
		step := t.PausedAt()
		r, ended := old.Results[t.Number]
		if !ended || r.Status != sweep.StatusStopped || step == 0 || slices.Contains(counted, t.Number) {
			continue
		}
		after, err := trials.Promotion(ctx, t.Number, step)
		var damaged *sweepstore.DamagedError
		switch {
		case errors.As(err, &damaged) || err == nil && after == nil:
		case err != nil:
			return fmt.Errorf("what became of trial %d of sweep %s: %w", t.Number, old.Plan.Sweep, err)
		case after.Promoted:
			old.Unfinished[t.Number] = true
		case after.Enough:
			old.Unfinished[t.Number] = true
			ladder.Paused = append(ladder.Paused, sweep.Reached{Step: step, Trial: t.Number, Score: r.Score})
		}
	}

	for _, r := range old.Reached {
		if of, ended := old.Results[r.Trial]; ended &&
			(of.Status == sweep.StatusDone || of.Status == sweep.StatusStopped) {
			ladder.Reached = append(ladder.Reached, r)
		}
	}
	for _, trial := range search.Behind(old.Plan, ladder) {
		delete(old.Unfinished, trial)
	}
	return nil
}
