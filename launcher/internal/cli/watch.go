package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"coppice/internal/program"
	"coppice/internal/sweep"
	"coppice/launcher/internal/provision"
	"coppice/launcher/internal/report"
	"coppice/launcher/internal/show"
	"coppice/launcher/internal/sweepview"
)

func watchCommand(w *Setup) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "watch SWEEP",
		Short: "Watch a sweep until it has ended",
		Long: "Shows the sweep's progress until the aggregator has concluded it. Ctrl-C only stops watching; the " +
			"sweep continues.",
		Example: "  launcher watch nightly-ctr-1a2b3c4d",
		RunE: func(cmd *cobra.Command, args []string) error { // args[0] is there, as Use says
			return w.withCloud(cmd.Context(), func() error {
				id, err := sweepview.Find(cmd.Context(), w.sweeps, args[0])
				if err != nil {
					return err
				}
				return watchSweep(cmd.Context(), w, id)
			})
		},
	}

	w.jsonFlag(cmd, "print one JSON object per change")
	return cmd
}

// How often a watcher looks at a sweep.
const (
	lookEvery = time.Second
	// lookQuick is for sweeps with a heartbeat every second, and once all trials have ended.
	lookQuick = 300 * time.Millisecond
	// quickLooks bounds the quick looks once all trials have ended: the winner is chosen within seconds, unless no
	// aggregator is running.
	quickLooks = 30
	jobEvery   = 10 // looks between two questions to Batch
)

// lookInterval is how often to look at a sweep.
func lookInterval(p *sweep.Plan) time.Duration {
	if time.Duration(p.Heartbeat) <= time.Second {
		return lookQuick
	}
	return lookEvery
}

// watchSweep shows a sweep until it has ended, cancels its jobs that still wait for machines, and prints its
// conclusion. The error says if it has no winner or promoted none, or that watching was interrupted and the sweep
// continues.
func watchSweep(ctx context.Context, w *Setup, id sweep.ID) error {
	p, st, err := watchUntilEnd(ctx, w, id)
	switch {
	case err == nil:
		cancelWaiting(ctx, w, id)
		return printConclusion(ctx, w, p, st)
	case ctx.Err() == nil:
		return err
	}
	return fmt.Errorf("%w; sweep %s continues: `launcher watch %s` or `launcher cancel %s`; if its local cloud has "+
		"ended, too, the same command resumes it", program.ErrInterrupted, id, id, id)
}

// watchUntilEnd shows a sweep until it has a conclusion, and returns its plan and last state. It returns an error if
// the sweep was cancelled and its job has ended, if nothing can bring a conclusion any more (sweepview.JobWait), and if
// ctx ends. Where no message tells the aggregator to look (w.Conclude), it has the aggregator look.
func watchUntilEnd(ctx context.Context, w *Setup, id sweep.ID) (p *sweep.Plan, st sweepview.State, err error) {
	s, err := sweepview.Open(ctx, w.sweeps, id)
	if err != nil {
		return nil, st, err
	}
	view := show.NewProgress(w.World, s.Plan, w.asJSON)
	defer view.Close()
	var job provision.SweepJob
	var left sweepview.JobWait
	quick, warned := 0, false

	for look := 0; ; look++ {
		if st, err = s.Look(ctx); err != nil {
			return nil, st, err
		}

		// Batch is asked less often than the bucket.
		if look%jobEvery == 0 && st.Conclusion == nil {
			if job, err = w.job(ctx, s.Plan); err != nil {
				return nil, st, err
			}
			left.Asked(job, w.Now())
			if w.Conclude != nil && (job.Finished || st.Board.Waiting == 0) {
				if err := w.Conclude(ctx); err != nil && ctx.Err() == nil && !warned { // another sweep's, perhaps
					w.warn("%v\n", err)
					warned = true
				}
			}
		}

		view.Show(st.Board, s.Snapshot(st, job))
		if st.Conclusion != nil {
			return s.Plan, st, nil
		}

		// A cancelled sweep whose job has ended: the aggregator will say no more than this.
		if st.Cancelled && !st.Ending && job.Finished {
			return nil, st, sweepview.NoWinner(&sweep.Conclusion{Sweep: id, Reason: "it was cancelled"}, "")
		}
		if err := left.Lost(id, st, job, w.Now()); err != nil {
			return nil, st, err
		}

		// Wait; when all trials have ended, the conclusion is near.
		next := lookInterval(s.Plan)
		if st.Board.Waiting == 0 && quick < quickLooks {
			next = lookQuick
			quick++
		}
		select {
		case <-ctx.Done():
			return nil, st, ctx.Err()
		case <-time.After(next):
		}
	}
}

// printConclusion prints how a sweep ended: its best trials, whether the winner is live, and the winner. It returns an
// error, which decides the exit code, if there is no winner, or if the winner was not promoted.
func printConclusion(ctx context.Context, w *Setup, p *sweep.Plan, st sweepview.State) error {
	c := st.Conclusion
	w.log().Info("sweep ended", "sweep", p.Sweep, "outcome", c.Outcome, "model", c.Model, "version", c.Version)
	if c.Outcome != sweep.OutcomeWinner {
		job, err := w.job(ctx, p)
		return errors.Join(sweepview.NoWinner(c, job.Failure), err)
	}

	if !w.asJSON {
		w.screen().Board(report.Board(p, st), p, st.Board, mostTrials)
		w.screen().Head(p, c, w.lastMove(ctx, p))
		w.screen().Winner(p, c)
	}
	if c.Verdict() == sweep.VerdictPromoted {
		return nil
	}
	return sweepview.NotPromoted(c)
}
