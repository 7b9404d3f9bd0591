package protocol

// Pulse is one heartbeat of a claim's holder, followed by a check whether it should continue training: the sweep may be
// over, another task may have taken the trial, or an earlier holder that was taken for dead may have ended it.
type Pulse struct {
	Trial, Claim int
	doing        Op
}

// Begin starts the machine.
func (p Pulse) Begin() (Pulse, Action) { return p.about(Beat, p.Claim) }

// Next takes the answer to the last action. One that failed is repeated with the next heartbeat and does not keep the
// holder from what follows: a holder whose heartbeats get lost is the one that another task takes for dead. Without an
// answer it trains on.
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

// Finish is the end of a training, however it came: files, result, message, and finally the cleanup, each only after
// what it depends on.
type Finish struct {
	Trial, Claim int
	// Late says that it ends because the rest of the time is kept for the final training, which begins once all others
	// have ended: those that no task has begun, or that are paused, end with it. A task that begins one meanwhile finds
	// its result.
	Late  bool
	doing Op
	why   Why
}

// EndsToo reports whether a late end is also that of another trial.
func (f Finish) EndsToo(t Trial) bool { return f.Late && (t.Made == 0 || t.Paused) && !t.Ended }

// Begin starts the machine. trained says that there is a model. why says why training ended early: a trial that was
// taken over or ended by another task is left to that task, a task told to stop releases its claim, and one whose trial
// is paused marks it before that. Giving up a trial goes the same way, by a task that does not hold it.
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

// Next takes the answer to the last action.
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

	case MarkPaused: // without the mark, the next holder finds that the trial has to pause
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
