package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"coppice/internal/dataset"
	"coppice/internal/program"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/plan"
	"coppice/launcher/internal/provision"
	"coppice/launcher/internal/stager"
	"coppice/launcher/internal/sweepview"
	"coppice/launcher/internal/warm"
)

type sweepFlags struct {
	assumptionFlags
	id           string
	budget       float64
	slot         slotFlags
	noWait, json bool
	dryRun       bool
}

func (f *sweepFlags) check() error {
	if err := f.assumptionFlags.check(); err != nil {
		return err
	}

	if f.id != "" {
		if err := sweep.CheckID(f.id); err != nil {
			return &program.UsageError{Err: err}
		}
		if sweep.ID(f.id).LikeJob() {
			return program.Usagef("--id %s ends like the id of a later job of another sweep, -f and a number: "+
				"choose another", f.id)
		}
	}
	if f.budget != 0 {
		if err := sweep.CheckBudget(f.budget); err != nil {
			return &program.UsageError{Err: err}
		}
	}
	return nil
}

func sweepCommand(w *World) *cobra.Command {
	var f sweepFlags
	cmd := &cobra.Command{
		Use:   "sweep SWEEP.yaml",
		Short: "Train a sweep's candidates as one Batch job and register the winner",
		Long: `Writes the plan, submits exactly one Batch job and watches it until the aggregator has concluded the sweep. The sweep does not need
the launcher: Ctrl-C only stops watching. Run again with the same spec, dataset version and id, it attaches to the existing sweep.
Started for a slot of a schedule, it attaches to the sweep of that slot, even if the dataset's version or the spec has changed
since: a scheduler that fires twice makes one sweep. If that sweep trains another model or on another dataset, two schedules share a
name, and the command is refused. With validate in the spec every configuration is trained on several folds, one trial each, and the best on
all rows of train and valid (docs/sweep.md). With machine.fallback in the spec the command first waits until a job has machines, even with
--no-wait; run again, it continues where it was.

With a budget, a sweep that is expected to cost more is refused, and one that turns out to is stopped before the money is spent: what has been
trained by then is concluded, if the quorum is reached.`,
		Example: `  launcher sweep sweep.yaml
  launcher sweep sweep.yaml --dry-run
  launcher sweep sweep.yaml --budget 12.50
  launcher sweep sweep.yaml --id nightly-20261120 --no-wait --json
  launcher sweep sweep.yaml --schedule "0 3 * * *" --time-zone Europe/Berlin --no-wait`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := program.RefuseZero(cmd, "budget"); err != nil {
				return err
			}
			return w.sweep(cmd.Context(), args[0], f)
		},
	}

	f.add(cmd)
	cmd.Flags().Float64Var(&f.budget, "budget", 0, "USD that the sweep's machines may cost (default: the spec's)")
	cmd.Flags().StringVar(&f.id, "id", "", "the sweep's id (default: made from the spec and the dataset's version)")
	f.slot.add(cmd)
	cmd.Flags().BoolVar(&f.noWait, "no-wait", false, "submit and return")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "show trials, Batch request and memory; submit nothing")
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON: one object, or one per change while watching")
	return cmd
}

func (w *World) sweep(ctx context.Context, file string, f sweepFlags) error {
	if err := f.check(); err != nil {
		return err
	}

	spec, err := readSpec(file)
	if err != nil {
		return err
	}
	if f.budget != 0 {
		spec.Budget = f.budget
	}

	prices, err := w.prices(f.prices)
	if err != nil {
		return err
	}
	id, scheduled, err := f.slot.id(sweep.ID(f.id), spec.Name, w.Now())
	if err != nil {
		return err
	}

	return w.with(ctx, func(c *cloud) error {
		m, err := stager.Resolve(ctx, c.datasets, spec.Dataset)
		if err != nil {
			return err
		}
		if err := c.allowed(ctx, m.Name, m.Version, w.Now()); err != nil {
			if scheduled && !f.dryRun {
				w.tellRefused(ctx, c, id, spec.Model, err)
			}
			return err
		}
		p, in, err := c.plan(ctx, w, spec, m, id)
		if err != nil {
			return err
		}
		if err := c.quote(ctx, p, m, prices, f.Assumptions); err != nil {
			return err
		}

		if scheduled && !f.dryRun {
			before, err := c.unchanged(ctx, p.Plan)
			if err != nil {
				return err
			}
			if before != "" {
				return w.nothingNew(c, p.Plan, before, f.json)
			}
		}
		return w.start(ctx, c, p, in, scheduled, f)
	})
}

// start shows a plan, or writes it, submits its job and watches that.
func (w *World) start(ctx context.Context, c *cloud, p *plan.Plan, in *inputModel, scheduled bool, f sweepFlags) error {
	if f.dryRun {
		return w.showPlan(c, p, f.json)
	}
	if !f.json {
		w.announce(p)
	}

	if err := in.upload(ctx, sweepstore.New(c.sweeps, p.Sweep)); err != nil {
		return err
	}
	ended, err := c.launch(ctx, w, p, scheduled, f.json)
	if err == nil && ended == nil {
		err = c.settle(ctx, w, p.Plan, f)
	}
	if err != nil {
		return err
	}

	w.log(c).Info("sweep submitted", "sweep", p.Sweep, "job", p.Job, "model", p.Spec.Model, "dataset", p.Dataset.Name+
		"@"+p.Dataset.Version,
		"trials", len(p.Own()), "tasks", p.Sizing.Tasks, "ended_before", ended != nil)
	if ended != nil && !f.json {
		fmt.Fprintf(w.Out, "sweep %s has already ended (%s); to train it again, give another --id\n", p.Sweep,
			ended.Outcome)
	}

	if f.noWait {
		return w.submitted(ctx, c, p, ended, f.json)
	}
	return w.watch(ctx, c, p.Sweep, f.json)
}

// plan makes the plan of a sweep, with the model that it continues, and what earlier sweeps have found.
func (c *cloud) plan(ctx context.Context, w *World, spec *sweep.Spec, m *dataset.Manifest, id sweep.ID) (*plan.Plan,
	*inputModel, error) {
	in, err := c.input(ctx, spec, m)
	if err != nil {
		return nil, nil, err
	}
	p, err := plan.Build(in.request(plan.Request{Spec: spec, Manifest: m, ID: id, Job: c.Jobs.Name, Now: w.Now(),
		Version: w.Version,
		Earlier: func(p *sweep.Plan) ([]sweep.Earlier, error) { return warm.Read(ctx, c.sweeps, p) }}))
	if err != nil {
		return nil, nil, err
	}

	if spec.Continue != nil && in == nil {
		p.Notes = append(p.Notes, fmt.Sprintf("model %s has no %s to continue yet: the trials start from scratch",
			spec.Model, sweep.Champion))
	}
	return p, in, nil
}

// launch writes the plan and submits its job, or finds that both exist. A sweep that has ended is not started again;
// its conclusion is returned. Foreseeable failures come before the plan is written, since a plan without a job would be
// concluded, and its id would be spent. If a scheduled slot has a plan already, that plan counts, and replaces p.
func (c *cloud) launch(ctx context.Context, w *World, p *plan.Plan, scheduled, quiet bool) (*sweep.Conclusion, error) {
	for n := range len(p.Fallback) + 1 {
		if _, err := c.Jobs.Request(p.Placed(n)); err != nil {
			return nil, err
		}
	}
	if _, err := c.Jobs.Status(ctx, p.Job); err != nil {
		return nil, err
	}

	created, err := sweepstore.New(c.sweeps, p.Sweep).CreatePlan(ctx, *p.Plan)
	if err != nil {
		return nil, fmt.Errorf("write the plan of sweep %s: %w", p.Sweep, err)
	}
	// The sweep exists already: it must be the same one, and may have ended.
	if !created {
		there, err := sweepview.Open(ctx, c.sweeps, p.Sweep)
		if err != nil {
			return nil, err
		}

		if there.Plan.Fingerprint() != p.Fingerprint() {
			if !scheduled {
				return nil, &conflictError{fmt.Errorf("sweep %s exists with another plan (made %s); choose another "+
					"--id, or leave it out", p.Sweep, humanize.Time(there.Plan.Created))}
			}
			if err := c.sameSlot(w, p.Plan, there.Plan, quiet); err != nil {
				return nil, err
			}
			p.Plan = there.Plan
		}

		if has := there.Plan.Spec.Budget; has != p.Spec.Budget && !quiet {
			fmt.Fprintf(w.Out, "note: sweep %s was started with %s, and keeps it\n", p.Sweep, budgetText(has))
		}

		// The existing plan's choice for spot: auto holds, whatever the prices are now, and so do the results of
		// earlier sweeps.
		if p.Spec.Machine.SpotAuto || p.Spec.Search.WarmStart != "" {
			p.Plan = there.Plan
		}

		ended, err := sweepview.Conclusion(ctx, c.sweeps, p.Sweep)
		if err != nil || ended != nil {
			return ended, err
		}
	}

	existed, err := c.provisioner(w, p.Plan, quiet).Submit(ctx)
	if halted := new(provision.HaltedError); errors.As(err, &halted) {
		existed, err = c.needsNoJob(ctx, p.Plan, err)
	}
	switch {
	case err != nil || quiet || created && !existed:
	case existed:
		fmt.Fprintf(w.Out, "sweep %s is already running; attached to it\n", p.Sweep)
	default:
		fmt.Fprintf(w.Out, "sweep %s was planned, but had no job; submitted, finished trials are kept\n", p.Sweep)
	}
	return nil, err
}

// needsNoJob reports whether a sweep was paused so late that it is over nevertheless; otherwise it returns the error.
func (c *cloud) needsNoJob(ctx context.Context, p *sweep.Plan, halted error) (bool, error) {
	view, err := sweepview.Open(ctx, c.sweeps, p.Sweep)
	if err != nil {
		return false, err
	}
	st, err := view.Look(ctx)
	if err == nil && !st.Halted.IsZero() {
		err = halted
	}
	return err == nil, err
}

func (w *World) announce(p *plan.Plan) {
	z := p.Sizing
	more := ""
	if p.Extends != nil {
		more = " more"
	}
	fmt.Fprintf(w.Out, "sweep %s: %d%s %s on %s@%s, %s on %d x %s\n", p.Sweep, len(p.Own()), more,
		english.PluralWord(len(p.Own()), "trial", ""), p.Dataset.Name, p.Dataset.Version,
		english.Plural(z.Tasks, "task", ""), z.VMs, z.MachineType)
	if q := p.Quote; q != nil {
		fmt.Fprintf(w.Out, "expected: %s hours, %s, %s\n", hours(q.Hours), quotedCost(q), budgetText(p.Spec.Budget))
	}
	for _, note := range p.Notes {
		fmt.Fprintf(w.Out, "note: %s\n", note)
	}
}

func (w *World) submitted(ctx context.Context, c *cloud, p *plan.Plan, ended *sweep.Conclusion, asJSON bool) error {
	job, err := c.jobName(ctx, p.Plan)
	if err != nil {
		return err
	}
	if asJSON {
		return w.printJSON(map[string]any{"sweep": p.Sweep, "job": job, "trials": len(p.Own()), "ended": ended != nil})
	}
	if ended != nil {
		return nil
	}
	fmt.Fprintf(w.Out, "submitted as %s\nlauncher watch %s\n", job, p.Sweep)
	return nil
}

// showPlan implements --dry-run.
func (w *World) showPlan(c *cloud, p *plan.Plan, asJSON bool) error {
	request, err := c.Jobs.Request(p.Plan)
	if err != nil {
		return err
	}
	if asJSON {
		return w.printJSON(map[string]any{"plan": p.Plan, "request": raw(request), "notes": p.Notes})
	}

	w.announce(p)
	differ := differing(p.Plan)
	names := differ.names
	header := []any{"trial", "from"}
	for _, n := range names {
		header = append(header, n)
	}

	t := w.newTable(header...)
	for _, trial := range p.Own() {
		if trial.Fold > 1 || trial.Refit {
			continue
		}
		row := table.Row{trial.Number, trial.Source}
		for _, n := range names {
			if trial.Open {
				row = append(row, "when claimed")
				continue
			}
			if differ.features != nil {
				row = append(row, differ.of(trial.Params))
				continue
			}
			if v, has := trial.Shown()[n]; has {
				row = append(row, v)
			} else {
				row = append(row, absent)
			}
		}
		t.AppendRow(row)
	}
	t.Render()

	if p.Skipped > 0 {
		fmt.Fprintf(w.Out, "left out: %d configurations that repeat another\n", p.Skipped)
	}
	w.showSizing(p.Sizing)
	w.showFallbacks(p.Plan)
	fmt.Fprintf(w.Out, "%s\n", request)
	return nil
}

func (w *World) showSizing(z sweep.Sizing) {
	bytes := func(n int64) string { return humanize.IBytes(uint64(n)) }
	w.pairs(
		[2]string{"machine", fmt.Sprintf("%d x %s: %d vCPUs, %s", z.VMs, z.MachineType, z.VCPUs, bytes(z.MemoryBytes))},
		[2]string{"dataset, once per machine", bytes(z.DatasetBytes)},
		[2]string{"reserved for the system", bytes(z.ReserveBytes)},
		[2]string{"private to a trial, at most", bytes(z.TrialBytes)},
		[2]string{"tasks per machine", fmt.Sprintf("%d (%s), %d threads each", z.TasksPerVM, z.LimitedBy,
			z.ThreadsPerTask)},
		[2]string{"memory in use, at most",
			fmt.Sprintf("%s of %s", bytes(z.DatasetBytes+z.ReserveBytes+int64(z.TasksPerVM)*z.TrialBytes),
				bytes(z.MemoryBytes))},
		[2]string{"tasks", fmt.Sprint(z.Tasks)},
	)
}

// absent stands for a parameter that a configuration does not have.
const absent = "-"

// varied returns the parameters in which the trials differ, by name. A parameter that only some trials have differs,
// too.
func varied(trials []sweep.Trial) []string {
	values := map[string]map[string]bool{}
	for _, t := range trials {
		if t.Refit { // its number of trees differs from that of the configuration it refits
			continue
		}
		own := t.Shown()
		for name := range t.Params {
			if values[name] == nil {
				values[name] = map[string]bool{}
			}
			v, has := own[name]
			values[name][fmt.Sprint(has, v)] = true
		}
	}

	return slices.DeleteFunc(slices.Sorted(maps.Keys(values)), func(name string) bool { return len(values[name]) < 2 })
}

// settings returns a trial's values of some parameters, without those that it does not have.
func settings(params map[string]any, names []string) string {
	var parts []string
	for _, n := range names {
		v, has := params[n]
		switch x, isNumber := v.(float64); {
		case isNumber:
			parts = append(parts, n+"="+number(x))
		case has:
			parts = append(parts, fmt.Sprintf("%s=%v", n, v))
		}
	}
	return strings.Join(parts, " ")
}

// NoWinnerError is a sweep that ended without a winner.
type NoWinnerError struct {
	Conclusion *sweep.Conclusion
	Failure    string // of the Batch job, if it failed
}

func (e *NoWinnerError) Error() string {
	text := fmt.Sprintf("sweep %s ended without a winner: %s", e.Conclusion.Sweep, e.Conclusion.Reason)
	if e.Failure != "" {
		text += "\n" + e.Failure +
			"\nThe last line of the task's log says why it failed: in Cloud Logging, or in the folder logs/ of the " +
			"local cloud's data."
	}
	return text
}

// ExitStatus is the program's exit code for it.
func (*NoWinnerError) ExitStatus() int { return sweep.ExitNoWinner }

// NotPromotedError is a sweep whose winner did not become the champion.
type NotPromotedError struct{ Conclusion *sweep.Conclusion }

func (e *NotPromotedError) Error() string {
	c := e.Conclusion
	return fmt.Sprintf("sweep %s: version %d of %s is registered and was not promoted (%s): %s", c.Sweep, c.Version,
		c.Model, c.Verdict(), c.Why())
}

// ExitStatus is the program's exit code for it.
func (e *NotPromotedError) ExitStatus() int {
	if e.Conclusion.Verdict() == sweep.VerdictBlocked {
		return sweep.ExitBlocked
	}
	return sweep.ExitNotPromoted
}

var errSilent = errors.New("the Batch job has ended, but the sweep has no conclusion; is the aggregator running? " +
	"`aggregator reconcile` concludes it")
