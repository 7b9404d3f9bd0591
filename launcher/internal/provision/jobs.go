package provision

import (
	"context"
	"errors"
	"fmt"

	"coppice/blob"
	"coppice/sweep"
	"coppice/sweepstore"
)

// Records returns the records of the sweep's jobs after the first, in order. A sweep without fallbacks has none.
func Records(ctx context.Context, store blob.Store, p *sweep.Plan) ([]sweep.JobRecord, error) {
	var all []sweep.JobRecord
	for n := 1; n <= len(p.Fallback); n++ {
		r, err := sweepstore.New(store, p.Sweep).Job(ctx, p, n)
		if err != nil {
			return nil, fmt.Errorf("sweep %s: %w", p.Sweep, err)
		}
		if r == nil {
			return all, nil
		}
		all = append(all, *r)
	}
	return all, nil
}

// Look returns the status of the sweep's current job. It counts as finished when all jobs have finished.
func Look(ctx context.Context, store blob.Store, jobs Jobs, p *sweep.Plan) (Status, error) {
	records, err := Records(ctx, store, p)
	if err != nil {
		return Status{}, err
	}

	n := len(records)
	s, err := jobs.Status(ctx, p.JobName(n))
	if err != nil {
		return s, err
	}

	// Earlier jobs were abandoned, but may still be running.
	s.Name = p.JobName(n)
	for i, r := range records {
		s.Earlier = append(s.Earlier, Earlier{p.JobName(i), r.Reason})
		if !s.Finished {
			continue
		}
		before, err := jobs.Status(ctx, p.JobName(i))
		if err != nil {
			return s, err
		}
		s.Finished = before.Finished
	}
	return s, nil
}

// Cancel stops all jobs of the sweep, including those that appear meanwhile, and returns the last status of the newest. It continues after
// an error and returns all errors.
func Cancel(ctx context.Context, store blob.Store, jobs Jobs, p *sweep.Plan) (Status, error) {
	var last Status
	var failed []error
	for n := 0; ; n++ {
		records, err := Records(ctx, store, p) // read again each time: a job may have been added
		if err != nil {
			return last, errors.Join(append(failed, err)...)
		}
		if n > len(records) {
			last.Name = p.JobName(n - 1)
			return last, errors.Join(failed...)
		}

		if last, err = jobs.Cancel(ctx, p.JobName(n)); err != nil {
			failed = append(failed, fmt.Errorf("cancel job %s: %w", p.JobName(n), err))
		}
	}
}
