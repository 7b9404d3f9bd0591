// Package fit trains one configuration on an open dataset and evaluates it, for the worker, `task train` and `launcher
// registry reproduce`. NewTable describes the dataset's columns to the trainer, without copying them. Train chooses the
// rows (Select, trainingRows), has internal/gbt grow the trees, and evaluates the model with internal/metric. Folds
// says which rows each round of a cross-validation trains on. trainBag trains one model per fold and merges them.
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

// describe returns the features of a dataset as the trainer needs them, in the manifest's order.
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

// Features returns the number of features.
func (t *Table) Features() int { return len(t.features) }

// HeldOut is a part of a dataset's rows, for training or for evaluation. Data is for the trainer: all rows of the
// split, of which Data.Subset says which are in use, if not all are. The other fields have the rows in use only.
type HeldOut struct {
	Data   gbt.Data
	Label  []float32
	Weight []float32            // nil if all are 1
	Group  []uint64             // nil if the dataset has no groups
	Values map[string][]float32 // by column, for metrics that read it
}

// Len returns the number of rows in use.
func (r *HeldOut) Len() int { return len(r.Label) }

// ErrQueries means that a dataset's rows can't be used to train a ranking, or not with this part held out.
var ErrQueries = problem.New(problem.Input, "no order can be learnt")

// ErrNoRows means that the dataset does not have the split, or that the part has no rows.
var ErrNoRows = problem.New(problem.Input, "no rows")

// Select returns the rows of a part: a whole split, or those of some folds. Bins are not copied: with folds, a Subset
// says which rows of the split are meant. Train's rows get no weights if these only correct for sampled negatives, and
// groups of their own in each copy (groupsByCopy). With part.Once, and without folds, only the first copy of train is
// returned. The error wraps ErrNoRows if there is no such split, or none of its rows is in the folds.
func (t *Table) Select(part sweep.Rows) (*HeldOut, error) {
	s := t.ds.Split(part.Split)
	if s == nil {
		return nil, fmt.Errorf("%w: dataset %s@%s has no split %s", ErrNoRows, t.ds.Manifest.Name,
			t.ds.Manifest.Version, part.Split)
	}

	// The whole split, without a copy.
	r := &HeldOut{Data: gbt.Data{Rows: s.Rows, RowMajor: s.RowMajor, Columns: s.Columns, Features: t.features,
		Label: s.Label, Weight: s.Weight, Group: s.Group}}
	if part.Split == dataset.TrainSplit {
		r.Data.Copies = t.ds.Manifest.Copies()
		if t.ds.Manifest.Weight == "" {
			r.Data.Weight = nil // what remains are weights of sampled negatives, which are for evaluation only
		}
		if o := t.ds.Manifest.Order; o != nil && o.By == dataset.OrderGroup && o.Copies > 1 {
			r.Data.Group = groupsByCopy(s.Group, o.Copies)
		}
	}

	// A whole split needs no copies: the rows in use are all its rows.
	if part.Folds == nil {
		if part.Once {
			keepFirstOrder(&r.Data)
		}
		r.Label, r.Weight, r.Group, r.Values = r.Data.Label, r.Data.Weight, r.Data.Group, s.Values
		return r, nil
	}

	// The rows of some folds: a mask for the trainer, and copies of their targets.
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

// groupsByCopy returns a group for each row of train, so that the copies of a query are different queries. Each copy of
// train has its statistics from another random order, so that their rows must not be ranked against each other. The
// queries of the first copy keep their hash.
func groupsByCopy(group []uint64, copies int) []uint64 {
	out := make([]uint64, len(group))
	for i, g := range group {
		out[i] = groupOfCopy(g, i/(len(group)/copies))
	}
	return out
}

// groupOfCopy returns the group of a query's copy with this number. Copy 0 is the query itself.
func groupOfCopy(group uint64, number int) uint64 {
	if number == 0 {
		return group
	}
	return encode.Join(group, uint64(number))
}

// keepFirstOrder shortens train's data to the first copy of its rows, those with the statistics of the first random
// order. The copies follow each other. The dataset's own slices are not changed.
func keepFirstOrder(d *gbt.Data) {
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

// Request is one configuration to train, and how to evaluate it.
type Request struct {
	Params  gbt.Params
	Metric  metric.Metric   // the score; also stops training early, or what its Stop method says instead
	Metrics []metric.Metric // reported in addition, where they are defined

	// Rows is what to train on. nil means all of train. One part is train or some of its folds. Several parts are all
	// of train and rows of other splits, which are copied into one table.
	Rows []sweep.Rows

	// Final says that this is the final training of a sweep, after the evaluation. Held-out rows that are trained on
	// then get the statistics of ids that they would have as later rows of train.
	Final bool

	// OneIn, above 1, trains on one in so many of the rows, with parameters adapted to so few.
	OneIn int

	// Bag, above 1, trains so many models, each on the rows of all folds but one, and merges them.
	Bag int

	Valid   *sweep.Rows // what to evaluate on; nil trains without evaluating
	Threads int
	OnTree  func(gbt.Progress) error

	// Checkpoint, Resume and Deadline are passed on to gbt. Program identifies the build: a checkpoint of another build
	// is not resumed, since that may grow other trees.
	Checkpoint func(*gbt.Checkpoint) error
	Resume     *gbt.Checkpoint
	Deadline   time.Time
	Program    string

	// Input is a model to continue, in the bins of this dataset (Input).
	Input *gbt.InputModel

	// Grow, if not nil, is called in place of gbt.Train. It lets several machines train one model.
	Grow func(context.Context, *gbt.Data, gbt.Params, gbt.Options) (*gbt.Result, error)

	RateTrees     bool // evaluate Metric after every tree even without early stopping
	StandardError bool // compute the standard error of the score, too
}

// Evaluated is a trained model with its evaluation.
type Evaluated struct {
	*gbt.Result
	Score      float64            // Metric's Score on Valid at the best iteration; NaN without Valid
	ScoreSE    float64            // its standard error; NaN if it has none, 0 if Request does not ask for it
	Metrics    map[string]float64 // Metric and those of Metrics that are defined, on Valid
	Seconds    float64            // of training, including evaluation and the time of resumed trees
	NsPerValue float64            // nanoseconds per row, feature and tree
	TrainRows  int
	// Calibrator is set for a bag with a binary label, from scores of models that have not learnt from the rows. Other
	// models are calibrated by the caller, with held-out rows.
	Calibrator *calibrate.Calibrator
}

// Train trains a configuration on all of train, or on q.Rows, and evaluates it on q.Valid. With q.Bag it is trainBag
// that does both. Train may be called from several goroutines at the same time. Errors of kind Input say what in the
// configuration does not go with the dataset.
func (t *Table) Train(ctx context.Context, q Request) (*Evaluated, error) {
	// Choose the rows to train on, if the objective and the metric go with the dataset.
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

	// Say how trees are grown and when to stop.
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

	// Choose the rows to evaluate on.
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
			opt.Eval = newTreeEvaluator(q.Params, stop, valid)
		}
	}

	// Train.
	grow := gbt.Train
	if q.Grow != nil {
		grow = q.Grow
	}
	res, err := grow(ctx, train, q.Params, opt)
	if err != nil {
		return nil, err
	}

	// Report and evaluate.
	o := &Evaluated{Result: res, Score: math.NaN(), Seconds: res.Took.Seconds(), TrainRows: train.Used()}
	// The time per value: each tree of each output looks at all values. A model that is continued may grow no tree,
	// hence max.
	values := float64(train.Used()) * float64(t.Features()) * float64(max(res.Grown, 1)*res.Model.Outputs())
	o.NsPerValue = o.Seconds * 1e9 / values
	if valid != nil {
		err = o.evaluate(q, valid)
	}
	return o, err
}

// scoreShift returns what the trainer has to add to the log odds of a model of sampled negatives, so that they are
// those of all rows: the logarithm of the share of the negatives that were kept.
func (t *Table) scoreShift() float64 {
	if t.ds.Manifest.Negatives == 0 {
		return 0
	}
	return exact.Log(t.ds.Manifest.Negatives)
}

// Identity describes what gbt cannot see of a training: the build, the version of the dataset, the rows, and what
// evaluates the model. A checkpoint with another identity is not resumed.
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
	for i, part := range q.Rows { // all of train, as the first or only part, is not said
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

// newTreeEvaluator returns a function that evaluates the raw scores of valid after a tree, and returns the metric's
// Score. The function reuses its memory, so it is not safe for concurrent use.
func newTreeEvaluator(params gbt.Params, by metric.Metric, valid *HeldOut) func([]float64) (float64, error) {
	var e metric.Evaluator
	var pred []float64
	return func(raw []float64) (float64, error) {
		pred = append(pred[:0], raw...)
		if !by.RankOnly { // else only the order of predictions counts, which Transform does not change
			params.Transform(pred)
		}
		e.Reset(valid.input(pred))
		v, err := e.Eval(by)
		return by.Score(v), err
	}
}

// input returns the input of metrics for predictions of these rows: [rows in use x outputs].
func (r *HeldOut) input(pred []float64) metric.Input {
	return metric.Input{Label: r.Label, Weight: r.Weight, Pred: pred, Group: r.Group, Values: r.Values}
}

// evaluate sets o.Score, o.Metrics and, if asked for, o.ScoreSE from the predictions of the finished model for valid.
// It fails if q.Metric is not defined there. Others of q.Metrics are left out if they are not defined.
func (o *Evaluated) evaluate(q Request, valid *HeldOut) error {
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

// evaluateDefined returns the values of the metrics by name, without those that are not defined for the rows.
func evaluateDefined(e *metric.Evaluator, metrics []metric.Metric) map[string]float64 {
	values := map[string]float64{}
	for _, m := range metrics {
		if v, err := e.Eval(m); err == nil {
			values[m.Name] = v
		}
	}
	return values
}

// CheckClasses reports an error if an objective needs a label of several classes and the dataset's is another, or the
// other way round.
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

// CheckValue reports an error if a metric reads columns whose values the dataset does not have.
func CheckValue(m metric.Metric, d *dataset.Manifest) error {
	for _, name := range m.Columns() {
		if !slices.Contains(d.Values, name) {
			return problem.New(problem.Input, "metric %s: dataset %s has no values of %q%s; list it under values: in "+
				"its dataset.yaml, and stage it again", m.Name, d.Name, name, strictyaml.Suggest(name, d.Values))
		}
	}
	return nil
}

// Complete joins a trial's own parameters with the common ones, which they override, and fills in all others with the
// trainer's defaults. A bagging_freq that has no effect gets its default, too, so that trials which differ only in it
// are equal. An error says why the parameters cannot be trained on a table with these features.
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

	// A bagging_freq without effect is reset. A bagging_fraction without effect is an error, since bagging was meant.
	for _, idle := range p.Idle() {
		switch idle.Name {
		case "bagging_fraction":
			return nil, idle
		case "bagging_freq":
			p.BaggingFreq = gbt.Defaults().BaggingFreq
		}
	}

	return p.Map(), nil
}

// Complete is the function Complete for this table's features.
func (t *Table) Complete(base, own sweep.Params) (sweep.Params, error) {
	return Complete(base, own, t.features)
}

// sampleRows draws one row at random out of each oneIn neighbouring rows in use, so that the sample is spread evenly
// over time where rows are in that order. If ranks, it draws whole queries instead. All configurations get the same
// rows.
func sampleRows(d *gbt.Data, oneIn int, ranks bool) []uint32 {
	if ranks {
		return sampleQueries(d, oneIn)
	}
	rng := rand.New(rand.NewPCG(uint64(oneIn), 0))
	used := d.Used()
	rows := make([]uint32, 0, (used+oneIn-1)/oneIn)
	for first := 0; first < used; first += oneIn {
		i := first + rng.IntN(min(oneIn, used-first))
		if d.Subset != nil {
			rows = append(rows, d.Subset[i])
			continue
		}
		rows = append(rows, uint32(i))
	}
	return rows
}

const (
	// errorRows is the most rows from which a standard error is computed. Resampling many millions of rows would take
	// longer than a trial.
	errorRows = 500_000
	// resamples is how often rows are resampled for a metric whose standard error has no formula: enough for one or two
	// digits.
	resamples = 100
)

// standardError estimates the standard error of a metric on all rows of in, of which there is at least one. If there
// are more than maxRows, it is computed from a part of them, evenly spaced, and then divided by the square root of how
// many times more rows there are, as errors of a mean shrink. Rows in groups are all used, since a group must stay
// whole. The result is NaN if the metric has no standard error.
func standardError(m metric.Metric, in metric.Input, seed uint64, maxRows int) float64 {
	n := len(in.Label)
	step := 1
	if in.Group == nil && n > maxRows {
		step = (n + maxRows - 1) / maxRows
	}

	sampled := metric.Input{Label: everyNth(in.Label, step), Weight: everyNth(in.Weight, step),
		Pred: everyNthRow(in.Pred, len(in.Pred)/n, step), Group: in.Group, Values: maps.Clone(in.Values)}
	for name, v := range sampled.Values {
		sampled.Values[name] = everyNth(v, step)
	}
	i, err := m.Interval(sampled, metric.Confidence{Seed: seed, Samples: resamples})
	if err != nil {
		return math.NaN()
	}
	return i.Error * math.Sqrt(float64(len(sampled.Label))/float64(n))
}

// everyNthRow returns rows 0, n, 2n and so on of a matrix, [rows x width]; nil of nil. With n = 1 the result is the
// slice itself.
func everyNthRow[T any](all []T, width, n int) []T {
	if n == 1 || all == nil {
		return all
	}
	sampled := make([]T, 0, (len(all)+n-1)/n)
	for i := 0; i < len(all); i += n * width {
		sampled = append(sampled, all[i:i+width]...)
	}
	return sampled
}

// everyNth returns the values 0, n, 2n and so on, as everyNthRow does.
func everyNth[T any](all []T, n int) []T { return everyNthRow(all, 1, n) }
