package sweepview

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"coppice/internal/blob"
	"coppice/internal/problem"
	"coppice/internal/search"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/plan"
)

// Ended reads a sweep for another one that extends it. The error about one that has not ended is a conflict.
func Ended(ctx context.Context, bucket blob.Store, id sweep.ID) (*plan.Ended, error) {
	view, err := Open(ctx, bucket, id)
	if err != nil {
		return nil, err
	}
	state, err := view.Look(ctx)
	if err != nil {
		return nil, err
	}
	if state.Conclusion == nil {
		return nil, problem.New(problem.Conflict, "sweep %s has not ended, and only a sweep that has ended can be "+
			"extended: "+
			"`launcher watch %s` waits for its end, `launcher cancel %s` ends it", id, id, id)
	}

	old := &plan.Ended{Plan: view.Plan, Results: map[int]sweep.Result{}, Unfinished: map[int]bool{}}
	ending, err := sweepstore.New(bucket, id).Ending(ctx, len(old.Plan.Trials))
	if err != nil {
		return nil, fmt.Errorf("which results of sweep %s count: %w", id, err)
	}
	for _, row := range state.Board.Rows {
		if r := row.Result; r != nil && (ending == nil || slices.Contains(ending.Trials, r.Trial)) {
			old.Results[r.Trial] = *r
		}
	}

	switch c := state.Conclusion; {
	case c.Outcome == sweep.OutcomeWinner:
		old.Winner = &sweep.Inherited{Sweep: id, Trial: c.Trial, Model: c.Model, Version: c.Version}
	case old.Plan.Extends != nil:
		old.Winner = old.Plan.Extends.Winner
	}
	if w := old.Winner; w != nil && old.Results[w.Trial].Status != sweep.StatusDone {
		old.Winner = nil // its result can no longer be read
	}

	if err := rungs(ctx, bucket, ending, old); err != nil {
		return nil, err
	}
	if in := old.Plan.Input; in != nil {
		trials := sweepstore.NewTrials(bucket, old.Plan)
		for o, to := range map[sweep.Object]*[]byte{in.Text: &old.Text, in.Dataset: &old.Dataset} {
			data, lost, err := trials.File(ctx, o)
			if err = cmp.Or(err, lost); err != nil {
				return nil, fmt.Errorf("the model that sweep %s continues: %w", id, err)
			}
			*to = data
		}
	}
	return old, nil
}

// rungs reads the scores of the sweep's trials at its rungs, and what has become of those that were paused there.
func rungs(ctx context.Context, bucket blob.Store, ending *sweep.Ending, old *plan.Ended) error {
	if old.Plan.Spec.Search.Stop == nil {
		return nil
	}
	trials := sweepstore.NewTrials(bucket, old.Plan)
	list, err := trials.List(ctx)
	if err != nil {
		return err
	}

	known := map[sweepstore.RungKey]sweep.Reached{}
	if err := trials.GatherRungs(ctx, list, -1, 1, math.MaxInt, known); err != nil {
		return fmt.Errorf("what the trials of sweep %s had at rungs: %w", old.Plan.Sweep, err)
	}
	old.Reached = sweepstore.ReachedOf(known, -1, 1, math.MaxInt)
	return paused(ctx, trials, list, ending, old)
}

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
		switch {
		case problem.Is(err, problem.Damaged) || err == nil && after == nil:
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
