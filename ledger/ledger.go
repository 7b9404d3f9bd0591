// Package ledger reckons what a sweep has cost, at the price that was written down when it was planned. A Reader takes it from the sweep's
// own objects alone: claims say when a task took a trial, on which host; heartbeats and results say until when it lived. `launcher bill`
// shows that. The aggregator holds a budget against no less than AtLeast makes of it: for each job, as Batch says when it ran, all its planned
// machines.
//
// What cannot be seen in the objects is assumed, and said: a machine runs from the plan's lead time before its first claim (starting,
// copying the dataset) to its last sign of life. Machines at one moment are as many as the hosts that are alive then, or as the tasks
// that are alive need, whichever is more, and never more than the plan's: hosts may share a name, and tasks of one machine may each
// have their own. So a forged or damaged object cannot make the sum larger than all machines from the plan's first second to now, or to
// the sweep's end; and a claim names a fallback's job in vain as long as that job has not been written down.
package ledger

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"coppice/sweep"
)

// End is how an attempt at a trial ended, as far as the objects say.
type End string

// The ways in which an attempt ends.
const (
	Finished End = "finished" // it wrote the trial's result
	Running  End = "running"  // it gave a sign of life within the takeover time
	Released End = "released" // it had to go and gave the trial back
	Lost     End = "lost"     // another attempt took the trial over
	Silent   End = "silent"   // it gives no sign of life, and nobody has taken the trial over
)

// Attempt is one claim of a trial.
type Attempt struct {
	Trial   int       `json:"trial"`
	Claim   int       `json:"claim"`
	Job     int       `json:"job"` // number of the sweep's Batch job
	Task    int       `json:"task"`
	Attempt int       `json:"attempt"` // of the task
	Host    string    `json:"host"`
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
	End     End       `json:"end"`
	Trees   int       `json:"trees"` // when last heard of
}

// Seconds is how long the attempt lasted.
func (a Attempt) Seconds() float64 { return a.To.Sub(a.From).Seconds() }

// Ledger is what a sweep has used at one moment.
type Ledger struct {
	From           time.Time `json:"from"` // when the first machine is taken to have started
	To             time.Time `json:"to"`   // the last sign of life
	MachineSeconds float64   `json:"machine_seconds"`
	LeadSeconds    float64   `json:"lead_seconds"` // of them, before machines' first claims
	Cost           float64   `json:"cost"`         // USD at the plan's prices; 0 where they are not known
	LeadCost       float64   `json:"lead_cost"`    // of it, before machines' first claims
	Jobs           []int     `json:"jobs"`         // numbers of the Batch jobs that did something, ascending
	Machines       int       `json:"machines"`     // at once, at most
	Attempts       []Attempt `json:"attempts"`     // by trial and claim
	Unreadable     int       `json:"unreadable,omitempty"`

	seconds map[int]float64 // of machines, by job
	most    map[int]int     // machines at once, by job
}

// MachinesOf is how many machines the sweep's job number n had at once, at most.
func (l *Ledger) MachinesOf(n int) int { return l.most[n] }

// claimed is what the objects say of one claim.
type claimed struct {
	claim    sweep.Claim
	beat     sweep.Heartbeat // zero before the first
	released bool
}

// clock is what the ledger knows of the time.
type clock struct {
	now    time.Time
	latest time.Time // nothing of the sweep lived after
}

// clock is the time now, and the latest at which anything of a sweep that was concluded at the time ended can have lived: whoever has not
// stopped a takeover time later is dead. Without an end that is now.
func (r *Reader) clock(now time.Time) clock {
	if last := r.Ended.Add(time.Duration(r.Plan.Takeover)); !r.Ended.IsZero() && last.Before(now) {
		return clock{now, last}
	}
	return clock{now, now}
}

// fold makes the ledger of a plan at a time. It depends on nothing else: neither on the order of claims and results nor on
// repetitions.
func fold(p *sweep.Plan, claims []claimed, results map[int]sweep.Result, when clock) Ledger {
	slices.SortFunc(claims, func(a, b claimed) int {
		return cmp.Or(cmp.Compare(a.claim.Trial, b.claim.Trial), cmp.Compare(a.claim.Claim, b.claim.Claim))
	})
	var l Ledger
	for i, c := range claims {
		last := i+1 == len(claims) || claims[i+1].claim.Trial != c.claim.Trial
		l.Attempts = append(l.Attempts, attempt(p, c, last, results, when))
	}
	l.count(p)
	return l
}

// attempt says how long a claim lasted. Times outside the plan's life are nobody's: clocks differ a little, forgers more.
func attempt(p *sweep.Plan, c claimed, last bool, results map[int]sweep.Result, when clock) Attempt {
	within := func(t time.Time) time.Time {
		if t.Before(p.Created) {
			return p.Created
		}
		if t.After(when.latest) {
			return when.latest
		}
		return t
	}

	a := Attempt{Trial: c.claim.Trial, Claim: c.claim.Claim, Job: p.JobNumber(c.claim.Job), Task: c.claim.Task, Attempt: c.claim.Attempt, Host: c.claim.Host, Trees: c.beat.Trees, From: within(c.claim.At)}
	a.To = a.From
	if beat := within(c.beat.At); beat.After(a.To) {
		a.To = beat
	}
	r, ended := results[a.Trial]
	switch {
	// Who gives a dead claim's trial up writes its number, but as another task.
	case ended && r.Claim == a.Claim && r.Task == a.Task && r.Attempt == a.Attempt:
		a.End, a.Trees = Finished, r.TreesGrown
		if end := within(r.Ended); end.After(a.To) {
			a.To = end
		}
	case c.released:
		a.End = Released
	case !last || ended:
		a.End = Lost
	case when.now.Sub(a.To) < time.Duration(p.Takeover):
		a.End, a.To = Running, when.latest
	default:
		a.End = Silent
	}

	return a
}

// span is a time in which something was alive.
type span struct {
	from, to time.Time
	start    time.Time // of the first trial: from is the lead before it
}

// count adds up the machines of every job. A job has machines of its own, at a price of its own.
func (l *Ledger) count(p *sweep.Plan) {
	by := map[int][]Attempt{}
	l.seconds, l.most = map[int]float64{}, map[int]int{}
	for _, a := range l.Attempts {
		by[a.Job] = append(by[a.Job], a)
	}

	for _, n := range slices.Sorted(maps.Keys(by)) {
		u := machines(p, p.Placed(n).Sizing, by[n])
		hourly, _ := p.Price(n)
		l.Jobs = append(l.Jobs, n)
		l.Machines = max(l.Machines, u.most)
		l.MachineSeconds += u.seconds
		l.seconds[n], l.most[n] = u.seconds, u.most
		l.LeadSeconds += u.lead
		l.Cost += u.seconds / 3600 * hourly
		l.LeadCost += u.lead / 3600 * hourly
		if l.From.IsZero() || u.from.Before(l.From) {
			l.From = u.from
		}
		if u.to.After(l.To) {
			l.To = u.to
		}
	}
}

// used is what one job's machines did.
type used struct {
	from, to      time.Time
	seconds, lead float64
	most          int // at once
}

// machines counts those of one job. Hosts and tasks are alive from their first claim, or the lead time before it, to their last sign
// of life.
func machines(p *sweep.Plan, z sweep.Sizing, attempts []Attempt) (u used) {
	lead := leadTime(p)
	type task struct{ index, attempt int }
	hosts, tasks := map[string]span{}, map[task]span{}
	for _, a := range attempts {
		from := a.From.Add(-lead)
		if from.Before(p.Created) {
			from = p.Created
		}
		s := span{from, a.To, a.From}
		extend(hosts, a.Host, s)
		extend(tasks, task{a.Task, a.Attempt}, s)
	}

	events := changes(hosts, tasks)
	u.from, u.to = events[0].at, events[len(events)-1].at
	perVM, vms := max(z.TasksPerVM, 1), max(z.VMs, 1)
	host, alive, starting := 0, 0, 0
	for i, e := range events {
		if i > 0 {
			machines := min(max(host, (alive+perVM-1)/perVM), vms)
			if seconds := e.at.Sub(events[i-1].at).Seconds(); seconds > 0 {
				u.most = max(u.most, machines)
				u.seconds += float64(machines) * seconds
				u.lead += float64(min(starting, machines)) * seconds
			}
		}
		host, alive, starting = host+e.hosts, alive+e.tasks, starting+e.starting
	}

	return u
}

// leadTime is how long a machine is taken to run before its first claim.
func leadTime(p *sweep.Plan) time.Duration {
	if p.Quote == nil {
		return 0
	}
	return time.Duration(p.Quote.LeadTime.Expected * float64(time.Second))
}

// changes are the moments at which a host or a task begins or ends, in order.
func changes[K comparable](hosts map[string]span, tasks map[K]span) []event {
	var events []event
	for _, s := range hosts {
		events = append(events, event{s.from, 1, 0, 0}, event{s.to, -1, 0, 0}, event{s.from, 0, 0, 1}, event{s.start, 0, 0, -1})
	}
	for _, s := range tasks {
		events = append(events, event{s.from, 0, 1, 0}, event{s.to, 0, -1, 0})
	}
	slices.SortFunc(events, func(a, b event) int { return a.at.Compare(b.at) })
	return events
}

// event is a change of how many are alive.
type event struct {
	at                     time.Time
	hosts, tasks, starting int
}

func extend[K comparable](all map[K]span, key K, s span) {
	have, ok := all[key]
	if !ok {
		all[key] = s
		return
	}
	if s.from.Before(have.from) {
		have.from, have.start = s.from, s.start
	}
	if s.to.After(have.to) {
		have.to = s.to
	}
	all[key] = have
}

// Exceeds says whether the sweep has to be stopped so as not to cost more than budget: what it has cost, and what its machines cost
// until everybody has stopped, is that much.
func (l *Ledger) Exceeds(p *sweep.Plan, budget float64) bool {
	return p.Quote != nil && l.Cost+p.Quote.ReserveCost() >= budget
}
