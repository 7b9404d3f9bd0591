package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"coppice/blob"
	"coppice/sweep"
)

// state is what the sweep's objects say of one trial.
type state struct {
	claims  int             // made so far; the last one holds the trial
	excused int             // how many of them say nothing against the trial: given back, or further on than the one before
	free    bool            // the last one was given back
	beat    blob.Generation // of the last claim's heartbeat; 0 before its first
	ended   bool
}

// watched is, of every unfinished trial, since when this task has seen neither a new claim nor a new heartbeat. Only this
// task's clock matters, so the machines' clocks need not agree.
type watched map[int]struct {
	state
	since time.Time
}

// next takes a trial: one that an earlier attempt of this task left, one that nobody has, or one whose holder is dead.
// It returns nil when there is nothing more to do here.
func (w *Worker) next(ctx context.Context) (*sweep.Claim, error) {
	idle, short := time.Now(), false
	w.watch = watched{}
	for {
		if over, err := w.over(ctx); err != nil || over != nil {
			return nil, err
		}
		states, err := w.states(ctx)
		if err != nil {
			return nil, err
		}
		w.measures.queue(states)
		if have, enough := w.room(); enough {
			claim, err := w.take(ctx, states)
			if err != nil || claim != nil {
				return claim, err
			}
		} else {
			if !short {
				w.Log.Warn("waiting for memory", "need_bytes", w.plan.Sizing.TrialBytes, "available_bytes", have)
			}
			idle, short = time.Now(), true // this is no sign that others hold the trials
		}
		ended := 0
		for _, s := range states {
			if s.ended {
				ended++
			}
		}
		if ended == len(states) {
			w.Log.Info("every trial has ended")
			return nil, nil
		}
		// Whoever still trains has been alive for as long as it takes to be declared dead. Should it be killed later, Batch
		// starts it again; waiting for that would only keep a machine.
		if time.Since(idle) >= time.Duration(w.plan.Takeover)+w.heartbeat() {
			w.Log.Info("the remaining trials are in living hands", "remaining", len(states)-ended)
			return nil, nil
		}
		if err := pause(ctx, w.heartbeat()); err != nil {
			return nil, err
		}
	}
}

// states lists the sweep's trials once.
func (w *Worker) states(ctx context.Context) ([]state, error) {
	states := make([]state, len(w.plan.Trials))
	beats, released, excused := map[[2]int]blob.Generation{}, map[[2]int]bool{}, map[[2]int]bool{}
	for attrs, err := range w.Sweeps.List(ctx, w.Sweep.Trials()) {
		if err != nil {
			return nil, fmt.Errorf("list the sweep's trials: %w", err)
		}
		trial, part, claim, ok := w.Sweep.ParseTrialObject(attrs.Name)
		if !ok || trial >= len(states) {
			continue
		}
		switch part {
		case sweep.PartClaim:
			states[trial].claims = max(states[trial].claims, claim+1)
		case sweep.PartHeartbeat:
			beats[[2]int{trial, claim}] = attrs.Generation
		case sweep.PartRelease:
			released[[2]int{trial, claim}] = true
			excused[[2]int{trial, claim}] = true
		case sweep.PartCheckpoint:
			excused[[2]int{trial, claim}] = true
		case sweep.PartResult:
			states[trial].ended = true
		}
	}
	for i := range states {
		last := [2]int{i, states[i].claims - 1}
		states[i].beat, states[i].free = beats[last], released[last]
	}
	for claim := range excused {
		states[claim[0]].excused++
	}
	return states, nil
}

// take claims the first trial that may be had. Tasks begin their search at different places, so that they seldom want
// the same trial.
func (w *Worker) take(ctx context.Context, states []state) (*sweep.Claim, error) {
	n := len(states)
	start := 0
	if tasks := w.plan.Sizing.Tasks; tasks > 0 {
		start = w.Task % tasks * n / tasks
	}
	for _, may := range []func(context.Context, int, state) (bool, error){w.mine, free, w.dead} {
		for i := range n {
			trial := (start + i) % n
			s := states[trial]
			if s.ended {
				continue
			}
			ok, err := may(ctx, trial, s)
			if err != nil {
				return nil, err
			}
			if !ok {
				continue
			}
			if s.claims-s.excused >= sweep.MaxClaims {
				if err := w.giveUp(ctx, trial, s); err != nil {
					return nil, err
				}
				continue
			}
			claim, err := w.claim(ctx, trial, s.claims)
			if err != nil || claim != nil {
				return claim, err
			}
		}
	}
	return nil, nil
}

func free(_ context.Context, _ int, s state) (bool, error) { return s.claims == 0 || s.free, nil }

// mine says whether the trial is held by an earlier attempt of this task: Batch starts an attempt only when the one
// before is gone. The same number in another job of the sweep is another task, which may live.
func (w *Worker) mine(ctx context.Context, trial int, s state) (bool, error) {
	if s.claims == 0 || w.Attempt == 0 {
		return false, nil
	}
	var c sweep.Claim
	_, err := blob.ReadJSON(ctx, w.Sweeps, w.Sweep.Claim(trial, s.claims-1), &c)
	if err != nil {
		return false, fmt.Errorf("read the claim of trial %d: %w", trial, err)
	}
	return c.Job == w.Job && c.Task == w.Task && c.Attempt < w.Attempt, nil
}

// dead says whether the trial's holder has shown no sign of life for the plan's takeover time.
func (w *Worker) dead(_ context.Context, trial int, s state) (bool, error) {
	if s.claims == 0 {
		return false, nil
	}
	seen, known := w.watch[trial]
	if !known || seen.state != s {
		seen.state, seen.since = s, time.Now()
		w.watch[trial] = seen
	}
	return time.Since(seen.since) >= time.Duration(w.plan.Takeover), nil
}

// claim creates claim number n of a trial. It returns nil when another task was faster.
func (w *Worker) claim(ctx context.Context, trial, n int) (*sweep.Claim, error) {
	c := &sweep.Claim{Format: sweep.FormatVersion, Sweep: w.Sweep, Trial: trial, Claim: n, Job: w.Job, Task: w.Task,
		Attempt: w.Attempt, Host: w.Host, Nonce: w.Nonce, At: time.Now().UTC()}
	created, err := blob.CreateJSON(ctx, w.Sweeps, w.Sweep.Claim(trial, n), c)
	if err != nil {
		return nil, fmt.Errorf("claim trial %d: %w", trial, err)
	}
	if !created {
		return nil, nil
	}
	w.Log.Info("claimed", "trial", trial, "claim", n)
	if n > 0 {
		w.measures.count(w.measures.takeovers)
	}
	return c, nil
}

// giveUp ends a trial that has cost too many tasks their lives.
func (w *Worker) giveUp(ctx context.Context, trial int, s state) error {
	now, deaths := time.Now().UTC(), s.claims-s.excused
	w.Log.Warn("trial given up", "trial", trial, "deaths", deaths)
	return w.finish(ctx, &sweep.Result{Format: sweep.FormatVersion, Sweep: w.Sweep, Trial: trial, Claim: s.claims - 1, Task: w.Task,
		Attempt: w.Attempt, Params: w.plan.Trials[trial].Params, Metrics: map[string]float64{}, Status: sweep.StatusFailed, Started: now, Ended: now,
		Reason: fmt.Sprintf("%d tasks died while they trained it and got no further; it may need more memory than the machine has", deaths)})
}

// release gives a claim back, so that nobody need wait until its holder counts as dead.
func (w *Worker) release(ctx context.Context, c *sweep.Claim) {
	if ctx.Err() != nil {
		w.measures.count(w.measures.interruptions)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseLimit) // ctx has ended, most often
	defer cancel()
	if _, err := blob.Create(ctx, w.Sweeps, w.Sweep.Release(c.Trial, c.Claim), []byte("{}\n")); err != nil {
		w.Log.Warn("release the claim", "trial", c.Trial, "error", err.Error())
	}
}

// releaseLimit is far below the time that a Spot machine has left.
const releaseLimit = 5 * time.Second

// superseded reports whether a later claim has taken the trial over.
func (w *Worker) superseded(ctx context.Context, c *sweep.Claim) (bool, error) {
	_, err := w.Sweeps.Stat(ctx, w.Sweep.Claim(c.Trial, c.Claim+1))
	if errors.Is(err, blob.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
