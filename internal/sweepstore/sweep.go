package sweepstore

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"coppice/internal/blob"
	"coppice/internal/sweep"
)

// Sweep gives access to a sweep's objects outside its trials. It is safe for concurrent use.
type Sweep struct {
	bucket blob.Store
	id     sweep.ID
	names  sweep.Names
}

// New returns the sweep id, which need not exist, in the sweeps bucket.
func New(bucket blob.Store, id sweep.ID) *Sweep { return &Sweep{bucket, id, sweep.Names(id)} }

// List yields the ids of all sweeps with a plan, readable or not. It stops at the first error.
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

// Newest returns the ids of all sweeps with a plan, readable or not, the newest plan first.
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

// Plan reads the plan, and also returns its text. If there is none, the error is blob.ErrNotExist.
func (s *Sweep) Plan(ctx context.Context) (plan *sweep.Plan, text []byte, err error) {
	return read(ctx, s.bucket, planKind, s.names.Plan(), func(data []byte) (*sweep.Plan, error) {
		p, err := sweep.DecodePlan(data)
		if err == nil && p.Sweep != s.id {
			err = fmt.Errorf("it is of sweep %s", p.Sweep)
		}
		return p, err
	})
}

// HasPlan reports whether the sweep exists.
func (s *Sweep) HasPlan(ctx context.Context) (bool, error) {
	return exists(ctx, s.bucket, s.names.Plan())
}

// Planned is the write time of the plan, by the store's clock.
func (s *Sweep) Planned(ctx context.Context) (time.Time, error) {
	attrs, err := s.bucket.Stat(ctx, s.names.Plan())
	if err != nil {
		return time.Time{}, fmt.Errorf("look for %s: %w", s.names.Plan(), err)
	}
	return attrs.Updated, nil
}

// CreatePlan creates the sweep. created is false if it exists already.
func (s *Sweep) CreatePlan(ctx context.Context, p sweep.Plan) (created bool, err error) {
	p.Written = written()
	return create(ctx, s.bucket, s.names.Plan(), p)
}

// Cancelled reports whether the sweep was cancelled. The object's contents do not matter.
func (s *Sweep) Cancelled(ctx context.Context) (bool, error) {
	return exists(ctx, s.bucket, s.names.Cancel())
}

// Cancel asks all tasks to stop. created is false if the sweep was cancelled before.
func (s *Sweep) Cancel(ctx context.Context, at time.Time) (created bool, err error) {
	return create(ctx, s.bucket, s.names.Cancel(), sweep.Cancellation{Format: sweep.FormatVersion, Sweep: s.id, At: at,
		Written: written()})
}

// HasEnding reports whether the ending was written, readable or not: results that come later do not count.
func (s *Sweep) HasEnding(ctx context.Context) (bool, error) {
	return exists(ctx, s.bucket, s.names.Ending())
}

// Ending reads the ending of a sweep with that many trials; nil if there is none yet.
func (s *Sweep) Ending(ctx context.Context, trials int) (*sweep.Ending, error) {
	return optional(ctx, s.bucket, endingKind, s.names.Ending(), func(data []byte) (*sweep.Ending, error) {
		e, err := sweep.DecodeEnding(data, trials)
		if err == nil && e.Sweep != s.id {
			err = fmt.Errorf("it is of sweep %s", e.Sweep)
		}
		return e, err
	})
}

// CreateEnding writes the ending. created is false if there is one already.
func (s *Sweep) CreateEnding(ctx context.Context, e sweep.Ending) (created bool, err error) {
	e.Written = written()
	return create(ctx, s.bucket, s.names.Ending(), e)
}

// Conclusion reads the conclusion; nil if there is none yet.
func (s *Sweep) Conclusion(ctx context.Context) (*sweep.Conclusion, error) {
	return optional(ctx, s.bucket, conclusionKind, s.names.Conclusion(), func(data []byte) (*sweep.Conclusion, error) {
		c, err := sweep.DecodeConclusion(data)
		if err == nil && c.Sweep != s.id {
			err = fmt.Errorf("it is of sweep %s", c.Sweep)
		}
		return c, err
	})
}

// CreateConclusion concludes the sweep. created is false if it was concluded before.
func (s *Sweep) CreateConclusion(ctx context.Context, c sweep.Conclusion) (created bool, err error) {
	c.Written = written()
	return create(ctx, s.bucket, s.names.Conclusion(), c)
}

// Job reads the record of job n, from 1; nil if there is none yet.
func (s *Sweep) Job(ctx context.Context, p *sweep.Plan, n int) (*sweep.JobRecord, error) {
	return optional(ctx, s.bucket, jobKind, s.names.JobRecord(n), func(data []byte) (*sweep.JobRecord, error) {
		return sweep.DecodeJobRecord(data, p, n)
	})
}

// HasJob reports whether job n is recorded, readable or not.
func (s *Sweep) HasJob(ctx context.Context, n int) (bool, error) {
	return exists(ctx, s.bucket, s.names.JobRecord(n))
}

// CreateJob records job r.Number. created is false if it is recorded already.
func (s *Sweep) CreateJob(ctx context.Context, r sweep.JobRecord) (created bool, err error) {
	r.Written = written()
	return create(ctx, s.bucket, s.names.JobRecord(r.Number), r)
}
