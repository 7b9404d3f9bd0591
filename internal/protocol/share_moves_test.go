package protocol

import "time"

// visitor visits the states that may follow a state.
type visitor struct {
	m     sharing
	visit func(step, shared, string)
}

// go_ visits a state that follows when who, a task or -1, has done something. wrong describes what is wrong with that;
// if nothing is, the state itself is checked.
func (v visitor) go_(who int, what string, then shared, wrong string) {
	v.m.settle(&then)
	if wrong == "" {
		wrong = then.wrong()
	}
	v.visit(step{int8(who), what}, then, wrong)
}

// wrong returns a violated invariant of the state, or "".
func (s *shared) wrong() string {
	for n, trial := range s.trials {
		if trial.accepts > 1 {
			return "two results of one trial were accepted"
		}
		if trial.made == 0 || trial.result {
			continue
		}
		last := trial.claims[trial.made-1]
		t := s.tasks[last.owner]
		knows := t.doing == Train && int(t.trial) == n && t.claim == trial.made-1 || t.doing == LookForResult ||
			t.doing == Release
		if last.living && !last.released && !last.lost && !knows {
			return "a task lives and does not know that it holds a trial"
		}
	}
	return ""
}

// search visits the states that follow when task i, which looks for a trial, carries out what its Search asks for.
func (v visitor) search(s shared, i int) {
	t := &s.tasks[i]
	q, _ := v.m.search(&s, i)
	number := 0
	if t.doing != List && t.doing != Wait && t.doing != Help {
		number = q.number()
	}
	trial, listed := &s.trials[number], t.list[number]

	switch t.doing {
	// A listing shows the bucket at once; or, as a fault, late, and then partly or wholly as it was.
	case List:
		then := s
		if t.listing {
			v.decide(then, i, "has the listing, as it was", Answer{})
			v.m.look(&then, i)
			v.decide(then, i, "has the listing, as it is", Answer{})
			if v.m.rungs > 0 {
				for n, was := range s.tasks[i].list {
					then.tasks[i].list[n].paused, then.tasks[i].list[n].resumed,
						then.tasks[i].list[n].reached = was.paused, was.resumed, was.reached
				}
				v.decide(then, i, "has the listing, the pauses as they were", Answer{})
			}
			return
		}
		v.m.look(&then, i)
		v.decide(then, i, "lists", Answer{})
		if v.m.may(&s, slowListing) {
			then.tasks[i].listing = true
			then.faults--
			v.go_(i, "begins a listing that takes long", then, "")
		}

	case CreateVerdict:
		v.createVerdict(s, i)

	case ReadClaim:
		c := trial.claims[listed.last]
		v.decide(s, i, "reads the claim", Answer{Yes: int(c.owner) == i && !c.living})

	case ReadBeat:
		v.decide(s, i, "reads the heartbeat", Answer{Beat: int64(trial.claims[listed.last].beat)})

	case CreateClaim:
		v.create(s, i, number)

	case LookForResult:
		v.decide(s, i, "looks for the result", Answer{Yes: trial.result})
		if v.m.may(&s, noAnswer) {
			s.faults--
			v.decide(s, i, "looks for the result in vain", Answer{Failed: true})
		}

	// Giving up is right if enough tasks have died on the trial.
	case GiveUp:
		wrong, lost := "", 0
		for _, c := range trial.claims[:trial.made] {
			// a living one may have come back after the listing, and pauses its trial
			if c.lost && (!c.released || v.m.rungs > 0) && (!c.saved || c.living) {
				lost++
			}
		}
		if lost < deathsHere {
			wrong = "a trial was given up over which too few tasks had died"
		}
		if trial.result {
			wrong = ""
		}
		then := s
		then.trials[number].result = true
		v.decideOr(then, i, "gives the trial up", Answer{}, wrong)

	case Release:
		claim := v.m.releases(&s, i)
		then, wrong := s, ""
		if claim >= int(trial.made) || int(trial.claims[claim].owner) != i {
			wrong = "a claim was released by a task that does not hold it"
		} else {
			then.trials[number].claims[claim].released = true
		}
		v.decideOr(then, i, "releases", Answer{}, wrong)
	}
}

// releases returns the claim that a search gives back when the look for a result has failed.
func (m sharing) releases(s *shared, i int) int {
	q, _ := m.search(s, i)
	q.doing = LookForResult
	_, do := m.flaw.search(q, Answer{Failed: true}, make([]time.Time, trialsHere))
	return do.Claim
}

// create visits the states that follow when task i writes a claim of a trial. The store may refuse it, and its answer
// may be lost.
func (v visitor) create(s shared, i, number int) {
	trial := &s.trials[number]
	n := s.tasks[i].list[number].claims
	if trial.made > n {
		v.decide(s, i, "is too late to claim", Answer{})
		return
	}
	if n >= claimsHere {
		panic("more claims than there is room for")
	}

	wrong := ""
	if n > 0 {
		before := trial.claims[n-1]
		holder := s.tasks[before.owner]
		holds := before.living && holder.doing == Train && int(holder.trial) == number && holder.claim == n-1
		if holds && !before.released && !holder.suspect && !trial.result && holder.finish != Release {
			wrong = "a living holder was dispossessed"
		}
	}
	then := s
	then.trials[number].made++
	then.trials[number].claims[n] = sharedClaim{owner: uint8(i), living: true}
	v.settled(then, i, "claims", Creation{Confirmed: true}, false, wrong)

	if v.m.may(&s, lostAnswer) {
		again := then
		again.faults--
		v.settled(again, i, "claims, and the answer is lost; again", Creation{Read: true, Own: true}, true, wrong)
	}
	if v.m.may(&s, noAnswer) {
		then.faults--
		then.trials[number].claims[n].lost = true
		v.settled(then, i, "claims, and no answer comes", Creation{}, false, wrong)
		s.faults--
		v.decide(s, i, "does not reach the store to claim", Answer{Failed: true})
	}
}

// settled passes to task i's Search what is known about its write.
func (v visitor) settled(then shared, i int, what string, c Creation, refused bool, wrong string) {
	own, known := v.m.flaw.settled(c, refused)
	v.decideOr(then, i, what, Answer{Yes: own, Failed: !known}, wrong)
}

// decide is decideOr for a step with which nothing is wrong.
func (v visitor) decide(s shared, i int, what string, a Answer) { v.decideOr(s, i, what, a, "") }

// decideOr passes an answer to task i's Search, checks what that asks for next, and visits the state that follows.
// wrong describes what is wrong with the step so far.
func (v visitor) decideOr(s shared, i int, what string, a Answer, wrong string) {
	q, _ := v.m.search(&s, i)
	was := s.tasks[i].doing
	do := v.m.answer(&s, i, a)

	if do.Do == CreateClaim && q.pass == silent || do.Do == CreateClaim && s.tasks[i].pass == silent {
		seen, trial := s.tasks[i].seen[do.Trial], s.trials[do.Trial]
		if trial.claims[seen.claim].beat != seen.beat && wrong == "" && int(trial.made) == do.Claim {
			wrong = "a holder is to be dispossessed that has given a sign of life"
		}
	}
	if do.Do == Train && s.trials[do.Trial].result && (was == LookForResult || was == CreateClaim) {
		wrong = "a trial is trained that has ended"
	}
	if do.Do == Train && v.m.staged && do.Trial == 1 && !s.trials[0].result {
		wrong = "a trial is trained before an earlier stage has ended"
	}
	if v.m.faults == 0 && wrong == "" {
		wrong = v.m.helpsWrongly(&s, was, do)
	}
	if do.Do == Stop && do.Why == Broken {
		v.m.restart(&s, i)
	}
	if do.Do == AskVerdict { // it depends on the listing alone
		v.askVerdict(s, i, what, wrong)
		return
	}
	v.go_(i, what, s, wrong)
}

// helpsWrongly describes what is wrong with what a task does that has nothing to claim; "" if nothing is. was is its
// last action, and do the next one.
func (m sharing) helpsWrongly(s *shared, was Op, do Action) string {
	if do.Do == Stop && do.Why == LivingHands && s.trained(trialsHere-1) && m.staged {
		return "a task leaves while a training has use for it"
	}
	if do.Do != Help || was != List { // the listing is of this moment
		return ""
	}
	of := &s.trials[do.Trial]
	if of.made == 0 || of.claims[of.made-1].released || of.result {
		return "a task takes part in a training that nobody leads"
	}
	return ""
}

// restart ends task i's attempt and starts its next one, as Batch does. Claims that it held are held by no living task.
func (m sharing) restart(s *shared, i int) {
	for n := range s.trials {
		for c := range s.trials[n].claims[:s.trials[n].made] {
			claim := &s.trials[n].claims[c]
			if int(claim.owner) == i && claim.living {
				claim.living = false
				claim.lost = claim.lost || !claim.released
			}
		}
	}
	s.tasks[i] = sharedTask{doing: LookForEnd, retry: true}
	if m.flaw == jobFirst && s.cancelled {
		s.tasks[i] = sharedTask{doing: Stop}
	}
}

// hold visits the states that follow when task i, which holds a claim, does what it may: send a heartbeat, decide what
// it trains, come to a rung or to its end, save, or be told to go.
func (v visitor) hold(s shared, i int) {
	t := &s.tasks[i]
	if !t.beaten {
		v.pulse(s, i, true)
		if v.m.may(&s, noAnswer) {
			lost := s
			lost.faults--
			v.pulse(lost, i, false)
		}
	}
	if t.finish != None {
		v.finish(s, i)
		return
	}

	if v.m.open && t.training == 0 {
		v.settle(s, i)
		return
	}

	if t.climbing != None || !t.begun && v.m.rungs > 0 || t.at < v.m.rungs {
		v.climb(s, i)
	} else {
		v.ends(s, i, "has trained", true, NoReason)
	}
	if v.m.late {
		then := s
		then.tasks[i].late = true
		v.ends(then, i, "is late", false, NoReason)
	}
	of := s.trials[t.trial]
	fresh := !of.claims[t.claim].saved || v.m.cancels && !of.full
	if !v.m.unsaved && fresh && t.claim+1 == of.made {
		then := s
		then.trials[t.trial].claims[t.claim].saved, then.trials[t.trial].full = true, true
		v.go_(i, "saves", then, "")
	}
	if v.m.may(&s, notice) {
		s.faults--
		s.trials[t.trial].full = s.trials[t.trial].full || v.m.cancels
		v.ends(s, i, "is told to go", false, ToldToGo)
	}
}

// pulse visits the state that follows when task i runs a Pulse. If its heartbeat does not arrive, the task may be taken
// for dead: in practice nine in a row would have to fail, here one is enough.
func (v visitor) pulse(s shared, i int, arrives bool) {
	t := &s.tasks[i]
	trial := &s.trials[t.trial]
	// All actions of a Pulse are one step of this world.
	p, do := Pulse{Trial: int(t.trial), Claim: int(t.claim)}.Begin()
	for !do.Final() {
		var a Answer
		switch do.Do {
		case Beat:
			claim := &trial.claims[do.Claim]
			t.beaten = true
			if arrives {
				claim.beat, claim.beaten = 31, 0 // a value that no other heartbeat has
				break
			}
			a.Failed, t.suspect, claim.lost = true, true, true
		case LookForEnd:
			a.Failed, a.Yes = !arrives, s.cancelled
		case LookForClaim:
			a.Yes = do.Claim < int(trial.made)
		case LookForResult:
			a.Yes = trial.result
		}
		p, do = v.m.flaw.pulse(p, a)
	}

	// Training on is wrong if another task has the trial, or it has ended.
	wrong := ""
	if do.Do == GoOn && (int(t.claim)+1 < int(trial.made) || trial.result) && t.finish == None {
		wrong = "a task trains on that has lost its trial"
	}
	if do.Do == Abort && t.finish == None {
		v.ends(s, i, "gives a sign of life, and has to leave the trial", false, do.Why)
		return
	}
	what := "gives a sign of life"
	if !arrives {
		what = "gives a sign of life in vain"
	}
	v.go_(i, what, s, wrong)
}

// ends begins the end of task i's training. The upload of files is not a step of its own, since no other task can see
// them: they go into the claim's own folder.
func (v visitor) ends(s shared, i int, what string, trained bool, why Why) {
	t := &s.tasks[i]
	f, do := v.m.flaw.finishBegin(Finish{Trial: int(t.trial), Claim: int(t.claim), Late: t.late}, trained, why)
	if do.Do == Upload {
		f, do = v.m.flaw.finish(f, Answer{})
	}
	v.left(s, i, what, f, do, "")
}

// finish visits the states that follow when task i carries out what its Finish asks for.
func (v visitor) finish(s shared, i int) {
	// answer passes an answer to the Finish and visits the state that follows, with the changes made to then.
	t := &s.tasks[i]
	trial := &s.trials[t.trial]
	f := Finish{Trial: int(t.trial), Claim: int(t.claim), Late: t.late, doing: t.finish, why: t.why}
	then := s
	there := &then.trials[t.trial]
	answer := func(what string, a Answer, wrong string) {
		g, do := v.m.flaw.finish(f, a)
		v.left(then, i, what, g, do, wrong)
	}

	switch t.finish {
	case CreateResult, overwriteResult:
		if trial.result && t.finish == CreateResult {
			answer("is too late with its result", Answer{}, "")
			return
		}
		there.result, there.accepts = true, there.accepts+1
		wrong := v.m.stopsWrongly(trial, t)
		if trial.result {
			wrong = "a result was replaced"
		}
		answer("writes the result", Answer{Yes: true}, wrong)
		if t.finish == overwriteResult {
			return
		}
		// The answer to the write may be lost: the client repeats it, or gives up.
		if !v.m.may(&s, lostAnswer) {
			return
		}
		then.faults--
		own, known := v.m.flaw.settled(Creation{Read: true, Own: true}, true)
		answer("writes the result, and the answer is lost; again", Answer{Yes: own, Failed: !known}, "")
		there.accepts--
		answer("writes the result, and no answer comes", Answer{Failed: true}, "")

	case EndOthers:
		if v.m.may(&s, noAnswer) {
			then.faults--
			answer("does not reach the store to end the others", Answer{Failed: true}, "")
			then.faults++
		}
		wrong := ""
		for n := range then.trials {
			of := &then.trials[n]
			if t.ends>>n&1 == 0 || of.result {
				continue
			}
			if of.result, of.accepts = true, of.accepts+1; t.others>>n&1 != 0 {
				wrong = "a trial ends with another that a task had begun"
			}
		}
		answer("ends the others", Answer{}, wrong)

	case MarkPaused:
		if v.m.may(&s, noAnswer) {
			then.faults--
			answer("does not reach the store to mark the pause", Answer{Failed: true}, "")
			then.faults++
		}
		there.paused[t.rung-1] = true
		answer("marks the pause", Answer{Yes: true}, "")

	case Release:
		there.claims[t.claim].released = true
		answer("releases", Answer{}, "")
	}
}

// left does what task i's Finish asks for as far as other tasks cannot see it, and visits the state that follows.
func (v visitor) left(s shared, i int, what string, f Finish, do Action, wrong string) {
	t := &s.tasks[i]
	for do.Do == Publish || do.Do == DropCheckpoints { // invisible to the other tasks
		if ended := s.trials[t.trial].result; !ended && do.Do == Publish {
			wrong = "a trial's end is told before its result is there"
		} else if !ended {
			wrong = "checkpoints are dropped before there is a result"
		}
		if do.Do == DropCheckpoints {
			s.trials[t.trial].full = false
		}
		f, do = v.m.flaw.finish(f, Answer{})
	}

	switch do.Do {
	case SearchAgain:
		*t = sharedTask{doing: LookForEnd, retry: t.retry}
	case Stop:
		if f.why == ToldToGo {
			v.m.tidy(&s)
		}
		v.m.restart(&s, i)
	default:
		t.finish, t.why = do.Do, f.why
	}
	v.go_(i, what, s, wrong)
}

// faults visits the states that follow when task i crashes or is paused for a while, which may happen at any time.
func (v visitor) faults(s shared, i int) {
	if v.m.may(&s, crash) {
		crashed := s
		crashed.faults--
		v.m.restart(&crashed, i)
		v.go_(i, "crashes", crashed, "")
	}
	if !v.m.may(&s, paused) {
		return
	}
	s.faults--
	t := &s.tasks[i]
	if t.listing {
		return // a listing is slow already
	}
	t.paused = true
	switch t.doing {
	case Train:
		t.suspect = true
		s.trials[t.trial].claims[t.claim].lost = true
	case LookForResult:
		q, _ := v.m.search(&s, i)
		number := q.number()
		t.suspect = true
		s.trials[number].claims[t.list[number].claims].lost = true
	}
	v.go_(i, "is paused", s, "")
}
