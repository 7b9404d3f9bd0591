package protocol

// Settle is what the holder of a claim does before it trains a trial that the plan leaves open. What the trial is to train is written down
// once, create-only, and whoever holds the trial goes by that: a holder that takes it over, and one that loses the race to write it. Before,
// the configuration is taken for the trial, create-only as well, so that no two trials train the same one, whatever their holders have seen of each
// other. A crash between the two leaves a configuration that only this trial can train.
type Settle struct {
	Trial, Claim int
	doing        Op
	flaw         flaw
}

// Begin starts it.
func (s Settle) Begin() (Settle, Action) {
	if s.flaw == decideAnew {
		return s.about(Propose)
	}
	return s.about(ReadDecision)
}

// Next goes on after an answer.
func (s Settle) Next(a Answer) (Settle, Action) {
	if a.Failed {
		return s.stop(Broken)
	}

	switch s.doing {
	case ReadDecision:
		switch {
		case a.Unreadable: // it was created once, so no other will come
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
