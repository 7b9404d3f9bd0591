package cli

import (
	"context"

	"github.com/spf13/cobra"

	"coppice/internal/program"
	"coppice/internal/sweep"
	"coppice/launcher/internal/plan"
	"coppice/launcher/internal/sweepview"
)

func extendCommand(w *Setup) *cobra.Command {
	var f startFlags
	var more int
	cmd := &cobra.Command{
		Use:   "extend SWEEP --trials N",
		Short: "Continue a sweep that has ended, with more trials",
		Long: `Starts a sweep that continues where another has ended: the same spec on the same version of the
dataset, with N more trials. It has its own id, job, budget and conclusion; the other sweep stays as it is.

The other's trials come first in the new one, under the same numbers: methods that learn use all their results, none
of their configurations is tried again, and they compete. Only a trial that is better than the version registered by
the other sweep becomes a version; if there is none, the sweep ends without a winner and says so. Trials that the
other sweep did not finish, because it was cancelled or ended early, come first; of those paused at a rung, only the
ones that were due to continue.

Run again with the same number, it attaches to the existing sweep. Sweeps with validate cannot be extended.`,
		Example: `  launcher extend nightly-ctr-1a2b3c4d --trials 20
  launcher extend nightly-ctr-1a2b3c4d --trials 20 --dry-run
  launcher extend nightly-ctr-1a2b3c4d --trials 20 --budget 5 --no-wait --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if more < 1 || more >= sweep.MaxTrials {
				return program.Usagef("--trials is %d: give the number of additional trials, 1 to %d", more,
					sweep.MaxTrials-1)
			}
			if err := f.check(cmd); err != nil {
				return err
			}
			return runExtend(cmd.Context(), w, args[0], more, f)
		},
	}

	cmd.Flags().IntVar(&more, "trials", 0, "number of additional trials")
	f.add(w, cmd, "USD that the machines of the new trials may cost (default: the spec's)",
		"the new sweep's id (default: made from the other's and the number of trials)")
	return cmd
}

// runExtend starts a sweep that extends another.
func runExtend(ctx context.Context, w *Setup, arg string, more int, f startFlags) error {
	prices, err := w.prices(f.prices)
	if err != nil {
		return err
	}

	return w.with(ctx, func() error {
		of, err := sweepview.Find(ctx, w.sweeps, arg)
		if err != nil {
			return err
		}
		old, err := sweepview.Ended(ctx, w.sweeps, of)
		if err != nil {
			return err
		}
		spec := old.Plan.Spec
		if f.budget != 0 {
			spec.Budget = f.budget
		}

		// Use the version of that time, whatever the latest is by now.
		m, err := resolveAllowed(ctx, w, old.Plan.Dataset.Name+"@"+old.Plan.Dataset.Version, "")
		if err != nil {
			return err
		}
		p, err := plan.Extend(plan.Inputs{Spec: &spec, Manifest: m, ID: sweep.ID(f.id), Job: w.Jobs.Name, Now: w.Now(),
			Version: w.Version}, old, more)
		if err != nil {
			return err
		}
		if err := addQuote(ctx, w, p, m, prices, f.Assumptions); err != nil {
			return err
		}

		var in *plan.Continued
		if old.Text != nil {
			in = &plan.Continued{Text: old.Text, Dataset: old.Dataset}
		}
		return startSweep(ctx, w, p, in, false, f)
	})
}
