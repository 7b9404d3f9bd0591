package cli

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"coppice/internal/blob"
	"coppice/internal/sweep"
)

// TestTablesFitEightyColumns: those of every command that prints one, on the most usual terminal.
func TestTablesFitEightyColumns(t *testing.T) {
	w := newWorld(t)
	w.env = map[string]string{"NO_COLOR": "1"}
	w.screen = true
	w.staged()
	file := w.file("sweep.yaml", sweepYAML)
	w.jobs.run = w.concluded(sweep.OutcomeWinner)
	w.must("sweep", file, "--id", "nightly-ctr-20261120-0300")
	w.register(2)
	w.must("registry", "promote", "ctr@1", "--why", "a test")
	w.must("registry", "promote", "ctr@2", "--why", strings.Repeat("a long reason ", 10))
	for _, line := range []string{"stage " + w.dir + "/dataset.yaml", "plan " + file, "plan " + file +
		" --rows 130000000 --features 40", "sweep " + file + " --dry-run --id another", "status",
		"leaderboard nightly-ctr-20261120-0300",
		"status nightly-ctr-20261120-0300", "bill nightly-ctr-20261120-0300",
		"bill nightly-ctr-20261120-0300", "datasets list", "datasets show clicks", "registry list",
		"registry list ctr", "registry show ctr", "registry show ctr --history", "registry show ctr --verify",
		"clean", "nights ctr"} {
		out, tables := w.must(strings.Fields(line)...), 0
		for _, row := range strings.Split(out, "\n") {
			if !strings.ContainsAny(row, "│┌├└") {
				continue
			}
			tables++
			if n := utf8.RuneCountInString(row); n > 80 {
				t.Errorf("%s: a row of %d characters: %s", line, n, row)
				break
			}
		}
		if tables == 0 {
			t.Errorf("%s printed no table:\n%s", line, out)
		}
		if testing.Verbose() {
			t.Logf("%s\n%s", line, out)
		}
	}
}

// TestPlanFitsItsTerminal: every line about every sweep that ships, sentences too, is as wide as the terminal, 80
// columns; the line to paste may be longer, but not over 100.
func TestPlanFitsItsTerminal(t *testing.T) {
	w := newWorld(t)
	w.env, w.screen = map[string]string{"NO_COLOR": "1"}, true
	planned := 0
	for name, text := range shipped(t) {
		if !strings.Contains(text, "\nmodel: ") {
			continue
		}
		planned++
		out := w.must("plan", w.file("sweep.yaml", text), "--rows", "130000000", "--features", "40")
		for line := range strings.Lines(out) {
			most := 80
			if strings.HasPrefix(line, "machine: ") {
				most = 100
			}
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > most {
				t.Errorf("%s: a line of %d characters, want at most %d: %s", name, n, most, line)
			}
		}
	}
	if planned < 4 {
		t.Errorf("%d sweeps were planned, want those of examples, terraform and docs", planned)
	}
}

// TestLatest: @latest means the newest.
func TestLatest(t *testing.T) {
	w := newWorld(t)
	w.staged()
	file := w.file("sweep.yaml", sweepYAML)
	for _, id := range []string{"z-first", "a-second"} {
		w.must("sweep", file, "--id", id, "--no-wait")
		w.now = w.now.Add(time.Hour)
	}
	w.register(2)
	w.must("registry", "promote", "ctr@1", "--why", "a test")
	if out := w.must("status", "@latest"); !strings.Contains(out, "a-second") {
		t.Errorf("status @latest shows\n%s\nexpected the sweep planned last", out)
	}
	for ref, number := range map[string]string{"ctr": "ctr@1", "ctr@latest": "ctr@2"} {
		if out := w.must("registry", "show", ref); !strings.Contains(out, "│ "+number) {
			t.Errorf("registry show %s shows\n%s\nexpected %s", ref, out, number)
		}
	}
	if out := w.must("datasets", "show", "clicks@latest"); !strings.Contains(out, "│ because") {
		t.Errorf("datasets show shows\n%s\nexpected the types of columns", out)
	}
	w.buckets["sweeps"] = blob.Memory()
	w.refused(sweep.ExitNotFound, "there is no sweep yet", "status", "@latest")
}
