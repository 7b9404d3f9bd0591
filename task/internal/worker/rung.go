package worker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"coppice/internal/fit"
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

// climb is called after each tree of a training. At a rung it decides whether the trial goes on. If the trial has to
// wait, it sets t.pauseAt, so that the training ends when the checkpoint of this tree is saved, or, if there is none,
// at the next tree. Any other error ends the training at once.
func (t *training) climb(ctx context.Context, tree gbt.Progress) error {
	if t.pauseAt > 0 {
		return &pausedError{t.pauseAt}
	}
	// Trials are not compared at all, or before they train on all rows, or not this one, or not at this tree.
	stop := t.plan.Spec.Search.Stop
	if stop == nil || stop.By == sweep.ByRows || t.planned.Refit || !slices.Contains(stop.Rungs, tree.Tree) {
		return nil
	}

	err := t.decideAtRung(ctx, tree)
	if paused := new(pausedError); errors.As(err, &paused) {
		t.pauseAt = paused.step
		return nil
	}
	return err
}

// decideAtRung decides whether a trial that has reached a rung continues, and notes its score there for the result. It
// returns nil if it does, a *pausedError if it has to wait, a *stoppedError if it ends there, or an error that ends the
// attempt if no decision can be made.
func (t *training) decideAtRung(ctx context.Context, tree gbt.Progress) error {
	c := &climbing{training: t, at: tree}
	err := c.follow(ctx, tree.Tree)
	if c.rung != nil {
		t.pass(c.rung)
	}
	if problem.Is(err, problem.Transient) && ctx.Err() != nil {
		return ctx.Err() // not saved beyond the rung yet, so the next holder decides it again
	}
	return err
}

// checkStanding finds out, before a trial is trained, whether it may be, since an earlier holder may have paused it. It
// returns the same as decideAtRung, and notes the scores at the rungs up to the pause.
func (t *training) checkStanding(ctx context.Context) error {
	if !t.plan.Pauses() || t.claim.Claim == 0 { // the first claim: there is no earlier holder
		return nil
	}
	c := &climbing{training: t}
	if t.from != nil && t.plan.Spec.Search.Stop.By != sweep.ByRows { // a sample's checkpoint says nothing about rungs
		c.trees = t.from.Trees()
	}
	err := c.follow(ctx, 0)
	for _, r := range c.before {
		t.pass(r)
	}
	return err
}

// pass notes the trial's score at a rung in t.passed, ascending by step, unless it is noted already.
func (t *training) pass(rung *sweep.Rung) {
	i, noted := slices.BinarySearchFunc(t.passed, rung.Step,
		func(at sweep.RungScore, step int) int { return at.Step - step })
	if !noted {
		t.passed = slices.Insert(t.passed, i, sweep.RungScore{Step: rung.Step, Score: rung.Score})
	}
}

// climbing carries out the actions of a holder at a rung, or before training.
type climbing struct {
	*training
	at      gbt.Progress // at the rung
	trees   int          // before training: those of the checkpoint
	rung    *sweep.Rung  // found in the store, or about to be written
	verdict *sweep.Promotion
	before  []*sweep.Rung // those up to the last pause
}

// follow runs the protocol at a rung of step trees, or, with 0, before training. It returns nil if the trial continues,
// a *pausedError if it has to wait, a *stoppedError if it ends there, and a transient error if the store failed.
// Package protocol orders the steps: the record of a rung is written before it is acted on, and binds later holders.
func (c *climbing) follow(ctx context.Context, step int) error {
	s, first := protocol.Climb{Trial: c.claim.Trial, Claim: c.claim.Claim, Rung: step}.Begin()
	do, err := protocol.Run(s, first, func(a protocol.Action) (protocol.Answer, error) {
		return c.step(ctx, a.Do, a.Rung)
	})

	switch do.Do {
	case protocol.Pause:
		return &pausedError{do.Rung}
	case protocol.Close: // only a verdict ends a trial, so that c.rung and c.verdict are set
		return &stoppedError{do.Rung, c.rung.Score, c.verdict.Reason}
	case protocol.Stop:
		return problem.As(problem.Transient, err)
	}
	return nil
}

// step carries out one action of the protocol's Climb and returns the answer.
func (c *climbing) step(ctx context.Context, op protocol.Op, rung int) (answer protocol.Answer, err error) {
	trial := c.claim.Trial
	switch op {
	case protocol.LookForPause:
		listed, err := c.trials.ListTrial(ctx, trial)
		if err != nil {
			return answer, err
		}
		// The last of the rungs where it was paused, and of those that its checkpoint has passed. Rungs is a map, in
		// no order.
		for at := range listed.Rungs {
			_, paused := listed.Pauses[at]
			if at > answer.Rung && (paused || at <= c.trees) {
				answer.Yes, answer.Rung = true, at
			}
		}
		c.before, err = c.trials.RungsTo(ctx, listed, answer.Rung)
		return answer, err

	case protocol.ReadRung:
		// no earlier holder has reached it; a later one may have, which the attempt to create it shows
		if c.claim.Claim == 0 && c.rung == nil {
			return answer, nil
		}
		found, err := c.trials.Rung(ctx, trial, rung)
		if problem.Is(err, problem.Damaged) {
			c.Log.Warn("the decision about the trial at a rung cannot be read; it continues", "trial", trial, "trees",
				rung, "error", err.Error())
			return protocol.Answer{Unreadable: true}, nil
		}
		if found == nil { // there is none, or the store has failed
			return answer, err
		}
		c.rung = found
		return protocol.Answer{Yes: true, Standing: standingOf(found)}, nil

	case protocol.CompareTrial:
		if c.rung, err = c.newRung(ctx, c.at); err != nil {
			return answer, err
		}
		return protocol.Answer{Standing: standingOf(c.rung)}, nil

	case protocol.CreateRung:
		answer.Yes, err = c.trials.CreateRung(ctx, *c.rung)
		if answer.Yes {
			c.Log.Info("rung", "trial", trial, "trees", rung, "score", c.rung.Score, "pause", c.rung.Pause,
				"reason", c.rung.Reason)
		}
		return answer, err

	default: // ReadVerdict
		c.verdict, err = c.trials.Promotion(ctx, trial, rung)
		if problem.Is(err, problem.Damaged) {
			c.Log.Warn("what becomes of the paused trial cannot be read; it continues", "trial", trial, "trees", rung,
				"error", err.Error())
			return protocol.Answer{Unreadable: true}, nil
		}
		switch {
		case c.verdict == nil: // not decided yet, so that it goes on waiting; or err is set
		case c.verdict.Promoted:
			answer.Standing = protocol.Continues
		default:
			answer.Standing = protocol.Ends
		}
		return answer, err
	}
}

// standingOf returns what a rung's record says of the trial, in the protocol's terms.
func standingOf(rung *sweep.Rung) protocol.Standing {
	if rung.Pause {
		return protocol.Waits
	}
	return protocol.Continues
}

// newRung compares the trial, after this tree, with the others at the rung, and returns the record to be written. It
// verifies the copy of the dataset first.
func (t *training) newRung(ctx context.Context, at gbt.Progress) (*sweep.Rung, error) {
	// What is written here binds the sweep, so it has to be of good data.
	if err := t.verify(ctx, "before a trial was compared"); err != nil {
		return nil, err
	}

	trial, step := t.claim.Trial, at.Tree
	reached := sweep.Reached{Step: step, Trial: trial, Score: at.Metric}
	r := &sweep.Rung{Format: sweep.FormatVersion, Sweep: t.Sweep, Trial: trial, Claim: t.claim.Claim, Step: step,
		Score: at.Metric, Seen: []sweep.Reached{}, At: time.Now().UTC()}
	if t.plan.Spec.Search.Stop.Rule != sweep.StopHalving { // there it depends on no other
		list, err := t.trials.List(ctx)
		if err != nil {
			return nil, err
		}
		if err := t.trials.GatherRungs(ctx, list, trial, step, step, t.known.rungs); err != nil {
			return nil, err
		}
		t.known.rungs[sweepstore.RungKey{Step: step, Trial: trial}] = reached
		r.Seen = sweepstore.ReachedOf(t.known.rungs, trial, step, step)
	}

	v := search.AtRung(t.plan, reached, r.Seen)
	r.Pause, r.Reason = v.Action == search.Wait, v.Reason
	return r, nil
}

// compareBySample trains the trial on a sample of the rows and compares its score with those of others, if the plan
// compares trials in this way. request is that of the training on all rows. It returns the same as decideAtRung, nil if
// the trial is to be trained on all rows.
func (t *training) compareBySample(ctx context.Context, request fit.Request) error {
	stop := t.plan.Spec.Search.Stop
	if stop == nil || stop.By != sweep.ByRows || t.planned.Refit {
		return nil
	}

	for _, step := range search.RungsOf(t.plan, t.claim.Trial) {
		// An earlier holder may have come further. Then its record is followed, and no sample trained.
		if t.claim.Claim > 0 {
			r, err := t.trials.Rung(ctx, t.claim.Trial, step)
			damaged := problem.Is(err, problem.Damaged)
			if err != nil && !damaged {
				return problem.As(problem.Transient, err)
			}
			if r != nil || damaged {
				if err := t.decideAtRung(ctx, gbt.Progress{Tree: step}); err != nil {
					return err
				}
				continue
			}
		}

		score, err := t.trainSample(ctx, request, stop.OneIn)
		if errors.Is(err, gbt.ErrData) { // so few rows are not fit to train on, such as without positives
			t.Log.Warn("a sample of the rows cannot be trained on; the trial continues", "trial", t.claim.Trial,
				"error", err.Error())
			continue
		}
		if err == nil {
			err = t.decideAtRung(ctx, gbt.Progress{Tree: step, Metric: score})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// trainSample trains the trial on one in so many of the rows and returns the model's score on valid. The training is
// saved and resumed like any other; its checkpoints are dropped at the end.
func (t *training) trainSample(ctx context.Context, request fit.Request, oneIn int) (score float64, err error) {
	request.OneIn, request.RateTrees, request.StandardError, request.Metrics = oneIn, false, false, nil
	request.OnTree = func(g gbt.Progress) error {
		t.measures.tree(t.claim.Trial, g.Rows, math.NaN())
		return nil
	}

	o, err := t.fit(ctx, request)
	if err != nil {
		return 0, err
	}
	if o.Stopped == gbt.StopLimit { // a model of a sample is none that could win
		return 0, gbt.ErrLimit
	}
	t.startOver() // the next training is another one
	t.Log.Info("trained on a sample", "rows", o.TrainRows, "trees", o.Grown, "score", o.Score, "seconds", o.Seconds)
	return o.Score, nil
}
