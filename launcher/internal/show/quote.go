package show

import (
	"fmt"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"coppice/internal/page"
	"coppice/internal/sweep"
	"coppice/launcher/internal/plan"
	"coppice/launcher/internal/provision"
	"coppice/launcher/internal/quote"
)

// Comparison writes first the machines that a sweep should take, if any can be recommended, then what it needs on
// several types, why others do not fit, what the estimates assume, and the recommendation as a line to paste into the
// spec. asked is the machine in the spec.
func (w Printer) Comparison(p *plan.Planned, asked sweep.Machine, q *quote.Estimator, c *quote.Comparison) {
	if r := c.Recommended; r != nil {
		w.Printf("%s   %s   %s\n", rented(r.VMs, r.Machine, r.Spot), quote.Hours(r.Hours), quote.Money(&r.Cost))
	}
	w.Printf("%s\n", c.Reason)

	// What is trained on what.
	rows := humanize.Comma(int64(q.Manifest.TableRows(sweep.Train))) + " rows to train on"
	if n := q.Manifest.Copies(); n > 1 {
		rows += fmt.Sprintf(", in %d orders", n)
	}
	w.Printf("%s on %s: %s, %d features, %s staged; prices in %s\n",
		trials(len(p.Own())), p.Dataset.Name, rows, p.Dataset.Features, humanize.IBytes(uint64(p.Dataset.Bytes)),
		q.Region)

	// Each type on Spot and on demand, and why others do not fit.
	t := w.Table("machines", "time", "cost", "tasks x threads", "waves", "memory of each", "SSDs").
		Least("SSDs", "waves", "memory of each", "tasks x threads")
	for _, o := range c.Offers {
		for _, spot := range []bool{true, false} {
			side := o.Side(spot)
			t.Row(rented(o.VMs, o.Machine, spot), quote.Hours(side.Hours), quote.Money(side.Cost),
				fmt.Sprintf("%d x %d", o.TasksPerVM, o.ThreadsPerTask), o.Waves, fmt.Sprintf("%s of %s",
					humanize.IBytes(uint64(o.UsedBytes)), humanize.IBytes(uint64(o.MemoryBytes))), o.LocalSSD)
		}
	}
	t.Print()
	for _, u := range c.Unfit {
		w.Printf("%s: %s\n", u.Machine, u.Reason)
	}

	if len(c.Offers) > 0 {
		w.Pairs(assumptions(q, c)...)
	}
	for _, note := range append(p.Notes, c.Notes...) {
		w.Printf("note: %s\n", note)
	}
	if c.Recommended != nil {
		w.YAML(machineLine(asked, c.Recommended))
	}
}

// rented formats machines of a type, and how they are paid for: 2 x n2-highmem-8 Spot.
func rented(vms int, machine string, spot bool) string {
	return fmt.Sprintf("%d x %s", vms, paidFor(machine, spot))
}

// paidFor formats a type of machine, and how it is paid for: n2-highmem-8 Spot.
func paidFor(machine string, spot bool) string {
	if spot {
		return machine + " Spot"
	}
	return machine + " on demand"
}

// machineLine returns the recommendation r as a line for the sweep.yaml that asked for the machine m. A sweep with that
// line has the same quote. A second line, a comment, names the keys of m that were not compared and have to be kept.
func machineLine(m sweep.Machine, r *quote.Recommended) string {
	line := fmt.Sprintf("machine: {type: %s, vms: %d, spot: %t, threads_per_task: %d", r.Machine, r.VMs, r.Spot,
		m.ThreadsPerTask)
	if r.Machine == m.Type && m.TasksPerVM > 0 { // other types were compared without it
		line += fmt.Sprintf(", tasks_per_vm: %d", m.TasksPerVM)
	}
	if r.Machine == m.Type && m.LocalSSD > 0 {
		line += fmt.Sprintf(", local_ssd: %d", m.LocalSSD)
	}
	line += "}"

	var kept []string
	if len(m.Zones) > 0 {
		kept = append(kept, "zones")
	}
	if len(m.Fallback) > 0 {
		kept = append(kept, "wait", "fallback")
	}
	if len(kept) > 0 {
		line += fmt.Sprintf("\n# without %s: keep those of machine:, not compared", strings.Join(kept, ", "))
	}
	return line
}

// assumptions returns what the offers rest on, as pairs of label and text: the first offer's speed and times, and the
// source of each price. c has at least one offer.
func assumptions(q *quote.Estimator, c *quote.Comparison) (pairs [][2]string) {
	add := func(what, format string, args ...any) {
		pairs = append(pairs, [2]string{what, fmt.Sprintf(format, args...)})
	}
	o := c.Offers[0]
	speed := "as given"
	if q.NsPerValue == 0 {
		speed = "measured on AMD Turin (c4d)"
		if o.ThreadsPerTask > 2 { // nothing was measured on more than two cores
			speed = "extrapolated from two cores of AMD Turin (c4d)"
		}
		speed += fmt.Sprintf("; %.2f to %.2f times that", quote.Measured().Low, quote.Measured().High)
	}
	add("speed", "%.3f ns per row, feature and tree with %s, %s", o.NsPerValue, threads(o.ThreadsPerTask), speed)
	add("a trial, all its trees", "%s, the mean one", quote.Times(o.Trial))
	if r := o.Refit; r != nil {
		text := ""
		if kept := q.Plan.FinalReserve(); kept > 0 {
			text = fmt.Sprintf("; the last %s of limits.sweep are kept for it", quote.Time(kept.Seconds()))
		}
		on := "one machine"
		if o.RefitMachines > 1 {
			on = fmt.Sprintf("%d machines, each", o.RefitMachines)
		}
		add("the winner, once more", "%s, on %s with %s%s", quote.Times(*r), on,
			threads(o.TasksPerVM*o.ThreadsPerTask), text)
	}
	add("before the first trial", "%s: %s to start a machine, %s MB/s to copy the dataset (assumed)",
		quote.Time(o.Lead.Expected), quote.Time(q.Startup.Seconds()), humanize.Comma(int64(q.Download/1e6)))
	add("preemptions", "%v per hour of a Spot machine (assumed); each costs a start, half a minute unsaved, and "+
		"resuming", q.Preemptions)

	// The sources of prices in the order of the offers, each with the machines that it has prices of.
	var sources []string
	pricedBy := map[string][]string{}
	for _, o := range c.Offers {
		for _, spot := range []bool{true, false} {
			s := o.Side(spot)
			if s.PriceFrom == "" { // no price is known
				continue
			}
			from := s.PriceDate + ", " + s.PriceFrom
			if pricedBy[from] == nil {
				sources = append(sources, from)
			}
			pricedBy[from] = append(pricedBy[from], paidFor(o.Machine, spot))
		}
	}
	for _, from := range sources {
		if len(sources) > 1 {
			from += ": " + strings.Join(pricedBy[from], ", ")
		}
		add("prices", "%s", from)
	}
	return pairs
}

func threads(n int) string { return english.Plural(n, "thread", "") }

// Announce writes what a sweep is about to do, what that is expected to take and cost, and the plan's notes.
func (w Printer) Announce(p *plan.Planned) {
	z := p.Sizing
	w.Printf("sweep %s: %s on %s@%s, %s on %d x %s\n", p.Sweep, trials(len(p.Own())), p.Dataset.Name, p.Dataset.Version,
		english.Plural(z.Tasks, "task", ""), z.VMs, z.MachineType)
	if q := p.Quote; q != nil {
		cost := "no price known"
		if q.Hourly > 0 {
			cost = quote.Money(&q.Cost)
		}
		cost += " " + quote.Priced(q.Spot)
		if w.Home {
			cost = "nothing to pay here (on Google Cloud: " + cost + ")"
		}
		w.Printf("expected: %s, %s, %s\n", quote.Hours(q.Hours), cost, Budget(p.Spec.Budget))
	}
	for _, note := range p.Notes {
		w.Printf("note: %s\n", note)
	}
}

// Plan writes everything that a sweep would do: what Announce writes, its trials with the parameters in which they
// differ, its memory, and the request to Batch. Of cross-validated configurations only the first fold is listed.
func (w Printer) Plan(p *plan.Planned, request []byte) {
	w.Announce(p)
	differ := page.Differ(p.Plan)
	header := []any{"trial", "from"}
	for _, q := range differ.Shown {
		header = append(header, q.Name)
	}
	t := w.Table(header...)
	for _, trial := range p.Own() {
		if trial.Fold > 1 || trial.Refit {
			continue
		}
		row, own := []any{trial.Number, trial.Source}, differ.Of(trial.Params)
		for _, q := range differ.Shown {
			if trial.Open {
				row = append(row, "when claimed")
			} else {
				row = append(row, own[q.Name])
			}
		}
		t.Row(row...)
	}
	t.Print()

	if p.Skipped > 0 {
		w.Printf("left out: %s that repeat another\n", english.Plural(p.Skipped, "configuration", ""))
	}
	z, bytes := p.Sizing, func(n int64) string { return humanize.IBytes(uint64(n)) }
	w.Printf("memory of each of %d x %s: %s, of which the dataset takes %s, the system %s, and each of %d tasks at "+
		"most %s private to a trial (%s, %d vCPUs, %s each)\n", z.VMs, z.MachineType, bytes(z.MemoryBytes),
		bytes(z.DatasetBytes), bytes(z.ReserveBytes), z.TasksPerVM, bytes(z.TrialBytes), z.LimitedBy, z.VCPUs,
		threads(z.ThreadsPerTask))
	for i, z := range p.Fallback {
		w.Printf("without machines after %s: %d x %s, %s of %s\n", p.Spec.Machine.Wait, z.VMs,
			provision.Describe(p.Plan, i+1), english.Plural(z.Tasks, "task", ""), threads(z.ThreadsPerTask))
	}
	fmt.Fprintf(w, "%s\n", request)
}
