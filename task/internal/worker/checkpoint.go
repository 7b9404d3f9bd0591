package worker

import (
	"context"
	"errors"
	"slices"
	"time"

	"coppice/internal/fit"
	"coppice/internal/gbt"
	"coppice/internal/metric"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/task/internal/keep"
)

// keepEvery bounds the training time between two checkpoints. A task that vanishes is missed only after the plan's
// takeover time; losing its unsaved trees should cost no more than that.
const keepEvery = time.Minute

// keeper returns the keeper of a trial's checkpoints: it reads those of every claim and writes those of claim c.
//
// It saves nothing once the machine's copy of the dataset is damaged: a checkpoint outlives the copy, and another task,
// here or on another machine, resumes from it on good data. So the whole copy is verified before every save. Damage on
// a disk does not heal, so a copy that verifies now was whole during all the training so far, and every checkpoint in
// the bucket is of good data. That takes about as long as one tree, and a save that takes longer comes less often.
func (w *Worker) keeper(c *sweep.Claim, damage *error) *keep.Keeper {
	place := w.place(c.Trial)
	return &keep.Keeper{
		Place:  place,
		Prefix: place.Prefix(c.Claim),
		Every:  min(keepEvery, time.Duration(w.plan.Takeover)),
		Soon:   true,
		Last:   w.after.work,
		Sound: func(ctx context.Context) error {
			err := w.verify(ctx, "before a checkpoint")
			if errors.Is(err, errCopy) {
				*damage = err
			}
			return err
		},
		Log: w.Log.With("trial", c.Trial, "claim", c.Claim),
	}
}

func (w *Worker) place(trial int) sweepstore.Checkpoints {
	return w.trials.Checkpoints(trial, gbt.MaxCheckpointBytes)
}

// dropCheckpoints deletes the checkpoints of a trial that has its result. Any that remain do no harm; they are deleted
// with the sweep.
func (w *Worker) dropCheckpoints(ctx context.Context, trial int) {
	k := keep.Keeper{Place: w.place(trial)}
	if err := k.Clear(ctx); err != nil {
		w.Log.Warn("drop the trial's checkpoints", "trial", trial, "error", err.Error())
	}
}

// timeLeft returns how much longer a trial may train. Time spent under earlier claims counts only up to the checkpoint,
// so a trial does not time out because its machines keep vanishing.
func (w *Worker) timeLeft(from *gbt.Checkpoint) time.Duration {
	limit := time.Duration(w.plan.Spec.Limits.Trial)
	if from != nil {
		limit -= from.Elapsed()
	}
	return limit
}

// saving is what a trial resumes from and where it saves. ctx is the task's: when it ends, the machine is being taken
// away and a last checkpoint is worthwhile; a training that stops for any other reason needs none.
type saving struct {
	ctx    context.Context
	keeper *keep.Keeper
	damage error     // errCopy, once a save has found it
	limit  time.Time // when limits.trial ends the training,
	kept   bool      // or the time that is kept for the final training
	from   *gbt.Checkpoint
	pause  int // the trees at which the trial waits for others; 0 while it does not
}

// saved finds the checkpoint that a claimed trial resumes from. A checkpoint of another build is dropped here, before
// the time spent on it is deducted from this trial's limit.
func (w *Worker) saved(ctx context.Context, c *sweep.Claim, m metric.Metric) (*saving, error) {
	s := &saving{ctx: ctx}
	s.keeper = w.keeper(c, &s.damage)
	from, err := s.keeper.Newest(ctx)
	if err != nil {
		return s, err
	}

	s.from = from
	if of := w.identities(c.Trial, m); s.from != nil && !slices.Contains(of, from.Identity()) {
		s.keeper.Log.Warn("the trial starts over", "checkpoint", from.Identity(), "this", of[0])
		s.clear()
	}
	return s, nil
}

// identities are those of a trial's checkpoints: of its training on all rows, and of that on a sample.
func (w *Worker) identities(trial int, m metric.Metric) []string {
	q := w.request(trial, fit.Request{Metric: m})
	all := []string{w.table.Identity(q)}
	if stop := w.plan.Spec.Search.Stop; stop != nil && stop.By == sweep.ByRows {
		q.OneIn = stop.OneIn
		all = append(all, w.table.Identity(q))
	}
	return all
}

// fit trains from the trial's checkpoint. Checkpoints of another build cannot be resumed; they are dropped and training
// starts over.
func (w *Worker) fit(ctx context.Context, s *saving, q fit.Request) (*fit.Evaluated, error) {
	// it is of a sample of the rows, which has served its purpose
	if s.from != nil && s.from.Identity() != w.table.Identity(q) {
		s.clear()
	}

	q.Resume, q.Deadline = s.from, s.limit
	q.Checkpoint = func(c *gbt.Checkpoint) error {
		if s.pause == 0 {
			s.keeper.Offer(s.ctx, c)
			return s.damage // trees grown from here on would be wasted
		}
		if s.keeper.Save(s.ctx, c); s.damage != nil {
			return s.damage
		}
		return &pausedError{s.pause}
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
