package segment_test

import (
	"fmt"
	"math"
	"reflect"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/dataset/segment"
)

// scorer is a Scorer that knows columns site and id by their levels, and feature x by its bins. Of ids other than 7 and
// 8 it knows nothing (NaN), so that their rows are not counted.
type scorer struct{}

// Levels returns log odds for missing values, other levels, and the two levels that are known.
func (scorer) Levels(column string) ([]string, []float32) {
	switch column {
	case "site":
		return []string{"a", "b"}, []float32{-1, 0.5, 1, 2}
	case "id":
		return []string{"7", "8"}, []float32{0, float32(math.NaN()), 0.1, 0.2}
	}
	return nil, nil
}

// Odds returns log odds for the four bins of x.
func (scorer) Odds(f *dataset.Feature) []float32 {
	if f.Name != "x" {
		return nil
	}
	return []float32{0, 0.25, 0.5, 0.75}
}

func (scorer) Positive([]string) (above, upTo float64, known bool) { return 0, 1, true }
func (scorer) Base() float64                                       { return -3 }

// TestCounts compares the counts of a table with counts made row by row: every row is counted once in each column, by
// its code and score, and once by its part of the table. Batches and threads must make no difference.
func TestCounts(t *testing.T) {
	const n = 5000
	names := []string{"site", "y", "id"}
	features := []dataset.Feature{{Name: "site", Kind: dataset.Categorical}, {Name: "x", Kind: dataset.Numeric}}
	site := func(i int) string { return []string{"a", "b", "c", ""}[i%4] }
	id := func(i int) int64 { return int64(7 + i%3) }
	count := func(batch, threads int) *segment.Counts {
		c := segment.NewCounter(scorer{}, names, 1, features, nil, []string{""}, n)
		for from := 0; from < n; from += batch {
			var columns [3]dataset.Values // site, y and id; y is the label, whose column is not read
			columns[0].Type, columns[2].Type = dataset.Text, dataset.Int
			bins, labels := make([][]uint8, 2), []float32(nil)
			for i := from; i < min(from+batch, n); i++ {
				columns[0].Text = append(columns[0].Text, site(i))
				columns[2].Int = append(columns[2].Int, id(i))
				bins[0] = append(bins[0], 0) // of site, which is counted by its levels instead
				bins[1] = append(bins[1], uint8(i%5%4))
				labels = append(labels, float32(i%7/3))
			}
			c.Add(columns[:], bins, labels, threads)
		}
		return c.Counts()
	}

	got := count(n, 1)
	for _, other := range []*segment.Counts{count(n, 3), count(999, 2)} {
		if !reflect.DeepEqual(got, other) {
			t.Errorf("other batches and threads: got counts %+v, want %+v as from one batch and thread", other, got)
		}
	}

	// Count row by row. Keys are a column (or part of the table), a code (or the number of the part) and a step. The
	// codes are 0 for missing values, 1 for other levels, and from 2 on the levels that the scorer lists; those of x
	// are bins.
	want := map[string]segment.Cell{}
	for i := range n {
		if id(i) == 9 { // its odds are NaN
			continue
		}
		code := map[string]int{"a": 2, "b": 3, "c": 1, "": 0}[site(i)]
		score := []float64{-1, 0.5, 1, 2}[code] + []float64{0.1, 0.2}[id(i)-7] + 0.25*float64(i%5%4)
		step := int(math.Floor(score/segment.ScoreStep)) + segment.ScoreSteps/2
		one := segment.Cell(1)
		if i%7/3 == 1 { // the label is 1, of 0, 1 and 2
			one += 1 << 32
		}
		want[fmt.Sprint("site ", code, step)] += one
		want[fmt.Sprint("id ", id(i)-5, step)] += one // ids 7 and 8 have codes 2 and 3
		want[fmt.Sprint("x ", i%5%4, step)] += one
		want[fmt.Sprint("part ", i*segment.TableParts/n, step)] += one
	}

	// The counts in the same form, without empty cells.
	have := map[string]segment.Cell{}
	for _, c := range got.Columns {
		for at, cell := range c.Cells {
			if cell > 0 {
				have[fmt.Sprint(c.Name, " ", at/segment.ScoreSteps, at%segment.ScoreSteps)] = cell
			}
		}
	}
	for part := range got.Parts {
		for step, cell := range got.Parts[part] {
			if cell > 0 {
				have[fmt.Sprint("part ", part, step)] = cell
			}
		}
	}
	if !reflect.DeepEqual(have, want) {
		t.Errorf("got %d cells with rows:\n%v\nwant %d:\n%v", len(have), have, len(want), want)
	}
}
