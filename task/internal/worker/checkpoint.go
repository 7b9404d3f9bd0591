package worker

import (
	"context"
	"errors"
	"time"

	"coppice/blob"
	"coppice/fit"
	"coppice/gbt"
	"coppice/metric"
	"coppice/sweep"
	"coppice/sweepstore"
	"coppice/task/internal/keep"
)

// keepEvery is how long a trial goes on unsaved, at most. A task that vanishes is missed only after the plan's takeover
// time; what it has not saved should not cost more than that.
const keepEvery = time.Minute

// keeper looks after a trial's checkpoints: it reads those of all claims and writes those of this one.
func (w *Worker) keeper(c *sweep.Claim, place *soundCopy) *keep.Keeper {
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

// soundCopy is a place for checkpoints of what was learnt from the dataset as it was staged. One of trees that grew on a damaged copy
// would outlive that: whoever takes the trial over goes on from it, on a good one. A disk does not put right what it has damaged, so
// what is whole now has been so until now. It is read as part of the save, whose share of the time is limited.
type soundCopy struct {
	sweepstore.Checkpoints
	w      *Worker
	damage error // a *copyError, once it has been found
}

// Write writes the checkpoint, unless the machine's copy turns out damaged.
func (p *soundCopy) Write(ctx context.Context, name string, data []byte) error {
	err := p.w.soFar(ctx)
	var damaged *copyError
	if errors.As(err, &damaged) {
		p.damage = damaged
	}
	if err != nil {
		return err
	}
	return p.Checkpoints.Write(ctx, name, data)
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
	place  *soundCopy // the keeper's
	from   *gbt.Checkpoint
}

// saved finds where a claimed trial begins. What another build has saved is dropped here, before the time that it took is taken
// off this one's.
func (w *Worker) saved(ctx context.Context, c *sweep.Claim, m metric.Metric) (saving, error) {
	s := saving{ctx: ctx, place: &soundCopy{Checkpoints: w.place(c.Trial), w: w}}
	s.keeper = w.keeper(c, s.place)
	from, err := s.keeper.Newest(ctx)
	if err != nil {
		return s, err
	}

	s.from = from
	if from != nil && w.replaced && w.wasHere(ctx, c) {
		s.keeper.Log.Warn("the trial begins again: it was saved on a copy of the dataset that turned out damaged")
		s.clear()
	}
	identity := w.table.Identity(w.request(c.Trial, fit.Request{Metric: m}))
	if s.from != nil && from.Identity() != identity {
		s.keeper.Log.Warn("the trial begins again", "checkpoint", from.Identity(), "this", identity)
		s.clear()
	}
	return s, nil
}

// wasHere says whether a task of this machine, or an earlier attempt of this task, has held the trial before the claim: then its
// checkpoints may be of trees that grew on the copy which has been replaced. Who cannot be asked counts as one of them.
func (w *Worker) wasHere(ctx context.Context, c *sweep.Claim) bool {
	for n := range c.Claim {
		before, err := w.trials.Claim(ctx, c.Trial, n)
		if errors.Is(err, blob.ErrNotExist) {
			continue
		}
		if err != nil || before.Host == w.Host || before.Job == w.Job && before.Task == w.Task {
			return true
		}
	}
	return false
}

// fit trains from where the trial was saved. Checkpoints of another build, which cannot be gone on from, are dropped.
func (w *Worker) fit(ctx context.Context, s saving, q fit.Request) (*fit.Outcome, error) {
	q.Resume = s.from
	q.Checkpoint = func(c *gbt.Checkpoint) error {
		s.keeper.Offer(s.ctx, c)
		return s.place.damage // what grows from there on is for nothing
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
		s.keeper.Log.Warn("drop the trial's checkpoints", "error", err.Error())
	}
	s.from = nil
}
