package report

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"coppice/internal/dataset"
	"coppice/internal/gbt"
	"coppice/internal/page"
	"coppice/internal/page/plot"
)

const (
	mostTrees  = 8  // shown on a page
	mostLeaves = 40 // per tree
)

// trees returns the first trees of a model. manifest, which may be nil, has the names of categories.
func trees(m *gbt.Model, manifest *dataset.Manifest) []page.TreeView {
	var out []page.TreeView
	for i, t := range m.Trees[:min(len(m.Trees), mostTrees)] {
		s := &treeView{tree: t, model: m, manifest: manifest}
		s.expand()
		out = append(out, page.TreeView{Number: i + 1, Leaves: t.Leaves(), Nodes: s.nodes})
	}
	return out
}

// treeView is the visible part of a tree: nodes with the most rows are expanded first, up to the allowed number of
// leaves.
type treeView struct {
	tree     *gbt.Tree
	model    *gbt.Model
	manifest *dataset.Manifest
	nodes    []plot.Node
	at       []int // each one's node in the tree; below 0 for a leaf
}

func (s *treeView) expand() {
	root := 0
	if len(s.tree.Feature) == 0 {
		root = -1
	}
	s.add(root)
	for leaves := 1; leaves < mostLeaves; leaves++ {
		widest := -1
		for i, n := range s.nodes {
			if n.Yes < 0 && s.at[i] >= 0 && (widest < 0 || n.Share > s.nodes[widest].Share) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		node := s.at[widest]
		yes := s.add(s.tree.Left[node])
		no := s.add(s.tree.Right[node])
		s.nodes[widest].Yes, s.nodes[widest].No, s.nodes[widest].Text = yes, no, s.predicate(node)
	}
}

// add adds a node, not yet expanded.
func (s *treeView) add(node int) int {
	n := plot.Node{Yes: -1, No: -1}
	if node < 0 {
		n.Value = s.tree.LeafValue[^node]
		n.Text = plot.Plain.Format(n.Value)
		n.Share = s.share(s.tree.LeafCount[^node])
	} else {
		n.Value = s.tree.InternalValue[node]
		n.Text = fmt.Sprintf("%s, %d leaves", plot.Plain.Format(n.Value), s.below(node))
		n.Share = s.share(s.tree.InternalCount[node])
	}
	s.nodes, s.at = append(s.nodes, n), append(s.at, node)
	return len(s.nodes) - 1
}

// share is the share of the tree's rows.
func (s *treeView) share(rows int) float64 {
	if len(s.tree.InternalCount) == 0 || s.tree.InternalCount[0] <= 0 {
		return 1
	}
	return float64(rows) / float64(s.tree.InternalCount[0])
}

// below is the number of leaves below a node.
func (s *treeView) below(node int) int {
	if node < 0 {
		return 1
	}
	return s.below(s.tree.Left[node]) + s.below(s.tree.Right[node])
}

// predicate is that of a split: the upper branch is for rows for which it holds.
func (s *treeView) predicate(node int) string {
	f := s.tree.Feature[node]
	name := featureName(s.model, s.manifest, f)
	if s.tree.Decision[node]&1 == 0 {
		return name + " ≤ " + plot.Plain.Format(s.tree.Threshold[node])
	}

	bins := s.bins(node)
	var texts []string
	if s.manifest != nil && f < len(s.manifest.Features) {
		for _, b := range bins[:min(len(bins), 2)] {
			if c := s.manifest.Features[f].Categories; b < len(c) {
				texts = append(texts, c[b])
			}
		}
	}
	switch {
	case len(texts) == 0:
		return fmt.Sprintf("%s is one of %d", name, len(bins))
	case len(texts) == len(bins):
		return name + " is " + strings.Join(texts, " or ")
	}
	return fmt.Sprintf("%s is %s … (%d)", name, strings.Join(texts, ", "), len(bins))
}

// bins returns the categories of the upper branch.
func (s *treeView) bins(node int) []int {
	i := int(s.tree.Threshold[node])
	if i < 0 || i+1 >= len(s.tree.CatBoundaries) {
		return nil
	}
	words := s.tree.CatThreshold[s.tree.CatBoundaries[i]:s.tree.CatBoundaries[i+1]]
	var out []int
	for w, word := range words {
		for word != 0 {
			b := bits.TrailingZeros32(word)
			out = append(out, 32*w+b)
			word &^= 1 << b
		}
	}
	return slices.Clip(out)
}
