// Package provision gets machines for a sweep: it submits the sweep's Batch job and, if its machines are not available
// within the spec's time, abandons that job and submits one on the next machines of the list.
//
// No process has to remember anything: that job n is current is recorded as an object of the sweep before any action,
// and everything else follows from the plan and from Batch. So launchers that were interrupted, or that run
// concurrently, continue in the same order and arrive at the same jobs. Trials are safe in any case, since tasks of all
// jobs claim them through the sweep's objects.
package provision

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"coppice/internal/cloud"
	"coppice/internal/engine"
	"coppice/internal/protocol"
	"coppice/internal/sweep"
)

// SweepJob is the status of a sweep's current job.
type SweepJob struct {
	engine.JobStatus
	Finished bool        `json:"finished"`          // and so have the jobs before it
	Name     string      `json:"name,omitempty"`    // of the job
	Earlier  []Abandoned `json:"earlier,omitempty"` // jobs of the sweep abandoned before it

	Machines *Machines `json:"machines,omitempty"` // nil of a job that has ended
}

// Machines says of a job that has not ended how many of its machines run, and why the others do not.
type Machines struct {
	Running int       `json:"running"`
	Planned int       `json:"planned"`
	Since   time.Time `json:"since"`          // when they were asked for
	Why     string    `json:"why,omitempty"`  // some are missing, in the latest words of the engine
	Said    time.Time `json:"said,omitzero"`  // when it used them; zero: now
	Next    string    `json:"next,omitempty"` // what happens if they do not come
}

// countPresent returns how many of its machines the plan's job n has, whose status is s: those on which its tasks are
// that do not wait. A job in which no task has begun has none.
func countPresent(p *sweep.Plan, n int, s engine.JobStatus) int {
	if !s.Began {
		return 0
	}
	z := p.Placed(n).Sizing
	return z.Machines(s.Tasks.Waiting)
}

// describeMachines says how many machines the plan's job n has, whose status is s. If some are missing, it also says
// why and what happens if they do not come: the launcher replaces them, or they are waited for.
func describeMachines(p *sweep.Plan, n int, s engine.JobStatus) *Machines {
	z := p.Placed(n).Sizing
	m := &Machines{Running: countPresent(p, n, s), Planned: z.Machines(0), Since: s.Created, Said: s.Lacked}
	if m.Running == m.Planned {
		return m
	}

	// Why some are missing.
	m.Why = s.Lacks
	if strings.Contains(strings.ToLower(m.Why), "quota") {
		m.Why += "; `launcher doctor SWEEP.yaml` says what to ask for"
	}

	// What comes next; this has to agree with decide.
	switch {
	case !enough(p, n, s) && n < p.LastJob():
		wait, until := time.Duration(p.Spec.Machine.Wait), "on"
		if s.Began {
			until = fmt.Sprintf("to %s, and not later", clock(s.Created.Add(2*wait)))
		}
		m.Next = fmt.Sprintf("From %s %s, the launcher replaces them by %s", clock(s.Created.Add(wait)), until,
			Describe(p, n+1))
	case m.Running == 0:
		m.Next = fmt.Sprintf("They are still asked for; without any, the sweep ends about %s",
			clock(p.Created.Add(time.Duration(p.Spec.Limits.Sweep)+protocol.ClocksApart)))
	default:
		m.Next = "They are still asked for; those that are there train meanwhile"
	}
	return m
}

// clock formats a time, in UTC and to the minute.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

// String says how many of them there are and, if some are missing, since when, why, and what happens next.
func (m *Machines) String() string {
	text := fmt.Sprintf("%d of %d", m.Running, m.Planned)
	if m.Next == "" {
		return text
	}
	return fmt.Sprintf("%s, asked for %s: %s. %s", text, clock(m.Since), cmp.Or(m.Why, "no reason is given yet"),
		m.Next)
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

// enough reports whether the plan's job n, whose status is s, continues with the machines that it has: with at least
// half of them or, if the quota of all regions is used up, with any, since other machines would meet that quota as
// well. Otherwise decide replaces the job by the next one, which starts only once this one has ended, so that never two
// cost money at the same time. Trials continue from their checkpoints. Half is a choice: what half of the machines
// train is worth more than the other half would be after a new start.
func enough(p *sweep.Plan, n int, s engine.JobStatus) bool {
	z, present := p.Placed(n).Sizing, countPresent(p, n, s)
	return 2*present >= z.Machines(0) || present > 0 && strings.Contains(s.Lacks, cloud.CPUsAllRegions)
}

// decide says what to do about the plan's job n, whose status is s at the time now: nothing (settled), wait for
// machines, or move to the next job, and then why. A job is abandoned if it has failed without a machine, or does not
// have enough machines after the spec's time (machine.wait). It is left alone if it has run and ended, or lacks
// machines only after twice that time: then it has lost them, and the engine brings others.
func decide(p *sweep.Plan, n int, s engine.JobStatus, now time.Time) (decision, string) {
	switch {
	case n == p.LastJob(): // the last job waits as long as it may
		return settled, ""
	case s.State == engine.Failed && !s.Began && s.Lacks != "":
		return move, "it failed: " + s.Lacks
	case s.State.Ended(): // it ran, or was cancelled, deleted or broken: other machines would not help
		return settled, ""
	}

	limit := time.Duration(p.Spec.Machine.Wait)
	if enough(p, n, s) || s.Began && now.Sub(s.Created) >= 2*limit {
		return settled, ""
	}
	// A job that is stopping, or whose state the engine does not tell, is looked at again.
	if s.State == engine.Stopping || s.State == "" || now.Sub(s.Created) < limit {
		return wait, ""
	}

	why := fmt.Sprintf("it was %s after %s", s.State, limit)
	if m := describeMachines(p, n, s); m.Running > 0 {
		why = fmt.Sprintf("it had %d of %d machines after %s", m.Running, m.Planned, limit)
	}
	if s.Lacks != "" {
		why += ": " + s.Lacks
	}
	return move, why
}

// Describe says what the plan's job n runs on: machine type, Spot or on demand, and zones.
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
