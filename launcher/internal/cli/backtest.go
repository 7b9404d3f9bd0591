package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"coppice/internal/page"
	"coppice/internal/program"
	"coppice/launcher/internal/backtest"
	"coppice/launcher/internal/cloudjob"
	"coppice/launcher/internal/show"
)

type backtestFlags struct {
	out, scratch string
	threads      int
	batch        cloudjob.Flags
}

func backtestCommand(w *Setup) *cobra.Command {
	var f backtestFlags
	cmd := &cobra.Command{
		Use:   "backtest BACKTEST.yaml",
		Short: "Replay past nights with other windows, parameters or gates",
		Long: `Shows how each rule of the gate would have decided on past nights, and how often it would have been
wrong. For each day of a range it trains on the rows that existed by then, lets each rule decide with what that night
knew, and measures the models on the following day. It prints the metric by day with the gain over older models, and
for each rule how many models it would have promoted; --out keeps all of it as JSON and as a page.

It runs on this machine without a cloud or, with --batch, as a Batch job next to a table in a bucket;
docs/backtest.md has the keys of backtest.yaml.`,
		Example: `  launcher backtest backtest.yaml --out build/backtest
  launcher backtest backtest.yaml --batch --out build/backtest   # the table is gs://BUCKET/export/*.parquet`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.batch.Check(cmd, "scratch", "threads"); err != nil {
				return err
			}
			return runBacktest(cmd.Context(), w, args[0], f)
		},
	}

	f.batch.Add(cmd, "run it")
	cmd.Flags().StringVar(&f.out, "out", "", "folder for backtest.json and backtest.html")
	cmd.Flags().StringVar(&f.scratch, "scratch", "", "folder for temporary files (default: the system's)")
	cmd.Flags().IntVar(&f.threads, "threads", 0, "threads (default: all CPUs)")
	w.jsonFlag(cmd, "print one JSON object")
	return cmd
}

func runBacktest(ctx context.Context, w *Setup, file string, f backtestFlags) error {
	if err := checkThreads(f.threads); err != nil {
		return err
	}
	b, err := backtest.ReadSpecs(file)
	if err != nil {
		return err
	}
	if f.out != "" {
		if err := program.CheckOutFolder("--out", f.out); err != nil {
			return err
		}
	}
	if f.batch.On {
		return backtestInBatch(ctx, w, b, f)
	}

	t := b.Table
	if t.Source.AnyInBucket() {
		return t.Errorf("source", "%s is in a bucket: use --batch to run there, or copy it here first", t.Source)
	}
	t.Source.RelativeTo(filepath.Dir(b.TableFile))
	run := &backtest.Runner{Spec: b.Spec, Table: t, Scratch: f.scratch, Threads: f.threads,
		OnNight: func(n page.BacktestNight, took time.Duration) {
			if !w.asJSON {
				fmt.Fprintln(w.Err, show.NightLine(n, b.Spec.Metric, took))
			}
		}}
	r, err := run.Run(ctx)
	if err != nil {
		return err
	}
	return printBacktest(w, r, f)
}

// printBacktest writes and prints the result.
func printBacktest(w *Setup, r *backtest.Results, f backtestFlags) error {
	if f.out != "" {
		if err := r.WriteFiles(f.out); err != nil {
			return err
		}
	}
	return w.print(r, func() {
		w.screen().Backtest(r)
		if f.out != "" {
			w.printf("%s shows the curves\n", filepath.Join(f.out, backtest.PageFile))
		}
	})
}
