package cli

import (
	"strings"
	"testing"
	"unicode/utf8"

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
	w.must("registry", "promote", "ctr@1")
	w.must("registry", "promote", "ctr@2", "--why", strings.Repeat("a long reason ", 10))
	for _, line := range []string{"stage " + w.dir + "/dataset.yaml", "plan " + file, "plan " + file +
		" --rows 130000000 --features 40", "sweep " + file + " --dry-run --id another", "ls",
		"leaderboard nightly-ctr-20261120-0300", "leaderboard nightly-ctr-20261120-0300 --curves",
		"status nightly-ctr-20261120-0300", "why nightly-ctr-20261120-0300 1", "bill nightly-ctr-20261120-0300",
		"bill nightly-ctr-20261120-0300 --attempts", "datasets list", "datasets show clicks", "registry list",
		"registry list ctr", "registry show ctr", "registry history ctr", "registry history ctr --at 2030-01-01",
		"registry verify", "clean"} {
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
