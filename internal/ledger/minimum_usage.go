package ledger

import (
	"time"

	"coppice/internal/sweep"
)

// MinimumUsage describes a job of the sweep that had machines, whether or not any of them claimed a trial: a task that
// repeatedly fails before its first claim, or waits for memory, costs as much as one that trains.
type MinimumUsage struct {
	Job       int       // its number
	Submitted time.Time // no machine ran earlier
	Began     time.Time // start of its first task; zero counts from Submitted
	Ended     time.Time // end of its last task; zero if it has not ended
}

// AtLeast raises the ledger at the time now to the cost of all planned machines of each of those jobs, from the lead
// time before its first task to its end. This may include machines that Batch never provided, or released early: an
// overestimate rather than an underestimate.
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

// planned is the number of machines for a job's tasks.
func planned(z sweep.Sizing) int {
	perVM := max(z.TasksPerVM, 1)
	return min(max(z.VMs, 1), max(1, (z.Tasks+perVM-1)/perVM))
}
