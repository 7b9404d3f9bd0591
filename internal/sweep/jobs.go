package sweep

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

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
			return fmt.Errorf("number %d of sweep %.80q, job %.200q", r.Number, r.Sweep, r.Job)
		}
		return nil
	})
}

// A sweep's jobs are numbered from 0: the one on its machine, and those on its fallbacks in turn. Numbers that were not
// needed have no job.

// LastJob returns the highest number that a job of the sweep may have.
func (p *Plan) LastJob() int { return len(p.Fallback) }

// JobName returns the full name of job n: projects/P/locations/L/jobs/ID.
func (p *Plan) JobName(n int) string {
	return p.Job[:strings.LastIndexByte(p.Job, '/')+1] + string(p.Sweep.JobID(n))
}

// Placed returns the plan as it is for job n: a copy with the job's name, machines and sizing. Job 0 is that of the
// plan itself.
func (p *Plan) Placed(n int) *Plan {
	if n == 0 {
		return p
	}
	placed := *p
	placed.Job = p.JobName(n)
	placed.Spec.Machine, placed.Sizing = p.Spec.Machine.Choice(n), p.Fallback[n-1]
	return &placed
}

// Quote is what a sweep was expected to take, with the prices used for its cost from then on. The launcher writes it
// into the plan; the aggregator applies the budget with it, and `launcher bill` compares it with the actual cost.
// Amounts are USD.
type Quote struct {
	Region    string  `json:"region"`
	Spot      bool    `json:"spot"`                 // which price model Hourly is for
	Hourly    float64 `json:"hourly"`               // of one machine with its local SSDs; 0 if unknown
	OnDemand  float64 `json:"on_demand,omitempty"`  // hourly price of one machine on demand
	PriceDate string  `json:"price_date,omitempty"` // when the price was read, YYYY-MM-DD
	PriceFrom string  `json:"price_from,omitempty"` // its source
	LocalSSD  int     `json:"local_ssd"`            // number of disks per machine
	VMs       int     `json:"vms"`                  // machines used at once
	Waves     int     `json:"waves"`                // trials that a task trains one after another
	Hours     Range   `json:"hours"`                // from the first machine's start to the last one's end
	Cost      Range   `json:"cost"`                 // all zero if no price is known
	// of a machine before its first trial: starting, copying the dataset
	LeadTime Range `json:"lead_seconds"`
	Trial    Range `json:"trial_seconds"`          // of the mean trial
	Refit    Range `json:"refit_seconds,omitzero"` // of the refit or the final training; zero without one
	// how many times as long as a trial of its configuration that takes; 0 without one
	RefitPace float64 `json:"refit_pace,omitempty"`
	// expected for the mean trial: per row, feature and tree, with the sweep's threads
	NsPerValue  float64 `json:"ns_per_value"`
	Preemptions float64 `json:"preemptions"` // expected number during the sweep
	// of all machines: the part of a budget reserved for noticing its end and stopping in time
	Reserve float64 `json:"reserve_seconds"`

	// Fallback has the price of each of the plan's fallbacks.
	Fallback []FallbackPrice `json:"fallback,omitempty"`
}

// FallbackPrice is what a fallback costs.
type FallbackPrice struct {
	Machine   string  `json:"machine,omitempty"`
	Spot      bool    `json:"spot"`
	Hourly    float64 `json:"hourly"`               // of one machine with its local SSDs; 0 if unknown
	VMs       int     `json:"vms,omitempty"`        // machines used at once; 0 for as many as the quote's
	Cost      Range   `json:"cost,omitzero"`        // of the whole sweep on it
	PriceDate string  `json:"price_date,omitempty"` // when the price was read, YYYY-MM-DD
}

// Price returns the hourly price in USD of a machine of job n, 0 if unknown, and whether it is a spot price.
func (p *Plan) Price(n int) (hourly float64, spot bool) {
	switch q := p.Quote; {
	case q == nil:
		return 0, false
	case n == 0:
		return q.Hourly, q.Spot
	case n <= len(q.Fallback):
		return q.Fallback[n-1].Hourly, q.Fallback[n-1].Spot
	}
	return 0, false
}

// JobNumber returns the number n of the sweep's job with this id, which is JobID(n). It is 0, the plan's own job, for
// an unknown id.
func (p *Plan) JobNumber(job string) int {
	// The id of job n ends in "f" and n.
	n, err := strconv.Atoi(job[strings.LastIndexByte(job, 'f')+1:])
	if err != nil || n < 1 || n > p.LastJob() || string(p.Sweep.JobID(n)) != job {
		return 0
	}
	return n
}

// Range is an expected value between a low and a high one.
type Range struct {
	Low      float64 `json:"low"`
	Expected float64 `json:"expected"`
	High     float64 `json:"high"`
}

// ReserveCost returns the USD that the quote's Reserve costs: so many seconds of all machines, of the most expensive
// ones that the sweep may run on.
func (q *Quote) ReserveCost() float64 {
	dearest := q.Hourly * float64(q.VMs) // of all machines, for an hour
	for _, f := range q.Fallback {
		vms := cmp.Or(f.VMs, q.VMs)
		dearest = max(dearest, f.Hourly*float64(vms))
	}
	return dearest * q.Reserve / 3600
}

// maxQuoted bounds every number of a quote, so that sums cannot overflow.
const maxQuoted = 1e12

// checkMoney checks a plan's budget and quote. A budget needs a price of the machines, since without one it is not
// known when it is reached. A plan needs neither.
func (p *Plan) checkMoney() error {
	// The budget.
	q, budget := p.Quote, p.Spec.Budget
	if budget != 0 {
		if err := CheckBudget(budget); err != nil {
			return err
		}
		if q == nil || !(q.Hourly > 0) {
			return fmt.Errorf("a budget of %v without a price", budget)
		}
	}
	if q == nil {
		return nil
	}

	// The quote, and the prices of its fallbacks.
	switch {
	case q.VMs < 0 || q.VMs > MaxTrials || q.Waves < 0 || q.LocalSSD < 0:
		return fmt.Errorf("quoted for %d machines, %d waves", q.VMs, q.Waves)
	case len(q.Fallback) > MaxFallbacks:
		return fmt.Errorf("%d prices of fallbacks", len(q.Fallback))
	}
	if err := checkAmounts("a quote", []float64{q.Hourly, q.OnDemand, q.NsPerValue, q.Preemptions, q.Reserve,
		q.RefitPace},
		q.Hours, q.Cost, q.LeadTime, q.Trial, q.Refit); err != nil {
		return err
	}
	for _, f := range q.Fallback {
		if f.VMs < 0 || f.VMs > MaxTrials {
			return fmt.Errorf("a fallback of %d machines", f.VMs)
		}
		if err := checkAmounts("a fallback's price", []float64{f.Hourly}, f.Cost); err != nil {
			return err
		}
	}
	return nil
}

// checkAmounts checks that amounts, and the ends of ranges, are numbers from 0 to maxQuoted.
func checkAmounts(what string, amounts []float64, ranges ...Range) error {
	for _, r := range ranges {
		amounts = append(amounts, r.Low, r.Expected, r.High)
	}
	for _, v := range amounts {
		if !(v >= 0) || v > maxQuoted {
			return fmt.Errorf("%s of %v", what, v)
		}
	}
	return nil
}
