// Package follow looks at a sweep from outside: it reads the plan, the results as they come, who works on what, and the
// conclusion. Nothing in it writes.
package follow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"coppice/blob"
	"coppice/sweep"
)

// Sweep is one sweep as it has been read so far.
type Sweep struct {
	store   blob.Store
	Plan    *sweep.Plan
	results map[int]sweep.Result
}

// State is what is known of a sweep at one moment.
type State struct {
	Board      sweep.Board
	Running    int // trials that a task holds and that have not ended
	Cancelled  bool
	Ending     bool              // the aggregator is concluding it: nothing that comes now counts
	Conclusion *sweep.Conclusion // nil as long as it has not ended
}

// NotFoundError is a sweep that does not exist.
type NotFoundError struct{ ID sweep.ID }

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("there is no sweep %s; `launcher ls` lists them", e.ID)
}

// Is makes the error fs.ErrNotExist.
func (e *NotFoundError) Is(target error) bool { return target == blob.ErrNotExist }

const maxObject = 64 << 20

// Open reads the plan. A sweep that does not exist is a *NotFoundError.
func Open(ctx context.Context, store blob.Store, id sweep.ID) (*Sweep, error) {
	if err := sweep.CheckID(string(id)); err != nil {
		return nil, err
	}
	text, _, err := blob.ReadAll(ctx, store, id.Plan(), maxObject)
	if errors.Is(err, blob.ErrNotExist) {
		return nil, &NotFoundError{id}
	}
	if err != nil {
		return nil, fmt.Errorf("read the plan of sweep %s: %w", id, err)
	}
	plan, err := sweep.DecodePlan(text)
	if err != nil {
		return nil, fmt.Errorf("sweep %s: %w", id, err)
	}
	return &Sweep{store: store, Plan: plan, results: map[int]sweep.Result{}}, nil
}

// Look reads what is new.
func (s *Sweep) Look(ctx context.Context) (State, error) {
	id := s.Plan.Sweep
	claimed := map[int]bool{}
	for attrs, err := range s.store.List(ctx, id.Trials()) {
		if err != nil {
			return State{}, fmt.Errorf("list the trials of sweep %s: %w", id, err)
		}
		trial, part, _, ok := id.ParseTrialObject(attrs.Name)
		if !ok || trial >= len(s.Plan.Trials) {
			continue
		}
		if part == sweep.PartClaim {
			claimed[trial] = true
		}
		if _, known := s.results[trial]; part == sweep.PartResult && !known {
			r, err := s.result(ctx, trial)
			if err != nil {
				return State{}, err
			}
			s.results[trial] = r
		}
	}
	var state State
	results := make([]sweep.Result, 0, len(s.results))
	for _, r := range s.results {
		results = append(results, r)
		delete(claimed, r.Trial)
	}
	state.Board, state.Running = sweep.Fold(s.Plan, results), len(claimed)
	_, err := s.store.Stat(ctx, id.Cancel())
	if err != nil && !errors.Is(err, blob.ErrNotExist) {
		return State{}, err
	}
	state.Cancelled = err == nil
	_, err = s.store.Stat(ctx, id.Ending())
	if err != nil && !errors.Is(err, blob.ErrNotExist) {
		return State{}, err
	}
	state.Ending = err == nil
	state.Conclusion, err = Conclusion(ctx, s.store, id)
	return state, err
}

// result reads one trial's result; one that is there and makes no sense shows as failed.
func (s *Sweep) result(ctx context.Context, trial int) (sweep.Result, error) {
	data, _, err := blob.ReadAll(ctx, s.store, s.Plan.Sweep.Result(trial), maxObject)
	if err != nil {
		return sweep.Result{}, err
	}
	r, err := sweep.DecodeResult(data)
	if err != nil {
		return sweep.Result{Sweep: s.Plan.Sweep, Trial: trial, Status: sweep.StatusFailed, Reason: err.Error()}, nil //nolint:nilerr // the aggregator sees it so, too
	}
	return *r, nil
}

// Conclusion is the sweep's conclusion, nil as long as there is none.
func Conclusion(ctx context.Context, store blob.Store, id sweep.ID) (*sweep.Conclusion, error) {
	data, _, err := blob.ReadAll(ctx, store, id.Conclusion(), maxObject)
	if errors.Is(err, blob.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return sweep.DecodeConclusion(data)
}

// Left estimates how long the remaining trials take: at the pace of those that have ended, with as many at once as the
// sweep has tasks. ok is false before the first has ended.
func (s *Sweep) Left(state State) (left time.Duration, ok bool) {
	var spent time.Duration
	n := 0
	for _, r := range s.results {
		if d := r.Ended.Sub(r.Started); d > 0 {
			spent += d
			n++
		}
	}
	if n == 0 {
		return 0, false
	}
	waves := float64(state.Board.Waiting) / float64(max(s.Plan.Sizing.Tasks, 1))
	return time.Duration(waves * float64(spent) / float64(n)), true
}

// List yields the ids of all sweeps.
func List(ctx context.Context, store blob.Store) ([]sweep.ID, error) {
	var ids []sweep.ID
	for attrs, err := range store.List(ctx, sweep.PlansPrefix) {
		if err != nil {
			return nil, fmt.Errorf("list sweeps: %w", err)
		}
		if id, ok := sweep.ParsePlanName(attrs.Name); ok {
			ids = append(ids, id)
		}
	}
	return ids, nil
}
