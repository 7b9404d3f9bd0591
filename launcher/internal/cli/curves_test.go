package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/sweep"
)

// TestLeaderboardWithCurves: trial 3 has curves of two claims, trial 2 a damaged one, the others none.
func TestLeaderboardWithCurves(t *testing.T) {
	w := newWorld(t)
	w.staged()
	w.jobs.run = w.concluded(sweep.OutcomeWinner)
	w.must("sweep", w.file("sweep.yaml", sweepYAML), "--id", "night-1")
	if out := w.must("leaderboard", "night-1", "--curves"); !strings.Contains(out,
		"no trial of sweep night-1 has a learning curve") {
		t.Errorf("without curves it shows\n%s", out)
	}

	names := sweep.Names("night-1")
	for claim, scores := range [][]float64{{0.5, 0.6, 0.7}, {0.65, 0.9}} {
		c := sweep.Curve{Format: 1, Sweep: "night-1", Trial: 3, Claim: claim, Metric: "auc", First: 1 + 2*claim,
			Every: 1, Scores: scores}
		for _, name := range []string{names.Claim(3, claim), names.Curve(3, claim)} {
			if _, err := blobtest.CreateJSON(t.Context(), w.buckets["sweeps"], name, c); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, name := range []string{names.Claim(2, 0), names.Curve(2, 0)} {
		if _, err := blob.Create(t.Context(), w.buckets["sweeps"], name, []byte("{")); err != nil {
			t.Fatal(err)
		}
	}

	if out := w.must("leaderboard", "night-1", "--curves"); !strings.Contains(out, "▁▃▄█") ||
		!strings.Contains(out, "0.5 to 0.9") {
		t.Errorf("it shows\n%s\nwant the four scores of trial 3 as ▁▃▄█, and their span", out)
	}
	if out := w.must("watch", "night-1"); !strings.Contains(out, " ▁▃▄█  |  ") {
		t.Errorf("watching shows\n%s\nwant the curve of trial 3, ▁▃▄█, on its line", out)
	}
	w.screen = true
	out := w.must("watch", "night-1")
	if !strings.Contains(out, " ▁▃▄█\n") || strings.Contains(out, "training has begun") {
		t.Errorf("watching on a terminal shows\n%s\nwant the curve of trial 3, ▁▃▄█, at the end of its line, and "+
			"what the job does beside the bar alone", out)
	}
	var got boardWithCurves
	if err := json.Unmarshal([]byte(w.must("leaderboard", "night-1", "--curves", "--json")), &got); err != nil ||
		len(got.Rows) != 4 || len(got.Curves) != 1 || len(got.Curves[3]) != 4 {
		t.Errorf("as JSON: %d rows, curves %v, %v; want 4 rows and four scores of trial 3", len(got.Rows), got.Curves,
			err)
	}
}
