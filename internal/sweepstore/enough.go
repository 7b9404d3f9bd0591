package sweepstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"coppice/internal/blob"
	"coppice/internal/sweep"
)

// An end by rule names every trial that has ended.
var enoughKind = kind{"end by rule", 16 << 20}

// Enough reads why the sweep starts no more trials; nil as long as it does. An error of kind Damaged means that it
// starts none, for an unknown reason.
func (s *Sweep) Enough(ctx context.Context) (*sweep.Enough, error) {
	return optional(ctx, s.bucket, enoughKind, s.names.Enough(), func(data []byte) (*sweep.Enough, error) {
		e, err := sweep.DecodeEnough(data)
		if err == nil && e.Sweep != s.id {
			err = fmt.Errorf("it is of sweep %s", e.Sweep)
		}
		return e, err
	})
}

// CreateEnough records that the sweep starts no more trials. created is false if that was decided before.
func (s *Sweep) CreateEnough(ctx context.Context, e sweep.Enough) (created bool, err error) {
	e.Written = written()
	return create(ctx, s.bucket, s.names.Enough(), e)
}

// Finished returns the plan's own trials in a listing that are done or were stopped or paused at a rung, in the order
// in which that happened. Results are added to known, so that none is read twice.
func (t *Trials) Finished(ctx context.Context, l Listing, known map[int]sweep.Result) ([]sweep.Seen, error) {
	if err := t.Results(ctx, l, known, nil); err != nil {
		return nil, err
	}
	ended := slices.Clone(l.Trials[t.plan.Inherits():])
	at := func(listed Listed) blob.Generation {
		step := listed.PausedAt()
		if r, has := known[listed.Number]; step > 0 && (!has || r.Status == sweep.StatusStopped) {
			return listed.Pauses[step]
		}
		return listed.Result
	}
	slices.SortStableFunc(ended, func(a, b Listed) int { return cmp.Compare(at(a), at(b)) })

	out := []sweep.Seen{}
	for _, listed := range ended {
		if !listed.Ended && len(listed.Pauses) > 0 {
			passed, err := t.AtPause(ctx, listed)
			if err != nil {
				return nil, err
			}
			if n := len(passed); n > 0 {
				out = append(out, sweep.Seen{Trial: listed.Number, Status: sweep.StatusStopped,
					Score: &passed[n-1].Score})
			}
			continue
		}
		r, has := known[listed.Number]
		if has && listed.Ended && (r.Status == sweep.StatusDone || r.Status == sweep.StatusStopped && !r.Untrained()) {
			out = append(out, sweep.Seen{Trial: listed.Number, Status: r.Status, Score: &r.Score})
		}
	}
	return out, nil
}
