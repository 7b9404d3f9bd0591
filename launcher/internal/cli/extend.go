package cli

import (
	"context"

	"github.com/spf13/cobra"

	"coppice/internal/program"
	"coppice/internal/sweep"
	"coppice/launcher/internal/extend"
	"coppice/launcher/internal/plan"
	"coppice/launcher/internal/stager"
)

func extendCommand(w *World) *cobra.Command {
	var f sweepFlags
	var trials int
	cmd := &cobra.Command{
		Use:   "extend SWEEP --trials N",
		Short: "Continue a sweep that has ended, with more trials",
		Long: `Starts a sweep that continues where another has ended: the same spec on the same version of the dataset, with N more trials. It has its own id,
job, budget and conclusion; the other sweep stays as it is. The other's trials come first in the new one, under the same numbers: methods that learn
use all their results, none of their configurations is tried again, and they compete. Only a trial that is better than the version registered by the
other sweep becomes a version; if there is none, the sweep ends without a winner and says so. Trials that the other sweep did not get to, because it
was cancelled or ended early, come first; of those paused at a rung, only the ones that were to go on.

Run again with the same number, it attaches to the existing sweep. Sweeps with validate cannot be extended.`,
		Example: `  launcher extend nightly-ctr-1a2b3c4d --trials 20
  launcher extend nightly-ctr-1a2b3c4d --trials 20 --dry-run
  launcher extend nightly-ctr-1a2b3c4d --trials 20 --budget 5 --no-wait --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := program.RefuseZero(cmd, "budget"); err != nil {
				return err
			}
			if trials < 1 || trials >= sweep.MaxTrials {
				return program.Usagef("--trials is %d: give the number of additional trials, 1 to %d", trials,
					sweep.MaxTrials-1)
			}
			return w.extend(cmd.Context(), sweep.ID(args[0]), trials, f)
		},
	}

	f.add(cmd)
	cmd.Flags().IntVar(&trials, "trials", 0, "number of additional trials")
	cmd.Flags().Float64Var(&f.budget, "budget", 0,
		"USD that the machines of the new trials may cost (default: the spec's)")
	cmd.Flags().StringVar(&f.id, "id", "",
		"the new sweep's id (default: made from the other's and the number of trials)")
	cmd.Flags().BoolVar(&f.noWait, "no-wait", false, "submit and return")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "show trials, Batch request and memory; submit nothing")
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON: one object, or one per change while watching")
	return cmd
}

// extend starts a sweep that extends another.
func (w *World) extend(ctx context.Context, of sweep.ID, trials int, f sweepFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	prices, err := w.prices(f.prices)
	if err != nil {
		return err
	}

	return w.with(ctx, func(c *cloud) error {
		old, err := extend.Read(ctx, c.sweeps, of)
		if err != nil {
			return err
		}
		spec := old.Plan.Spec
		if f.budget != 0 {
			spec.Budget = f.budget
		}

		// Use the version of that time, whatever the latest is by now.
		ref := old.Plan.Dataset
		m, err := stager.Resolve(ctx, c.datasets, ref.Name+"@"+ref.Version)
		if err != nil {
			return err
		}
		if err := c.allowed(ctx, m.Name, m.Version, w.Now()); err != nil {
			return err
		}
		p, err := plan.Extend(plan.Request{Spec: &spec, Manifest: m, ID: sweep.ID(f.id), Job: c.Jobs.Name, Now: w.Now(),
			Version: w.Version}, old, trials)
		if err != nil {
			return err
		}

		var in *inputModel
		if old.Text != nil {
			in = &inputModel{text: old.Text, dataset: old.Dataset}
		}
		if err := c.quote(ctx, p, m, prices, f.Assumptions); err != nil {
			return err
		}
		return w.start(ctx, c, p, in, false, f)
	})
}
