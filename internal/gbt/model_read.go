package gbt

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"coppice/internal/problem"
)

// MaxModelBytes bounds a model file, and maxHeadLine a line of its head: 100,000 features with the longest names seen
// in a model of clicks need less than a tenth of it. Splitting a line into words takes several times its size in
// memory.
const (
	MaxModelBytes = 1 << 30
	maxHeadLine   = 16 << 20
)

// modelErrorf reports a model file that cannot be used. Lines count from 1; 0 is not a single one.
func modelErrorf(line int, format string, args ...any) error {
	return problem.New(problem.Input, "model file, line %d: %s", line, fmt.Sprintf(format, args...))
}

// ReadModel reads LightGBM text (v2, v3 or v4) with one output per row and no linear trees. It refuses what it would
// predict incorrectly.
func ReadModel(r io.Reader) (*Model, error) {
	var text strings.Builder // its String does not copy
	if known, ok := r.(interface{ Len() int }); ok {
		text.Grow(min(known.Len(), MaxModelBytes+1))
	}
	hash := sha256.New()
	if _, err := io.Copy(io.MultiWriter(&text, hash), io.LimitReader(r, MaxModelBytes+1)); err != nil {
		return nil, fmt.Errorf("read model: %w", err)
	}
	if text.Len() > MaxModelBytes {
		return nil, modelErrorf(1, "more than %d bytes", MaxModelBytes)
	}

	p := &modelReader{lines: strings.Split(text.String(), "\n")}
	m, err := p.model()
	if err != nil {
		return nil, err
	}
	m.sum = hex.EncodeToString(hash.Sum(nil))
	return m, nil
}

type modelReader struct {
	lines []string
	at    int // the next line
}

func (p *modelReader) errorf(format string, args ...any) error {
	return modelErrorf(p.at, format, args...)
}

// block reads "key=value" lines up to a blank line, skipping blank lines before it.
func (p *modelReader) block() (map[string]string, error) {
	for p.at < len(p.lines) && strings.TrimSpace(p.lines[p.at]) == "" {
		p.at++
	}

	keys := map[string]string{}
	for p.at < len(p.lines) {
		line := strings.TrimSuffix(p.lines[p.at], "\r")
		p.at++
		if line == "" {
			break
		}

		key, value, _ := strings.Cut(line, "=")
		if _, twice := keys[key]; twice {
			return nil, p.errorf("%q a second time", key)
		}
		keys[key] = value
	}

	return keys, nil
}

func (p *modelReader) model() (*Model, error) {
	head, err := p.block()
	if err != nil {
		return nil, err
	}
	for _, key := range slices.Sorted(maps.Keys(head)) {
		if n := len(head[key]); n > maxHeadLine {
			return nil, p.errorf("%.40s has %d bytes, more than the %d that a line of the head may have", key, n,
				maxHeadLine)
		}
	}
	if _, ok := head["tree"]; !ok {
		return nil, p.errorf("it does not begin with the line \"tree\"; is it a LightGBM text model?")
	}

	m := &Model{Objective: head["objective"], FeatureNames: strings.Fields(head["feature_names"]),
		FeatureInfos: strings.Fields(head["feature_infos"])}
	if m.Objective != "binary sigmoid:1" && m.Objective != "regression" {
		return nil, p.errorf("objective %.40q; only \"binary sigmoid:1\" and \"regression\" can be read", m.Objective)
	}
	// A random forest averages its trees, and linear trees have models in their leaves: summed leaf values would be
	// wrong without a sign of it.
	for _, refused := range []string{"average_output", "linear_tree"} {
		if _, ok := head[refused]; ok {
			return nil, p.errorf("%s models cannot be read", refused)
		}
	}

	if head["num_class"] != "1" || head["num_tree_per_iteration"] != "1" {
		return nil, p.errorf("num_class=%.20s, num_tree_per_iteration=%.20s; only models with one output can be read",
			head["num_class"], head["num_tree_per_iteration"])
	}
	if last, err := strconv.Atoi(head["max_feature_idx"]); err != nil || last+1 != len(m.FeatureNames) || last < 0 {
		return nil, p.errorf("max_feature_idx=%.20s, but %d feature names", head["max_feature_idx"],
			len(m.FeatureNames))
	}

	for range strings.Fields(head["tree_sizes"]) {
		t, err := p.tree(len(m.Trees), m.Features())
		if err != nil {
			return nil, err
		}
		m.Trees = append(m.Trees, t)
	}
	if len(m.Trees) == 0 {
		return nil, p.errorf("no tree")
	}

	p.parameters(m)
	return m, nil
}

// parameters keeps the lines between "parameters:" and "end of parameters".
func (p *modelReader) parameters(m *Model) {
	inside := false
	for _, line := range p.lines[p.at:] {
		switch {
		case line == "parameters:":
			inside = true
		case line == "end of parameters":
			return
		case inside && line != "":
			m.Params = append(m.Params, line)
		}
	}
}

func (p *modelReader) tree(number, features int) (*Tree, error) {
	keys, err := p.block()
	if err != nil {
		return nil, err
	}

	if keys["Tree"] != strconv.Itoa(number) {
		return nil, p.errorf("expected Tree=%d", number)
	}
	if linear := keys["is_linear"]; linear != "" && linear != "0" {
		return nil, p.errorf("linear trees cannot be read")
	}

	leaves, err := strconv.Atoi(keys["num_leaves"])
	if err != nil || leaves < 1 || leaves > len(keys["leaf_value"])/2+1 {
		return nil, p.errorf("num_leaves=%.20s", keys["num_leaves"])
	}

	t := &Tree{Shrinkage: 1}
	lists := &listReader{keys: keys}
	t.LeafValue = listOf(lists, "leaf_value", leaves, parseFinite)

	if leaves > 1 {
		n := leaves - 1
		t.Feature = listOf(lists, "split_feature", n, strconv.Atoi)
		t.Threshold = listOf(lists, "threshold", n, parseFloat)
		t.Decision = listOf(lists, "decision_type", n,
			func(s string) (uint8, error) { v, err := strconv.ParseUint(s, 10, 8); return uint8(v), err })
		t.Left = listOf(lists, "left_child", n, strconv.Atoi)
		t.Right = listOf(lists, "right_child", n, strconv.Atoi)
		t.Gain = lists.optional("split_gain", n)
		t.InternalValue = lists.optional("internal_value", n)
		t.InternalWeight = lists.optional("internal_weight", n)
		t.InternalCount = lists.counts("internal_count", n)
	}

	t.LeafWeight = lists.optional("leaf_weight", leaves)
	t.LeafCount = lists.counts("leaf_count", leaves)

	if keys["num_cat"] != "" && keys["num_cat"] != "0" {
		sets, err := strconv.Atoi(keys["num_cat"])
		if err != nil || sets < 0 || sets >= leaves {
			return nil, p.errorf("num_cat=%.20s with %d leaves", keys["num_cat"], leaves)
		}
		t.CatBoundaries = listOf(lists, "cat_boundaries", sets+1, strconv.Atoi)
		t.CatThreshold = listOf(lists, "cat_threshold", -1,
			func(s string) (uint32, error) { v, err := strconv.ParseUint(s, 10, 32); return uint32(v), err })
	}

	if s := keys["shrinkage"]; s != "" {
		if t.Shrinkage, err = parseFinite(s); err != nil {
			return nil, p.errorf("shrinkage=%.20s", s)
		}
	}

	// The first list with an error, else an inconsistency between lists.
	if lists.err == nil {
		lists.err = t.check(features)
	}
	if lists.err != nil {
		return nil, p.errorf("tree %d: %v", number, lists.err)
	}

	return t, nil
}

// listReader parses the lists of a block and keeps the first error.
type listReader struct {
	keys map[string]string
	err  error
}

// listOf parses the n values of a key; any number if n is negative.
func listOf[T any](l *listReader, key string, n int, parse func(string) (T, error)) []T {
	if l.err != nil {
		return nil
	}

	words := strings.Fields(l.keys[key])
	if n >= 0 && len(words) != n {
		l.err = fmt.Errorf("%s has %d values, expected %d", key, len(words), n)
		return nil
	}

	out := make([]T, len(words))
	for i, w := range words {
		v, err := parse(w)
		if err != nil {
			l.err = fmt.Errorf("%s: %.40q at position %d", key, w, i)
			return nil
		}
		out[i] = v
	}

	return out
}

// optional parses a list that prediction does not need: zeros if absent.
func (l *listReader) optional(key string, n int) []float64 {
	if strings.TrimSpace(l.keys[key]) == "" {
		return make([]float64, n)
	}
	return listOf(l, key, n, parseFloat)
}

func (l *listReader) counts(key string, n int) []int {
	if strings.TrimSpace(l.keys[key]) == "" {
		return make([]int, n)
	}
	return listOf(l, key, n, strconv.Atoi)
}

func parseFloat(s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err == nil && math.IsNaN(v) {
		err = strconv.ErrSyntax
	}
	return v, err
}

func parseFinite(s string) (float64, error) {
	v, err := parseFloat(s)
	if err == nil && math.IsInf(v, 0) {
		err = strconv.ErrRange
	}
	return v, err
}

// check makes sure that prediction never indexes outside the tree, and terminates: every node and leaf is the child of
// exactly one earlier node.
func (t *Tree) check(features int) error {
	inner, leaves := len(t.Feature), len(t.LeafValue)
	seenInner, seenLeaf := make([]bool, inner), make([]bool, leaves)

	for node := range inner {
		for _, child := range []int{t.Left[node], t.Right[node]} {
			switch {
			case child > node && child < inner && !seenInner[child]:
				seenInner[child] = true
			case child < 0 && ^child < leaves && !seenLeaf[^child]:
				seenLeaf[^child] = true
			default:
				return fmt.Errorf("node %d has the child %d", node, child)
			}
		}

		if f := t.Feature[node]; f < 0 || f >= features {
			return fmt.Errorf("node %d splits feature %d of %d", node, f, features)
		}

		if t.Decision[node]&decisionCategorical != 0 {
			if set := t.Threshold[node]; !(set >= 0 && set < float64(len(t.CatBoundaries)-1)) ||
				set != math.Trunc(set) {
				return fmt.Errorf("node %d has the category set %v", node, set)
			}
		}
	}

	for i, b := range t.CatBoundaries {
		if b < 0 || b > len(t.CatThreshold) || i == 0 && b != 0 || i > 0 && b <= t.CatBoundaries[i-1] {
			return fmt.Errorf("cat_boundaries has %d at position %d", b, i)
		}
	}
	return nil
}
