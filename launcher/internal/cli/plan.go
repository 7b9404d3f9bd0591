package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"coppice/internal/dataset"
	"coppice/internal/machines"
	"coppice/internal/program"
	"coppice/internal/strictyaml"
	"coppice/internal/sweep"
	"coppice/launcher/internal/plan"
	"coppice/launcher/internal/quote"
	"coppice/launcher/internal/stager"
)

// assumptionFlags set what a quote cannot know.
type assumptionFlags struct {
	prices string
	quote.Assumptions
}

func (f *assumptionFlags) add(cmd *cobra.Command) {
	f.Assumptions = quote.Assumed()
	cmd.Flags().StringVar(&f.prices, "prices", "",
		"file with prices, used unless the built-in ones are newer (default: $COPPICE_PRICES, or what \"launcher "+
			"prices refresh\" wrote)")
	cmd.Flags().Float64Var(&f.NsPerValue, "ns-per-value", 0,
		"nanoseconds per row, feature and tree of a trial with the sweep's threads, as \"launcher bill\" shows "+
			"them; 0 uses the calibration")
	cmd.Flags().DurationVar(&f.Startup, "startup", f.Startup,
		"assumed: from a machine's first charged second to its first task")
	cmd.Flags().Float64Var(&f.Preemptions, "preemptions", f.Preemptions,
		"assumed: preemptions per hour of a Spot machine")
	cmd.Flags().Float64Var(&f.Download, "download", f.Download,
		"assumed: bytes per second from Cloud Storage to local SSD")
}

func (f *assumptionFlags) check() error {
	switch {
	case f.Startup < 0 || f.Startup > 24*time.Hour:
		return program.Usagef("--startup is %s: use 0s to 24h", f.Startup)
	case !(f.Preemptions >= 0) || f.Preemptions > 60:
		return program.Usagef("--preemptions is %v: use 0 to 60 an hour", f.Preemptions)
	case !(f.Download >= 1e3) || f.Download > 1e12:
		return program.Usagef("--download is %v: use 1e3 to 1e12 bytes per second", f.Download)
	case !(f.NsPerValue >= 0) || f.NsPerValue > 1e6:
		return program.Usagef("--ns-per-value is %v: use 0 to 1e6", f.NsPerValue)
	}
	return nil
}

type planFlags struct {
	assumptionFlags
	machines []string
	vms      int
	within   time.Duration
	budget   float64
	region   string
	rows     int
	features int
	heldOut  int
	json     bool
}

func planCommand(w *World) *cobra.Command {
	var f planFlags
	cmd := &cobra.Command{
		Use:   "plan SWEEP.yaml",
		Short: "Compare what a sweep needs on several machine types: tasks, memory, hours, cost",
		Long: `Shows what the sweep would need on its own machine type and on others, on Spot and on demand, and which is the cheapest that finishes in
time. Nothing is written or submitted. With --rows and --features the dataset need not exist, and no cloud is used.

Hours come from a calibration (docs/cost.md) and assume that every tree is grown; the range in brackets shows the uncertainty. Local SSDs are
in the price; Cloud Storage, Pub/Sub, Cloud Run and network are not.`,
		Example: `  launcher plan sweep.yaml
  launcher plan sweep.yaml --within 1h --machines n2-highmem-64,c3d-highmem-60-lssd,c4d-highmem-64-lssd
  launcher plan sweep.yaml --rows 130000000 --features 40 --region europe-west4 --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := program.RefuseZero(cmd, "vms", "within", "budget", "rows", "features", "held-out"); err != nil {
				return err
			}
			if err := f.check(); err != nil {
				return err
			}
			return w.compare(cmd.Context(), args[0], f)
		},
	}

	f.add(cmd)
	cmd.Flags().StringSliceVar(&f.machines, "machines", nil,
		"machine types to compare (default: those similar to the sweep's)")
	cmd.Flags().IntVar(&f.vms, "vms", 0, "machines of each type (default: about as many vCPUs as the sweep's)")
	cmd.Flags().DurationVar(&f.within, "within", 0,
		"time within which the sweep should finish: uses as few machines of each type as that is expected to take")
	cmd.Flags().Float64Var(&f.budget, "budget", 0, "USD that the sweep may cost (default: the spec's)")
	cmd.Flags().StringVar(&f.region, "region", "", "region of the prices (default: $COPPICE_LOCATION or us-central1)")
	cmd.Flags().IntVar(&f.rows, "rows", 0, "rows to train on, if the dataset does not exist")
	cmd.Flags().IntVar(&f.features, "features", 0, "its features")
	cmd.Flags().IntVar(&f.heldOut, "held-out", 0,
		"its rows in each of valid, calib and test (default: a fiftieth of --rows)")
	cmd.Flags().BoolVar(&f.json, "json", false, "print one JSON object")
	return cmd
}

func (f *planFlags) check() error {
	if err := f.assumptionFlags.check(); err != nil {
		return err
	}

	switch {
	case f.rows < 0 || f.features < 0 || f.heldOut < 0:
		return program.Usagef("--rows is %d, --features %d, --held-out %d: use numbers above 0, or leave them out",
			f.rows, f.features, f.heldOut)
	case (f.rows > 0) != (f.features > 0):
		return program.Usagef("--rows and --features go together")
	case f.heldOut > 0 && f.rows == 0:
		return program.Usagef("--held-out needs --rows and --features; give them, or leave it out")
	case f.vms < 0 || f.vms > 2000:
		return program.Usagef("--vms is %d: use 1 to 2000", f.vms)
	case f.within < 0:
		return program.Usagef("--within is %s: use a duration above 0", f.within)
	case f.vms > 0 && f.within > 0:
		return program.Usagef("--vms sets the number of machines, --within finds it; give only one of them")
	}

	if f.budget != 0 {
		if err := sweep.CheckBudget(f.budget); err != nil {
			return &program.UsageError{Err: err}
		}
	}
	return nil
}

func (w *World) compare(ctx context.Context, file string, f planFlags) error {
	spec, err := readSpec(file)
	if err != nil {
		return err
	}
	if f.budget == 0 {
		f.budget = spec.Budget
	}
	prices, err := w.prices(f.prices)
	if err != nil {
		return err
	}

	use := func(m *dataset.Manifest, region string) error { return w.compareOn(spec, m, prices, region, f) }
	if f.rows > 0 {
		heldOut := f.heldOut
		if heldOut == 0 {
			heldOut = max(1, f.rows/50)
		}
		m, err := quote.Stated{Rows: f.rows, Features: f.features, HeldOut: heldOut,
			Validate: spec.Validate}.Manifest(datasetName(spec.Dataset), spec.Objective == "binary")
		if err != nil {
			return &program.UsageError{Err: err}
		}
		return use(m, w.region(f.region, ""))
	}

	return w.with(ctx, func(c *cloud) error {
		m, err := stager.Resolve(ctx, c.datasets, spec.Dataset)
		if err != nil {
			return err
		}
		return use(m, w.region(f.region, c.env.Location))
	})
}

func readSpec(file string) (*sweep.Spec, error) {
	text, err := strictyaml.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return sweep.ParseSpec(file, text, vocabulary())
}

func datasetName(ref string) string {
	name, _, _ := strings.Cut(ref, "@")
	return name
}

const defaultRegion = "us-central1"

// region is the region used for prices.
func (w *World) region(flag, deployed string) string {
	if flag != "" {
		return flag
	}
	if env, ok := w.Env.Lookup("COPPICE_LOCATION"); deployed == "" && ok {
		deployed = env
	}
	if deployed == "" {
		return defaultRegion
	}
	return deployed
}

func (w *World) compareOn(spec *sweep.Spec, m *dataset.Manifest, prices *machines.Prices, region string,
	f planFlags) error {
	p, err := plan.Build(plan.Request{Spec: spec, Manifest: m, ID: "quote",
		Job: func(id sweep.ID) string { return string(id) }, Now: w.Now(), Version: w.Version, Unfit: true})
	if err != nil {
		return err
	}
	q := quote.Estimator{Plan: p, Manifest: m, Prices: prices, Region: region, Assumptions: f.Assumptions}
	c, err := q.Compare(quote.Wish{Machines: f.machines, VMs: f.vms, Within: f.within, Budget: f.budget})
	if err != nil {
		return err
	}

	if f.json {
		return w.printJSON(map[string]any{"dataset": ofTable(p.Dataset, m), "trials": len(p.Trials), "region": region,
			"startup_seconds": f.Startup.Seconds(),
			"assumptions":     f.Assumptions, "comparison": c})
	}

	if spec.Machine.SpotAuto {
		p.Notes = append(p.Notes,
			"spot: auto decides when the sweep is started, by the prices of that day: on demand if Spot is expected "+
				"to cost as much or to exceed limits.sweep")
	}
	w.showComparison(p, &q, c)
	if c.Recommended != nil {
		fmt.Fprintln(w.Out, machineLine(spec.Machine, c.Recommended))
	}
	return nil
}

// ofTable returns the dataset reference with the numbers of rows in the table, counting each once, as people expect.
func ofTable(ref sweep.DatasetRef, m *dataset.Manifest) sweep.DatasetRef {
	rows := map[string]int{}
	for split := range ref.Rows {
		rows[split] = m.TableRows(split)
	}
	ref.Rows = rows
	return ref
}

// showComparison prints the table, its assumptions, and the recommendation.
func (w *World) showComparison(p *plan.Plan, q *quote.Estimator, c *quote.Comparison) {
	rows := humanize.Comma(int64(q.Manifest.TableRows(sweep.Train))) + " rows to train on"
	if n := q.Manifest.Copies(); n > 1 {
		rows += fmt.Sprintf(", in %d orders", n)
	}
	fmt.Fprintf(w.Out, "%s on %s: %s, %d features, %s staged; prices in %s\n",
		english.Plural(len(p.Trials), "trial", ""), p.Dataset.Name,
		rows, p.Dataset.Features, humanize.IBytes(uint64(p.Dataset.Bytes)), q.Region)
	t := w.newTable("machine", "VMs", "tasks x threads", "waves", "memory of each", "SSDs", "hours on demand",
		"USD on demand", "hours on Spot", "USD on Spot")
	for _, o := range c.Offers {
		t.AppendRow([]any{o.Machine, o.VMs, fmt.Sprintf("%d x %d", o.TasksPerVM, o.ThreadsPerTask), o.Waves,
			fmt.Sprintf("%s of %s", humanize.IBytes(uint64(o.UsedBytes)), humanize.IBytes(uint64(o.MemoryBytes))),
			o.LocalSSD,
			hours(o.OnDemand.Hours), money(o.OnDemand.Cost), hours(o.Spot.Hours), money(o.Spot.Cost)})
	}
	t.Render()

	for _, u := range c.Unfit {
		fmt.Fprintf(w.Out, "%s: %s\n", u.Machine, u.Reason)
	}
	w.showAssumptions(q, c)
	for _, note := range append(p.Notes, c.Notes...) {
		fmt.Fprintf(w.Out, "note: %s\n", note)
	}

	r := c.Recommended
	if r == nil {
		fmt.Fprintf(w.Out, "recommended: nothing; %s\n", c.Reason)
		return
	}

	where := "on demand"
	if r.Spot {
		where = "on Spot"
	}
	fmt.Fprintf(w.Out, "recommended: %d x %s %s, %s hours and %s USD: %s\n", r.VMs, r.Machine, where, hours(r.Hours),
		money(&r.Cost), c.Reason)
}

// machineLine is the recommendation as a line for a sweep.yaml that asked for m: quoted with it, the sweep takes the
// same. Settings that the comparison did not change are listed as to be kept.
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
		line += fmt.Sprintf(" # without %s: keep those of the sweep's machine:, which were not compared",
			strings.Join(kept, ", "))
	}
	return line
}

func (w *World) showAssumptions(q *quote.Estimator, c *quote.Comparison) {
	if len(c.Offers) == 0 {
		return
	}

	o := c.Offers[0]
	measured := "measured on AMD Turin (c4d)"
	if o.ThreadsPerTask > 2 { // nothing was measured on more than two cores
		measured = "extrapolated from two cores of AMD Turin (c4d)"
	}
	speed := fmt.Sprintf("%.3f ns per row, feature and tree with %s, the mean of the trials, as %s; the range is "+
		"%.2f to %.2f times that", o.NsPerValue, threads(o.ThreadsPerTask), measured, quote.Measured().Low, quote.Measured().High)
	if q.NsPerValue > 0 {
		speed = fmt.Sprintf("%.3f ns per row, feature and tree with %s, as given", o.NsPerValue,
			threads(o.ThreadsPerTask))
	}

	seen := map[string]bool{}
	dates := []string{}
	for i := range c.Offers {
		for _, s := range []*quote.Side{&c.Offers[i].OnDemand, &c.Offers[i].Spot} {
			if text := s.PriceDate + ", " + s.PriceFrom; s.PriceFrom != "" && !seen[text] {
				seen[text] = true
				dates = append(dates, text)
			}
		}
	}

	w.pairs([2]string{"speed", speed},
		[2]string{"a trial, all its trees", fmt.Sprintf("%s (%s to %s), the mean one", seconds(o.Trial.Expected),
			seconds(o.Trial.Low), seconds(o.Trial.High))},
		[2]string{"before the first trial",
			fmt.Sprintf("%s: %s to start a machine, %s MB/s to copy the dataset (assumed)", seconds(o.Lead.Expected),
				q.Startup, humanize.Comma(int64(q.Download/1e6)))},
		[2]string{"preemptions",
			fmt.Sprintf("%v per hour of a Spot machine (assumed); each costs a start, half a minute unsaved, and "+
				"resuming", q.Preemptions)},
		[2]string{"prices", strings.Join(dates, "\n")})
}

func threads(n int) string {
	if n == 1 {
		return "1 thread"
	}
	return fmt.Sprintf("%d threads", n)
}

func hours(r sweep.Range) string {
	return fmt.Sprintf("%.2f (%.2f to %.2f)", r.Expected, r.Low, r.High)
}

func money(r *sweep.Range) string {
	if r == nil {
		return "no price"
	}
	return fmt.Sprintf("%s (%s to %s)", quote.USD(r.Expected), quote.USD(r.Low), quote.USD(r.High))
}

func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	if d < 10*time.Second {
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
