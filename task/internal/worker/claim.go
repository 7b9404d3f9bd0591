package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/dustin/go-humanize"

	"coppice/internal/protocol"
	"coppice/internal/search"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// next claims a trial: one left by an earlier attempt of this task, a free one, or one whose holder is dead. It waits
// as long as there may be one. It returns nil when nothing is left for this task. Package protocol decides the order of
// the steps.
func (w *Worker) next(ctx context.Context) (*sweep.Claim, error) {
	c := &claiming{Worker: w}
	defer c.leaveTeam()
	s, first := w.rules().Begin()
	do, err := protocol.Run(s, first, func(a protocol.Action) (protocol.Answer, error) { return c.step(ctx, a) })

	if do.Do == protocol.Train {
		return c.claim, nil
	}
	// For any other reason the sweep is over, or the store has failed, which err says.
	switch do.Why {
	case protocol.AllEnded:
		w.Log.Info("every trial has ended")
	case protocol.LivingHands:
		w.Log.Info("the remaining trials have live holders", "remaining", w.known.listing.Open())
	}
	return nil, err
}

// rules returns the protocol's parameters for this task.
func (w *Worker) rules() protocol.Task {
	p := w.plan
	trials, tasks := len(p.Own()), max(p.Sizing.Tasks, 1) // a plan without a sizing, as in tests, has 0 tasks
	t := protocol.Task{Attempt: w.Attempt, Heartbeat: w.heartbeat(), Takeover: time.Duration(p.Takeover),
		MaxDeaths: sweep.MaxClaims, Stages: p.Stages(), Team: p.Spec.FinalMachines(),
		// Halving compares all trials of a rung at once; other rules judge each trial when it comes there.
		Together: w.halving(),
		// Where results decide what comes next, one task must come to the same model each time, even if it was killed:
		// its next attempt finishes what was begun before it begins another trial.
		Alone: tasks == 1 && (p.Open() || p.Pauses())}

	// The remainders below are for fallback jobs, which may have more tasks than the plan's sizing says.
	if p.Open() {
		// The first trials of an adaptive search inform all later ones, so they start first.
		t.Start = w.Task % trials
	} else {
		// The tasks start spread evenly over the trials.
		t.Start = (w.Task % tasks) * trials / tasks
	}
	return t
}

// claiming carries out the actions of looking for one trial.
type claiming struct {
	*Worker
	view    protocol.View   // the latest listing, as the rules see it
	claim   *sweep.Claim    // the latest created
	verdict sweep.Promotion // the latest found on a paused trial
	short   bool            // waiting for memory has been logged

	assistant *assistant // nil while this task takes part in no other one's training
}

// step carries out one action of the protocol's Search and returns the answer.
func (c *claiming) step(ctx context.Context, action protocol.Action) (protocol.Answer, error) {
	switch action.Do {
	case protocol.LookForEnd:
		over, err := c.whyOver(ctx)
		return protocol.Answer{Yes: over != nil}, err

	case protocol.List:
		return c.list(ctx)

	case protocol.AskVerdict:
		return c.findVerdict(ctx, action.Last)

	case protocol.CreateVerdict:
		return protocol.Answer{}, c.writeVerdict(ctx)

	case protocol.ReadClaim:
		own, err := c.isOwnEarlier(ctx, action.Trial, action.Claim)
		return protocol.Answer{Yes: own}, err

	case protocol.ReadBeat:
		beat, err := c.trials.LastBeat(ctx, action.Trial, action.Claim)
		return protocol.Answer{Beat: int64(beat)}, err

	case protocol.CreateClaim:
		claim, err := c.createClaim(ctx, action.Trial, action.Claim)
		c.claim = claim
		return protocol.Answer{Yes: claim != nil}, err

	case protocol.LookForResult:
		ended, err := c.trials.HasResult(ctx, action.Trial)
		c.logClaim(action, ended, err)
		return protocol.Answer{Yes: ended}, err

	case protocol.GiveUp:
		return protocol.Answer{}, c.giveUp(ctx, action.Trial, action.Claim, c.view.Trials[action.Trial].Deaths)

	case protocol.Release:
		c.release(ctx, c.claim)
		return protocol.Answer{}, nil

	case protocol.Help:
		takesPart := c.help(ctx, action.Trial, action.Claim)
		return protocol.Answer{Yes: takesPart}, pause(ctx, c.heartbeat())

	case protocol.Wait:
		return protocol.Answer{}, pause(ctx, c.heartbeat())
	}
	panic(fmt.Sprintf("a search for a trial asks for %v", action.Do))
}

// list lists the trials and checks whether there is memory for one more: a task waits for memory rather than being
// killed for lack of it. The answer says Full if there is not enough.
func (c *claiming) list(ctx context.Context) (protocol.Answer, error) {
	list, err := c.trials.List(ctx)
	if err != nil {
		return protocol.Answer{}, err
	}
	c.known.listing, c.view = list, list.View()
	c.measures.queue(c.view)

	required := c.plan.Sizing.TrialBytes
	if list.Open() == 1 { // only the refit or the final training is left; in a plan without one, RefitBytes is 0
		required = max(required, c.plan.Sizing.RefitBytes)
	}
	free := c.Available() // negative if it is not known
	// an assistant has its memory already
	if free < 0 || free >= required || c.assistant != nil {
		c.tell(nil, false)
		return protocol.Answer{View: c.view}, nil
	}
	if !c.short {
		c.short = true
		c.Log.Warn("waiting for memory", "need_bytes", required, "available_bytes", free)
		c.tell(fmt.Errorf("it waits for memory: %s are free, and a trial needs %s", humanize.IBytes(uint64(free)),
			humanize.IBytes(uint64(required))), false)
	}
	return protocol.Answer{View: c.view, Full: true}, nil
}

// logClaim logs what came of a claim that was created: the trial is held, or had ended before. It counts takeovers.
func (c *claiming) logClaim(action protocol.Action, ended bool, err error) {
	switch {
	case err != nil: // not known; the error ends the attempt, which logs it
	case ended:
		c.Log.Info("the trial had ended before it was claimed", "trial", action.Trial, "claim", action.Claim)
	default:
		c.Log.Info("claimed", "trial", action.Trial, "claim", action.Claim)
		if action.Claim > 0 {
			c.measures.count(c.measures.takeovers)
		}
	}
}

// isOwnEarlier reports whether a claim was made by an earlier attempt of this task, which is dead, since Batch starts
// an attempt only when the one before is gone. The same task index in another job of the sweep is another task, which
// may be alive.
//
// A claim that cannot be read, for whatever reason, has no known holder, so it is taken for another task's. That costs
// the takeover time. An error would end this attempt, and the next ones in the same way; so there is one only if ctx
// has ended.
func (w *Worker) isOwnEarlier(ctx context.Context, trial, claim int) (bool, error) {
	c, err := w.trials.Claim(ctx, trial, claim)
	switch {
	case err == nil:
		return c.Job == w.Job && c.Task == w.Task && c.Attempt < w.Attempt, nil
	case ctx.Err() != nil:
		return false, fmt.Errorf("claim of trial %d: %w", trial, err)
	}
	w.Log.Warn("a claim cannot be read; its holder is watched like any other", "trial", trial, "error", err.Error())
	return false, nil
}

// createClaim creates claim n of a trial. It returns nil when another task was faster.
func (w *Worker) createClaim(ctx context.Context, trial, n int) (*sweep.Claim, error) {
	c := sweep.Claim{Format: sweep.FormatVersion, Sweep: w.Sweep, Trial: trial, Claim: n, Job: w.Job, Task: w.Task,
		Attempt: w.Attempt, Host: w.Host, Nonce: w.Nonce, At: time.Now().UTC()}
	created, err := w.trials.CreateClaim(ctx, c)
	switch {
	case err != nil:
		return nil, fmt.Errorf("claim trial %d: %w", trial, err)
	case !created:
		return nil, nil
	}
	return &c, nil
}

// giveUp ends a trial on which too many tasks have died.
func (w *Worker) giveUp(ctx context.Context, trial, claim, dead int) error {
	w.Log.Warn("trial given up", "trial", trial, "deaths", dead)
	r := w.unclaimed(ctx, trial, sweep.StatusFailed, fmt.Sprintf("%d tasks died while training it without making "+
		"progress; it may need more memory than the machine has", dead))
	r.Claim = claim
	return w.finish(ctx, ending{why: protocol.GivenUp, result: &r})
}

// findVerdict looks for a paused trial on which a verdict can be given, and sets c.verdict to it. The answer has the
// trial, or says no. last says that every trial has ended or is paused, so that no other will come to a rung.
func (c *claiming) findVerdict(ctx context.Context, last bool) (protocol.Answer, error) {
	ladder, unread, err := c.readLadder(ctx, last)
	if err != nil {
		return protocol.Answer{}, err
	}
	// A trial whose own record is damaged passes the rung: its score cannot be compared. pickFor gives tasks that look
	// at the same time different trials.
	if len(unread) > 0 {
		c.verdict = c.newVerdict(pickFor(c.Task, unread), true, "its score at the rung cannot be read")
		c.verdict.Unread = true
		return protocol.Answer{Yes: true, Trial: c.verdict.Trial}, nil
	}

	// When nothing is left to train, trials that have failed count no more at their rungs: the next best goes on in
	// their place, so that a sweep whose best trials fail has a model nevertheless. With halving this would depend on
	// how soon a trial fails.
	lost := map[int]bool{}
	if last && !c.halving() {
		// This adds the results that are not known yet to c.known.results.
		if err := c.trials.Results(ctx, c.known.listing, c.known.results, nil); err != nil {
			return protocol.Answer{}, err
		}
		for trial, r := range c.known.results {
			lost[trial] = r.Status != sweep.StatusDone && r.Status != sweep.StatusStopped
		}
	}
	for _, r := range c.known.rungs {
		if !lost[r.Trial] {
			ladder.Reached = append(ladder.Reached, r)
		}
	}

	found := search.Resumable(c.plan, ladder)
	if len(found) == 0 {
		return protocol.Answer{}, nil
	}
	v := pickFor(c.Task, found)
	c.verdict = c.newVerdict(v.Reached, v.Action == search.GoOn, v.Reason)
	c.verdict.Seen, c.verdict.Last = v.Seen(), v.Last
	return protocol.Answer{Yes: true, Trial: c.verdict.Trial}, nil
}

// pickFor picks one of the verdicts that are due by the task's number, so that tasks that look at the same time write
// different ones, and then claim different trials.
func pickFor[T any](task int, due []T) T { return due[task%len(due)] }

// halving reports whether trials pause at rungs, and all that have come to one are compared at once.
func (w *Worker) halving() bool {
	stop := w.plan.Spec.Search.Stop
	return stop != nil && stop.Rule == sweep.StopHalving
}

// readLadder returns the paused trials with their scores, as far as a verdict on them may be due, and adds the scores
// of all trials at their rungs to c.known.rungs. With halving, rungs to which trials may still come are left out;
// l.Coming has how many. unread are the paused trials whose own record is damaged. l.Reached is left to the caller.
func (c *claiming) readLadder(ctx context.Context, last bool) (l search.Ladder, unread []sweep.Reached, err error) {
	l = search.Ladder{Coming: map[int]int{}, Last: last}
	known := map[int]bool{} // the rungs that have been looked at
	for _, t := range c.known.listing.Trials {
		if !t.Paused {
			continue
		}

		// Read each rung once, when the first trial that is paused there comes.
		paused := sweep.Reached{Step: t.PausedAt(), Trial: t.Number}
		if !known[paused.Step] {
			known[paused.Step] = true
			if c.halving() {
				l.Coming[paused.Step] = c.stillToCome(paused.Step)
			}
			if l.Coming[paused.Step] == 0 { // always without halving; -1 below leaves out no trial
				err := c.trials.GatherRungs(ctx, c.known.listing, -1, paused.Step, paused.Step, c.known.rungs)
				if err != nil {
					return l, nil, err
				}
			}
		}

		// With halving, no verdict is due as long as trials may come.
		if l.Coming[paused.Step] > 0 {
			continue
		}
		if r, ok := c.known.rungs[sweepstore.RungKey{Step: paused.Step, Trial: paused.Trial}]; ok {
			l.Paused = append(l.Paused, r)
		} else {
			unread = append(unread, paused)
		}
	}
	return l, unread, nil
}

// stillToCome counts the trials that may still come to a rung: those that have not ended, are not paused there or
// later, and have no record there or later. A refit has no rungs.
func (c *claiming) stillToCome(step int) (n int) {
	for _, t := range c.known.listing.Trials {
		settled := t.Ended || c.plan.Trials[t.Number].Refit || t.PausedAt() >= step
		for at := range t.Rungs {
			settled = settled || at >= step
		}
		if !settled {
			n++
		}
	}
	return n
}

// newVerdict returns what becomes of a paused trial.
func (w *Worker) newVerdict(of sweep.Reached, promoted bool, reason string) sweep.Promotion {
	return sweep.Promotion{Format: sweep.FormatVersion, Sweep: w.Sweep, Trial: of.Trial, Step: of.Step,
		Score: of.Score, Promoted: promoted, Reason: reason,
		Seen: []sweep.Reached{}, Task: w.Task, Attempt: w.Attempt, At: time.Now().UTC()}
}

// writeVerdict writes the verdict that was found last. If another task was faster, its verdict is the one that the
// holder reads.
func (c *claiming) writeVerdict(ctx context.Context) error {
	created, err := c.trials.CreatePromotion(ctx, c.verdict)
	if created {
		c.Log.Info("what becomes of a paused trial", "trial", c.verdict.Trial, "trees", c.verdict.Step, "promoted",
			c.verdict.Promoted, "reason", c.verdict.Reason)
	}
	return err
}
