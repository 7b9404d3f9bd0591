package gbt

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// WriteTo writes the model in LightGBM's text format (src/boosting/gbdt_model_text.cpp and src/io/tree.cpp there). The
// head says version=v3, because the Go library leaves reads nothing newer and LightGBM does not look at it. All that is
// written means the same in v3 and v4.
func (m *Model) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	trees := make([][]byte, len(m.Trees))
	for i, t := range m.Trees {
		trees[i] = t.formatTree(i)
	}

	b.WriteString("tree\nversion=v3\n")
	fmt.Fprintf(&b, "num_class=%d\nnum_tree_per_iteration=%[1]d\nlabel_index=0\n", m.Outputs())
	fmt.Fprintf(&b, "max_feature_idx=%d\nobjective=%s\n", m.Features()-1, m.Objective)
	fmt.Fprintf(&b, "feature_names=%s\nfeature_infos=%s\n", strings.Join(m.FeatureNames, " "),
		strings.Join(m.FeatureInfos, " "))

	// LightGBM reads trees in parallel by these sizes, so they have to be exact.
	b.WriteString("tree_sizes=")
	for i, t := range trees {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(strconv.Itoa(len(t)))
	}
	b.WriteString("\n\n")

	for _, t := range trees {
		b.Write(t)
	}

	b.WriteString("end of trees\n\nfeature_importances:\n")
	counts, _ := m.Importance()
	for _, f := range descending(counts) {
		fmt.Fprintf(&b, "%s=%d\n", m.FeatureNames[f], counts[f])
	}

	b.WriteString("\nparameters:\n")
	for _, line := range m.Params {
		fmt.Fprintf(&b, "%s\n", line)
	}
	b.WriteString("end of parameters\n\npandas_categorical:null\n")

	n, err := w.Write(b.Bytes())
	return int64(n), err
}

// formatTree returns the text of a tree, which has this number in the model, with two empty lines behind it. Its length
// is what tree_sizes has to say.
func (t *Tree) formatTree(number int) []byte {
	out := fmt.Appendf(nil, "Tree=%d\nnum_leaves=%d\nnum_cat=%d\n", number, t.Leaves(), max(len(t.CatBoundaries)-1, 0))

	out = appendList(out, "split_feature", t.Feature, appendInt)
	out = appendList(out, "split_gain", t.Gain, appendFloat)
	out = appendList(out, "threshold", t.Threshold, appendFloat)
	out = appendList(out, "decision_type", t.Decision, func(b []byte, v uint8) []byte { return appendInt(b, int(v)) })
	out = appendList(out, "left_child", t.Left, appendInt)
	out = appendList(out, "right_child", t.Right, appendInt)
	out = appendList(out, "leaf_value", t.LeafValue, appendFloat)
	out = appendList(out, "leaf_weight", t.LeafWeight, appendFloat)
	out = appendList(out, "leaf_count", t.LeafCount, appendInt)
	out = appendList(out, "internal_value", t.InternalValue, appendFloat)
	out = appendList(out, "internal_weight", t.InternalWeight, appendFloat)
	out = appendList(out, "internal_count", t.InternalCount, appendInt)

	if len(t.CatBoundaries) > 1 {
		out = appendList(out, "cat_boundaries", t.CatBoundaries, appendInt)
		out = appendList(out, "cat_threshold", t.CatThreshold,
			func(b []byte, v uint32) []byte { return strconv.AppendUint(b, uint64(v), 10) })
	}

	out = append(out, "is_linear=0\nshrinkage="...)
	out = appendFloat(out, t.Shrinkage)
	return append(out, "\n\n\n"...)
}

// appendList appends a line "name=value value ..." to out; appendOne appends a single value.
func appendList[T any](out []byte, name string, values []T, appendOne func([]byte, T) []byte) []byte {
	out = append(append(out, name...), '=')
	for i, v := range values {
		if i > 0 {
			out = append(out, ' ')
		}
		out = appendOne(out, v)
	}
	return append(out, '\n')
}

func appendInt(b []byte, v int) []byte { return strconv.AppendInt(b, int64(v), 10) }

// appendFloat writes the shortest text that reads back as the same number.
func appendFloat(b []byte, v float64) []byte { return strconv.AppendFloat(b, v, 'g', -1, 64) }

// descending returns the indices of the counts above 0, the highest count first, and of equal counts the lowest index.
func descending(counts []int) []int {
	var order []int
	for f, c := range counts {
		if c > 0 {
			order = append(order, f)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return counts[b] - counts[a] })
	return order
}

// describe returns the features' names (PlainNames) and value ranges (rangeText) as a model file has them.
func describe(features []Feature) (names, infos []string) {
	for i := range features {
		names = append(names, features[i].Name)
		infos = append(infos, features[i].rangeText())
	}
	return PlainNames(names), infos
}

// PlainNames returns the names that features have in a model file, which LightGBM and leaves must be able to read:
// characters other than letters, digits, '_', '-' and '.' become '_', and an empty or repeated name gets its index
// appended until it is unique.
func PlainNames(names []string) []string {
	used := map[string]bool{}
	plain := make([]string, len(names))
	for i, name := range names {
		name = plainName(name)
		for name == "" || used[name] {
			name = fmt.Sprintf("%s_%d", name, i)
		}
		used[name] = true
		plain[i] = name
	}
	return plain
}

// plainName replaces each character that LightGBM or leaves could not read in a name by '_'.
func plainName(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' || r == '.' {
			return r
		}
		return '_'
	}, name)
}

// rangeText is what feature_infos says of a feature: [min:max] for a numerical one, the categories separated by colons,
// or none for a feature with a single bin.
func (f *Feature) rangeText() string {
	switch {
	case f.Bins < 2:
		return "none"
	case f.Categorical:
		codes := make([]string, f.Bins)
		for b := range codes {
			codes[b] = strconv.Itoa(b)
		}
		return strings.Join(codes, ":")
	}
	return fmt.Sprintf("[%s:%s]", appendFloat(nil, f.Min), appendFloat(nil, f.Max))
}

// parameterLines returns the parameters as LightGBM writes them into a model file, in the order of paramTable.
// Parameters that were added later (addedLater) are left out at their defaults, so that models that do not use them
// keep their bytes. Empty texts and lists are left out, too. Columns are written as numbers: LightGBM 4 cannot load a
// model with names there. p must be for a table with these features (ForTable).
func (p Params) parameterLines(features []Feature) []string {
	lines := []string{"[boosting: gbdt]"}
	m := p.Map()
	defaults := Defaults().Map()

	m[IgnoreColumn] = string(numbered(p.IgnoreColumn.mustFind(features)))

	for _, spec := range trainedWith {
		name := spec.name
		v := m[name]
		if v == "" || v == defaults[name] && spec.is(addedLater) {
			continue
		}

		// LightGBM writes booleans as 0 and 1.
		switch x := v.(type) {
		case bool:
			v = 0
			if x {
				v = 1
			}
		case float64:
			v = string(appendFloat(nil, x))
		}
		lines = append(lines, fmt.Sprintf("[%s: %v]", name, v))
	}

	return lines
}
