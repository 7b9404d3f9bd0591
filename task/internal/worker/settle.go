package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"coppice/internal/problem"
	"coppice/internal/protocol"
	"coppice/internal/search"
	"coppice/internal/sweep"
)

// maxRefused bounds the proposals for a trial that are another trial's or cannot be trained; beyond it the trial is
// given up.
const maxRefused = 200

// storeFailed is a storage failure while a trial was decided or compared: it says nothing about the trial.
func storeFailed(err error) error { return problem.As(problem.Transient, err) }

// settle returns the parameters of a claimed trial and, in a population, whose model it continues. For an open trial
// they are decided here, or read if they were decided before; package protocol orders the steps. A storage failure
// is transient; any other error means that no task can train the trial.
func (w *Worker) settle(ctx context.Context, claim *sweep.Claim) (sweep.Params, *sweep.Origin, error) {
	if trial := w.plan.Trials[claim.Trial]; !trial.Open {
		return trial.Params, nil, nil
	}

	// Holders of folds of one configuration share its decision, as two holders of one trial do.
	decider := w.plan.Decider(claim.Trial)
	d := &deciding{w: w, claim: claim, trial: decider}
	s, first := protocol.Settle{Trial: decider, Claim: claim.Claim}.Begin()
	do, err := protocol.Run(s, first, func(a protocol.Action) (protocol.Answer, error) { return d.do(ctx, a) })

	switch {
	case do.Do == protocol.Settled:
		w.seen[decider] = sweep.Seen{Trial: decider, Status: sweep.StatusRunning, Params: d.decision.Own}
		return d.decision.Params, d.decision.From, nil
	case do.Why == protocol.Broken:
		return nil, nil, storeFailed(err)
	}
	var selected *search.SelectedError
	if errors.As(d.why, &selected) {
		return nil, nil, &untrainedError{selected.Reason}
	}
	return nil, nil, d.why
}

// deciding carries out the actions of settling a trial.
type deciding struct {
	w        *Worker
	claim    *sweep.Claim
	trial    int // the decision is under its number
	gathered bool
	decision *sweep.Decision // found in the store, or about to be written
	refused  []sweep.Params
	why      error
}

func (d *deciding) do(ctx context.Context, a protocol.Action) (answer protocol.Answer, err error) {
	w := d.w
	switch a.Do {
	case protocol.ReadDecision:
		there, err := w.trials.Decision(ctx, a.Trial)
		if problem.Is(err, problem.Damaged) {
			d.why = fmt.Errorf("its configuration cannot be read: %w", err)
			return protocol.Answer{Unreadable: true}, nil
		}
		if there != nil {
			d.decision = there
		}
		return protocol.Answer{Yes: there != nil}, err

	case protocol.Propose:
		if !d.gathered {
			if err := w.gather(ctx, a.Trial); err != nil {
				return answer, fmt.Errorf("read the other trials: %w", err)
			}
			d.gathered = true
		}
		if answer.Yes = d.propose(); answer.Yes {
			answer.Yes, err = d.adopt(ctx)
		}

	case protocol.TakeConfiguration:
		answer.Yes, err = w.trials.TakeConfiguration(ctx, a.Trial, d.decision.Key())
		if err == nil && !answer.Yes {
			d.refused = append(d.refused, d.decision.Own)
			w.Log.Info("another trial has the configuration", "trial", a.Trial, "source", d.decision.Source)
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

// propose asks the search for configurations until one can be trained.
func (d *deciding) propose() bool {
	w := d.w
	seen := slices.SortedFunc(maps.Values(w.seen), func(a, b sweep.Seen) int { return cmp.Compare(a.Trial, b.Trial) })
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

// adopt completes where a proposal's trial goes on from, by the result of the trial whose model that is. It is false if
// there is no model.
func (d *deciding) adopt(ctx context.Context) (bool, error) {
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

// gather reads what is new about all trials but one, which is to be decided.
func (w *Worker) gather(ctx context.Context, own int) error {
	if err := w.trials.Gather(ctx, w.listing, own, w.seen); err != nil {
		return err
	}
	if w.plan.Folds == nil {
		return nil
	}
	return w.trials.GatherFolds(ctx, w.listing, own, w.seen, w.results)
}

// remember keeps a result that this task has written, so that it need not be read.
func (w *Worker) remember(r *sweep.Result) {
	switch {
	case w.plan.Folds != nil:
		w.results[r.Trial] = *r
	case w.plan.Open():
		w.trials.SeenResult(w.seen, r)
	}
}
