package cli

import (
	"fmt"
	"time"

	"coppice/internal/sweep"
	"coppice/launcher/internal/sweepview"
)

// StateMissing is the State of a job that Batch does not know.
const StateMissing = "not there"

// patience tracks how long a watched sweep has had no job that could continue it.
type patience struct {
	ended   time.Time // since when the job has been finished or missing; zero if it is neither
	missing int       // number of consecutive answers that there is no such job
}

// asked records one answer of Batch.
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

// lost is the reason to stop waiting, nil if there is none. A missing job is soon given up if trials wait for it, but
// not if the aggregator has everything it needs to conclude.
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

// MissingJobError reports a sweep with trials to train whose Batch job does not exist: it was deleted, or the local
// cloud, which forgets its jobs, was restarted.
type MissingJobError struct{ Sweep sweep.ID }

func (e *MissingJobError) Error() string {
	return fmt.Sprintf("sweep %s has trials left, but its job is gone (was the local cloud restarted?); `launcher "+
		"sweep SWEEP.yaml --id %s` with the same file continues it, and keeps the finished trials", e.Sweep, e.Sweep)
}
