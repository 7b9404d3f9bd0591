package cli

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"coppice/internal/ledger"
	"coppice/internal/sweep"
	"coppice/launcher/internal/bill"
	"coppice/launcher/internal/quote"
	"coppice/launcher/internal/sweepview"
)

func billCommand(w *World) *cobra.Command {
	var attempts, asJSON bool
	cmd := &cobra.Command{
		Use:   "bill SWEEP",
		Short: "Show what a sweep has cost, by trial, compared with its quote",
		Long: `Calculates machine-hours from the sweep's own objects (which task ran on which host, and when) and the cost from the price recorded
when the sweep was planned. It is not an invoice: what machines cost before their first trial is assumed, and storage, messages and
network are not included.`,
		Example: `  launcher bill nightly-ctr-1a2b3c4d
  launcher bill nightly-ctr-1a2b3c4d --attempts
  launcher bill nightly-ctr-1a2b3c4d --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return w.with(cmd.Context(),
				func(c *cloud) error { return w.bill(cmd.Context(), c, sweep.ID(args[0]), attempts, asJSON) })
		},
	}

	cmd.Flags().BoolVar(&attempts, "attempts", false, "show every attempt at a trial")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func (w *World) bill(ctx context.Context, c *cloud, id sweep.ID, attempts, asJSON bool) error {
	s, err := sweepview.Open(ctx, c.sweeps, id)
	if err != nil {
		return err
	}
	st, err := s.Look(ctx)
	if err != nil {
		return err
	}

	results := map[int]sweep.Result{}
	for _, row := range st.Board.Rows {
		if row.Result != nil {
			results[row.Trial.Number] = *row.Result
		}
	}

	r := ledger.Reader{Store: c.sweeps, Plan: s.Plan}
	if st.Conclusion != nil {
		r.Ended = st.Conclusion.At
	}
	l, err := r.Read(ctx, results, w.Now())
	if err != nil {
		return err
	}

	b := bill.Make(s.Plan, &l, results)
	if asJSON {
		return w.printJSON(b)
	}
	w.showBill(b, s.Plan.Dataset.Rows[sweep.Train], attempts)
	return nil
}

// showBill prints the bill of a sweep that trained on that many rows.
func (w *World) showBill(b *bill.Bill, rows int, attempts bool) {
	if attempts {
		t := w.newTable("trial", "claim", "task", "host", "ended", "from", "took", "trees", "USD")
		for _, a := range b.Attempts {
			t.AppendRow(table.Row{a.Trial, a.Claim, fmt.Sprintf("%d.%d", a.Task, a.Attempt.Attempt), a.Host, a.End,
				a.From.Format(time.TimeOnly), seconds(a.Seconds()), a.Trees, priced(!a.Unpriced, a.Cost)})
		}
		t.Render()
	}

	t := w.newTable("trial", "status", "attempts", "machine time", "lost", "trees", "ns per value", "USD", "of it lost")
	for _, r := range b.Trials {
		t.AppendRow(table.Row{r.Trial, r.Status, r.Attempts, seconds(r.Seconds), seconds(r.LostSeconds), r.Trees,
			fmt.Sprintf("%.3f", r.NsPerValue), priced(!r.Unpriced || r.Cost > 0, r.Cost),
			priced(!r.Unpriced || r.Cost > 0, r.LostCost)})
	}
	t.Render()

	w.pairs(append(machinesOf(b),
		[2]string{"machine-hours", fmt.Sprintf("%.3f, from %s to %s", b.MachineHours, stamp(b.From), stamp(b.To))},
		[2]string{"cost", usd(b, b.Cost)},
		[2]string{"  training that counts", usd(b, b.UsefulCost)},
		[2]string{"  trials without a model", usd(b, b.StoppedCost)},
		[2]string{"  lost with machines", fmt.Sprintf("%s: unfinished attempts: %d, %s of work was repeated",
			usd(b, b.LostCost), b.Interrupted, seconds(b.LostSeconds))},
		[2]string{"  starting machines", fmt.Sprintf("%s (assumed: %s each)", usd(b, b.LeadCost), seconds(b.LeadEach))},
		[2]string{"  waiting and idle", usd(b, b.IdleCost)},
		[2]string{"budget", budgetText(b.Budget)},
	)...)

	w.showQuoted(b, rows)
	if jobs, all := b.Unpriced(); len(jobs) > 0 && !all {
		fmt.Fprintf(w.Out, "note: the price of job %s is not known, so it is not in the totals\n",
			strings.Trim(fmt.Sprint(jobs), "[]"))
	}
	if b.Unreadable > 0 {
		fmt.Fprintf(w.Out, "note: %d claims cannot be read and are not in the totals\n", b.Unreadable)
	}
}

// showQuoted compares the quote with the actual cost.
func (w *World) showQuoted(b *bill.Bill, rows int) {
	q := b.Quote
	if q == nil {
		fmt.Fprintln(w.Out, "note: the sweep was planned by a build without quotes, so there is no price")
		return
	}

	t := w.newTable("", "quoted", "actual", "ratio")
	row := func(what, quoted, actual string, q, a float64) {
		ratio := ""
		if q > 0 && a > 0 {
			ratio = fmt.Sprintf("%.2f", a/q)
		}
		t.AppendRow(table.Row{what, quoted, actual, ratio})
	}

	row("hours", hours(q.Hours), fmt.Sprintf("%.2f", b.Hours), q.Hours.Expected, b.Hours)
	row("USD", money(&q.Cost), usd(b, b.Cost), q.Cost.Expected, b.Cost)
	row("a trial", seconds(q.Trial.Expected), seconds(b.MeanTrial), q.Trial.Expected, b.MeanTrial)
	row("ns per value", fmt.Sprintf("%.3f", q.NsPerValue), fmt.Sprintf("%.3f", b.NsPerValue), q.NsPerValue,
		b.NsPerValue)
	row("interrupted attempts", fmt.Sprintf("%.2f", q.Preemptions), fmt.Sprint(b.Interrupted), 0, 0)
	t.Render()

	// A clearly different speed should be used for the next quote.
	if b.NsPerValue <= 0 || q.NsPerValue <= 0 || math.Abs(b.NsPerValue/q.NsPerValue-1) <= 0.15 {
		return
	}
	if least := quote.Measured().Smallest(); rows < least { // where launcher plan warns, too
		fmt.Fprintf(w.Out, "note: %d rows are too few for a speed to quote with: below %d the fixed cost of a tree "+
			"dominates\n", rows, least)
		return
	}
	fmt.Fprintf(w.Out, "for the next quote on such machines: --ns-per-value %.3f\n", b.NsPerValue)
}

// usd formats an amount of a bill, or its replacement if no price is known.
func usd(b *bill.Bill, v float64) string {
	_, none := b.Unpriced()
	return priced(!none, v)
}

func priced(known bool, v float64) string {
	if !known {
		return "no price"
	}
	return quote.USD(v) + " USD"
}

// machinesOf describes the machines of each job of the sweep, one line each.
func machinesOf(b *bill.Bill) (lines [][2]string) {
	what := "machines"
	for _, j := range b.Jobs {
		price := "no price"
		if j.Hourly > 0 {
			price = fmt.Sprintf("%.4f USD per hour each", j.Hourly)
			if j.PriceDate != "" {
				price += fmt.Sprintf(" (price of %s)", j.PriceDate)
			}
		}
		lines = append(lines, [2]string{what, fmt.Sprintf("%d x %s %s, %s in %s", j.VMs, j.Machine, j.Model, price,
			b.Region)})
		what = ""
	}

	return lines
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Format(time.DateTime) + " (" + humanize.Time(t) + ")"
}
