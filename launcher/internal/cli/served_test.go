package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/dataset/cell"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
	"coppice/launcher/internal/served"
)

// TestServed: hours that servers have kept are shown, one that is unlike the test rows ends with the exit code of a bad
// night, and may start a sweep.
func TestServed(t *testing.T) {
	w := newWorld(t)
	w.staged()
	if out := w.must("served", "ctr"); !strings.Contains(out, "no server of ctr has recorded any of these hours") {
		t.Errorf("without an hour: got %s, want that no server has recorded one", out)
	}
	of := func(rows, missing int64) cell.Inputs {
		return cell.Inputs{Rows: rows, Columns: []cell.InputCount{{Column: "site", Missing: missing}}}
	}
	usual, err := json.Marshal(of(10_000, 100))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := registry.New(w.buckets["registry"]).Register(t.Context(), "ctr", "one",
		map[string][]byte{scorer.FileInputs: usual, "model.txt": {'m'}},
		registry.Info{At: w.now, By: "test"}); err != nil {
		t.Fatal(err)
	}
	for hour, missing := range map[int]int64{2: 10, 1: 400} { // hours ago, of 1,000
		if err := served.Keep(t.Context(), w.buckets["sweeps"], "one", served.Kept{Version: "ctr@1",
			Begin: w.now.Add(-time.Duration(hour) * time.Hour), Requests: 20, Rows: 1000, Predicted: 30, Seconds: .2,
			Inputs: of(1000, missing)}); err != nil {
			t.Fatal(err)
		}
	}
	at := w.now.Add(-time.Hour).UTC().Truncate(time.Hour)
	if _, err := blob.Create(t.Context(), w.buckets["sweeps"], "served/ctr/"+at.Format("20060102T15")+"/two.json",
		[]byte("{")); err != nil {
		t.Fatal(err)
	}
	file := w.file("sweep.yaml", sweepYAML)
	code, out, errOut := w.run("served", "ctr", "--then", file, "--budget", "5")
	if code != sweep.ExitBlocked || !strings.Contains(out, "submitted as") || !strings.Contains(out, "1 object could "+
		"not be read; the first: served/ctr/20261121T02/two.json is not the hour of a server") || !strings.Contains(
		errOut, "ctr: 1 of 2 hours need a look, the first is 2026-11-21 02:00 ctr@1: site: 40 % of the values "+
			"are missing") {
		t.Errorf("ended with %d, want %d, the hour of 02:00 and a sweep\n%s\n%s", code, sweep.ExitBlocked, out, errOut)
	}
	w.now = w.now.Add(-time.Hour)
	if out := w.must("served", "ctr", "--last", "1", "--then", file, "--budget", "5"); strings.Contains(out, "sweep") ||
		!strings.Contains(out, "1,000") {
		t.Errorf("an hour before: got\n%s\nwant a quiet hour and no word of a sweep", out)
	}
	judged := w.file("judged.json", `{"rows":9,"unlabelled":0,"hours":[{"begin":"2026-11-21T01:00:00Z","rows":900,`+
		`"positive":9,"mean_prediction":0.03,"calibration_ratio":3,"normalized_entropy":1.2,`+
		`"finding":"27 predicted"}]}`)
	html := filepath.Join(t.TempDir(), "day.html")
	w.must("served", "ctr", "--last", "1", "--html", html, "--judged", judged)
	if text, err := os.ReadFile(html); err != nil || !strings.Contains(string(text), "ctr needs a look: 1 of 1 hour") ||
		!strings.Contains(string(text), "2026-11-21 01:00: 27 predicted") ||
		!strings.Contains(string(text), "<code>launcher served ctr --last 1</code>") {
		t.Errorf("got %.300s, %v; want a page with what labels say, and its command", text, err)
	}
	w.refused(sweep.ExitUsage, "--judged is for --html", "served", "ctr", "--judged", judged)
	w.refused(sweep.ExitInput, "is not what `launcher watch-labels --json` prints", "served", "ctr", "--html", html,
		"--judged", html)
	w.refused(sweep.ExitUsage, "--last is 0", "served", "ctr", "--last", "0")
}
