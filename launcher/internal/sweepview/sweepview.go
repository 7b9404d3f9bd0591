// Package sweepview observes a sweep from outside: it reads the plan, the results as they arrive, the claims, and the
// conclusion. It never writes.
package sweepview

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"coppice/internal/blob"
	"coppice/internal/problem"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// View is one sweep as read so far. It remembers what cannot change, so that each Look reads only what is new.
type View struct {
	whole   *sweepstore.Sweep
	trials  *sweepstore.Trials
	Plan    *sweep.Plan // after a Look, with the decisions about open trials
	results map[int]sweep.Result

	decisions map[int]*sweep.Decision // by trial: which parameters open trials have got
}

// State is a sweep's state at one moment.
type State struct {
	Board      sweep.Board
	Running    int  // trials that a task holds, a refit among them, but not the final training
	Ready      int  // trials that were begun and wait for a task: promoted after a pause, or given back
	Paused     int  // trials that wait at a rung
	Final      bool // the final training has begun, and has not ended
	Cancelled  bool
	Ending     bool              // the aggregator is concluding it: no further results count
	Conclusion *sweep.Conclusion // nil until it has ended
	Trouble    *sweep.Trouble    // what holds a task up, or has ended it
	Listing    sweepstore.Listing
}

// Open reads the plan. The error about one that does not exist is of kind NotFound.
func Open(ctx context.Context, store blob.Store, id sweep.ID) (*View, error) {
	if err := sweep.CheckID(string(id)); err != nil {
		return nil, err
	}
	whole := sweepstore.New(store, id)
	plan, _, err := whole.Plan(ctx)
	if errors.Is(err, blob.ErrNotExist) {
		return nil, problem.New(problem.NotFound, "there is no sweep %s", id)
	}
	if err != nil {
		return nil, fmt.Errorf("sweep %s: %w", id, err)
	}
	return &View{whole: whole, trials: sweepstore.NewTrials(store, plan), Plan: plan, results: map[int]sweep.Result{},
		decisions: map[int]*sweep.Decision{}}, nil
}

// Results are those of the trials that have ended, as far as read.
func (s *View) Results() map[int]sweep.Result { return s.results }

// Look reads what is new in the bucket since the last look, and returns the sweep's state. It also adds to s.Plan the
// parameters that open trials and the last trial have got. Damaged results count as failed trials.
//
// The last trial of many plans (Trial.Refit) trains the best configuration once more: as the refit if there are folds,
// and as the final training (Plan.Final) if there are none. Only the refit can win, and is counted like other trials.
// The final training begins when the winner is known; only Final tells of it.
func (s *View) Look(ctx context.Context) (State, error) {
	// Results, and parameters that were decided meanwhile.
	l, err := s.trials.List(ctx)
	if err != nil {
		return State{}, err
	}
	if err := s.trials.Results(ctx, l, s.results, nil); err != nil {
		return State{}, err
	}

	if s.Plan.Open() {
		if err := s.trials.Decisions(ctx, l, s.decisions); err != nil {
			return State{}, err
		}
		s.Plan = s.Plan.WithDecisions(s.decisions)
	}

	// A refit or final training has no parameters in the plan. Its result says with which it was trained.
	if last := len(s.Plan.Trials) - 1; s.Plan.Trials[last].Refit && s.Plan.Trials[last].Params == nil {
		if r, ended := s.results[last]; ended && r.Params != nil {
			s.Plan = s.Plan.WithRefit(r.Params)
		}
	}

	// Count the trials that have not ended. Those that no task has begun yet are not counted here.
	state := State{Listing: l}
	state.Board = sweep.MakeBoard(s.Plan, slices.Collect(maps.Values(s.results)))
	final, hasFinal := s.Plan.Final()
	for _, t := range l.Trials {
		_, ended := s.results[t.Number]
		switch {
		case ended:
		case hasFinal && t.Number == final:
			state.Final = len(t.Claims) > 0
		case t.Paused:
			state.Paused++
		case len(t.Claims) > 0 && t.Free(): // begun, and no task holds it
			state.Ready++
		case len(t.Claims) > 0:
			state.Running++
		}
	}

	// How far its end has come.
	if state.Cancelled, err = s.whole.Cancelled(ctx); err != nil {
		return State{}, err
	}
	if state.Ending, err = s.whole.HasEnding(ctx); err != nil {
		return State{}, err
	}
	if state.Trouble, err = s.whole.Trouble(ctx, l); err != nil {
		return State{}, err
	}
	state.Conclusion, err = s.whole.Conclusion(ctx)
	return state, err
}

// Left estimates how many seconds the remaining trials take on all tasks, if each takes the mean time of those that
// have ended. Low to High is a range of about 95 % by how much trials have differed so far; both are 0 if fewer than
// five have ended, which say too little of that. No time is longer than the sweep's limit. ok is false until the first
// has ended.
func (s *View) Left(state State) (left sweep.Range, ok bool) {
	var n, sum, squares float64 // of the trials' seconds
	for _, r := range s.results {
		if d := r.Ended.Sub(r.Started).Seconds(); d > 0 {
			n, sum, squares = n+1, sum+d, squares+d*d
		}
	}
	if n == 0 {
		return sweep.Range{}, false
	}

	mean := sum / n
	left.Expected = s.countWaves(state) * mean
	if waiting := float64(state.Board.Waiting); n >= 5 && waiting > 0 {
		// Two standard errors of the difference between two means: of the trials that are left and of those that ended.
		// spread is the standard deviation of one trial's time, as a share of the mean; n/(n-1) corrects its bias.
		spread := math.Sqrt(max(0, squares/n-mean*mean)*n/(n-1)) / mean
		by := 2 * spread * math.Sqrt(1/n+1/waiting)
		left.Low, left.High = left.Expected*max(0, 1-by), left.Expected*(1+by)
	}
	limit := time.Duration(s.Plan.Spec.Limits.Sweep).Seconds() // ends it, however slow its trials are
	left.Low, left.Expected, left.High = min(left.Low, limit), min(left.Expected, limit), min(left.High, limit)
	return left, true
}

// countWaves returns how many trials' times the remaining trials take with all tasks at work, as a fraction where they
// do not fill all tasks. In a feature selection each step waits for the one before, and takes one trial's time at
// least.
func (s *View) countWaves(state State) (waves float64) {
	tasks := float64(max(s.Plan.Sizing.Tasks, 1))
	if !s.Plan.Selects() {
		return float64(state.Board.Waiting) / tasks
	}
	stages, waiting := s.Plan.Stages(), map[int]int{}
	for _, row := range state.Board.Rows {
		if row.Result == nil {
			waiting[stages[row.Trial.Number]]++
		}
	}
	for _, trials := range waiting {
		waves += max(1, float64(trials)/tasks)
	}
	return waves
}

// Latest stands in the place of an id for the sweep that was planned last.
const Latest = "@latest"

// Find returns the id of the sweep that a person names: by its id, which has to exist, or as Latest. The latest is
// decided by when plans were written, not by what they hold: if its plan cannot be read, no older sweep takes its
// place, since the command might cancel that.
func Find(ctx context.Context, store blob.Store, name string) (sweep.ID, error) {
	if name != Latest {
		if strings.Contains(name, "@") {
			return "", problem.New(problem.Usage, "%.80q is no sweep: give its id, or %s for the one planned last",
				name, Latest)
		}
		if err := sweep.CheckID(name); err != nil {
			return "", err
		}
		if planned, err := sweepstore.New(store, sweep.ID(name)).HasPlan(ctx); planned || err != nil {
			return sweep.ID(name), err
		}
		return "", problem.New(problem.NotFound, "there is no sweep %s; %s", name, suggestSweeps(ctx, store, name))
	}
	ids, err := sweepstore.Newest(ctx, store)
	if err == nil && len(ids) == 0 {
		err = problem.New(problem.NotFound, "there is no sweep yet; `launcher sweep SWEEP.yaml` starts one")
	}
	if err != nil {
		return "", err
	}
	return ids[0], nil
}

// suggestSweeps is the end of the message that there is no sweep of a name. If the name is a model's, it names up to
// three of its sweeps among the newest ones; else it says how to list all.
func suggestSweeps(ctx context.Context, store blob.Store, model string) string {
	ids, _ := sweepstore.Newest(ctx, store) // an error, here and below, only costs the hint
	var found []string
	for _, id := range ids[:min(len(ids), ReadAtOnce)] {
		if p, _, err := sweepstore.New(store, id).Plan(ctx); err == nil && p.Spec.Model == model {
			found = append(found, string(id))
		}
	}
	if found == nil {
		return "`launcher status` lists them"
	}
	return "the newest of model " + model + ": " + strings.Join(found[:min(len(found), 3)], ", ")
}
