package gbt

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"coppice/internal/strictjson"
)

// ForcedSplits is how every tree begins: the JSON of LightGBM's files of forced splits, in which a split is
// {"feature": "age", "threshold": 30, "left": {...}, "right": {...}}. A feature is a column's name, or its number from
// 0; left and right are the next splits on either side, if any. Empty forces nothing.
type ForcedSplits string

// forcedSplit is one of them, and what it comes to in a table.
type forcedSplit struct {
	Feature   any          `json:"feature"`
	Threshold float64      `json:"threshold"`
	Left      *forcedSplit `json:"left,omitempty"`
	Right     *forcedSplit `json:"right,omitempty"`

	column int // number of the feature
	last   int // the last bin of present values that goes left
	order  int // breadth first, from 1
}

// parseForced takes splits as JSON or as what YAML makes of them, and returns their canonical form as far as it can be
// known without the table.
func parseForced(value any) (ForcedSplits, error) {
	const form = "{feature: NAME, threshold: NUMBER, left: {...}, right: {...}}"
	text, isText := value.(string)
	switch {
	case !isText:
		data, err := json.Marshal(value)
		if _, isMap := value.(map[string]any); err != nil || !isMap {
			return "", fmt.Errorf("expected splits such as %s, found %s", form, quoted(value))
		}
		text = string(data)
	case strings.TrimSpace(text) == "":
		return "", nil
	case !strings.HasPrefix(strings.TrimSpace(text), "{"):
		return "", fmt.Errorf("expected splits such as %s, found %.60q; a file would not travel to other machines, so "+
			"give what is in it", form, text)
	}
	if len(text) > maxColumnList {
		return "", fmt.Errorf("%d bytes of splits; at most %d", len(text), maxColumnList)
	}

	var root forcedSplit
	if err := strictjson.Decode([]byte(text), &root); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) { // its text is for programmers
			err = fmt.Errorf("%s is a %s", wrong.Field, wrong.Value)
		}
		return "", fmt.Errorf("expected splits such as %s: %w", form, err)
	}
	for _, s := range root.all() {
		switch f := s.Feature.(type) {
		case string:
		case float64:
			if f != math.Trunc(f) || !(f >= 0 && f < 1<<31) {
				return "", fmt.Errorf("%v is not a column number; numbers count from 0", f)
			}
		default:
			return "", errors.New("a feature is a column's name or number")
		}
	}
	return root.text(), nil
}

// all returns the splits from s downwards, breadth first.
func (s *forcedSplit) all() []*forcedSplit {
	if s == nil {
		return nil
	}
	all := []*forcedSplit{s}
	for i := 0; i < len(all); i++ {
		for _, child := range []*forcedSplit{all[i].Left, all[i].Right} {
			if child != nil {
				all = append(all, child)
			}
		}
	}
	return all
}

func (s *forcedSplit) text() ForcedSplits {
	data, _ := json.Marshal(s) // names and finite numbers
	return ForcedSplits(data)
}

// tree returns the splits with the numbers of their columns; nil if there are none.
func (l ForcedSplits) tree(columns []string) (*forcedSplit, error) {
	if l == "" {
		return nil, nil
	}
	root := new(forcedSplit)
	if err := strictjson.Decode([]byte(l), root); err != nil {
		return nil, err
	}
	byName, byNumber := nameFinder(columns), numberFinder(columns)
	for i, s := range root.all() {
		s.order = i + 1
		var err error
		if name, ok := s.Feature.(string); ok {
			s.column, err = byName(name)
		} else {
			s.column, err = byNumber(fmt.Sprintf("%.0f", s.Feature))
		}
		if err != nil {
			return nil, err
		}
	}
	return root, nil
}

// forColumns returns the form shared by all that force the same splits: columns by name, or by number if two have the
// name.
func (l ForcedSplits) forColumns(columns []string) (ForcedSplits, error) {
	root, err := l.tree(columns)
	if err != nil || root == nil {
		return "", err
	}
	find := nameFinder(columns)
	for _, s := range root.all() {
		s.Feature = columns[s.column]
		if _, err := find(columns[s.column]); err != nil {
			s.Feature = s.column
		}
	}
	return root.text(), nil
}

// among returns the splits in a table for which ForColumns has resolved them; nil if there are none.
func (l ForcedSplits) among(features []Feature) *forcedSplit { return resolved(features, l.tree) }

// line is the splits as the model file has them: by number, and without the quotes, at which LightGBM would stop.
func (l ForcedSplits) line(features []Feature) string {
	root := l.among(features)
	if root == nil {
		return ""
	}
	for _, s := range root.all() {
		s.Feature = s.column
	}
	return strings.ReplaceAll(string(root.text()), `"`, "")
}

// check refuses splits of features that have no order, or that are ignored.
func (l ForcedSplits) check(features []Feature, ignored []int) error {
	for _, s := range l.among(features).all() {
		if features[s.column].Categorical {
			return &ParamError{forcedSplits, fmt.Sprintf("column %.60q is categorical and has no order",
				features[s.column].Name)}
		}
		if slices.Contains(ignored, s.column) {
			return &ParamError{forcedSplits, fmt.Sprintf("column %.60q is one of %s", features[s.column].Name,
				IgnoreColumn)}
		}
	}
	return nil
}

// force prepares the splits that every tree begins with. A threshold is the upper end of the bin that it is in, or of
// the coarse bin.
func (g *grower) force() {
	g.forced = g.p.ForcedSplits.among(g.data.Features)
	for _, s := range g.forced.all() {
		bounds, coarse := g.data.Features[s.column].Bounds, g.coarseBin[s.column]
		s.last, _ = slices.BinarySearch(bounds, s.Threshold)
		for coarse != nil && s.last+1 < len(coarse) && coarse[s.last+1] == coarse[s.last] {
			s.last++
		}
	}
}

// withForced adds to the tree's features those of forced splits, whether drawn or not.
func (g *grower) withForced(features []int) []int {
	if g.forced == nil {
		return features
	}
	features = slices.Clone(features)
	for _, s := range g.forced.all() {
		if slices.Contains(g.usableFeatures, s.column) {
			features = append(features, s.column)
		}
	}
	slices.Sort(features)
	return slices.Compact(features)
}

// nextForced returns the leaf whose forced split comes first; -1 if none has one.
func (g *grower) nextForced() int {
	next := -1
	for i := range g.leaves {
		order := g.leaves[i].best.forced
		if order > 0 && (next < 0 || order < g.leaves[next].best.forced) {
			next = i
		}
	}
	return next
}

// forcedSplit is a leaf's forced split, with missing values on the left; none if a side has no rows, if the loss does
// not fall by min_gain_to_split, or if a constraint forbids it.
func (g *grower) forcedSplit(l *leaf, t splitTarget) split {
	s := &g.splitScorer
	f := &g.data.Features[l.forced.column]
	from := g.histograms.offset[l.forced.column]

	made := split{feature: l.forced.column, at: l.forced.last, missing: true, l2: s.l2, forced: l.forced.order}
	made.left.addUpTo(made.at)
	for b := range made.at + 1 {
		made.sums = made.sums.plus(l.hist.sums(from+b, s.pack))
	}
	if f.Missing >= 0 {
		made.left.add(f.Missing)
		made.sums = made.sums.plus(l.hist.sums(from+f.Missing, s.pack))
	}
	right := l.sums.minus(made.sums)
	t.direction = s.direction(made.feature)
	made.gain = s.sides(made.sums, right, s.l2, &t) - t.minGain

	allows := g.interactions == nil || len(meeting(g.interactions, l.allowedGroups, made.feature)) > 0
	if made.sums.h <= 0 || right.h <= 0 || !(made.gain > 0) || !allows {
		return split{}
	}
	return made
}
