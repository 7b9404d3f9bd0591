package cli

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"coppice/internal/dataset/datasettest"
	"coppice/internal/sweep"
)

// oddHour is a log of answers of which one hour is a finding.
func (w *world) oddHour() string {
	var b strings.Builder
	b.WriteString("time,prediction,click\n")
	for i := range 2000 {
		fmt.Fprintf(&b, "2026-11-20 07:%02d:00,0.1,%d\n", i%60, max(0, 1-i/400))
	}
	return w.file("odd.csv", b.String())
}

// TestThen: after a night a finding starts a sweep of newer rows, with a budget, and no second one within --at-most,
// whatever the hour of the first one was; then no version is trained that has been trained already, by a night either.
func TestThen(t *testing.T) {
	w := newWorld(t)
	w.staged()
	file, odd := w.file("sweep.yaml", sweepYAML), w.oddHour()
	watch := func(code int, says string, args ...string) string {
		t.Helper()
		got, out, errOut := w.run(slices.Concat([]string{"watch-labels", "--in", odd, "--label", "click"}, args)...)
		if got != code || !strings.Contains(out+errOut, says) {
			t.Errorf("%q ended with %d, want %d and %q\n%s\n%s", args, got, code, says, out, errOut)
		}
		return out
	}
	started := func(want ...sweep.ID) {
		t.Helper()
		if got := slices.Sorted(maps.Keys(w.jobs.submitted)); !slices.Equal(got, want) {
			t.Errorf("there are the sweeps %v, want %v", got, want)
		}
	}

	watch(sweep.ExitUsage, "--at-most and --budget need --then", "--budget", "5")
	watch(sweep.ExitUsage, "needs --budget, or `budget:`", "--then", file)
	watch(sweep.ExitUsage, "whole minutes, at least 1h", "--then", file, "--budget", "5", "--at-most", "59m")
	watch(sweep.ExitInput, "no sweep was started: the budget of 0.001 USD is too small", "--then", file, "--budget",
		"0.001")
	w.empty("sweeps")
	quiet := w.file("quiet.csv", "time,prediction,click\n2026-11-20 07:00:00,0.1,0\n")
	w.must("watch-labels", "--in", quiet, "--label", "click", "--then", file, "--budget", "5")
	w.empty("sweeps")

	then := []string{"--then", file, "--budget", "5", "--at-most", "24h"}
	night := []string{"sweep", file, "--schedule", "0 3 * * *", "--no-wait"}
	w.now = time.Date(2026, 11, 20, 3, 10, 0, 0, time.UTC)
	w.jobs.run = w.concluded(sweep.OutcomeWinner)
	w.must(night...)
	started("night-20261120-0300")
	w.file("clicks.csv", string(datasettest.Table(datasettest.Options{Rows: 1300})))
	w.must("stage", filepath.Join(w.dir, "dataset.yaml"))
	w.now = time.Date(2026, 11, 20, 23, 30, 0, 0, time.UTC)
	watch(sweep.ExitBlocked, "submitted as projects/p/locations/l/jobs/night-found-20261120-0000", then...)
	started("night-20261120-0300", "night-found-20261120-0000")

	for _, later := range []time.Duration{time.Minute, 2 * time.Hour, 21*time.Hour + 56*time.Minute} {
		w.now = w.now.Add(later)
		watch(sweep.ExitBlocked, "findings have started sweep night-found-20261120-0000 already; the next one may "+
			"start at 2026-11-21 23:30 UTC", then...)
	}
	// It runs, whatever planning it once more would say.
	gone := w.file("gone.yaml", strings.Replace(sweepYAML, "dataset: clicks", "dataset: gone", 1))
	watch(sweep.ExitBlocked, "findings have started sweep night-found-20261120-0000 already", "--then", gone,
		"--budget", "5")
	started("night-20261120-0300", "night-found-20261120-0000")
	w.now = time.Date(2026, 11, 21, 3, 10, 0, 0, time.UTC)
	if out := w.must(night...); !strings.Contains(out, "nothing new: dataset clicks@") {
		t.Errorf("the night after a finding's sweep of the same rows: got\n%s\nwant nothing new", out)
	}
	w.now = time.Date(2026, 11, 21, 23, 31, 0, 0, time.UTC)
	watch(sweep.ExitBlocked, "nothing new: dataset clicks@", then...)
	started("night-20261120-0300", "night-found-20261120-0000")
	other := w.file("other.yaml", strings.Replace(sweepYAML, "trials: 4", "trials: 3", 1))
	watch(sweep.ExitBlocked, "", "--then", other, "--budget", "5")
	started("night-20261120-0300", "night-found-20261120-0000", "night-found-20261121-0000")
}

// TestTwoWatchersAtOnce: another watcher, a minute later, finds the same at every point of the first one's work. They
// start one sweep.
func TestTwoWatchersAtOnce(t *testing.T) {
	start := newWorld(t)
	start.staged()
	file, odd := start.file("sweep.yaml", sweepYAML), start.oddHour()
	for at, done := 1, false; !done; at++ {
		w := newWorld(t)
		w.buckets["datasets"] = start.buckets["datasets"]
		watch := func() {
			w.refused(sweep.ExitBlocked, "50 % fewer", "watch-labels", "--in", odd, "--label", "click", "--then", file,
				"--budget", "5")
		}
		whole := w.buckets["sweeps"]
		done = true
		w.buckets["sweeps"] = &switching{Store: whole, left: at, other: func() {
			done = false
			w.buckets["sweeps"] = whole
			w.now = w.now.Add(time.Minute)
			watch()
		}}
		watch()
		if n := len(w.jobs.submitted); n != 1 {
			t.Errorf("with another watcher at operation %d there are %d sweeps, want 1", at, n)
		}
		if done && at < 5 {
			t.Errorf("a watcher has %d operations, want more at which another may come", at)
		}
	}
}
