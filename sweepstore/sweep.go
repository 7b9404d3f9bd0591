package sweepstore

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"coppice/blob"
	"coppice/sweep"
)

// Sweep is what lies in the bucket of one sweep as a whole. Its methods may be called from any goroutine.
type Sweep struct {
	bucket blob.Store
	id     sweep.ID
	names  sweep.Names
}

// New gives access to the sweep id, which need not exist, in the sweeps bucket.
func New(bucket blob.Store, id sweep.ID) *Sweep { return &Sweep{bucket, id, sweep.Names(id)} }

// List yields the ids of all sweeps that have a plan, readable or not. It stops at the first error.
func List(ctx context.Context, bucket blob.Store) iter.Seq2[sweep.ID, error] {
	return func(yield func(sweep.ID, error) bool) {
		for attrs, err := range bucket.List(ctx, sweep.PlansPrefix) {
			if err != nil {
				yield("", fmt.Errorf("list sweeps: %w", err))
				return
			}
			if id, ok := sweep.ParsePlanName(attrs.Name); ok && !yield(id, nil) {
				return
			}
		}
	}
}

// Newest are the ids of all sweeps that have a plan, readable or not, the newest plan first.
func Newest(ctx context.Context, bucket blob.Store) ([]sweep.ID, error) {
	type dated struct {
		id sweep.ID
		at time.Time
	}
	var all []dated
	for attrs, err := range bucket.List(ctx, sweep.PlansPrefix) {
		if err != nil {
			return nil, fmt.Errorf("list sweeps: %w", err)
		}
		if id, ok := sweep.ParsePlanName(attrs.Name); ok {
			all = append(all, dated{id, attrs.Updated})
		}
	}

	slices.SortStableFunc(all, func(a, b dated) int { return b.at.Compare(a.at) })
	ids := make([]sweep.ID, len(all))
	for i, d := range all {
		ids[i] = d.id
	}
	return ids, nil
}

// Plan reads the plan, and gives its text, too. A sweep without one is blob.ErrNotExist.
func (s *Sweep) Plan(ctx context.Context) (plan *sweep.Plan, text []byte, err error) {
	return read(ctx, s.bucket, planKind, s.names.Plan(), func(data []byte) (*sweep.Plan, error) {
		p, err := sweep.DecodePlan(data)
		if err == nil && p.Sweep != s.id {
			err = fmt.Errorf("it is of sweep %s", p.Sweep)
		}
		return p, err
	})
}

// HasPlan says whether the sweep exists.
func (s *Sweep) HasPlan(ctx context.Context) (bool, error) {
	return exists(ctx, s.bucket, s.names.Plan())
}

// Planned is when the plan was written, by the store's clock.
func (s *Sweep) Planned(ctx context.Context) (time.Time, error) {
	attrs, err := s.bucket.Stat(ctx, s.names.Plan())
	if err != nil {
		return time.Time{}, fmt.Errorf("look for %s: %w", s.names.Plan(), err)
	}
	return attrs.Updated, nil
}

// CreatePlan makes the sweep exist. created is false where it does already.
func (s *Sweep) CreatePlan(ctx context.Context, p sweep.Plan) (created bool, err error) {
	p.Written = written()
	return create(ctx, s.bucket, s.names.Plan(), p)
}

// Cancelled says whether the sweep was cancelled. The object's contents do not matter.
func (s *Sweep) Cancelled(ctx context.Context) (bool, error) {
	return exists(ctx, s.bucket, s.names.Cancel())
}

// Cancel asks everybody to stop. created is false where somebody has done so before.
func (s *Sweep) Cancel(ctx context.Context, at time.Time) (created bool, err error) {
	return create(ctx, s.bucket, s.names.Cancel(), sweep.Cancellation{Format: sweep.FormatVersion, Sweep: s.id, At: at, Written: written()})
}

// HasEnding says whether what the sweep is concluded from has been written down, readable or not: nothing that comes later
// counts.
func (s *Sweep) HasEnding(ctx context.Context) (bool, error) {
	return exists(ctx, s.bucket, s.names.Ending())
}

// Ending reads what the sweep of so many trials is concluded from; nil when that has not been written down.
func (s *Sweep) Ending(ctx context.Context, trials int) (*sweep.Ending, error) {
	return optional(ctx, s.bucket, endingKind, s.names.Ending(), func(data []byte) (*sweep.Ending, error) {
		e, err := sweep.DecodeEnding(data, trials)
		if err == nil && e.Sweep != s.id {
			err = fmt.Errorf("it is of sweep %s", e.Sweep)
		}
		return e, err
	})
}

// CreateEnding writes down what the sweep is concluded from. created is false where somebody has done so before.
func (s *Sweep) CreateEnding(ctx context.Context, e sweep.Ending) (created bool, err error) {
	e.Written = written()
	return create(ctx, s.bucket, s.names.Ending(), e)
}

// Conclusion reads the sweep's end; nil as long as there is none.
func (s *Sweep) Conclusion(ctx context.Context) (*sweep.Conclusion, error) {
	return optional(ctx, s.bucket, conclusionKind, s.names.Conclusion(), func(data []byte) (*sweep.Conclusion, error) {
		c, err := sweep.DecodeConclusion(data)
		if err == nil && c.Sweep != s.id {
			err = fmt.Errorf("it is of sweep %s", c.Sweep)
		}
		return c, err
	})
}

// CreateConclusion ends the sweep. created is false where somebody has done so before.
func (s *Sweep) CreateConclusion(ctx context.Context, c sweep.Conclusion) (created bool, err error) {
	c.Written = written()
	return create(ctx, s.bucket, s.names.Conclusion(), c)
}

// Job reads the record of the plan's job number n, from 1; nil when that has not taken its turn.
func (s *Sweep) Job(ctx context.Context, p *sweep.Plan, n int) (*sweep.JobRecord, error) {
	return optional(ctx, s.bucket, jobKind, s.names.JobRecord(n), func(data []byte) (*sweep.JobRecord, error) {
		return sweep.DecodeJobRecord(data, p, n)
	})
}

// HasJob says whether job number n has taken its turn, whether or not its record can be read.
func (s *Sweep) HasJob(ctx context.Context, n int) (bool, error) {
	return exists(ctx, s.bucket, s.names.JobRecord(n))
}

// CreateJob makes r.Number the sweep's job. created is false where somebody has done so before.
func (s *Sweep) CreateJob(ctx context.Context, r sweep.JobRecord) (created bool, err error) {
	r.Written = written()
	return create(ctx, s.bucket, s.names.JobRecord(r.Number), r)
}
