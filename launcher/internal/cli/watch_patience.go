package cli

import (
	"fmt"
	"time"

	"coppice/launcher/internal/sweepview"
	"coppice/sweep"
)

// StateMissing is the State of a job that Batch does not know.
const StateMissing = "not there"

// patience is how long a watcher has seen a sweep without a job that could go on with it.
type patience struct {
	ended   time.Time // since when the job has been finished, or missing; zero while it is neither
	missing int       // questions in a row to which there was no such job
}

// asked takes in one answer of Batch.
func (p *patience) asked(job JobStatus, now time.Time) {
	if !job.Finished {
		*p = patience{}
		return
	}
	if p.ended.IsZero() {
		p.ended = now
	}
	if p.missing++; job.State != StateMissing {
		p.missing = 0
	}
}

// lost is why there is nothing left to wait for, nil as long as there is. A missing job is given up soon where trials wait for it, and
// not where the aggregator has all that it needs to conclude.
func (p *patience) lost(id sweep.ID, st sweepview.State, job JobStatus, now time.Time) error {
	if p.missing >= missingFor && st.Board.Waiting > 0 && !st.Ending {
		return &MissingJobError{Sweep: id}
	}
	if p.ended.IsZero() || now.Sub(p.ended) <= concludeFor {
		return nil
	}
	what := "job " + job.State
	if job.Failure != "" {
		what += "; " + job.Failure
	}
	return fmt.Errorf("sweep %s: %w (%s)", id, errSilent, what)
}

// MissingJobError is a sweep with trials to train whose Batch job does not exist: it was deleted, or the local cloud, which forgets its
// jobs, was started anew.
type MissingJobError struct{ Sweep sweep.ID }

func (e *MissingJobError) Error() string {
	return fmt.Sprintf("sweep %s has trials left, but its job is not there (was the local cloud restarted?); `launcher sweep SWEEP.yaml --id %s` with the same file goes on with it, and keeps the finished trials", e.Sweep, e.Sweep)
}
