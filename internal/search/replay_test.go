package search

import (
	"fmt"

	"coppice/internal/sweep"
)

// Replay repeats a recorded decision, from what it has seen. It returns nil if the outcome is the same; otherwise the
// error says what came out.
func Replay(p *sweep.Plan, d *sweep.Decision) error {
	s, err := Decide(p, d.Trial, d.Seen, d.Refused)
	if err != nil {
		return err
	}
	if keyOf(s.Params) != keyOf(normalizeNumbers(d.Own)) || s.Source != d.Source || s.Reason != d.Reason ||
		(s.Parent == nil) != (d.From == nil) || s.Parent != nil && *s.Parent != d.From.Trial {
		return fmt.Errorf("search: trial %d was decided as %s; from what it has seen comes %s (%s: %s). Another "+
			"build, or another kind of processor, may choose otherwise between nearly equal candidates", d.Trial,
			describe(d.Own), describe(s.Params), s.Source, s.Reason)
	}
	return nil
}

// ReplayPromotion repeats a recorded verdict on a paused trial, from what it has seen. It returns nil if the outcome is
// the same.
func ReplayPromotion(p *sweep.Plan, r *sweep.Promotion) error {
	switch {
	case r.Unread && r.Promoted: // nothing could be compared
		return nil
	case r.Unread:
		return fmt.Errorf("search: trial %d at %d trees: promoted is %t (%s), although its score could not be read",
			r.Trial, r.Step, r.Promoted, r.Reason)
	}
	v := AfterPause(p, sweep.Reached{Step: r.Step, Trial: r.Trial, Score: r.Score}, r.Seen, r.Last)
	if (v.Action == GoOn) != r.Promoted || v.Reason != r.Reason {
		return fmt.Errorf("search: trial %d at %d trees: promoted is %t (%s); from what had been seen comes %s (%s)",
			r.Trial, r.Step, r.Promoted, r.Reason, v.Action, v.Reason)
	}
	return nil
}
