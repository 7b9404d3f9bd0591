package protocol

// Pulse is one heartbeat of a claim's holder, followed by checks whether it is to continue training. It is not if the
// sweep is over, if another task has taken the trial over, or if an earlier holder that was taken for dead has ended
// it.
type Pulse struct {
	Trial, Claim int
	doing        Op
}

// Begin starts the machine.
func (p Pulse) Begin() (Pulse, Action) { return p.about(Beat, p.Claim) }

// Next takes the answer to the last action. If one failed, the next action follows all the same, and the failed one is
// repeated with the next heartbeat: a holder whose heartbeats get lost is just the one that another task takes for
// dead, and so has to check. Where no check says otherwise, it trains on.
func (p Pulse) Next(a Answer) (Pulse, Action) {
	if a.Failed {
		a = Answer{}
	}

	switch p.doing {
	case Beat:
		return p.about(LookForEnd, p.Claim)

	case LookForEnd:
		if a.Yes {
			return p.end(Abort, Over)
		}
		return p.about(LookForClaim, p.Claim+1)

	case LookForClaim:
		if a.Yes {
			return p.end(Abort, Superseded)
		}
		return p.about(LookForResult, p.Claim)

	default: // LookForResult
		if a.Yes {
			return p.end(Abort, EndedElsewhere)
		}
		return p.end(GoOn, NoReason)
	}
}

func (p Pulse) about(op Op, claim int) (Pulse, Action) {
	p.doing = op
	return p, Action{Do: op, Trial: p.Trial, Claim: claim}
}

func (p Pulse) end(op Op, why Why) (Pulse, Action) {
	p.doing = op
	return p, Action{Do: op, Trial: p.Trial, Claim: p.Claim, Why: why}
}

// Leaving is what a task that leaves knows of its sweep.
type Leaving struct{ Over bool } // it was cancelled, or its ending was written

// Drops reports whether the checkpoints of a trial are of no use any more: the trial has ended, or will not be trained
// on. Tasks alone may empty them, so one that leaves does so for all trials, whoever wrote them.
func (l Leaving) Drops(t Trial) bool { return t.Ended || l.Over }

// Finish is the end of a training, for whatever reason: it uploads the files, writes the result, tells the aggregator
// and drops the checkpoints, each only after what it depends on. Or it gives the trial back.
type Finish struct {
	Trial, Claim int
	// Late says that the trial ends because the rest of the time is kept for the final training. That begins once all
	// other trials have ended, so the trials that no task has begun, or that are paused, are ended together with this
	// one. A task that claims one of them meanwhile finds its result and does not train it.
	Late  bool
	doing Op
	why   Why
}

// EndsToo reports whether another trial is to be ended together with this one.
func (f Finish) EndsToo(t Trial) bool { return f.Late && (t.Made == 0 || t.Paused) && !t.Ended }

// Begin starts the machine. trained says that there is a model to upload. why says why training ended early, or is
// NoReason. A trial that another task has taken over or ended is left to that task. A task that is told to stop
// releases its claim. A task whose trial has to wait marks it as paused, and then releases its claim. In any other case
// a result is written, also for a trial that was given up, which no task holds.
func (f Finish) Begin(trained bool, why Why) (Finish, Action) {
	f.why = why
	switch {
	case why == Paused:
		return f.about(MarkPaused)
	case why == ToldToGo || why == Broken:
		return f.about(Release)
	case why == Superseded || why == EndedElsewhere:
		return f.about(SearchAgain)
	case trained:
		return f.about(Upload)
	}
	return f.about(CreateResult) // which ends the trial
}

// Next takes the answer to the last action. If the files or the result cannot be written, the claim is released, so
// that another task trains the trial. What follows the result is done even if a part of it fails, since the result
// counts.
func (f Finish) Next(a Answer) (Finish, Action) {
	if a.Failed && (f.doing == Upload || f.doing == CreateResult) {
		if f.why == GivenUp {
			return f.stop()
		}
		return f.about(Release)
	}

	switch f.doing {
	case Upload:
		return f.about(CreateResult)

	case CreateResult:
		switch {
		case a.Yes && f.Late:
			return f.about(EndOthers)
		case a.Yes:
			return f.about(Publish)
		}
		return f.about(DropCheckpoints)

	case EndOthers:
		return f.about(Publish)

	case Publish:
		return f.about(DropCheckpoints)

	case DropCheckpoints:
		return f.about(SearchAgain)

	case MarkPaused: // without the mark the trial may be claimed, and its next holder finds at the rung that it waits
		if a.Failed {
			f.why = Broken
		}
		return f.about(Release)

	default: // Release
		if f.why == Paused {
			return f.about(SearchAgain)
		}
		return f.stop()
	}
}

func (f Finish) stop() (Finish, Action) {
	f.doing = Stop
	return f, Action{Do: Stop, Trial: f.Trial, Claim: f.Claim, Why: Broken}
}

func (f Finish) about(op Op) (Finish, Action) {
	f.doing = op
	return f, Action{Do: op, Trial: f.Trial, Claim: f.Claim}
}
