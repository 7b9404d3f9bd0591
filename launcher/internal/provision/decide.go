// Package provision gets machines for a sweep: it submits the sweep's Batch job and, if its machines are not available
// within the spec's time, abandons that job and submits one on the next machines of the list.
//
// No process has to remember anything: that job n is current is recorded as an object of the sweep before any action,
// and everything else follows from the plan and from Batch. So launchers that were interrupted, or that run
// concurrently, continue in the same order and arrive at the same jobs. Trials are safe in any case, since tasks of all
// jobs claim them through the sweep's objects.
package provision

import (
	"fmt"
	"strings"
	"time"

	"coppice/internal/sweep"
)

// JobStatus is a job's state according to Batch.
type JobStatus struct {
	State    string           `json:"state"`
	Finished bool             `json:"finished"`
	Tasks    map[string]int64 `json:"tasks,omitempty"` // by state
	Failure  string           `json:"failure,omitempty"`

	Name    string      `json:"name,omitempty"`    // of the job
	Earlier []Abandoned `json:"earlier,omitempty"` // jobs of the sweep abandoned before it

	Created    time.Time `json:"-"` // zero if there is no such job
	Began      bool      `json:"-"` // at least one task has run
	NoCapacity string    `json:"-"` // the latest event saying that machines are not available
}

// Abandoned is an abandoned job of the sweep.
type Abandoned struct {
	Number int    `json:"-"`
	Job    string `json:"job"`
	Reason string `json:"reason"`
}

// decision is what to do about a job now.
type decision int

const (
	settled decision = iota // nothing more to decide
	wait                    // for machines
	move                    // to the next machines
)

// decide says what to do about the plan's job n and, if it is to be abandoned, why.
func decide(p *sweep.Plan, n int, s JobStatus, now time.Time) (decision, string) {
	switch {
	case n == p.LastJob(): // the last job waits as long as Batch allows
		return settled, ""
	case s.Began:
		return settled, ""
	case s.Finished && s.State == "FAILED" && s.NoCapacity != "":
		return move, "it failed: " + s.NoCapacity
	case s.Finished: // cancelled, deleted or broken: other machines would not help
		return settled, ""
	}

	limit := time.Duration(p.Spec.Machine.Wait)
	if (s.State != "QUEUED" && s.State != "SCHEDULED") || now.Sub(s.Created) < limit {
		return wait, ""
	}

	why := fmt.Sprintf("it was %s after %s", s.State, limit)
	if s.NoCapacity != "" {
		why += ": " + s.NoCapacity
	}
	return move, why
}

// Describe says what the plan's job n runs on.
func Describe(p *sweep.Plan, n int) string {
	m := p.Spec.Machine.Choice(n)
	kind := "on demand"
	if *m.Spot {
		kind = "Spot"
	}
	text := fmt.Sprintf("%s, %s", m.Type, kind)
	if len(m.Zones) > 0 {
		text += " in " + strings.Join(m.Zones, ", ")
	}
	return text
}
