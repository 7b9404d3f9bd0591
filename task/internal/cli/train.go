package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"coppice/internal/atomicfile"
	"coppice/internal/dataset"
	"coppice/internal/fit"
	"coppice/internal/gbt"
	"coppice/internal/metric"
	"coppice/internal/problem"
	"coppice/internal/program"
	"coppice/internal/program/tables"
	"coppice/internal/strictyaml"
	"coppice/internal/sweep"
	"coppice/task/internal/usage"
)

// trainFlags are the flags of the command train.
type trainFlags struct {
	dataset, params, out string
	threads              int
	json, noVerify       bool
	noRate               bool
}

// trainCommand returns the command train.
func trainCommand(w *Setup) *cobra.Command {
	var f trainFlags
	cmd := &cobra.Command{
		Use:   "train --dataset DIR [--params params.yaml] [--out model.txt]",
		Short: "Train one model on a dataset folder",
		Long: `Trains one model on a folder made by "launcher stage --out" and prints the time per tree,
metrics on the valid split and memory. params.yaml holds training parameters by name, one per line: LightGBM's
(docs/sweep.md lists them all), and metric: NAME or a list of names (the first one is used for early stopping
if early_stopping_round is set). A file that ends in .conf is read as LightGBM's: name = value.`,
		Example: `  launcher stage clicks.yaml --out data
  task train --dataset data/clicks/0123456789abcdef --params params.yaml --out model.txt --threads 2`,
		RunE: func(cmd *cobra.Command, _ []string) error { return w.runTraining(cmd, f) },
	}

	cmd.Flags().StringVar(&f.dataset, "dataset", "", "folder of a dataset version (required)")
	cmd.Flags().StringVar(&f.params, "params", "", "YAML file of parameters, or a LightGBM file that ends in .conf "+
		"(default: LightGBM's defaults)")
	cmd.Flags().StringVar(&f.out, "out", "", "where to write the model as LightGBM text")
	cmd.Flags().IntVar(&f.threads, "threads", 1, "threads; the model does not depend on them")
	cmd.Flags().BoolVar(&f.json, "json", false, "print one JSON object instead of text")
	cmd.Flags().BoolVar(&f.noVerify, "no-verify", false, "do not verify the dataset's checksums first")
	cmd.Flags().BoolVar(&f.noRate, "no-rate", false,
		"evaluate only the finished model on valid, not every tree (early stopping still does)")
	_ = cmd.MarkFlagRequired("dataset") // which is a flag
	return cmd
}

// trained is what --json prints.
type trained struct {
	Dataset    string             `json:"dataset"`
	Trees      int                `json:"trees"`
	TreesGrown int                `json:"trees_grown"`
	Stopped    gbt.Stop           `json:"stopped"`
	Seconds    float64            `json:"seconds"`
	MsPerTree  float64            `json:"ms_per_tree"`
	NsPerValue float64            `json:"ns_per_value"`
	Metrics    map[string]float64 `json:"metrics"`
	Memory     memory             `json:"memory"`
	Model      string             `json:"model,omitempty"`
}

type memory struct {
	Private   int64 `json:"private_bytes"`
	Predicted int64 `json:"predicted_private_bytes,omitempty"` // the launcher's memory formula, for the trainer alone
	Shared    int64 `json:"shared_bytes"`
	PSS       int64 `json:"pss_bytes"`
}

// check refuses a number of threads that is out of range, and a file for the model that cannot be written.
func (f *trainFlags) check() error {
	if f.threads < 1 || f.threads > 1024 {
		return program.Usagef("--threads is %d: use 1 to 1024", f.threads)
	}
	if f.out == "" {
		return nil
	}
	return program.CheckOutFile("--out", f.out)
}

// runTraining trains one model on a folder with a dataset, writes the model if --out is given, and prints what came of
// it: text with progress lines, or, with --json, one object.
func (w *Setup) runTraining(cmd *cobra.Command, f trainFlags) error {
	if err := f.check(); err != nil {
		return err
	}

	ds, err := openVerified(cmd.Context(), f)
	if err != nil {
		return err
	}
	defer ds.Close()
	params, metrics, err := readParams(f.params, &ds.Manifest.Label, w.note)
	if err != nil {
		return err
	}

	t := fit.NewTable(ds)
	q := w.newRequest(ds, params, metrics, f)

	if !f.json {
		w.printData(ds, params, f.threads)
		// What is printed of each tree is the score that may stop the training, which is another than a value metric.
		rated, err := q.Metric.Stop(params.Objective)
		if err != nil {
			return err
		}
		q.OnTree = w.treePrinter(params.NumIterations, rated.Name)
	}

	o, mem, err := w.trainAndWrite(cmd.Context(), t, q, f)
	if err != nil {
		return err
	}

	result := resultOf(o, ds.Manifest, f.out)
	result.Memory = memory{mem.Private, predictedPrivate(ds, q), mem.Shared, mem.PSS}

	if f.json {
		return json.NewEncoder(w.Out).Encode(result)
	}
	w.printResult(result)
	return nil
}

// newRequest returns the request for the training that the flags ask for. The first metric stops the training early.
// Trees are evaluated on the split valid, if the dataset has one.
func (w *Setup) newRequest(ds *dataset.Dataset, params gbt.Params, metrics []metric.Metric, f trainFlags) fit.Request {
	q := fit.Request{Params: params, Metric: metrics[0], Metrics: metrics, Threads: f.threads, RateTrees: !f.noRate,
		Program: w.Version}
	if ds.Split(dataset.ValidSplit) != nil {
		q.Valid = &sweep.Rows{Split: dataset.ValidSplit}
	}
	return q
}

// resultOf returns what is printed of a training, without its memory. path is where its model was written; "" if it was
// not.
func resultOf(o *fit.Evaluated, m *dataset.Manifest, path string) trained {
	return trained{Dataset: m.Name + "@" + m.Version, Trees: o.Model.Iterations(), TreesGrown: o.Grown,
		Stopped: o.Stopped, Seconds: o.Seconds,
		MsPerTree: o.Seconds * 1e3 / float64(max(o.Grown, 1)), NsPerValue: o.NsPerValue, Metrics: o.Metrics,
		Model: path}
}

// openVerified opens the dataset's folder and verifies its checksums, unless --no-verify says not to. It refuses a
// dataset that staging has blocked. The caller closes the dataset.
func openVerified(ctx context.Context, f trainFlags) (*dataset.Dataset, error) {
	if info, err := os.Stat(f.dataset); err == nil && !info.IsDir() {
		return nil, problem.New(problem.NotFound, "open dataset %s: it is a file; give the folder of the dataset "+
			"version, such as %s", f.dataset, filepath.Dir(f.dataset))
	}

	ds, err := dataset.Open(f.dataset)
	if err != nil {
		return nil, fmt.Errorf("open dataset %s: %w%s", f.dataset, err, versionBelow(f.dataset))
	}
	if err := checkNight(f.dataset, ds.Manifest); err != nil {
		return nil, errors.Join(err, ds.Close())
	}
	if f.noVerify {
		return ds, nil
	}
	if err := ds.Verify(ctx, nil); err != nil {
		return nil, errors.Join(err, ds.Close())
	}
	return ds, nil
}

// versionBelow returns advice for an error about a folder that is not a dataset version: a version that lies one or two
// folders below it, as below that of stage --out. It is empty if there is none.
func versionBelow(folder string) string {
	for _, below := range []string{"*", filepath.Join("*", "*")} {
		// A folder whose name is no pattern, for its brackets, only costs the advice.
		found, _ := filepath.Glob(filepath.Join(folder, below, dataset.ManifestFile))
		if len(found) > 0 {
			return "; give the folder of a version, such as " + filepath.Dir(found[0])
		}
	}
	return ""
}

// trainAndWrite trains the model and writes it to --out, if that is given. It returns the process's memory at the end
// of the training.
func (w *Setup) trainAndWrite(ctx context.Context, t *fit.Table, q fit.Request, f trainFlags) (*fit.Evaluated,
	usage.Memory, error) {
	o, err := t.Train(ctx, q)
	if err != nil {
		return nil, usage.Memory{}, err
	}

	mem := usage.Self()
	if f.out != "" {
		if err := writeModel(o.Model, f.out); err != nil {
			return nil, mem, err
		}
	}
	return o, mem, nil
}

// predictedPrivate returns an estimate of the trainer's private memory in bytes, by the formula with which the launcher
// plans. It includes the scores of valid if trees were evaluated one by one, as early stopping needs, too.
func predictedPrivate(ds *dataset.Dataset, q fit.Request) int64 {
	features := make([]int, len(ds.Manifest.Features))
	for i := range features {
		features[i] = ds.Manifest.Features[i].Bins
	}
	valid := 0
	if s := ds.Split(dataset.ValidSplit); s != nil && (q.RateTrees || q.Params.EarlyStoppingRound > 0) {
		valid = s.Rows
	}
	return gbt.PrivateBytes(q.Params, ds.Split(dataset.TrainSplit).Rows, valid, features, q.Threads)
}

// readParams reads training parameters from a YAML file, or from a LightGBM file, whose name ends in .conf. Without a
// file they are the defaults for the kind of label. It returns the parameters, which go with the label, and the
// metrics: those that the file names, followed by the standard ones of the objective. note is called with what has no
// effect, such as a parameter or an unknown metric. An error has the place in the file, where there is one.
func readParams(file string, label *dataset.LabelInfo, note func(string)) (gbt.Params, []metric.Metric, error) {
	values := map[string]any{}
	var doc *strictyaml.Document
	if file != "" {
		var notes []string
		var err error
		if values, notes, doc, err = gbt.ReadParams(file); err != nil {
			return gbt.Params{}, nil, err
		}
		for _, text := range notes {
			note(text)
		}
	}

	// The metric is not the trainer's; all other parameters are.
	metricKey := keyOf(values, "metric")
	names, err := metricNames(values[metricKey])
	if err != nil {
		return gbt.Params{}, nil, at(doc, metricKey, err)
	}
	delete(values, metricKey)

	// Without an objective in the file, the label decides.
	objectiveKey := keyOf(values, "objective")
	if _, given := values[objectiveKey]; !given && label.Kind != dataset.Binary {
		values[objectiveKey] = objectives[label.Kind]
	}

	params, err := gbt.ParseParams(values)
	var pe *gbt.ParamError
	if errors.As(err, &pe) && doc != nil {
		return params, nil, doc.Errorf(pe.Name, "%v", err)
	} else if err != nil {
		return params, nil, err
	}

	for _, idle := range params.Idle() {
		note(idle.Error())
	}

	// Label, objective and metrics have to match.
	kind, err := metric.Of(params.Objective)
	if err != nil {
		return params, nil, err
	}
	if err := fit.CheckClasses(params.Objective, label); err != nil {
		return params, nil, at(doc, objectiveKey, err)
	}
	if n := len(label.Classes); n > 0 && params.NumClass != 1 && params.NumClass != n {
		return params, nil, at(doc, keyOf(values, "num_class"), fmt.Errorf("num_class is %d, and the label has %d "+
			"classes", params.NumClass, n))
	} else if n > 0 {
		params.NumClass = n
	}
	if kind == metric.Binary && label.Kind != dataset.Binary {
		return params, nil, at(doc, objectiveKey, fmt.Errorf("objective binary needs a label of 0 and 1, but this "+
			"dataset's is a quantity; stage it with positive: or above:, or use objective: regression"))
	}

	// A LightGBM file may list metrics that Coppice does not have beside others; those are left out.
	var metrics []metric.Metric
	for _, name := range names {
		m, err := metric.Lookup(name)
		if err != nil && len(names) > 1 && strings.HasSuffix(file, ".conf") {
			note(fmt.Sprintf("%s is left out: %v", name, err))
			continue
		}
		if err == nil {
			err = m.CheckObjective(params.Objective)
		}
		if err != nil {
			return params, nil, at(doc, metricKey, err)
		}
		metrics = append(metrics, m)
	}

	return params, append(metrics, metric.Standard(params.Objective)...), nil
}

// keyOf returns the name by which values, as gbt.ReadParams returns them, have a parameter: its canonical name, an
// alias or, if they do not have it, the canonical name.
func keyOf(values map[string]any, canonical string) string {
	for name := range values { // at most one is the parameter's: ReadParams refuses a second
		if gbt.CanonicalName(name) == canonical {
			return name
		}
	}
	return canonical
}

// objectives are those of labels that are not binary, which is the trainer's default.
var objectives = map[dataset.LabelKind]string{dataset.Regression: "regression", dataset.Classes: "multiclass"}

// at returns err with its position in the parameter file, that of the key path; err itself if there is no file.
func at(doc *strictyaml.Document, path string, err error) error {
	if doc == nil {
		return err
	}
	return doc.Errorf(path, "%v", err)
}

// metricNames returns the names in a value of the key metric: none, one, or a list. Any other value is an error.
func metricNames(v any) ([]string, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case string:
		return []string{v}, nil

	case []any:
		var names []string
		for _, n := range v {
			name, ok := n.(string)
			if !ok {
				return nil, fmt.Errorf("metric: %v is not the name of a metric", n)
			}
			names = append(names, name)
		}
		return names, nil
	}

	return nil, fmt.Errorf("metric: %v is neither a name nor a list of names", v)
}

// note writes a note to stderr, so that it is not among the results.
func (w *Setup) note(text string) { fmt.Fprintf(w.Err, "note: %s\n", text) }

// printData prints, before a training, the dataset with its rows, and the main parameters.
func (w *Setup) printData(ds *dataset.Dataset, p gbt.Params, threads int) {
	var splits []string
	for _, s := range ds.Manifest.Splits {
		splits = append(splits, fmt.Sprintf("%s %s", s.Name, humanize.Comma(int64(ds.Manifest.TableRows(s.Name)))))
	}
	if n := ds.Manifest.Copies(); n > 1 {
		splits[0] += fmt.Sprintf(" in %d orders", n)
	}
	fmt.Fprintf(w.Out, "dataset %s@%s: %d features; rows: %s\n", ds.Manifest.Name, ds.Manifest.Version,
		len(ds.Manifest.Features), strings.Join(splits, ", "))
	fmt.Fprintf(w.Out, "%s, %d trees at most, %d leaves, learning rate %g, %d threads\n", p.Objective, p.NumIterations,
		p.NumLeaves, p.LearningRate, threads)
}

// treePrinter returns a function that is called after every tree. It prints a progress line after the first tree, and
// 20 to 39 others over so many trees, if they are that many. name is that of the metric by which trees are evaluated.
func (w *Setup) treePrinter(trees int, name string) func(gbt.Progress) error {
	every := max(trees/20, 1)
	var took time.Duration
	grown := 0

	return func(p gbt.Progress) error {
		took += p.Took
		grown++
		if p.Tree%every != 0 && grown != 1 {
			return nil
		}

		line := fmt.Sprintf("tree %5d  %4d leaves  %7.1f ms/tree", p.Tree, p.Leaves, took.Seconds()*1e3/float64(grown))
		if !math.IsNaN(p.Metric) {
			line += fmt.Sprintf("  valid %s %.6f (best %d)", name, p.Metric, p.Best)
		}
		_, err := fmt.Fprintln(w.Out, line)
		return err
	}
}

// printResult prints a training's trees, time and metrics, its memory where the system tells that, and the model's
// file.
func (w *Setup) printResult(r trained) {
	t := tables.On(w.World).Table()

	trees := fmt.Sprintf("%d (%d grown; %s)", r.Trees, r.TreesGrown, r.Stopped)

	t.Row("trees", trees)
	t.Row("time", fmt.Sprintf("%.2f s, %.1f ms per tree, %.3f ns per row x feature x tree", r.Seconds,
		r.MsPerTree, r.NsPerValue))
	for _, name := range slices.Sorted(maps.Keys(r.Metrics)) {
		t.Row("valid "+name, sweep.Score(r.Metrics[name], 0))
	}
	if r.Memory.PSS > 0 {
		t.Row("memory", fmt.Sprintf("%s private, %s shared", humanize.IBytes(uint64(r.Memory.Private)),
			humanize.IBytes(uint64(r.Memory.Shared))))
	}
	if r.Model != "" {
		t.Row("model", r.Model)
	}
	t.Print()
}

// writeModel writes the model as LightGBM text. It replaces the file at path only once the whole model is on disk.
func writeModel(m *gbt.Model, path string) error {
	var text bytes.Buffer
	if _, err := m.WriteTo(&text); err != nil {
		return err
	}
	if err := atomicfile.Write(path, text.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write %s: %w", path, err) // the cause names only a temporary file
	}
	return nil
}
