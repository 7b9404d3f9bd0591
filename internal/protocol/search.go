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

// Search is the state of a task that looks for a trial to train. It prefers one that an earlier attempt of the task has
// left, then one that no task holds, then one whose holder is dead. Search is a value: its methods return the next
// state, and change nothing that another copy shares.
type Search struct {
	task  Task
	doing Op         // the action whose answer is expected
	idle  time.Time  // since when the task has only been watching; zero before the first listing
	seen  []sighting // by trial; nil before the first pass that needs it
	list  View       // the current listing
	pass  pass       // over the listing
	index int        // of the current trial, relative to Task.Start

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

// sightingOf returns what a listing shows of a trial's last claim, without a time.
func sightingOf(t Trial) sighting {
	return sighting{known: true, claim: t.Last.Number, excused: t.Made - t.Deaths, beat: t.Last.Beat,
		released: t.Last.Released}
}

// Begin starts a search.
func (t Task) Begin() (Search, Action) {
	return Search{task: t, doing: LookForEnd}, Action{Do: LookForEnd}
}

// Next takes the answer to the last action and says the next one. If the answer failed, the task's attempt ends, and
// Batch starts another one. A trial that turns out to be taken or ended is passed over: the search looks on from the
// trial after it.
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
		if a.Yes { // it takes part, and so is not idle: that time counts anew
			s.idle = s.list.Ended
		}
		return s.do(LookForEnd)

	case Wait:
		return s.do(LookForEnd)
	}

	// The answers that are left say that this trial is not to be had in this pass: an earlier attempt of this task does
	// not hold it, its holder lives, another task was faster, or it has ended.
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

// startPasses starts the passes over the new listing in a. If memory is full it only waits. A task that works alone
// goes on with a trial that is begun, if there is one, before anything else. If there are paused trials, it asks first
// whether a verdict on one can be given.
func (s Search) startPasses(a Answer) (Search, Action) {
	s.list, s.pass, s.index = a.View, 0, 0
	if s.idle.IsZero() { // the first listing
		s.idle = s.list.Ended
	}
	if a.Full { // waiting for memory says nothing about the other holders
		s.idle = s.list.Ended
		return s.rest(false)
	}
	if n := slices.IndexFunc(s.list.Trials, Trial.begun); s.task.Alone && n >= 0 {
		if !s.list.Trials[n].Free() {
			return s.look()
		}
		// The index of trial n counts from Start on, around the end of the list.
		s.index = (n - s.task.Start + len(s.list.Trials)) % len(s.list.Trials)
		return s.take()
	}
	if slices.ContainsFunc(s.list.Trials, func(of Trial) bool { return of.Paused && !of.Ended }) {
		s.doing = AskVerdict
		return s, Action{Do: AskVerdict, Last: s.isLastOfStage()}
	}
	return s.look()
}

// isLastOfStage reports whether no trial will come to a rung any more unless a paused one is promoted: all trials of
// the current stage and of earlier ones have ended or are paused.
func (s Search) isLastOfStage() bool {
	stage := s.stage()
	for n, of := range s.list.Trials {
		if !of.Ended && !of.Paused && (s.task.Stages == nil || s.task.Stages[n] <= stage) {
			return false
		}
	}
	return true
}

// markDecided marks the search's subject in the listing as a trial with a verdict, which may be claimed.
func (s Search) markDecided() Search {
	s.list.Trials = slices.Clone(s.list.Trials)
	of := &s.list.Trials[s.subject]
	of.Paused, of.Resumed = false, true
	return s
}

// look continues through the passes over the listing, from the current trial on, to one that calls for an action. The
// passes find trials that an earlier attempt of this task may hold, then trials that may go on after a pause, then
// those that no task holds, and last those whose holders may be dead. If no trial is left, the task rests. Trials that
// have ended, are paused or belong to a later stage are passed over.
func (s Search) look() (Search, Action) {
	// A task that works alone begins no other trial while one is begun, until that ends or its holder is dead.
	t, stage := s.task, s.stage()
	wait := t.Alone && slices.ContainsFunc(s.list.Trials, Trial.begun)
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

// watch compares a trial's last claim with what was seen of it before, and reports whether its holder has been silent
// for the takeover time. A listing takes time, possibly as much as that. A sign of life in one listing may have come at
// its very end, and one that is missing from a later listing may have come right after its beginning. So the holder was
// certainly silent only from the end of the first listing to the beginning of the later one.
func (s Search) watch(number int) (Search, bool) {
	if s.seen == nil {
		s.seen = make([]sighting, len(s.list.Trials))
	}
	now, seen := sightingOf(s.list.Trials[number]), s.seen[number]
	now.since = seen.since

	// Anything new about the claim is a sign of life: the silence starts over.
	if now != seen {
		now.since = s.list.Ended
		s.seen = slices.Clone(s.seen)
		s.seen[number] = now
	}

	return s, s.list.Began.Sub(now.since) >= s.task.Takeover
}

// take asks to claim the current trial, or to give it up if too many tasks have died on it.
func (s Search) take() (Search, Action) {
	number := s.number()
	trial := s.list.Trials[number]
	if trial.Deaths >= s.task.MaxDeaths {
		return s.about(GiveUp, number, trial.Last.Number)
	}
	return s.about(CreateClaim, number, trial.Next())
}

// rest decides what to do when there is nothing to claim: wait, help or stop. room says that the task has memory to
// take part in another task's training.
//
// A task that has only watched for as long as it takes to declare a holder dead stops: all holders are alive then. If
// one is killed later, Batch restarts it; waiting for that would only keep a machine busy. There are reasons to wait
// longer. Trials of later stages may be more than the tasks that now hold one, each of which will take one of them. The
// trial that several tasks train together needs the others while its holder has it. Paused trials that wait for each
// other may all go on at once. (Under another rule one is promoted when another trial is paused at its rung, and the
// task of that one is free to take it.) A task that works alone waits for a trial that is begun if others are to be
// begun after it.
func (s Search) rest(room bool) (Search, Action) {
	// held are the trials of this stage that tasks hold, or that a task that works alone must not begin yet; last is
	// one of them. later are those of later stages.
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

	// The reasons to wait however long it takes: for later stages, for trials that go on together, and for one's own.
	waits := later > held || t.Together && held > 0 && paused > held || t.Alone && held > 1

	switch {
	case ended == len(s.list.Trials):
		return s.stop(AllEnded)
	case t.Team > 1 && later*t.Team > held: // a later trial will take more tasks than are busy now: it is not idle
		s.idle = s.list.Ended
	case waits:
	case s.list.Began.Sub(s.idle) >= t.Takeover+t.Heartbeat:
		return s.stop(LivingHands)
	case room && t.Team > 1 && later == 0 && held == 1 && !s.list.Trials[last].Free():
		return s.about(Help, last, s.list.Trials[last].Last.Number)
	}
	return s.do(Wait)
}

// number returns the number of the current trial.
func (s Search) number() int { return (s.task.Start + s.index) % len(s.list.Trials) }

// claim is the number of a new claim on the current trial.
func (s Search) claim() int { return s.list.Trials[s.number()].Next() }

// do asks for an action that is about no trial.
func (s Search) do(op Op) (Search, Action) {
	s.doing = op
	return s, Action{Do: op}
}

// about asks for an action about a claim of a trial.
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
