package protocol

// Ender is an aggregator that checks whether a sweep is over, and concludes it. Any number of aggregators may run at
// once, and each may die between any two actions. The first ending that is written says which results count, so all
// reach the same conclusion.
type Ender struct {
	Trials int // of the plan

	doing Op
	ended int  // trials with a result
	job   bool // the sweep's jobs have ended, and the results are read once more
}

// Begin starts the machine.
func (e Ender) Begin() (Ender, Action) { return e.do(LookForConclusion) }

// Next takes the answer to the last action. If the store or Batch did not answer, the sweep is left as it is: the next
// check will try again.
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
		return e.afterReading(a.Results)

	case LookForEnding:
		if a.Yes {
			return e.do(Register)
		}
		return e.do(LookForCancel)

	case LookForCancel, AskAge, AskBudget, AskJob:
		return e.over(a.Yes)

	case CreateEnding:
		if a.Yes {
			return e.do(Register)
		}
		return e.do(ReadEnding)

	case ReadEnding:
		return e.do(Register)

	case Register:
		if a.Yes {
			return e.do(Decide)
		}
		return e.do(CreateConclusion)

	case Decide:
		return e.do(CreateConclusion)

	case CreateConclusion:
		if a.Yes {
			return e.do(Concluded)
		}
		return e.do(ReadConclusion)

	default: // ReadConclusion
		return e.do(Concluded)
	}
}

// afterReading takes the answer to ReadResults: how many trials have a result. The first time, it goes on to look for
// an ending. The second time, the jobs have ended (job), and it has the ending written: that all trials have ended or,
// if some have not, that the jobs are over.
func (e Ender) afterReading(results int) (Ender, Action) {
	e.ended = results
	switch {
	case !e.job:
		return e.do(LookForEnding)
	case e.ended >= e.Trials:
		return e.because(CreateEnding, AllEnded)
	}
	return e.because(CreateEnding, JobOver)
}

// over takes the answer to the check of one reason for which a sweep ends. If the reason holds, the ending is to be
// written; otherwise the next reason is checked, the cheapest ones first. If none holds, the sweep is left to continue.
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

	// results written between the last look and the job's end count too
	case e.doing == AskJob && yes:
		e.job = true
		return e.do(ReadResults)
	}
	return e.because(Leave, NoReason)
}

func (e Ender) do(op Op) (Ender, Action) { return e.because(op, NoReason) }

func (e Ender) because(op Op, why Why) (Ender, Action) {
	e.doing = op
	return e, Action{Do: op, Why: why}
}

// Gate decides whether a version becomes the champion: the version of its model that is live. If others change the
// champion meanwhile, the version is compared with the new one.
type Gate struct {
	Moves int // how many times the champion may be changed by others before a person has to decide

	doing Op
	lost  int // how many times it was
}

// Begin starts the machine.
func (g Gate) Begin() (Gate, Action) { return g.do(LookForPromotion, NoReason) }

// Next takes the answer to the last action. Without an answer of the store, or with a damaged record of the champion,
// the version is not promoted.
func (g Gate) Next(a Answer) (Gate, Action) {
	if a.Failed {
		return g.do(Decided, Broken)
	}
	if a.Unreadable { // retrying would only keep the sweep from ending: a person has to repair it
		return g.do(Decided, Unreadable)
	}

	switch g.doing {
	case LookForPromotion:
		if a.Yes { // by an earlier attempt or another aggregator; a person's later change of the champion stands
			return g.do(Decided, Before)
		}
		return g.do(ReadChampion, NoReason)

	case ReadChampion:
		if a.Yes {
			return g.do(Decided, Before)
		}
		return g.do(Compare, NoReason)

	case Compare:
		if !a.Yes {
			return g.do(Decided, NotBetter)
		}
		return g.do(Promote, NoReason)

	default: // Promote
		if a.Yes {
			return g.do(Decided, Promoted)
		}
		g.lost++
		if g.lost >= g.Moves {
			return g.do(Decided, MovedByOthers)
		}
		return g.do(LookForPromotion, NoReason)
	}
}

func (g Gate) do(op Op, why Why) (Gate, Action) {
	g.doing = op
	return g, Action{Do: op, Why: why}
}
