package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"coppice/blob"
	"coppice/sweep"
	"coppice/sweepstore"
)

// sight is what tells a claim that is kept alive from one that is not: as long as none of it changes, there is no sign of life.
type sight struct {
	claim    int // the trial's last
	excused  int // claims of the trial that say nothing against it
	beat     blob.Generation
	released bool
}

func sightOf(t sweepstore.Trial) sight {
	last := t.Last()
	return sight{last.Number, len(t.Claims) - deaths(t), last.Beat, last.Released}
}

// deaths is how many tasks have died over a trial. A claim that was given back says nothing against it, nor does one that got
// further than the one before.
func deaths(t sweepstore.Trial) int {
	n := 0
	for _, c := range t.Claims {
		if !c.Released && !c.Saved {
			n++
		}
	}
	return n
}

// watched is, of every unfinished trial, since when this task has seen neither a new claim nor a new heartbeat. Only this
// task's clock matters, so the machines' clocks need not agree.
type watched map[int]struct {
	sight
	since time.Time
}

// next takes a trial: one that an earlier attempt of this task left, one that nobody has, or one whose holder is dead.
// It returns nil when there is nothing more to do here.
func (w *Worker) next(ctx context.Context) (*sweep.Claim, error) {
	var idle time.Time // since when this task has had nothing to do but watch
	short := false
	w.watch = watched{}
	for {
		if over, err := w.over(ctx); err != nil || over != nil {
			return nil, err
		}
		l, err := w.trials.List(ctx)
		if err != nil {
			return nil, err
		}
		w.measures.queue(l)
		if idle.IsZero() {
			idle = l.Ended
		}

		if have, enough := w.room(); enough {
			claim, err := w.take(ctx, l)
			if err != nil || claim != nil {
				return claim, err
			}
		} else {
			if !short {
				w.Log.Warn("waiting for memory", "need_bytes", w.plan.Sizing.TrialBytes, "available_bytes", have)
			}
			idle, short = l.Ended, true // this is no sign that others hold the trials
		}

		ended := 0
		for _, t := range l.Trials {
			if t.Ended {
				ended++
			}
		}
		if ended == len(l.Trials) {
			w.Log.Info("every trial has ended")
			return nil, nil
		}
		// Whoever still trains has been alive for as long as it takes to be declared dead. Should it be killed later, Batch
		// starts it again; waiting for that would only keep a machine.
		if l.Began.Sub(idle) >= time.Duration(w.plan.Takeover)+w.heartbeat() {
			w.Log.Info("the remaining trials are in living hands", "remaining", len(l.Trials)-ended)
			return nil, nil
		}
		if err := pause(ctx, w.heartbeat()); err != nil {
			return nil, err
		}
	}
}

// take claims the first trial that may be had. Tasks begin their search at different places, so that they seldom want
// the same trial.
func (w *Worker) take(ctx context.Context, l sweepstore.Listing) (*sweep.Claim, error) {
	n := len(l.Trials)
	start := 0
	if tasks := w.plan.Sizing.Tasks; tasks > 0 {
		start = w.Task % tasks * n / tasks
	}

	dead := func(ctx context.Context, t sweepstore.Trial) (bool, error) { return w.dead(ctx, t, l) }
	for _, may := range []func(context.Context, sweepstore.Trial) (bool, error){w.mine, free, dead} {
		for i := range n {
			t := l.Trials[(start+i)%n]
			if t.Ended {
				continue
			}
			ok, err := may(ctx, t)
			if err != nil {
				return nil, err
			}
			if !ok {
				continue
			}

			if deaths(t) >= sweep.MaxClaims {
				if err := w.giveUp(ctx, t); err != nil {
					return nil, err
				}
				continue
			}
			claim, err := w.claim(ctx, t.Number, t.Next())
			if err != nil || claim != nil {
				return claim, err
			}
		}
	}
	return nil, nil
}

func free(_ context.Context, t sweepstore.Trial) (bool, error) { return t.Free(), nil }

// mine says whether the trial is held by an earlier attempt of this task: Batch starts an attempt only when the one
// before is gone. The same number in another job of the sweep is another task, which may live. Whose a damaged claim is,
// nobody knows.
func (w *Worker) mine(ctx context.Context, t sweepstore.Trial) (bool, error) {
	if len(t.Claims) == 0 || w.Attempt == 0 {
		return false, nil
	}
	c, err := w.trials.Claim(ctx, t.Number, t.Last().Number)
	var damaged *sweepstore.DamagedError
	if errors.As(err, &damaged) {
		w.Log.Warn("a claim cannot be read; its holder is watched like any other", "trial", t.Number, "error", err.Error())
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("claim of trial %d: %w", t.Number, err)
	}
	return c.Job == w.Job && c.Task == w.Task && c.Attempt < w.Attempt, nil
}

// dead says whether the trial's holder has shown no sign of life for the plan's takeover time. Listing takes time, too, at worst
// as long as that: a sign seen in one listing may have been given as late as its end, and one that is missing from another may
// have been given as early as its beginning. So from the one to the other is how long the holder was silent for certain; and
// before it is dispossessed, it is looked at once more.
func (w *Worker) dead(ctx context.Context, t sweepstore.Trial, l sweepstore.Listing) (bool, error) {
	if len(t.Claims) == 0 {
		return false, nil
	}
	seen, known := w.watch[t.Number]
	if now := sightOf(t); !known || seen.sight != now {
		seen.sight, seen.since = now, l.Ended
		w.watch[t.Number] = seen
	}
	if l.Began.Sub(seen.since) < time.Duration(w.plan.Takeover) {
		return false, nil
	}

	beat, err := w.trials.LastBeat(ctx, t.Number, t.Last().Number)
	return beat == seen.beat, err
}

// claim creates claim number n of a trial. It returns nil when another task was faster, or when the trial has ended since it was
// listed: its holder may have been about to.
func (w *Worker) claim(ctx context.Context, trial, n int) (*sweep.Claim, error) {
	c := sweep.Claim{Format: sweep.FormatVersion, Sweep: w.Sweep, Trial: trial, Claim: n, Job: w.Job, Task: w.Task,
		Attempt: w.Attempt, Host: w.Host, Nonce: w.Nonce, At: time.Now().UTC()}
	created, err := w.trials.CreateClaim(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("claim trial %d: %w", trial, err)
	}
	if !created {
		return nil, nil
	}
	ended, err := w.trials.HasResult(ctx, trial)
	if err != nil {
		w.release(ctx, &c)
		return nil, err
	}
	if ended {
		w.Log.Info("the trial had ended before it was claimed", "trial", trial, "claim", n)
		return nil, nil
	}

	w.Log.Info("claimed", "trial", trial, "claim", n)
	if n > 0 {
		w.measures.count(w.measures.takeovers)
	}
	return &c, nil
}

// giveUp ends a trial that has cost too many tasks their lives.
func (w *Worker) giveUp(ctx context.Context, t sweepstore.Trial) error {
	now, dead := time.Now().UTC(), deaths(t)
	w.Log.Warn("trial given up", "trial", t.Number, "deaths", dead)
	return w.finish(ctx, &sweep.Result{Format: sweep.FormatVersion, Sweep: w.Sweep, Trial: t.Number, Claim: t.Last().Number, Task: w.Task,
		Attempt: w.Attempt, Params: w.plan.Trials[t.Number].Params, Metrics: map[string]float64{}, Status: sweep.StatusFailed, Started: now, Ended: now,
		Reason: fmt.Sprintf("%d tasks died while they trained it and got no further; it may need more memory than the machine has", dead)})
}

// release gives a claim back, so that nobody need wait until its holder counts as dead.
func (w *Worker) release(ctx context.Context, c *sweep.Claim) {
	if ctx.Err() != nil {
		w.measures.count(w.measures.interruptions)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseLimit) // ctx has ended, most often
	defer cancel()
	if err := w.trials.Release(ctx, c.Trial, c.Claim); err != nil {
		w.Log.Warn("release the claim", "trial", c.Trial, "error", err.Error())
	}
}

// releaseLimit is far below the time that a Spot machine has left.
const releaseLimit = 5 * time.Second

// lost says why a claim is worth nothing any more; nil as long as it holds its trial.
func (w *Worker) lost(ctx context.Context, c *sweep.Claim) (why, err error) {
	taken, err := w.trials.HasClaim(ctx, c.Trial, c.Claim+1)
	if err != nil {
		return nil, err
	}
	if taken {
		return errSuperseded, nil
	}

	ended, err := w.trials.HasResult(ctx, c.Trial)
	if err != nil || !ended {
		return nil, err
	}
	return errEndedElsewhere, nil
}
