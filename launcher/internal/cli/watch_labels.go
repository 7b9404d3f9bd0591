package cli

import (
	"context"

	"github.com/spf13/cobra"

	"coppice/internal/program"
	"coppice/internal/registry"
	"coppice/internal/sweep"
	"coppice/launcher/internal/served"
)

func watchLabelsCommand(w *Setup) *cobra.Command {
	var q served.Request
	var model string
	cmd := &cobra.Command{
		Use:   "watch-labels --in TABLE --label COLUMN",
		Short: "Judge what was served by the labels that have arrived",
		Long: `Reads a log of answers, a row each with its time and prediction, and its labels: a column of the log, or
another table that is joined by --key. Prints calibration (predicted positives over those that came) and normalized
entropy by hour and, with --by, by the values of a column.

An hour, or a segment of it, is a finding if its calibration is off by more than --tolerance and five standard errors,
or if its predictions say less than its share of positive rows. With findings the exit code is that of a bad night
(8), and with --tell MODEL people are told as of nights.`,
		Example: `  launcher watch-labels --in answers.parquet --label click --by site
  launcher watch-labels --in answers.parquet --labels clicks.parquet --key auction --positives-only --label click
  launcher watch-labels --in hour.parquet --label click --tell ctr   # every hour, by a scheduler`,
		RunE: func(cmd *cobra.Command, _ []string) error { return runWatchLabels(cmd.Context(), w, q, model) },
	}
	f := cmd.Flags()
	f.StringVar(&q.In, "in", "", "log of answers: a file, a glob or a folder (required)")
	f.StringVar(&q.Labels, "labels", "", "table of labels, if they are not in the log")
	f.StringVar(&q.Key, "key", "", "column of both tables by which --labels are joined")
	f.StringVar(&q.Label, "label", "", "column of the labels, 0 and 1 (required)")
	f.BoolVar(&q.PositivesOnly, "positives-only", false,
		"a row without a label is a negative one; else it is not judged yet")
	f.StringVar(&q.Prediction, "prediction", "prediction", "column of the predictions")
	f.StringVar(&q.Time, "time", "time", "column of the times")
	f.StringVar(&q.By, "by", "", "column whose values are judged by themselves")
	f.Float64Var(&q.Tolerance, "tolerance", .2, "how far calibration may be off, relative")
	f.StringVar(&model, "tell", "", "MODEL[@VERSION] that answered: tell people of findings")
	w.jsonFlag(cmd, "print all hours as JSON")
	for _, name := range []string{"in", "label"} {
		_ = cmd.MarkFlagRequired(name)
	}
	return cmd
}

func runWatchLabels(ctx context.Context, w *Setup, q served.Request, model string) error {
	if (q.Labels == "") != (q.Key == "") {
		return program.Usagef("--labels and --key belong together")
	}
	if q.PositivesOnly && q.Labels == "" {
		return program.Usagef("--positives-only is for --labels")
	}
	if !(q.Tolerance >= 0) {
		return program.Usagef("--tolerance %v: give 0 or more", q.Tolerance)
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
			w.tell(ctx, sweep.ServedMessage(v.Model, v.Number, sweep.ServedAnswers, off.Hours[0].Begin, off.Reason(),
				w.Now()), untold{})
		})
	})
}
