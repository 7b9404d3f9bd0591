package cli

import (
	"context"
	"fmt"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"coppice/internal/program"
	"coppice/internal/scorer"
	"coppice/launcher/internal/explain"
)

type explainFlags struct {
	metrics       []string
	rows, threads int
	json          bool
}

// maxExplained bounds --rows: it is the number of rows that a version keeps.
const maxExplained = 20_000

func registryExplainCommand(w *World) *cobra.Command {
	var f explainFlags
	cmd := &cobra.Command{
		Use:   "explain MODEL[@VERSION|@ALIAS]",
		Short: "Explain a version's predictions by its features",
		Long: `Explains a version with test rows of its night, which it keeps in reference.arrow. For each feature it shows the number of splits and the
share of their gain; its contribution, the mean of |SHAP value| in the raw score (log odds), which says how much it moves predictions; and its
worth: how much worse the metric gets when its values are shuffled among the rows, with a 95 % interval. Features made from the same columns are
also shown together, since they move a prediction together and each can replace the other.`,
		Example: "  launcher registry explain ctr\n  launcher registry explain ctr@12 --metric auc --rows 10000 --json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			model, ref, err := splitRef(args[0])
			if err != nil {
				return err
			}
			if f.rows < 2 || f.rows > maxExplained {
				return program.Usagef("--rows is %d: use 2 to %d", f.rows, maxExplained)
			}
			if err := checkThreads(f.threads); err != nil {
				return err
			}
			return w.with(cmd.Context(), func(c *cloud) error { return w.explain(cmd.Context(), c, model, ref, f) })
		},
	}

	cmd.Flags().StringSliceVar(&f.metrics, "metric", nil,
		"metric by which a feature's worth is measured (default: log_loss, for regression rmse)")
	cmd.Flags().IntVar(&f.rows, "rows", 2000,
		"maximum number of rows; the SHAP values of a row take up to a few milliseconds")
	cmd.Flags().IntVar(&f.threads, "threads", 0, "threads (default: all CPUs)")
	cmd.Flags().BoolVar(&f.json, "json", false, "print one JSON object")
	return cmd
}

func (w *World) explain(ctx context.Context, c *cloud, model, ref string, f explainFlags) error {
	v, err := c.comparable(ctx, model, ref)
	if err != nil {
		return err
	}
	metrics, err := comparedBy(f.metrics, v.manifest)
	if err != nil {
		return err
	}

	name := fmt.Sprintf("%s@%d", v.Model, v.Number)
	if _, ok := v.File(scorer.FileReference); !ok {
		return &explain.Error{Msg: fmt.Sprintf("%s keeps no test rows (%s): the split that "+
			"its sweep tested on had no sampled rows", name, scorer.FileReference)}
	}
	data, err := c.registry.ReadFile(ctx, v.Version, scorer.FileReference)
	if err != nil {
		return err
	}
	rows, err := scorer.DecodeReference(data)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}

	s, err := scorer.OpenMapped(ctx, c.registry, v.Version, w.levelsCache())
	if err != nil {
		return err
	}
	defer s.Close()

	r, err := explain.Run(explain.Request{Scorer: s, Rows: rows, Most: f.rows, Metrics: metrics, Threads: f.threads})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if f.json {
		return w.printJSON(struct {
			Model   string `json:"model"`
			Version int    `json:"version"`
			*explain.Report
		}{v.Model, v.Number, r})
	}
	w.showExplained(name, r)
	return nil
}

// explainedOverhead is the width of the columns beside the names.
const explainedOverhead = 85

func (w *World) showExplained(name string, r *explain.Report) {
	fmt.Fprintf(w.Out, "%s on %d test rows of its night: %s %s; the raw score of a row about which nothing is known "+
		"is %s\n",
		name, r.Rows, r.Metric, number(r.Value), number(r.Expected))

	t := w.newTable("feature", "splits", "gain", "contribution", "worth in "+r.Metric, "95 % interval")
	t.SetColumnConfigs([]table.ColumnConfig{{Number: 1, WidthMax: w.textWidth(explainedOverhead),
		WidthMaxEnforcer: text.WrapSoft}})
	unused := 0
	for _, f := range r.Features {
		if f.Splits == 0 {
			unused++
			continue
		}
		t.AppendRow(table.Row{f.Name, f.Splits, percent(f.Share), number(f.Contribution), number(f.Worth),
			fmt.Sprintf("%s to %s", number(f.Low), number(f.High))})
	}
	t.Render()
	if unused > 0 {
		fmt.Fprintf(w.Out, "%d more features are not used by any tree\n", unused)
	}

	if len(r.Columns) == len(r.Features) {
		return
	}
	t = w.newTable("columns", "features", "gain", "contribution together")
	for _, c := range r.Columns {
		if c.Share > 0 {
			t.AppendRow(table.Row{c.Name, c.Features, percent(c.Share), number(c.Contribution)})
		}
	}
	t.Render()
}
