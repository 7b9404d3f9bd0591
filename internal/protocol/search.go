package protocol

import (
	"math"
	"slices"
	"time"
)

// Task holds the parameters of the rules for one task of the sweep.
type Task struct {
	Attempt   int           // number of this attempt of the task, from 0
	Start     int           // the first trial to try; spread over the tasks, so that two rarely want the same
	Heartbeat time.Duration // interval of a holder's heartbeats
	Takeover  time.Duration // silence after which a holder counts as dead
	MaxDeaths int           // deaths after which a trial is given up

	// Stages gives each trial's stage: a trial may be claimed once all trials of lower stages have ended. nil means one
	// stage.
	Stages []int
	// Together says that the trials at a rung wait for each other, and then several go on at once.
	Together bool
	// Alone says that the sweep has one task: a trial that was begun ends, or is paused, before another is begun, since
	// what that trains depends on it.
	Alone bool
	// Team is how many tasks may train the trial of the last stage together; 0 and 1 for its holder alone.
	Team int
}

// Search is the state of a task that looks for a trial: first one left by an earlier attempt of the task, then a free
// one, then one whose holder is dead.
type Search struct {
	task  Task
	doing Op
	idle  time.Time // since when the task has only been watching
	seen  []sighting
	list  View
	pass  pass
	index int // of the trial, relative to Task.Start

	subject int // the paused trial about which a verdict is written
}

// pass is one of the passes over a listing.
type pass uint8

const (
	leftBehind pass = iota // trials left by an earlier attempt of this task
	resumed                // trials with a verdict that no task holds
	free                   // other trials that no task holds
	silent                 // trials whose holder is dead
	passes
)

// sighting identifies the last sign of life of a claim, and since when this task has seen no newer one. Only this
// task's clock is used, so the machines' clocks need not agree.
type sighting struct {
	known    bool
	claim    int
	excused  int // claims of the trial that do not count as deaths
	beat     int64
	released bool
	since    time.Time
}

func sightingOf(t Trial) sighting {
	return sighting{known: true, claim: t.Last.Number, excused: t.Made - t.Deaths, beat: t.Last.Beat,
		released: t.Last.Released}
}

// Begin starts a search.
func (t Task) Begin() (Search, Action) {
	return Search{task: t, doing: LookForEnd}, Action{Do: LookForEnd}
}

// Next takes the answer to the last action and says the next one. An answer that failed ends the attempt; a trial that
// another has taken is passed over, and the search looks on from the one behind it.
func (s Search) Next(a Answer) (Search, Action) {
	if a.Failed {
		return s.endAttempt()
	}

	switch s.doing {
	case LookForEnd:
		if a.Yes {
			return s.stop(Over)
		}
		return s.do(List)

	case List:
		return s.startPasses(a)

	case AskVerdict:
		if !a.Yes {
			return s.look()
		}
		s.subject = a.Trial
		return s.about(CreateVerdict, a.Trial, 0)

	case CreateVerdict: // whichever task wrote it, the trial may be claimed; its holder reads what it says
		return s.markDecided().look()

	case ReadClaim:
		if a.Yes {
			return s.take()
		}

	case ReadBeat:
		if a.Beat == s.seen[s.number()].beat {
			return s.take()
		}

	case CreateClaim:
		if a.Yes { // the trial may have ended after it was listed
			return s.about(LookForResult, s.number(), s.claim())
		}

	case LookForResult:
		if !a.Yes {
			return s.end(Train, s.number(), s.claim())
		}

	case Release:
		return s.stop(Broken)

	case Help:
		if a.Yes { // it is not idle
			s.idle = s.list.Ended
		}
		return s.do(LookForEnd)

	case Wait:
		return s.do(LookForEnd)
	}

	s.index++
	return s.look()
}

// endAttempt ends the attempt. A claim created just before is released.
func (s Search) endAttempt() (Search, Action) {
	if s.doing != LookForResult {
		return s.stop(Broken)
	}
	return s.about(Release, s.number(), s.claim())
}

// startPasses starts the passes over a new listing. A task that works alone goes on with the trial that is begun; of
// paused trials it is asked first whether one may go on.
func (s Search) startPasses(a Answer) (Search, Action) {
	s.list, s.pass, s.index = a.View, 0, 0
	if s.idle.IsZero() {
		s.idle = s.list.Ended
	}
	if a.Full { // waiting for memory says nothing about the other holders
		s.idle = s.list.Ended
		return s.rest(false)
	}
	if n := slices.IndexFunc(s.list.Trials, Trial.begun); s.task.Alone && n >= 0 {
		if s.index = (n - s.task.Start + len(s.list.Trials)) % len(s.list.Trials); s.list.Trials[n].Free() {
			return s.take()
		}
		s.index = 0
		return s.look()
	}
	if slices.ContainsFunc(s.list.Trials, func(of Trial) bool { return of.Paused && !of.Ended }) {
		s.doing = AskVerdict
		return s, Action{Do: AskVerdict, Last: s.isLastOfStage()}
	}
	return s.look()
}

// isLastOfStage reports whether no trial of this stage will come to a rung any more, unless a paused one is promoted.
func (s Search) isLastOfStage() bool {
	stage := s.stage()
	for n, of := range s.list.Trials {
		if !of.Ended && !of.Paused && (s.task.Stages == nil || s.task.Stages[n] <= stage) {
			return false
		}
	}
	return true
}

// markDecided marks the search's subject as one with a verdict.
func (s Search) markDecided() Search {
	s.list.Trials = slices.Clone(s.list.Trials)
	of := &s.list.Trials[s.subject]
	of.Paused, of.Resumed = false, true
	return s
}

// look continues through the listing to the next action: in the first pass trials that an attempt of this task may have
// left behind, then those that may go on, free ones, and last those whose holders may be dead. If none is left, it
// rests.
func (s Search) look() (Search, Action) {
	t, stage := s.task, s.stage()
	wait := t.Alone && slices.ContainsFunc(s.list.Trials, Trial.begun) // for its end, or its holder's
	for ; s.pass < passes; s.pass++ {
		for ; s.index < len(s.list.Trials); s.index++ {
			number := s.number()
			trial := s.list.Trials[number]

			switch {
			case trial.Ended || trial.Paused || t.Stages != nil && t.Stages[number] > stage:

			case s.pass == leftBehind && t.Attempt > 0 && trial.Made > 0:
				return s.about(ReadClaim, number, trial.Last.Number)

			case s.pass == resumed && trial.Resumed && trial.Free() && !wait, s.pass == free && trial.Free() && !wait:
				return s.take()

			case s.pass == silent && trial.Made > 0:
				var dead bool
				if s, dead = s.watch(number); !dead {
					continue
				}
				return s.about(ReadBeat, number, trial.Last.Number)
			}
		}
		s.index = 0
	}
	return s.rest(true)
}

// stage returns the stage that may be claimed: the lowest with a trial that has not ended.
func (s Search) stage() int {
	lowest := math.MaxInt
	for n, of := range s.task.Stages {
		if !s.list.Trials[n].Ended {
			lowest = min(lowest, of)
		}
	}
	return lowest
}

// watch reports whether a trial's holder has been silent for the takeover time. A listing takes time, possibly as much
// as that: a sign in one listing may date from its very end, and a sign missing from a later one may have come right
// after its beginning. So the holder was certainly silent only from the end of the one to the beginning of the other.
func (s Search) watch(number int) (Search, bool) {
	if s.seen == nil {
		s.seen = make([]sighting, len(s.list.Trials))
	}
	now, seen := sightingOf(s.list.Trials[number]), s.seen[number]

	if now.since = seen.since; now != seen {
		now.since = s.list.Ended
		s.seen = slices.Clone(s.seen)
		s.seen[number] = now
	}

	return s, s.list.Began.Sub(now.since) >= s.task.Takeover
}

// take claims the current trial, or gives it up if too many tasks have died on it.
func (s Search) take() (Search, Action) {
	number := s.number()
	trial := s.list.Trials[number]
	if trial.Deaths >= s.task.MaxDeaths {
		return s.about(GiveUp, number, trial.Last.Number)
	}
	return s.about(CreateClaim, number, trial.Next())
}

// rest decides what to do when there is nothing to claim. A holder that still trains has been alive for as long as it
// takes to be declared dead. If it is killed later, Batch restarts it; waiting for that would only keep a machine busy.
// Trials of later stages are worth waiting for if they have work for more tasks than hold one, each of which will take
// some. The one that several tasks train together needs the others while its holder has it. Worth waiting for are also
// paused trials that wait for each other; otherwise a paused trial is promoted when another comes to its rung and is
// paused, and then that one's task is free to take it.
func (s Search) rest(room bool) (Search, Action) {
	t, stage := s.task, s.stage()
	ended, held, later, paused, last := 0, 0, 0, 0, 0
	for n, trial := range s.list.Trials {
		switch {
		case trial.Ended:
			ended++
		case trial.Paused:
			paused++
		case t.Stages != nil && t.Stages[n] > stage:
			later++
		default:
			held++
			last = n
		}
	}

	switch {
	case ended == len(s.list.Trials):
		return s.stop(AllEnded)
	case t.Team > 1 && later*t.Team > held: // it has the work of that trial before it
		s.idle = s.list.Ended
	case later > held, t.Together && held > 0 && paused > held, t.Alone && held > 1:
	case s.list.Began.Sub(s.idle) >= t.Takeover+t.Heartbeat:
		return s.stop(LivingHands)
	case room && t.Team > 1 && later == 0 && held == 1 && !s.list.Trials[last].Free():
		return s.about(Help, last, s.list.Trials[last].Last.Number)
	}
	return s.do(Wait)
}

// number is the number of the current trial.
func (s Search) number() int { return (s.task.Start + s.index) % len(s.list.Trials) }

// claim is the number of a new claim on the current trial.
func (s Search) claim() int { return s.list.Trials[s.number()].Next() }

func (s Search) do(op Op) (Search, Action) {
	s.doing = op
	return s, Action{Do: op}
}

func (s Search) about(op Op, trial, claim int) (Search, Action) {
	s.doing = op
	return s, Action{Do: op, Trial: trial, Claim: claim}
}

// end is a final action: the search's state is no longer needed.
func (s Search) end(op Op, trial, claim int) (Search, Action) {
	return Search{doing: op}, Action{Do: op, Trial: trial, Claim: claim}
}

func (s Search) stop(why Why) (Search, Action) {
	return Search{doing: Stop}, Action{Do: Stop, Why: why}
}
