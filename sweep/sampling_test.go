package sweep_test

import (
	"slices"
	"strings"
	"testing"

	"coppice/sweep"
)

// TestSamples: samples grow by eta, up to three of them, none too small to compare trials by.
func TestSamples(t *testing.T) {
	for _, c := range []struct {
		eta, trees, rows int
		want             []int
	}{
		{3, 270, 1_000_000, []int{10, 30, 90}},
		{3, 270, 30_000, []int{10, 30, 90}},
		{3, 270, 20_000, []int{30, 90}},
		{3, 270, 2_000, nil},
		{3, 2, 1_000_000, nil},
		{4, 20, 1_000_000, []int{1, 5}},
	} {
		s := sweep.Stop{By: sweep.ByRows, Eta: c.eta}
		s.Rungs = s.Samples(c.trees, c.rows)
		if !slices.Equal(s.Rungs, c.want) {
			t.Errorf("eta %d, %d trees, %d rows: rungs %v, want %v", c.eta, c.trees, c.rows, s.Rungs, c.want)
		}
		for i := range s.Rungs {
			if of := s.OneIn(i); c.rows/of < 1000 || i == len(s.Rungs)-1 && of != c.eta {
				t.Errorf("eta %d, %d rows: rung %d of %v is one row in %d; want 1,000 rows at least, and one in %d at the last", c.eta, c.rows, i, s.Rungs, of, c.eta)
			}
		}
	}

	s := sweep.Stop{By: sweep.ByRows, Eta: 3, Rungs: []int{10, 30, 90}}
	if got := s.Reached(10); got != "on one row in 27" {
		t.Errorf("the first of %v is reached %q, want on one row in 27", s.Rungs, got)
	}
	if s.By = ""; s.Reached(10) != "at 10 trees" {
		t.Errorf("by trees, the first of %v is reached %q, want at 10 trees", s.Rungs, s.Reached(10))
	}
}

// TestStopByIsChecked: what cannot be compared is refused, at its place.
func TestStopByIsChecked(t *testing.T) {
	for stop, want := range map[string]string{
		"{rule: asha, by: rows}":      "",
		"{rule: hyperband, by: rows}": "",
		"{rule: median, by: trees}":   "",
		"{rule: asha, by: row}":       `unknown "row"`,
		"{rule: median, by: rows}":    "compares whole curves",
	} {
		_, err := sweep.ParseSpec("sweep.yaml", []byte(strings.Replace(good, "search:\n", "search:\n  stop: "+stop+"\n", 1)), words())
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("stop: %s: got error %v, want %q", stop, err, want)
		}
	}
}
