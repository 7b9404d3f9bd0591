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
)

// InputModel is a model in the terms of a table: its splits are cuts between that table's bins. A training continues it, and
// what it predicts of the table's bins is what it predicts of the rows behind them.
type InputModel struct {
	*Model
	// SHA256 is of the text that the model was read from, in hexadecimal.
	SHA256 string
	// Cuts are the splits of numerical features, and Moved those of them that lay within a bin and are at its edge now.
	Cuts, Moved int
}

// InputError is a model that a training on a table cannot continue.
type InputError struct{ Msg string }

func (e *InputError) Error() string { return "input model: " + e.Msg }

// IsInput says that what was handed in is at fault, and will be the next time.
func (*InputError) IsInput() bool { return true }

func inputErrorf(format string, args ...any) error { return &InputError{fmt.Sprintf(format, args...)} }

// Of reports whether the model has the features of a table, in the table's order.
func (m *Model) Of(features []Feature) bool {
	names, _ := describe(features)
	return slices.Equal(names, m.FeatureNames)
}

// OnBins puts a model into the terms of a table with these features. to says which of them a feature of the model is, below 0 for none;
// with a nil to they are matched by name. Names of a model file are not those of its table: of two that differ in marks that it cannot
// have, either may be either, so whoever knows the table that it was trained on says to. Where a threshold lies within one of the table's
// bins, no split between bins does the same, and the nearer edge takes its place. codes says, of a categorical
// feature by its number in the table, which of the model's codes each of its bins is; nil where they are the same numbers.
//
// A model that splits by a feature that the table does not have, or has as another kind, is refused with an *InputError.
func (m *Model) OnBins(features []Feature, to func(feature int) int, codes func(feature int) []int) (*InputModel, error) {
	out := &InputModel{Model: &Model{Objective: m.Objective, Params: m.Params}, SHA256: m.sum}
	if out.SHA256 == "" { // not from a file
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

// translate is a tree whose nodes split the table's features by its bins. Leaves are as they were.
func (m *InputModel) translate(t *Tree, names []string, features []Feature, to func(int) int, codes func(int) []int) (*Tree, error) {
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
			return nil, inputErrorf("%.60q is %s to it and %s in the dataset", names[was], kinds[!f.Categorical], kinds[f.Categorical])
		}

		if f.Categorical {
			t.leftCodes(node, f, codes(at), &out.left[node])
			out.Threshold[node] = float64(out.addCategories(&out.left[node]))
			continue
		}
		if err := m.cut(&out, node, f); err != nil {
			return nil, err
		}
	}
	return &out, nil
}

// leftCodes are the bins of a categorical feature that go left.
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

// cut puts the threshold of a numerical node where the feature has an edge between bins.
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

// edge is the last bin of present values below a threshold, -1 where there is none, and the threshold that divides the feature's
// values so. Where it is the greatest value of a bin, or beyond all values, it stays as it is.
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

	// The nearer edge; the lower one where the threshold is in the middle. That is where LightGBM cuts between two values, the upper
	// of which is the bin's only one, and adds a rounding error to be safe.
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

// check refuses an input model that is not in the table's terms, or of another objective.
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

// begin gives all scores the value that the training starts from: a constant, or the input model's. A model's scores are of all rows;
// training rows are learnt from without Options.Shift.
func (b *booster) begin(ctx context.Context) error {
	m := b.opt.Input
	if m == nil {
		return nil
	}

	if err := replay(ctx, m.Trees, b.data, b.score, 0, b.walks); err != nil {
		return err
	}
	if b.opt.Shift != 0 {
		b.pool.parallel(len(b.score), grain, func(_, lo, hi int) {
			for r := lo; r < hi; r++ {
				b.score[r] -= b.opt.Shift
			}
		})
	}
	if b.opt.Valid == nil {
		return nil
	}
	return replay(ctx, m.Trees, b.opt.Valid, b.validScore, 0, b.walks)
}

// carried is what the first tree takes along of Options.Shift: nothing where an input model's does.
func (b *booster) carried() float64 {
	if b.opt.Input != nil {
		return 0
	}
	return b.opt.Shift
}

// treesBefore is how many trees the input model has. Random choices go on from there: a model that is continued on the data that it
// was grown on gets the trees that it would have had, had it not stopped.
func (b *booster) treesBefore() int {
	if b.opt.Input == nil {
		return 0
	}
	return len(b.opt.Input.Trees)
}

// line is what a model file says of the model that it continues, by LightGBM's name of the parameter.
func (m *InputModel) line() string { return fmt.Sprintf("[input_model: sha256:%s]", m.SHA256) }
