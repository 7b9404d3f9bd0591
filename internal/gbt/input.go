package gbt

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"sort"

	"coppice/internal/problem"
)

// InputModel is a model in the terms of a table: its splits are cuts between that table's bins. Training continues it,
// and its prediction for bins is its prediction for the rows behind them.
type InputModel struct {
	*Model
	// SHA256 is the hexadecimal hash of the text that the model was read from.
	SHA256 string
	// Cuts is the number of splits on numerical features, and Moved how many of them were inside a bin and moved to its
	// edge.
	Cuts, Moved int
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

// OnBins translates a model to a table with these features. to gives the table's feature for each of the model's, below
// 0 for none; if to is nil, features are matched by name. Names in a model file are sanitised, so two of the table's
// names may become the same; a caller that knows the table that the model was trained on passes to. If a threshold is
// inside one of the table's bins, no split between bins is equivalent, and the nearer edge is used. codes gives, for a
// categorical feature of the table, the model's category of each bin; if codes or what it gives is nil, they are the
// same numbers.
//
// A model that splits on a feature that the table lacks, or has as another kind, is refused.
func (m *Model) OnBins(features []Feature, to func(feature int) int, codes func(feature int) []int) (*InputModel,
	error) {
	out := &InputModel{Model: &Model{Objective: m.Objective, Params: m.Params}, SHA256: m.sum}
	if out.SHA256 == "" { // not read from a file
		var text bytes.Buffer
		if _, err := m.WriteTo(&text); err != nil {
			return nil, err
		}
		out.SHA256 = sumOf(text.Bytes())
	}
	out.FeatureNames, out.FeatureInfos = describe(features)
	if to == nil {
		to = func(feature int) int { return slices.Index(out.FeatureNames, m.FeatureNames[feature]) }
	}

	for i, t := range m.Trees {
		moved, err := out.translate(t, m.FeatureNames, features, to, codes)
		if err != nil {
			return nil, fmt.Errorf("tree %d: %w", i, err)
		}
		out.Trees = append(out.Trees, moved)
	}
	return out, nil
}

func sumOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// translate returns the tree with splits on the table's features and bins. Leaves are unchanged.
func (m *InputModel) translate(t *Tree, names []string, features []Feature, to func(int) int,
	codes func(int) []int) (*Tree, error) {
	out := *t
	out.Feature = slices.Clone(t.Feature)
	out.Threshold = slices.Clone(t.Threshold)
	out.CatBoundaries, out.CatThreshold = nil, nil
	out.left = make([]binSet, len(t.Feature))

	for node, was := range t.Feature {
		at := to(was)
		if at < 0 {
			return nil, inputErrorf("it splits by %.60q, which the dataset does not have", names[was])
		}
		f := &features[at]
		out.Feature[node] = at
		if f.Categorical != (t.Decision[node]&decisionCategorical != 0) {
			kinds := map[bool]string{false: "a number", true: "a category"}
			return nil, inputErrorf("%.60q is %s to it and %s in the dataset", names[was], kinds[!f.Categorical],
				kinds[f.Categorical])
		}

		if f.Categorical {
			var of []int
			if codes != nil {
				of = codes(at)
			}
			t.leftCodes(node, f, of, &out.left[node])
			out.Threshold[node] = float64(out.addCategories(&out.left[node]))
			continue
		}
		if err := m.cut(&out, node, f); err != nil {
			return nil, err
		}
	}
	return &out, nil
}

// leftCodes sets the bins of a categorical feature that go left.
func (t *Tree) leftCodes(node int, f *Feature, codes []int, left *binSet) {
	for b := range f.Bins {
		code := b
		if codes != nil {
			code = codes[b]
		}
		if t.inCategory(node, float64(code)) {
			left.add(b)
		}
	}
}

// cut moves the threshold of a numerical node to an edge between the feature's bins.
func (m *InputModel) cut(t *Tree, node int, f *Feature) error {
	if t.Decision[node]&missingMask == missingZero {
		return inputErrorf("it takes zero for missing (zero_as_missing), which a dataset does not")
	}

	last, threshold := f.edge(t.Threshold[node])
	m.Cuts++
	if threshold != t.Threshold[node] {
		m.Moved++
	}
	t.Threshold[node] = threshold

	for b := range last + 1 {
		t.left[node].add(b)
	}
	if f.Missing >= 0 && t.goesLeft(node, math.NaN()) {
		t.left[node].add(f.Missing)
	}
	return nil
}

// edge returns the last bin of present values below a threshold, -1 if there is none, and the equivalent threshold at
// that edge. A threshold that equals a bin's largest value, or is beyond all values, is unchanged.
func (f *Feature) edge(threshold float64) (last int, moved float64) {
	bins := f.valueBins()
	bin := sort.SearchFloat64s(f.Bounds, threshold)
	known := f.Min < f.Max
	switch {
	case bin < len(f.Bounds) && f.Bounds[bin] == threshold:
		return bin, threshold
	case bin == bins-1 && (threshold == math.MaxFloat64 || known && threshold >= f.Max):
		return bin, threshold
	case bin == 0 && known && threshold < f.Min:
		return -1, threshold
	case bins == 0: // all values are missing
		return -1, threshold
	case bins == 1:
		return 0, math.MaxFloat64
	case bin == 0:
		return 0, f.Bounds[0]
	case bin == bins-1 && !known:
		return bin - 1, f.Bounds[bin-1]
	}

	// Use the nearer edge; on a tie the lower one: LightGBM cuts midway between two values, the upper of which is alone
	// in its bin, and rounds up.
	low, high := f.Bounds[bin-1], f.Max
	if bin < len(f.Bounds) {
		high = f.Bounds[bin]
	}
	const middle = 0.5 + 1e-6
	switch {
	case threshold-low <= middle*(high-low):
		return bin - 1, low
	case bin < len(f.Bounds):
		return bin, high
	}
	return bin, math.MaxFloat64
}

// check refuses an input model that is not in the table's terms, or that has another objective.
func (m *InputModel) check(d *Data, obj objective) error {
	if m.Objective != obj.String() {
		return inputErrorf("its objective is %q, the training's %q", m.Objective, obj)
	}
	if !m.Of(d.Features) {
		return fmt.Errorf("%w: the input model is in the terms of another table", ErrData)
	}
	for _, t := range m.Trees {
		if len(t.left) != len(t.Feature) {
			return fmt.Errorf("%w: the input model does not know bins", ErrData)
		}
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
		trees := b.of(k, m.Trees)
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

// carried is the part of Options.Shift that the first tree takes on: nothing if the input model includes it.
func (b *booster) carried() float64 {
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
