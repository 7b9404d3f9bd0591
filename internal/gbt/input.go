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

// InputModel is a model that a training continues (Options.Input). Its trees know the bins of the table that it was
// trained on. Population-based training uses it: a trial continues from the model of another trial.
type InputModel struct {
	*Model
	// SHA256 is the hexadecimal hash of the text that the model was read from.
	SHA256 string
}

// inputErrorf returns the error for a model that training on a table cannot continue.
func inputErrorf(format string, args ...any) error {
	return problem.New(problem.Input, "input model: "+format, args...)
}

// Of reports whether the model has the same features as a table, by name and in the same order.
func (m *Model) Of(features []Feature) bool {
	names, _ := describe(features)
	return slices.Equal(names, m.FeatureNames)
}

// OnBins returns a copy of a model whose trees know the bins that go left at each node, which a model that was read
// from a file does not. features are those of the table that it was trained on; a model of any other table is an error.
func (m *Model) OnBins(features []Feature) (*InputModel, error) {
	if !m.Of(features) {
		return nil, inputErrorf("it was trained on another table")
	}

	// The hash of the model's text, which a model not read from a file has to write first.
	out := &InputModel{Model: &Model{Objective: m.Objective, Params: m.Params}, SHA256: m.sum}
	if out.SHA256 == "" {
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

// onBins returns a copy of the tree with left set: by node, the bins of the table's features that go left. It is an
// error if a split cannot have been made on this table. Everything but left is shared with t.
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

		last, ok := f.lastBinBelow(t.Threshold[node])
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

// lastBinBelow returns the bin of present values whose upper bound is threshold; the last one for the largest finite
// number, which a split has as its threshold if all present values go left. ok is false if there is no such bin: the
// threshold is inside one, or the table has missing values only, so that nothing was split.
func (f *Feature) lastBinBelow(threshold float64) (last int, ok bool) {
	if threshold == math.MaxFloat64 {
		return f.valueBins() - 1, f.valueBins() > 0
	}
	return slices.BinarySearch(f.Bounds, threshold)
}

// check returns an error if the model has another objective than obj or other features than d.
func (m *InputModel) check(d *Data, obj objective) error {
	if m.Objective != obj.String() {
		return inputErrorf("its objective is %q, the training's %q", m.Objective, obj)
	}
	if !m.Of(d.Features) {
		return fmt.Errorf("%w: the input model is in the terms of another table", ErrData)
	}
	return nil
}

// continueInput sets the raw scores of training and held-out rows to the input model's, if there is one. The model's
// scores include Options.Shift, since its own training had the same one; those of training rows are corrected for it.
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

	// Only a training with a single output has a shift (checkArguments), so b.raw has all scores.
	if b.opt.Shift != 0 {
		b.pool.parallel(len(b.raw), grain, func(_, lo, hi int) {
			for r := lo; r < hi; r++ {
				b.raw[r] -= b.opt.Shift
			}
		})
	}
	return nil
}

// firstTreeShift is what the first new tree of the finished model has to contain of Options.Shift: all of it, or
// nothing if there is an input model, which already does.
func (b *booster) firstTreeShift() float64 {
	if b.opt.Input != nil {
		return 0
	}
	return b.opt.Shift
}

// iterationsBefore is the number of trees of each output in the input model; 0 without one. Random choices continue
// from there, so that a model continued on the data that it was grown on gets the same trees as an uninterrupted
// training. There are two exceptions. Random choices are keyed by rounds, so a round that found no split shifts those
// after it. And with Options.Shift, adding and subtracting it rounds the scores.
func (b *booster) iterationsBefore() int {
	if b.opt.Input == nil {
		return 0
	}
	return b.opt.Input.Iterations()
}

// paramLine is the line that says, in the parameters of the new model's file, which model was continued.
func (m *InputModel) paramLine() string { return fmt.Sprintf("[input_model: sha256:%s]", m.SHA256) }
