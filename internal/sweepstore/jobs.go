package sweepstore

import (
	"context"
	"fmt"
	"slices"

	"coppice/internal/sweep"
)

// Course has the records of the jobs after the first that a sweep has had so far, ascending.
type Course []sweep.JobRecord

// Course reads the records of the sweep's jobs after the first. It is an error if one cannot be read, since it is not
// known then on which machines the sweep runs.
func (s *Sweep) Course(ctx context.Context, p *sweep.Plan) (c Course, err error) {
	var jobs []int
	for attrs, err := range s.bucket.List(ctx, s.names.Jobs()) {
		if err != nil {
			return nil, fmt.Errorf("list the jobs of sweep %s: %w", s.id, err)
		}
		if n, ok := s.names.ParseJobRecord(attrs.Name); ok && n <= p.LastJob() { // others are not of this plan
			jobs = append(jobs, n)
		}
	}
	slices.Sort(jobs)
	for _, n := range jobs {
		r, err := s.Job(ctx, p, n)
		if err != nil {
			return nil, err
		}
		if r != nil { // it may have been deleted, with the sweep
			c = append(c, *r)
		}
	}
	return c, nil
}

// Current returns the number of the sweep's newest job.
func (c Course) Current() int {
	if len(c) == 0 {
		return 0
	}
	return c[len(c)-1].Number
}

// Numbers returns the numbers of the sweep's jobs, ascending.
func (c Course) Numbers() []int {
	numbers := []int{0} // the plan's own job, which has no record
	for _, r := range c {
		numbers = append(numbers, r.Number)
	}
	return numbers
}

// Job reads the record of job n, from 1; nil if there is none yet.
func (s *Sweep) Job(ctx context.Context, p *sweep.Plan, n int) (*sweep.JobRecord, error) {
	k := kind[sweep.JobRecord]{"job record", 64 << 10, func(data []byte) (*sweep.JobRecord, error) {
		return sweep.DecodeJobRecord(data, p, n)
	}}
	return k.readOptional(ctx, s.bucket, s.names.JobRecord(n), nil)
}

// HasJob reports whether job n is recorded, readable or not.
func (s *Sweep) HasJob(ctx context.Context, n int) (bool, error) {
	return exists(ctx, s.bucket, s.names.JobRecord(n))
}

// CreateJob records job r.Number. created is false if it is recorded already.
func (s *Sweep) CreateJob(ctx context.Context, r sweep.JobRecord) (created bool, err error) {
	return create(ctx, s.bucket, s.names.JobRecord(r.Number), &r)
}
