package page

import (
	"testing"

	"coppice/internal/must"
)

// TestAConstantIsNoCategory: a feature that has the same value in all rows, so that every rank is the middle one, has
// no direction, but is no category. A category's values have no ranks (NaN).
func TestAConstantIsNoCategory(t *testing.T) {
	none := orNaN(0, false)
	for want, ranks := range map[string][]float64{"mixed": {0.5, 0.5, none}, "by category": {none, none, none},
		"higher values raise": {0, 1, none}} {
		rows := effectRows([]Effect{{Feature: "a", Shap: []float64{-1, 2, 3}, Rank: ranks}})
		must.Equal(t, rows[0].Way, want, "ranks %v", ranks)
	}
}
