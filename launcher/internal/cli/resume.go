package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"coppice/internal/problem"
	"coppice/internal/program"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/provision"
	"coppice/launcher/internal/stager"
	"coppice/launcher/internal/sweepview"
)

func resumeCommand(w *Setup) *cobra.Command {
	var f startFlags
	cmd := &cobra.Command{
		Use:   "resume SWEEP",
		Short: "Resume a paused sweep",
		Long: `Submits the next job of a sweep that was paused, on the machines of its spec, beginning with the first
choice again. Its tasks continue the trials where they were saved. Then it watches the sweep, as launcher sweep
does. Run again, it submits a job that was not submitted, and watches.`,
		Example: `  launcher resume nightly-ctr-1a2b3c4d
  launcher resume nightly-ctr-1a2b3c4d --no-wait`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return w.look(cmd.Context(), args[0], func(s *sweepview.View, st sweepview.State) error {
				if err := over(s.Plan.Sweep, st); err != nil {
					return err
				}
				return resumeSweep(cmd.Context(), w, s, f.noWait)
			})
		},
	}
	f.addWatching(w, cmd)
	return cmd
}

// resumeSweep gives a paused sweep its next job.
func resumeSweep(ctx context.Context, w *Setup, s *sweepview.View, noWait bool) error {
	// s.Plan has what was decided since, and another fingerprint
	p, _, err := sweepstore.New(w.sweeps, s.Plan.Sweep).Plan(ctx)
	if err != nil {
		return err
	}
	machines := provisioner(w, p)
	resumed, err := recordResumption(ctx, w, s, machines)
	if err != nil {
		return err
	}

	course, err := provision.Course(ctx, w.sweeps, p)
	if err != nil {
		return err
	}
	number := course.Current()
	if p.Turn(number) == 0 {
		return problem.New(problem.Conflict, "sweep %s is not paused; `launcher watch %s` shows it. If it is being "+
			"paused just now, run the same command again", p.Sweep, p.Sweep)
	}
	existed, err := machines.Submit(ctx)
	if halted := new(provision.HaltedError); errors.As(err, &halted) {
		return problem.New(problem.Conflict, "sweep %s was paused again meanwhile", p.Sweep)
	}
	if err != nil {
		return fmt.Errorf("sweep %s is resumed, but its job could not be submitted: run the same command again before "+
			"its time limit: %w", p.Sweep, err)
	}

	// It may have been cancelled before the job was there to be cancelled.
	st, err := s.Look(ctx)
	if err != nil {
		return err
	}
	if st.Cancelled {
		_, err := cancelJobs(ctx, w, p)
		return errors.Join(over(p.Sweep, st), err)
	}

	how := "continues"
	if existed && !resumed {
		how = "was already resumed; attached to it"
	}
	w.say("sweep %s %s as %s\n", p.Sweep, how, p.JobName(number))
	if p.Coppice != w.Version {
		w.say("note: it was planned by build %s, and the job runs the deployment's present one (this launcher is %s): "+
			"trials that another build has saved start over\n", p.Coppice, w.Version)
	}
	if err := settle(ctx, w, p, noWait); err != nil {
		return err
	}
	if !noWait {
		return watchSweep(ctx, w, p.Sweep)
	}
	if !w.asJSON {
		return nil
	}
	job, err := jobName(ctx, w, p)
	if err != nil {
		return err
	}
	return w.printJSON(map[string]any{"sweep": p.Sweep, "job": job, "resumed": resumed})
}

// recordResumption waits until the tasks that are still saving have exited, and records the next job, if nothing has
// ended the sweep by then. resumed is false if it was not paused.
func recordResumption(ctx context.Context, w *Setup, s *sweepview.View,
	machines *provision.Provisioner) (resumed bool, err error) {
	id := s.Plan.Sweep
	course, err := provision.Course(ctx, w.sweeps, s.Plan)
	if err != nil {
		return false, err
	}
	if _, halted := course.Halted(); !halted {
		return false, nil
	}
	if _, err := stager.Resolve(ctx, w.datasets, s.Plan.Dataset.Name+"@"+s.Plan.Dataset.Version); err != nil {
		return false, fmt.Errorf("sweep %s cannot continue without its dataset: %w", id, err)
	}

	_, err = machines.Leave(ctx, course.Next(), leavePatience)
	gone := new(provision.ResumedError)
	switch {
	case ctx.Err() != nil:
		return false, fmt.Errorf("%w; sweep %s is still paused", program.ErrInterrupted, id)
	case errors.As(err, &gone): // another command was faster
		return false, nil
	case err != nil:
		return false, err
	}
	if _, err := lookOver(ctx, s); err != nil {
		return false, err
	}
	return machines.Resume(ctx)
}
