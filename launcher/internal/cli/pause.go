package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"coppice/internal/program"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/provision"
	"coppice/launcher/internal/stager"
	"coppice/launcher/internal/sweepview"
)

// leavePatience is how long the tasks of a sweep that was paused may take to leave. They notice with their next
// heartbeat, finish the tree that they grow, and verify the dataset's copy before they save.
const leavePatience = 5 * time.Minute

func pauseCommand(w *World) *cobra.Command {
	var asJSON, noWait bool
	cmd := &cobra.Command{
		Use:   "pause SWEEP",
		Short: "Pause a sweep: its machines are given back, and nothing that it has trained is lost",
		Long: fmt.Sprintf(`Every task finishes its tree, saves its trial and leaves, and the Batch job ends with the last of them. Nothing is concluded meanwhile, the time limit of
the sweep stands still, and it costs nothing but storage. A job that has no machines yet is cancelled, and so is one whose tasks have not left
after %s. Returns when that is done; interrupted, the sweep stays paused. Results that are there already stay, and if the last trial ends just then, the sweep is
concluded.

`+"`launcher resume SWEEP`"+` lets it go on, to the same models as without the pause. A sweep may be paused %d times.`, leavePatience, sweep.MaxHalts),
		Example: `  launcher pause nightly-ctr-1a2b3c4d
  launcher pause nightly-ctr-1a2b3c4d --no-wait --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			return w.look(ctx, args[0], func(c *cloud, s *sweepview.Sweep, st sweepview.State) error {
				return w.pauseSweep(ctx, c, s, st, noWait, asJSON)
			})
		},
	}

	cmd.Flags().BoolVar(&noWait, "no-wait", false, "return as soon as the sweep is marked as paused")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// over is the error of an action on a sweep that has ended, or is about to.
func over(id sweep.ID, st sweepview.State) error {
	switch {
	case st.Conclusion != nil:
		return &conflictError{fmt.Errorf("sweep %s has ended (%s)", id, st.Conclusion.Outcome)}
	case st.Ending:
		return &conflictError{fmt.Errorf("sweep %s is being concluded; `launcher watch %s` shows how it ends", id, id)}
	case st.Cancelled:
		return &conflictError{fmt.Errorf("sweep %s was cancelled", id)}
	case st.Board.Waiting == 0:
		return &conflictError{fmt.Errorf("all trials of sweep %s have ended, and it is about to be concluded; "+
			"`launcher watch %s` shows how", id, id)}
	}
	return nil
}

// pauseSweep pauses a sweep and waits until its machines are free.
func (w *World) pauseSweep(ctx context.Context, c *cloud, s *sweepview.Sweep, st sweepview.State, noWait,
	asJSON bool) error {
	p, id := s.Plan, s.Plan.Sweep
	if err := over(id, st); err != nil {
		return err
	}
	provisioner := c.provisioner(w, p, true)
	number, created, err := provisioner.Halt(ctx)
	if err != nil {
		return err
	}

	// The sweep may have ended while this command was looking.
	if st, err = s.Look(ctx); err == nil {
		err = over(id, st)
	}
	if err != nil {
		return err
	}
	if noWait {
		if _, _, err := provisioner.Dismiss(ctx, number, false); err != nil {
			return err
		}
		return w.paused(p, st, created, "", asJSON)
	}

	if !asJSON {
		fmt.Fprintf(w.Out, "sweep %s is paused; waiting until its tasks have saved their trials and left\n", id)
	}
	job, err := provisioner.Leave(ctx, number, leavePatience)
	resumed := new(provision.ResumedError)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w; sweep %s is paused nevertheless, and its tasks leave by themselves",
			program.ErrInterrupted, id)
	case errors.As(err, &resumed):
		return err
	case err != nil:
		return fmt.Errorf("sweep %s is paused and its tasks leave by themselves, but: %w", id, err)
	}
	if st, err = s.Look(ctx); err == nil {
		err = over(id, st)
	}
	if err != nil {
		return err
	}
	return w.paused(p, st, created, job, asJSON)
}

// paused says that a sweep is paused.
func (w *World) paused(p *sweep.Plan, st sweepview.State, now bool, job string, asJSON bool) error {
	own := st.Board.Tally(p)
	if asJSON {
		out := map[string]any{"sweep": p.Sweep, "paused": true, "before": !now, "ended": own.Ended(),
			"trials": len(p.Own())}
		if job != "" {
			out["job"] = job
		}
		return w.printJSON(out)
	}
	what := "is paused"
	if !now {
		what = "was paused before"
	}
	if job != "" {
		what += fmt.Sprintf(" and has no machines (job %s)", job)
	}
	fmt.Fprintf(w.Out, "sweep %s %s; %d of %d trials have ended\nlauncher resume %s\n", p.Sweep, what, own.Ended(),
		len(p.Own()), p.Sweep)
	return nil
}

func resumeCommand(w *World) *cobra.Command {
	var f sweepFlags
	cmd := &cobra.Command{
		Use:   "resume SWEEP",
		Short: "Let a paused sweep go on",
		Long: `Submits the next job of a sweep that was paused, on the machines of its spec, beginning with the first choice again. Its tasks take the trials up where they were
saved. Then it watches the sweep, as launcher sweep does. Run again, it submits a job that was not submitted, and watches.`,
		Example: `  launcher resume nightly-ctr-1a2b3c4d
  launcher resume nightly-ctr-1a2b3c4d --no-wait`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			return w.look(ctx, args[0], func(c *cloud, s *sweepview.Sweep, st sweepview.State) error {
				if err := over(s.Plan.Sweep, st); err != nil {
					return err
				}
				return w.resumeSweep(ctx, c, s, f)
			})
		},
	}

	cmd.Flags().BoolVar(&f.noWait, "no-wait", false, "submit and return")
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON: one object, or one per change while watching")
	return cmd
}

// resumeSweep gives a paused sweep its next job.
func (w *World) resumeSweep(ctx context.Context, c *cloud, s *sweepview.Sweep, f sweepFlags) error {
	// s.Plan has what was decided since, and another fingerprint
	p, _, err := sweepstore.New(c.sweeps, s.Plan.Sweep).Plan(ctx)
	if err != nil {
		return err
	}
	provisioner := c.provisioner(w, p, f.json)
	resumed, err := w.goOn(ctx, c, s, provisioner)
	if err != nil {
		return err
	}

	course, err := provision.Course(ctx, c.sweeps, p)
	if err != nil {
		return err
	}
	if p.Turn(course.Current()) == 0 {
		return &conflictError{fmt.Errorf("sweep %s is not paused; `launcher watch %s` shows it", p.Sweep, p.Sweep)}
	}
	existed, err := provisioner.Submit(ctx)
	if halted := new(provision.HaltedError); errors.As(err, &halted) {
		return &conflictError{fmt.Errorf("somebody has paused sweep %s again", p.Sweep)}
	}
	if err != nil {
		return fmt.Errorf("sweep %s is to go on, but its job could not be submitted: give the same command again "+
			"before its time limit: %w", p.Sweep, err)
	}

	// It may have been cancelled before the job was there to be cancelled.
	if st, err := s.Look(ctx); err != nil {
		return err
	} else if st.Cancelled {
		_, err := c.cancelJobs(ctx, p)
		return errors.Join(over(p.Sweep, st), err)
	}
	if !f.json {
		w.sayResumed(p, course.Current(), existed && !resumed)
	}
	if err := c.settle(ctx, w, p, f); err != nil {
		return err
	}
	if !f.noWait {
		return w.watch(ctx, c, p.Sweep, f.json)
	}
	if !f.json {
		return nil
	}
	job, err := c.jobName(ctx, p)
	if err != nil {
		return err
	}
	return w.printJSON(map[string]any{"sweep": p.Sweep, "job": job, "resumed": resumed})
}

// goOn waits until the tasks that are still saving have left, and records the next job, if nothing has ended the sweep
// by then. resumed is false if it was not paused.
func (w *World) goOn(ctx context.Context, c *cloud, s *sweepview.Sweep,
	provisioner *provision.Provisioner) (resumed bool, err error) {
	id := s.Plan.Sweep
	course, err := provision.Course(ctx, c.sweeps, s.Plan)
	if err != nil {
		return false, err
	}
	if _, halted := course.Halted(); !halted {
		return false, nil
	}
	if _, err := stager.Resolve(ctx, c.datasets, s.Plan.Dataset.Name+"@"+s.Plan.Dataset.Version); err != nil {
		return false, fmt.Errorf("sweep %s cannot go on without its dataset: %w", id, err)
	}

	_, err = provisioner.Leave(ctx, course.Next(), leavePatience)
	gone := new(provision.ResumedError)
	switch {
	case ctx.Err() != nil:
		return false, fmt.Errorf("%w; sweep %s is still paused", program.ErrInterrupted, id)
	case errors.As(err, &gone): // somebody else was faster
		return false, nil
	case err != nil:
		return false, err
	}

	st, err := s.Look(ctx)
	if err != nil {
		return false, err
	}
	if err := over(id, st); err != nil {
		return false, err
	}
	return provisioner.Resume(ctx)
}

// sayResumed says that a sweep goes on, and what its trials lose by another build.
func (w *World) sayResumed(p *sweep.Plan, job int, before bool) {
	what := "goes on"
	if before {
		what = "was resumed before; attached to it"
	}
	fmt.Fprintf(w.Out, "sweep %s %s as %s\n", p.Sweep, what, p.JobName(job))
	if p.Coppice != w.Version {
		fmt.Fprintf(w.Out, "note: it was planned by build %s, and the job runs the deployment's present one (this "+
			"launcher is %s): trials that another build has saved start over\n", p.Coppice, w.Version)
	}
}
