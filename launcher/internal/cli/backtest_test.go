package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coppice/internal/dataset/datasettest"
	"coppice/internal/sweep"
	"coppice/launcher/internal/backtest"
)

// TestBacktestCommand needs no cloud, reads paths relative to the specs' folders, and keeps its output.
func TestBacktestCommand(t *testing.T) {
	w := newWorld(t)
	w.file("clicks.csv", string(datasettest.Table(datasettest.Options{Rows: 4000}))) // 20 days of November
	w.file("dataset.yaml", "name: clicks\nsource: clicks.csv\nlabel: is_click\ndrop: [revenue]\nencodings: none\n"+
		"split: {by: time, column: day, train: 0.7, valid: 0.1, calib: 0.1, test: 0.1}\n")
	spec := w.file("backtest.yaml",
		"dataset: dataset.yaml\nfrom: 2026-11-10\nto: 2026-11-12\nwindow: 8\nparams: {num_iterations: 3}\n")
	out := filepath.Join(w.dir, "out")
	text := w.must("backtest", spec, "--out", out)
	for _, part := range []string{"2026-11-12", "gain over yesterday's", "beyond chance", "every night",
		"backtest.html"} {
		if !strings.Contains(text, part) {
			t.Errorf("the output has no %q:\n%s", part, text)
		}
	}

	var kept, printed backtest.Results
	file, err := os.ReadFile(filepath.Join(out, "backtest.json"))
	if err != nil {
		t.Fatal(err)
	}
	again := w.must("backtest", spec, "--json", "--threads", "1")
	if err := json.Unmarshal([]byte(again), &printed); err != nil || json.Unmarshal(file, &kept) != nil ||
		string(file) != again || len(kept.Nights) != 3 {
		t.Errorf("--json with one thread prints something else than was kept (%v)", err)
	}

	page, err := os.ReadFile(filepath.Join(out, "backtest.html"))
	if err != nil || w.must("report", filepath.Join(out, "backtest.json"), "--out", "-") != string(page) {
		t.Errorf("report makes another page of what was kept (%v)", err)
	}
	w.refused(sweep.ExitInput, "not a backtest.json", "report", w.file("other.json", "{}"), "--out", "-")

	w.refused(sweep.ExitInput, "no row on 2026-11-21", "backtest",
		w.file("late.yaml", "dataset: dataset.yaml\nfrom: 2026-11-20\nto: 2026-11-20\nwindow: 8\nparams: "+
			"{num_iterations: 3}\n"))
	w.refused(sweep.ExitNotFound, "nowhere.yaml", "backtest",
		w.file("lost.yaml", "dataset: nowhere.yaml\nfrom: 2026-11-10\nto: 2026-11-12\n"))
	w.refused(sweep.ExitInput, "backtest.yaml", "backtest",
		w.file("wrong/../backtest.yaml", "dataset: dataset.yaml\nfrom: tomorrow\nto: 2026-11-12\n"))
}

// TestBacktestBatchRefuses requests for which no machine should be started, with the remedy.
func TestBacktestBatchRefuses(t *testing.T) {
	w := newWorld(t)
	nights := "from: 2026-11-10\nto: 2026-11-12\nwindow: 8\n"
	w.file("here.yaml", "name: clicks\nsource: clicks.csv\nlabel: is_click\n")
	w.file("cloud.yaml",
		"name: clicks\nsource: gs://datasets/none/*.csv\nlabel: {column: is_click, matures: 48h, at: day}\n")
	here, cloud := w.file("a.yaml", "dataset: here.yaml\ntime: day\n"+nights),
		w.file("b.yaml", "dataset: cloud.yaml\ntime: day\n"+nights)
	for says, c := range map[string]struct {
		code int
		args []string
	}{
		"gcloud storage cp":            {sweep.ExitUsage, []string{here, "--batch"}},
		"use --batch to run there":     {sweep.ExitInput, []string{cloud}},
		"none/*.csv":                   {sweep.ExitNotFound, []string{cloud, "--batch"}},
		"--scratch has no effect with": {sweep.ExitUsage, []string{cloud, "--batch", "--scratch", w.dir}},
		"--spot has no effect without": {sweep.ExitUsage, []string{cloud, "--spot"}},
		"q9-big-4":                     {sweep.ExitUsage, []string{cloud, "--batch", "--machine", "q9-big-4"}},
		"the dataset is not split by": {sweep.ExitInput,
			[]string{w.file("c.yaml", "dataset: cloud.yaml\n"+nights), "--batch"}},
		"labels are final only after 2 day": {sweep.ExitInput,
			[]string{w.file("d.yaml", "dataset: cloud.yaml\ntime: day\ndelay: 1\n"+nights), "--batch"}},
	} {
		w.refused(c.code, says, append([]string{"backtest"}, c.args...)...)
	}
}
