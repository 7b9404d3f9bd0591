package sweep

import (
	"fmt"
	"strings"
	"time"
)

// MaxHalts bounds how many times a sweep may be paused.
const MaxHalts = 20

// Halt pauses a sweep: it is written before anything else, and what matters is that it is there. The tasks of all jobs
// before it leave.
type Halt struct {
	Format int       `json:"format"`
	Sweep  ID        `json:"sweep"`
	Number int       `json:"number"` // from 1
	At     time.Time `json:"at"`

	Written
}

// JobRecord is a Batch job of a sweep after its first, submitted because the machines of the previous job were not
// available. It is written create-only before the previous job is cancelled and its own is submitted, so that any
// process that continues after a crash, or concurrently, does the same.
type JobRecord struct {
	Format int       `json:"format"`
	Sweep  ID        `json:"sweep"`
	Number int       `json:"number"` // from 1; Plan.Placed(Number) has its machines
	Job    string    `json:"job"`    // projects/P/locations/L/jobs/ID
	Reason string    `json:"reason"` // why the previous job was abandoned
	At     time.Time `json:"at"`

	Written
}

// DecodeJobRecord decodes the record of job n of the plan's sweep.
func DecodeJobRecord(data []byte, p *Plan, n int) (*JobRecord, error) {
	return decode("job record", data, func(r *JobRecord) error {
		if r.Sweep != p.Sweep || r.Number != n || n < 1 || n > p.LastJob() || r.Job != p.JobName(n) ||
			len(r.Reason) > maxReason {
			return fmt.Errorf("number %d of sweep %.80q, job %.200q", r.Number, r.Sweep,
				r.Job)
		}
		return nil
	})
}

// A sweep's jobs are numbered from 0: the one on its machine, those on its fallbacks in turn, and then from the
// beginning again after each pause. Numbers that were not needed have no job.

// Turn is how many pauses came before job n.
func (p *Plan) Turn(n int) int { return n / (len(p.Fallback) + 1) }

// Choice is which of the sweep's machines job n is for: 0 for Spec.Machine, and then the fallbacks.
func (p *Plan) Choice(n int) int { return n % (len(p.Fallback) + 1) }

// FirstJob is the first job after that many pauses.
func (p *Plan) FirstJob(turn int) int { return turn * (len(p.Fallback) + 1) }

// LastChoice reports whether no machine is left to try after job n.
func (p *Plan) LastChoice(n int) bool { return p.Choice(n) == len(p.Fallback) }

// LastJob is the highest number that a job may have.
func (p *Plan) LastJob() int { return p.FirstJob(MaxHalts+1) - 1 }

// JobName is the full name of job n.
func (p *Plan) JobName(n int) string {
	return p.Job[:strings.LastIndexByte(p.Job, '/')+1] + string(p.Sweep.JobID(n))
}

// Placed returns the plan with the machines of job n. Number 0 is the plan itself.
func (p *Plan) Placed(n int) *Plan {
	if n == 0 {
		return p
	}
	placed := *p
	placed.Job = p.JobName(n)
	if choice := p.Choice(n); choice > 0 {
		placed.Spec.Machine, placed.Sizing = p.Spec.Machine.Choice(choice), p.Fallback[choice-1]
	}
	return &placed
}
