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
	Pred   [2][]float64 // of the first side and the second
	By     []string     // value of the column to divide by; nil without one
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
		for _, i := range places {
			r.Pred[s] = append(r.Pred[s], pred[i])
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
		var err error
		if pred[i], err = side.Scorer.Sample(s, runtime.GOMAXPROCS(0)); err != nil {
			return nil, fmt.Errorf("%s: %w", side.Name, err)
		}
	}

	r := &Predictions{}
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
			r.Pred[side] = append(r.Pred[side], pred[side][i])
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
}

// Line is one metric of both sides.
type Line struct {
	Metric string  `json:"metric"`
	By     string  `json:"by,omitempty"` // value of the column to divide by; empty for all rows
	Rows   int     `json:"rows"`
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

// Compare evaluates each metric on all rows. An undefined metric is left out, unless all are.
func (r *Predictions) Compare(metrics []metric.Metric, c metric.Confidence) ([]Line, error) {
	var lines []Line
	var last error
	for _, m := range metrics {
		l, err := r.line(m, c, nil)
		var undefined *metric.InputError
		if errors.As(err, &undefined) {
			last = err
			continue
		}
		if err != nil {
			return nil, err
		}
		lines = append(lines, l)
	}

	if len(lines) == 0 {
		return nil, last
	}
	return lines, nil
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
		l, err := r.line(m, c, rows[v])
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

// line compares some rows, or all if rows is nil.
func (r *Predictions) line(m metric.Metric, c metric.Confidence, rows []int) (Line, error) {
	label, weight, group, pred := r.Label, r.Weight, r.Group, r.Pred
	if rows != nil {
		label, weight, group, pred = dataset.Pick(label, rows), dataset.Pick(weight, rows), dataset.Pick(group, rows),
			[2][]float64{dataset.Pick(pred[0], rows), dataset.Pick(pred[1], rows)}
	}

	x, err := m.Compare(metric.Input{Label: label, Weight: weight, Group: group, Pred: pred[1]}, pred[0], c)
	if err != nil {
		return Line{}, err
	}
	l := Line{Metric: m.Name, Rows: len(label), A: x.Old, B: x.New, Gain: x.Gain, Low: x.Low, High: x.High,
		Method: x.Method, Says: Equal}
	switch {
	case slices.Equal(pred[0], pred[1]):
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
		if m.Label.Kind == dataset.Regression {
			names = []string{"rmse", "mae"}
		}
		if p != nil && gbt.Ranks(p.Spec.Objective) {
			names = []string{"ndcg@10", "map@10"}
		}
	}
	var metrics []metric.Metric
	for _, name := range names {
		m, err := metric.Lookup(name)
		if err != nil {
			return nil, problem.Wrap(problem.Usage, err, "--metric")
		}
		metrics = append(metrics, m)
	}
	return metrics, nil
}
