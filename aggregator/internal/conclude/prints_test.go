package conclude

import (
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/must"
	"coppice/internal/nights"
)

// TestUnseenByPrints: two tables with other columns are both split at random, so that only hashes of their test rows
// can tell whether a model was trained on the other's test rows. It was not if none are in common and there are
// enough rows for chance not to hide it, or if nearly all are in common.
func TestUnseenByPrints(t *testing.T) {
	// night is a night whose test rows have the values from, from + 1, ... in each column, modulo levels.
	night := func(name string, rows int, from, levels uint32, columns ...string) *origin {
		o := &origin{dataset: name, manifest: &dataset.Manifest{Split: dataset.SplitRule{By: dataset.SplitByRandom}},
			profile: &nights.Profile{Rows: int64(rows) * 10, Columns: []nights.Column{{Name: name}}}, prints: prints{}}
		for _, c := range append(columns, "") {
			for i := range uint32(rows) {
				at := (from + i) % levels
				if c == "" {
					at %= 2
				}
				o.prints[c] = append(o.prints[c], at)
			}
		}
		return o
	}
	// of is the night "a" with so many rows that are all different.
	of := func(rows int, from uint32) *origin { return night("a", rows, from, 1<<30, "site") }
	for name, tc := range map[string]struct {
		test, model *origin
		want        bool
	}{
		"other rows":              {of(2000, 0), night("b", 2000, 5000, 1<<30, "site"), true},
		"a tenth is the same":     {of(2000, 0), night("b", 2000, 1800, 1<<30, "site"), false}, // 1800 to 1999
		"nearly all are":          {of(2000, 0), night("b", 2000, 50, 1<<30, "site"), true},
		"too few to know":         {of(40, 0), night("b", 40, 5000, 1<<30, "site"), false},
		"the label alone":         {of(2000, 0), night("b", 2000, 5000, 1<<30, "place"), false},
		"rows that are all alike": {night("a", 2000, 0, 3, "site"), night("b", 2000, 0, 3, "site"), false},
		"none kept":               {of(0, 0), night("b", 2000, 5000, 1<<30, "site"), false},
	} {
		must.Equal(t, tc.test.unseenBy(tc.model), tc.want, "%s: the test rows are unseen", name)
	}
}
