package quote

import (
	"fmt"
	"slices"
	"time"

	"coppice/internal/problem"
	"coppice/internal/sweep"
)

// checkLimits compares the spec's limits with what its own machines are expected to take. The limit of the sweep is an
// error, at its line of the spec, if even the training alone exceeds it at the fast end of the measured speeds; that of
// a trial if all trials do, or the refit. A limit that is expected to be exceeded is a note. Both say which limit would
// do. Where the spec has search.stop, another note says what is assumed of it. With an error there are no notes.
//
// Times are quoted as if every tree were grown. Early stopping may end any trial long before that, so with it nothing
// is sure, and what would be an error is a note.
func (q *Estimator) checkLimits(w *work, offer *Offer) (notes []string, err error) {
	s := &q.Plan.Spec
	hours := offer.Side(*q.Plan.Spec.Machine.Spot).Hours
	whole, trial := time.Duration(s.Limits.Sweep), time.Duration(s.Limits.Trial)
	suggest := func(limit string, seconds float64) string {
		return fmt.Sprintf("limits: {%s: %s} is enough at the slow end", limit, written(wholeMinutes(seconds)))
	}

	on := fmt.Sprintf("on %d x %s", offer.VMs, offer.Machine)
	sure, early := s.EarlyStoppingRounds == 0, ""
	if !sure {
		early = " if no trial stops early"
	}
	if s.Search.Stop != nil {
		notes = append(notes,
			fmt.Sprintf("search.stop: %d of %d trials are expected to be trained on after their first "+
				"comparison, as if scores were random (assumed); the high ends have every trial train to its end",
				len(w.expected[1]), len(w.expected[0])))
	}

	// The limit of the whole sweep.
	enough := suggest("sweep", hours.High*3600) + "; `launcher plan --within` finds the machines for a time"
	switch {
	case sure && offer.least > whole.Seconds():
		return nil, s.Errorf("limits.sweep", "limits.sweep is %s, but training takes %s at the least %s; %s",
			written(whole), exactly(offer.least), on, enough)
	case hours.Expected*3600 > whole.Seconds():
		what := "it would be concluded before its last trials"
		if kept := q.Plan.FinalReserve(); kept > 0 {
			what = fmt.Sprintf("of its last %s, which are kept for the final training, trials get nothing; the last "+
				"ones would not be trained", Time(kept.Seconds()))
		}
		notes = append(notes,
			fmt.Sprintf("limits.sweep is %s, but the sweep is expected to take %s %s%s: %s; %s", written(whole),
				Hours(hours), on, early, what, enough))
	}

	// The limit of a trial, which also holds for the refit or final training.
	again, longest := 0.0, slices.Max(w.seconds) // every plan has a trial
	if offer.Refit != nil {
		again = offer.Refit.Expected
		longest = max(longest, again)
	}
	longEnough := suggest("trial", longest*w.high)
	switch mean := offer.Trial.Expected; {
	case sure && slices.Min(w.seconds)*w.low > trial.Seconds():
		return nil, s.Errorf("limits.trial", "limits.trial is %s, but every trial takes longer, %s at the least: all "+
			"would be cut before their last tree; %s, or take fewer num_iterations", written(trial),
			exactly(slices.Min(w.seconds)*w.low), longEnough)
	case sure && again*w.low > trial.Seconds():
		return nil, s.Errorf("limits.trial", "limits.trial is %s, but the last training, on more rows, takes %s at "+
			"the least and would be cut before its last tree; %s", written(trial), exactly(again*w.low), longEnough)
	case longest > trial.Seconds():
		notes = append(notes, fmt.Sprintf("limits.trial is %s, but trials are expected to take up to %s (%s the mean "+
			"one)%s: those that take longer are cut and keep the trees that they have; %s", written(trial),
			exactly(longest), Time(mean), early, longEnough))
	}
	return notes, nil
}

// Hold returns an error of kind Input, which names the least budget, if the budget (USD) is below the sweep's expected
// cost plus the reserve for stopping it in time, on its machines or on any of its fallbacks; also if one of their
// prices is unknown. The reserve is that of the most expensive of all these machines (Quote.ReserveCost), so it is the
// same for each. machine is the name of the sweep's own type, for the message. A budget of 0 is none, and passes.
func Hold(quoted *sweep.Quote, machine string, budget float64) error {
	switch {
	case budget == 0:
		return nil
	case quoted.Hourly == 0:
		return problem.New(problem.Input, "a budget cannot be kept: no %s price of %s in %s is known; give one with "+
			"COPPICE_PRICES=FILE, or leave the budget out", model(quoted.Spot), machine, quoted.Region)
	}

	for i, f := range quoted.Fallback {
		if f.Hourly == 0 {
			return problem.New(problem.Input, "a budget cannot be kept: no %s price of machine.fallback[%d] in %s is "+
				"known; give one with COPPICE_PRICES=FILE, or leave the budget out", model(f.Spot), i, quoted.Region)
		}
	}

	if required := quoted.Cost.Expected + quoted.ReserveCost(); required > budget {
		return problem.New(problem.Input, "the budget of %s is too small: %d x %s are expected to cost %s, "+
			"and %s is reserved for stopping in time; give --budget %.2f, or see `launcher plan` for other machines",
			formatBudget(budget), quoted.VMs, machine, Money(&quoted.Cost), USD(quoted.ReserveCost()),
			roundUp(required))
	}

	for i, f := range quoted.Fallback {
		if required := f.Cost.Expected + quoted.ReserveCost(); required > budget {
			return problem.New(problem.Input, "the budget of %s is too small for machine.fallback[%d]: %d x %s %s "+
				"are expected to cost %s, and %s is reserved for stopping in time; remove that fallback, "+
				"or give --budget %.2f",
				formatBudget(budget), i, f.VMs, f.Machine, Priced(f.Spot), Money(&f.Cost),
				USD(quoted.ReserveCost()), roundUp(required))
		}
	}
	return nil
}
