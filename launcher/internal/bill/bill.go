// Package bill says what a sweep has cost: by trial and attempt, what was lost with machines, and how that compares
// with the quote. It is a pure function of a plan, its ledger and its results.
package bill

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dustin/go-humanize/english"

	"coppice/internal/ledger"
	"coppice/internal/page/plot"
	"coppice/internal/sweep"
)

// Bill is what a sweep has cost. Amounts are USD, excluding jobs without a known price (Hourly 0).
type Bill struct {
	Sweep        sweep.ID          `json:"sweep"`
	Labels       map[string]string `json:"labels,omitempty"`
	Machine      string            `json:"machine"` // of the last job in use
	VMs          int               `json:"vms"`     // most at once, of the largest job
	Model        string            `json:"model"`   // "on Spot" or "on demand"
	Region       string            `json:"region"`
	Hourly       float64           `json:"hourly"` // of one machine of the last job, with its local SSDs
	Jobs         []Job             `json:"jobs"`   // the jobs in use, in order
	From         time.Time         `json:"from"`
	To           time.Time         `json:"to"`
	Hours        float64           `json:"hours"`
	MachineHours float64           `json:"machine_hours"`
	Cost         float64           `json:"cost"`         // the sum of the following five
	UsefulCost   float64           `json:"useful_cost"`  // of trials that are done
	StoppedCost  float64           `json:"stopped_cost"` // of trials without a model: failed, stopped, or still running
	LostCost     float64           `json:"lost_cost"`    // of work lost with machines and repeated
	LeadCost     float64           `json:"lead_cost"`    // of machines before their first trial
	IdleCost     float64           `json:"idle_cost"`    // of tasks without a trial and vCPUs without a task
	SavedCost    float64           `json:"saved_cost"`   // about, by ending trials before their last tree; not in it
	LostSeconds  float64           `json:"lost_seconds"`
	LeadEach     float64           `json:"lead_seconds_each"`
	// attempts followed by another one of the same trial, not counting those that paused it
	Interrupted int           `json:"interrupted"`
	Budget      float64       `json:"budget,omitempty"`
	NsPerValue  float64       `json:"ns_per_value"`       // median over the trials that are done
	MeanTrial   float64       `json:"mean_trial_seconds"` // over those that are done
	Quote       *sweep.Quote  `json:"quote,omitempty"`
	Trials      []TrialCost   `json:"trials"`
	Attempts    []AttemptCost `json:"attempts"`
	Unreadable  int           `json:"unreadable,omitempty"`
}

// TrialCost is the cost of one trial over all its attempts. Seconds are a task's.
type TrialCost struct {
	Trial       int          `json:"trial"`
	Final       bool         `json:"final,omitempty"`  // it trains the winner again on all rows
	Status      sweep.Status `json:"status,omitempty"` // empty until it has ended
	Attempts    int          `json:"attempts"`
	Seconds     float64      `json:"seconds"`
	LostSeconds float64      `json:"lost_seconds"`
	Trees       int          `json:"trees"`
	NsPerValue  float64      `json:"ns_per_value"`
	Cost        float64      `json:"cost"`
	LostCost    float64      `json:"lost_cost"`
	// an attempt was in a job without a known price, and is not included
	Unpriced bool `json:"unpriced,omitempty"`
}

// AttemptCost is the cost of one attempt at a trial.
type AttemptCost struct {
	ledger.Attempt
	Cost     float64 `json:"cost"`
	Unpriced bool    `json:"unpriced,omitempty"` // its job has no known price
}

// Job describes one of the sweep's Batch jobs.
type Job struct {
	Number    int     `json:"number"`
	Machine   string  `json:"machine"`
	VMs       int     `json:"vms"`                  // most at once
	Model     string  `json:"model"`                // "on Spot" or "on demand"
	Hourly    float64 `json:"hourly"`               // of one machine, with its local SSDs
	PriceDate string  `json:"price_date,omitempty"` // when the price was read, YYYY-MM-DD
}

// Unpriced returns the numbers of the jobs without a known price, whose cost is not in any sum. all says that no job
// has one.
func (b *Bill) Unpriced() (numbers []int, all bool) {
	for _, j := range b.Jobs {
		if j.Hourly == 0 {
			numbers = append(numbers, j.Number)
		}
	}
	return numbers, len(numbers) == len(b.Jobs)
}

// Make makes the bill of the sweep of the plan p. l has the attempts and machine times by job, whose machines and
// prices may differ; results are by trial.
func Make(p *sweep.Plan, l *ledger.Ledger, results map[int]sweep.Result) *Bill {
	b := &Bill{Sweep: p.Sweep, Labels: p.Spec.Labels, VMs: l.Machines, From: l.From, To: l.To,
		Hours:        l.To.Sub(l.From).Hours(),
		MachineHours: l.MachineSeconds / 3600,
		Cost:         l.Cost, LeadCost: l.LeadCost, Budget: p.Spec.Budget, Quote: p.Quote, Unreadable: l.Unreadable}
	if q := p.Quote; q != nil {
		b.Region = q.Region
		b.LeadEach = q.LeadTime.Expected
	}

	second := map[int]float64{} // by job: what a second of one task costs, its share of a machine's price; 0 if unknown
	used := l.Jobs
	if len(used) == 0 { // nothing has run yet: show the first job's machines and price
		used = []int{0}
	}

	// Each job may have had other machines and another price.
	for _, n := range used {
		placed := p.Placed(n)
		hourly, _ := p.Price(n)
		j := Job{Number: n, Machine: placed.Sizing.MachineType, VMs: l.MachinesOf(n), Model: "on demand",
			Hourly: hourly, PriceDate: priceDate(p, n)}
		if spot := placed.Spec.Machine.Spot; spot != nil && *spot {
			j.Model = "on Spot"
		}
		b.Jobs = append(b.Jobs, j)
		second[n] = hourly / 3600 / float64(max(placed.Sizing.TasksPerVM, 1))
	}

	// The bill names the last job's machines.
	last := b.Jobs[len(b.Jobs)-1]
	b.Machine = last.Machine
	b.Model = last.Model
	b.Hourly = last.Hourly
	b.addAttempts(l.Attempts, results, second)
	b.settle()

	// What ending trials early has saved: each tree that was not grown is valued like those of the trial that were. A
	// trial whose parameters lack num_iterations has saved nothing that is known.
	for i, t := range b.Trials {
		b.Trials[i].Final = p.Trials[t.Trial].Refit
		most, _ := p.Trials[t.Trial].Params["num_iterations"].(float64)
		r := results[t.Trial]
		if ended := r.Status == sweep.StatusDone || r.Status == sweep.StatusStopped; ended && r.TreesGrown > 0 {
			b.SavedCost += t.Cost * max(0, most/float64(r.TreesGrown)-1)
		}
	}
	return b
}

// USD formats an amount of the bill, "no price" if no job has a known price.
func (b *Bill) USD(v float64) string {
	if _, none := b.Unpriced(); none {
		return "no price"
	}
	return plot.USD.Format(v)
}

// Rows returns what the sweep has cost as pairs of label and text: the total, its parts, and what was saved, whose text
// is empty if nothing was.
func (b *Bill) Rows() [][2]string {
	lost, saved := b.USD(b.LostCost), ""
	if b.Interrupted > 0 {
		lost += fmt.Sprintf(": %s unfinished, %s of work repeated", english.Plural(b.Interrupted, "attempt", ""),
			plot.Seconds.Format(b.LostSeconds))
	}
	if b.SavedCost > 0 {
		saved = "about " + b.USD(b.SavedCost)
	}
	return [][2]string{{"cost", b.USD(b.Cost)},
		{"  training that counts", b.USD(b.UsefulCost)},
		{"  trials without a model", b.USD(b.StoppedCost)},
		{"  lost with machines", lost},
		{"  starting machines", b.USD(b.LeadCost) + " (assumed: " + plot.Seconds.Format(b.LeadEach) + " each)"},
		{"  waiting and idle", b.USD(b.IdleCost)},
		{"saved by stopping early", saved}}
}

// priceDate returns the day (YYYY-MM-DD) on which the price of the plan's job n was read; "" if unknown.
func priceDate(p *sweep.Plan, n int) string {
	q := p.Quote
	switch {
	case q == nil || n > len(q.Fallback):
		return ""
	case n == 0:
		return q.PriceDate
	default:
		return q.Fallback[n-1].PriceDate
	}
}

// addAttempts sets b.Attempts and b.Trials with the cost of each, the time lost with machines, and the mean time and
// the median speed of the trials that are done. attempts are sorted by trial, then by time. second is the price of a
// task's second by job, 0 if it is not known.
//
// An attempt that is followed by another one of its trial was interrupted, unless it paused the trial. Its time is
// lost, except for what the trial resumed from a checkpoint: that share of the trees that have not been grown again.
func (b *Bill) addAttempts(attempts []ledger.Attempt, results map[int]sweep.Result, second map[int]float64) {
	trials := map[int]*TrialCost{}
	type sum struct{ seconds, cost float64 }
	lost := map[int]sum{} // of attempts that did not end their trial

	for i, a := range attempts {
		cost := a.Seconds() * second[a.Job]
		b.Attempts = append(b.Attempts, AttemptCost{a, cost, second[a.Job] == 0})

		t := trials[a.Trial]
		if t == nil {
			t = &TrialCost{Trial: a.Trial}
			trials[a.Trial] = t
		}

		t.Attempts++
		t.Seconds += a.Seconds()
		t.Cost += cost
		t.Unpriced = t.Unpriced || second[a.Job] == 0
		t.Trees = max(t.Trees, a.Trees)

		// Later claims of a trial come later in the list.
		if i+1 < len(attempts) && attempts[i+1].Trial == a.Trial && a.End != ledger.Paused {
			lost[a.Trial] = sum{lost[a.Trial].seconds + a.Seconds(), lost[a.Trial].cost + cost}
			b.Interrupted++
		}
	}

	// The outcome of each trial, and how much of its time was lost. They are in the order of their numbers, since sums
	// in another order differ in the last digits.
	var speeds []float64
	done := 0
	for _, number := range slices.Sorted(maps.Keys(trials)) {
		t := trials[number]
		saved := 0.0 // seconds of training that a resumed attempt did not repeat
		if r, ok := results[number]; ok {
			t.Status = r.Status
			t.NsPerValue = r.Usage.NsPerValue
			saved = r.Usage.TrainSeconds * float64(r.Usage.ResumedTrees) / float64(max(r.TreesGrown, 1))
			if r.Status == sweep.StatusDone {
				b.MeanTrial += r.Usage.TrainSeconds
				done++
				speeds = append(speeds, r.Usage.NsPerValue)
			}
		}

		if interrupted := lost[number]; interrupted.seconds > 0 {
			t.LostSeconds = max(0, interrupted.seconds-saved)
			t.LostCost = interrupted.cost * t.LostSeconds / interrupted.seconds
		}

		b.LostSeconds += t.LostSeconds
		b.Trials = append(b.Trials, *t)
	}

	b.MeanTrial /= float64(max(done, 1))
	slices.Sort(speeds)
	if len(speeds) > 0 {
		b.NsPerValue = speeds[len(speeds)/2] // of an even number, the upper one of the two in the middle
	}
}

// settle divides b.Cost among its five parts, so that they add up to it. The rest that no trial and no start of a
// machine has used is IdleCost. If attempts overlap, because a task taken for dead came back, both are counted, and the
// parts may exceed the cost: then the lead and, if that is not enough, all parts are reduced.
func (b *Bill) settle() {
	for _, t := range b.Trials {
		lost := min(t.LostCost, t.Cost)
		b.LostCost += lost
		if t.Status == sweep.StatusDone {
			b.UsefulCost += t.Cost - lost
		} else {
			b.StoppedCost += t.Cost - lost
		}
	}

	used := b.UsefulCost + b.StoppedCost + b.LostCost
	b.IdleCost = b.Cost - used - b.LeadCost
	if b.IdleCost >= 0 {
		return
	}

	// The parts exceed the cost: more tasks ran at once than the plan's machines have room for.
	b.LeadCost = max(0, b.LeadCost+b.IdleCost)
	b.IdleCost = 0

	if over := used + b.LeadCost - b.Cost; over > 0 && used > 0 {
		share := (b.Cost - b.LeadCost) / used
		b.LostCost *= share
		b.UsefulCost *= share
		b.StoppedCost *= share
	}
}
