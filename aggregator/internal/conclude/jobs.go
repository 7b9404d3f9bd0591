package conclude

import (
	"context"
	"fmt"
	"time"

	"github.com/dustin/go-humanize/english"

	"coppice/internal/engine"
	"coppice/internal/ledger"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// Jobs tells whether a job will still run tasks.
type Jobs interface {
	// Status returns the job's status; that of a missing job is Gone.
	Status(ctx context.Context, job string) (engine.JobStatus, error)
}

// submission is how long after it was recorded a job may still be unknown to its engine.
const submission = 10 * time.Minute

// jobHistory reads a sweep's jobs. Each is read once, on first use, so that all parts of a decision use the same
// reading and the engine is asked only once.
type jobHistory struct {
	a    *Aggregator
	plan *sweep.Plan
	run  *sweepstore.Course // the jobs after the first, as they were recorded; nil before it is read
	read map[int]*pastJob   // by number
}

// pastJob is a job that was recorded for the sweep.
type pastJob struct {
	since time.Time // when it was recorded
	state engine.JobStatus
}

// readCourse returns which jobs have been recorded, which it reads once.
func (t *jobHistory) readCourse(ctx context.Context) (sweepstore.Course, error) {
	if t.run == nil {
		c, err := t.a.sweep(t.plan.Sweep).Course(ctx, t.plan)
		if err != nil {
			return nil, err
		}
		t.run = &c
	}
	return *t.run, nil
}

// loadJob returns job n, whose status it asks the engine for once. since is when the job was recorded.
func (t *jobHistory) loadJob(ctx context.Context, n int, since time.Time) (*pastJob, error) {
	if j := t.read[n]; j != nil {
		return j, nil
	}
	state, err := t.a.Jobs.Status(ctx, t.plan.JobName(n))
	if err != nil {
		return nil, err
	}
	if t.read == nil {
		t.read = map[int]*pastJob{}
	}
	t.read[n] = &pastJob{since, state}
	return t.read[n], nil
}

// eachJob calls use for every recorded job, oldest first, until it returns false. The first job is recorded with the
// plan.
func (t *jobHistory) eachJob(ctx context.Context, use func(n int, j *pastJob) bool) error {
	course, err := t.readCourse(ctx)
	if err != nil {
		return err
	}
	for i, n := range course.Numbers() {
		since := t.plan.Created
		if i > 0 { // the course has the records of the jobs after the first
			since = course[i-1].At
		}
		j, err := t.loadJob(ctx, n, since)
		if err != nil || !use(n, j) {
			return err
		}
	}
	return nil
}

// haveEnded reports whether no job of the sweep will run tasks any more, and the state of the newest one. A sweep has
// several jobs if the machines of the first were not available, or too few: the launcher then submits another for the
// next type of machine. So while the newest job has got no machine and there are types left to try, another job may
// come.
func (t *jobHistory) haveEnded(ctx context.Context) (ended bool, state engine.Phase, err error) {
	// Is a job alive? If not, newest is the last one that was recorded, and last its number.
	p, now := t.plan, t.a.Now()
	last, newest, lives := 0, pastJob{since: p.Created}, false
	err = t.eachJob(ctx, func(n int, j *pastJob) bool {
		last, newest, lives = n, *j, !j.state.State.Ended()
		if j.state.State == engine.Gone { // an engine may learn of a job some time after it was recorded
			lives = now.Sub(j.since) < submission
		}
		return !lives
	})
	if err != nil || lives {
		return false, "", err
	}

	// If there are machines left to try, the next job is not recorded. It will not be, once the newest has begun
	// or the launcher is overdue.
	overdue := now.Sub(newest.since) >= time.Duration(p.Spec.Machine.Wait)+submission
	return last == p.LastJob() || newest.state.Began || overdue, newest.state.State, nil
}

// missingMachines says that the newest job lacked machines, and why, in parentheses. It is empty if the job lacked
// none. If the engine cannot be asked, it may be empty, too: a sweep ends without that reason.
func (t *jobHistory) missingMachines(ctx context.Context) (why string) {
	_ = t.eachJob(ctx, func(_ int, j *pastJob) bool {
		switch s := j.state; {
		case s.Lacks == "" || s.Began && s.Tasks.Waiting == 0:
			why = "" // whatever an older job lacked: the newest comes last, and counts
		case s.Began:
			why = fmt.Sprintf(" (%s had no machine: %s)", english.Plural(s.Tasks.Waiting, "task", ""), s.Lacks)
		default:
			why = fmt.Sprintf(" (no machine came: %s)", s.Lacks)
		}
		return true
	})
	return why
}

// minimumUsage lists the jobs that began, each with the period during which it had machines: these cost money whether
// or not they claim a trial. A job that the engine does not know any more is not listed.
func (t *jobHistory) minimumUsage(ctx context.Context) (usage []ledger.MinimumUsage, err error) {
	err = t.eachJob(ctx, func(n int, j *pastJob) bool {
		if j.state.Began {
			usage = append(usage, ledger.MinimumUsage{Job: n, Submitted: j.since, Began: j.state.From,
				Ended: j.state.To, Waiting: j.state.Tasks.Waiting})
		}
		return true
	})
	return usage, err
}
