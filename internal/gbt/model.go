package gbt

import (
	"context"
	"fmt"
	"slices"
)

// Model is a trained ensemble. It predicts the sum of its trees: log odds for the binary objective, the value for
// regression, for others what Transform takes. A Model is immutable and safe for concurrent use.
type Model struct {
	Objective    string // as in the model file, such as "binary sigmoid:1" or "regression"
	FeatureNames []string
	FeatureInfos []string // [min:max], 0:1:2... or none, as in LightGBM's files
	Trees        []*Tree
	Params       []string // lines for the file's parameters section

	sum      string // SHA-256 of the text it was read from
	batching batching
}

// Features is the number of values in a row.
func (m *Model) Features() int { return len(m.FeatureNames) }

// Predict returns the raw score of one row of feature values, as LightGBM's predict(raw_score=True). len(x) is
// Features().
func (m *Model) Predict(x []float64) float64 {
	sum := 0.0
	for _, t := range m.Trees {
		sum += t.predict(x)
	}
	return sum
}

// PredictAll predicts len(out) rows of Features() values each, on up to threads goroutines: the same bits as Predict,
// in a tenth of the time. A model that is asked for more than some hundred rows compiles its trees into another form
// (predict.go), which takes as long as predicting some hundred rows one by one, and keeps that form.
func (m *Model) PredictAll(x []float64, out []float64, threads int) error {
	f := m.Features()
	if len(x) != f*len(out) {
		return fmt.Errorf("%w: %d values for %d rows of %d features", ErrData, len(x), len(out), f)
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

// PredictBinned returns the raw score of every used row of d, in the order of d.Subset or of the table. It requires a
// model that knows the bins of d: one from Train or Refit, with resumed trees or not, or from OnBins, but not one just
// read from a file. It gives the same bits as Predict on raw values of those bins, because it adds the same leaf values
// in the same order.
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

	raw := make([]float64, d.Rows)
	pool := newPool(threads)
	defer pool.close()
	addPredictions(context.Background(), m.Trees, d.Columns, d.rows(), raw, newWalks(pool))

	if d.Subset == nil {
		return raw, nil
	}

	out := make([]float64, len(d.Subset))
	for i, r := range d.Subset {
		out[i] = raw[r]
	}
	return out, nil
}

// Transform turns raw scores into predictions in place: into probabilities for binary, into means for poisson; those of
// regression are unchanged.
func (m *Model) Transform(scores []float64) {
	if out, ok := outputOf(m.Objective); ok {
		out.transform(scores)
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

// truncated returns the model of the first n trees.
func (m *Model) truncated(n int) *Model {
	return &Model{
		Objective: m.Objective, FeatureNames: m.FeatureNames, FeatureInfos: m.FeatureInfos,
		Trees: slices.Clone(m.Trees[:n]), Params: m.Params,
	}
}
