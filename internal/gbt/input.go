package gbt

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"

	"coppice/internal/problem"
)

// InputModel is a model in the bins of the table that it was trained on, which training continues: a member of a
// population goes on from the model of another trial.
type InputModel struct {
	*Model
	// SHA256 is the hexadecimal hash of the text that the model was read from.
	SHA256 string
}

// inputErrorf reports a model that training on a table cannot continue.
func inputErrorf(format string, args ...any) error {
	return problem.New(problem.Input, "input model: "+format, args...)
}

// Of reports whether the model has the table's features, in the same order.
func (m *Model) Of(features []Feature) bool {
	names, _ := describe(features)
	return slices.Equal(names, m.FeatureNames)
}

// OnBins gives the splits of a model that was trained on a table with these features, and read from a file, the bins
// that go left.
func (m *Model) OnBins(features []Feature) (*InputModel, error) {
	if !m.Of(features) {
		return nil, inputErrorf("it was trained on another table")
	}
	out := &InputModel{Model: &Model{Objective: m.Objective, Params: m.Params}, SHA256: m.sum}
	if out.SHA256 == "" { // not read from a file
		var text bytes.Buffer
		if _, err := m.WriteTo(&text); err != nil {
			return nil, err
		}
		sum := sha256.Sum256(text.Bytes())
		out.SHA256 = hex.EncodeToString(sum[:])
	}
	out.FeatureNames, out.FeatureInfos = describe(features)
	for i, t := range m.Trees {
		onBins, err := t.onBins(features)
		if err != nil {
			return nil, fmt.Errorf("tree %d: %w", i, err)
		}
		out.Trees = append(out.Trees, onBins)
	}
	return out, nil
}

// onBins returns the tree, which was read, with the bins of the table that it was trained on.
func (t *Tree) onBins(features []Feature) (*Tree, error) {
	out := *t
	out.left = make([]binSet, len(t.Feature))
	for node, number := range t.Feature {
		f := &features[number]
		if f.Categorical != (t.Decision[node]&decisionCategorical != 0) {
			return nil, inputErrorf("it has another kind of feature %.60q than the table", f.Name)
		}
		if f.Categorical {
			for b := range f.Bins {
				if t.inCategory(node, float64(b)) {
					out.left[node].add(b)
				}
			}
			continue
		}
		last, ok := f.edge(t.Threshold[node])
		if !ok {
			return nil, inputErrorf("it splits %.60q within a bin of the table", f.Name)
		}
		out.left[node].addUpTo(last)
		if f.Missing >= 0 && t.goesLeft(node, math.NaN()) {
			out.left[node].add(f.Missing)
		}
	}
	return &out, nil
}

// edge returns the last bin of present values below a threshold, which has to be at its upper end.
func (f *Feature) edge(threshold float64) (last int, ok bool) {
	if threshold == math.MaxFloat64 { // all present values go left
		return f.valueBins() - 1, true
	}
	return slices.BinarySearch(f.Bounds, threshold)
}

// check refuses an input model that is not in the table's terms, or that has another objective.
func (m *InputModel) check(d *Data, obj objective) error {
	if m.Objective != obj.String() {
		return inputErrorf("its objective is %q, the training's %q", m.Objective, obj)
	}
	if !m.Of(d.Features) {
		return fmt.Errorf("%w: the input model is in the terms of another table", ErrData)
	}
	return nil
}

// continueInput sets the initial scores to the input model's, if there is one. Training rows exclude Options.Shift.
func (b *booster) continueInput(ctx context.Context) error {
	m := b.opt.Input
	if m == nil {
		return nil
	}

	for k, o := range b.outputs {
		trees := b.treesOf(k, m.Trees)
		if err := replay(ctx, trees, b.data, o.raw, 0, b.walks); err != nil {
			return err
		}
		if b.valid == nil {
			continue
		}
		if err := replay(ctx, trees, b.valid, o.validRaw, 0, b.walks); err != nil {
			return err
		}
	}
	if b.opt.Shift != 0 {
		b.pool.parallel(len(b.raw), grain, func(_, lo, hi int) {
			for r := lo; r < hi; r++ {
				b.raw[r] -= b.opt.Shift
			}
		})
	}
	return nil
}

// firstTreeShift is the part of Options.Shift that the first tree takes on: nothing if the input model includes it.
func (b *booster) firstTreeShift() float64 {
	if b.opt.Input != nil {
		return 0
	}
	return b.opt.Shift
}

// iterationsBefore is the number of trees of each output in the input model. Random choices continue from there: a
// model continued on the data it was grown on gets the same trees as an uninterrupted training, on two conditions.
// Random choices are keyed by rounds, so every round so far must have given a tree. And there must be no Options.Shift:
// adding and subtracting it rounds the scores.
func (b *booster) iterationsBefore() int {
	if b.opt.Input == nil {
		return 0
	}
	return b.opt.Input.Iterations()
}

// line is the model file's parameter line for the continued model, with LightGBM's name.
func (m *InputModel) line() string { return fmt.Sprintf("[input_model: sha256:%s]", m.SHA256) }
