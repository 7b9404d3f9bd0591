package gbt

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"coppice/internal/problem"
)

// Limits on a model file. A line of the head is split into words, which takes several times its size in memory; the
// head of a model with 100,000 features and the longest names seen needs less than a tenth of maxHeadLine.
const (
	MaxModelBytes = 1 << 30   // of the whole file
	maxHeadLine   = 16 << 20  // bytes of a line of the head
	maxTrees      = 1_000_001 // the most that num_iterations allows, and one
)

// modelErrorf returns the error for a model file that cannot be used. Lines count from 1.
func modelErrorf(line int, format string, args ...any) error {
	return problem.New(problem.Input, "model file, line %d: %s", line, fmt.Sprintf(format, args...))
}

// ReadModel reads a model in LightGBM's text format (v2, v3 or v4). It refuses models that it would predict
// incorrectly, such as linear trees. It also refuses text that another reader could understand in another way: every
// line up to "end of trees" must have a known key, numbers must be decimal, and lists must have the lengths that are
// stated. python/coppice/_trees.py refuses the same texts.
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

	p := &modelReader{rest: text.String()}
	m, err := p.readModel()
	if err != nil {
		return nil, err
	}
	m.sum = hex.EncodeToString(hash.Sum(nil))
	return m, nil
}

// Keys that the head and a tree must have, and those that they may have besides.
var (
	headKeys = []string{"tree", "version", "num_class", "num_tree_per_iteration", "label_index", "max_feature_idx",
		"objective", "feature_names", "feature_infos", "tree_sizes"}
	// the last one, without a value, is in models whose predictions are means of trees: LightGBM's random forests
	headOptional = []string{"monotone_constraints", averageOutput}
	treeKeys     = []string{"Tree", "num_leaves", "num_cat", "leaf_value"}
	treeOptional = []string{"split_feature", "threshold", "decision_type", "left_child", "right_child", "split_gain",
		"internal_value", "internal_weight", "internal_count", "leaf_weight", "leaf_count", "cat_boundaries",
		"cat_threshold", "shrinkage", "is_linear"}
)

const averageOutput = "average_output"

const (
	// maxCategoryWords bounds the sets of categories of a tree.
	maxCategoryWords = 1 << 22
	// maxDecision has the bits that a Decision may have and no others: there is no missing type 3.
	maxDecision = decisionCategorical | decisionDefaultLeft | missingNaN
)

// modelReader is the text of a model that is being read.
type modelReader struct {
	rest  string         // the text from the next line on
	at    int            // number of the last line read
	lines map[string]int // the line of each key of the block read last
}

// errorf returns an error in the line read last.
func (p *modelReader) errorf(format string, args ...any) error {
	return modelErrorf(p.at, format, args...)
}

// errorAt returns an error in the line of a key of the block read last; in the line read last if the block lacks the
// key.
func (p *modelReader) errorAt(key, format string, args ...any) error {
	return modelErrorf(cmp.Or(p.lines[key], p.at), format, args...)
}

// expectLine returns an error unless the next line is the given one. It does not read it.
func (p *modelReader) expectLine(line string) error {
	if !strings.HasPrefix(p.rest, line+"\n") {
		return modelErrorf(p.at+1, "the line %q belongs here", line)
	}
	return nil
}

// readLine reads the next line. ok is false if there is none that ends with a newline.
func (p *modelReader) readLine() (line string, ok bool) {
	line, rest, ok := strings.Cut(p.rest, "\n")
	if ok {
		p.rest = rest
		p.at++
	}
	return line, ok
}

// readBlock reads "key=value" lines up to an empty line, and skips all empty lines after it. It returns the values by
// key, and sets p.lines. It is an error if a required key is missing, or if a key occurs twice or is in neither list.
func (p *modelReader) readBlock(required, optional []string) (map[string]string, error) {
	keys := map[string]string{}
	p.lines = map[string]int{}
	for {
		line, ok := p.readLine()
		if !ok {
			return nil, p.errorf("the file ends here, without the line \"end of trees\"")
		}
		if line == "" {
			break
		}
		if i := strings.IndexFunc(line, func(r rune) bool { return r < 0x20 || r == 0x7f }); i >= 0 {
			return nil, p.errorf("the control character %q", line[i])
		}
		if !utf8.ValidString(line) {
			return nil, p.errorf("it is not UTF-8")
		}

		// Two keys of the head have no value.
		key, value, ok := strings.Cut(line, "=")
		if !ok && line != "tree" && line != averageOutput {
			return nil, p.errorf("%.40q without \"=\"", key)
		}
		if strings.Contains(value, "=") { // LightGBM refuses the whole file
			return nil, p.errorf("%.40q has a second \"=\"", key)
		}
		if _, twice := keys[key]; twice {
			return nil, p.errorf("%.40q a second time", key)
		}
		if !slices.Contains(required, key) && !slices.Contains(optional, key) {
			return nil, p.errorf("%.40q is not a key that this build knows", key)
		}
		keys[key], p.lines[key] = value, p.at
	}

	for _, key := range required {
		if _, ok := keys[key]; !ok {
			return nil, p.errorf("the lines above lack %s", key)
		}
	}
	for strings.HasPrefix(p.rest, "\n") {
		p.readLine()
	}
	return keys, nil
}

// readModel reads the head, the trees and the parameters. Errors name the line. The head alone says how many trees
// there are, and how many bytes each of them has.
func (p *modelReader) readModel() (*Model, error) {
	if p.expectLine("tree") != nil {
		return nil, modelErrorf(1, "it does not begin with the line \"tree\"; is it a LightGBM text model?")
	}
	head, err := p.readBlock(headKeys, headOptional)
	if err != nil {
		return nil, err
	}
	for _, key := range slices.Sorted(maps.Keys(head)) {
		if n := len(head[key]); n > maxHeadLine {
			return nil, p.errorAt(key, "%.40s has %d bytes, more than the %d that a line of the head may have", key,
				n, maxHeadLine)
		}
	}

	// The objective decides how many outputs there are.
	m := &Model{Objective: head["objective"]}
	if _, ok := outputOf(m.Objective); !ok {
		return nil, p.errorAt("objective", "objective %.40q cannot be read; use one of %s", m.Objective,
			strings.Join(objectiveTexts(), ", "))
	}
	if !slices.Contains([]string{"v2", "v3", "v4"}, head["version"]) {
		return nil, p.errorAt("version", "version=%.20s; v2, v3 and v4 can be read", head["version"])
	}
	if n := strconv.Itoa(m.Outputs()); head["num_class"] != n || head["num_tree_per_iteration"] != n {
		return nil, p.errorAt("num_class", "num_class=%.20s, num_tree_per_iteration=%.20s; a model with objective %q "+
			"has %s of each", head["num_class"], head["num_tree_per_iteration"], m.Objective, n)
	}

	// The features, and the sizes of the trees. Some lists are only checked.
	lists := &listReader{keys: head}
	asIs := func(s string) (string, error) { return s, nil }
	m.FeatureNames = listOf(lists, "feature_names", -1, asIs)
	n := len(m.FeatureNames)
	if n == 0 {
		return nil, p.errorAt("feature_names", "no feature_names")
	}
	m.FeatureInfos = listOf(lists, "feature_infos", n, asIs)
	listOf(lists, "max_feature_idx", 1, intIn(n-1, n-1))
	listOf(lists, "label_index", 1, intIn(0, math.MaxInt32))
	if _, ok := head["monotone_constraints"]; ok {
		listOf(lists, "monotone_constraints", n, intIn(-1, 1))
	}
	if trees := strings.Count(head["tree_sizes"], " ") + 1; trees > maxTrees { // before there is memory for as many
		return nil, p.errorAt("tree_sizes", "tree_sizes: %d trees, more than %d", trees, maxTrees)
	}
	sizes := listOf(lists, "tree_sizes", -1, intIn(1, MaxModelBytes))
	if lists.err != nil {
		return nil, p.errorAt(lists.wrong, "%v", lists.err)
	}
	if len(sizes) == 0 {
		return nil, p.errorf("no tree")
	}
	if len(sizes)%m.Outputs() != 0 {
		return nil, p.errorf("%d trees cannot be divided among %d classes", len(sizes), m.Outputs())
	}

	if m.Trees, err = p.readTrees(sizes, n); err != nil {
		return nil, err
	}
	if value, ok := head[averageOutput]; ok {
		if value != "" {
			return nil, p.errorf("%s=%.20s; it has no value", averageOutput, value)
		}
		for i, t := range m.Trees { // the mean of the trees is the sum of their values divided by their number
			m.Trees[i] = t.dividedBy(float64(m.Iterations()))
		}
	}
	if err := p.expectLine("end of trees"); err != nil {
		return nil, err
	}

	p.readParameters(m)
	return m, nil
}

// readTrees reads as many trees as there are sizes; each must have that many bytes. features is the model's number of
// features.
func (p *modelReader) readTrees(sizes []int, features int) ([]*Tree, error) {
	var trees []*Tree
	for i, size := range sizes {
		before := len(p.rest)
		t, err := p.readTree(i, features)
		if err != nil {
			return nil, err
		}
		if have := before - len(p.rest); have != size {
			return nil, p.errorf("tree %d has %d bytes where tree_sizes says %d", i, have, size)
		}
		trees = append(trees, t)
	}
	return trees, nil
}

// readParameters sets m.Params to the lines between "parameters:" and "end of parameters". There need not be any.
func (p *modelReader) readParameters(m *Model) {
	inside := false
	for line := range strings.SplitSeq(p.rest, "\n") {
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

// readTree reads the tree with this number, counted from 0, and checks that it can be used safely: lists have the
// lengths that num_leaves and num_cat state, and no index is outside its list. Trees with linear leaves are refused.
// features is the model's number of features.
func (p *modelReader) readTree(number, features int) (*Tree, error) {
	if err := p.expectLine("Tree=" + strconv.Itoa(number)); err != nil {
		return nil, err
	}
	keys, err := p.readBlock(treeKeys, treeOptional)
	if err != nil {
		return nil, err
	}

	// The sizes. one parses a single number from lo to hi; if that fails it returns lo, and lists has the error.
	t := &Tree{Shrinkage: 1}
	lists := &listReader{keys: keys}
	one := func(key string, lo, hi int) int {
		if v := listOf(lists, key, 1, intIn(lo, hi)); len(v) == 1 {
			return v[0]
		}
		return lo
	}
	leaves := one("num_leaves", 1, mostLeaves)
	sets := one("num_cat", 0, leaves-1)
	if _, ok := keys["is_linear"]; ok {
		one("is_linear", 0, 0)
	}
	if _, ok := keys["shrinkage"]; ok {
		if v := listOf(lists, "shrinkage", 1, parseFloat); len(v) == 1 {
			t.Shrinkage = v[0]
		}
	}

	// The lists of nodes and leaves.
	n := leaves - 1
	t.LeafValue = listOf(lists, "leaf_value", leaves, parseFloat)
	t.Feature = listOf(lists, "split_feature", n, intIn(0, features-1))
	t.Threshold = listOf(lists, "threshold", n, parseThreshold)
	t.Decision = listOf(lists, "decision_type", n, func(s string) (uint8, error) {
		v, err := intIn(0, maxDecision)(s)
		return uint8(v), err
	})
	t.Left = listOf(lists, "left_child", n, intIn(-leaves, n-1))
	t.Right = listOf(lists, "right_child", n, intIn(-leaves, n-1))
	count := intIn(0, math.MaxInt)
	t.Gain = optionalOf(lists, "split_gain", n, parseFloat)
	t.InternalValue = optionalOf(lists, "internal_value", n, parseFloat)
	t.InternalWeight = optionalOf(lists, "internal_weight", n, parseFloat)
	t.InternalCount = optionalOf(lists, "internal_count", n, count)
	t.LeafWeight = optionalOf(lists, "leaf_weight", leaves, parseFloat)
	t.LeafCount = optionalOf(lists, "leaf_count", leaves, count)

	// The category sets: sets+1 boundaries, and as many words as the last one says. Without sets, both lists are empty.
	if bounds := listOf(lists, "cat_boundaries", min(sets, 1)*(sets+1), intIn(0, maxCategoryWords)); sets > 0 {
		t.CatBoundaries = bounds
	}
	words := 0
	if len(t.CatBoundaries) > 0 {
		words = t.CatBoundaries[sets]
	}
	if set := listOf(lists, "cat_threshold", words, func(s string) (uint32, error) {
		v, err := intIn(0, math.MaxUint32)(s)
		return uint32(v), err
	}); sets > 0 {
		t.CatThreshold = set
	}

	// Report the first list that could not be read or, if all could, an inconsistency between lists.
	if lists.err == nil {
		lists.wrong, lists.err = "", t.check(features)
	}
	if lists.err != nil {
		return nil, p.errorAt(lists.wrong, "tree %d: %v", number, lists.err)
	}

	return t, nil
}

// listReader parses the lists of a block and keeps the first error. After an error it parses nothing more.
type listReader struct {
	keys  map[string]string // values by key
	err   error
	wrong string // the key whose list has the error
}

// listOf parses the list of a key, whose elements are separated by single spaces. It must have n elements, or any
// number if n is negative. A missing key is an empty list. After an error, this one or an earlier one, it returns nil.
func listOf[T any](l *listReader, key string, n int, parse func(string) (T, error)) []T {
	if l.err != nil {
		return nil
	}

	text := l.keys[key]
	l.wrong = key // only means something if err is set below
	have := 0
	if text != "" {
		have = strings.Count(text, " ") + 1
	}
	if n >= 0 && have != n {
		l.err = fmt.Errorf("%s has %d values, expected %d", key, have, n)
		return nil
	}

	out := make([]T, have)
	for i := range out {
		w, rest, _ := strings.Cut(text, " ")
		text = rest
		v, err := parse(w)
		if err == nil && w == "" { // two spaces in a row; a parser of texts takes the empty one
			err = strconv.ErrSyntax
		}
		if err != nil {
			l.err = fmt.Errorf("%s: %.40q at position %d", key, w, i)
			return nil
		}
		out[i] = v
	}

	return out
}

// optionalOf is listOf for a list that prediction does not need: n zeros if the key is missing or empty.
func optionalOf[T any](l *listReader, key string, n int, parse func(string) (T, error)) []T {
	if l.keys[key] == "" {
		return make([]T, n)
	}
	return listOf(l, key, n, parse)
}

// intIn returns a parser for whole numbers from lo to hi. It takes only the shortest spelling of a number, not +1, 01
// or -0.
func intIn(lo, hi int) func(string) (int, error) {
	return func(s string) (int, error) {
		v, err := strconv.Atoi(s)
		if err == nil && (v < lo || v > hi) {
			err = strconv.ErrRange
		}
		if err == nil && (s[0] == '+' || s[0] == '0' && len(s) > 1 || s[0] == '-' && s[1] == '0') {
			err = strconv.ErrSyntax
		}
		return v, err
	}
}

// parseThreshold is parseFloat, but also reads inf and -inf, which LightGBM writes as thresholds. They become the
// largest finite numbers, which divide finite values in the same way.
func parseThreshold(s string) (float64, error) {
	if s == "inf" || s == "-inf" {
		s = strings.Replace(s, "inf", "1.7976931348623157e308", 1)
	}
	return parseFloat(s)
}

// parseFloat parses a finite number that is written as in JSON, such as -1.5e3. Other spellings, such as 0x1p3, 1_000
// and inf, are errors, because LightGBM, Go and Python do not agree on them.
func parseFloat(s string) (float64, error) {
	// Cut s into [-] whole [. fraction] [e [sign] exponent].
	whole, exponent, scientific := strings.Cut(strings.TrimPrefix(s, "-"), "e")
	if !scientific {
		whole, exponent, scientific = strings.Cut(whole, "E")
	}
	whole, fraction, point := strings.Cut(whole, ".")
	if sign := strings.TrimLeft(exponent, "+-"); len(exponent)-len(sign) <= 1 {
		exponent = sign
	}

	if !isDigits(whole) || len(whole) > 1 && whole[0] == '0' || point && !isDigits(fraction) ||
		scientific && !isDigits(exponent) {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseFloat(s, 64)
}

// isDigits reports whether s is one or more decimal digits.
func isDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// check returns an error unless predicting with the tree terminates and never indexes outside of it. Every child must
// have a greater number than its parent, and no node or leaf may have two parents. A negative child c is the leaf ^c.
// features is the model's number of features. The lists must already have the lengths that belong to the number of
// leaves.
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

		// A categorical node's threshold is the number of a category set.
		if t.Decision[node]&decisionCategorical != 0 {
			if set := t.Threshold[node]; !(set >= 0 && set < float64(len(t.CatBoundaries)-1)) ||
				set != math.Trunc(set) {
				return fmt.Errorf("node %d has the category set %v", node, set)
			}
		}
	}

	// Boundaries ascend from 0 to within CatThreshold.
	for i, b := range t.CatBoundaries {
		if b < 0 || b > len(t.CatThreshold) || i == 0 && b != 0 || i > 0 && b <= t.CatBoundaries[i-1] {
			return fmt.Errorf("cat_boundaries has %d at position %d", b, i)
		}
	}
	return nil
}
