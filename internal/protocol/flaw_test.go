package protocol

import (
	"slices"
	"time"
)

// flaw is a bug that a test plants in a machine to see that the explorer finds it. The zero value is none.
type flaw uint8

const (
	noWriteID        flaw = 1 + iota // whether an object is one's own is judged by the store's answer to the write
	leaseByOwnClock                  // a holder is dead when its heartbeat's time is old by the watcher's clock
	silenceFromBegan                 // silence is counted from the beginning of the listing that showed the last sign
	takeoverUnread                   // the heartbeat is not read once more before the claim
	listingIsTruth                   // a trial without a result in the listing is trained without a second look
	resultUnfenced                   // a result overwrites an existing one
	ackBeforeWrite                   // the trial's end is published before its result is written
	deleteBeforeCopy                 // checkpoints are dropped before the result is written
	retryIsAttempt                   // every claim counts as a death
	resumedZombie                    // a holder does not check whether another task has taken its trial
	beatOrNothing                    // a holder whose heartbeat failed checks nothing until the next one
	doubleFold                       // a result that is read twice counts twice
	endingUnread                     // an aggregator that loses the creation of the ending uses its own
	conclusionFirst                  // the conclusion is written before the version
	registerTwice                    // each attempt registers a new version
	staleChampion                    // the champion is replaced whichever version it is by now
	staleComparison                  // after a conflict, the champion is replaced without another comparison
	decisionUnread                   // a task that loses the creation of a decision trains its own proposal
	decideAnew                       // a task that takes a trial over decides again
	takenUnasked                     // a configuration is decided on without being reserved
	trainedUnwritten                 // a trial is trained before its decision is written
	stageUnread                      // a trial is claimed before those of earlier stages have ended
	pauseUnread                      // a holder trains on without looking whether the trial was paused
	rungUnread                       // a holder that loses the creation of a rung follows its own comparison
	verdictOfAnother                 // a verdict on an earlier pause is taken for one on this
	closedUnwritten                  // a paused trial is ended without a verdict
	lastUnread                       // a trial that is held counts as one that comes to no rung any more
	endedOnly                        // the checkpoints of trials without a result stay in a sweep that is over
	jobFirst                         // the job of a cancelled sweep is cancelled before its tasks have left
	helpIsIdle                       // a task leaves a living holder that it trains with, as one that it only watches
	membersUnread                    // an ensemble's trials are those that one can read, not those of the version
	begunEnds                        // a late trial takes those with it that other tasks have begun
	releaseOfAnother                 // a task that fails releases the trial's last claim instead of its own
)

// Actions that only a planted bug asks for.
const (
	overwriteResult Op = 200 + iota
	registerAnew
	promoteAnyway
)

// The machines with the bug: each method changes the answer before the real machine takes it, or what that asks for
// after it.

func (f flaw) settled(c Creation, refused bool) (own, known bool) {
	if f == noWriteID && !c.Confirmed {
		return false, refused
	}
	return c.Settled()
}

func (f flaw) note(t *Trial, c Claim) {
	if t.Note(c); f == retryIsAttempt {
		t.Deaths = t.Made
	}
}

func (f flaw) last(s Search) bool {
	if f != lastUnread {
		return s.isLastOfStage()
	}
	return !slices.ContainsFunc(s.list.Trials, func(of Trial) bool {
		return !of.Ended && !of.Paused && (of.Made == 0 || of.Last.Released)
	})
}

// search is Search.Next. beaten are the times of the trials' last heartbeats by the store's clock, for a task that
// believes them.
func (f flaw) search(s Search, a Answer, beaten []time.Time) (Search, Action) {
	switch f {
	case stageUnread:
		s.task.Stages = nil
	case helpIsIdle:
		a.Yes = a.Yes && s.doing != Help
	case leaseByOwnClock:
		list := s.list
		if s.doing == List {
			list = a.View
		}
		s.seen = make([]sighting, len(list.Trials))
		for n, of := range list.Trials {
			s.seen[n] = sightingOf(of)
			if s.seen[n].since = list.Ended; list.Ended.Sub(beaten[n]) >= s.task.Takeover {
				s.seen[n].since = list.Began.Add(-s.task.Takeover)
			}
		}
	}

	was := s
	s, do := s.Next(a)
	switch {
	case f == silenceFromBegan:
		for n := range s.seen {
			if len(was.seen) == 0 || was.seen[n] != s.seen[n] {
				s.seen[n].since = s.list.Began
			}
		}
	case f == takeoverUnread && do.Do == ReadBeat:
		return s.Next(Answer{Beat: s.seen[do.Trial].beat})
	case f == listingIsTruth && was.doing == CreateClaim && do.Do == LookForResult:
		return s.Next(Answer{})
	case f == closedUnwritten && do.Do == CreateVerdict && s.isLastOfStage():
		return s.Next(Answer{})
	case do.Do == AskVerdict:
		do.Last = f.last(s)
	case f == releaseOfAnother && do.Do == Release:
		do.Claim++
	}
	return s, do
}

func (f flaw) climbBegin(c Climb) (Climb, Action) {
	if f == pauseUnread && c.Rung == 0 {
		return c.about(GoOn)
	}
	return c.Begin()
}

func (f flaw) climb(c Climb, a Answer) (Climb, Action) {
	if f == rungUnread && c.doing == CreateRung {
		a.Yes = true
	}
	was := c.doing
	c, do := c.Next(a)
	if f == closedUnwritten && was == ReadVerdict && do.Do == Pause {
		return c.about(Close)
	}
	return c, do
}

func (f flaw) settleBegin(s Settle) (Settle, Action) {
	if f == decideAnew {
		return s.about(Propose)
	}
	return s.Begin()
}

func (f flaw) settle(s Settle, a Answer) (Settle, Action) {
	if (f == decisionUnread || f == decideAnew) && s.doing == CreateDecision {
		a.Yes = true
	}
	s, do := s.Next(a)
	switch {
	case f == takenUnasked && do.Do == TakeConfiguration:
		return s.about(CreateDecision)
	case f == trainedUnwritten && do.Do == CreateDecision:
		return s.about(Settled)
	}
	return s, do
}

func (f flaw) pulse(p Pulse, a Answer) (Pulse, Action) {
	if f == beatOrNothing && a.Failed {
		return p.end(GoOn, Unknown)
	}
	p, do := p.Next(a)
	if f == resumedZombie && do.Do == LookForClaim {
		return p.end(GoOn, Unknown)
	}
	return p, do
}

func (f flaw) endsToo(of Trial) bool {
	if f == begunEnds {
		of.Made = 0
	}
	return Finish{Late: true}.EndsToo(of)
}

func (f flaw) finishBegin(e Finish, trained bool, why Why) (Finish, Action) {
	e, do := e.Begin(trained, why)
	return f.misplaced(e, do, None)
}

func (f flaw) finish(e Finish, a Answer) (Finish, Action) {
	was := e.doing
	if was == overwriteResult {
		return e.about(Publish)
	}
	e, do := e.Next(a)
	return f.misplaced(e, do, was)
}

// misplaced gives the end of a training another order. was is the action whose answer the machine has just taken.
func (f flaw) misplaced(e Finish, do Action, was Op) (Finish, Action) {
	to := map[flaw]map[[2]Op]Op{
		resultUnfenced: {{None, CreateResult}: overwriteResult, {Upload, CreateResult}: overwriteResult},
		ackBeforeWrite: {{None, CreateResult}: Publish, {Upload, CreateResult}: Publish,
			{Publish, DropCheckpoints}: CreateResult, {CreateResult, Publish}: DropCheckpoints},
		deleteBeforeCopy: {{None, CreateResult}: DropCheckpoints, {Upload, CreateResult}: DropCheckpoints,
			{DropCheckpoints, SearchAgain}: CreateResult, {CreateResult, DropCheckpoints}: SearchAgain,
			{Publish, DropCheckpoints}: SearchAgain},
	}[f][[2]Op{was, do.Do}]
	if to == None {
		return e, do
	}
	return e.about(to)
}

func (f flaw) ender(e Ender, a Answer) (Ender, Action) {
	switch {
	case f == doubleFold && e.doing == ReadResults:
		a.Results += e.ended
	case f == endingUnread && e.doing == CreateEnding:
		a.Yes = true
	case e.doing == registerAnew:
		e.doing = Register
	}
	was := e.doing
	e, do := e.Next(a)
	switch {
	case f == registerTwice && do.Do == Register:
		return e.do(registerAnew)
	case f != conclusionFirst:
	case was == CreateConclusion:
		return e.do(Register)
	case do.Do == Register:
		return e.do(CreateConclusion)
	case do.Do == CreateConclusion:
		return e.do(Concluded)
	}
	return e, do
}

func (f flaw) gate(g Gate, a Answer) (Gate, Action) {
	if g.doing == promoteAnyway {
		g.doing = Promote
	}
	g, do := g.Next(a)
	switch {
	case f == staleComparison && do.Do == Compare && g.lost > 0:
		return g.do(Promote, Unknown)
	case f == staleChampion && do.Do == Promote:
		return g.do(promoteAnyway, Unknown)
	}
	return g, do
}
