// Package fit trains one configuration on an open dataset and evaluates it, for the worker, `task train` and `launcher
// registry reproduce`. Here the dataset's columns become the trainer's input, as the same slices.
package fit

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"coppice/internal/calibrate"
	"coppice/internal/dataset"
	"coppice/internal/dataset/encode"
	"coppice/internal/exact"
	"coppice/internal/gbt"
	"coppice/internal/metric"
	"coppice/internal/problem"
	"coppice/internal/strictyaml"
	"coppice/internal/sweep"
)

// Table is an open dataset as the trainer's input.
type Table struct {
	ds       *dataset.Dataset
	features []gbt.Feature
}

// NewTable describes ds to the trainer. The caller keeps ds open as long as the table is used.
func NewTable(ds *dataset.Dataset) *Table {
	return &Table{ds: ds, features: describe(ds.Manifest)}
}

// describe returns a dataset's features for the trainer.
func describe(m *dataset.Manifest) []gbt.Feature {
	var features []gbt.Feature
	for i := range m.Features {
		f := &m.Features[i]
		g := gbt.Feature{Name: f.Name, Bins: f.Bins, Categorical: f.Kind == dataset.Categorical, Bounds: f.Bounds,
			Missing: f.MissingBin}
		if f.Range != nil {
			g.Min, g.Max = f.Range.Min, f.Range.Max
		}
		features = append(features, g)
	}
	return features
}

// Features is the number of features.
func (t *Table) Features() int { return len(t.features) }

// HeldOut holds held-out rows with their targets.
type HeldOut struct {
	Data   gbt.Data
	Label  []float32 // of the rows in use
	Weight []float32 // nil if all are 1
	Group  []uint64
	Values map[string][]float32
}

// Len is the number of rows in use.
func (r *HeldOut) Len() int { return len(r.Label) }

// ErrQueries means that a dataset cannot be learnt an order from.
var ErrQueries = problem.New(problem.Input, "no order can be learnt")

// ErrNoRows means that the dataset lacks the split, or that the part has no rows.
var ErrNoRows = problem.New(problem.Input, "no rows")

// Select returns the rows of a part: a whole split, or those of some folds as a mask over the same bytes.
func (t *Table) Select(part sweep.Rows) (*HeldOut, error) {
	s := t.ds.Split(part.Split)
	if s == nil {
		return nil, fmt.Errorf("%w: dataset %s@%s has no split %s", ErrNoRows, t.ds.Manifest.Name,
			t.ds.Manifest.Version, part.Split)
	}

	r := &HeldOut{Data: gbt.Data{Rows: s.Rows, RowMajor: s.RowMajor, Columns: s.Columns, Features: t.features,
		Label: s.Label, Weight: s.Weight, Group: s.Group}}
	if part.Split == dataset.TrainSplit {
		r.Data.Copies = t.ds.Manifest.Copies()
		if t.ds.Manifest.Weight == "" {
			r.Data.Weight = nil // with sampled negatives, weights are for evaluation only
		}
		if o := t.ds.Manifest.Order; o != nil && o.By == dataset.OrderGroup && o.Copies > 1 {
			r.Data.Group = groupsByCopy(s.Group, o.Copies)
		}
	}

	if part.Folds == nil {
		if part.Once {
			firstOrder(&r.Data)
		}
		r.Label, r.Weight, r.Group, r.Values = r.Data.Label, r.Data.Weight, r.Data.Group, s.Values
		return r, nil
	}

	subset := part.Select(s.Fold)
	if len(subset) == 0 {
		return nil, fmt.Errorf("%w: split %s has none in folds %v", ErrNoRows, part.Split, part.Folds)
	}

	r.Data.Subset = subset
	all := dataset.Targets{Label: s.Label, Weight: r.Data.Weight, Group: r.Data.Group, Values: s.Values}
	picked := all.Pick(subset)
	r.Label, r.Weight, r.Group, r.Values = picked.Label, picked.Weight, picked.Group, picked.Values
	return r, nil
}

// groupsByCopy tells the copies of a query apart, whose rows are never in one order. The first keeps its hash.
func groupsByCopy(group []uint64, copies int) []uint64 {
	out := make([]uint64, len(group))
	for i, g := range group {
		out[i] = groupOfCopy(g, i/(len(group)/copies))
	}
	return out
}

func groupOfCopy(group uint64, number int) uint64 {
	if number == 0 {
		return group
	}
	return encode.Join(group, uint64(number))
}

// firstOrder leaves of train the rows in the first of its orders, which follow each other.
func firstOrder(d *gbt.Data) {
	if d.Copies < 2 {
		return
	}
	n := d.Rows / d.Copies
	d.Rows, d.Copies, d.RowMajor, d.Label = n, 1, d.RowMajor[:n*len(d.Features)], d.Label[:n]
	d.Weight, d.Group = d.Weight[:min(n, len(d.Weight))], d.Group[:min(n, len(d.Group))] // or nil
	d.Columns = slices.Clone(d.Columns)
	for f := range d.Columns {
		d.Columns[f] = d.Columns[f][:n]
	}
}

// Request is one configuration to train.
type Request struct {
	Params  gbt.Params
	Metric  metric.Metric   // for early stopping, unless it is a value (Stop), and as the score
	Metrics []metric.Metric // reported in addition, where they are defined
	// to train on: nil for all of train; else a part of it, or all of it and another split's, which is copied
	Rows []sweep.Rows
	// Final gives held-out rows among these the statistics of ids that they have as later rows of train.
	Final bool
	// to train on one in so many of these rows, with parameters that fit so few; 0 and 1: on all
	OneIn int
	// Bag, above 1, trains as many models, each on the rows of all folds but one, and merges them.
	Bag     int
	Valid   *sweep.Rows // nil trains without held-out rows
	Threads int
	OnTree  func(gbt.Progress) error
	// Checkpoint and Resume are gbt's. Program identifies the build, because another one may grow other trees.
	Checkpoint func(*gbt.Checkpoint) error
	Resume     *gbt.Checkpoint
	Program    string
	Deadline   time.Time // gbt's
	// Input is a model to continue, in the terms of the table.
	Input *gbt.InputModel
	// Grow trains in place of gbt.Train: with other workers, who get parts of the rows; nil otherwise.
	Grow func(context.Context, *gbt.Data, gbt.Params, gbt.Options) (*gbt.Result, error)
	// RateTrees asks for Metric after every tree even without early stopping.
	RateTrees bool
	// StandardError asks for that of Metric, too.
	StandardError bool
}

// Evaluated is a trained model with its evaluation.
type Evaluated struct {
	*gbt.Result
	Score      float64            // Metric's Score on valid at the best iteration; NaN without valid
	ScoreSE    float64            // its standard error, if asked for; NaN if it has none
	Metrics    map[string]float64 // on valid
	Seconds    float64            // of training, including evaluation and the time of resumed trees
	NsPerValue float64            // per row, feature and tree
	TrainRows  int
	// Calibrator is that of a bag of two classes, by rows out of fold; nil for all others.
	Calibrator *calibrate.Calibrator
}

// Train trains a configuration on the train split, or on q.Rows.
func (t *Table) Train(ctx context.Context, q Request) (*Evaluated, error) {
	ranks := gbt.Ranks(q.Params.Objective)
	if err := CheckRanking(q.Params.Objective, t.ds.Manifest, false); err != nil {
		return nil, err
	}
	if err := CheckValue(q.Metric, t.ds.Manifest); err != nil {
		return nil, err
	}
	train, err := t.trainingRows(q.Rows, q.Final, ranks)
	if err != nil {
		return nil, err
	}

	if q.Bag > 1 {
		return t.trainBag(ctx, q, train)
	}
	if q.OneIn > 1 {
		train.Subset = sampleRows(train, q.OneIn, ranks)
		q.Params = q.Params.ForSample(q.OneIn)
	}

	if t.ds.Manifest.Negatives > 0 && !gbt.LogOdds(q.Params.Objective) {
		return nil, problem.New(problem.Input, "the dataset has a sample of its negative rows, which is corrected in "+
			"log odds, and objective %s has none", q.Params.Objective)
	}

	stop, err := q.Metric.Stop(q.Params.Objective)
	if err != nil {
		return nil, err
	}
	opt := gbt.Options{Threads: q.Threads, OnTree: q.OnTree, Rows: train.Used(), Maximize: stop.Maximize,
		Checkpoint: q.Checkpoint, Resume: q.Resume, Identity: t.Identity(q), Shift: t.scoreShift(), Input: q.Input,
		Deadline: q.Deadline}
	if q.Valid != nil && q.Valid.Split == dataset.TrainSplit {
		opt.Shift = 0 // the rows that evaluate it are sampled like those it learns from
	}

	var valid *HeldOut
	if q.Valid != nil {
		if valid, err = t.Select(*q.Valid); err != nil {
			return nil, err
		}
		if ranks {
			if err := t.checkWhole(train, valid); err != nil {
				return nil, err
			}
		}
		if q.Params.EarlyStoppingRound > 0 || q.RateTrees {
			opt.Valid = &valid.Data
			opt.Eval = newRater(q.Params, stop, valid)
		}
	}

	grow := gbt.Train
	if q.Grow != nil {
		grow = q.Grow
	}
	res, err := grow(ctx, train, q.Params, opt)
	if err != nil {
		return nil, err
	}

	o := &Evaluated{Result: res, Score: math.NaN(), Seconds: res.Took.Seconds()}
	o.TrainRows = train.Used()
	// A continued model may get no tree.
	values := float64(train.Used()) * float64(t.Features()) * float64(max(res.Grown, 1)*res.Model.Outputs())
	o.NsPerValue = o.Seconds * 1e9 / values
	if valid != nil {
		err = o.rateModel(q, valid)
	}
	return o, err
}

// scoreShift is the correction to add to the log odds of a model trained on sampled negatives.
func (t *Table) scoreShift() float64 {
	if t.ds.Manifest.Negatives == 0 {
		return 0
	}
	return exact.Log(t.ds.Manifest.Negatives)
}

// Identity is what gbt cannot see of a run: the version of the dataset, what evaluates it, and the build. A checkpoint
// with another identity is not resumed.
func (t *Table) Identity(q Request) string {
	id := fmt.Sprintf("task %s, dataset %s@%s", q.Program, t.ds.Manifest.Name, t.ds.Manifest.Version)
	if q.OneIn > 1 {
		id += fmt.Sprintf(", trained on one row in %d", q.OneIn)
	}
	if q.Final {
		id += ", finally"
	}
	if q.Bag > 1 {
		id += fmt.Sprintf(", in %d folds", q.Bag)
	}
	for i, part := range q.Rows {
		if i > 0 || part.Folds != nil {
			id += fmt.Sprintf(", trained on %s %v", part.Split, part.Folds)
		}
		if part.Once {
			id += ", in one order"
		}
	}
	if q.Valid != nil {
		id += fmt.Sprintf(", rated by %s on %s %v", q.Metric.Name, q.Valid.Split, q.Valid.Folds)
	}
	return id
}

// newRater returns a function that evaluates raw scores of valid with a metric after every tree, reusing its memory.
func newRater(params gbt.Params, by metric.Metric, valid *HeldOut) func([]float64) (float64, error) {
	var e metric.Evaluator
	var pred []float64
	return func(raw []float64) (float64, error) {
		pred = append(pred[:0], raw...)
		if !by.RankOnly {
			params.Transform(pred)
		}
		e.Reset(valid.input(pred))
		v, err := e.Eval(by)
		return by.Score(v), err
	}
}

// input returns the input of metrics for predictions of these rows.
func (r *HeldOut) input(pred []float64) metric.Input {
	return metric.Input{Label: r.Label, Weight: r.Weight, Pred: pred, Group: r.Group, Values: r.Values}
}

// rateModel evaluates the finished model on valid. Metrics other than the request's own are left out if they are not
// defined.
func (o *Evaluated) rateModel(q Request, valid *HeldOut) error {
	raw, err := o.Model.PredictBinned(&valid.Data, q.Threads)
	if err != nil {
		return err
	}

	o.Model.Transform(raw)
	in := valid.input(raw)
	var e metric.Evaluator
	e.Reset(in)

	o.Metrics = evaluateDefined(&e, q.Metrics)
	value, err := e.Eval(q.Metric)
	if err != nil {
		return err
	}
	o.Metrics[q.Metric.Name], o.Score = value, q.Metric.Score(value)
	if q.StandardError {
		o.ScoreSE = standardError(q.Metric, in, q.Params.Seed, errorRows)
	}
	return nil
}

// evaluateDefined are the values of those metrics that are defined.
func evaluateDefined(e *metric.Evaluator, metrics []metric.Metric) map[string]float64 {
	values := map[string]float64{}
	for _, m := range metrics {
		if v, err := e.Eval(m); err == nil {
			values[m.Name] = v
		}
	}
	return values
}

// CheckClasses refuses an objective that does not go with the dataset's label, as far as classes are concerned.
func CheckClasses(objective string, label *dataset.LabelInfo) error {
	switch several := gbt.Classes(objective); {
	case several && label.Kind != dataset.Classes:
		return problem.New(problem.Input, "objective %s needs a label of several classes; stage the dataset with "+
			"label: {column: %s, kind: classes}", objective, label.Column)
	case !several && label.Kind == dataset.Classes:
		return problem.New(problem.Input, "the label has %d classes: use objective multiclass, not %s",
			len(label.Classes), objective)
	}
	return nil
}

// CheckValue refuses a metric of columns that the dataset has no values of.
func CheckValue(m metric.Metric, d *dataset.Manifest) error {
	for _, name := range m.Columns() {
		if !slices.Contains(d.Values, name) {
			return problem.New(problem.Input, "metric %s: dataset %s has no values of %q%s; list it under values: in "+
				"its dataset.yaml, and stage it again", m.Name, d.Name, name, strictyaml.Suggest(name, d.Values))
		}
	}
	return nil
}

// Complete overlays a trial's own parameters on the common ones and lets the trainer fill in the rest. An error says
// why they cannot be trained on a table with these features.
func Complete(base, own sweep.Params, features []gbt.Feature) (sweep.Params, error) {
	all := maps.Clone(base)
	maps.Copy(all, own)
	p, err := gbt.ParseParams(all)
	if err == nil {
		p, err = p.ForTable(features)
	}
	if err != nil {
		return nil, err
	}
	for _, idle := range p.Idle() { // trials that differ in it alone are the same
		switch idle.Name {
		case "bagging_fraction":
			return nil, idle
		case "bagging_freq":
			p.BaggingFreq = gbt.Defaults().BaggingFreq
		case "learning_rate":
			p.LearningRate = gbt.Defaults().LearningRate
		}
	}
	return p.Map(), nil
}

// Complete is Complete for this table.
func (t *Table) Complete(base, own sweep.Params) (sweep.Params, error) {
	return Complete(base, own, t.features)
}

// sampleRows draws one of every `of` neighbouring rows in use: the same rows for every configuration, spread evenly
// over time where rows are in its order.
func sampleRows(d *gbt.Data, of int, ranks bool) []uint32 {
	if ranks {
		return sampleQueries(d, of)
	}
	rng := rand.New(rand.NewPCG(uint64(of), 0))
	used := d.Used()
	rows := make([]uint32, 0, (used+of-1)/of)
	for first := 0; first < used; first += of {
		i := first + rng.IntN(min(of, used-first))
		if d.Subset != nil {
			rows = append(rows, d.Subset[i])
			continue
		}
		rows = append(rows, uint32(i))
	}
	return rows
}

const (
	// errorRows is the most rows from which a standard error is computed: resampling many millions would run longer
	// than a trial.
	errorRows = 500_000
	// resamples of a metric whose error has no formula: enough for one or two digits.
	resamples = 100
)

// standardError estimates that of a metric on all rows from at most so many of them, evenly spaced: it shrinks with the
// root of their number. Rows of groups are all used, since a group must stay whole. It is NaN if the metric has none.
func standardError(m metric.Metric, in metric.Input, seed uint64, most int) float64 {
	n := len(in.Label)
	step := 1
	if in.Group == nil && n > most {
		step = (n + most - 1) / most
	}

	some := metric.Input{Label: everyNth(in.Label, step), Weight: everyNth(in.Weight, step),
		Pred: everyNthRow(in.Pred, len(in.Pred)/n, step), Group: in.Group, Values: maps.Clone(in.Values)}
	for name, v := range some.Values {
		some.Values[name] = everyNth(v, step)
	}
	i, err := m.Interval(some, metric.Confidence{Seed: seed, Samples: resamples})
	if err != nil {
		return math.NaN()
	}
	return i.Error * math.Sqrt(float64(len(some.Label))/float64(n))
}

// everyNthRow is everyNth of rows of width values each, one after the other.
func everyNthRow(all []float64, width, n int) []float64 {
	if width == 1 || n == 1 {
		return everyNth(all, n)
	}
	var some []float64
	for i := 0; i < len(all); i += n * width {
		some = append(some, all[i:i+width]...)
	}
	return some
}

// everyNth returns the values 0, n, 2n and so on; nil of nil.
func everyNth[T any](all []T, n int) []T {
	if n == 1 || all == nil {
		return all
	}
	some := make([]T, 0, (len(all)+n-1)/n)
	for i := 0; i < len(all); i += n {
		some = append(some, all[i])
	}
	return some
}
