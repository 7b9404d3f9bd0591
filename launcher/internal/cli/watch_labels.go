package cli

import (
	"context"

	"github.com/spf13/cobra"

	"coppice/internal/registry"
	"coppice/internal/sweep"
	"coppice/launcher/internal/served"
)

func watchLabelsCommand(w *Setup) *cobra.Command {
	var q served.Answers
	var model string
	var then thenFlags
	cmd := &cobra.Command{
		Use:   "watch-labels --in TABLE --label COLUMN",
		Short: "Judge what was served by the labels that have arrived",
		Long: `Reads a log of answers, a row each with its time and prediction, and its labels: a column of the log, or
another table that is joined by --key. Prints calibration (predicted positives over those that came) and normalized
entropy by hour and, with --by, by the values of a column.

An hour, or a segment of it, is a finding if its calibration is off by more than --tolerance and five standard errors,
or if its predictions say less than its share of positive rows. With findings the exit code is that of a bad night
(8), and with --tell MODEL people are told as of nights.

` + thenHelp,
		Example: `  launcher watch-labels --in answers.parquet --label click --by site
  launcher watch-labels --in answers.parquet --labels clicks.parquet --key auction --positives-only --label click
  launcher watch-labels --in hour.parquet --label click --tell ctr   # every hour, by a scheduler
  launcher watch-labels --in hour.parquet --label click --then sweep.yaml --at-most 24h --budget 12.50`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return then.around(cmd, w, func() error { return runWatchLabels(cmd.Context(), w, q, model) })
		},
	}
	q.AddFlags(cmd)
	cmd.Flags().StringVar(&model, "tell", "", "MODEL[@VERSION] that answered: tell people of findings")
	then.add(cmd)
	w.jsonFlag(cmd, "print all hours as JSON, and the sweep of --then as another object")
	return cmd
}

func runWatchLabels(ctx context.Context, w *Setup, q served.Answers, model string) error {
	if err := q.Check(); err != nil {
		return err
	}
	judge := func(tell func(*served.OffError)) error {
		r, err := served.Run(ctx, q)
		if err != nil {
			return err
		}
		if err := w.print(r, func() { w.screen().Served(r) }); err != nil {
			return err
		}
		off := r.Off(q.In)
		if off == nil {
			return nil
		}
		tell(off)
		return off
	}
	if model == "" {
		return judge(func(*served.OffError) {})
	}
	return w.withVersion(ctx, model, func(v registry.Version) error { // also in a quiet hour: a name may be wrong
		return judge(func(off *served.OffError) {
			w.tell(ctx, sweep.ServedMessage(v.Model, v.Number, sweep.ServedAnswers, off.Begin, off.Reason(),
				w.Now()), untold{})
		})
	})
}
