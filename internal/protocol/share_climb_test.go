package protocol

// Where trials may be paused, the trial with the higher number is the better one, and one of two goes on at a rung.
const rungsHere = 2

// listPauses adds to what a listing shows of the trial.
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

// climb is what a holder does before it trains, and at a rung.
func (v visitor) climb(s shared, i int) {
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

// verdictAt is what a holder reads as the verdict on its pause.
func (m sharing) verdictAt(trial *sharedTrial, rung uint8) Standing {
	if m.flaw == verdictOfAnother && trial.verdicts[rung-1] == Undecided && rung > 1 {
		return trial.verdicts[rung-2]
	}
	return trial.verdicts[rung-1]
}

// climbs advances task i's machine.
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
		v.ends(s, i, what+" and stops", false, Unknown)
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

// goesOn describes what is wrong with a training that has passed a rung.
func (t *sharedTrial) goesOn(at uint8) string {
	for k, found := range t.rungs[:at] {
		if found == Ends || found == Waits && t.verdicts[k] != Continues {
			return "a paused trial goes on that is not promoted"
		}
	}
	return ""
}

// stopsWrongly describes what is wrong with the result of a trial that ends without a model.
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

// askVerdict finds a paused trial of which can be said what becomes of it, by the task's listing.
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

// becomes is the verdict on a listed trial that is paused; undecided as long as others may come.
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

// createVerdict is the write of a verdict, which may exist already.
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
