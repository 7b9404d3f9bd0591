// Package extend reads an ended sweep, for another one that extends it.
package extend

import (
	"context"
	"fmt"
	"math"
	"slices"

	"coppice/internal/blob"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/plan"
	"coppice/launcher/internal/sweepview"
)

// OpenError reports a sweep that has not ended.
type OpenError struct{ Sweep sweep.ID }

func (e *OpenError) Error() string {
	return fmt.Sprintf("sweep %s has not ended, and only a sweep that has ended can be extended: `launcher watch "+
		"%s` waits for its end, `launcher cancel %s` ends it", e.Sweep, e.Sweep, e.Sweep)
}

// IsConflict says that the sweep's state does not allow it.
func (*OpenError) IsConflict() bool { return true }

// Read reads the sweep id. A missing one is a *sweepview.NotFoundError, one that has not ended an *OpenError.
func Read(ctx context.Context, bucket blob.Store, id sweep.ID) (*plan.Ended, error) {
	view, err := sweepview.Open(ctx, bucket, id)
	if err != nil {
		return nil, err
	}
	state, err := view.Look(ctx)
	if err != nil {
		return nil, err
	}
	if state.Conclusion == nil {
		return nil, &OpenError{id}
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
		if old.Text, err = trials.File(ctx, in.Text); err == nil {
			old.Dataset, err = trials.File(ctx, in.Dataset)
		}
		if err != nil {
			return nil, fmt.Errorf("the model that sweep %s continues: %w", id, err)
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

	known := map[sweepstore.RungKey]float64{}
	if err := trials.GatherRungs(ctx, list, -1, 1, math.MaxInt, known); err != nil {
		return fmt.Errorf("what the trials of sweep %s had at rungs: %w", old.Plan.Sweep, err)
	}
	old.Reached = sweepstore.ReachedOf(known, -1, 1, math.MaxInt)
	return paused(ctx, trials, list, ending, old)
}
