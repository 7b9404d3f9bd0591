package ledger

import (
	"time"

	"coppice/sweep"
)

// MinimumUsage is of a job of the sweep that had machines, whether or not any of them claimed a trial: a task that fails again and again before
// its first claim, or that waits for memory, costs as much as one that trains.
type MinimumUsage struct {
	Job       int       // its number
	Submitted time.Time // no machine ran before
	Began     time.Time // when its first task began; zero counts from Submitted on
	Ended     time.Time // when its last task ended; zero is not yet
}

// AtLeast is the ledger at the time now with no less for each of those jobs than all its planned machines from the lead time before its
// first task to its end. It counts machines that Batch never gave, or has taken back because nothing was left for them to do: too
// much rather than too little.
func (l Ledger) AtLeast(p *sweep.Plan, least []MinimumUsage, now time.Time) Ledger {
	for _, f := range least {
		from, to := f.Began.Add(-leadTime(p)), now
		if from.Before(f.Submitted) {
			from = f.Submitted
		}
		if !f.Ended.IsZero() && f.Ended.Before(now) {
			to = f.Ended
		}
		more := to.Sub(from).Seconds()*float64(planned(p.Placed(f.Job).Sizing)) - l.seconds[f.Job]
		if more <= 0 {
			continue
		}
		hourly, _ := p.Price(f.Job)
		l.MachineSeconds += more
		l.Cost += more / 3600 * hourly
	}
	return l
}

// planned is on how many machines a job's tasks are.
func planned(z sweep.Sizing) int {
	perVM := max(z.TasksPerVM, 1)
	return min(max(z.VMs, 1), max(1, (z.Tasks+perVM-1)/perVM))
}
