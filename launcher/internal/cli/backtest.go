package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/google/renameio/v2"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"coppice/internal/dataset"
	"coppice/internal/program"
	"coppice/internal/strictyaml"
	"coppice/launcher/internal/backtest"
	"coppice/launcher/internal/stager"
)

type backtestFlags struct {
	out, scratch string
	threads      int
	json         bool
	batch        batchFlags
}

func backtestCommand(w *World) *cobra.Command {
	var f backtestFlags
	cmd := &cobra.Command{
		Use:   "backtest backtest.yaml",
		Short: "Replay past nights: what a window, a configuration or a gate would have achieved",
		Long: `For each day of a range, trains as it would have trained that night, on the rows that existed by then and no others, lets each rule of the gate
decide with what that night knew, and measures everything on the following day. Prints the metric and the gain over yesterday's and older models
by day, and by rule how many models it would have promoted and how many of those were wrong; --out keeps it as JSON and as a page of curves. It
runs on this machine without a cloud or, with --batch, as a Batch job next to a table in a bucket; docs/backtest.md has the keys of backtest.yaml.`,
		Example: `  launcher backtest backtest.yaml --out build/backtest
  launcher backtest backtest.yaml --batch --out build/backtest   # in the cloud; the dataset.yaml's source is gs://BUCKET/export/*.parquet`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.batch.check(cmd, "scratch", "threads"); err != nil {
				return err
			}
			return w.backtest(cmd.Context(), args[0], f)
		},
	}

	f.batch.add(cmd, "play it")
	cmd.Flags().StringVar(&f.out, "out", "", "folder for backtest.json and backtest.html")
	cmd.Flags().StringVar(&f.scratch, "scratch", "", "folder for temporary files (default: the system's)")
	cmd.Flags().IntVar(&f.threads, "threads", 0, "threads (default: all CPUs)")
	cmd.Flags().BoolVar(&f.json, "json", false, "print one JSON object")
	return cmd
}

// backtestSpecs holds a backtest.yaml and the dataset.yaml that it names, with their texts.
type backtestSpecs struct {
	file, tableFile string
	text, tableText []byte
	spec            *backtest.Spec
	table           *dataset.Spec
}

func readBacktest(file string) (b *backtestSpecs, err error) {
	b = &backtestSpecs{file: file}
	if b.text, err = strictyaml.ReadFile(file); err != nil {
		return nil, err
	}
	if b.spec, err = backtest.ParseSpec(file, b.text); err != nil {
		return nil, err
	}

	// As for stage, paths in a spec are relative to its folder.
	b.tableFile = b.spec.Dataset
	if !filepath.IsAbs(b.tableFile) {
		b.tableFile = filepath.Join(filepath.Dir(file), b.tableFile)
	}
	if b.tableText, err = strictyaml.ReadFile(b.tableFile); err != nil {
		return nil, err
	}
	b.table, err = dataset.ParseSpec(b.tableFile, b.tableText)
	return b, err
}

func (w *World) backtest(ctx context.Context, file string, f backtestFlags) error {
	if err := checkThreads(f.threads); err != nil {
		return err
	}
	b, err := readBacktest(file)
	if err != nil {
		return err
	}
	if f.out != "" {
		if err := program.CheckOutFolder("--out", f.out); err != nil {
			return err
		}
	}
	if f.batch.on {
		return w.backtestInBatch(ctx, b, f)
	}

	t := b.table
	if stager.Remote(t.Source) {
		return t.Errorf("source", "%s is in a bucket: use --batch to run there, or copy it here first", t.Source)
	}
	if !filepath.IsAbs(t.Source) {
		t.Source = filepath.Join(filepath.Dir(b.tableFile), t.Source)
	}
	run := &backtest.Backtest{Spec: b.spec, Table: t, Scratch: f.scratch, Threads: f.threads,
		OnNight: func(n backtest.Night, took time.Duration) {
			if !f.json {
				fmt.Fprintln(w.Err, nightLine(n, b.spec.Metric, took))
			}
		}}
	r, err := run.Run(ctx)
	if err != nil {
		return err
	}
	return w.backtested(r, f)
}

// nightLine is the line shown when a night is complete.
func nightLine(n backtest.Night, metric string, took time.Duration) string {
	return fmt.Sprintf("night of %s: %s rows, %d trees, %s %s on %s rows of the following day, %.1f s", n.Night,
		humanize.Comma(int64(n.TrainRows)),
		n.Trees, metric, number(n.Value), humanize.Comma(int64(n.TestRows)), took.Seconds())
}

// backtested writes and prints the result.
func (w *World) backtested(r *backtest.Report, f backtestFlags) error {
	if f.out != "" {
		if err := writeBacktest(r, f.out); err != nil {
			return err
		}
	}
	if f.json {
		return w.printJSON(r)
	}

	w.showBacktest(r)
	if f.out != "" {
		fmt.Fprintf(w.Out, "%s shows the curves\n", filepath.Join(f.out, backtest.PageFile))
	}
	return nil
}

// writeBacktest writes the result; each file appears atomically.
func writeBacktest(r *backtest.Report, dir string) error {
	text, page, err := r.Files()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := renameio.WriteFile(filepath.Join(dir, backtest.ReportFile), text, 0o644); err != nil {
		return err
	}
	return renameio.WriteFile(filepath.Join(dir, backtest.PageFile), page, 0o644)
}

func (w *World) showBacktest(r *backtest.Report) {
	t := w.newTable("night", "rows", "trees", r.Metric, "gain over yesterday's", "95 % interval")
	for _, n := range r.Nights {
		gain, interval := "-", ""
		if g := n.Stale[1]; g != nil {
			gain, interval = number(g.Gain), fmt.Sprintf("%s to %s", number(g.Low), number(g.High))
		}
		t.AppendRow(table.Row{n.Night, n.TrainRows, n.Trees, number(n.Value), gain, interval})
	}
	t.Render()

	t = w.newTable("older by", "nights", "mean gain of the fresh model", "better", "beyond chance",
		"worse beyond chance")
	for _, a := range r.Ages {
		t.AppendRow(table.Row{fmt.Sprintf("%d days", a.Age), a.Nights, number(a.Mean), a.Better, a.Surely, a.Worse})
	}
	t.Render()

	t = w.newTable("rule of the gate", "nights", "promotions", "wrong", "beyond chance", "better ones missed",
		"mean "+r.Metric)
	for _, s := range r.Rules {
		t.AppendRow(table.Row{s.Name, s.Decisions, s.Promotions, s.Wrong, s.Surely, s.Missed, number(s.Mean)})
	}
	t.Render()
}
