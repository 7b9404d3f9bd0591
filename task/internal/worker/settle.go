package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"coppice/internal/metric"
	"coppice/internal/problem"
	"coppice/internal/protocol"
	"coppice/internal/search"
	"coppice/internal/sweep"
)

// maxRefused bounds the proposals for a trial that are another trial's or cannot be trained; beyond it the trial is
// given up.
const maxRefused = 200

// untrainedError ends a claimed trial before it is trained: the final training needs the time, its configuration fell
// behind after the first folds, one of its folds has no score, or the selection of columns ended before it.
type untrainedError struct{ reason string }

func (e *untrainedError) Error() string { return e.reason }

// settled is what a claimed trial trains.
type settled struct {
	params sweep.Params
	from   *sweep.Origin // in a population, the trial whose model it continues
	chosen *sweep.Rated  // by a refit: the configuration that it trains, with its scores
}

// settle finds out what a claimed trial trains: what is planned, what is or was decided, or what follows from the
// results of other trials. An error of the store is transient. An *untrainedError says why there is nothing to train.
// After any other error no task can train the trial.
func (w *Worker) settle(ctx context.Context, claim *sweep.Claim) (settled, error) {
	t := w.plan.Trials[claim.Trial]
	_, final := w.plan.Final()

	// Trials without folds, and the first folds of a configuration, are what is planned or decided here.
	if !t.Refit && (w.plan.Folds == nil || t.Fold <= w.plan.Folds.First) {
		if t.Open {
			return w.settleOpen(ctx, claim)
		}
		return settled{params: t.Params}, nil
	}

	// All others depend on the results of earlier stages, all of which exist and none of which can change.
	board, err := w.board(ctx)
	switch {
	case err != nil:
		err = fmt.Errorf("results of the other folds: %w", err)
		return settled{params: t.Params}, problem.As(problem.Transient, err)
	case !t.Refit:
		return w.settleLaterFold(board, t.Configuration)
	case final:
		return w.settleFinal(board)
	}
	return w.settleRefit(board, claim.Trial)
}

// settleLaterFold settles a fold after the first ones. It trains the same as these, unless their scores drop the
// configuration; then the error is an *untrainedError.
func (w *Worker) settleLaterFold(board sweep.Board, configuration int) (s settled, err error) {
	// The board has every configuration. Params are nil if it was never decided; then none of the first folds has a
	// score, and Drop gives a reason.
	for i := range board.Configurations {
		if c := &board.Configurations[i]; c.Configuration == configuration {
			s.params = c.Params
			break
		}
	}
	if why := search.Drop(w.plan, board, configuration); why != "" {
		return s, &untrainedError{why}
	}
	return s, nil
}

// settleRefit settles the refit: it trains the best configuration on the rows of all folds. It is an error if no
// configuration may win.
func (w *Worker) settleRefit(board sweep.Board, trial int) (settled, error) {
	require, err := search.CompileRequires(w.plan.Spec.Require, metric.Canonical)
	if err != nil {
		return settled{}, err
	}
	chosen, none := search.Choose(w.plan, board, require)
	if chosen == nil {
		return settled{}, errors.New(none)
	}
	w.Log.Info("refit", "trial", trial, "configuration", chosen.Configuration, "trees", chosen.Trees, "reason",
		chosen.Reason)
	return settled{params: chosen.Params, chosen: chosen}, nil
}

// settleFinal settles the final training: it trains the winner's configuration, and its result has the winner's score.
// If no trial can win the error is an *untrainedError.
func (w *Worker) settleFinal(board sweep.Board) (settled, error) {
	winner, params, none, err := w.bestOf(board)
	if err != nil {
		return settled{}, err
	}
	if winner == nil {
		return settled{}, &untrainedError{none}
	}
	w.Log.Info("final training", "trial", winner.Trial, "trees", params["num_iterations"])
	return settled{params: params, chosen: &sweep.Rated{Trials: []int{winner.Trial}, Mean: &winner.Score,
		Metrics: winner.Metrics}}, nil
}

// board ranks the trials that have ended by the latest listing. It reads those results that are not known yet.
func (w *Worker) board(ctx context.Context) (sweep.Board, error) {
	err := w.trials.Results(ctx, w.known.listing, w.known.results, nil)
	return sweep.MakeBoard(w.plan, slices.Collect(maps.Values(w.known.results))), err
}

// bestOf returns the trial whose configuration the final training would train, and the parameters. winner is nil if no
// trial can win; none then says why.
func (w *Worker) bestOf(board sweep.Board) (winner *sweep.Result, params sweep.Params, none string, err error) {
	require, err := search.CompileRequires(w.plan.Spec.Require, metric.Canonical)
	if err == nil {
		winner, params, none = search.ChooseFinal(w.plan, board, require)
	}
	return winner, params, none, err
}

// settleOpen decides what an open trial trains, or reads what was decided before. Package protocol orders the steps.
// Its errors are those of settle.
func (w *Worker) settleOpen(ctx context.Context, claim *sweep.Claim) (settled, error) {
	// Holders of folds of one configuration share its decision, as two holders of one trial do.
	d := &deciding{w: w, claim: claim, trial: w.plan.Decider(claim.Trial)}
	s, first := protocol.Settle{Trial: d.trial, Claim: claim.Claim}.Begin()
	do, err := protocol.Run(s, first, func(a protocol.Action) (protocol.Answer, error) { return d.step(ctx, a) })

	selected := new(search.SelectedError)
	switch {
	case do.Do == protocol.Settled:
		w.known.seen[d.trial] = sweep.Seen{Trial: d.trial, Status: sweep.StatusRunning, Params: d.decision.Own}
		return settled{params: d.decision.Params, from: d.decision.From}, nil
	case do.Why == protocol.Broken:
		return settled{}, problem.As(problem.Transient, err)
	case errors.As(d.why, &selected):
		return settled{}, &untrainedError{selected.Reason}
	}
	return settled{}, d.why
}

// deciding carries out the actions of settling a trial.
type deciding struct {
	w        *Worker
	claim    *sweep.Claim
	trial    int             // the decision is under its number
	gathered bool            // the other trials have been read
	decision *sweep.Decision // found in the store, or about to be written
	refused  []sweep.Params  // proposals that are another trial's, or cannot be trained
	why      error           // no task can train the trial
}

// step carries out one action of the protocol's Settle and returns the answer. It sets d.why when no task can train the
// trial.
func (d *deciding) step(ctx context.Context, action protocol.Action) (answer protocol.Answer, err error) {
	w := d.w
	switch action.Do {
	case protocol.ReadDecision:
		found, err := w.trials.Decision(ctx, action.Trial)
		if problem.Is(err, problem.Damaged) {
			d.why = fmt.Errorf("its configuration cannot be read: %w", err)
			return protocol.Answer{Unreadable: true}, nil
		}
		if found != nil {
			d.decision = found
		}
		return protocol.Answer{Yes: found != nil}, err

	case protocol.Propose:
		if !d.gathered {
			if err := w.readTrials(ctx, action.Trial); err != nil {
				return answer, fmt.Errorf("read the other trials: %w", err)
			}
			d.gathered = true
		}
		if d.propose() { // else the answer is no, and d.why says why
			answer.Yes, err = d.findParent(ctx)
		}

	case protocol.TakeConfiguration:
		answer.Yes, err = w.trials.TakeConfiguration(ctx, action.Trial, d.decision.Key())
		if err == nil && !answer.Yes {
			d.refused = append(d.refused, d.decision.Own)
			w.Log.Info("another trial has the configuration", "trial", action.Trial, "source", d.decision.Source)
		}

	case protocol.CreateDecision:
		answer.Yes, err = w.trials.CreateDecision(ctx, *d.decision)
		if answer.Yes {
			w.Log.Info("decided", "trial", d.claim.Trial, "source", d.decision.Source, "reason", d.decision.Reason,
				"seen", len(d.decision.Seen))
		}
	}
	return answer, err
}

// propose asks the search for configurations until one can be trained, and sets d.decision to it. It returns false,
// with the reason in d.why, if the search has none left.
func (d *deciding) propose() bool {
	w := d.w
	byTrial := func(a, b sweep.Seen) int { return cmp.Compare(a.Trial, b.Trial) }
	seen := slices.SortedFunc(maps.Values(w.known.seen), byTrial)
	seen = slices.DeleteFunc(seen, func(s sweep.Seen) bool { return s.Trial == d.trial })
	if w.plan.Spec.Search.Features != nil {
		// A selection of columns needs scores only, and lists of columns are long: a thousand of them are more than a
		// decision may have.
		for i := range seen {
			seen[i].Params = nil
		}
	}

	for len(d.refused) < maxRefused {
		s, err := search.Decide(w.plan, d.trial, seen, d.refused)
		if err != nil {
			d.why = err
			return false
		}
		complete, err := w.table.Complete(w.plan.Base, s.Params)
		if err != nil {
			d.refused = append(d.refused, s.Params)
			continue
		}

		d.decision = &sweep.Decision{Format: sweep.FormatVersion, Sweep: w.Sweep, Trial: d.trial, Claim: d.claim.Claim,
			Task: w.Task, Attempt: w.Attempt,
			At: time.Now().UTC(), Params: complete, Own: s.Params, Source: s.Source, Reason: s.Reason, Seen: seen,
			Refused: slices.Clone(d.refused)}
		if d.claim.Trial != d.trial {
			d.decision.Holder = d.claim.Trial
		}
		if s.Parent != nil {
			d.decision.From = &sweep.Origin{Trial: *s.Parent}
		}
		return true
	}
	d.why = fmt.Errorf("%d configurations were proposed for it, but each belongs to another trial or cannot be "+
		"trained", len(d.refused))
	return false
}

// findParent completes d.decision.From, for a proposal that continues the model of another trial: the model's file, and
// the parameters of all trainings that the model goes back to. These are in the other trial's result. It returns false,
// with the reason in d.why, if there is no such model or it is too large.
func (d *deciding) findParent(ctx context.Context) (bool, error) {
	from := d.decision.From
	if from == nil {
		return true, nil
	}
	r, damage, err := d.w.trials.Result(ctx, from.Trial)
	switch {
	case err != nil:
		return false, fmt.Errorf("the trial that it continues: %w", err)
	case r == nil || damage != nil || r.Status != sweep.StatusDone || r.Model == nil:
		d.why = fmt.Errorf("the model of trial %d, which it continues, is gone (%w)", from.Trial,
			cmp.Or(damage, errors.New("its result has none")))
		return false, nil
	case r.Model.Bytes > sweep.MaxInput:
		d.why = fmt.Errorf("the model of trial %d has %d bytes, and only up to %d can be continued; use fewer "+
			"trees, leaves or generations", from.Trial, r.Model.Bytes, int64(sweep.MaxInput))
		return false, nil
	}
	from.Model = *r.Model
	if r.From != nil {
		from.Lineage = slices.Clone(r.From.Lineage)
	}
	own := search.Own(d.w.plan, r.Params)
	if r.AtLimit {
		own["num_iterations"] = float64(r.TreesGrown)
	}
	from.Lineage = append(from.Lineage, own)
	return true, nil
}

// readTrials adds to w.known what is new about all trials but one, which is to be decided, by the latest listing.
func (w *Worker) readTrials(ctx context.Context, except int) error {
	k := &w.known
	if err := w.trials.Gather(ctx, k.listing, except, k.seen); err != nil || w.plan.Folds == nil {
		return err
	}
	return w.trials.GatherFolds(ctx, k.listing, except, k.seen, k.results)
}
