// Package provision sees to it that a sweep gets machines: it submits the sweep's Batch job and, when its machines cannot be had
// within the spec's time, gives that job up and submits one on the next machines of the list.
//
// Nobody has to remember anything: that job number n has taken its turn is an object of the sweep, created before anything is
// done about it, and everything else follows from the plan and from what Batch says. So a launcher that was interrupted, or
// several at once, go on in the same order and come to the same jobs. Trials are safe whatever happens here, since tasks of
// any job claim them through the sweep's objects.
package provision

import (
	"fmt"
	"strings"
	"time"

	"coppice/sweep"
)

// Status is what Batch says of a job.
type Status struct {
	State    string           `json:"state"`
	Finished bool             `json:"finished"`
	Tasks    map[string]int64 `json:"tasks,omitempty"` // by state
	Failure  string           `json:"failure,omitempty"`

	Name    string    `json:"name,omitempty"`    // of the job
	Earlier []Earlier `json:"earlier,omitempty"` // jobs of the sweep that were given up before it

	Created    time.Time `json:"-"` // zero when there is no such job
	Began      bool      `json:"-"` // any of its tasks has run
	NoCapacity string    `json:"-"` // the newest event that says that machines cannot be had
}

// Earlier is a job of the sweep that was given up.
type Earlier struct {
	Job    string `json:"job"`
	Reason string `json:"reason"`
}

// decision is what is to be done about a job now.
type decision int

const (
	settled decision = iota // nothing will be decided any more
	wait                    // for machines
	move                    // to the next machines
)

// decide says what is to be done about the plan's job number n, and why, when it is to be given up.
func decide(p *sweep.Plan, n int, s Status, now time.Time) (decision, string) {
	switch {
	case n >= len(p.Fallback): // the last one waits as long as Batch lets it
		return settled, ""
	case s.Began:
		return settled, ""
	case s.Finished && s.State == "FAILED" && s.NoCapacity != "":
		return move, "it failed: " + s.NoCapacity
	case s.Finished: // cancelled or deleted by somebody, or broken: other machines would not help
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

// Describe says in words what the plan's job number n runs on.
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
