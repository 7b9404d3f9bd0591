package quote

import (
	"fmt"
	"slices"
	"time"
)

// limits says what is assumed of search.stop, and compares the spec's limits with what its own machines are expected to
// take. One that is sure to be exceeded, at the fast end of the measured speeds and with nothing assumed around the
// training, is an error at its line; one that is expected to be exceeded is a note. Both say which limit would do.
func (q *Estimator) limits(w *work, o *Offer) (notes []string, err error) {
	s := &q.Plan.Spec
	hours := o.Side(*q.Plan.Spec.Machine.Spot).Hours
	whole, trial := time.Duration(s.Limits.Sweep), time.Duration(s.Limits.Trial)
	does := func(limit string, high float64) string {
		return fmt.Sprintf("limits: {%s: %s} is enough at the slow end", limit, written(upTo(high)))
	}

	on := fmt.Sprintf("on %d x %s", o.VMs, o.Machine)
	enough := does("sweep", hours.High*3600) + "; `launcher plan --within` finds the machines for a time"
	if s.Search.Stop != nil {
		notes = append(notes,
			fmt.Sprintf("search.stop: %d of %d trials are expected to be trained on after their first "+
				"comparison, as if scores were random (assumed); the high ends have every trial train to its end",
				len(w.parts[1]), len(w.parts[0])))
	}
	switch {
	case o.least > whole.Seconds():
		return nil, s.Errorf("limits.sweep", "limits.sweep is %s, but training takes %s at the least %s; %s",
			written(whole), exactly(o.least), on, enough)
	case hours.Expected*3600 > whole.Seconds():
		what := "it would be concluded before its last trials"
		if kept := q.Plan.FinalReserve(); kept > 0 {
			what = fmt.Sprintf("of its last %s, which are kept for the final training, trials get nothing; the last "+
				"ones would not be trained", Time(kept.Seconds()))
		}
		notes = append(notes,
			fmt.Sprintf("limits.sweep is %s, but the sweep is expected to take %s %s: %s; %s", written(whole),
				Hours(hours), on, what, enough))
	}

	again, longest := 0.0, slices.Max(w.seconds)
	if o.Refit != nil {
		again = o.Refit.Expected
		longest = max(longest, again)
	}
	enough = does("trial", longest*w.high)
	switch mean := o.Trial.Expected; {
	case slices.Min(w.seconds)*w.low > trial.Seconds():
		return nil, s.Errorf("limits.trial", "limits.trial is %s, but every trial takes longer, %s at the least: all "+
			"would be cut before their last tree; %s, or take fewer num_iterations", written(trial),
			exactly(slices.Min(w.seconds)*w.low), enough)
	case again*w.low > trial.Seconds():
		return nil, s.Errorf("limits.trial", "limits.trial is %s, but the last training, on more rows, takes %s at "+
			"the least and would be cut before its last tree; %s", written(trial), exactly(again*w.low), enough)
	case longest > trial.Seconds():
		notes = append(notes, fmt.Sprintf("limits.trial is %s, but trials are expected to take up to %s (%s the mean "+
			"one): those that take longer are cut and keep the trees that they have; %s", written(trial),
			exactly(longest), Time(mean), enough))
	}
	return notes, nil
}

// upTo is a duration that is no shorter, in whole ten minutes if it is longer than that.
func upTo(s float64) time.Duration {
	unit := 10 * time.Minute
	if d := time.Duration(s * float64(time.Second)); d < unit {
		unit = time.Minute
	}
	return (time.Duration(s*float64(time.Second)) + unit - 1).Truncate(unit)
}

// exactly is a time beside a limit that is nearly as long.
func exactly(s float64) string {
	return written(time.Duration(s * float64(time.Second)).Round(time.Second))
}
