package report

import (
	"slices"

	"coppice/internal/page"
	"coppice/internal/page/plot"
	"coppice/internal/sweep"
	"coppice/launcher/internal/bill"
	"coppice/launcher/internal/quote"
)

// pageMoney returns the bill as a page shows it.
func pageMoney(b *bill.Bill, p *sweep.Plan) *page.Money {
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
