package report

import (
	"math"

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
