package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"coppice/internal/blob"
	"coppice/internal/program"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/sweepview"
)

func cancelCommand(w *World) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "cancel SWEEP [TRIAL]",
		Short: "Stop a sweep, or one of its trials",
		Long: `Asks every task to stop, cancels the Batch job and returns when it has stopped. What has been trained stays readable; nothing is registered.

With TRIAL, only that trial is cancelled, and the sweep goes on: a task that trains it stops with its next heartbeat and takes another, it is not retried, cannot win, and does not
inform the search; the quorum is that of the other trials. A trial that has ended cannot be cancelled.`,
		Example: `  launcher cancel nightly-ctr-1a2b3c4d
  launcher cancel nightly-ctr-1a2b3c4d 17 --json`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			return w.look(ctx, args[0], func(c *cloud, s *sweepview.Sweep, st sweepview.State) error {
				if len(args) == 2 {
					return w.cancelTrial(ctx, c, s, st, args[1], asJSON)
				}
				return w.cancelSweep(ctx, c, s, st, asJSON)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// cancelSweep stops a whole sweep.
func (w *World) cancelSweep(ctx context.Context, c *cloud, s *sweepview.Sweep, st sweepview.State, asJSON bool) error {
	id := s.Plan.Sweep
	if end := st.Conclusion; end != nil && end.Outcome == sweep.OutcomeCancelled {
		return w.cancelled(asJSON, map[string]any{"sweep": id, "before": true}, "sweep %s was already cancelled\n", id)
	} else if end != nil {
		return w.stopJob(ctx, c, s.Plan, end, asJSON)
	}

	if st.Ending {
		return &conflictError{fmt.Errorf("sweep %s is being concluded; it is too late to cancel. `launcher watch "+
			"%s` shows how it ends", id, id)}
	}

	// Tasks see the object and stop; Batch ends what is left.
	// it may have been cancelled before
	if _, err := sweepstore.New(c.sweeps, id).Cancel(ctx, w.Now().UTC()); err != nil {
		return fmt.Errorf("ask sweep %s to stop: %w", id, err)
	}

	job, err := c.cancelJobs(ctx, s.Plan)
	if err != nil {
		return err
	}
	return w.cancelled(asJSON, map[string]any{"sweep": id, "job": job.State}, "sweep %s is cancelled (job %s)\n", id,
		job.State)
}

// cancelled reports what was cancelled.
func (w *World) cancelled(asJSON bool, object map[string]any, format string, args ...any) error {
	if asJSON {
		return w.printJSON(object)
	}
	fmt.Fprintf(w.Out, format, args...)
	return nil
}

// stopJob cancels the job of a sweep that has ended, if it is still running: its results are no longer needed.
func (w *World) stopJob(ctx context.Context, c *cloud, p *sweep.Plan, end *sweep.Conclusion, asJSON bool) error {
	job, err := c.job(ctx, p)
	if err != nil {
		return err
	}
	if job.Finished {
		return &conflictError{fmt.Errorf("sweep %s has ended (%s); there is nothing to cancel", p.Sweep, end.Outcome)}
	}
	if job, err = c.cancelJobs(ctx, p); err != nil {
		return err
	}
	return w.cancelled(asJSON, map[string]any{"sweep": p.Sweep, "job": job.State, "ended": end.Outcome},
		"sweep %s had ended (%s); its job, which was still running, is cancelled (job %s)\n", p.Sweep, end.Outcome,
		job.State)
}

// cancelTrial ends one trial of a sweep by writing its result, as its holder would. The first result of a trial is its
// result, and the holder looks for one with every heartbeat.
func (w *World) cancelTrial(ctx context.Context, c *cloud, s *sweepview.Sweep, st sweepview.State, text string,
	asJSON bool) error {
	p := s.Plan
	n, err := strconv.Atoi(text)
	switch {
	case err != nil || n < 0:
		return program.Usagef("trial %.40q: use a number such as 17; `launcher leaderboard %s` lists them", text,
			p.Sweep)
	case n >= len(p.Trials):
		return program.Usagef("sweep %s has %d trials, from 0; there is no trial %d", p.Sweep, len(p.Trials), n)
	case st.Conclusion != nil || st.Ending || st.Cancelled:
		return &conflictError{fmt.Errorf("sweep %s has ended or is about to; there is no trial of it to cancel",
			p.Sweep)}
	}

	trials := sweepstore.NewTrials(c.sweeps, p)
	r, err := w.cancelledResult(ctx, trials, p, n)
	if err != nil {
		return err
	}
	if r != nil {
		created, err := trials.CreateResult(ctx, *r)
		if err != nil {
			return fmt.Errorf("cancel trial %d of sweep %s: %w", n, p.Sweep, err)
		}
		if created {
			return w.cancelled(asJSON, map[string]any{"sweep": p.Sweep, "trial": n, "trees": r.TreesGrown},
				"trial %d of sweep %s is cancelled\n", n, p.Sweep)
		}
	}

	there, _, err := trials.Result(ctx, n)
	switch {
	case err != nil:
		return err
	case there.ByHand:
		return w.cancelled(asJSON, map[string]any{"sweep": p.Sweep, "trial": n, "before": true},
			"trial %d of sweep %s was already cancelled\n", n, p.Sweep)
	}
	return &conflictError{fmt.Errorf("trial %d of sweep %s has ended (%s); there is nothing to cancel", n, p.Sweep,
		there.State())}
}

// cancelledResult is the result of a trial that a person cancels, with its holder's progress; nil if the trial has
// ended.
func (w *World) cancelledResult(ctx context.Context, trials *sweepstore.Trials, p *sweep.Plan, n int) (*sweep.Result,
	error) {
	list, err := trials.List(ctx)
	if err != nil {
		return nil, err
	}
	now, listed := w.Now().UTC(), list.Trials[n]
	if listed.Ended {
		return nil, nil
	}

	r := &sweep.Result{Format: sweep.FormatVersion, Sweep: p.Sweep, Trial: n, Configuration: p.Trials[n].Configuration,
		Fold: p.Trials[n].Fold, Status: sweep.StatusCancelled, ByHand: true,
		Reason: "a person has cancelled this trial", Params: p.Trials[n].Params, Metrics: map[string]float64{},
		Started: now, Ended: now}
	if len(listed.Claims) == 0 {
		return r, nil
	}

	// The result names the claim's own task, so that its time does not count as lost.
	r.Claim = listed.Last.Number
	claim, err := trials.Claim(ctx, n, r.Claim)
	if err == nil {
		r.Task, r.Attempt, r.Started = claim.Task, claim.Attempt, claim.At
	}
	if !known(err) {
		return nil, err
	}
	beat, err := trials.Heartbeat(ctx, n, r.Claim)
	if err == nil {
		r.TreesGrown = beat.Trees
	}
	if !known(err) {
		return nil, err
	}
	return r, nil
}

// known reports whether an error, if any, is about the object and not about the store.
func known(err error) bool {
	var damaged *sweepstore.DamagedError
	return err == nil || errors.Is(err, blob.ErrNotExist) || errors.As(err, &damaged)
}
