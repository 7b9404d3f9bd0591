// Package extend reads an ended sweep, for another one that extends it.
package extend

import (
	"context"
	"fmt"
	"math"
	"slices"

	"coppice/blob"
	"coppice/launcher/internal/plan"
	"coppice/launcher/internal/sweepview"
	"coppice/sweep"
	"coppice/sweepstore"
)

// OpenError reports a sweep that has not ended.
type OpenError struct{ Sweep sweep.ID }

func (e *OpenError) Error() string {
	return fmt.Sprintf("sweep %s has not ended, and only a sweep that has ended can be extended: `launcher watch %s` waits for its end, `launcher cancel %s` ends it", e.Sweep, e.Sweep, e.Sweep)
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

	old := &plan.Ended{Plan: view.Plan, Results: map[int]sweep.Result{}}
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

	if old.Reached, err = reached(ctx, bucket, old.Plan); err != nil {
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

// reached returns the scores of a sweep's trials at its rungs.
func reached(ctx context.Context, bucket blob.Store, p *sweep.Plan) ([]sweep.Reached, error) {
	if p.Spec.Search.Stop == nil {
		return nil, nil
	}
	trials := sweepstore.NewTrials(bucket, p)
	list, err := trials.List(ctx)
	if err != nil {
		return nil, err
	}

	known := map[sweepstore.RungKey]float64{}
	if err := trials.GatherRungs(ctx, list, -1, 1, math.MaxInt, known); err != nil {
		return nil, fmt.Errorf("what the trials of sweep %s had at rungs: %w", p.Sweep, err)
	}
	return sweepstore.ReachedOf(known, -1, 1, math.MaxInt), nil
}
