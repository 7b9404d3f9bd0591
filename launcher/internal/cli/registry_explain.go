package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"coppice/internal/dataset"
	"coppice/internal/gbt"
	"coppice/internal/metric"
	"coppice/internal/problem"
	"coppice/internal/program"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
	"coppice/launcher/internal/explain"
	"coppice/launcher/internal/plan"
)

// maxExplained bounds --rows: it is the number of rows that a version keeps.
const maxExplained = 20_000

type explainFlags struct {
	metrics       []string
	rows, threads int
}

func registryExplainCommand(w *Setup) *cobra.Command {
	var f explainFlags
	cmd := &cobra.Command{
		Use:   "explain MODEL[@VERSION|@ALIAS]",
		Short: "Explain a version's predictions by its features",
		Long: `Explains a version with test rows of its night, which it keeps in reference.arrow. For each feature it
shows the number of splits and the share of their gain; its contribution, the mean of |SHAP value| in the raw score
(log odds), which says how much it moves predictions; and its worth: how much worse the metric gets when its values
are shuffled among the rows, with a 95 % interval. Features made from the same columns are also shown together,
since they move a prediction together and each can replace the other. Each of several classes has a raw score, and
contributions are added up over them; those by class are in --json.`,
		Example: "  launcher registry explain ctr\n  launcher registry explain ctr@12 --metric auc --rows 10000 --json",
		RunE: func(cmd *cobra.Command, args []string) error { // args[0] is there, as Use says
			if f.rows < 2 || f.rows > maxExplained {
				return program.Usagef("--rows is %d: use 2 to %d", f.rows, maxExplained)
			}
			if err := checkThreads(f.threads); err != nil {
				return err
			}
			return w.withVersion(cmd.Context(), args[0], func(v registry.Version) error {
				return explainVersion(cmd.Context(), w, v, f)
			})
		},
	}

	cmd.Flags().StringSliceVar(&f.metrics, "metric", nil,
		"metric by which a feature's worth is measured (default: log_loss, of several classes multi_logloss, "+
			"for regression rmse, for an order ndcg@10)")
	cmd.Flags().IntVar(&f.rows, "rows", 2000,
		"maximum number of rows; the SHAP values of a row take up to a few milliseconds")
	cmd.Flags().IntVar(&f.threads, "threads", 0, "threads (default: all CPUs)")
	w.jsonFlag(cmd, "print one JSON object")
	return cmd
}

// explainVersion prints how a version's features move its predictions, on the test rows that it keeps. A version
// without such rows is an error of kind Input.
func explainVersion(ctx context.Context, w *Setup, v registry.Version, f explainFlags) error {
	o, err := plan.ProvenanceOf(ctx, w.registry, v)
	if err != nil {
		return err
	}
	metrics, err := explainMetrics(f.metrics, o.Plan, o.Manifest)
	if err != nil {
		return err
	}
	if _, ok := v.File(scorer.FileReference); !ok {
		return problem.New(problem.Input, "%s keeps no test rows (%s): the split that its sweep tested on had no "+
			"sampled rows", o.Called(), scorer.FileReference)
	}
	data, err := w.registry.ReadFile(ctx, v, scorer.FileReference)
	if err != nil {
		return err
	}
	rows, err := scorer.DecodeReference(data)
	if err != nil {
		return fmt.Errorf("%s: %w", o.Called(), err)
	}

	// Explain them with the version's model.
	s, err := scorer.OpenMapped(ctx, w.registry, v, w.levelsCache())
	if err != nil {
		return err
	}
	defer s.Close()

	r, err := explain.Run(explain.Request{Scorer: s, Rows: rows, Most: f.rows, Metrics: metrics, Threads: f.threads})
	if err != nil {
		return fmt.Errorf("%s: %w", o.Called(), err)
	}
	_, final := v.File(scorer.FileJudgedModel)
	return w.print(struct {
		Model   string `json:"model"`
		Version int    `json:"version"`
		Final   bool   `json:"final,omitempty"` // it has been trained on the rows
		*explain.Report
	}{v.Model, v.Number, final, r}, func() { w.screen().Explained(o.Called(), r, final) })
}

// explainMetrics returns the metrics of the given names. Without names, it returns the usual ones for the version: p is
// its sweep's plan, nil if it has none, and m its dataset's manifest. A metric for several classes is an error for any
// other label, and so is any other metric for several classes.
func explainMetrics(names []string, p *sweep.Plan, m *dataset.Manifest) ([]metric.Metric, error) {
	classes := len(m.Label.Classes)
	if len(names) == 0 {
		switch {
		case p != nil && gbt.Ranks(p.Spec.Objective):
			names = []string{"ndcg@10", "map@10"}
		case classes > 0:
			names = []string{"multi_logloss", "multi_error"}
		case m.Label.Kind == dataset.Regression:
			names = []string{"rmse", "mae"}
		default:
			names = []string{"log_loss", "normalized_entropy", "auc", "average_precision", "calibration_ratio"}
		}
	}
	var metrics []metric.Metric
	for _, name := range names {
		of, err := metric.Lookup(name)
		switch {
		case err != nil:
			return nil, problem.Wrap(problem.Usage, err, "--metric")
		case classes == 0 && of.Kind == metric.Classes:
			return nil, program.Usagef("--metric: %s is for several classes, and the label has none", name)
		case classes > 0 && of.Kind != metric.Classes:
			return nil, program.Usagef("--metric: %s is for %s labels, and this one has %d classes: use "+
				"multi_logloss or multi_error", name, of.Kind, classes)
		}
		metrics = append(metrics, of)
	}
	return metrics, nil
}
