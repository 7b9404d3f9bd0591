package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"coppice/internal/problem"
	"coppice/internal/program"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/sweepview"
)

func cancelCommand(w *Setup) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cancel SWEEP",
		Short: "Stop a sweep",
		Long: fmt.Sprintf(`Asks every task to stop, and returns when the job has ended. It ends when its tasks
have cleared up after themselves; a job that has no machines yet is cancelled, and so is one whose tasks have not
exited after %s. What has been trained stays readable, and informs a sweep with another name or number of
trials that has search.warm_start: auto; nothing is registered.`, cancelPatience),
		Example: `  launcher cancel nightly-ctr-1a2b3c4d`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return w.readSweep(cmd.Context(), args, func(s *sweepview.View, st sweepview.State) error {
				return cancelSweep(cmd.Context(), w, s.Plan, st)
			})
		},
	}
	w.jsonFlag(cmd, "print one JSON object")
	return cmd
}

// cancelPatience is how long the tasks of a cancelled sweep may take to leave. They notice with their next heartbeat.
const cancelPatience = time.Minute

// cancelSweep stops the sweep of the plan p, whose state is st, and its jobs, and prints that. Of a sweep that has
// ended, only a job that still runs is cancelled. One that is being concluded is an error of kind Conflict.
func cancelSweep(ctx context.Context, w *Setup, p *sweep.Plan, st sweepview.State) error {
	id := p.Sweep
	if st.Conclusion != nil {
		return cancelLeftover(ctx, w, p, st.Conclusion)
	}
	if st.Ending {
		return problem.New(problem.Conflict,
			"sweep %s is being concluded; it is too late to cancel. `launcher watch %s` "+
				"shows how it ends", id, id)
	}

	// Write the cancelled mark, which may be there already. Tasks see it, remove their checkpoints and stop.
	if _, err := sweepstore.New(w.sweeps, id).Cancel(ctx, w.Now().UTC()); err != nil {
		return fmt.Errorf("ask sweep %s to stop: %w", id, err)
	}

	// Wait until they have. Batch then cancels what is left.
	err := provisioner(w, p).Leave(ctx, cancelPatience)
	if ctx.Err() != nil {
		return fmt.Errorf("%w; sweep %s is cancelled nevertheless, and its tasks exit on their own",
			program.ErrInterrupted, id)
	}
	if err != nil {
		w.say("sweep %s is marked as cancelled, but: %v\n", id, err) // what follows cancels its jobs
	}
	job, err := cancelJobs(ctx, w, p)
	if err != nil {
		return err
	}
	return w.print(map[string]any{"sweep": id, "job": job.State},
		func() { w.printf("sweep %s is cancelled (job %s)\n", id, job.State) })
}

// cancelLeftover cancels the job of a sweep that has ended with the conclusion end, if the job is still running, and
// prints that. If the job has ended as well, there is nothing to cancel, which is an error of kind Conflict unless the
// sweep was cancelled.
func cancelLeftover(ctx context.Context, w *Setup, p *sweep.Plan, end *sweep.Conclusion) error {
	job, err := w.job(ctx, p)
	if err != nil {
		return err
	}
	switch cancelled := end.Outcome == sweep.OutcomeCancelled; {
	case job.Finished && cancelled:
		return w.print(map[string]any{"sweep": p.Sweep, "before": true},
			func() { w.printf("sweep %s was already cancelled\n", p.Sweep) })
	case job.Finished:
		return problem.New(problem.Conflict, "sweep %s has ended (%s); there is nothing to cancel", p.Sweep,
			end.Outcome)
	}
	if job, err = cancelJobs(ctx, w, p); err != nil {
		return err
	}
	return w.print(map[string]any{"sweep": p.Sweep, "job": job.State, "ended": end.Outcome}, func() {
		w.printf("sweep %s had ended (%s); its job was still running, and is cancelled (job %s)\n", p.Sweep,
			end.Outcome, job.State)
	})
}
