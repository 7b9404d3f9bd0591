// Package ledger calculates what a sweep has cost, at the prices recorded when it was planned. A Reader uses only the
// sweep's own objects: claims say when a task took a trial, and on which host; heartbeats and results say until when it
// lived. `launcher bill` shows the result. For its budget, the aggregator uses at least the amount of AtLeast: for each
// job, the machines that it has according to Batch.
//
// What the objects do not show is assumed: a machine runs from the plan's lead time before its first claim (starting,
// copying the dataset) to its last sign of life. The number of machines at any moment is that of the live hosts, or the
// number needed for the live tasks, whichever is larger, but at most the plan's: hosts may share a name, and tasks of
// one machine may report different ones. Of a final training by several machines, those that were seen alive last are
// taken to have waited for it and taken part to its end. So a forged or damaged object cannot raise the sum above that
// of all machines from the plan's first second to now, or to the sweep's end; and a claim that names a fallback's job
// is ignored until that job is recorded.
package ledger

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"coppice/internal/sweep"
)

// End is how an attempt at a trial ended, according to the objects.
type End string

// The ways in which an attempt ends.
const (
	Finished End = "finished" // it wrote the trial's result
	Running  End = "running"  // its last sign of life is within the takeover time
	Released End = "released" // it had to stop and released the trial
	Paused   End = "paused"   // it released the trial because that had to wait at a rung
	Lost     End = "lost"     // another attempt took the trial over
	Silent   End = "silent"   // no sign of life, and the trial was not taken over
)

// Attempt is one claim of a trial: one task's work on it, from the claim to the last sign of life.
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
	Trees   int       `json:"trees"` // at its last sign of life

	alone bool // a training that one machine finished, though it may have been meant for several
}

// Seconds returns how long the attempt lasted.
func (a Attempt) Seconds() float64 { return a.To.Sub(a.From).Seconds() }

// Ledger is a sweep's usage at one moment.
type Ledger struct {
	From           time.Time `json:"from"` // estimated start of the first machine
	To             time.Time `json:"to"`   // the last sign of life
	MachineSeconds float64   `json:"machine_seconds"`
	LeadSeconds    float64   `json:"lead_seconds"` // part of the above, before machines' first claims
	Cost           float64   `json:"cost"`         // USD at the plan's prices; 0 if unknown
	LeadCost       float64   `json:"lead_cost"`    // part of the cost, before machines' first claims
	Jobs           []int     `json:"jobs"`         // numbers of the Batch jobs in use, ascending
	Machines       int       `json:"machines"`     // most at once
	Attempts       []Attempt `json:"attempts"`     // sorted by trial and claim
	Unreadable     int       `json:"unreadable,omitempty"`

	seconds map[int]float64 // of machines, by job
	most    map[int]int     // most machines at once, by job
}

// MachinesOf returns the most machines that job n had at once.
func (l *Ledger) MachinesOf(n int) int { return l.most[n] }

// claimed is what the objects of a sweep say about one claim.
type claimed struct {
	claim    sweep.Claim
	beat     sweep.Heartbeat // zero before the first
	released bool            // its task gave the trial up
	paused   bool            // its task released the trial because that had to wait for others
}

// clock has the current time, and the latest time at which anything of the sweep can have been alive.
type clock struct {
	now    time.Time
	latest time.Time // nothing of the sweep was alive after this
}

// clockAt returns the clock for the current time. While the sweep has not ended, both times are now. Once it has, a
// task lives at most one takeover time longer, since it notices the end or is taken for dead by then.
func (r *Reader) clockAt(now time.Time) clock {
	last := r.Ended.Add(time.Duration(r.Plan.Takeover))
	if r.Ended.IsZero() || now.Before(last) {
		last = now
	}
	return clock{now: now, latest: last}
}

// makeLedger makes the ledger of a plan from its claims and results. It depends on nothing else, and not on the order
// of the claims, which it sorts in place.
func makeLedger(p *sweep.Plan, claims []claimed, results map[int]sweep.Result, when clock) Ledger {
	slices.SortFunc(claims, func(a, b claimed) int {
		return cmp.Or(cmp.Compare(a.claim.Trial, b.claim.Trial), cmp.Compare(a.claim.Claim, b.claim.Claim))
	})
	var l Ledger
	for i, c := range claims {
		last := i+1 == len(claims) || claims[i+1].claim.Trial != c.claim.Trial
		l.Attempts = append(l.Attempts, attempt(p, c, last, results, when))
	}
	l.addMachines(p)
	return l
}

// attempt returns how a claim's attempt ended and how long it lasted. last says that the trial has no later claim.
// Times before the plan or after when.latest are moved to these bounds, since clocks differ slightly and objects may be
// forged.
func attempt(p *sweep.Plan, c claimed, last bool, results map[int]sweep.Result, when clock) Attempt {
	clip := func(t time.Time) time.Time {
		if t.Before(p.Created) {
			return p.Created
		}
		if t.After(when.latest) {
			return when.latest
		}
		return t
	}

	a := Attempt{Trial: c.claim.Trial, Claim: c.claim.Claim, Job: p.JobNumber(c.claim.Job), Task: c.claim.Task,
		Attempt: c.claim.Attempt, Host: c.claim.Host, Trees: c.beat.Trees, From: clip(c.claim.At)}
	a.To = a.From
	if beat := clip(c.beat.At); beat.After(a.To) {
		a.To = beat
	}

	// A result ends the attempt only if its task wrote it. A task that gives a trial up for a dead one writes the
	// result with the dead task's claim, but with its own task number.
	r, ended := results[a.Trial]
	switch {
	case ended && r.Claim == a.Claim && r.Task == a.Task && r.Attempt == a.Attempt:
		a.End, a.Trees, a.alone = Finished, r.TreesGrown, r.Usage.Machines == 1
		if end := clip(r.Ended); end.After(a.To) {
			a.To = end
		}
	case c.paused: // such a claim is released, too
		a.End = Paused
	case c.released:
		a.End = Released
	case !last || ended: // a later claim, or the result of another task
		a.End = Lost
	case when.now.Sub(a.To) < time.Duration(p.Takeover): // it is taken to be alive until now
		a.End, a.To = Running, when.latest
	default:
		a.End = Silent
	}

	return a
}

// span is a period in which a host or a task was alive.
type span struct {
	from, to time.Time
	start    time.Time // of the first claim; the time before it is the lead
}

// addMachines adds up the machines of all jobs from l.Attempts. Each job has its own machines at its own price.
func (l *Ledger) addMachines(p *sweep.Plan) {
	by := map[int][]Attempt{}
	l.seconds, l.most = map[int]float64{}, map[int]int{}
	for _, a := range l.Attempts {
		by[a.Job] = append(by[a.Job], a)
	}

	for _, n := range slices.Sorted(maps.Keys(by)) {
		u := countMachines(p, p.Placed(n).Sizing, by[n])
		hourly, _ := p.Price(n) // 0 if it is not known; whether it is a spot price does not matter
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

// used is the usage of one job's machines: when the first began and the last ended, machine-seconds in all and before
// machines' first claims, and the most machines at once.
type used struct {
	from, to      time.Time
	seconds, lead float64
	most          int // at once
}

// countMachines computes the usage of one job with the sizing z from its attempts, of which there is at least one.
// Hosts and tasks are alive from the lead time before their first claim to their last sign of life. At any moment, the
// number of machines is that of the hosts, or that needed for the tasks if this is larger, but at most the job's.
func countMachines(p *sweep.Plan, z sweep.Sizing, attempts []Attempt) (u used) {
	// Find the spans of hosts and tasks.
	lead := leadTime(p)
	type task struct{ index, attempt int }
	hosts, tasks := map[string]span{}, map[task]span{}
	for _, a := range attempts {
		from := a.From.Add(-lead)
		if from.Before(p.Created) {
			from = p.Created
		}
		s := span{from: from, to: a.To, start: a.From}
		extendSpan(hosts, a.Host, s)
		extendSpan(tasks, task{a.Task, a.Attempt}, s)
	}
	keepAssistantsAlive(p, hosts, attempts)

	// Between two events the numbers of hosts, tasks and starting hosts are constant.
	events := listChanges(hosts, tasks)
	u.from, u.to = events[0].at, events[len(events)-1].at
	perVM, vms := max(z.TasksPerVM, 1), max(z.VMs, 1)
	liveHosts, liveTasks, starting := 0, 0, 0
	for i, e := range events {
		if i > 0 {
			machines := min(max(liveHosts, (liveTasks+perVM-1)/perVM), vms)
			if seconds := e.at.Sub(events[i-1].at).Seconds(); seconds > 0 {
				u.most = max(u.most, machines)
				u.seconds += float64(machines) * seconds
				u.lead += float64(min(starting, machines)) * seconds
			}
		}
		liveHosts, liveTasks, starting = liveHosts+e.hosts, liveTasks+e.tasks, starting+e.starting
	}

	return u
}

// keepAssistantsAlive extends the spans of hosts that may take part in a final training by several machines to its end.
// The machine that leads the training makes the only claim; the others wait for it and write no objects. They are taken
// to be the other hosts that were seen alive last, as many as the spec wants. attempts are those of one job.
func keepAssistantsAlive(p *sweep.Plan, hosts map[string]span, attempts []Attempt) {
	final, ok := p.Final()
	wanted := p.Spec.FinalMachines() - 1
	if !ok || wanted < 1 {
		return
	}

	// The hosts that claimed the final trial, and how long others waited for it.
	trainers, end := map[string]bool{}, time.Time{}
	for _, a := range attempts {
		if a.Trial == final {
			trainers[a.Host] = true
			until := a.To

			// If one machine finished alone, the others tried to join for a takeover time, idled for another, and left.
			if patience := a.From.Add(2 * time.Duration(p.Takeover)); a.alone && patience.Before(until) {
				until = patience
			}
			if until.After(end) {
				end = until
			}
		}
	}
	if len(trainers) == 0 {
		return
	}

	// Extend the other hosts that were seen alive last. Of equals take the first by name, so that the result is always
	// the same.
	others := slices.DeleteFunc(slices.Collect(maps.Keys(hosts)), func(h string) bool { return trainers[h] })
	slices.SortFunc(others, func(a, b string) int {
		return cmp.Or(hosts[b].to.Compare(hosts[a].to), cmp.Compare(a, b))
	})
	for _, h := range others[:min(wanted, len(others))] {
		extendSpan(hosts, h, span{from: hosts[h].from, to: end, start: hosts[h].start})
	}
}

// leadTime returns how long a machine is assumed to run before its first claim, to start and to copy the dataset.
func leadTime(p *sweep.Plan) time.Duration {
	if p.Quote == nil {
		return 0
	}
	return time.Duration(p.Quote.LeadTime.Expected * float64(time.Second))
}

// listChanges returns the changes in the number of live hosts, live tasks and hosts before their first claim, by time.
// Those of the same time may be in any order, since nothing is counted between them.
func listChanges[K comparable](hosts map[string]span, tasks map[K]span) []event {
	var events []event
	for _, s := range hosts {
		events = append(events, event{at: s.from, hosts: 1, starting: 1}, event{at: s.start, starting: -1},
			event{at: s.to, hosts: -1})
	}
	for _, s := range tasks {
		events = append(events, event{at: s.from, tasks: 1}, event{at: s.to, tasks: -1})
	}
	slices.SortFunc(events, func(a, b event) int { return a.at.Compare(b.at) })
	return events
}

// event is a change in the numbers of hosts, tasks and starting hosts at one moment.
type event struct {
	at                     time.Time
	hosts, tasks, starting int
}

// extendSpan extends the span of key so that it includes s, or adds s if there is none. The first claim is that of the
// span that begins earlier.
func extendSpan[K comparable](all map[K]span, key K, s span) {
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

// Exceeds reports whether the sweep has to be stopped now to stay within budget: its cost so far, plus that of its
// machines until every task has stopped, reaches it. A plan without a quote has no prices, and is never stopped.
func (l *Ledger) Exceeds(p *sweep.Plan, budget float64) bool {
	return p.Quote != nil && l.Cost+p.Quote.ReserveCost() >= budget
}

// MinimumUsage is what Batch says of a job that had machines, whether or not any of them claimed a trial. A task that
// fails before its first claim again and again, or waits for memory, costs as much as one that trains.
type MinimumUsage struct {
	Job       int       // its number
	Submitted time.Time // no machine ran earlier
	Began     time.Time // start of its first task; zero counts from Submitted
	Ended     time.Time // end of its last task; zero if it has not ended
	Waiting   int       // tasks that have no machine now
}

// AtLeast returns the ledger with its cost raised, for each of those jobs, to the cost of the machines that Batch gives
// it. A job's first machine counts from the lead time before its first task to the job's end, or to now. A later
// machine counts from the lead time before its first claim. A machine that has not claimed yet counts like the first
// one, but only as long as that lasts: once it claims, the time before is no longer charged. The result may include
// machines that Batch has released early.
func (l Ledger) AtLeast(p *sweep.Plan, least []MinimumUsage, now time.Time) Ledger {
	for _, f := range least {
		// When the job's machines ran, by Batch.
		from, to := f.Began.Add(-leadTime(p)), now
		if from.Before(f.Submitted) {
			from = f.Submitted
		}
		if !f.Ended.IsZero() && f.Ended.Before(now) {
			to = f.Ended
		}

		// Add up its machines. What the ledger has counted already is not counted again.
		more, late := -l.seconds[f.Job], l.firstClaims(f.Job)
		for i := range p.Placed(f.Job).Sizing.Machines(f.Waiting) {
			start := from
			if 0 < i && i < len(late) && late[i].Add(-leadTime(p)).After(from) {
				start = late[i].Add(-leadTime(p))
			}
			more += to.Sub(start).Seconds()
		}
		if more <= 0 { // the ledger has counted as much from the sweep's own objects
			continue
		}
		hourly, _ := p.Price(f.Job)
		l.MachineSeconds += more
		l.Cost += more / 3600 * hourly
	}
	return l
}

// firstClaims returns the time of the first claim of each host of a job, in ascending order.
func (l *Ledger) firstClaims(job int) []time.Time {
	first := map[string]time.Time{}
	for _, a := range l.Attempts {
		earliest, known := first[a.Host]
		if a.Job == job && (!known || a.From.Before(earliest)) {
			first[a.Host] = a.From
		}
	}
	return slices.SortedFunc(maps.Values(first), time.Time.Compare)
}
