package sweepstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"coppice/internal/sweep"
)

// Course is how a sweep has been run so far: by which jobs after the first, and with which pauses.
type Course struct {
	Jobs []sweep.JobRecord // ascending

	plan    *sweep.Plan
	begun   map[int]time.Time // when the first job after that many pauses was recorded, by the store's clock
	written map[int]time.Time // when the sweep was paused for that time
}

// Course reads the records of the plan's jobs and pauses. A job record that cannot be read is an error; of a
// pause only the name matters.
func (s *Sweep) Course(ctx context.Context, p *sweep.Plan) (*Course, error) {
	c := &Course{plan: p, begun: map[int]time.Time{}, written: map[int]time.Time{}}

	jobs := map[int]time.Time{}
	for attrs, err := range s.bucket.List(ctx, s.names.Jobs()) {
		if err != nil {
			return nil, fmt.Errorf("list the jobs of sweep %s: %w", s.id, err)
		}
		if n, ok := s.names.ParseJobRecord(attrs.Name); ok && n <= p.LastJob() { // others are not of this plan
			jobs[n] = attrs.Updated
		}
	}
	for _, n := range slices.Sorted(maps.Keys(jobs)) {
		r, err := s.Job(ctx, p, n)
		if err != nil {
			return nil, err
		}
		if r == nil {
			continue // it was deleted, with the sweep
		}
		c.Jobs = append(c.Jobs, *r)
		if p.Choice(n) == 0 {
			c.begun[p.Turn(n)] = jobs[n]
		}
	}

	// After the jobs: a sweep is resumed only after it was seen paused.
	for attrs, err := range s.bucket.List(ctx, s.names.Halts()) {
		if err != nil {
			return nil, fmt.Errorf("list the pauses of sweep %s: %w", s.id, err)
		}
		if n, ok := s.names.ParseHalt(attrs.Name); ok && n <= sweep.MaxHalts {
			c.written[n] = attrs.Updated
		}
	}
	return c, nil
}

// Current is the number of the sweep's newest job.
func (c *Course) Current() int {
	if len(c.Jobs) == 0 {
		return 0
	}
	return c.Jobs[len(c.Jobs)-1].Number
}

// Numbers returns the numbers of the sweep's jobs, ascending.
func (c *Course) Numbers() []int {
	numbers := []int{0}
	for _, r := range c.Jobs {
		numbers = append(numbers, r.Number)
	}
	return numbers
}

// Next is the number of the pause that would stop the current job, or has.
func (c *Course) Next() int { return c.plan.Turn(c.Current()) + 1 }

// Halted returns since when the sweep is paused, by the store's clock.
func (c *Course) Halted() (since time.Time, halted bool) {
	since, halted = c.written[c.Next()]
	return since, halted
}

// Rested is how long the sweep was paused, all pauses before its current job together.
func (c *Course) Rested() (total time.Duration) {
	for turn, begun := range c.begun {
		if halted, ok := c.written[turn]; ok && begun.After(halted) {
			total += begun.Sub(halted)
		}
	}
	return total
}

// Halted returns since when the sweep is paused, by the store's clock; zero while it is not. A sweep that never was
// takes one listing.
func (s *Sweep) Halted(ctx context.Context, p *sweep.Plan) (since time.Time, err error) {
	for _, err := range s.bucket.List(ctx, s.names.Halts()) {
		if err != nil {
			return since, fmt.Errorf("list the pauses of sweep %s: %w", s.id, err)
		}
		c, err := s.Course(ctx, p)
		if err != nil {
			return since, err
		}
		since, _ = c.Halted()
		return since, nil
	}
	return since, nil
}

// HasHalt reports whether the sweep was paused for the number-th time, from 1 to sweep.MaxHalts, readable or not.
func (s *Sweep) HasHalt(ctx context.Context, number int) (bool, error) {
	if number > sweep.MaxHalts {
		return false, nil
	}
	return exists(ctx, s.bucket, s.names.Halt(number))
}

// CreateHalt pauses the sweep for the number-th time. created is false if it was before.
func (s *Sweep) CreateHalt(ctx context.Context, number int, at time.Time) (created bool, err error) {
	return create(ctx, s.bucket, s.names.Halt(number), &sweep.Halt{Format: sweep.FormatVersion, Sweep: s.id,
		Number: number, At: at})
}

// Job reads the record of job n, from 1; nil if there is none yet.
func (s *Sweep) Job(ctx context.Context, p *sweep.Plan, n int) (*sweep.JobRecord, error) {
	k := kind[sweep.JobRecord]{"job record", 64 << 10, func(data []byte) (*sweep.JobRecord, error) {
		return sweep.DecodeJobRecord(data, p, n)
	}}
	return k.optional(ctx, s.bucket, s.names.JobRecord(n), nil)
}

// HasJob reports whether job n is recorded, readable or not.
func (s *Sweep) HasJob(ctx context.Context, n int) (bool, error) {
	return exists(ctx, s.bucket, s.names.JobRecord(n))
}

// CreateJob records job r.Number. created is false if it is recorded already.
func (s *Sweep) CreateJob(ctx context.Context, r sweep.JobRecord) (created bool, err error) {
	return create(ctx, s.bucket, s.names.JobRecord(r.Number), &r)
}
