package report

import (
	"math"
	"slices"

	"coppice/internal/ledger"
	"coppice/internal/page"
	"coppice/internal/page/plot"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/bill"
	"coppice/launcher/internal/quote"
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

// money is the bill for a page.
func money(b *bill.Bill, p *sweep.Plan) *page.Money {
	_, none := b.Unpriced()
	m := &page.Money{Known: !none && len(b.Attempts) > 0, Total: b.Cost, Budget: b.Budget, HoursTaken: b.Hours,
		Hourly: b.Hourly * float64(max(p.Placed(b.Jobs[len(b.Jobs)-1].Number).Sizing.VMs, 1))}
	rows := append(b.Rows(), [2]string{"machine time", plot.Seconds.Format(3600 * b.MachineHours)})
	if q := b.Quote; q != nil {
		rows = append(rows, [2]string{"quoted", quote.Money(&q.Cost)})
	}
	if b.Budget > 0 {
		rows = append(rows, [2]string{"budget", plot.USD.Format(b.Budget)})
	}
	m.Rows = slices.DeleteFunc(rows, func(r [2]string) bool { return r[1] == "" })
	return m
}
