package protocol

import (
	"fmt"
	"math/bits"
)

// Where trials are open, a configuration is a number from 1 up. The worst case is that all tasks want the same one: the
// lowest; once they have seen other trials' configurations, they want the highest not known to be taken. So a second
// proposal for a trial may differ from the first.
const configsHere = 5

// settle is what a holder does before it trains an open trial.
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

// decideTrial is the write of a decision, which may exist already, and whose answer may be lost.
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

// settles advances task i's machine.
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

// trains records what a trial trains, and describes what is wrong with it.
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

// comesToEnd returns an error text if the sweep does not reach its end from s on.
func (m sharing) comesToEnd(s shared) (wrong string) {
	m.fair, s.faults = true, 0
	for range fairRounds {
		var moved bool
		if s, moved, wrong = m.round(s); !moved || wrong != "" {
			break
		}
	}
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

// round lets every task take two steps, one of which may be a heartbeat, and lets time pass if it may.
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
