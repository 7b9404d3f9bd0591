package protocol

// Settle is what the holder of a claim does before it trains a trial that the plan leaves open. What the trial trains
// is written once, create-only, and binds every holder: one that takes the trial over, and one that loses the race to
// write it. Before that, the configuration is reserved for the trial, also create-only, so that no two trials train the
// same one, whatever their holders know of each other. A crash between the two leaves a reservation that only this
// trial can use, until it is decided otherwise.
type Settle struct {
	Trial, Claim int
	doing        Op
	flaw         flaw
}

// Begin starts the machine.
func (s Settle) Begin() (Settle, Action) {
	if s.flaw == decideAnew {
		return s.about(Propose)
	}
	return s.about(ReadDecision)
}

// Next takes the answer to the last action.
func (s Settle) Next(a Answer) (Settle, Action) {
	if a.Failed {
		return s.stop(Broken)
	}

	switch s.doing {
	case ReadDecision:
		switch {
		case a.Unreadable: // it was created once and will not be written again
			return s.stop(Unreadable)
		case a.Yes:
			return s.about(Settled)
		}
		return s.about(Propose)

	case Propose:
		switch {
		case !a.Yes:
			return s.stop(NothingLeft)
		case s.flaw == takenUnasked:
			return s.about(CreateDecision)
		}
		return s.about(TakeConfiguration)

	case TakeConfiguration:
		if !a.Yes {
			return s.about(Propose)
		}
		if s.flaw == trainedUnwritten {
			return s.about(Settled)
		}
		return s.about(CreateDecision)

	default: // CreateDecision
		if a.Yes || s.flaw == decisionUnread || s.flaw == decideAnew {
			return s.about(Settled)
		}
		return s.about(ReadDecision)
	}
}

func (s Settle) about(op Op) (Settle, Action) {
	s.doing = op
	return s, Action{Do: op, Trial: s.Trial, Claim: s.Claim}
}

func (s Settle) stop(why Why) (Settle, Action) {
	s.doing = Stop
	return s, Action{Do: Stop, Trial: s.Trial, Claim: s.Claim, Why: why}
}
