package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"coppice/internal/program"
	"coppice/internal/sweep"
	"coppice/launcher/internal/provision"
	"coppice/launcher/internal/slot"
)

// slotFlags describe the schedule that started the launcher.
type slotFlags struct{ schedule, zone string }

func (f *slotFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.schedule, "schedule", "",
		"the cron schedule that starts this command: its newest time, in UTC, makes the sweep's id")
	cmd.Flags().StringVar(&f.zone, "time-zone", "", "time zone of --schedule, such as Europe/Berlin (default: UTC)")
}

// id is the sweep's id: the given one, or that of the schedule's latest time. If it is empty, the plan chooses.
func (f slotFlags) id(given sweep.ID, name string, now time.Time) (id sweep.ID, scheduled bool, err error) {
	switch {
	case f.schedule == "" && f.zone != "":
		return "", false, program.Usagef("--time-zone needs --schedule")
	case f.schedule == "":
		return given, false, nil
	case given != "":
		return "", false, program.Usagef("give either --id or --schedule: both determine the sweep's id")
	}

	s, err := slot.Parse(f.schedule, f.zone)
	if err != nil {
		return "", false, &program.UsageError{Err: err}
	}
	at, err := s.Last(now)
	if err != nil {
		return "", false, &program.UsageError{Err: err}
	}
	return slot.ID(name, at), true, nil
}

// sharedSlotError reports a sweep of another schedule with the same name and time.
type sharedSlotError struct {
	id          sweep.ID
	mine, there *sweep.Plan
}

func (e *sharedSlotError) Error() string {
	of := func(p *sweep.Plan) string {
		return fmt.Sprintf("model %q on dataset %q", p.Spec.Model, p.Dataset.Name)
	}
	return fmt.Sprintf("sweep %s was started with %s, but this spec trains %s; two scheduled sweeps have the name "+
		"%q: give one of them another `name:`",
		e.id, of(e.there), of(e.mine), e.mine.Spec.Name)
}

// IsInput says that the input is at fault, permanently.
func (*sharedSlotError) IsInput() bool { return true }

// sameSlot decides about a plan that differs from the existing one of its slot: either it is a later start of the same
// sweep, which goes on as it was started, or another schedule's, a *sharedSlotError.
func (c *cloud) sameSlot(w *World, mine, there *sweep.Plan, quiet bool) error {
	if mine.Dataset.Name != there.Dataset.Name || mine.Spec.Model != there.Spec.Model {
		return &sharedSlotError{there.Sweep, mine, there}
	}
	w.log(c).Warn("sweep keeps its first plan", "sweep", there.Sweep, "made", there.Created, "dataset",
		there.Dataset.Name+"@"+there.Dataset.Version,
		"offered", mine.Dataset.Name+"@"+mine.Dataset.Version)
	if !quiet {
		fmt.Fprintf(w.Out, "note: sweep %s was started with another spec or version of the dataset, %s@%s, and "+
			"keeps its plan (made %s)\n",
			there.Sweep, there.Dataset.Name, there.Dataset.Version, humanize.Time(there.Created))
	}
	return nil
}

// provisioner gets machines for a sweep, and reports which.
func (c *cloud) provisioner(w *World, p *sweep.Plan, asJSON bool) *provision.Provisioner {
	return &provision.Provisioner{Store: c.sweeps, Jobs: c.Jobs, Plan: p, Now: w.Now, Every: lookInterval(p),
		Moved: func(n int, reason string) {
			if asJSON {
				_ = json.NewEncoder(w.Out).Encode(map[string]any{"sweep": p.Sweep,
					"moved": map[string]any{"job": p.JobName(n), "machine": provision.Describe(p, n),
						"reason": reason}})
				return
			}
			fmt.Fprintf(w.Out, "no machines for %s: %s\ncontinuing with %s\n", provision.Describe(p, n-1), reason,
				provision.Describe(p, n))
		}}
}

// showFallbacks prints what will be tried if the machines are not available.
func (w *World) showFallbacks(p *sweep.Plan) {
	for i, z := range p.Fallback {
		fmt.Fprintf(w.Out, "without machines after %s: %d x %s, %d tasks of %d threads\n", p.Spec.Machine.Wait, z.VMs,
			provision.Describe(p, i+1), z.Tasks, z.ThreadsPerTask)
	}
}

// settle waits until a job of the sweep has machines, or is the last one.
func (c *cloud) settle(ctx context.Context, w *World, p *sweep.Plan, f sweepFlags) error {
	if len(p.Fallback) == 0 {
		return nil
	}
	provisioner := c.provisioner(w, p, f.json)
	if f.json && f.noWait { // with these flags, only one object is printed, which names the job
		provisioner.Moved = nil
	}
	err := provisioner.Settle(ctx)
	if ctx.Err() != nil {
		return fmt.Errorf("%w; sweep %s is still waiting for the machines that it requested last: run the same "+
			"command again to try the next ones, or `launcher cancel %s`", program.ErrInterrupted, p.Sweep, p.Sweep)
	}
	return err
}

// job returns the status of a sweep's job.
func (c *cloud) job(ctx context.Context, p *sweep.Plan) (JobStatus, error) {
	return provision.Look(ctx, c.sweeps, c.Jobs, p)
}

// jobName returns the name of the sweep's current job.
func (c *cloud) jobName(ctx context.Context, p *sweep.Plan) (string, error) {
	course, err := provision.Course(ctx, c.sweeps, p)
	if err != nil {
		return "", err
	}
	return p.JobName(course.Current()), nil
}

// cancelJobs stops all jobs of a sweep.
func (c *cloud) cancelJobs(ctx context.Context, p *sweep.Plan) (JobStatus, error) {
	job, err := provision.Cancel(ctx, c.sweeps, c.Jobs, p)
	if err != nil {
		return job, errors.Join(fmt.Errorf("sweep %s is marked as cancelled, its tasks will stop", p.Sweep), err)
	}
	return job, nil
}
