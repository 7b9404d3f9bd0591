package cli

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"coppice/internal/must"
	"coppice/internal/nights"
	"coppice/internal/nights/nightstest"
	"coppice/internal/notify"
	"coppice/internal/sweep"
	"coppice/launcher/internal/stager"
)

// TestThirtyNights: a day's file appears each day, and one command each night makes one sweep of the last days. Started
// again it makes no second one; without the day's file it makes none, says so once, and an older day that never came is
// a warning. The nights are those in which the clocks change: the slot's day is that of its time zone.
func TestThirtyNights(t *testing.T) {
	w := newWorld(t)
	var heard []notify.VerdictMessage
	var fail error
	w.listens(&heard, &fail)
	zone := must.Get(time.LoadLocation("Europe/Amsterdam"))(t)
	w.file("night.yaml", strings.Replace(sweepYAML, "trials: 4", "trials: 1", 1))
	w.file("clicks.yaml", strings.Replace(string(nightstest.Spec("days")), "source: days",
		"source:\n  files: days/{date:2006-01-02}/*.csv\n  last: 4d\n  missing: allow", 1)+
		"encodings: none\ncontract: none\n")
	stream := nightstest.Stream{Seed: 5, Rows: 500}
	appear := func(day int, file string) {
		path := filepath.Join(w.dir, "days", nightstest.First.AddDate(0, 0, day).Format(time.DateOnly), file)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o777))
		must.Do(t, os.WriteFile(path, stream.Night(day).CSV(), 0o600))
	}
	command := []string{"nightly", filepath.Join(w.dir, "night.yaml"), "--schedule", "30 1 * * *", "--time-zone",
		"Europe/Amsterdam", "--no-wait", "--json"}

	// The table begins with the fourth day, and the thirteenth never comes.
	const missing = 12
	for day := range 3 {
		appear(day, "part.csv")
	}
	var ids []sweep.ID
	for day := 3; day < 33; day++ {
		date := nightstest.First.AddDate(0, 0, day+1)
		slot := time.Date(date.Year(), date.Month(), date.Day(), 1, 30, 0, 0, zone)
		w.now = slot.Add(10 * time.Minute)
		if day == missing {
			for range 2 {
				w.refused(sweep.ExitNotFound, "the newest day, 2026-10-17, is not there yet", command...)
			}
		} else {
			appear(day, "part.csv")
			ids = append(ids, sweep.ID("night-"+slot.UTC().Format("20060102-1504")))
			w.must(command...)
		}

		if day%3 == 1 && day != missing { // a second start, of which some find another table
			if day > 20 {
				appear(day, "late.csv")
			}
			w.now = w.now.Add(20 * time.Hour)
			w.must(command...)
		}
		if got := slices.Sorted(maps.Keys(w.jobs.submitted)); !slices.Equal(got, ids) {
			t.Fatalf("after day %d there are the sweeps %v, expected %v", day, got, ids)
		}
		if staged, err := stager.List(t.Context(), w.buckets["datasets"], "clicks"); err != nil ||
			len(staged) != len(ids) {
			t.Fatalf("after day %d there are %d staged versions, %v, expected %d", day, len(staged), err, len(ids))
		}
	}
	if len(heard) != 1 || heard[0].Occasion != sweep.OccasionRefused ||
		!strings.Contains(heard[0].Reason, "2026-10-17") {
		t.Errorf("people heard %+v, expected once that the sweep of the night without its day was not started", heard)
	}

	// Every staged version is one night's, and three of them lack a day.
	records := must.Get(stager.Destination{Store: w.buckets["datasets"]}.Nights(t.Context(), "clicks"))(t)
	lacking := 0
	for _, r := range records {
		if slices.ContainsFunc(r.Findings, func(f nights.Finding) bool { return f.Code == nights.CodeMissingDays }) {
			lacking++
		}
	}
	if lacking != 3 {
		t.Errorf("%d of %d nights have a warning about a missing day, expected 3", lacking, len(records))
	}
}

// A second start in a slot attaches to its sweep, although the table is too old by then, and nobody is told otherwise.
func TestASecondStartIsNoNewNight(t *testing.T) {
	w := newWorld(t)
	var heard []notify.VerdictMessage
	var fail error
	w.listens(&heard, &fail)
	w.file("night.yaml", strings.Replace(sweepYAML, "trials: 4", "trials: 1", 1))
	w.file("clicks.yaml", string(nightstest.Spec("day.csv"))+"encodings: none\ncontract: {max_age: 30h}\n")
	w.file("day.csv", string(nightstest.Stream{Seed: 5, Rows: 800}.Night(0).CSV()))
	w.now = nightstest.First.AddDate(0, 0, 1).Add(2 * time.Hour)
	command := []string{"nightly", filepath.Join(w.dir, "night.yaml"), "--at", w.now.Format(time.RFC3339), "--no-wait"}
	w.must(command...)
	w.now = w.now.AddDate(0, 0, 3)
	w.must(command...)
	if len(w.jobs.submitted) != 1 || len(heard) > 0 {
		t.Errorf("two starts in one slot: %d jobs, people heard %+v; expected one job and nothing",
			len(w.jobs.submitted), heard)
	}
}

// A slot can be made up for, and belongs to one dataset.
func TestNightlyFlags(t *testing.T) {
	w := newWorld(t)
	w.staged()
	night := w.file("sweep.yaml", sweepYAML)
	alone := filepath.Join(t.TempDir(), "sweep.yaml")
	must.Do(t, os.WriteFile(alone, []byte(sweepYAML), 0o644))
	w.refused(sweep.ExitNotFound, "give the dataset.yaml as --table", "nightly", alone)
	table := filepath.Join(w.dir, "dataset.yaml") // as fit --save-specs calls it, so that it need not be named
	w.must("nightly", night, "--at", "2026-11-20T03:10:00Z", "--no-wait")
	if got := slices.Collect(maps.Keys(w.jobs.submitted)); !slices.Equal(got, []sweep.ID{"night-20261120-0000"}) {
		t.Errorf("a night made up for has the sweeps %v, expected night-20261120-0000", got)
	}
	w.refused(sweep.ExitUsage, "is in the future", "nightly", night, "--table", table, "--at", "2126-11-20T03:10:00Z")
	w.refused(sweep.ExitUsage, "--at is", "nightly", night, "--table", table, "--at", "yesterday")
	w.refused(sweep.ExitUsage, "five fields", "nightly", night, "--table", table, "--schedule", "daily")
	w.refused(sweep.ExitUsage, "needs a source in a bucket", "nightly", night, "--table", table, "--batch")
	other := w.file("other.yaml", strings.Replace(sweepYAML, "dataset: clicks", "dataset: sales", 1))
	w.refused(sweep.ExitInput, `trains on dataset "sales", but `, "nightly", other, "--table", table)
}
