package cli

import (
	"context"

	"github.com/spf13/cobra"

	"coppice/internal/ledger"
	"coppice/internal/page"
	"coppice/internal/registry"
	"coppice/internal/sweep"
	"coppice/launcher/internal/bill"
	"coppice/launcher/internal/report"
	"coppice/launcher/internal/sweepview"
)

func statusCommand(w *Setup) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status [SWEEP]",
		Short: "Show the state of a sweep, or list all, the newest first",
		Example: `  launcher status
  launcher status nightly-ctr-1a2b3c4d
  launcher status nightly-ctr-1a2b3c4d --json | jq .seconds_left`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return w.withCloud(cmd.Context(), func() error {
					x, err := w.pages().Index(cmd.Context(), true) // true: all sweeps, not only the newest
					if err != nil {
						return err
					}
					return w.print(x.Sweeps, func() { w.screen().Sweeps(x, w.Now()) })
				})
			}
			return w.readSweep(cmd.Context(), args, func(s *sweepview.View, st sweepview.State) error {
				job, err := w.job(cmd.Context(), s.Plan)
				if err != nil {
					return err
				}
				snap := s.Snapshot(st, job)
				of := s.Plan.Dataset
				snap.Night = sweepview.NightOf(cmd.Context(), w.datasets, of.Name, of.Version)
				live := w.lastMove(cmd.Context(), s.Plan)
				snap.Todo = page.Commands.Replace(w.pages().Asks(s, st, snap, live.To).String())
				return w.print(snap, func() { w.screen().Status(s.Plan, st, snap, live, w.Now()) })
			})
		},
	}
	w.jsonFlag(cmd, "print one JSON object, of all sweeps an array")
	return cmd
}

// lastMove returns the last move of the champion alias of the sweep's model: what is live, and since when. It is the
// zero Event if there is no champion or it cannot be read.
func (w *Setup) lastMove(ctx context.Context, p *sweep.Plan) registry.Event {
	a, err := w.registry.Alias(ctx, p.Spec.Model, registry.Champion)
	if err != nil {
		return registry.Event{}
	}
	return a.Last
}

// mostTrials is how many trials a leaderboard has.
const mostTrials = 10

func leaderboardCommand(w *Setup) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "leaderboard [SWEEP]",
		Short: "Show a sweep's trials, best first",
		Long: `Shows a sweep's ten best trials in a line each, with the parameters that matter most; for a sweep with
folds, its configurations by their mean over the folds, with its standard error. The page of launcher report has
the trials' learning curves. Without a name it is the newest sweep.`,
		Example: "  launcher leaderboard\n  launcher leaderboard nightly-ctr-1a2b3c4d",
		RunE: func(cmd *cobra.Command, args []string) error {
			return w.readSweep(cmd.Context(), args, func(s *sweepview.View, st sweepview.State) error {
				most := mostTrials
				if all {
					most = 0 // which stands for all
				}
				return w.print(st.Board, func() {
					w.screen().Sure(st.Conclusion, "")
					w.screen().Board(report.Board(s.Plan, st), s.Plan, st.Board, most)
				})
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "all trials, with all that is known of them")
	w.jsonFlag(cmd, "print one JSON object")
	return cmd
}

func billCommand(w *Setup) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bill [SWEEP]",
		Short: "Show what a sweep has cost, by trial, compared with its quote",
		Long: `Calculates machine-hours from the sweep's own objects (which task ran on which host, and when) and the
cost from the price recorded when the sweep was planned. It is not an invoice: what machines cost before their first
trial is assumed, and storage, messages and network are not included.`,
		Example: `  launcher bill nightly-ctr-1a2b3c4d
  launcher bill nightly-ctr-1a2b3c4d --json | jq .attempts`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return w.readSweep(cmd.Context(), args, func(s *sweepview.View, st sweepview.State) error {
				return printBill(cmd.Context(), w, s, st)
			})
		},
	}

	w.jsonFlag(cmd, "print one JSON object")
	return cmd
}

// printBill prints what the sweep has cost so far or, if it has ended, until its conclusion.
func printBill(ctx context.Context, w *Setup, s *sweepview.View, st sweepview.State) error {
	r := ledger.Reader{Store: w.sweeps, Plan: s.Plan}
	if st.Conclusion != nil {
		r.Ended = st.Conclusion.At
	}
	l, err := r.Read(ctx, s.Results(), w.Now())
	if err != nil {
		return err
	}
	b := bill.Make(s.Plan, &l, s.Results())
	return w.print(b, func() { w.screen().Bill(b, s.Plan.Dataset.TableRows(sweep.Train)) })
}
