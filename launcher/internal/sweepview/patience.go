package sweepview

import (
	"fmt"
	"time"

	"coppice/internal/engine"
	"coppice/internal/problem"
	"coppice/internal/sweep"
	"coppice/launcher/internal/provision"
)

// How long a watcher waits for a conclusion after the job's end, and for a job that is not there.
const (
	// concludeFor is for an aggregator that has not begun to conclude.
	concludeFor = 3 * time.Minute
	// concludingFor is for one that has: evaluating 20,000 trees on 100,000 rows takes minutes on a busy machine.
	concludingFor = time.Hour
	// missingFor is how many times in a row the engine has to say that there is no job: right after its creation it may
	// not be visible yet.
	missingFor = 3
)

// JobWait tracks how long a watched sweep has had no job that could continue it.
type JobWait struct {
	ended   time.Time // since when the job has been finished or missing; zero if it is neither
	missing int       // number of consecutive answers that there is no such job
}

// Asked records one answer of the engine: the job's status at the time now. A job that has not finished starts all
// over.
func (p *JobWait) Asked(job provision.SweepJob, now time.Time) {
	if !job.Finished {
		*p = JobWait{}
		return
	}
	if p.ended.IsZero() {
		p.ended = now
	}
	p.missing++
	if job.State != engine.Gone {
		p.missing = 0
	}
}

// Lost returns why a watcher should stop waiting for the sweep's conclusion, nil if it should not: the engine has said
// missingFor times in a row that its job is gone while trials are left, the job has ended as its programs refused the
// plan, or the job ended longer ago than an aggregator needs and no conclusion has come. st and job are the sweep's
// state and the job's status at the time now.
func (p *JobWait) Lost(id sweep.ID, st State, job provision.SweepJob, now time.Time) error {
	if p.missing >= missingFor && st.Board.Waiting > 0 && !st.Ending {
		return fmt.Errorf("sweep %s has trials left, but its job is gone (was the local cloud restarted?); `launcher "+
			"sweep SWEEP.yaml --id %s` with the same file continues it, and keeps the finished trials", id, id)
	}
	if p.missing == 0 && !p.ended.IsZero() && st.Trouble != nil && st.Trouble.Refused && !st.Ending {
		return problem.New(problem.Environment, "sweep %s: %s; then start it again: nothing of it is lost", id,
			st.Trouble.Text)
	}

	// All trials may have ended: wait for the aggregator.
	patience := concludeFor
	if st.Ending {
		patience = concludingFor
	}
	if p.ended.IsZero() || now.Sub(p.ended) <= patience {
		return nil
	}
	what := "job " + string(job.State)
	if job.Failure != "" {
		what += "; " + job.Failure
	}
	return fmt.Errorf("sweep %s: its job has ended, but the sweep has no conclusion; is the aggregator running? "+
		"`aggregator reconcile` concludes it (%s)", id, what)
}
