package sweep_test

import (
	"slices"
	"strings"
	"testing"

	"coppice/internal/sweep"
)

// TestStopFillsWhatTheSpecLeavesOpen: trials are compared by rows where the table has enough of them, unless the metric
// is of ranks.
func TestStopFillsWhatTheSpecLeavesOpen(t *testing.T) {
	asha := func(by string, eta int) sweep.Stop { return sweep.Stop{Rule: sweep.StopASHA, By: by, Eta: eta} }
	for _, c := range []struct {
		given       sweep.Stop
		trees, rows int
		rankOnly    bool
		want        sweep.Stop
		fits        bool
	}{
		{asha("", 0), 100, 1_000_000, false, sweep.Stop{By: sweep.ByRows, Eta: 5, OneIn: 25, Rungs: []int{4}}, true},
		{asha("", 3), 270, 1_000_000, false, sweep.Stop{By: sweep.ByRows, Eta: 3, OneIn: 9, Rungs: []int{30}}, true},
		{asha("", 0), 10, 49_999, false, sweep.Stop{By: sweep.ByRows, Eta: 5, OneIn: 5, Rungs: []int{2}}, true},
		{asha("", 0), 10, 50_000, false, sweep.Stop{By: sweep.ByRows, Eta: 5, OneIn: 25, Rungs: []int{1}}, true},
		{asha("", 0), 100, 9_999, false, sweep.Stop{By: sweep.ByTrees, Eta: 3}, true},
		{asha(sweep.ByTrees, 0), 100, 1_000_000, false, sweep.Stop{By: sweep.ByTrees, Eta: 3}, true},
		{asha(sweep.ByRows, 0), 100, 9_999, false, sweep.Stop{By: sweep.ByRows, Eta: 5}, false},
		{asha("", 0), 100, 1_000_000, true, sweep.Stop{By: sweep.ByTrees, Eta: 3}, true},
		{asha(sweep.ByRows, 0), 100, 1_000_000, true, sweep.Stop{By: sweep.ByRows, Eta: 5, OneIn: 25, Rungs: []int{4}},
			true},
	} {
		got := c.given
		fits := got.Fill(c.trees, c.rows, c.rankOnly)
		if fits != c.fits || got.By != c.want.By || got.Eta != c.want.Eta || got.OneIn != c.want.OneIn ||
			!slices.Equal(got.Rungs, c.want.Rungs) {
			t.Errorf("%+v with %d trees, %d rows, a metric of ranks %t: got %+v, fits %t; want %+v, %t", c.given,
				c.trees, c.rows, c.rankOnly, got, fits, c.want, c.fits)
		}
	}

	rows, trees := sweep.Stop{By: sweep.ByRows, OneIn: 16, Rungs: []int{4}}, sweep.Stop{Rungs: []int{10, 30}}
	if got := rows.Reached(4); got != "on one row in 16" {
		t.Errorf("by rows, the rung is reached %q, want on one row in 16", got)
	}
	if got := trees.Reached(10); got != "at 10 trees" {
		t.Errorf("by trees, the first rung is reached %q, want at 10 trees", got)
	}
}

// TestStopByIsChecked: what cannot be compared is refused, at its place.
func TestStopByIsChecked(t *testing.T) {
	for stop, want := range map[string]string{
		"{rule: asha, by: rows}":               "",
		"{rule: hyperband, by: rows}":          "",
		"{rule: asha, by: rows, min_trees: 5}": "min_trees is the first rung by: trees",
		"{rule: asha, by: row}":                `unknown "row"`,
		"{rule: median}":                       "unknown rule",
	} {
		_, err := sweep.ParseSpec("sweep.yaml",
			[]byte(strings.Replace(good, "search:\n", "search:\n  stop: "+stop+"\n", 1)), words())
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("stop: %s: got error %v, want %q", stop, err, want)
		}
	}
}

// TestSeenRungsAreBounded: a damaged decision does not cost a search more than a sweep's rungs can.
func TestSeenRungsAreBounded(t *testing.T) {
	for rungs, ok := range map[string]bool{
		`{"step": 3, "score": 0.5}, {"step": 9, "score": 0.6}`:          true,
		`{"step": 9, "score": 0.6}, {"step": 3, "score": 0.5}`:          false,
		`{"step": 3}` + strings.Repeat(`, {"step": 3, "score": 1}`, 40): false,
	} {
		text := `{"format": 1, "sweep": "test-1", "trial": 2, "params": {"a": 1}, "own": {"a": 1}, "seen": ` +
			`[{"trial": 1, "status": "stopped", "score": 0.5, "rungs": [` + rungs + `]}]}`
		if _, err := sweep.DecodeDecision([]byte(text)); (err == nil) != ok {
			t.Errorf("a decision that has seen rungs %.60s: error %v; want it to be read: %t", rungs, err, ok)
		}
	}
}
