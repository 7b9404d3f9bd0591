package reproduce

import (
	"strings"
	"testing"
)

// model is a model of one tree. Its root divides column a at 0.5, and the node on the left of that divides a again. The
// node on the right divides column b, whose categories 1 and 40 go left: bits 1 and 40 of two words of 32 bits are the
// numbers 2 and 256.
const model = `tree
version=v4
num_class=1
num_tree_per_iteration=1
label_index=0
max_feature_idx=1
objective=regression
feature_names=a b
feature_infos=[0:1] 0:1:2:40
tree_sizes=212

Tree=0
num_leaves=4
num_cat=1
split_feature=0 0 1
threshold=0.5 -3 0
decision_type=6 2 1
left_child=1 -1 -3
right_child=2 -2 -4
leaf_value=1 2 3 4
cat_boundaries=0 2
cat_threshold=2 256
is_linear=0
shrinkage=1


end of trees
`

// TestWhereModelsDiffer: treesApart says that a tree's splits are others if anything that divides rows is: a column, a
// threshold, the side of missing values, a child or a category. Otherwise it names leaf values. Only if these are the
// same, too, does it say so, with the line that differs. Each case replaces text by as many bytes, since the model says
// how long the tree's text is.
func TestWhereModelsDiffer(t *testing.T) {
	const split, leaf = "from tree 1 of 1 on: its splits are others",
		"from tree 1 of 1 on: the same splits, other leaf values"
	for name, tc := range map[string]struct{ was, is, want string }{
		"a column":    {"split_feature=0 0 1", "split_feature=1 0 1", split},
		"a threshold": {"threshold=0.5", "threshold=0.6", split},
		// Of decision_type, bit 1 (2) says that missing values go left: 4 is 6 without it.
		"the missing side": {"decision_type=6", "decision_type=4", split},
		"a category":       {"cat_threshold=2 256", "cat_threshold=2 512", split},
		"the children": {"left_child=1 -1 -3\nright_child=2 -2 -4", "left_child=1 -1 -4\nright_child=2 -2 -3",
			split},
		"a leaf value": {"leaf_value=1 2", "leaf_value=1 7", leaf + "; line 20 was"},
		"a column's name": {"feature_names=a b", "feature_names=a c",
			"all splits and leaf values are the same; line 8 was"},
		"a break at the end": {"end of trees\n", "end of trees\n\n",
			"all splits and leaf values are the same; 394 bytes were registered, 395 were made"},
		// No build reads version=v9, so the texts are compared line by line.
		"no model any more": {"version=v4", "version=v9", `line 2 was "version=v4" and is "version=v9"`},
	} {
		other := strings.Replace(model, tc.was, tc.is, 1)
		if other == model {
			t.Fatalf("%s: the model has no %q, and the test needs it", name, tc.was)
		}
		if got := treesApart([]byte(model), []byte(other)); !strings.HasPrefix(got, tc.want) {
			t.Errorf("%s: the models are said to differ so: %q; want %q", name, got, tc.want)
		}
	}
}

// TestTextsThatDifferInBreaks: no line differs of two texts of which one lacks the line break at its end, so linesApart
// shows their lengths.
func TestTextsThatDifferInBreaks(t *testing.T) {
	if got, want := linesApart([]byte("{}\n"), []byte("{}")), "3 bytes were registered, 2 were made"; got != want {
		t.Errorf("texts with and without a break at the end: got %q, want %q", got, want)
	}
}
