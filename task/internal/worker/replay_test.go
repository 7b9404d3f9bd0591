package worker

import (
	"fmt"

	"coppice/internal/search"
	"coppice/internal/sweep"
)

// replay makes a recorded decision again, from what it has seen.
func replay(p *sweep.Plan, d *sweep.Decision) error {
	s, err := search.Decide(p, d.Trial, d.Seen, d.Refused)
	if err != nil {
		return err
	}
	if sweep.ConfigurationKey(s.Params) != sweep.ConfigurationKey(d.Own) || s.Source != d.Source ||
		s.Reason != d.Reason || (s.Parent == nil) != (d.From == nil) ||
		s.Parent != nil && *s.Parent != d.From.Trial {
		return fmt.Errorf("trial %d was decided as %v (%s: %s); from what it has seen comes %+v", d.Trial, d.Own,
			d.Source, d.Reason, s)
	}
	return nil
}

// replayPromotion makes a recorded verdict on a paused trial again, from what it has seen.
func replayPromotion(p *sweep.Plan, r *sweep.Promotion) error {
	if r.Unread && r.Promoted { // nothing could be compared
		return nil
	}
	v := search.AfterPause(p, sweep.Reached{Step: r.Step, Trial: r.Trial, Score: r.Score}, r.Seen, r.Last)
	if r.Unread || (v.Action == search.GoOn) != r.Promoted || v.Reason != r.Reason {
		return fmt.Errorf("trial %d at %d trees: promoted is %t (%s), unread %t; from what had been seen comes %s (%s)",
			r.Trial, r.Step, r.Promoted, r.Reason, r.Unread, v.Action, v.Reason)
	}
	return nil
}
