package program_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"testing/slogtest"

	"github.com/google/go-cmp/cmp"

	"coppice/internal/program"
	"coppice/internal/sweep"
)

// lines decodes what was logged.
func lines(t *testing.T, b *bytes.Buffer) []map[string]any {
	t.Helper()
	var all []map[string]any
	for line := range strings.Lines(b.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		all = append(all, m)
	}
	return all
}

func TestLoggerSpeaksCloudLogging(t *testing.T) {
	var b bytes.Buffer
	log := program.Logger(&b, program.LogOrigin{Program: "task", Version: "v1", Project: "p"})
	log.With("sweep", sweep.ID("s-1")).Warn("careful", "trial", 3)
	line := lines(t, &b)[0]
	source, ok := line["logging.googleapis.com/sourceLocation"].(map[string]any)
	if !ok || !strings.HasSuffix(source["file"].(string), "program/log_test.go") ||
		!strings.HasSuffix(source["function"].(string), "TestLoggerSpeaksCloudLogging") {
		t.Errorf("source %v", source)
	}
	if _, ok := source["line"].(string); !ok {
		t.Errorf("line %v: a 64-bit integer in JSON is a string", source["line"])
	}
	if time, ok := line["time"].(string); !ok || !strings.Contains(time, "T") {
		t.Errorf("time %v", line["time"])
	}
	delete(line, "time")
	delete(line, "logging.googleapis.com/sourceLocation")
	want := map[string]any{
		"severity": "WARNING", "message": "careful", "sweep": "s-1", "trial": 3.0,
		"logging.googleapis.com/trace":  "projects/p/traces/" + sweep.ID("s-1").Trace(),
		"logging.googleapis.com/spanId": sweep.ID("s-1").Span("trial", "3"),
		"logging.googleapis.com/labels": map[string]any{"coppice_program": "task", "coppice_version": "v1",
			"coppice_sweep": "s-1"},
	}
	if d := cmp.Diff(want, line); d != "" {
		t.Errorf("the log line differs from what Cloud Logging expects (-want +got):\n%s", d)
	}
}

func TestLoggerOutsideOfASweep(t *testing.T) {
	var b bytes.Buffer
	log := program.Logger(&b, program.LogOrigin{Program: "aggregator", Version: "v1"})
	log.Error("none")
	log.Info("no id", "sweep", "../x")
	log.Info("no project", "sweep", "s-1")
	log.WithGroup("g").With("sweep", "s-1").Info("inside of a group it is something else")
	all := lines(t, &b)
	for _, i := range []int{0, 1, 3} {
		if _, ok := all[i]["logging.googleapis.com/trace"]; ok {
			t.Errorf("a trace in %v", all[i])
		}
	}
	if all[0]["severity"] != "ERROR" || all[2]["logging.googleapis.com/trace"] != sweep.ID("s-1").Trace() ||
		all[2]["logging.googleapis.com/spanId"] != sweep.ID("s-1").Span("aggregator") {
		t.Errorf("got %v; want the first line with ERROR, the third with trace and span of the sweep", all)
	}
}

func TestSeverities(t *testing.T) {
	var b bytes.Buffer
	log := program.Logger(&b, program.LogOrigin{})
	for _, l := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelInfo + 1, slog.LevelWarn, slog.LevelError,
		slog.LevelError + 4} {
		log.Log(t.Context(), l, "x")
	}
	var got []string
	for _, line := range lines(t, &b) {
		got = append(got, line["severity"].(string))
	}
	if d := cmp.Diff([]string{"INFO", "INFO", "WARNING", "ERROR", "ERROR"}, got); d != "" { // DEBUG is off
		t.Errorf("the severities differ (-want +got):\n%s", d)
	}
}

// TestHandler is slog's own suite for handlers, with our names given back.
func TestHandler(t *testing.T) {
	var b bytes.Buffer
	err := slogtest.TestHandler(program.Logger(&b, program.LogOrigin{}).Handler(), func() []map[string]any {
		all := lines(t, &b)
		for _, line := range all {
			for ours, theirs := range map[string]string{"severity": slog.LevelKey, "message": slog.MessageKey} {
				line[theirs] = line[ours]
				delete(line, ours)
			}
			delete(line, "logging.googleapis.com/labels")
			delete(line, "logging.googleapis.com/sourceLocation")
		}
		return all
	})
	if err != nil {
		t.Error(err)
	}
}
