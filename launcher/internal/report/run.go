package report

import (
	"cmp"
	"math"
	"slices"
	"time"

	"coppice/internal/ledger"
	"coppice/internal/page"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/bill"
)

// attempts returns the ledger's attempts, with their costs.
func attempts(l *ledger.Ledger, b *bill.Bill, listing sweepstore.Listing) []page.Attempt {
	var out []page.Attempt
	for i, a := range l.Attempts {
		v := page.Attempt{Trial: a.Trial, Claim: a.Claim, Job: a.Job, Task: a.Task, Host: a.Host, From: a.From,
			To: a.To, End: string(a.End), Trees: a.Trees, Cost: math.NaN()}
		if i < len(b.Attempts) && !b.Attempts[i].Unpriced {
			v.Cost = b.Attempts[i].Cost
		}

		// It resumed from a checkpoint if an earlier claim left one. One that finished its trial has no more use for
		// its own.
		for _, c := range listing.Trials[a.Trial].Claims {
			v.Resumed = v.Resumed || c.Saved && c.Number < a.Claim
			v.Saved = v.Saved || c.Saved && c.Number == a.Claim && a.End != ledger.Finished
		}
		out = append(out, v)
	}
	return out
}

// memory is each machine's peak memory: the table once, and the private memory of the trials that ran there at the same
// time. Only ended trials have reported it.
func memory(l *ledger.Ledger, results map[int]*sweep.Result) []page.Memory {
	type change struct {
		at      time.Time
		private float64
		tasks   int
	}
	changes, tables := map[string][]change{}, map[string]float64{}
	for _, a := range l.Attempts {
		r := results[a.Trial]
		if r == nil || a.End != ledger.Finished || r.Usage.PrivateBytes <= 0 {
			continue
		}
		private := float64(r.Usage.PrivateBytes)
		changes[a.Host] = append(changes[a.Host], change{a.From, private, 1}, change{a.To, -private, -1})
		tables[a.Host] = max(tables[a.Host], float64(max(r.Usage.MappedBytes, r.Usage.SharedBytes)))
	}

	var out []page.Memory
	for host, list := range changes {
		// Ends before begins.
		slices.SortStableFunc(list,
			func(a, b change) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.tasks, b.tasks)) })
		m := page.Memory{Host: host, Shared: tables[host]}
		private, tasks := 0.0, 0
		for _, c := range list {
			private += c.private
			tasks += c.tasks
			if private > m.Private {
				m.Private, m.Tasks = private, tasks
			}
		}
		m.Apart = m.Private + float64(m.Tasks)*m.Shared
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b page.Memory) int { return cmp.Compare(a.Host, b.Host) })
	return out
}

// money converts the bill for a page.
func money(b *bill.Bill, trials []page.TrialRow, p *sweep.Plan) *page.Money {
	_, none := b.Unpriced()
	m := &page.Money{Known: !none && len(b.Attempts) > 0, Total: b.Cost, Useful: b.UsefulCost, Stopped: b.StoppedCost,
		Lost: b.LostCost, Lead: b.LeadCost, Idle: b.IdleCost,
		Budget: b.Budget, MachineHours: b.MachineHours, HoursTaken: b.Hours,
		Hourly: b.Hourly * float64(max(p.Placed(b.Jobs[len(b.Jobs)-1].Number).Sizing.VMs, 1))}
	if q := b.Quote; q != nil {
		m.QuoteLow, m.Quote, m.QuoteHigh = q.Cost.Low, q.Cost.Expected, q.Cost.High
	}

	// Trees that were not grown are valued like the trial's other trees.
	for _, t := range trials {
		most := allowed(p.Trials[t.Number].Params)
		if ended := t.State == page.StateEarly || t.State == page.StateComplete; ended && t.Grown > 0 &&
			t.Grown < most && !math.IsNaN(t.Cost) {
			m.Saved += t.Cost * float64(most-t.Grown) / float64(t.Grown)
		}
	}
	return m
}
