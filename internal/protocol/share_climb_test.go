package protocol

import (
	"fmt"
	"math/bits"
)

// Where trials may be paused, there are two rungs. Of the two trials, the one with the higher number is the better one,
// and one of two goes on at a rung.
const rungsHere = 2

// listPauses adds to v what a listing shows of the trial's rungs and pauses.
func (t *sharedTrial) listPauses(v *sharedListed) {
	for k := range rungsHere {
		if t.paused[k] {
			v.paused, v.resumed = uint8(k+1), false
			if t.verdicts[k] != Undecided {
				v.paused, v.resumed = 0, true
			}
		}
		if t.rungs[k] != Undecided {
			v.reached = uint8(k + 1)
		}
	}
}

// climb visits the states that follow when task i takes the next step of its Climb: before it trains, or at a rung.
func (v visitor) climb(s shared, i int) {
	// Begin a Climb: before training, or at the next rung.
	t := &s.tasks[i]
	trial := &s.trials[t.trial]
	if t.climbing == None {
		if t.begun {
			t.rung = t.at + 1
		}
		_, do := v.m.flaw.climbBegin(Climb{Rung: int(t.rung)})
		if t.climbing = do.Do; do.Do == GoOn {
			v.climbs(s, i, "does not look for a pause", Climb{doing: LookForPause}, Answer{})
			return
		}
	}

	// Carry out what it asks for.
	c := Climb{Trial: int(t.trial), Claim: int(t.claim), Rung: int(t.rung), doing: t.climbing, own: t.own}
	switch t.climbing {
	case LookForPause:
		a := Answer{}
		for k, found := range trial.rungs {
			if found != Undecided && (trial.paused[k] || k < int(trial.kept)) {
				a.Yes, a.Rung = true, k+1
			}
		}
		v.climbs(s, i, "looks for a pause", c, a)

	case ReadRung:
		found := trial.rungs[t.rung-1]
		v.climbs(s, i, "reads the rung", c, Answer{Yes: found != Undecided, Standing: found})

	case CompareTrial:
		// Others' records may or may not be seen.
		found := Waits
		if other := s.trials[1-t.trial].rungs[t.rung-1]; other != Undecided && t.trial == 1 && !v.m.inStep {
			found = Continues
		}
		v.climbs(s, i, "compares the trial", c, Answer{Standing: found})
		if found == Continues {
			v.climbs(s, i, "compares the trial without having seen the other", c, Answer{Standing: Waits})
		}

	case CreateRung:
		if trial.rungs[t.rung-1] != Undecided {
			v.climbs(s, i, "is too late to write the rung", c, Answer{})
			return
		}
		trial.rungs[t.rung-1] = t.own
		v.climbs(s, i, "writes the rung", c, Answer{Yes: true})
		if v.m.may(&s, noAnswer) {
			s.faults--
			v.climbs(s, i, "writes the rung, and no answer comes", c, Answer{Failed: true})
		}

	case ReadVerdict:
		v.climbs(s, i, "reads the verdict", c, Answer{Standing: v.m.verdictAt(trial, t.rung)})
	}
}

// verdictAt returns what a holder reads as the verdict on its pause at a rung, from 1.
func (m sharing) verdictAt(trial *sharedTrial, rung uint8) Standing {
	if m.flaw == verdictOfAnother && trial.verdicts[rung-1] == Undecided && rung > 1 {
		return trial.verdicts[rung-2]
	}
	return trial.verdicts[rung-1]
}

// climbs passes an answer to task i's Climb, and visits the state that follows. what describes the step.
func (v visitor) climbs(s shared, i int, what string, c Climb, a Answer) {
	t := &s.tasks[i]
	trial := &s.trials[t.trial]
	c, do := v.m.flaw.climb(c, a)
	t.climbing, t.rung, t.own = do.Do, uint8(c.Rung), c.own

	switch do.Do {
	case Stop:
		v.ends(s, i, what+"; it fails", false, Broken)
		return
	case Pause:
		t.climbing, trial.kept = None, max(trial.kept, t.rung)
		v.ends(s, i, what+" and pauses", false, Paused)
		return
	case Close:
		t.climbing, t.stopping = None, true
		v.ends(s, i, what+" and stops", false, NoReason)
		return
	case GoOn:
		if t.climbing, t.own = None, Undecided; t.begun {
			t.at = t.rung
		} else {
			t.begun, t.at = true, trial.kept
		}
		t.rung = 0
		v.go_(i, what+" and trains on", s, trial.goesOn(t.at))
		return
	}
	if do.Do != CreateRung { // what is read does not change before the next step, or a later one reads it
		v.climb(s, i)
		return
	}
	v.go_(i, what, s, "")
}

// goesOn describes what is wrong with a training that has passed the rungs up to at; "" if nothing is.
func (t *sharedTrial) goesOn(at uint8) string {
	for k, found := range t.rungs[:at] {
		if found == Ends || found == Waits && t.verdicts[k] != Continues {
			return "a paused trial goes on that is not promoted"
		}
	}
	return ""
}

// stopsWrongly describes what is wrong with the result of a trial that ends at a rung without a model; "" if nothing
// is.
func (m sharing) stopsWrongly(trial *sharedTrial, t *sharedTask) string {
	switch {
	case !t.stopping || trial.result:
		return ""
	case trial.verdicts[t.rung-1] == Continues:
		return "a promoted trial is stopped"
	case trial.verdicts[t.rung-1] != Ends && m.flaw != closedUnwritten: // the planted bug is to show what it leads to
		return "a paused trial is stopped without a verdict"
	}
	return ""
}

// askVerdict visits the states that follow when task i asks for a paused trial on which a verdict can be given, by its
// listing. what describes the step before, and wrong what is wrong with that.
func (v visitor) askVerdict(s shared, i int, what, wrong string) {
	q, _ := v.m.search(&s, i)
	last := v.m.flaw.last(q)
	for _, seen := range []bool{true, false} { // an old record of the others must do no harm
		then := s
		t := &then.tasks[i]
		t.subject, t.mark, t.verdict = 0, 0, Undecided
		for n, of := range t.list[:v.m.trials] {
			if of.paused == 0 || of.ended {
				continue
			}
			verdict := v.m.becomes(t, n, seen, last)
			if verdict == Continues || verdict == Ends && t.verdict != Continues { // promotions first
				t.subject, t.mark, t.verdict = uint8(n+1), of.paused, verdict
			}
		}
		found := t.subject > 0
		v.decideOr(then, i, what+", asks what becomes of the paused", Answer{Yes: found, Trial: int(t.subject) - 1},
			wrong)
		if v.m.inStep {
			return // what comes after all others have come depends on no order
		}
	}
}

// becomes returns the verdict on trial n, which is paused in the task's listing; Undecided as long as others may come
// to its rung. seen says that the other trials' records at the rung are seen, and last that no other trial will come.
func (m sharing) becomes(t *sharedTask, n int, seen, last bool) Standing {
	rung := t.list[n].paused
	rank, field, coming := 1, 0, false
	for other, of := range t.list[:m.trials] {
		if of.reached >= rung && (seen || other == n) {
			if field++; other > n {
				rank++
			}
		}
		coming = coming || !of.ended && of.reached < rung
	}
	keep := field / 2
	if last || m.inStep {
		keep = max(keep, 1)
	}
	switch {
	case m.inStep && coming:
		return Undecided
	case rank <= keep:
		return Continues
	case last || m.inStep:
		return Ends
	}
	return Undecided
}

// createVerdict visits the states that follow when task i writes its verdict, which may exist already.
func (v visitor) createVerdict(s shared, i int) {
	t := &s.tasks[i]
	n := int(t.subject) - 1
	there := &s.trials[n].verdicts[t.mark-1]
	if *there != Undecided {
		v.decide(s, i, "is too late with its verdict", Answer{})
		return
	}

	wrong := ""
	for other, of := range s.trials {
		if t.verdict == Ends && other != n && !of.result && !v.m.inStep && !of.waits() {
			wrong = "a paused trial is given up while another may come to its rung"
		}
	}
	*there = t.verdict
	what := "promotes a paused trial"
	if t.verdict == Ends {
		what = "closes a paused trial"
	}
	v.decideOr(s, i, what, Answer{Yes: true}, wrong)
	if v.m.may(&s, noAnswer) {
		s.faults--
		v.decideOr(s, i, what+", and no answer comes", Answer{Failed: true}, wrong)
	}
}

// waits reports whether the trial is paused and has no verdict.
func (t *sharedTrial) waits() bool {
	var v sharedListed
	t.listPauses(&v)
	return v.paused > 0
}

// Where trials are open, a configuration is a number from 1 up. The worst case is that all tasks want the same one: the
// lowest; once they have seen other trials' configurations, they want the highest not known to be taken. So a second
// proposal for a trial may differ from the first.
const configsHere = 5

// settle visits the states that follow when task i takes the next step of its Settle, before it trains an open trial.
func (v visitor) settle(s shared, i int) {
	t := &s.tasks[i]
	trial := &s.trials[t.trial]
	q := Settle{Trial: int(t.trial), Claim: int(t.claim), doing: t.settling}
	if t.settling == None {
		_, do := v.m.flaw.settleBegin(q)
		t.settling = do.Do
		v.settle(s, i)
		return
	}

	next := func(what string, then shared, a Answer) { v.settles(then, i, what, q, a) }
	switch t.settling {
	case ReadDecision:
		if trial.decision > 0 {
			t.proposal = trial.decision
		}
		next("reads what was decided", s, Answer{Yes: trial.decision > 0})

	case Propose:
		// Others' decisions may or may not be seen: an old listing must do no harm.
		for _, look := range []bool{true, false} {
			then := s
			known := then.tasks[i].refused
			for n, other := range s.trials {
				if look && n != int(t.trial) && other.decision > 0 {
					known |= 1 << other.decision
				}
			}
			free := ^known & (1<<(configsHere+1) - 2)
			if free == 0 {
				panic("more configurations than there is room for")
			}
			then.tasks[i].proposal = uint8(bits.TrailingZeros8(free))
			what := "proposes without having seen the others"
			if look {
				then.tasks[i].proposal = uint8(bits.Len8(free) - 1)
				what = "proposes"
			}
			next(what, then, Answer{Yes: true})
		}

	case TakeConfiguration:
		// A trial that was decided otherwise never trains what it has reserved, so another may take that after it.
		holders, own := &s.taken[t.proposal], uint8(1)<<t.trial
		for n, other := range s.trials {
			if *holders&own == 0 && *holders>>n&1 != 0 && (other.decision == 0 || other.decision == t.proposal) {
				t.refused |= 1 << t.proposal
				next("finds that another trial has the configuration", s, Answer{})
				return
			}
		}
		fresh := *holders&own == 0
		*holders |= own
		next("takes the configuration", s, Answer{Yes: true})
		if fresh && v.m.may(&s, noAnswer) {
			s.faults--
			next("takes the configuration, and no answer comes", s, Answer{Failed: true})
		}

	case CreateDecision:
		v.decideTrial(s, i, q)
	}
}

// decideTrial visits the states that follow when task i writes its decision. The decision may exist already, and the
// answer to the write may be lost.
func (v visitor) decideTrial(s shared, i int, q Settle) {
	t := &s.tasks[i]
	trial := &s.trials[t.trial]
	if trial.decision > 0 {
		v.settles(s, i, "is too late to decide", q, Answer{})
		return
	}
	trial.decision = t.proposal
	v.settles(s, i, "writes the decision", q, Answer{Yes: true})

	if v.m.may(&s, lostAnswer) {
		then := s
		then.faults--
		own, known := v.m.flaw.settled(Creation{Read: true, Own: true}, true)
		v.settles(then, i, "writes the decision, and the answer is lost; again", q, Answer{Yes: own, Failed: !known})
	}
	if v.m.may(&s, noAnswer) {
		s.faults--
		v.settles(s, i, "writes the decision, and no answer comes", q, Answer{Failed: true})
	}
}

// settles passes an answer to task i's Settle, and visits the state that follows.
func (v visitor) settles(s shared, i int, what string, q Settle, a Answer) {
	t := &s.tasks[i]
	_, do := v.m.flaw.settle(q, a)
	t.settling = do.Do
	switch do.Do {
	case Stop:
		v.ends(s, i, what+"; it fails", false, Broken)
		return
	case Settled:
		t.training, t.settling, t.refused = t.proposal, None, 0
		t.proposal = 0
		wrong := s.trains(t)
		v.go_(i, what+" and trains", s, wrong)
		return
	}
	v.go_(i, what, s, "")
}

// trains records what a task's trial trains, and describes what is wrong with it; "" if nothing is.
func (s *shared) trains(t *sharedTask) (wrong string) {
	trial := &s.trials[t.trial]
	switch {
	case trial.trained != 0 && trial.trained != t.training:
		wrong = "a trial is trained with two configurations"
	case trial.decision != t.training:
		wrong = "a trial is trained with what no decision says"
	}
	for n, other := range s.trials {
		if n != int(t.trial) && other.trained == t.training && wrong == "" {
			wrong = "two trials train the same configuration"
		}
	}
	trial.trained = t.training
	return wrong
}

// fairRounds bounds the rounds, in each of which every task takes a step or time passes, that a sweep needs without
// further faults until all trials have ended and all tasks have stopped.
const fairRounds = 60

// comesToEnd follows the sweep from s on without further faults, and describes what is wrong with its end: a trial
// without a result, a task that has not stopped, a checkpoint that is left, or a claim that is held.
func (m sharing) comesToEnd(s shared) (wrong string) {
	// Let the tasks take turns until nothing moves.
	m.fair, s.faults = true, 0
	for range fairRounds {
		var moved bool
		if s, moved, wrong = m.round(s); !moved || wrong != "" {
			break
		}
	}

	// Look at what is left; the first fault counts.
	for n, trial := range s.trials {
		if !trial.result && !s.cancelled && wrong == "" {
			wrong = fmt.Sprintf("trial %d is lost: it has no result after %d rounds without faults", n, fairRounds)
		}
	}
	for i, t := range s.tasks {
		if t.doing != Stop && wrong == "" {
			wrong = fmt.Sprintf("task %d has not stopped after %d rounds without faults", i, fairRounds)
		}
	}
	for n, trial := range s.trials {
		if trial.full && wrong == "" {
			wrong = fmt.Sprintf("a checkpoint of trial %d is left, and the sweep has ended", n)
		}
		if trial.made > 0 && !trial.result && wrong == "" {
			if last := trial.claims[trial.made-1]; last.living && !last.released {
				wrong = fmt.Sprintf("a claim of trial %d is held, and the sweep has ended", n)
			}
		}
	}
	return wrong
}

// round lets every task take two steps, one of which may be a heartbeat, and lets time pass if it may. It returns the
// state that follows, whether anything moved, and what is wrong.
func (m sharing) round(s shared) (then shared, moved bool, wrong string) {
	for _, who := range []int8{2, 1, 0, 2, 1, 0, -1} {
		taken := false
		from := s
		m.next(from, func(by step, then shared, w string) {
			if by.who != who || taken {
				return
			}
			s, taken, moved = then, true, true
			if wrong == "" {
				wrong = w
			}
		})
	}
	return s, moved, wrong
}
