// Package compare scores two registered versions on the same rows, each through its own encoding of the raw values, and
// estimates how much better one is, with a confidence interval.
package compare

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"coppice/internal/blob"
	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/ingest"
	"coppice/internal/dataset/table"
	"coppice/internal/gbt"
	"coppice/internal/metric"
	"coppice/internal/problem"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
	"coppice/launcher/internal/stager"
)

// Side is one of the two versions.
type Side struct {
	Name   string // such as ctr@3
	Scorer *scorer.Scorer
	Plan   *sweep.Plan // that trained it; nil if it is not known
}

// Predictions holds both sides' predictions.
type Predictions struct {
	Label  []float32
	Weight []float32    // nil if all are 1
	Group  []uint64     // nil without groups
	Pred   [2][]float64 // of the first side and the second; of several classes, one for each in every row
	By     []string     // value of the column to divide by; nil without one
	// Classes are the names of the label's classes; nil unless there are several.
	Classes []string
}

// classesOf are the classes that both sides predict; versions with others have no prediction in common.
func classesOf(sides [2]Side) ([]string, error) {
	a, b := sides[0].Scorer.Encoding.Classes, sides[1].Scorer.Encoding.Classes
	if !slices.Equal(a, b) {
		return nil, errorf("%s predicts %s, %s %s: compare versions that predict the same", sides[0].Name, predicts(a),
			sides[1].Name, predicts(b))
	}
	return a, nil
}

func predicts(classes []string) string {
	if len(classes) == 0 {
		return "one number"
	}
	return fmt.Sprintf("%d classes (%.300s)", len(classes), strings.Join(classes, ", "))
}

func errorf(format string, args ...any) error { return problem.New(problem.Input, format, args...) }

// TableInput is a table to compare on.
type TableInput struct {
	Path   string
	CSV    dataset.CSVSpec
	Label  dataset.LabelInfo
	Weight string // column; empty without
	Group  string // column; empty without
	// Missing lists the texts that stand for a missing label.
	Missing []string
	By      string // column to divide by; empty for none
}

const batchRows = 16384 // of wide tables fewer, so that a batch takes megabytes

// OnFile scores the labelled rows of a table.
func OnFile(ctx context.Context, sides [2]Side, f TableInput) (*Predictions, error) {
	files, err := table.Expand(f.Path)
	if err != nil {
		return nil, err
	}
	t, err := table.Open(files, table.Options{CSV: f.CSV, Threads: runtime.GOMAXPROCS(0)})
	if err != nil {
		return nil, err
	}

	wanted := slices.Concat(sides[0].Scorer.Columns(), sides[1].Scorer.Columns(), []string{f.Label.Column})
	for _, extra := range []string{f.Weight, f.Group, f.By} {
		if extra != "" {
			wanted = append(wanted, extra)
		}
	}
	slices.Sort(wanted)
	wanted = slices.Compact(wanted)
	has := map[string]bool{}
	for _, c := range t.Columns() {
		has[c.Name] = true
	}
	for _, name := range wanted {
		if !has[name] {
			return nil, errorf("%s has no column %q, which %s needs", f.Path, name, f.whoNeeds(sides, name))
		}
	}

	r := &Predictions{}
	if r.Classes, err = classesOf(sides); err != nil {
		return nil, err
	}
	labels := ingest.NewLabels(f.Label, f.Missing)
	rows := min(batchRows, table.BatchRows(len(wanted)))
	err = t.Read(ctx, wanted, rows, func(b *table.Batch) error { return r.add(sides, b, labels, f) })
	if err == nil && len(r.Label) == 0 {
		err = errorf("%s has no row with a label in column %q", f.Path, f.Label.Column)
	}
	return r, err
}

// whoNeeds says, for a message, what a column is needed for.
func (f *TableInput) whoNeeds(sides [2]Side, column string) string {
	for _, s := range sides {
		if slices.Contains(s.Scorer.Columns(), column) {
			return s.Name
		}
	}
	switch column {
	case f.Label.Column:
		return "the label"
	case f.Weight:
		return "the rows' weight"
	case f.Group:
		return "the rows' group"
	}
	return "--by"
}

// add scores a batch.
func (r *Predictions) add(sides [2]Side, b *table.Batch, labels *ingest.Labels, f TableInput) error {
	label, places, err := labels.Read(b)
	if err != nil {
		return err
	}
	if places == nil {
		places = make([]int32, b.Rows)
		for i := range places {
			places[i] = int32(i)
		}
	}
	r.Label = append(r.Label, label...)

	for s := range sides {
		_, pred, _, err := sides[s].Scorer.Batch(b, nil, runtime.GOMAXPROCS(0), &cell.Inputs{})
		if err != nil {
			return fmt.Errorf("%s: %w", sides[s].Name, err)
		}
		k := max(1, len(r.Classes))
		for _, i := range places {
			r.Pred[s] = append(r.Pred[s], pred[int(i)*k:][:k]...)
		}
	}

	if f.Weight != "" {
		v := b.Column(f.Weight)
		for _, i := range places {
			w, ok := labels.Number(v, int(i))
			if !ok || w < 0 {
				return errorf("%s: row %d has no weight in column %q", f.Path, b.First+int64(i)+1, f.Weight)
			}
			r.Weight = append(r.Weight, float32(w))
		}
	}
	if f.Group != "" {
		keys := cell.Keys{Markers: cell.NewMarkers(f.Missing)}
		v := b.Column(f.Group)
		for _, i := range places {
			r.Group = append(r.Group, keys.Hash(v, int(i), b.Row(int(i))))
		}
	}
	if f.By != "" {
		r.divide(b.Column(f.By), places)
	}
	return nil
}

func (r *Predictions) divide(v *dataset.Values, places []int32) {
	for _, i := range places {
		text := "(missing)"
		if !v.IsNull(int(i)) && v.TextOf(int(i)) != "" {
			text = v.TextOf(int(i))
		}
		r.By = append(r.By, text)
	}
}

// OnDataset scores the sampled rows of a staged dataset that neither version was calibrated on, and says of which split
// they are.
func OnDataset(ctx context.Context, sides [2]Side, datasets blob.Store, on *dataset.Manifest, by string) (*Predictions,
	string, error) {
	text, err := stager.File(ctx, datasets, on, dataset.SampleFile)
	if err != nil {
		return nil, "", err
	}
	sample, err := dataset.ReadSample(text)
	if err != nil {
		return nil, "", err
	}
	if text, err = stager.File(ctx, datasets, on, dataset.TargetsFile(sample.Split)); err != nil {
		return nil, "", err
	}
	targets, err := dataset.ReadTargets(text)
	if err != nil {
		return nil, "", err
	}

	rows, err := OnSample(sides, sample, targets, by,
		func(fold uint8) bool { return unseen(sides, on, sample.Split, fold) })
	return rows, sample.Split, err
}

// unseen reports whether neither version was calibrated on, or chosen by, the rows of a fold of a split: of a version's
// own dataset only its plan's test rows qualify.
func unseen(sides [2]Side, on *dataset.Manifest, split string, fold uint8) bool {
	for _, s := range sides {
		if s.Plan == nil || s.Plan.Dataset.Name != on.Name || s.Plan.Dataset.Version != on.Version {
			continue
		}
		test := s.Plan.Holdout.Test
		if test.Split != split || test.Folds != nil && len(test.Select([]uint8{fold})) == 0 {
			return false
		}
	}
	return true
}

// OnSample scores the rows of a dataset's sample for which pass is true, with the targets of its split.
func OnSample(sides [2]Side, s *dataset.Sample, t dataset.Targets, by string, pass func(fold uint8) bool) (*Predictions,
	error) {
	classes, err := classesOf(sides)
	if err != nil {
		return nil, err
	}
	var divided *dataset.Values
	if by != "" {
		if divided = s.Column(by); divided == nil {
			return nil, errorf("the dataset's sample has no column %q to divide by; it has the features' own columns",
				by)
		}
	}

	var pred [2][]float64
	for i, side := range sides {
		for _, name := range side.Scorer.Columns() {
			if s.Column(name) == nil {
				return nil, errorf("%s needs column %q, and the dataset's sample does not have it; compare on a "+
					"file that does", side.Name, name)
			}
		}
		if pred[i], err = side.Scorer.Sample(s, runtime.GOMAXPROCS(0)); err != nil {
			return nil, fmt.Errorf("%s: %w", side.Name, err)
		}
	}

	r, k := &Predictions{Classes: classes}, max(1, len(classes))
	for i, row := range s.Row {
		if int(row) >= len(t.Label) || t.Fold != nil && !pass(t.Fold[row]) {
			continue
		}
		r.Label = append(r.Label, t.Label[row])
		if t.Weight != nil {
			r.Weight = append(r.Weight, t.Weight[row])
		}
		if t.Group != nil {
			r.Group = append(r.Group, t.Group[row])
		}
		for side := range pred {
			r.Pred[side] = append(r.Pred[side], pred[side][i*k:][:k]...)
		}
		if divided != nil {
			r.divide(divided, []int32{int32(i)})
		}
	}
	if len(r.Label) == 0 {
		return nil, errorf("the dataset's sample has no row that neither version was calibrated on; compare on a file")
	}
	return r, nil
}

// Scores are what two sides score on the same rows.
type Scores struct {
	A   string `json:"a"` // name
	B   string `json:"b"`
	On  string `json:"on"` // what the rows are
	All []Line `json:"all"`
	By  []Line `json:"by,omitempty"`
	// Classes are metrics of two classes, each class against all others.
	Classes []Line `json:"classes,omitempty"`
}

// Line is one metric of both sides.
type Line struct {
	Metric string  `json:"metric"`
	By     string  `json:"by,omitempty"` // value of the column to divide by, or class; empty for all rows
	Rows   int     `json:"rows"`         // of them or, of a class, with this label
	A      float64 `json:"a"`
	B      float64 `json:"b"`
	Gain   float64 `json:"gain"` // above 0 if B is better, for any metric
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	Method string  `json:"method"`
	Says   string  `json:"says"`
}

// Verdicts of a line.
const (
	Better = "B is better"
	Worse  = "B is worse"
	Equal  = "no difference beyond chance"
	Same   = "the same predictions"
)

// Compare evaluates each metric on all rows: all are for these, and classes for each class against the others. An
// undefined metric is left out, unless all are.
func (r *Predictions) Compare(metrics []metric.Metric, c metric.Confidence) (all, classes []Line, err error) {
	var last error
	try := func(lines []Line, side *Predictions, m metric.Metric, class string) ([]Line, error) {
		l, err := side.line(m, c)
		var undefined *metric.InputError
		if errors.As(err, &undefined) {
			last = err
			return lines, nil
		}
		l.By = class
		return append(lines, l), err
	}
	for _, m := range metrics {
		if len(r.Classes) == 0 || m.Kind == metric.Classes {
			if all, err = try(all, r, m, ""); err != nil {
				return nil, nil, err
			}
			continue
		}
		for k, name := range r.Classes {
			one := r.class(k)
			n := len(classes)
			if classes, err = try(classes, one, m, name); err != nil {
				return nil, nil, err
			}
			if len(classes) > n {
				classes[n].Rows = count(one.Label)
			}
		}
	}

	if len(all)+len(classes) == 0 {
		return nil, nil, last
	}
	return all, classes, nil
}

// class has the same rows with the label 1 in those of class k, and its probability as the prediction.
func (r *Predictions) class(k int) *Predictions {
	one := &Predictions{Weight: r.Weight, Group: r.Group}
	for i, l := range r.Label {
		one.Label = append(one.Label, map[bool]float32{true: 1}[int(l) == k])
		for s := range r.Pred {
			one.Pred[s] = append(one.Pred[s], r.Pred[s][i*len(r.Classes)+k])
		}
	}
	return one
}

func count(label []float32) (positive int) {
	for _, l := range label {
		positive += int(l)
	}
	return positive
}

// mostValues is how many values of a column get a line of their own.
const mostValues = 20

// CompareBy measures the rows of each value of the column to divide by, the most frequent ones first; the rest is one
// line. Where the metric is not defined on a value's rows, there is no line.
func (r *Predictions) CompareBy(m metric.Metric, c metric.Confidence) ([]Line, error) {
	rows := map[string][]int{}
	for i, v := range r.By {
		rows[v] = append(rows[v], i)
	}
	var values []string
	for v := range rows {
		values = append(values, v)
	}
	slices.SortFunc(values,
		func(a, b string) int { return cmp.Or(cmp.Compare(len(rows[b]), len(rows[a])), cmp.Compare(a, b)) })
	if len(values) > mostValues {
		rest := fmt.Sprintf("(%d others)", len(values)-mostValues)
		for _, v := range values[mostValues:] {
			rows[rest] = append(rows[rest], rows[v]...)
		}
		slices.Sort(rows[rest])
		values = append(values[:mostValues:mostValues], rest)
	}

	var lines []Line
	for _, v := range values {
		l, err := r.pick(rows[v]).line(m, c)
		var undefined *metric.InputError
		if errors.As(err, &undefined) {
			continue
		}
		if err != nil {
			return nil, err
		}
		l.By = v
		lines = append(lines, l)
	}
	return lines, nil
}

// pick has some of the rows.
func (r *Predictions) pick(rows []int) *Predictions {
	some := &Predictions{Label: dataset.Pick(r.Label, rows), Weight: dataset.Pick(r.Weight, rows),
		Group: dataset.Pick(r.Group, rows), Classes: r.Classes}
	k := max(1, len(r.Classes))
	for s, pred := range r.Pred {
		for _, i := range rows {
			some.Pred[s] = append(some.Pred[s], pred[i*k:][:k]...)
		}
	}
	return some
}

// line compares all rows.
func (r *Predictions) line(m metric.Metric, c metric.Confidence) (Line, error) {
	x, err := m.Compare(metric.Input{Label: r.Label, Weight: r.Weight, Group: r.Group, Pred: r.Pred[1]}, r.Pred[0], c)
	if err != nil {
		return Line{}, err
	}
	l := Line{Metric: m.Name, Rows: len(r.Label), A: x.Old, B: x.New, Gain: x.Gain, Low: x.Low, High: x.High,
		Method: x.Method, Says: Equal}
	switch {
	case slices.Equal(r.Pred[0], r.Pred[1]):
		l.Says = Same
	case x.Better(0):
		l.Says = Better
	case x.Worse():
		l.Says = Worse
	}
	return l, nil
}

// Metrics returns the metrics of the names, or those that versions of such a plan, which may be nil, and dataset are
// compared by.
func Metrics(names []string, p *sweep.Plan, m *dataset.Manifest) ([]metric.Metric, error) {
	if len(names) == 0 {
		names = []string{"log_loss", "normalized_entropy", "auc", "average_precision", "calibration_ratio"}
		switch m.Label.Kind {
		case dataset.Regression:
			names = []string{"rmse", "mae"}
		case dataset.Classes:
			names = []string{"multi_logloss", "multi_error", "log_loss"}
		}
		if p != nil && gbt.Ranks(p.Spec.Objective) {
			names = []string{"ndcg@10", "map@10"}
		}
	}
	var metrics []metric.Metric
	for _, name := range names {
		of, err := metric.Lookup(name)
		if err != nil {
			return nil, problem.Wrap(problem.Usage, err, "--metric")
		}
		switch n := len(m.Label.Classes); {
		case n == 0 && of.Kind == metric.Classes:
			return nil, problem.New(problem.Usage, "--metric: %s is of several classes, and the label has none", name)
		case n > 0 && of.Kind != metric.Classes && of.Kind != metric.Binary:
			return nil, problem.New(problem.Usage, "--metric: %s is of %s, and the label has %d classes: use "+
				"multi_logloss, multi_error, or a metric of two classes, which measures each against the others", name,
				of.Kind, n)
		}
		metrics = append(metrics, of)
	}
	if m.Label.Kind == dataset.Classes { // those of all classes first: the first one divides, or measures features
		if !slices.ContainsFunc(metrics, func(of metric.Metric) bool { return of.Kind == metric.Classes }) {
			all, err := metric.Lookup("multi_logloss")
			if err != nil {
				return nil, err
			}
			metrics = append(metrics, all)
		}
		slices.SortStableFunc(metrics, func(a, b metric.Metric) int { return cmp.Compare(b.Kind, a.Kind) })
	}
	return metrics, nil
}
