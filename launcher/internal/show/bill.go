package show

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"coppice/internal/page/plot"
	"coppice/launcher/internal/bill"
	"coppice/launcher/internal/quote"
)

// Bill writes the bill of a sweep: each trial, the machines, the totals, how they compare with the quote, and what the
// totals leave out. rows is how many rows it trained on.
func (w Printer) Bill(b *bill.Bill, rows int) {
	t := w.Table("trial", "status", "attempts", "machine time", "lost", "trees", "ns per value", "cost", "of it lost").
		Least("ns per value", "trees")
	seconds := plot.Seconds.Format
	for _, r := range b.Trials {
		trial := fmt.Sprint(r.Trial)
		if r.Final {
			trial += ", the final"
		}
		known := !r.Unpriced || r.Cost > 0 // some of its attempts may have been in a job with a price
		t.Row(trial, r.Status, r.Attempts, seconds(r.Seconds), seconds(r.LostSeconds), r.Trees,
			fmt.Sprintf("%.3f", r.NsPerValue), priced(known, r.Cost), priced(known, r.LostCost))
	}
	t.Print()

	// Facts: labels, machines, hours, totals, budget.
	var labels []string
	for _, key := range slices.Sorted(maps.Keys(b.Labels)) {
		labels = append(labels, key+"="+b.Labels[key])
	}
	facts := append([][2]string{{"labels", strings.Join(labels, ", ")}}, machinesOf(b)...)
	facts = append(facts, [2]string{"machine-hours", fmt.Sprintf("%.3f, from %s to %s", b.MachineHours, stamp(b.From),
		stamp(b.To))})
	if w.Home {
		w.Printf("Nothing is paid: the sweep ran in a local cloud. On Google's machines it would have cost:\n")
	}
	w.Pairs(append(append(facts, b.Rows()...), [2]string{"budget", Budget(b.Budget)})...)

	w.quoted(b, rows)
	if jobs, all := b.Unpriced(); len(jobs) > 0 && !all {
		w.Printf("note: not in the totals, because the price is not known: job %s\n",
			strings.Trim(fmt.Sprint(jobs), "[]"))
	}
	if b.Unreadable > 0 {
		w.Printf("note: not in the totals, because they cannot be read: %s\n",
			english.Plural(b.Unreadable, "claim", ""))
	}
}

// quoted writes the quote beside what the sweep took, or that there was none. If its speed was clearly another than
// quoted, by more than 15 %, it says which one the next quote should assume, or that the rows trained on are too few to
// tell. It compares nothing in a local cloud, since the quote is of Google's machines.
func (w Printer) quoted(b *bill.Bill, rows int) {
	q := b.Quote
	if q == nil {
		w.Printf("note: the sweep's plan has no quote, so there is no price\n")
		return
	}

	t := w.Table("", "quoted", "actual", "actual / quoted")
	row := func(what, quoted, actual string, q, a float64) {
		ratio := ""
		if q > 0 && a > 0 && !w.Home { // the quote is of other machines
			ratio = fmt.Sprintf("%.2f", a/q)
		}
		t.Row(what, quoted, actual, ratio)
	}
	row("time", quote.Hours(q.Hours), quote.Time(3600*b.Hours), q.Hours.Expected, b.Hours)
	row("cost", quote.Money(&q.Cost), b.USD(b.Cost), q.Cost.Expected, b.Cost)
	row("a trial", quote.Time(q.Trial.Expected), quote.Time(b.MeanTrial), q.Trial.Expected, b.MeanTrial)
	row("ns per value", fmt.Sprintf("%.3f", q.NsPerValue), fmt.Sprintf("%.3f", b.NsPerValue), q.NsPerValue,
		b.NsPerValue)
	row("interrupted attempts", fmt.Sprintf("%.2f", q.Preemptions), fmt.Sprint(b.Interrupted), 0, 0)
	t.Print()

	// A clearly different speed should be used for the next quote.
	if w.Home || b.NsPerValue <= 0 || q.NsPerValue <= 0 || math.Abs(b.NsPerValue/q.NsPerValue-1) <= 0.15 {
		return
	}
	if least := quote.Measured().Smallest(); rows < least {
		w.Printf("note: %s rows are too few for a speed to quote with: below %s the fixed cost of a tree "+
			"dominates\n", humanize.Comma(int64(rows)), humanize.Comma(int64(least)))
		return
	}
	w.Printf("for the next quote on such machines: --ns-per-value %.3f\n", b.NsPerValue)
}

// priced formats an amount in USD whose price is known.
func priced(known bool, v float64) string {
	if !known {
		return "no price"
	}
	return plot.USD.Format(v)
}

// machinesOf describes the machines of each job of the sweep in one pair of label and text; only the first has a label.
func machinesOf(b *bill.Bill) (lines [][2]string) {
	label := "machines"
	for _, j := range b.Jobs {
		price := "no price"
		if j.Hourly > 0 {
			price = plot.USD.Format(j.Hourly) + " per hour each"
			if j.PriceDate != "" {
				price += fmt.Sprintf(" (price of %s)", j.PriceDate)
			}
		}
		lines = append(lines, [2]string{label, fmt.Sprintf("%d x %s %s, %s in %s", j.VMs, j.Machine, j.Model, price,
			b.Region)})
		label = ""
	}
	return lines
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return clock(t) + " UTC (" + humanize.Time(t) + ")"
}
