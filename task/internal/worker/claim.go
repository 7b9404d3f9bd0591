package worker

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dustin/go-humanize"

	"coppice/internal/protocol"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// next claims a trial: one left by an earlier attempt of this task, a free one, or one whose holder is dead. It returns
// nil when there is nothing left for this task. Package protocol decides the order of the steps.
func (w *Worker) next(ctx context.Context) (*sweep.Claim, error) {
	look := &looking{w: w}
	defer look.leave()
	s, first := w.rules().Begin()
	do, err := protocol.Run(s, first, func(a protocol.Action) (protocol.Answer, error) { return look.do(ctx, a) })

	if do.Do == protocol.Train {
		return look.claim, nil
	}
	switch do.Why {
	case protocol.AllEnded:
		w.Log.Info("every trial has ended")
	case protocol.LivingHands:
		w.Log.Info("the remaining trials have live holders", "remaining", look.list.Open())
	}
	return nil, err
}

// rules returns the protocol's parameters for this task.
func (w *Worker) rules() protocol.Task {
	t := protocol.Task{Attempt: w.Attempt, Heartbeat: w.heartbeat(), Takeover: time.Duration(w.plan.Takeover),
		MaxDeaths: sweep.MaxClaims,
		Stages:    w.plan.Stages(), Team: w.plan.Spec.FinalMachines(),
		Together: w.plan.Pauses() && w.plan.Spec.Search.Stop.Rule == sweep.StopHalving}
	switch tasks, own := w.plan.Sizing.Tasks, len(w.plan.Own()); {
	// the first trials of an adaptive search inform all later ones, so they start first
	case w.plan.Open():
		t.Start = w.Task % own
	case tasks > 0:
		t.Start = w.Task % tasks * own / tasks
	}
	t.Alone = w.plan.Sizing.Tasks == 1 && (w.plan.Open() || w.plan.Pauses())
	return t
}

// looking carries out the actions of one hunt for a trial.
type looking struct {
	w     *Worker
	list  sweepstore.Listing // the latest
	rules protocol.View      // the latest, as the rules see it
	claim *sweep.Claim       // the latest created
	due   sweep.Promotion    // the latest found
	short bool               // waiting for memory has been logged

	assistant *assistant // nil while this task takes part in no other one's training
}

func (l *looking) do(ctx context.Context, a protocol.Action) (answer protocol.Answer, err error) {
	w := l.w
	switch a.Do {
	case protocol.LookForEnd:
		var over error
		over, err = w.over(ctx)
		answer.Yes = over != nil

	case protocol.List:
		return l.look(ctx)

	case protocol.AskVerdict:
		return l.verdict(ctx, a.Last)

	case protocol.CreateVerdict:
		return answer, l.decide(ctx)

	case protocol.ReadClaim:
		answer.Yes, err = w.mine(ctx, a.Trial, a.Claim)

	case protocol.ReadBeat:
		beat, err := w.trials.LastBeat(ctx, a.Trial, a.Claim)
		return protocol.Answer{Beat: int64(beat)}, err

	case protocol.CreateClaim:
		l.claim, err = w.create(ctx, a.Trial, a.Claim)
		answer.Yes = l.claim != nil

	case protocol.LookForResult:
		answer.Yes, err = w.trials.HasResult(ctx, a.Trial)
		l.claimed(a, answer.Yes, err)

	case protocol.GiveUp:
		return answer, w.giveUp(ctx, a.Trial, a.Claim, l.rules.Trials[a.Trial].Deaths)

	case protocol.Release:
		w.release(ctx, l.claim)

	case protocol.Help:
		answer.Yes = l.help(ctx, a.Trial, a.Claim)
		return answer, pause(ctx, w.heartbeat())

	case protocol.Wait:
		return answer, pause(ctx, w.heartbeat())
	}
	return answer, err
}

// look lists the trials and checks whether there is memory for one.
func (l *looking) look(ctx context.Context) (protocol.Answer, error) {
	w := l.w
	list, err := w.trials.List(ctx)
	if err != nil {
		return protocol.Answer{}, err
	}
	l.list, l.rules, w.listing = list, list.View(), list
	w.measures.queue(l.rules)

	need := w.plan.Sizing.TrialBytes
	if l.list.Open() == 1 { // only the refit or the final training is left
		need = max(need, w.plan.Sizing.RefitBytes)
	}
	have, enough := w.room(need)
	enough = enough || l.assistant != nil // which has the memory
	if !enough && !l.short {
		w.Log.Warn("waiting for memory", "need_bytes", need, "available_bytes", have)
		w.tell(fmt.Errorf("it waits for memory: %s are free, and a trial needs %s", humanize.IBytes(uint64(have)),
			humanize.IBytes(uint64(need))), false)
		l.short = true
	}
	if enough {
		w.tell(nil, false)
	}
	return protocol.Answer{View: l.rules, Full: !enough}, nil
}

// claimed logs the outcome of a claim.
func (l *looking) claimed(a protocol.Action, ended bool, err error) {
	w := l.w
	switch {
	case err != nil:
	case ended:
		w.Log.Info("the trial had ended before it was claimed", "trial", a.Trial, "claim", a.Claim)
	default:
		w.Log.Info("claimed", "trial", a.Trial, "claim", a.Claim)
		if a.Claim > 0 {
			w.measures.count(w.measures.takeovers)
		}
	}
}

// tidy drops leftover checkpoints: those of ended trials, whose holder vanished after writing the result, or came back
// and saved once more, and in a sweep that is over those of all trials. Every task does so when it leaves, even if it
// was told to go: the last one leaves nothing behind. No other program may empty them.
func (w *Worker) tidy(ctx context.Context) {
	over, err := w.over(ctx)
	list, failed := w.trials.List(ctx)
	if err := cmp.Or(err, failed); err != nil {
		w.Log.Warn("look for checkpoints that were left", "error", err.Error())
		return
	}
	rules := protocol.Leaving{Over: over != nil}
	for _, t := range list.Trials {
		if rules.Drops(t.Trial) &&
			slices.ContainsFunc(t.Claims, func(c sweepstore.ListedClaim) bool { return c.Kept }) {
			w.Log.Info("dropping checkpoints that were left", "trial", t.Number)
			w.dropCheckpoints(ctx, t.Number)
		}
	}
}

// mine reports whether a claim was made by an earlier attempt of this task, which is dead: Batch starts an attempt only
// when the one before is gone. The same task index in another job of the sweep is a different task, which may be alive.
// A claim that cannot be read, for whatever reason, has no known holder, so it is not ours: it costs the takeover time,
// and an attempt that ended because of it would be followed by others that end in the same way.
func (w *Worker) mine(ctx context.Context, trial, claim int) (bool, error) {
	c, err := w.trials.Claim(ctx, trial, claim)
	if err != nil && ctx.Err() == nil {
		w.Log.Warn("a claim cannot be read; its holder is watched like any other", "trial", trial, "error", err.Error())
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("claim of trial %d: %w", trial, err)
	}
	return c.Job == w.Job && c.Task == w.Task && c.Attempt < w.Attempt, nil
}

// create creates claim n of a trial. It returns nil when another task was faster.
func (w *Worker) create(ctx context.Context, trial, n int) (*sweep.Claim, error) {
	c := sweep.Claim{Format: sweep.FormatVersion, Sweep: w.Sweep, Trial: trial, Claim: n, Job: w.Job, Task: w.Task,
		Attempt: w.Attempt, Host: w.Host, Nonce: w.Nonce, At: time.Now().UTC()}
	created, err := w.trials.CreateClaim(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("claim trial %d: %w", trial, err)
	}
	if !created {
		return nil, nil
	}
	return &c, nil
}

// giveUp ends a trial on which too many tasks have died.
func (w *Worker) giveUp(ctx context.Context, trial, claim, dead int) error {
	now := time.Now().UTC()
	w.Log.Warn("trial given up", "trial", trial, "deaths", dead)
	params := w.plan.Trials[trial].Params
	if d, err := w.trials.Decision(ctx, w.plan.Decider(trial)); w.plan.Trials[trial].Open && err == nil && d != nil {
		params = d.Params
	}
	return w.finish(ctx, ending{why: protocol.GivenUp, r: &sweep.Result{Format: sweep.FormatVersion, Sweep: w.Sweep,
		Trial: trial, Claim: claim, Task: w.Task,
		Attempt: w.Attempt, Params: params, Metrics: map[string]float64{}, Status: sweep.StatusFailed, Started: now,
		Ended: now,
		Reason: fmt.Sprintf("%d tasks died while training it without making progress; it may need more memory than "+
			"the machine has", dead)}})
}

// release gives a claim back, so that no task has to wait until its holder counts as dead.
func (w *Worker) release(ctx context.Context, c *sweep.Claim) {
	if ctx.Err() != nil {
		w.measures.count(w.measures.interruptions)
	}

	ctx, cancel := context.WithTimeout(w.after.release, releasePatience)
	defer cancel()
	if err := w.trials.Release(ctx, c.Trial, c.Claim); err != nil {
		w.Log.Warn("release the claim", "trial", c.Trial, "error", err.Error())
	}
}

// releasePatience limits the release of a claim when the process is not stopping. A holder that fails to release counts
// as dead sooner or later.
const releasePatience = 10 * time.Second
