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

// keepEvery bounds the training time between two checkpoints. A task that vanishes is missed only after the plan's takeover time; losing
// its unsaved trees should cost no more than that.
const keepEvery = time.Minute

// keeper returns the keeper of a trial's checkpoints: it reads those of every claim and writes those of claim c.
func (w *Worker) keeper(c *sweep.Claim, place *soundCopy) *keep.Keeper {
	return &keep.Keeper{
		Place:  place,
		Prefix: place.Prefix(c.Claim),
		Every:  min(keepEvery, time.Duration(w.plan.Takeover)),
		Soon:   true,
		Last:   w.after.work,
		Log:    w.Log.With("trial", c.Trial, "claim", c.Claim),
	}
}

func (w *Worker) place(trial int) sweepstore.Checkpoints {
	return w.trials.Checkpoints(trial, gbt.MaxCheckpointBytes)
}

// soundCopy is a checkpoint store that refuses to save once the machine's copy of the dataset is damaged. A checkpoint of trees grown on
// damaged data would outlive the copy: another machine would resume from it on good data. Damage on a disk does not heal, so a copy that
// verifies now was whole during all the training so far. The verification counts as part of the save, whose share of the time is limited.
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

// dropCheckpoints deletes the checkpoints of a trial that has its result. Any that remain do no harm; they are deleted with the sweep.
func (w *Worker) dropCheckpoints(ctx context.Context, trial int) {
	k := keep.Keeper{Place: w.place(trial)}
	if err := k.Clear(ctx); err != nil {
		w.Log.Warn("drop the trial's checkpoints", "trial", trial, "error", err.Error())
	}
}

// timeLeft returns how much longer a trial may train. Time spent under earlier claims counts only up to the checkpoint, so a trial does not
// time out because its machines keep vanishing.
func (w *Worker) timeLeft(from *gbt.Checkpoint) time.Duration {
	limit := time.Duration(w.plan.Spec.Limits.Trial)
	if from != nil {
		limit -= from.Elapsed()
	}
	return limit
}

// saving is what a trial resumes from and where it saves. ctx is the task's: when it ends, the machine is being taken away and a last
// checkpoint is worthwhile; a training that stops for any other reason needs none.
type saving struct {
	ctx    context.Context
	keeper *keep.Keeper
	place  *soundCopy // the keeper's
	from   *gbt.Checkpoint
}

// saved finds the checkpoint that a claimed trial resumes from. A checkpoint of another build is dropped here, before the time spent on it
// is deducted from this trial's limit.
func (w *Worker) saved(ctx context.Context, c *sweep.Claim, m metric.Metric) (saving, error) {
	s := saving{ctx: ctx, place: &soundCopy{Checkpoints: w.place(c.Trial), w: w}}
	s.keeper = w.keeper(c, s.place)
	from, err := s.keeper.Newest(ctx)
	if err != nil {
		return s, err
	}

	s.from = from
	if from != nil && w.replaced && w.wasHere(ctx, c) {
		s.keeper.Log.Warn("the trial starts over: it was saved on a copy of the dataset that turned out to be damaged")
		s.clear()
	}
	identity := w.table.Identity(w.request(c.Trial, fit.Request{Metric: m}))
	if s.from != nil && from.Identity() != identity {
		s.keeper.Log.Warn("the trial starts over", "checkpoint", from.Identity(), "this", identity)
		s.clear()
	}
	return s, nil
}

// wasHere reports whether an earlier claim of the trial was held by a task of this machine or by an earlier attempt of this task: its
// checkpoints may then hold trees grown on the damaged copy. A claim that cannot be read counts as one of them.
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

// fit trains from the trial's checkpoint. Checkpoints of another build cannot be resumed; they are dropped and training starts over.
func (w *Worker) fit(ctx context.Context, s saving, q fit.Request) (*fit.Outcome, error) {
	q.Resume = s.from
	q.Checkpoint = func(c *gbt.Checkpoint) error {
		s.keeper.Offer(s.ctx, c)
		return s.place.damage // trees grown from here on would be wasted
	}
	o, err := w.table.Train(ctx, q)
	var other *gbt.MismatchError
	if !errors.As(err, &other) {
		return o, err
	}
	s.keeper.Log.Warn("the trial starts over", "error", err.Error())
	s.clear()
	q.Resume = nil
	return w.table.Train(ctx, q)
}

// clear drops checkpoints that cannot be resumed.
func (s *saving) clear() {
	if err := s.keeper.Clear(s.ctx); err != nil {
		s.keeper.Log.Warn("drop the trial's checkpoints", "error", err.Error())
	}
	s.from = nil
}
