package worker

import (
	"context"
	"errors"
	"time"

	"coppice/gbt"
	"coppice/metric"
	"coppice/sweep"
	"coppice/sweepstore"
	"coppice/task/internal/fit"
	"coppice/task/internal/keep"
)

// keepEvery is how long a trial goes on unsaved, at most. A task that vanishes is missed only after the plan's takeover
// time; what it has not saved should not cost more than that.
const keepEvery = time.Minute

// keeper looks after a trial's checkpoints: it reads those of all claims and writes those of this one.
func (w *Worker) keeper(c *sweep.Claim) *keep.Keeper {
	place := w.place(c.Trial)
	return &keep.Keeper{
		Place:  place,
		Prefix: place.Prefix(c.Claim),
		Every:  min(keepEvery, time.Duration(w.plan.Takeover)),
		Soon:   true,
		Log:    w.Log.With("trial", c.Trial, "claim", c.Claim),
	}
}

func (w *Worker) place(trial int) sweepstore.Checkpoints {
	return w.trials.Checkpoints(trial, gbt.MaxCheckpointBytes)
}

// dropCheckpoints makes room when the trial has its result. What stays behind hurts nobody and goes with the sweep.
func (w *Worker) dropCheckpoints(ctx context.Context, trial int) {
	k := keep.Keeper{Place: w.place(trial)}
	if err := k.Clear(ctx); err != nil {
		w.Log.Warn("drop the trial's checkpoints", "trial", trial, "error", err.Error())
	}
}

// timeLeft is how long a trial may still train. What claims before have spent counts as far as it is not lost, so a trial
// whose machines keep vanishing is not over time for that.
func (w *Worker) timeLeft(from *gbt.Checkpoint) time.Duration {
	limit := time.Duration(w.plan.Spec.Limits.Trial)
	if from != nil {
		limit -= from.Elapsed()
	}
	return limit
}

// saving is where a trial's training begins and where it is saved. ctx is the task's: when it ends, the machine is being taken
// away; a training that ends for another reason is not worth a last checkpoint.
type saving struct {
	ctx    context.Context
	keeper *keep.Keeper
	from   *gbt.Checkpoint
}

// saved finds where a claimed trial begins. What another build has saved is dropped here, before the time that it took is taken
// off this one's.
func (w *Worker) saved(ctx context.Context, c *sweep.Claim, m metric.Metric) (saving, error) {
	s := saving{ctx: ctx, keeper: w.keeper(c)}
	from, err := s.keeper.Newest(ctx)
	if err != nil {
		return s, err
	}
	s.from = from
	identity := w.table.Identity(fit.Request{Metric: m, Valid: &w.plan.Holdout.Valid, Program: w.Version})
	if from != nil && from.Identity() != identity {
		s.keeper.Log.Warn("the trial begins again", "checkpoint", from.Identity(), "this", identity)
		s.clear()
	}
	return s, nil
}

// fit trains from where the trial was saved. Checkpoints of another build, which cannot be gone on from, are dropped.
func (w *Worker) fit(ctx context.Context, s saving, q fit.Request) (*fit.Outcome, error) {
	q.Resume = s.from
	q.Checkpoint = func(c *gbt.Checkpoint) error {
		s.keeper.Offer(s.ctx, c)
		return nil
	}
	o, err := w.table.Train(ctx, q)
	var other *gbt.MismatchError
	if !errors.As(err, &other) {
		return o, err
	}
	s.keeper.Log.Warn("the trial begins again", "error", err.Error())
	s.clear()
	q.Resume = nil
	return w.table.Train(ctx, q)
}

// clear drops checkpoints that cannot be gone on from.
func (s *saving) clear() {
	if err := s.keeper.Clear(s.ctx); err != nil {
		s.keeper.Log.Warn("drop checkpoints of another build", "error", err.Error())
	}
	s.from = nil
}
