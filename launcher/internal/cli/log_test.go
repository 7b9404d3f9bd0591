package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"coppice/internal/sweep"
)

// TestLogOfALauncherNobodyWatches runs the launcher as a Cloud Run job: its log can be found by the sweep's trace.
func TestLogOfALauncherNobodyWatches(t *testing.T) {
	w := newWorld(t)
	w.staged()
	if _, _, errOut := w.run("sweep", w.file("sweep.yaml", sweepYAML), "--no-wait", "--id", "night-0"); errOut != "" {
		t.Errorf("people get no log lines: %s", errOut)
	}
	w.env = map[string]string{"COPPICE_LOG": "json"}
	code, _, errOut := w.run("sweep", w.file("sweep.yaml", sweepYAML), "--no-wait", "--id", "night-1")
	var line map[string]any
	if err := json.Unmarshal([]byte(errOut), &line); err != nil || code != 0 {
		t.Fatalf("%d, %v in %s", code, err, errOut)
	}
	if line["message"] != "sweep submitted" || line["logging.googleapis.com/trace"] != "projects/p/traces/"+
		sweep.ID("night-1").Trace() {
		t.Errorf(`the log line is %v; want "sweep submitted" with the sweep's trace`, line)
	}
	if _, _, errOut = w.run("watch", "no-such-sweep"); !strings.Contains(errOut, `"severity":"ERROR"`) {
		t.Errorf("watched a sweep that does not exist: got %s; want a log line of severity ERROR", errOut)
	}
}
