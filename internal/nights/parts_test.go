package nights

import (
	"slices"
	"testing"

	"coppice/internal/dataset/segment"
)

// TestEqualParts: bins are joined into runs that end with a tenth of the rows each; bins without rows belong to the run
// before them if none with rows comes after.
func TestEqualParts(t *testing.T) {
	for name, tc := range map[string]struct {
		rows  []int // by bin
		want  []int // bins by run
		tenth []int // the last tenth of all rows that is complete at the end of each run
	}{
		"ten bins": {[]int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, []int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
			[]int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
		"one with most":       {[]int{23, 77}, []int{1, 1}, []int{2, 10}},
		"the last ones empty": {[]int{10, 0, 0}, []int{3}, []int{10}},
		"the first one empty": {[]int{0, 5, 5}, []int{2, 1}, []int{5, 10}},
		"no rows":             {[]int{0, 0}, nil, nil},
	} {
		cellsOf := func(bin int) []segment.Cell { return []segment.Cell{segment.Cell(tc.rows[bin])} }
		var bins, tenths []int
		for _, run := range equalParts(cellsOf, len(tc.rows)) {
			bins, tenths = append(bins, len(run.bins)), append(tenths, run.tenth)
		}
		if !slices.Equal(bins, tc.want) || !slices.Equal(tenths, tc.tenth) {
			t.Errorf("%s: runs of %d bins up to tenths %d, want %d and %d", name, bins, tenths, tc.want, tc.tenth)
		}
	}
}
