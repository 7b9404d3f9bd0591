package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"coppice/internal/blob"
	"coppice/internal/problem"
	"coppice/internal/program"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/sweepview"
)

func cancelCommand(w *Setup) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cancel SWEEP [TRIAL]",
		Short: "Stop a sweep, or one of its trials",
		Long: fmt.Sprintf(`Asks every task to stop, and returns when the Batch job has ended. It ends when its tasks
have cleared up after themselves; a job that has no machines yet is cancelled, and so is one whose tasks have not
exited after %s. What has been trained stays readable, and informs a sweep with another name or number of
trials that has search.warm_start: auto; nothing is registered.

With TRIAL, only that trial is cancelled, and the sweep goes on: the task that trains it stops with its next
heartbeat and takes another trial. A cancelled trial is not retried, cannot win, and does not inform the search; the
quorum is that of the other trials. A trial that has ended cannot be cancelled.`, cancelPatience),
		Example: `  launcher cancel nightly-ctr-1a2b3c4d
  launcher cancel nightly-ctr-1a2b3c4d 17 --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return w.look(cmd.Context(), args[0], func(s *sweepview.View, st sweepview.State) error {
				if len(args) == 1 {
					return cancelSweep(cmd.Context(), w, s.Plan, st)
				}
				n, err := trialNumber(s.Plan, args[1])
				if err != nil {
					return err
				}
				return cancelTrial(cmd.Context(), w, s.Plan, st, n)
			})
		},
	}
	w.jsonFlag(cmd, "print one JSON object")
	return cmd
}

// cancelPatience is how long the tasks of a cancelled sweep may take to leave. They notice with their next heartbeat.
const cancelPatience = time.Minute

// trialNumber reads the argument TRIAL.
func trialNumber(p *sweep.Plan, text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, program.Usagef("trial %.40q: use a number such as 17; `launcher leaderboard %s` lists them", text,
			p.Sweep)
	}
	if n >= len(p.Trials) {
		return 0, program.Usagef("sweep %s has no trial %d; its trials are 0 to %d", p.Sweep, n, len(p.Trials)-1)
	}
	return n, nil
}

// cancelSweep stops a whole sweep.
func cancelSweep(ctx context.Context, w *Setup, p *sweep.Plan, st sweepview.State) error {
	id := p.Sweep
	if end := st.Conclusion; end != nil && end.Outcome == sweep.OutcomeCancelled {
		return w.print(map[string]any{"sweep": id, "before": true},
			func() { w.printf("sweep %s was already cancelled\n", id) })
	} else if end != nil {
		return cancelLeftover(ctx, w, p, end)
	}
	if st.Ending {
		return problem.New(problem.Conflict,
			"sweep %s is being concluded; it is too late to cancel. `launcher watch %s` "+
				"shows how it ends", id, id)
	}

	// Tasks see the object, drop the checkpoints and stop; Batch ends what is left. It may have been cancelled before.
	if _, err := sweepstore.New(w.sweeps, id).Cancel(ctx, w.Now().UTC()); err != nil {
		return fmt.Errorf("ask sweep %s to stop: %w", id, err)
	}
	if err := provisioner(w, p).Leave(ctx, cancelPatience); ctx.Err() != nil {
		return fmt.Errorf("%w; sweep %s is cancelled nevertheless, and its tasks exit on their own",
			program.ErrInterrupted, id)
	} else if err != nil {
		w.say("sweep %s is marked as cancelled, but: %v\n", id, err) // what follows cancels its jobs
	}
	job, err := cancelJobs(ctx, w, p)
	if err != nil {
		return err
	}
	return w.print(map[string]any{"sweep": id, "job": job.State},
		func() { w.printf("sweep %s is cancelled (job %s)\n", id, job.State) })
}

// cancelLeftover cancels the job of a sweep that has ended, if it is still running: its results are no longer needed.
func cancelLeftover(ctx context.Context, w *Setup, p *sweep.Plan, end *sweep.Conclusion) error {
	job, err := jobStatus(ctx, w, p)
	if err != nil {
		return err
	}
	if job.Finished {
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

// cancelTrial ends one trial of a sweep by writing its result, as its task would. The first result of a trial is its
// result, and the task looks for one with every heartbeat.
func cancelTrial(ctx context.Context, w *Setup, p *sweep.Plan, st sweepview.State, n int) error {
	if st.Conclusion != nil || st.Ending || st.Cancelled {
		return problem.New(problem.Conflict, "sweep %s has ended or is about to; it is too late to cancel a trial",
			p.Sweep)
	}
	trials := sweepstore.NewTrials(w.sweeps, p)
	r, err := cancelledResult(ctx, w, trials, p, n)
	if err != nil {
		return err
	}
	if r != nil {
		created, err := trials.CreateResult(ctx, *r)
		if err != nil {
			return fmt.Errorf("cancel trial %d of sweep %s: %w", n, p.Sweep, err)
		}
		if created {
			return w.print(map[string]any{"sweep": p.Sweep, "trial": n, "trees": r.TreesGrown},
				func() { w.printf("trial %d of sweep %s is cancelled\n", n, p.Sweep) })
		}
	}

	existing, _, err := trials.Result(ctx, n)
	switch {
	case err != nil:
		return err
	case existing.ByHand:
		return w.print(map[string]any{"sweep": p.Sweep, "trial": n, "before": true},
			func() { w.printf("trial %d of sweep %s was already cancelled\n", n, p.Sweep) })
	}
	return problem.New(problem.Conflict, "trial %d of sweep %s has ended (%s); there is nothing to cancel", n, p.Sweep,
		existing.State())
}

// cancelledResult is the result of a trial that is cancelled by hand, with its task's progress; nil if the trial has
// ended.
func cancelledResult(ctx context.Context, w *Setup, trials *sweepstore.Trials, p *sweep.Plan,
	n int) (*sweep.Result, error) {
	list, err := trials.List(ctx)
	if err != nil {
		return nil, err
	}
	now, listed := w.Now().UTC(), list.Trials[n]
	if listed.Ended {
		return nil, nil
	}

	r := &sweep.Result{Format: sweep.FormatVersion, Sweep: p.Sweep, Trial: n, Configuration: p.Trials[n].Configuration,
		Fold: p.Trials[n].Fold, Status: sweep.StatusCancelled, ByHand: true, Reason: "cancelled by hand",
		Params: p.Trials[n].Params, Metrics: map[string]float64{}, Started: now, Ended: now}
	if len(listed.Claims) == 0 {
		return r, nil
	}

	// The result names the claim's own task, so that its time does not count as lost.
	r.Claim = listed.Last.Number
	claim, err := trials.Claim(ctx, n, r.Claim)
	if err == nil {
		r.Task, r.Attempt, r.Started = claim.Task, claim.Attempt, claim.At
	} else if !aboutObject(err) {
		return nil, err
	}
	beat, err := trials.Heartbeat(ctx, n, r.Claim)
	if err == nil {
		r.TreesGrown = beat.Trees
	} else if !aboutObject(err) {
		return nil, err
	}
	return r, nil
}

// aboutObject reports whether an error is about the object, which is missing or damaged, and not about the store.
func aboutObject(err error) bool {
	return errors.Is(err, blob.ErrNotExist) || problem.Is(err, problem.Damaged)
}
