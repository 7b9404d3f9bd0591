package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coppice/sweep"
)

func TestReportAndPlot(t *testing.T) {
	w := newWorld(t)
	w.staged()
	w.jobs.run = w.concluded(sweep.OutcomeWinner)
	w.must("sweep", w.file("sweep.yaml", sweepYAML), "--id", "night-1")

	out := filepath.Join(w.dir, "page.html")
	if said := w.must("report", "night-1", "--out", out); !strings.Contains(said, "wrote "+out) {
		t.Errorf("report said %q", said)
	}
	first, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if text := string(first); !strings.HasPrefix(text, "<!doctype html>") || !strings.Contains(text, "The winner: trial 3") || !strings.Contains(text, "num_leaves") {
		t.Errorf("the page is %.300q", text)
	}
	if again := w.must("report", "night-1", "--out", "-"); again != string(first) {
		t.Error("written twice, the page has other bytes")
	}

	svg := w.must("plot", "night-1", "parallel", "--out", "-")
	if !strings.HasPrefix(svg, "<svg ") || !strings.Contains(svg, "num_leaves") || !strings.Contains(svg, "<style>") {
		t.Errorf("the drawing is %.200q", svg)
	}

	w.refused(sweep.ExitUsage, "--out", "report", "night-1")
	w.refused(sweep.ExitUsage, `no plot "pareto"`, "plot", "night-1", "pareto", "--out", "-")
	w.refused(sweep.ExitNotFound, "nothing to draw as curves", "plot", "night-1", "curves", "--out", "-")
	w.refused(sweep.ExitNotFound, "there is no sweep", "report", "night-2", "--out", "-")
	w.refused(sweep.ExitNotFound, "write", "report", "night-1", "--out", filepath.Join(w.dir, "no", "folder.html"))
}
