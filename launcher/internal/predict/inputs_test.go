package predict

import (
	"testing"

	"coppice/internal/dataset/cell"
	"coppice/internal/must"
)

// TestRowsOfTheTraining: in the rows of the training no id is unseen, and those that would be unseen elsewhere are
// rare. So many rare ids alone are no warning, if they are not more than rare and unseen ones together usually are.
// Many more unseen ids are, and so are many more rare ones where none is usually unseen. "Many" is twice the usual.
func TestRowsOfTheTraining(t *testing.T) {
	inputs := func(unseen, rare int64) *cell.Inputs {
		title := cell.InputCount{Column: "title", IDs: true, Unseen: unseen, Rare: rare}
		return &cell.Inputs{Rows: 1000, Columns: []cell.InputCount{title}}
	}
	// Usual are 480 unseen and 267 rare of 1,000, together 747. So 720 and 980 rare ones are more than twice 267, but
	// less than twice 747, and 970 unseen ones are more than twice 480.
	for _, tc := range []struct {
		unseen, rare int64
		warnings     int
	}{{0, 720, 0}, {100, 100, 0}, {0, 980, 0}, {970, 10, 1}} {
		r := Result{Inputs: compare(inputs(tc.unseen, tc.rare), inputs(480, 267))}
		if got := r.Warnings(); len(got) != tc.warnings {
			t.Errorf("%d unseen and %d rare of 1,000, held out 480 and 267: got %q, want %d warnings", tc.unseen,
				tc.rare, got, tc.warnings)
		}
	}
	r := Result{Inputs: compare(inputs(0, 720), inputs(0, 267))}
	if got := r.Warnings(); len(got) != 1 {
		t.Errorf("720 rare of 1,000, held out 267, and none unseen: got %q, want a warning", got)
	}
}

// TestNamesOfOutputs: an output is named by what follows the folders before the first special character of the pattern.
// So a folder that is the pattern keeps its own name, and folders that a glob matches keep theirs. The suffix becomes
// .parquet or .csv.
func TestNamesOfOutputs(t *testing.T) {
	for _, tc := range []struct{ pattern, name, want string }{
		{"in/clicks", "in/clicks/a.csv", "out/clicks/a.csv"},
		{"in/clicks/", "in/clicks/b/a.tsv.gz", "out/clicks/b/a.csv"},
		{"clicks", "clicks/a.parquet", "out/clicks/a.parquet"},
		{"in/clicks/*.csv", "in/clicks/a.csv", "out/a.csv"},
		{"in/day-*/*.csv", "in/day-1/a.csv", "out/day-1/a.csv"},
		{"in/a.pq", "in/a.pq", "out/a.parquet"},
		{"*.CSV", "a.CSV", "out/a.csv"},
		{"in/*", "in/İzmir.CSV.gz", "out/İzmir.csv"}, // İ has two bytes, and in lower case one
	} {
		q := Bucket{Pattern: tc.pattern, Prefix: "out/"}
		must.Equal(t, q.outputName(tc.name), tc.want, "%s, which matches %s: the output", tc.name, tc.pattern)
	}
}
