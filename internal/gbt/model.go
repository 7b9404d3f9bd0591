package gbt

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// Model is a trained ensemble of trees. Its raw score for a row is the sum of the trees' values, which Transform turns
// into a prediction: raw scores are log odds for the binary objective, and the prediction itself for regression. A
// model of several classes has a raw score for each class: each round of its training added one tree for each, in the
// order of the classes. A Model is immutable and safe for concurrent use.
type Model struct {
	Objective    string // as in the model file, such as "binary sigmoid:1" or "regression"
	FeatureNames []string
	FeatureInfos []string // [min:max], 0:1:2... or none, as in LightGBM's files
	Trees        []*Tree  // with several outputs, one of each per round, in their order
	Params       []string // lines for the file's parameters section

	sum      string // SHA-256 of the text it was read from; empty if it was not
	batching batching
	apart    struct { // of several outputs, a model for each, made by output
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

// outputModel returns a model of the k-th output alone, with the same trees. Only its raw scores mean something. With a
// single output it is m itself. The result is shared by all callers.
func (m *Model) outputModel(k int) *Model {
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

// PredictRow writes the raw scores of one row to out, as LightGBM's predict(raw_score=True). x has the row's Features()
// values, and out has Outputs() elements.
func (m *Model) PredictRow(x, out []float64) {
	clear(out)
	for i, t := range m.Trees {
		out[i%len(out)] += t.predict(x) // the outputs' trees take turns
	}
}

// Predict returns the raw score of one row of Features() values. The model must have one output.
func (m *Model) Predict(x []float64) float64 {
	sum := 0.0
	for _, t := range m.Trees {
		sum += t.predict(x)
	}
	return sum
}

// PredictAll writes the raw scores of rows to out, on up to threads goroutines. x is [rows x Features()], out is
// [rows x Outputs()]. It gives the same bits as PredictRow, in a tenth of the time: after some hundred rows the model
// compiles its trees into another form (predict.go) and keeps that. Compiling takes as long as predicting some hundred
// rows one by one.
func (m *Model) PredictAll(x []float64, out []float64, threads int) error {
	f := m.Features()
	n := m.Outputs()
	if len(out)%n != 0 || len(x) != f*(len(out)/n) {
		return fmt.Errorf("%w: %d values for %d rows of %d features", ErrData, len(x), len(out)/n, f)
	}

	// Predict several outputs one after the other.
	if n > 1 {
		one := make([]float64, len(out)/n)
		for k := range n {
			if err := m.outputModel(k).PredictAll(x, one, threads); err != nil {
				return err
			}
			for r, s := range one {
				out[r*n+k] = s
			}
		}
		return nil
	}

	// How many rows are predicted in batches. A batch pays only if it is full enough: if the last one has few rows,
	// they are predicted one by one.
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

// PredictBinned returns the raw scores of the used rows of d, [used rows x Outputs()], in the rows' order. The model
// must know the bins of d: it comes from Train or from OnBins on that table, not from a file. The result has the same
// bits as that of PredictRow for raw values in those bins, because the same leaf values are added in the same order.
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

	// raw is by row of the table. That is the result already if there is one output and all rows are in use.
	n := m.Outputs()
	raw := make([]float64, d.Rows)
	var out []float64
	if n > 1 || d.Subset != nil {
		out = make([]float64, n*d.Used())
	}
	pool := newPool(threads)
	defer pool.close()
	for k := range n {
		clear(raw) // of the scores of the output before
		addPredictions(context.Background(), m.outputModel(k).Trees, d.Columns, d.rows(), raw, newWalks(pool))
		if out == nil {
			return raw, nil
		}
		d.gather(out[k:], raw, n)
	}
	return out, nil
}

// gather copies the elements of all, which is by row of the table, of the rows in use to out: that of the i-th row in
// use to out[i*stride].
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

// Transform turns raw scores, [rows x Outputs()], into predictions, in place. They become probabilities for binary and
// for several classes, and means for poisson, gamma and tweedie. Those of regression do not change.
func (m *Model) Transform(scores []float64) {
	if out, ok := outputOf(m.Objective); ok {
		out.transform(scores, m.Outputs())
	}
}

const binaryObjective = "binary sigmoid:1"

// Binary reports whether the model was trained with the objective binary, and so has log odds as its raw scores.
func (m *Model) Binary() bool { return m.Objective == binaryObjective }

// Splits reports, by feature, whether any node splits by it as a number, and whether any does as a category.
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

// truncated returns a model of the first n trees of each output.
func (m *Model) truncated(n int) *Model {
	return &Model{
		Objective: m.Objective, FeatureNames: m.FeatureNames, FeatureInfos: m.FeatureInfos,
		Trees: slices.Clone(m.Trees[:n*m.Outputs()]), Params: m.Params,
	}
}
