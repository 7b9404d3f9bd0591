package gbt

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// Model is a trained ensemble. It predicts the sum of its trees: log odds for the binary objective, the value for
// regression, for others what Transform takes. A model of several classes has a raw score for each, and every round of
// its training added a tree to each, in the order of the classes. A Model is immutable and safe for concurrent use.
type Model struct {
	Objective    string // as in the model file, such as "binary sigmoid:1" or "regression"
	FeatureNames []string
	FeatureInfos []string // [min:max], 0:1:2... or none, as in LightGBM's files
	Trees        []*Tree
	Params       []string // lines for the file's parameters section

	sum      string // SHA-256 of the text it was read from
	batching batching
	apart    struct { // one model for each of several outputs
		once   sync.Once
		models []*Model
	}
}

// Outputs is the number of raw scores of a row: the number of classes if there are several, else 1.
func (m *Model) Outputs() int {
	if _, n, ok := classesOf(m.Objective); ok {
		return n
	}
	return 1
}

// Iterations is the number of trees of each output.
func (m *Model) Iterations() int { return len(m.Trees) / m.Outputs() }

// output returns the model of the k-th output alone, whose raw scores are to be used as they are. Trees of a round
// follow each other.
func (m *Model) output(k int) *Model {
	n := m.Outputs()
	if n == 1 {
		return m
	}
	m.apart.once.Do(func() {
		m.apart.models = make([]*Model, n)
		for c := range m.apart.models {
			of := &Model{Objective: "regression", FeatureNames: m.FeatureNames, FeatureInfos: m.FeatureInfos}
			for i := c; i < len(m.Trees); i += n {
				of.Trees = append(of.Trees, m.Trees[i])
			}
			m.apart.models[c] = of
		}
	})
	return m.apart.models[k]
}

// Features is the number of values in a row.
func (m *Model) Features() int { return len(m.FeatureNames) }

// PredictRow sets the raw scores of one row of feature values, as LightGBM's predict(raw_score=True). len(x) is
// Features(), len(out) Outputs().
func (m *Model) PredictRow(x, out []float64) {
	clear(out)
	for i, t := range m.Trees {
		out[i%len(out)] += t.predict(x)
	}
}

// Predict is PredictRow of a model with one output.
func (m *Model) Predict(x []float64) float64 {
	sum := 0.0
	for _, t := range m.Trees {
		sum += t.predict(x)
	}
	return sum
}

// PredictAll predicts rows of Features() values each, on up to threads goroutines, into rows of Outputs() scores each:
// the same bits as PredictRow, in a tenth of the time. A model that is asked for more than some hundred rows compiles
// its trees into another form (predict.go), which takes as long as predicting some hundred rows one by one, and keeps
// that form.
func (m *Model) PredictAll(x []float64, out []float64, threads int) error {
	f := m.Features()
	n := m.Outputs()
	if len(out)%n != 0 || len(x) != f*(len(out)/n) {
		return fmt.Errorf("%w: %d values for %d rows of %d features", ErrData, len(x), len(out)/n, f)
	}
	if n > 1 {
		one := make([]float64, len(out)/n)
		for k := range n {
			if err := m.output(k).PredictAll(x, one, threads); err != nil {
				return err
			}
			for r, s := range one {
				out[r*n+k] = s
			}
		}
		return nil
	}

	// Batches pay only when full enough: a short rest is scored row by row.
	inBatches := len(out)
	if rest := len(out) % batchRows; rest < fewRows {
		inBatches -= rest
	}

	if inBatches > 0 && m.batching.pays(inBatches) {
		pool := newPool(min(threads, inBatches/(together*batchRows)))
		defer pool.close()
		m.batches().predict(x[:inBatches*f], out[:inBatches], pool)
	} else {
		inBatches = 0
	}

	for r := inBatches; r < len(out); r++ {
		out[r] = m.Predict(x[r*f : (r+1)*f])
	}
	return nil
}

// PredictBinned returns the Outputs() raw scores of every used row of d, in the order of d.Subset or of the table. It
// requires a model that knows the bins of d: one from Train, with resumed trees or not, or from OnBins, but
// not one just read from a file. It gives the same bits as Predict on raw values of those bins, because it adds the
// same leaf values in the same order.
func (m *Model) PredictBinned(d *Data, threads int) ([]float64, error) {
	if err := d.check(false); err != nil {
		return nil, err
	}
	if len(d.Features) != m.Features() {
		return nil, fmt.Errorf("%w: %d features, the model has %d", ErrData, len(d.Features), m.Features())
	}

	for i, t := range m.Trees {
		if len(t.left) != len(t.Feature) {
			return nil, fmt.Errorf("tree %d was read from a file and does not know bins; predict raw values", i)
		}
	}

	n := m.Outputs()
	raw := make([]float64, d.Rows)
	var out []float64
	if n > 1 || d.Subset != nil {
		out = make([]float64, n*d.Used())
	}
	pool := newPool(threads)
	defer pool.close()
	for k := range n {
		clear(raw)
		addPredictions(context.Background(), m.output(k).Trees, d.Columns, d.rows(), raw, newWalks(pool))
		if out == nil {
			return raw, nil
		}
		d.gather(out[k:], raw, n)
	}
	return out, nil
}

// gather copies the numbers of the rows in use to every stride-th place of out.
func (d *Data) gather(out, all []float64, stride int) {
	if d.Subset == nil {
		for r, v := range all {
			out[r*stride] = v
		}
		return
	}
	for i, r := range d.Subset {
		out[i*stride] = all[r]
	}
}

// Transform turns raw scores, in rows of Outputs(), into predictions in place: into probabilities for binary and of
// each class, into means for poisson; those of regression are unchanged.
func (m *Model) Transform(scores []float64) {
	if out, ok := outputOf(m.Objective); ok {
		out.transform(scores, m.Outputs())
	}
}

const binaryObjective = "binary sigmoid:1"

// Binary reports whether raw scores are log odds.
func (m *Model) Binary() bool { return m.Objective == binaryObjective }

// Splits reports, by feature, whether some node compares it as a number, and whether some does as a category.
func (m *Model) Splits() (numbers, categories []bool) {
	numbers, categories = make([]bool, m.Features()), make([]bool, m.Features())
	for _, t := range m.Trees {
		for i, f := range t.Feature {
			if t.Decision[i]&decisionCategorical != 0 {
				categories[f] = true
			} else {
				numbers[f] = true
			}
		}
	}
	return numbers, categories
}

// Importance returns, by feature, the number of its splits and their total gain.
func (m *Model) Importance() (counts []int, gains []float64) {
	counts, gains = make([]int, m.Features()), make([]float64, m.Features())
	for _, t := range m.Trees {
		for i, f := range t.Feature {
			counts[f]++
			gains[f] += t.Gain[i]
		}
	}
	return counts, gains
}

// truncated returns the model of the first n trees of each output.
func (m *Model) truncated(n int) *Model {
	return &Model{
		Objective: m.Objective, FeatureNames: m.FeatureNames, FeatureInfos: m.FeatureInfos,
		Trees: slices.Clone(m.Trees[:n*m.Outputs()]), Params: m.Params,
	}
}
