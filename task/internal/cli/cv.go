package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"coppice/internal/dataset"
	"coppice/internal/fit"
	"coppice/internal/gbt"
	"coppice/internal/program"
	"coppice/internal/program/tables"
	"coppice/task/internal/usage"
)

// crossValidated is what --cv --json prints.
type crossValidated struct {
	Dataset string             `json:"dataset"`
	Scheme  fit.Scheme         `json:"scheme"`
	Metric  string             `json:"metric"` // the metric that configurations are compared by
	Folds   []crossFold        `json:"folds"`
	Summary map[string]summary `json:"summary"` // by metric
	Seconds float64            `json:"seconds"`
	Memory  memory             `json:"memory"`
}

type crossFold struct {
	TrainFolds []int              `json:"train_folds"` // the dataset's fold numbers
	RatedFolds []int              `json:"rated_folds"`
	TrainRows  int                `json:"train_rows"`
	RatedRows  int                `json:"rated_rows"`
	Trees      int                `json:"trees"`
	Metrics    map[string]float64 `json:"metrics"`
	Seconds    float64            `json:"seconds"`
}

type summary struct {
	Folds int      `json:"folds"`
	Mean  float64  `json:"mean"`
	SD    *float64 `json:"sd,omitempty"` // sample standard deviation; absent for a single fold
}

// checkCross rejects combinations of flags that --cv does not allow.
func (f *trainFlags) checkCross(cmd *cobra.Command) error {
	var names []string
	for _, s := range fit.Schemes() {
		names = append(names, string(s))
	}

	switch {
	case f.cv == "" && cmd.Flags().Changed("folds"):
		return program.Usagef("--folds is for cross-validation; add --cv %s", strings.Join(names, "|"))
	case f.cv == "":
		return nil
	case !slices.Contains(names, f.cv):
		return program.Usagef("--cv %s: use %s", f.cv, strings.Join(names, ", "))
	case f.folds < 2 || f.folds > dataset.Folds:
		return program.Usagef("--folds is %d: use 2 to %d, the number of folds in the dataset", f.folds, dataset.Folds)
	case f.checkpoint != "" || f.noRate:
		return program.Usagef("--checkpoint and --no-rate cannot be used with --cv, whose models are evaluated and " +
			"discarded")
	case f.out != "":
		return program.Usagef("--out cannot be used with --cv: cross-validation trains a model for each fold, on " +
			"part of the rows, to evaluate the parameters; to train the model, use the same command without --cv")
	}
	return nil
}

func (w *Setup) crossValidate(cmd *cobra.Command, f trainFlags) error {
	ds, err := openVerified(cmd.Context(), f)
	if err != nil {
		return err
	}
	defer ds.Close()

	params, metrics, err := readParams(f.params, &ds.Manifest.Label, w.note)
	if err != nil {
		return err
	}

	q := fit.CrossRequest{Scheme: fit.Scheme(f.cv), Folds: f.folds,
		Request: fit.Request{Params: params, Metric: metrics[0], Metrics: metrics, Threads: f.threads, RateTrees: true,
			Memory: max(usage.Available(), 0), Alone: true}}

	if !f.json {
		w.describe(ds, params, f.threads)
		var show func(gbt.Progress) error
		q.OnTree = func(p gbt.Progress) error { return show(p) }
		q.OnFold = func(f fit.Fold, train, rated int) error {
			show = w.treePrinter(params.NumIterations, metrics[0].Name)
			_, err := fmt.Fprintf(w.Out, "fold %d of %d: %s rows for training, %s for evaluation\n", f.Number, f.Of,
				humanize.Comma(int64(train)), humanize.Comma(int64(rated)))
			return err
		}
	}

	outcomes, err := fit.NewTable(ds).CrossValidate(cmd.Context(), q)
	if err != nil {
		return err
	}

	result := crossReport(outcomes)
	result.Dataset = ds.Manifest.Name + "@" + ds.Manifest.Version
	result.Scheme = q.Scheme
	result.Metric = metrics[0].Name

	if f.json {
		return json.NewEncoder(w.Out).Encode(result)
	}
	w.reportCross(result)
	return nil
}

func crossReport(outcomes []fit.FoldOutcome) crossValidated {
	mem := usage.Self()
	r := crossValidated{Summary: map[string]summary{}, Memory: memory{Private: mem.Private, Shared: mem.Shared,
		PSS: mem.PSS}}

	for _, o := range outcomes {
		r.Seconds += o.Seconds
		r.Folds = append(r.Folds, crossFold{TrainFolds: whole(o.Train.Folds), RatedFolds: whole(o.Rated.Folds),
			TrainRows: o.TrainRows,
			RatedRows: o.RatedRows, Trees: o.Trees, Metrics: o.Metrics, Seconds: o.Seconds})
	}

	for name, s := range fit.Summarize(outcomes) {
		out := summary{Folds: s.Folds, Mean: s.Mean}
		if !math.IsNaN(s.SD) {
			out.SD = &s.SD
		}
		r.Summary[name] = out
	}
	return r
}

// whole converts bytes to ints, because encoding/json would write a byte slice as base64.
func whole(folds []uint8) []int {
	out := make([]int, len(folds))
	for i, f := range folds {
		out[i] = int(f)
	}
	return out
}

func (w *Setup) reportCross(r crossValidated) {
	t := tables.On(w.World).Table("fold", "rows trained on", "rows rated", "trees", r.Metric, "seconds")
	for i, f := range r.Folds {
		t.Row(i+1, humanize.Comma(int64(f.TrainRows)), humanize.Comma(int64(f.RatedRows)), f.Trees,
			fmt.Sprintf("%.6f", f.Metrics[r.Metric]), fmt.Sprintf("%.2f", f.Seconds))
	}
	t.Print()

	t = tables.On(w.World).Table("metric", "mean", "standard deviation", "folds")
	for _, name := range slices.Sorted(maps.Keys(r.Summary)) {
		s := r.Summary[name]
		deviation := "-"
		if s.SD != nil {
			deviation = fmt.Sprintf("%.6f", *s.SD)
		}
		t.Row(name, fmt.Sprintf("%.6f", s.Mean), deviation, s.Folds)
	}
	t.Print()

	if r.Memory.PSS > 0 {
		fmt.Fprintf(w.Out, "memory: %s private, %s shared\n", humanize.IBytes(uint64(r.Memory.Private)),
			humanize.IBytes(uint64(r.Memory.Shared)))
	}
}
