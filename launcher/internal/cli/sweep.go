package cli

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"coppice/internal/dataset"
	"coppice/internal/machines"
	"coppice/internal/problem"
	"coppice/internal/program"
	"coppice/internal/strictyaml"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/plan"
	"coppice/launcher/internal/provision"
	"coppice/launcher/internal/quote"
	"coppice/launcher/internal/show"
	"coppice/launcher/internal/slot"
	"coppice/launcher/internal/stager"
	"coppice/launcher/internal/sweepview"
)

// startFlags are those of the commands that start a sweep.
type startFlags struct {
	assumptionFlags
	id     string
	budget float64
	noWait bool
	dryRun bool
}

func (f *startFlags) add(w *Setup, cmd *cobra.Command) {
	f.assumptionFlags.add(cmd)
	cmd.Flags().Float64Var(&f.budget, "budget", 0, "USD that the sweep's machines may cost (default: the spec's)")
	cmd.Flags().StringVar(&f.id, "id", "", "the sweep's id (default: made from the spec and the dataset's version)")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "show trials, request and memory; submit nothing")
	f.addWatching(w, cmd)
}

func (f *startFlags) addWatching(w *Setup, cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.noWait, "no-wait", false, "submit and return")
	w.jsonFlag(cmd, "print JSON: one object, or one per change while watching")
}

// check rejects flags out of range. A budget given as 0 is rejected, since 0 stands for none. So is an id that ends
// like the name of a sweep's later job, which it could be taken for.
func (f *startFlags) check(cmd *cobra.Command) error {
	if err := program.RefuseZero(cmd, "budget"); err != nil {
		return err
	}
	if err := f.Check(); err != nil {
		return err
	}

	if f.id != "" {
		if err := sweep.CheckID(f.id); err != nil {
			return problem.As(problem.Usage, err)
		}
		if sweep.ID(f.id).LikeJob() {
			return program.Usagef("--id %s ends in -f and a number, like the later jobs of a sweep: choose another",
				f.id)
		}
	}
	return checkBudget(f.budget)
}

// checkBudget checks --budget in USD; 0 stands for a flag that was not given.
func checkBudget(usd float64) error {
	if err := sweep.CheckBudget(usd); usd != 0 && err != nil {
		return problem.As(problem.Usage, err)
	}
	return nil
}

type sweepFlags struct {
	startFlags
	schedule, zone string
}

func sweepCommand(w *Setup) *cobra.Command {
	var f sweepFlags
	cmd := &cobra.Command{
		Use:   "sweep SWEEP.yaml",
		Short: "Train candidates as one job and register the winner",
		Long: `Writes the plan, submits exactly one job and watches it until the aggregator has concluded the
sweep. The sweep goes on by itself: Ctrl-C only stops watching. Run again with the same spec, dataset
version and id, it attaches to the existing sweep, unless that was cancelled.

With --schedule it belongs to a slot of that schedule, and attaches to the slot's sweep even if the dataset's
version or the spec has changed since: a scheduler that fires twice makes one sweep. If that sweep trains another
model or on another dataset, two schedules share a name, and the command is refused.

With validate in the spec every configuration is trained on several folds, one trial each, and the best on all rows
of train and valid (docs/sweep.md). With machine.fallback in the spec the command first waits until a job has
machines, even with --no-wait; run again, it continues where it was.

With a budget, a sweep that is expected to cost more is refused, and one that turns out to is stopped before the
money is spent: what has been trained by then is concluded, if the quorum is reached.`,
		Example: `  launcher sweep sweep.yaml
  launcher sweep sweep.yaml --dry-run
  launcher sweep sweep.yaml --budget 12.50
  launcher sweep sweep.yaml --id nightly-20261120 --no-wait --json
  launcher sweep sweep.yaml --schedule "0 3 * * *" --time-zone Europe/Berlin --no-wait`,
		RunE: func(cmd *cobra.Command, args []string) error { // args[0] is there, as Use says
			if err := f.check(cmd); err != nil {
				return err
			}
			return runSweep(cmd.Context(), w, args[0], f)
		},
	}

	f.add(w, cmd)
	cmd.Flags().StringVar(&f.schedule, "schedule", "",
		"the cron schedule that starts this command: its latest time, in UTC, makes the sweep's id")
	cmd.Flags().StringVar(&f.zone, "time-zone", "", "time zone of --schedule, such as Europe/Berlin (default: UTC)")
	return cmd
}

// runSweep starts the sweep of the file, or attaches to it if it exists. Its id is --id or follows from the slot, the
// latest time of --schedule; without both it is made from the plan.
func runSweep(ctx context.Context, w *Setup, file string, f sweepFlags) error {
	s, err := f.read(w, file)
	if err != nil {
		return err
	}

	s.id, s.scheduled = sweep.ID(f.id), f.schedule != ""
	switch {
	case !s.scheduled && f.zone != "":
		return program.Usagef("--time-zone needs --schedule")
	case s.scheduled && s.id != "":
		return program.Usagef("give either --id or --schedule: both determine the sweep's id")
	case s.scheduled:
		at, err := slot.Of(f.schedule, f.zone, w.Now())
		if err != nil {
			return err
		}
		s.id = slot.ID(s.spec.Name, at)
	}
	return w.withCloud(ctx, func() error { return sweepOn(ctx, w, s) })
}

// start is a sweep that is to be started.
type start struct {
	flags     startFlags
	spec      *sweep.Spec
	prices    machines.Prices
	dataset   string   // NAME or NAME@VERSION
	id        sweep.ID // "" makes one from the plan
	scheduled bool     // the id is that of a schedule's slot
}

// read reads the spec in the file, in which a --budget replaces the spec's, and the prices of machines. The id is left
// to the caller.
func (f *startFlags) read(w *Setup, file string) (start, error) {
	spec, err := readSpec(file)
	if err != nil {
		return start{}, err
	}
	if f.budget != 0 {
		spec.Budget = f.budget
	}
	prices, err := w.readPrices()
	return start{flags: *f, spec: spec, prices: prices, dataset: spec.Dataset}, err
}

// sweepOn plans a sweep on its dataset and starts it, or attaches to it if it exists. The cloud has to be open. A
// scheduled sweep notifies people if the dataset is blocked, and starts nothing if an earlier one has trained the same
// spec on the same dataset.
func sweepOn(ctx context.Context, w *Setup, s start) error {
	m, err := resolveAllowed(ctx, w, s.dataset, s.id)
	if err != nil {
		if s.scheduled && !s.flags.dryRun {
			tellRefused(ctx, w, s.id, s.spec.Model, err)
		}
		return err
	}
	p, err := planOn(ctx, w, s.spec, m, s.id)
	if err != nil {
		return err
	}
	if err := addQuote(ctx, w, p, m, s.prices, s.flags.Assumptions); err != nil {
		return err
	}

	// A schedule's account may not read quotas, and nobody is there to ask for more.
	if !s.scheduled {
		p.Notes = append(p.Notes, w.explainQuotas(ctx, p.Plan)...)
	}

	if s.scheduled && !s.flags.dryRun {
		before, err := slot.Unchanged(ctx, w.sweeps, p.Plan)
		if err != nil {
			return err
		}
		if before != "" {
			return nothingNew(w, p.Plan, before)
		}
	}
	return startSweep(ctx, w, p, s.scheduled, s.flags)
}

// planOn makes the plan of a sweep on a dataset, with what earlier sweeps have found. An empty id is made from the
// spec.
func planOn(ctx context.Context, w *Setup, spec *sweep.Spec, m *dataset.Manifest, id sweep.ID) (*plan.Planned,
	error) {
	return plan.Build(plan.Inputs{Spec: spec, Manifest: m, ID: id, Job: w.Jobs.Name, Now: w.Now(),
		Version: w.Version,
		Earlier: func(p *sweep.Plan) ([]sweep.Earlier, error) { return sweepview.Earlier(ctx, w.sweeps, p) }})
}

// resolveAllowed returns the manifest of the dataset ref. A version that staging has blocked, and nobody has accepted,
// is rejected. It is allowed if the sweep id (unless "") was planned before, since then nothing new is trained on it.
func resolveAllowed(ctx context.Context, w *Setup, ref string, id sweep.ID) (*dataset.Manifest, error) {
	m, err := stager.Resolve(ctx, w.datasets, ref)
	if err != nil {
		return nil, err
	}
	if id != "" {
		if planned, err := sweepstore.New(w.sweeps, id).HasPlan(ctx); planned || err != nil {
			return m, err
		}
	}
	r, err := stager.Destination{Store: w.datasets}.Night(ctx, m.Name, m.Version)
	if err != nil {
		return nil, err
	}
	return m, stager.CheckNight(r, w.Now(), "")
}

// readSpec reads and checks a SWEEP.yaml.
func readSpec(file string) (*sweep.Spec, error) {
	text, err := strictyaml.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return sweep.ParseSpec(file, text, plan.Vocabulary())
}

// addQuote writes the expected time and cost into the plan. It rejects a plan that is expected to exceed its budget, or
// sure to exceed a time limit. A sweep that exists already is not rejected, whatever it would cost today, since it
// keeps the budget that it was started with.
func addQuote(ctx context.Context, w *Setup, p *plan.Planned, m *dataset.Manifest, prices machines.Prices,
	a quote.Assumptions) error {
	q := quote.Estimator{Plan: p, Manifest: m, Prices: prices, Region: w.env.Location, Assumptions: a}
	if err := q.Price(); err != nil {
		return err
	}
	over := quote.Hold(p.Quote, p.Spec.Machine.Type, p.Spec.Budget)
	if over == nil {
		over = q.Late
	}
	if over == nil {
		return nil
	}
	exists, err := sweepstore.New(w.sweeps, p.Sweep).HasPlan(ctx)
	if err == nil && !exists {
		return over
	}
	return err
}

// nothingNew prints that a scheduled sweep p is not started, since the sweep before has trained the same on the same
// dataset.
func nothingNew(w *Setup, p *sweep.Plan, before sweep.ID) error {
	ref := p.Dataset.Name + "@" + p.Dataset.Version
	w.log().Info("nothing new", "sweep", p.Sweep, "before", before, "model", p.Spec.Model, "dataset", ref)
	return w.print(map[string]any{"sweep": p.Sweep, "nothing_new": true, "before": before, "dataset": ref}, func() {
		w.printf("nothing new: dataset %s is still the latest, and sweep %s has trained the same spec on it; "+
			"no machine is started\n", ref, before)
	})
}

// startSweep prints the plan and the job's request with --dry-run. Otherwise it writes the plan, submits its job, waits
// for machines if the plan has fallbacks, and watches the sweep to its end unless --no-wait is given. A sweep that
// exists is attached to. One that has ended is not started again; its conclusion is shown.
func startSweep(ctx context.Context, w *Setup, p *plan.Planned, scheduled bool, f startFlags) error {
	if f.dryRun {
		request, err := w.Jobs.Request(p.Plan)
		if err != nil {
			return err
		}
		return w.print(map[string]any{"plan": p.Plan, "request": json.RawMessage(request), "notes": p.Notes},
			func() { w.screen().Plan(p, request) })
	}

	// Say what to expect, unless the sweep has ended.
	before, err := sweepstore.New(w.sweeps, p.Sweep).Conclusion(ctx)
	if err != nil {
		return err
	}
	if !w.asJSON && before == nil {
		w.screen().Announce(p)
	}

	// Submit it. A scheduled start also cancels what recent ended sweeps still wait for, even if submitting has failed.
	ended, err := launchSweep(ctx, w, p, scheduled)
	if scheduled {
		if ids, err := sweepstore.Newest(ctx, w.sweeps); err == nil { // else the next start cancels them
			cancelWaiting(ctx, w, ids[:min(len(ids), recentSweeps)]...)
		}
	}
	if err == nil && ended == nil {
		err = settle(ctx, w, p.Plan, f.noWait)
	}
	if err != nil {
		return err
	}

	// Watch it or, with --no-wait, name its current job.
	w.log().Info("sweep submitted", "sweep", p.Sweep, "job", p.Job, "model", p.Spec.Model,
		"dataset", p.Dataset.Name+"@"+p.Dataset.Version, "trials", len(p.Own()), "tasks", p.Sizing.Tasks,
		"ended_before", ended != nil)
	if ended != nil {
		w.say("sweep %s has already ended (%s); to train it again, `launcher sweep` takes another --id\n", p.Sweep,
			ended.Outcome)
	}
	if !f.noWait {
		return watchSweep(ctx, w, p.Sweep)
	}

	course, err := provision.Course(ctx, w.sweeps, p.Plan)
	if err != nil {
		return err
	}
	job := p.JobName(course.Current())
	return w.print(map[string]any{"sweep": p.Sweep, "job": job, "trials": len(p.Own()), "ended": ended != nil}, func() {
		if ended == nil {
			w.printf("submitted as %s\nlauncher watch %s\n", job, p.Sweep)
		}
	})
}

// recentSweeps is how many of the newest sweeps a scheduled start looks at: if they have ended, it cancels their jobs
// that still wait for machines. No launcher may have watched them to their end.
const recentSweeps = 8

// launchSweep writes the plan and submits its job, or finds that both exist. It returns the conclusion of a sweep that
// has ended, which is not started again, else nil. If the sweep has a plan already, attach may replace p.Plan by it.
//
// What can be foreseen to fail is tried before the plan is written: a plan without a job would be concluded as failed,
// and its id could not be used again.
func launchSweep(ctx context.Context, w *Setup, p *plan.Planned, scheduled bool) (*sweep.Conclusion, error) {
	// The requests of all jobs can be made, and Batch answers.
	for n := range len(p.Fallback) + 1 {
		if _, err := w.Jobs.Request(p.Placed(n)); err != nil {
			return nil, err
		}
	}
	if _, err := w.Jobs.Status(ctx, p.Job); err != nil {
		return nil, err
	}

	// The dataset is still there. Writing its manifest anew makes a `launcher clean` at the same time leave it; once
	// the plan is written, clean sees that it is needed. If that fails, a sweep that has a plan is attached to all the
	// same.
	err := stager.Renew(ctx, w.datasets, p.Dataset.Name+"@"+p.Dataset.Version)
	if err != nil {
		if _, _, unplanned := sweepstore.New(w.sweeps, p.Sweep).Plan(ctx); unplanned != nil {
			return nil, err
		}
	}

	created, err := sweepstore.New(w.sweeps, p.Sweep).CreatePlan(ctx, *p.Plan)
	if err != nil {
		return nil, fmt.Errorf("write the plan of sweep %s: %w", p.Sweep, err)
	}
	if !created {
		if err := attach(ctx, w, p, scheduled); err != nil {
			return nil, err
		}
		ended, err := sweepstore.New(w.sweeps, p.Sweep).Conclusion(ctx)
		if err == nil && !scheduled {
			err = checkCancelled(ctx, w, p.Sweep, ended)
		}
		if err != nil || ended != nil {
			return ended, err
		}
	}

	// A new sweep says nothing here; of one that had a plan, say whether its job is new.
	existed, err := provisioner(w, p.Plan).Submit(ctx)
	switch {
	case err != nil || created && !existed:
	case existed:
		w.say("sweep %s is already running; attached to it\n", p.Sweep)
	default:
		w.say("sweep %s was planned, but had no job; submitted, finished trials are kept\n", p.Sweep)
	}
	return nil, err
}

// checkCancelled returns an error of kind Conflict if the sweep was cancelled: it is not started again. ended is its
// conclusion, nil if it has none.
func checkCancelled(ctx context.Context, w *Setup, id sweep.ID, ended *sweep.Conclusion) error {
	if ended != nil && ended.Outcome != sweep.OutcomeCancelled {
		return nil
	}
	cancelled, err := sweepstore.New(w.sweeps, id).Cancelled(ctx)
	if err == nil && cancelled {
		err = problem.New(problem.Conflict, "sweep %s was cancelled, and is not started again; with another name: or "+
			"number of trials: the file makes another sweep, which learns from this one's results with "+
			"search.warm_start: auto", id)
	}
	return err
}

// attach checks that the existing sweep of p's id is the same sweep, and that this build can train it. An unscheduled p
// must have the same fingerprint. A scheduled one may differ (see sameSlot), and then p.Plan becomes the existing plan;
// so it does with a warm start, whose earlier results are those of the existing plan.
func attach(ctx context.Context, w *Setup, p *plan.Planned, scheduled bool) error {
	existing, err := sweepview.Open(ctx, w.sweeps, p.Sweep)
	if err != nil {
		return err
	}

	if existing.Plan.Fingerprint() != p.Fingerprint() {
		if !scheduled {
			return problem.New(problem.Conflict,
				"sweep %s exists with another plan (made %s by build %s, this is %s); choose another --id or name",
				p.Sweep, humanize.Time(existing.Plan.Created), existing.Plan.Coppice, p.Coppice)
		}
		if err := sameSlot(w, p.Plan, existing.Plan); err != nil {
			return err
		}
		p.Plan = existing.Plan
	}
	if has := existing.Plan.Spec.Budget; has != p.Spec.Budget {
		w.say("note: sweep %s was started with %s, and keeps it\n", p.Sweep, show.Budget(has))
	}

	// The existing plan's results of earlier sweeps hold, whatever there is now.
	if p.Spec.Search.WarmStart != "" {
		p.Plan = existing.Plan
	}
	return existing.Plan.Trainable()
}

// sameSlot decides about a plan, mine, that differs from the existing one of its scheduled slot. If both train the same
// model on the same dataset, it is a later start of the same sweep, which continues with the existing plan. Otherwise
// it belongs to another schedule of the same name, which is an error.
func sameSlot(w *Setup, mine, existing *sweep.Plan) error {
	if mine.Dataset.Name != existing.Dataset.Name || mine.Spec.Model != existing.Spec.Model {
		describe := func(p *sweep.Plan) string {
			return fmt.Sprintf("model %q on dataset %q", p.Spec.Model, p.Dataset.Name)
		}
		return problem.New(problem.Input,
			"sweep %s was started with %s, but this spec trains %s; two scheduled sweeps "+
				"have the name %q: give one of them another `name:`", existing.Sweep, describe(existing),
			describe(mine), mine.Spec.Name)
	}
	kept := existing.Dataset.Name + "@" + existing.Dataset.Version
	w.log().Warn("sweep keeps its first plan", "sweep", existing.Sweep, "made", existing.Created, "dataset", kept,
		"offered", mine.Dataset.Name+"@"+mine.Dataset.Version)
	w.say("note: sweep %s was started with another spec or version of the dataset, %s, and keeps its plan (made %s)\n",
		existing.Sweep, kept, humanize.Time(existing.Created))
	return nil
}
