package cli

import (
	"context"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"coppice/internal/dataset"
	"coppice/internal/metric"
	"coppice/internal/program"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
	"coppice/launcher/internal/compare"
	"coppice/launcher/internal/plan"
	"coppice/launcher/internal/stager"
)

type compareFlags struct {
	on, by     string
	metrics    []string
	confidence float64
}

func registryCompareCommand(w *Setup) *cobra.Command {
	var f compareFlags
	cmd := &cobra.Command{
		Use:   "compare A B [--on DATASET|FILE] [--by COLUMN]",
		Short: "Score two versions on the same rows, with significance",
		Long: `Scores versions A and B (MODEL@VERSION or MODEL@ALIAS, of one model or of two) on the same raw rows,
each through its own encoding, and shows each metric with the paired confidence interval of B's gain over A: what
the rows do to both cancels out. Of several classes, metrics of two, such as log_loss or auc, are measured for each
class against all others. By default the rows are the sampled test rows of B's dataset, without those on
which either version was calibrated. --on FILE takes every row of a CSV or Parquet table that has the label: make
sure that neither version was trained on it.`,
		Example: `  launcher registry compare ctr@champion ctr@12
  launcher registry compare ctr@11 ctr@12 --on clicks --by campaign_id
  launcher registry compare ctr@11 ctr@12 --on today.parquet --metric log_loss,auc`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !(f.confidence > 0.5 && f.confidence < 1) {
				return program.Usagef("--confidence %v: give a share above 0.5 and below 1, such as 0.95", f.confidence)
			}
			return w.with(cmd.Context(), func() error { return compareVersions(cmd.Context(), w, args, f) })
		},
	}

	cmd.Flags().StringVar(&f.on, "on", "", "dataset NAME[@VERSION], or a local table (default: B's dataset)")
	cmd.Flags().StringVar(&f.by, "by", "", "column: one line for each of its values, with the first metric")
	cmd.Flags().StringSliceVar(&f.metrics, "metric", nil, "metrics (default: log_loss, normalized_entropy, auc, "+
		"average_precision and calibration_ratio, rmse and mae, ndcg@10 and map@10, or multi_logloss, multi_error and "+
		"log_loss)")
	cmd.Flags().Float64Var(&f.confidence, "confidence", 0.95, "confidence level of the intervals")
	w.jsonFlag(cmd, "print one JSON object")
	return cmd
}

func compareVersions(ctx context.Context, w *Setup, args []string, f compareFlags) error {
	var trained *dataset.Manifest // B's
	var sides [2]compare.Side
	for i, arg := range args {
		model, ref, err := sweep.SplitModelRef(arg)
		if err != nil {
			return err
		}
		v, err := w.registry.Get(ctx, model, ref)
		if err != nil {
			return err
		}
		of, err := plan.ProvenanceOf(ctx, w.registry, v)
		if err != nil {
			return err
		}
		trained = of.Manifest
		s, err := scorer.OpenMapped(ctx, w.registry, v, w.levelsCache())
		if err != nil {
			return err
		}
		defer s.Close()
		sides[i] = compare.Side{Name: of.Name(), Scorer: s, Plan: of.Plan}
	}

	metrics, err := compare.Metrics(f.metrics, sides[1].Plan, trained)
	if err != nil {
		return err
	}
	rows, on, err := rowsToCompare(ctx, w, sides, trained, f)
	if err != nil {
		return err
	}

	confidence := metric.Confidence{Level: f.confidence}
	c := compare.Scores{A: sides[0].Name, B: sides[1].Name, On: on}
	if c.All, c.Classes, err = rows.Compare(metrics, confidence); err != nil {
		return err
	}
	if f.by != "" {
		if c.By, err = rows.CompareBy(metrics[0], confidence); err != nil {
			return err
		}
	}
	return w.print(c, func() { w.screen().Compared(c, f.confidence, f.by) })
}

// rowsToCompare scores both sides on the rows selected by --on; m is the dataset of B.
func rowsToCompare(ctx context.Context, w *Setup, sides [2]compare.Side, m *dataset.Manifest,
	f compareFlags) (*compare.Predictions, string, error) {
	if f.on != "" && isFile(f.on) {
		rows, err := compare.OnFile(ctx, sides, compare.TableInput{Path: f.on, Label: m.Label, Weight: m.Weight,
			Group: m.Group, Missing: m.Missing, By: f.by})
		return rows, f.on, err
	}

	ref := f.on
	if ref == "" {
		ref = m.Name + "@" + m.Version
	}
	on, err := stager.Resolve(ctx, w.datasets, strings.TrimSuffix(ref, latest))
	if err != nil {
		return nil, "", err
	}
	rows, split, err := compare.OnDataset(ctx, sides, w.datasets, on, f.by)
	return rows, on.Name + "@" + on.Version + ", sampled from " + split, err
}

// isFile reports whether --on names a local table instead of a dataset.
func isFile(on string) bool {
	if strings.ContainsAny(on, "/*?.") {
		return true
	}
	_, err := os.Stat(on)
	return err == nil
}
