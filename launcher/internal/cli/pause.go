package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"coppice/internal/problem"
	"coppice/internal/program"
	"coppice/internal/sweep"
	"coppice/launcher/internal/provision"
	"coppice/launcher/internal/sweepview"
)

// leavePatience is how long the tasks of a sweep that was paused may take to leave. They notice with their next
// heartbeat, finish the tree that they grow, and verify the dataset's copy before they save.
const leavePatience = 5 * time.Minute

func pauseCommand(w *Setup) *cobra.Command {
	var noWait bool
	cmd := &cobra.Command{
		Use:   "pause SWEEP",
		Short: "Pause a sweep: give its machines back and keep its progress",
		Long: fmt.Sprintf(`Every task finishes its tree, saves its trial and exits, and the Batch job ends with the
last of them. Nothing is concluded meanwhile, the time limit of the sweep stands still, and it costs nothing but
storage. A job that has no machines yet is cancelled, and so is one whose tasks have not exited after %s. Returns
when that is done; interrupted, the sweep stays paused. Existing results stay, and if the last trial ends just then,
the sweep is concluded.

`+"`launcher resume SWEEP`"+` continues it, to the same models as without the pause. A sweep may be paused %d times.`,
			leavePatience, sweep.MaxHalts),
		Example: `  launcher pause nightly-ctr-1a2b3c4d
  launcher pause nightly-ctr-1a2b3c4d --no-wait --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return w.look(cmd.Context(), args[0], func(s *sweepview.View, st sweepview.State) error {
				return pauseSweep(cmd.Context(), w, s, st, noWait)
			})
		},
	}

	cmd.Flags().BoolVar(&noWait, "no-wait", false, "return as soon as the sweep is marked as paused")
	w.jsonFlag(cmd, "print one JSON object")
	return cmd
}

// over is the error of an action on a sweep that has ended, or is about to.
func over(id sweep.ID, st sweepview.State) error {
	switch {
	case st.Conclusion != nil:
		return problem.New(problem.Conflict, "sweep %s has ended (%s)", id, st.Conclusion.Outcome)
	case st.Ending:
		return problem.New(problem.Conflict, "sweep %s is being concluded; `launcher watch %s` shows how it ends", id,
			id)
	case st.Cancelled:
		return problem.New(problem.Conflict, "sweep %s was cancelled", id)
	case st.Board.Waiting == 0:
		return problem.New(problem.Conflict, "all trials of sweep %s have ended, and it is about to be concluded; "+
			"`launcher watch %s` shows how", id, id)
	}
	return nil
}

// lookOver reads a sweep again, which may have ended while a command was at work.
func lookOver(ctx context.Context, s *sweepview.View) (sweepview.State, error) {
	st, err := s.Look(ctx)
	if err == nil {
		err = over(s.Plan.Sweep, st)
	}
	return st, err
}

// pauseSweep pauses a sweep and waits until its machines are free.
func pauseSweep(ctx context.Context, w *Setup, s *sweepview.View, st sweepview.State, noWait bool) error {
	p, id := s.Plan, s.Plan.Sweep
	if err := over(id, st); err != nil {
		return err
	}
	machines := provisioner(w, p)
	number, created, err := machines.Halt(ctx)
	if err != nil {
		return err
	}
	if st, err = lookOver(ctx, s); err != nil {
		return err
	}
	if noWait {
		if _, _, err := machines.Dismiss(ctx, number, false); err != nil {
			return err
		}
		return printPaused(w, p, st, created, "")
	}

	w.say("sweep %s is paused; waiting until its tasks have saved their trials and exited\n", id)
	job, err := machines.Leave(ctx, number, leavePatience)
	resumed := new(provision.ResumedError)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w; sweep %s is paused nevertheless, and its tasks exit on their own",
			program.ErrInterrupted, id)
	case errors.As(err, &resumed):
		return err
	case err != nil:
		return fmt.Errorf("sweep %s is paused and its tasks exit on their own, but: %w", id, err)
	}
	if st, err = lookOver(ctx, s); err != nil {
		return err
	}
	return printPaused(w, p, st, created, job)
}

// printPaused says that a sweep is paused; job is the state of its job, if that is known.
func printPaused(w *Setup, p *sweep.Plan, st sweepview.State, now bool, job string) error {
	ended, all := st.Board.Tally(p).Ended(), len(p.Own())
	out, what := map[string]any{"sweep": p.Sweep, "paused": true, "before": !now, "ended": ended, "trials": all},
		"is paused"
	if !now {
		what = "was already paused"
	}
	if job != "" {
		out["job"] = job
		what += fmt.Sprintf(" and has no machines (job %s)", job)
	}
	return w.print(out, func() {
		w.printf("sweep %s %s; %d of %d trials have ended\nlauncher resume %s\n", p.Sweep, what, ended, all, p.Sweep)
	})
}
