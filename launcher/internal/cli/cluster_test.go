package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"coppice/internal/engine"
	"coppice/internal/must"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// swept runs a sweep that ends at once, and returns its id.
func (w *world) swept(file string) string {
	w.t.Helper()
	var s struct{ Sweep string }
	must.Do(w.t, json.Unmarshal([]byte(w.must("sweep", file, "--no-wait", "--json")), &s))
	return s.Sweep
}

// TestACluster: machines that are described have no price: neither plan, bill nor page makes one up.
func TestACluster(t *testing.T) {
	w := newWorld(t)
	w.free = true
	w.staged()
	w.jobs.run = w.concluded(sweep.OutcomeWinner)
	file := w.file("sweep.yaml", strings.Replace(sweepYAML, "{type: n2-highmem-2, threads_per_task: 1}",
		"{vcpus: 2, memory: 16, threads_per_task: 1}", 1))
	says := "1 x custom-2-16384, of a cluster, without a price: 3 min"
	if out := w.must("plan", file); !strings.HasPrefix(out, says) {
		t.Errorf("plan says\n%s", out)
	}
	id := w.swept(file)
	if out := w.must("bill", id); strings.Contains(out, "$0") || !strings.Contains(out, "no price") {
		t.Errorf("bill says\n%s", out)
	}
	page := filepath.Join(t.TempDir(), "sweep.html")
	w.must("report", id, "--out", page)
	if text := string(must.Get(os.ReadFile(page))(t)); strings.Contains(text, "What it cost") {
		t.Error("the page of a sweep on a cluster says what it cost")
	}
}

// TestWaitingForDays: a job of an ended sweep that still waits for machines is cancelled days later, too.
func TestWaitingForDays(t *testing.T) {
	w := newWorld(t)
	w.staged()
	w.jobs.run = w.concluded(sweep.OutcomeWinner)
	id := w.swept(w.file("sweep.yaml", sweepYAML))
	must.Get(sweepstore.New(w.buckets["sweeps"], sweep.ID(id)).CreateEnding(t.Context(), sweep.Ending{Format: 1,
		Sweep: sweep.ID(id), Trials: []int{0}, At: w.now}))(t)
	w.jobs.status, w.now = &engine.JobStatus{State: engine.Waiting}, w.now.Add(5*24*time.Hour)
	w.must("watch", id)
	if !w.jobs.cancelled {
		t.Error("after five days the job waits for machines on")
	}
}
