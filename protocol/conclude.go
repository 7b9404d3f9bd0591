package protocol

// Ender is an aggregator that considers whether a sweep is over, and concludes it. Any number of them may be at it at once, and each may
// die between any two actions: what counts is decided by the first ending that is written, so all come to the same conclusion.
type Ender struct {
	Trials int // of the plan

	doing Op
	ended int // trials that have a result
	job   bool
	flaw  flaw
}

// Begin starts it.
func (e Ender) Begin() (Ender, Action) { return e.do(LookForConclusion) }

// Next goes on after an answer. Where the store or Batch does not answer, the sweep is left as it is: somebody will ask again.
func (e Ender) Next(a Answer) (Ender, Action) {
	if a.Failed {
		return e.because(Leave, Broken)
	}

	switch e.doing {
	case LookForConclusion:
		if a.Yes {
			return e.do(Concluded)
		}
		return e.do(ReadResults)

	case ReadResults:
		return e.read(a.Results)

	case LookForEnding:
		if a.Yes {
			return e.conclude()
		}
		return e.do(LookForCancel)

	case LookForCancel, AskAge, AskBudget, AskJob:
		return e.over(a.Yes)

	case CreateEnding:
		if a.Yes || e.flaw == endingUnread {
			return e.conclude()
		}
		return e.do(ReadEnding)

	case ReadEnding:
		return e.conclude()

	case Register, registerAnew:
		if a.Yes {
			return e.do(Decide)
		}
		return e.written()

	case Decide:
		return e.written()

	case CreateConclusion:
		if e.flaw == conclusionFirst {
			return e.do(Register)
		}
		if a.Yes {
			return e.do(Concluded)
		}
		return e.do(ReadConclusion)

	default: // ReadConclusion
		return e.do(Concluded)
	}
}

// read folds results into what is known: a trial counts once, however often its result is read.
func (e Ender) read(results int) (Ender, Action) {
	if e.flaw == doubleFold {
		results += e.ended
	}
	e.ended = results

	switch {
	case !e.job:
		return e.do(LookForEnding)
	case e.ended >= e.Trials:
		return e.because(CreateEnding, AllEnded)
	}
	return e.because(CreateEnding, JobOver)
}

// over goes through the reasons for which a sweep ends, the cheapest to find out first.
func (e Ender) over(yes bool) (Ender, Action) {
	switch {
	case e.doing == LookForCancel && yes:
		return e.because(CreateEnding, Cancelled)
	case e.doing == LookForCancel && e.ended >= e.Trials:
		return e.because(CreateEnding, AllEnded)
	case e.doing == LookForCancel:
		return e.do(AskAge)

	case e.doing == AskAge && yes:
		return e.because(CreateEnding, AtLimit)
	case e.doing == AskAge:
		return e.do(AskBudget)

	case e.doing == AskBudget && yes:
		return e.because(CreateEnding, Spent)
	case e.doing == AskBudget:
		return e.do(AskJob)

	case yes: // what was written between the last look and the job's end counts, too
		e.job = true
		return e.do(ReadResults)
	}
	return e.because(Leave, Unknown)
}

func (e Ender) conclude() (Ender, Action) {
	switch e.flaw {
	case conclusionFirst:
		return e.do(CreateConclusion)
	case registerTwice:
		return e.do(registerAnew)
	}
	return e.do(Register)
}

func (e Ender) written() (Ender, Action) {
	if e.flaw == conclusionFirst {
		return e.do(Concluded)
	}
	return e.do(CreateConclusion)
}

func (e Ender) do(op Op) (Ender, Action) { return e.because(op, Unknown) }

func (e Ender) because(op Op, why Why) (Ender, Action) {
	e.doing = op
	return e, Action{Do: op, Why: why}
}

// Gate decides whether a version becomes the champion. Others may move the champion meanwhile: then the version is compared with that
// one.
type Gate struct {
	Moves int // how often the champion may be moved by others before a person has to decide

	doing Op
	lost  int
	flaw  flaw
}

// Begin starts it.
func (g Gate) Begin() (Gate, Action) { return g.do(LookForPromotion, Unknown) }

// Next goes on after an answer.
func (g Gate) Next(a Answer) (Gate, Action) {
	if a.Failed {
		return g.do(Decided, Broken)
	}
	if a.Unreadable { // asking again would only keep the sweep from ending: a person has to repair it
		return g.do(Decided, Unreadable)
	}

	switch g.doing {
	case LookForPromotion:
		if a.Yes { // by an earlier attempt, or another aggregator; a person who has moved it since is not overruled
			return g.do(Decided, Before)
		}
		return g.do(ReadChampion, Unknown)

	case ReadChampion:
		if g.flaw == staleComparison && g.lost > 0 {
			return g.do(Promote, Unknown)
		}
		return g.do(Compare, Unknown)

	case Compare:
		if !a.Yes {
			return g.do(Decided, NotBetter)
		}
		if g.flaw == staleChampion {
			return g.do(promoteAnyway, Unknown)
		}
		return g.do(Promote, Unknown)

	default: // Promote
		if a.Yes {
			return g.do(Decided, Promoted)
		}
		if g.lost++; g.lost >= g.Moves {
			return g.do(Decided, MovedByOthers)
		}
		return g.do(LookForPromotion, Unknown)
	}
}

func (g Gate) do(op Op, why Why) (Gate, Action) {
	g.doing = op
	return g, Action{Do: op, Why: why}
}
