package protocol

import (
	"math"
	"slices"
	"time"
)

// Task is a task of the sweep as the rules see it.
type Task struct {
	Attempt   int           // of this task, from 0
	Start     int           // the trial at which it begins its search, so that tasks seldom want the same one
	Heartbeat time.Duration // from one sign of life of a holder to the next
	Takeover  time.Duration // how long a holder is silent until it counts as dead
	MaxDeaths int           // over a trial, before it is given up

	// Stages are those of the trials: one is taken when all of lower stages have ended. nil is one stage.
	Stages []int

	flaw flaw
}

// Search is a task that looks for a trial: one that an earlier attempt of it has left, one that no task has, or one whose holder is
// dead, in this order.
type Search struct {
	doing Op
	idle  time.Time // since when the task has had nothing to do but watch
	seen  []sighting
	list  Listing
	pass  pass
	index int // of the trial, counted from the task's first
}

// pass is a way through the listing.
type pass uint8

const (
	leftBehind pass = iota // an earlier attempt of this task left it
	free                   // no task holds it
	silent                 // its holder is dead
	passes
)

// sighting is what tells a claim that is kept alive from one that is not, and since when this task has seen no other. Only this task's
// clock matters, so the machines' clocks need not agree.
type sighting struct {
	known    bool
	claim    int
	excused  int // claims of the trial that say nothing against it
	beat     int64
	released bool
	since    time.Time
}

func sightingOf(t Trial) sighting {
	return sighting{known: true, claim: t.Last.Number, excused: t.Claims - t.Deaths, beat: t.Last.Beat, released: t.Last.Released}
}

// Begin starts a search.
func (t Task) Begin() (Search, Action) { return Search{doing: LookForEnd}, Action{Do: LookForEnd} }

// Next goes on after an answer.
func (t Task) Next(s Search, a Answer) (Search, Action) {
	if a.Failed {
		return t.failed(s)
	}

	switch s.doing {
	case LookForEnd:
		if a.Yes {
			return s.stop(Over)
		}
		return s.do(List)

	case List:
		return t.listed(s, a)

	case ReadClaim:
		if a.Yes {
			return t.take(s)
		}

	case ReadBeat:
		if a.Beat == s.seen[t.number(s)].beat {
			return t.take(s)
		}

	case CreateClaim:
		if a.Yes && t.flaw == listingIsTruth {
			return s.end(Train, t.number(s), s.claim(t))
		}
		if a.Yes { // the trial may have ended since it was listed: its holder may have been about to
			return s.about(LookForResult, t.number(s), s.claim(t))
		}

	case LookForResult:
		if !a.Yes {
			return s.end(Train, t.number(s), s.claim(t))
		}

	case Release:
		return s.stop(Broken)

	case Wait:
		return s.do(LookForEnd)
	}

	s.index++
	return t.look(s)
}

// failed ends the attempt. A claim that was made meanwhile is given back.
func (t Task) failed(s Search) (Search, Action) {
	if s.doing != LookForResult {
		return s.stop(Broken)
	}
	claim := s.claim(t)
	if t.flaw == releaseOfAnother {
		claim++
	}
	return s.about(Release, t.number(s), claim)
}

// listed begins to go through a listing.
func (t Task) listed(s Search, a Answer) (Search, Action) {
	s.list, s.pass, s.index = a.Listing, 0, 0
	if s.idle.IsZero() {
		s.idle = s.list.Ended
	}
	if a.Full { // that the task has nothing to do is no sign that others hold the trials
		s.idle = s.list.Ended
		return t.rest(s)
	}
	return t.look(s)
}

// look goes on through the listing until there is something to do about a trial.
func (t Task) look(s Search) (Search, Action) {
	stage := t.stage(s.list)
	for ; s.pass < passes; s.pass++ {
		for ; s.index < len(s.list.Trials); s.index++ {
			number := t.number(s)
			trial := s.list.Trials[number]

			switch {
			case trial.Ended || t.Stages != nil && t.Stages[number] > stage:

			case s.pass == leftBehind && t.Attempt > 0 && trial.Claims > 0:
				return s.about(ReadClaim, number, trial.Last.Number)

			case s.pass == free && trial.Free():
				return t.take(s)

			case s.pass == silent && trial.Claims > 0:
				var dead bool
				if s, dead = t.watch(s, number); !dead {
					continue
				}
				if t.flaw == takeoverUnread {
					return t.take(s)
				}
				return s.about(ReadBeat, number, trial.Last.Number)
			}
		}
		s.index = 0
	}
	return t.rest(s)
}

// stage is the one whose trials may be taken: the lowest with one that has not ended.
func (t Task) stage(l Listing) int {
	lowest := math.MaxInt
	for n, of := range t.Stages {
		if !l.Trials[n].Ended && t.flaw != stageUnread {
			lowest = min(lowest, of)
		}
	}
	return lowest
}

// watch says whether a trial's holder has been silent for the takeover time. Listing takes time, too, at worst as long as that: a sign
// in one listing may have been given as late as its end, and one that is missing from another may have been given as early as its
// beginning. So from the one to the other is how long the holder was silent for certain.
func (t Task) watch(s Search, number int) (Search, bool) {
	if s.seen == nil {
		s.seen = make([]sighting, len(s.list.Trials))
	}
	now, seen := sightingOf(s.list.Trials[number]), s.seen[number]

	since := s.list.Ended
	if t.flaw == silenceFromBegan {
		since = s.list.Began
	}
	if now.since = seen.since; now != seen {
		now.since = since
		s.seen = slices.Clone(s.seen)
		s.seen[number] = now
	}

	if t.flaw == leaseByOwnClock {
		return s, s.list.Ended.Sub(s.list.Trials[number].Last.beaten) >= t.Takeover
	}
	return s, s.list.Began.Sub(now.since) >= t.Takeover
}

// take claims the trial that the search is at, or gives it up where too many tasks have died over it.
func (t Task) take(s Search) (Search, Action) {
	number := t.number(s)
	trial := s.list.Trials[number]
	if trial.Deaths >= t.MaxDeaths {
		return s.about(GiveUp, number, trial.Last.Number)
	}
	return s.about(CreateClaim, number, trial.Next())
}

// rest is what to do when there is nothing to take. Who still trains has been alive for as long as it takes to be declared dead. Should
// it be killed later, Batch starts it again; waiting for that would only keep a machine. Trials of later stages are worth waiting for where
// there are more of them than holders, who will take one each.
func (t Task) rest(s Search) (Search, Action) {
	stage, ended, held, later := t.stage(s.list), 0, 0, 0
	for n, trial := range s.list.Trials {
		switch {
		case trial.Ended:
			ended++
		case t.Stages != nil && t.Stages[n] > stage:
			later++
		default:
			held++
		}
	}

	switch {
	case ended == len(s.list.Trials):
		return s.stop(AllEnded)
	case later > held:
		return s.do(Wait)
	case s.list.Began.Sub(s.idle) >= t.Takeover+t.Heartbeat:
		return s.stop(LivingHands)
	}
	return s.do(Wait)
}

// number is the trial that the search is at.
func (t Task) number(s Search) int { return (t.Start + s.index) % len(s.list.Trials) }

// claim is the number of the claim that takes the trial that the search is at.
func (s Search) claim(t Task) int { return s.list.Trials[t.number(s)].Next() }

func (s Search) do(op Op) (Search, Action) {
	s.doing = op
	return s, Action{Do: op}
}

func (s Search) about(op Op, trial, claim int) (Search, Action) {
	s.doing = op
	return s, Action{Do: op, Trial: trial, Claim: claim}
}

// end is a final action: the search is over, and what it knows no longer matters.
func (s Search) end(op Op, trial, claim int) (Search, Action) {
	return Search{doing: op}, Action{Do: op, Trial: trial, Claim: claim}
}

func (s Search) stop(why Why) (Search, Action) {
	return Search{doing: Stop}, Action{Do: Stop, Why: why}
}
