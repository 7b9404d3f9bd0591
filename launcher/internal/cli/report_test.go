package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coppice/internal/must"
	"coppice/internal/registry"
	"coppice/internal/sweep"
)

func TestReport(t *testing.T) {
	w := newWorld(t)
	w.staged()
	w.jobs.run = w.concluded(sweep.OutcomeWinner)
	w.must("sweep", w.file("sweep.yaml", sweepYAML), "--id", "night-1")

	out := filepath.Join(w.dir, "page.html")
	if said := w.must("report", "night-1", "--out", out); !strings.Contains(said, "wrote "+out) {
		t.Errorf("report said %q", said)
	}
	first := must.Get(os.ReadFile(out))(t)
	if text := string(first); !strings.HasPrefix(text, "<!doctype html>") ||
		!strings.Contains(text, "became the champion") || !strings.Contains(text, "num_leaves") {
		t.Errorf("the page is %.300q", text)
	}
	if again := w.must("report", "night-1", "--out", "-"); again != string(first) {
		t.Error("written twice, the page has other bytes")
	}

	v := must.Get(registry.New(w.buckets["registry"]).Register(t.Context(), "ctr", "night-1",
		map[string][]byte{"model.txt": []byte("{")},
		registry.Info{At: w.now, By: "test", Why: "best", Metrics: map[string]float64{"auc": 0.61},
			Labels: map[string]string{"sweep": "night-1", "dataset": "clicks@0"}}))(t)
	must.Get(registry.New(w.buckets["registry"]).Promote(t.Context(), "ctr", v.Number, registry.Expect{},
		registry.Act{By: "test", Why: "because", At: w.now}))(t)
	if text := w.must("report", "ctr", "--out", "-"); !strings.Contains(text, "Version 1 is live") ||
		!strings.Contains(text, "clicks@0") || !strings.Contains(text, "model.txt") {
		t.Errorf("the model's page is %.2000q", text)
	}

	if text := w.must("report", "clicks", "--out", "-"); !strings.Contains(text, "Night by night") ||
		!strings.Contains(text, "campaign_id") || !strings.Contains(text, "night-1") {
		t.Errorf("the dataset's page is %.2000q", text)
	}
	w.refused(sweep.ExitUsage, "a model's page has all its versions", "report", "ctr@champion", "--out", "-")
	if text := w.must("report", "model:ctr", "--out", "-"); !strings.Contains(text, "Version 1 is live") {
		t.Errorf("the page of model:ctr is %.300q", text)
	}
	w.refused(sweep.ExitNotFound, "dataset ctr is not staged", "report", "dataset:ctr", "--out", "-")

	w.refused(sweep.ExitUsage, "--out", "report", "night-1")
	w.refused(sweep.ExitNotFound, "there is no sweep", "report", "night-2", "--out", "-")
	w.refused(sweep.ExitUsage, "does not exist", "report", "night-1", "--out",
		filepath.Join(w.dir, "no", "folder.html"))
}

// TestANameOfSeveralKinds: the page is that of the first kind, and the others are named.
func TestANameOfSeveralKinds(t *testing.T) {
	w := newWorld(t)
	w.staged()
	w.register(1)
	w.must("sweep", w.file("sweep.yaml", sweepYAML), "--id", "clicks", "--no-wait")
	out := filepath.Join(w.dir, "page.html")
	for name, want := range map[string]string{
		"clicks":         "note: this is the page of sweep:clicks; there is dataset:clicks, too\n",
		"dataset:clicks": "",
		"ctr":            "",
	} {
		if code, _, said := w.run("report", name, "--out", out); code != 0 || said != want {
			t.Errorf("report %s ended with %d and said %q; want %q", name, code, said, want)
		}
	}
}
