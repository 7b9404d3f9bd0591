package protocol

// Climb is what the holder of a claim does at a rung, where its trial is compared with others and may have to wait. It
// also runs before the holder trains at all, since an earlier holder may have come to a rung where the trial waits.
//
// What the comparison found is written once, create-only, and binds every holder. A trial that has to wait is paused:
// its holder leaves it. Later a verdict, which is written once by whichever task can give it, says whether the trial
// goes on. So a trial that is promoted cannot be ended by a task that does not know of the promotion, nor the other way
// round.
type Climb struct {
	Trial, Claim int
	Rung         int      // a number of trees; 0 before training, until a pause is found
	doing        Op       // the action whose answer is expected
	own          Standing // what this holder's comparison found
}

// Begin starts the machine.
func (c Climb) Begin() (Climb, Action) {
	if c.Rung > 0 {
		return c.about(ReadRung)
	}
	return c.about(LookForPause)
}

// Next takes the answer to the last action. If a record of the rung is damaged, the trial goes on: the record exists,
// so it will not be written again, and what it said is not known.
func (c Climb) Next(a Answer) (Climb, Action) {
	if a.Failed {
		c.doing = Stop
		return c, Action{Do: Stop, Trial: c.Trial, Claim: c.Claim, Rung: c.Rung, Why: Broken}
	}

	switch c.doing {
	case LookForPause:
		if !a.Yes {
			return c.about(GoOn)
		}
		c.Rung = a.Rung
		return c.about(ReadRung)

	case ReadRung:
		switch {
		case a.Unreadable:
			return c.about(GoOn)
		case !a.Yes:
			return c.about(CompareTrial)
		}
		return c.follow(a.Standing)

	case CompareTrial:
		c.own = a.Standing
		return c.about(CreateRung)

	case CreateRung:
		switch {
		case !a.Yes:
			return c.about(ReadRung)
		case c.own == Waits: // there is no verdict before the mark of a pause
			return c.about(Pause)
		}
		return c.follow(c.own)

	default: // ReadVerdict
		switch {
		case a.Unreadable || a.Standing == Continues:
			return c.about(GoOn)
		case a.Standing == Ends:
			return c.about(Close)
		}
		return c.about(Pause)
	}
}

// follow does what was found at the rung, by this holder or by an earlier one.
func (c Climb) follow(at Standing) (Climb, Action) {
	switch at {
	case Waits:
		return c.about(ReadVerdict)
	case Ends:
		return c.about(Close)
	}
	return c.about(GoOn)
}

func (c Climb) about(op Op) (Climb, Action) {
	c.doing = op
	return c, Action{Do: op, Trial: c.Trial, Claim: c.Claim, Rung: c.Rung}
}

// Settle is what the holder of a claim does before it trains an open trial, whose configuration the plan does not have.
// What the trial trains is decided once, create-only. The decision binds every holder, also one that takes the trial
// over, and one that loses the race to write it. Before that, the configuration is reserved for the trial, also
// create-only, so that no two trials train the same one, whatever their holders know of each other. A crash between the
// two leaves a reservation that only this trial can use, until it is decided that it trains something else.
type Settle struct {
	Trial, Claim int
	doing        Op
}

// Begin starts the machine.
func (s Settle) Begin() (Settle, Action) { return s.about(ReadDecision) }

// Next takes the answer to the last action. If another trial has the proposed configuration, it asks for another
// proposal. If a faster holder has written the decision, it reads that.
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
		if !a.Yes {
			return s.stop(NothingLeft)
		}
		return s.about(TakeConfiguration)

	case TakeConfiguration:
		if !a.Yes {
			return s.about(Propose)
		}
		return s.about(CreateDecision)

	default: // CreateDecision
		if a.Yes {
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
