package protocol

import "fmt"

// The world of aggregators that conclude one sweep: two of them, a bucket, a registry, and a person who changes the
// champion.
const (
	endersHere = 2
	allResults = 1<<trialsHere - 1
)

// ended is a state of that world. Every field is a byte.
type ended struct {
	results   uint8 // bit set of trials with a result
	cancelled bool
	late      bool // the time limit was reached
	idle      bool // its jobs have ended

	ending    sharedEnding
	versions  uint8 // versions registered from the sweep
	winner    sharedEnding
	champion  uint8 // 1 is the old one, 2 a person's, 3 the sweep's
	told      uint8 // aggregators that were told that they wrote the conclusion
	concluded bool

	lost    bool  // the file of an ensemble's second trial is damaged
	members uint8 // of the registered ensemble
	enders  [endersHere]sharedEnder
	crashes uint8 // still allowed
}

// sharedEnding is the set of results that a sweep is concluded from.
type sharedEnding struct {
	there   bool
	results uint8
	why     Why
}

type sharedEnder struct {
	doing, gate  Op
	why          Why
	ended        uint8
	job          bool
	known        uint8 // results read
	ending       sharedEnding
	read, judged uint8 // champion read, and champion compared with
	lost         uint8
	members      uint8 // of the ensemble that it has merged; 0 before
}

type ending struct {
	flaw flaw
	// the version merges two trials, and the file of one of them may be damaged, instead of the sweep being cancelled
	// or of a person changing the champion
	merges bool
}

func (m ending) start() (s ended) {
	s.champion, s.crashes = 1, 1
	for i := range s.enders {
		s.enders[i].doing = LookForConclusion
	}
	return s
}

func (m ending) ender(s *ended, i int) Ender {
	e := s.enders[i]
	return Ender{Trials: trialsHere, doing: e.doing, ended: int(e.ended), job: e.job}
}

func (m ending) next(s ended, visit func(step, ended, string)) {
	// The environment's moves: tasks, the launcher, time, Batch, a person.
	for n := range trialsHere {
		if then := s; s.results&(1<<n) == 0 {
			then.results |= 1 << n
			visit(step{-1, "a trial ends"}, then, "")
		}
	}
	then := s
	then.late = true
	visit(step{-1, "the limit has come"}, then, "")
	then = s
	then.idle = true
	visit(step{-1, "the jobs have ended"}, then, "")
	if !m.merges {
		then = s
		then.cancelled = true
		visit(step{-1, "the sweep is cancelled"}, then, "")
	}
	if m.merges {
		then = s
		then.lost = true
		visit(step{-1, "a trial's file is damaged"}, then, "")
	} else if s.champion == 1 {
		then = s
		then.champion = 2
		visit(step{-1, "a person moves the champion"}, then, "")
	}

	for i := range s.enders {
		e := s.enders[i]
		if e.doing == Concluded || e.doing == Leave {
			then := s // a message, the same one redelivered, or the next periodic check
			then.enders[i] = sharedEnder{doing: LookForConclusion}
			visit(step{int8(i), "is told"}, then, "")
			continue
		}
		if s.crashes > 0 {
			then := s
			then.crashes--
			then.enders[i] = sharedEnder{doing: LookForConclusion}
			visit(step{int8(i), "crashes"}, then, "")
		}
		if e.gate != None {
			m.gate(s, i, visit)
			continue
		}
		m.end(s, i, visit)
	}
}

// end carries out what aggregator i has asked for.
func (m ending) end(s ended, i int, visit func(step, ended, string)) {
	e := &s.enders[i]
	machine := m.ender(&s, i)
	var a Answer
	what, wrong := "looks", ""
	lost := s // the same with a lost answer

	switch e.doing {
	case LookForConclusion:
		a.Yes = s.concluded
	case ReadResults:
		e.known = s.results
		what, a.Results = "reads the results", count(s.results)
	case LookForEnding, ReadEnding:
		what, a.Yes = "reads the ending", s.ending.there
		if s.ending.there {
			e.ending = s.ending
		}
	case LookForCancel:
		a.Yes = s.cancelled
	case AskAge:
		a.Yes = s.late
	case AskBudget:
	case AskJob:
		a.Yes = s.idle

	case CreateEnding:
		what = "writes the ending"
		e.ending = sharedEnding{true, e.known, e.why}
		if a.Yes = !s.ending.there; a.Yes {
			s.ending = e.ending
		}
		if e.why == AllEnded && e.known != allResults {
			wrong = "a sweep is said to have ended that waits for a trial"
		}

	case Register, registerAnew:
		if m.merges && e.members == 0 {
			if e.members = 2; s.lost {
				e.members = 1
			}
			visit(step{int8(i), "merges what it can read"}, s, "")
			return
		}
		what = "registers"
		a.Yes = e.ending.why != Cancelled
		switch {
		case !a.Yes:
		case s.versions == 0:
			s.versions, s.winner, s.members = 1, e.ending, e.members
		case e.doing == registerAnew:
			s.versions, wrong = 2, "a sweep has two versions"
		}
		if e.ending != s.ending || a.Yes && e.ending != s.winner {
			wrong = "two aggregators conclude a sweep from different results"
		}
		if a.Yes && m.flaw != membersUnread {
			e.members = s.members // the version's record, where it is not the one that this aggregator would have made
		}

	case Decide:
		e.gate = LookForPromotion
		visit(step{int8(i), "begins to decide"}, s, "")
		return

	case CreateConclusion:
		what = "writes the conclusion"
		if a.Yes = !s.concluded; a.Yes {
			s.told++
		}
		s.concluded = true
		if e.ending.why != Cancelled && s.versions == 0 {
			wrong = "a conclusion names a version that is not there"
		}
		if a.Yes && e.members != s.members {
			wrong = "a conclusion names other trials than the ensemble that is registered"
		}

	case ReadConclusion:
	}
	if s.told > 1 {
		wrong = "a sweep was concluded twice"
	}

	machine, do := m.flaw.ender(machine, a)
	e.doing, e.why, e.ended, e.job = do.Do, do.Why, uint8(machine.ended), machine.job
	visit(step{int8(i), what}, s, wrong)

	// done, but not answered
	if lost.crashes > 0 && (what == "writes the ending" || what == "writes the conclusion") && a.Yes {
		s.crashes--
		s.enders[i] = sharedEnder{doing: Leave}
		visit(step{int8(i), what + ", and no answer comes"}, s, wrong)
	}
}

// gate carries out what aggregator i's gate has asked for.
func (m ending) gate(s ended, i int, visit func(step, ended, string)) {
	e := &s.enders[i]
	g := Gate{Moves: 3, doing: e.gate, lost: int(e.lost)}
	var a Answer
	what, wrong := "looks at the history", ""

	switch e.gate {
	case LookForPromotion:
		a.Yes = s.champion == 3
	case ReadChampion:
		what = "reads the champion"
		e.read, a.Yes = s.champion, s.champion == 3
	case Compare:
		what = "compares"
		e.judged, a.Yes = e.read, e.read == 1
	case Promote, promoteAnyway:
		what = "moves the champion"
		if a.Yes = s.champion == e.read || e.gate == promoteAnyway; a.Yes {
			if e.judged != s.champion && s.champion != 3 {
				wrong = "a champion was replaced that the version was not compared with"
			}
			s.champion = 3
		}
	}

	g, do := m.flaw.gate(g, a)
	if e.gate, e.lost = do.Do, uint8(g.lost); !do.Final() {
		visit(step{int8(i), what}, s, wrong)
		return
	}

	_, do = m.flaw.ender(m.ender(&s, i), Answer{})
	e.doing, e.gate, e.read, e.judged, e.lost = do.Do, None, 0, 0, 0
	visit(step{int8(i), what}, s, wrong)
}

// comesToEnd returns an error text if the sweep is not concluded from s on although all of its trials have ended.
func (m ending) comesToEnd(s ended) string {
	s.crashes, s.results = 0, allResults
	for range fairRounds {
		for who := range endersHere {
			taken := false
			m.next(s, func(by step, then ended, _ string) {
				if int(by.who) == who && !taken {
					s, taken = then, true
				}
			})
		}
		if s.concluded {
			return ""
		}
	}
	return fmt.Sprintf("the sweep has no conclusion after %d rounds without faults", fairRounds)
}

func count(results uint8) (n int) {
	for ; results > 0; results >>= 1 {
		n += int(results & 1)
	}
	return n
}
