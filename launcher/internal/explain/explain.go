// Package explain analyses a registered version's predictions: how its trees use each feature, how much each feature
// moves the predictions of some rows, and how much is lost without it.
package explain

import (
	"cmp"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"

	"coppice/internal/dataset"
	"coppice/internal/metric"
	"coppice/internal/problem"
	"coppice/internal/scorer"
)

// Request is a version and the rows to explain it with.
type Request struct {
	Scorer  *scorer.Scorer
	Rows    *scorer.Reference
	Most    int             // most rows, evenly spread
	Metrics []metric.Metric // the first one defined on the rows measures a feature's worth
	Threads int             // 0 for all CPUs; the numbers do not depend on it
}

// Report is the analysis of a version. Features are sorted by contribution, in descending order.
type Report struct {
	Rows     int           `json:"rows"`
	Metric   string        `json:"metric"`
	Value    float64       `json:"value"`              // of the metric
	Expected *float64      `json:"expected,omitempty"` // raw score of a row without known values; nil if Classes
	Features []Explained   `json:"features"`
	Columns  []ColumnShare `json:"columns"`

	// Of several classes only: their names, and the raw score of each.
	Classes         []string  `json:"classes,omitempty"`
	ExpectedByClass []float64 `json:"expected_by_class,omitempty"`
}

// Explained is one of the model's inputs.
type Explained struct {
	Name   string   `json:"name"`
	From   []string `json:"from"`       // columns of the table
	Splits int      `json:"splits"`     // over all trees
	Gain   float64  `json:"gain"`       // of all these splits, in units of the loss
	Share  float64  `json:"gain_share"` // of all features' gain
	// Contribution is the mean of |SHAP value|, the change of a row's raw score; of several classes the sum of those
	// of each, which are ByClass.
	Contribution float64   `json:"contribution"`
	ByClass      []float64 `json:"contribution_by_class,omitempty"`
	// Worth is how much better the metric is than with the feature's values shuffled between rows, within Low and High
	// (95 %); a feature that no tree uses is worth nothing.
	Worth float64 `json:"worth"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// ColumnShare is a column of the table with all features made of it alone, or several columns with the features made of
// them together.
type ColumnShare struct {
	Name         string  `json:"name"`
	Features     int     `json:"features"`
	Share        float64 `json:"gain_share"`
	Contribution float64 `json:"contribution"` // mean of |sum of its features' SHAP values|; as a feature's
}

// run is a request in progress.
type run struct {
	Request
	values []float64     // of the selected rows, [rows x features]
	in     metric.Input  // their labels, weights and the version's predictions
	metric metric.Metric // that measures a feature's worth
}

// Run says what each feature does to a version's predictions: the trees' use of it, its contributions, and how much
// worse the metric gets when its values are shuffled. Errors of kind Input say that there are no rows, or that no
// metric is defined on them.
func Run(q Request) (*Report, error) {
	if q.Threads == 0 {
		q.Threads = runtime.GOMAXPROCS(0)
	}
	r := &run{Request: q}
	if err := r.predict(); err != nil {
		return nil, err
	}

	report := &Report{Rows: len(r.in.Label)}
	if err := r.choose(report); err != nil {
		return nil, err
	}
	r.describe(report) // the trees' use of each feature, which contributions needs
	if err := r.contributions(report); err != nil {
		return nil, err
	}
	if err := r.shuffles(report); err != nil {
		return nil, err
	}

	slices.SortStableFunc(report.Features, func(a, b Explained) int {
		return cmp.Or(cmp.Compare(b.Contribution, a.Contribution), cmp.Compare(b.Gain, a.Gain))
	})
	return report, nil
}

// predict selects at most r.Most rows, evenly spaced, and predicts them. It sets r.values and r.in.
func (r *run) predict() error {
	sample, t := r.Rows.Sample, r.Rows.Targets
	if len(sample.Row) == 0 {
		return problem.New(problem.Input, "there are no rows to explain the version by")
	}

	n := min(len(sample.Row), r.Most)
	places, rows := make([]int, n), make([]uint32, n)
	for i := range places {
		places[i] = i * len(sample.Row) / n
		rows[i] = uint32(places[i])
	}
	t = t.Pick(rows)
	r.in = metric.Input{Label: t.Label, Weight: t.Weight, Group: t.Group, Values: t.Values}
	sample = sample.Select(places)

	var err error
	if r.values, err = r.Scorer.Values(sample); err != nil {
		return err
	}
	r.in.Pred, err = r.Scorer.Predict(r.values, r.Threads)
	return err
}

// choose sets r.metric to the first of r.Metrics that is defined on the rows (an AUC needs both classes), and its value
// in the report.
func (r *run) choose(report *Report) error {
	var e metric.Evaluator
	e.Reset(r.in)
	var failed error
	for _, m := range r.Metrics {
		value, err := e.Eval(m)
		if err == nil {
			r.metric, report.Metric, report.Value = m, m.Name, value
			return nil
		}
		failed = cmp.Or(failed, err)
	}
	return problem.New(problem.Input, "the %d rows cannot be measured: %v", report.Rows, failed)
}

// describe adds the features to the report, each with its columns, and the splits and gains that it has in the trees.
// The shares of a model without any gain are 0.
func (r *run) describe(report *Report) {
	counts, gains := r.Scorer.Model.Importance()
	all := 0.0
	for _, g := range gains {
		all += g
	}
	e := r.Scorer.Encoding
	for i := range e.Features {
		f := &e.Features[i]
		report.Features = append(report.Features, Explained{Name: f.Name, From: columns(e, f), Splits: counts[i],
			Gain: gains[i], Share: gains[i] / max(all, math.SmallestNonzeroFloat64)})
	}
}

// columns returns the names of the table's columns of which a feature of the encoding e is made, sorted and each once:
// the feature's own name if it is a column, else the columns from which it is computed and, of a statistic of ids,
// those whose values are the ids.
func columns(e *dataset.Encoding, f *dataset.Feature) []string {
	if f.From == nil {
		return []string{f.Name}
	}

	parts := f.From.Of
	if f.From.Table >= 0 {
		parts = slices.Concat(parts, e.Tables[f.From.Table].Of)
	}
	names := []string{}
	for _, part := range parts {
		names = append(names, part.Column)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// phiNumbers bounds how many SHAP values are in memory at a time: 64 MiB.
const phiNumbers = 8 << 20

// contributions adds to the report the mean |SHAP value| of each feature. It also adds report.Columns: for each column,
// or group of columns, of which features are made, their number, their share of the gain, and the mean |sum of their
// SHAP values|. It sets the raw score that all rows begin with. describe has to come before it.
func (r *run) contributions(report *Report) error {
	n, f, k := report.Rows, len(report.Features), r.Scorer.Model.Outputs()

	// Features of the same columns move a prediction together: together has their indices, by the place in
	// report.Columns.
	places := map[string]int{}
	var together [][]int
	for i := range report.Features {
		name := strings.Join(report.Features[i].From, " + ")
		if _, ok := places[name]; !ok {
			places[name] = len(report.Columns)
			report.Columns, together = append(report.Columns, ColumnShare{Name: name}), append(together, nil)
		}
		c := places[name]
		report.Columns[c].Features++
		report.Columns[c].Share += report.Features[i].Share
		together[c] = append(together[c], i)
		report.Features[i].ByClass = make([]float64, k)
	}

	// Add up the SHAP values of some rows at a time. For each row and output there are f values of features, and the
	// raw score that all rows begin with.
	report.ExpectedByClass = make([]float64, k)
	atOnce := max(1, phiNumbers/(k*(f+1)))
	phi := make([]float64, min(n, atOnce)*k*(f+1))
	for first := 0; first < n; first += atOnce {
		rows := min(atOnce, n-first)
		phi = phi[:rows*k*(f+1)]
		if err := r.Scorer.Model.Contributions(r.values[first*f:(first+rows)*f], phi, r.Threads); err != nil {
			return err
		}
		for o := range rows * k { // output o%k of row first + o/k
			shap := phi[o*(f+1):]
			report.ExpectedByClass[o%k] = shap[f]
			for i := range report.Features {
				report.Features[i].ByClass[o%k] += math.Abs(shap[i]) / float64(n)
			}
			for c := range together {
				sum := 0.0
				for _, i := range together[c] {
					sum += shap[i]
				}
				report.Columns[c].Contribution += math.Abs(sum) / float64(n)
			}
		}
	}

	// A model without classes has one output, which needs no list.
	for i := range report.Features {
		e := &report.Features[i]
		for _, v := range e.ByClass {
			e.Contribution += v
		}
	}
	if report.Classes = r.Scorer.Encoding.Classes; report.Classes == nil {
		report.Expected, report.ExpectedByClass = &report.ExpectedByClass[0], nil
		for i := range report.Features {
			report.Features[i].ByClass = nil
		}
	}
	slices.SortStableFunc(report.Columns,
		func(a, b ColumnShare) int { return cmp.Compare(b.Contribution, a.Contribution) })
	return nil
}

// shuffles measures the worth of each feature that some tree uses: it permutes the feature's values between the rows,
// predicts again, and compares the metric with that of the real values. The permutation depends only on the feature's
// index, so that the same rows give the same numbers.
func (r *run) shuffles(report *Report) error {
	f := len(report.Features)
	changed := slices.Clone(r.values) // one feature at a time differs from r.values
	for i := range report.Features {
		if report.Features[i].Splits == 0 {
			continue
		}
		order := rand.New(rand.NewPCG(uint64(i), 0x5a)).Perm(report.Rows) // 0x5a: any constant
		for row, from := range order {
			changed[row*f+i] = r.values[from*f+i]
		}

		pred, err := r.Scorer.Predict(changed, r.Threads)
		if err != nil {
			return err
		}
		c, err := r.metric.Compare(r.in, pred, metric.Confidence{Level: 0.95, Seed: uint64(i)})
		if err != nil {
			return err
		}
		report.Features[i].Worth, report.Features[i].Low, report.Features[i].High = c.Gain, c.Low, c.High

		for row := range order {
			changed[row*f+i] = r.values[row*f+i]
		}
	}
	return nil
}
