package report

import (
	"cmp"
	"math"
	"slices"
	"time"

	"coppice/launcher/internal/bill"
	"coppice/ledger"
	"coppice/page"
	"coppice/sweep"
	"coppice/sweepstore"
)

// attempts are those of the ledger, with what they cost.
func attempts(l *ledger.Ledger, b *bill.Bill, listing sweepstore.Listing) []page.Attempt {
	var out []page.Attempt
	for i, a := range l.Attempts {
		v := page.Attempt{Trial: a.Trial, Claim: a.Claim, Job: a.Job, Task: a.Task, Host: a.Host, From: a.From, To: a.To, End: string(a.End), Trees: a.Trees, Cost: math.NaN()}
		if i < len(b.Attempts) && !b.Attempts[i].Unpriced {
			v.Cost = b.Attempts[i].Cost
		}

		// It went on from a checkpoint if a claim before had left one.
		for _, c := range listing.Trials[a.Trial].Claims {
			if c.Number < a.Claim && c.Saved {
				v.Resumed = true
			}
		}
		out = append(out, v)
	}
	return out
}

// memory is what each machine held at its fullest: the table once, and what the trials that ran there at one time needed for
// themselves. Only trials that have ended have said so.
func memory(p *sweep.Plan, l *ledger.Ledger, results map[int]*sweep.Result) []page.Memory {
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
		slices.SortStableFunc(list, func(a, b change) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.tasks, b.tasks)) }) // who ends makes room first
		m := page.Memory{Host: host, Shared: tables[host], Machine: float64(p.Sizing.MemoryBytes), Reserved: float64(p.Sizing.ReserveBytes)}
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

// money is the bill as a page shows it.
func money(b *bill.Bill, trials []page.Trial, p *sweep.Plan) *page.Money {
	_, none := b.Unpriced()
	m := &page.Money{Known: !none && len(b.Attempts) > 0, Total: b.Cost, Useful: b.UsefulCost, Stopped: b.StoppedCost, Lost: b.LostCost, Lead: b.LeadCost, Idle: b.IdleCost,
		Budget: b.Budget, MachineHours: b.MachineHours, HoursTaken: b.Hours}
	if q := b.Quote; q != nil {
		m.QuoteLow, m.Quote, m.QuoteHigh, m.HoursQuoted = q.Cost.Low, q.Cost.Expected, q.Cost.High, q.Hours.Expected
	}

	// Each tree that was not grown would have cost what the trial's others did.
	for _, t := range trials {
		most := allowed(p.Trials[t.Number].Params)
		if t.State == page.StateEarly && t.Grown > 0 && !math.IsNaN(t.Cost) {
			m.Saved += t.Cost * float64(most-t.Grown) / float64(t.Grown)
		}
	}
	return m
}
