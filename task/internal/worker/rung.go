package worker

import (
	"context"
	"fmt"
	"slices"
	"time"

	"coppice/internal/gbt"
	"coppice/internal/problem"
	"coppice/internal/protocol"
	"coppice/internal/search"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// stoppedError ends a trial that has fallen behind at a rung.
type stoppedError struct {
	step   int
	score  float64
	reason string
}

func (e *stoppedError) Error() string { return e.reason }

// pausedError ends the training of a trial that waits at a rung.
type pausedError struct{ step int }

func (e *pausedError) Error() string { return fmt.Sprintf("paused at %d trees", e.step) }

// atRung decides, after each tree at a rung, whether the trial continues.
func (w *Worker) atRung(ctx context.Context, claim *sweep.Claim, g gbt.Progress) error {
	stop := w.plan.Spec.Search.Stop
	if stop == nil || stop.By == sweep.ByRows || !slices.Contains(stop.Rungs, g.Tree) {
		return nil
	}
	return w.compare(ctx, claim, g)
}

// compare decides whether a trial that has reached a rung continues. A decision that cannot be made ends the attempt.
func (w *Worker) compare(ctx context.Context, claim *sweep.Claim, g gbt.Progress) error {
	c := &climbing{w: w, claim: claim, at: g}
	err := c.run(ctx, g.Tree)
	if c.rung != nil {
		w.pass(c.rung)
	}
	if problem.Is(err, problem.Transient) && ctx.Err() != nil {
		return ctx.Err() // not saved beyond the rung yet, so the next holder decides it again
	}
	return err
}

// stand says, before a trial is trained, whether it may be: an earlier holder may have paused it.
func (w *Worker) stand(ctx context.Context, claim *sweep.Claim, from *gbt.Checkpoint) error {
	if !w.plan.Pauses() || claim.Claim == 0 {
		return nil
	}
	if w.plan.Spec.Search.Stop.By == sweep.ByRows { // a sample's checkpoint says nothing about rungs
		from = nil
	}
	c := &climbing{w: w, claim: claim, from: from}
	err := c.run(ctx, 0)
	for _, r := range c.before {
		w.pass(r)
	}
	return err
}

// pass notes the score of the trial that is trained at a rung, once.
func (w *Worker) pass(r *sweep.Rung) {
	i, noted := slices.BinarySearchFunc(w.passed, r.Step,
		func(at sweep.RungScore, step int) int { return at.Step - step })
	if !noted {
		w.passed = slices.Insert(w.passed, i, sweep.RungScore{Step: r.Step, Score: r.Score})
	}
}

// climbing carries out the actions of a holder at a rung, or before training.
type climbing struct {
	w     *Worker
	claim *sweep.Claim
	at    gbt.Progress    // at the rung
	from  *gbt.Checkpoint // before training
	rung  *sweep.Rung     // found in the store, or about to be written
	after *sweep.Promotion

	before []*sweep.Rung // those up to the last pause
}

// run returns nil if the trial continues, a *pausedError, a *stoppedError, or a transient error if the store failed.
// Package protocol orders the steps: the record of a rung is written before it is acted on, and binds a later holder of
// the trial.
func (c *climbing) run(ctx context.Context, step int) error {
	s, first := protocol.Climb{Trial: c.claim.Trial, Claim: c.claim.Claim, Rung: step}.Begin()
	do, err := protocol.Run(s, first, func(a protocol.Action) (protocol.Answer, error) {
		return c.do(ctx, a.Do, a.Rung)
	})

	switch do.Do {
	case protocol.Pause:
		return &pausedError{do.Rung}
	case protocol.Close:
		return &stoppedError{do.Rung, c.rung.Score, c.after.Reason}
	case protocol.Stop:
		return storeFailed(err)
	}
	return nil
}

func (c *climbing) do(ctx context.Context, op protocol.Op, step int) (answer protocol.Answer, err error) {
	w, trial := c.w, c.claim.Trial
	switch op {
	case protocol.LookForPause:
		listed, err := w.trials.ListTrial(ctx, trial)
		if err != nil {
			return answer, err
		}
		for at := range listed.Rungs {
			_, paused := listed.Pauses[at]
			if at > answer.Rung && (paused || c.from != nil && at <= c.from.Trees()) {
				answer.Yes, answer.Rung = true, at
			}
		}
		c.before, err = w.trials.RungsTo(ctx, listed, answer.Rung)
		return answer, err

	case protocol.ReadRung:
		// no earlier holder has reached it; a later one may have, which the attempt to create it shows
		if c.claim.Claim == 0 && c.rung == nil {
			return answer, nil
		}
		there, err := w.trials.Rung(ctx, trial, step)
		if problem.Is(err, problem.Damaged) {
			w.Log.Warn("the decision about the trial at a rung cannot be read; it continues", "trial", trial, "trees",
				step, "error", err.Error())
			return protocol.Answer{Unreadable: true}, nil
		}
		if there == nil {
			return answer, err
		}
		c.rung = there
		return protocol.Answer{Yes: true, Standing: standing(there)}, nil

	case protocol.CompareTrial:
		if c.rung, err = w.newRung(ctx, c.claim, c.at); err != nil {
			return answer, err
		}
		return protocol.Answer{Standing: standing(c.rung)}, nil

	case protocol.CreateRung:
		if answer.Yes, err = w.trials.CreateRung(ctx, *c.rung); answer.Yes {
			w.Log.Info("rung", "trial", trial, "trees", step, "score", c.rung.Score, "pause", c.rung.Pause,
				"reason", c.rung.Reason)
		}
		return answer, err

	default: // ReadVerdict
		c.after, err = w.trials.Promotion(ctx, trial, step)
		if problem.Is(err, problem.Damaged) {
			w.Log.Warn("what becomes of the paused trial cannot be read; it continues", "trial", trial, "trees", step,
				"error", err.Error())
			return protocol.Answer{Unreadable: true}, nil
		}
		switch {
		case c.after == nil:
		case c.after.Promoted:
			answer.Standing = protocol.Continues
		default:
			answer.Standing = protocol.Ends
		}
		return answer, err
	}
}

func standing(r *sweep.Rung) protocol.Standing {
	if r.Pause {
		return protocol.Waits
	}
	return protocol.Continues
}

// newRung compares a trial with the others at a rung.
func (w *Worker) newRung(ctx context.Context, claim *sweep.Claim, g gbt.Progress) (*sweep.Rung, error) {
	// What is written here binds the sweep, so it has to be of good data.
	if err := w.verify(ctx, "before a trial was compared"); err != nil {
		return nil, err
	}
	rule, own := w.plan.Spec.Search.Stop.Rule, sweep.Reached{Step: g.Tree, Trial: claim.Trial, Score: g.Metric}
	r := &sweep.Rung{Format: sweep.FormatVersion, Sweep: w.Sweep, Trial: claim.Trial, Claim: claim.Claim, Step: g.Tree,
		Score: g.Metric, Seen: []sweep.Reached{},
		At: time.Now().UTC()}
	if rule != sweep.StopHalving { // there it depends on no other
		list, err := w.trials.List(ctx)
		if err != nil {
			return nil, err
		}
		if err := w.trials.GatherRungs(ctx, list, claim.Trial, g.Tree, g.Tree, w.rungs); err != nil {
			return nil, err
		}
		w.rungs[sweepstore.RungKey{Step: g.Tree, Trial: claim.Trial}] = own
		r.Seen = sweepstore.ReachedOf(w.rungs, claim.Trial, g.Tree, g.Tree)
	}

	v := search.AtRung(w.plan, own, r.Seen)
	r.Pause, r.Reason = v.Action == search.Wait, v.Reason
	return r, nil
}
