package sweep

import (
	"fmt"
	"strings"
	"time"
)

// JobRecord is a Batch job of a sweep after its first, submitted because the machines of the previous job were not available. It is written
// create-only before the previous job is cancelled and its own is submitted, so that any process that continues after a crash, or
// concurrently, does the same.
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
	var r JobRecord
	if err := decode("job record", data, &r, func() int { return r.Format }); err != nil {
		return nil, err
	}
	if r.Sweep != p.Sweep || r.Number != n || n < 1 || n > len(p.Fallback) || r.Job != p.JobName(n) || len(r.Reason) > maxReason {
		return nil, &DecodeError{"job record", fmt.Errorf("number %d of sweep %.80q, job %.200q", r.Number, r.Sweep, r.Job)}
	}
	return &r, nil
}

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
	placed.Job, placed.Spec.Machine, placed.Sizing = p.JobName(n), p.Spec.Machine.Choice(n), p.Fallback[n-1]
	return &placed
}
