package cloudjob

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/dataset"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/page"
	"coppice/internal/sweep"
	"coppice/launcher/internal/backtest"
	"coppice/launcher/internal/stager"
)

const (
	clicksInBucket = "name: clicks\nsource: gs://exports/*.csv\nlabel: is_click\ndrop: [revenue]\nencodings: none\n" +
		"split: {by: time, column: day, train: 0.7, valid: 0.1, calib: 0.1, test: 0.1}\n"
	threeNights = "dataset: dataset.yaml\nfrom: 2026-11-10\nto: 2026-11-12\nwindow: 8\nparams: {num_iterations: 3}\n"
)

// play is a backtest's task in memory, on a table of 20 days of November in two objects.
func play(t *testing.T, spec string) (*Task, *stager.Stager) {
	t.Helper()
	exports := blob.Memory()
	text := datasettest.Table(datasettest.Options{Rows: 4000})
	head, rest, _ := bytes.Cut(text, []byte("\n"))
	half := len(rest)/2 + bytes.IndexByte(rest[len(rest)/2:], '\n') + 1
	for name, rows := range map[string][]byte{"a.csv": rest[:half], "b.csv": rest[half:]} {
		if _, err := exports.Put(t.Context(), name, blob.Any,
			bytes.NewReader(slices.Concat(head, []byte("\n"), rows))); err != nil {
			t.Fatal(err)
		}
	}
	return &Task{
			Env: sweep.LauncherTaskEnv{File: "dataset.yaml", Spec: clicksInBucket, BacktestFile: "backtest.yaml",
				Backtest: spec, Job: "backtest-clicks-0123456789ab"},
			// A tick so rare that what is read was written at the end.
			Store: blob.Memory(), Build: "v1", Now: func() time.Time { return time.Unix(1, 0) }, Every: time.Hour,
			Code: func(error) int { return 3 },
		}, &stager.Stager{Scratch: t.TempDir(), Bucket: func(_ context.Context, name string) (blob.Store, error) {
			if name != "exports" {
				return nil, fmt.Errorf("there is no bucket %s", name)
			}
			return exports, nil
		}}
}

// TestBacktestTask: the report is found by what it was made of, has the bytes of one played here, and every night was
// told; nothing is left on the machine.
func TestBacktestTask(t *testing.T) {
	task, s := play(t, threeNights)
	line := func(n page.BacktestNight, metric string, _ time.Duration) string { return n.Night + " " + metric }
	if err := task.Backtest(t.Context(), s, line); err != nil {
		t.Fatal(err)
	}
	folder := sweep.DatasetBacktestRun("clicks", task.Env.Job)
	o, err := readOutcome(t.Context(), task.Store, folder)
	if err != nil || o == nil || o.Error != "" {
		t.Fatalf("readOutcome: got %+v, %v; want one without an error", o, err)
	}
	table, err := dataset.ParseSpec("dataset.yaml", []byte(clicksInBucket))
	if err != nil {
		t.Fatal(err)
	}
	in, err := s.Find(t.Context(), table)
	if err != nil || BacktestKey(in, threeNights, "v1") != o.Report || BacktestKey(in, threeNights, "v2") == o.Report ||
		BacktestKey(in, threeNights+" ", "v1") == o.Report {
		t.Errorf("BacktestKey: another than %s of the outcome for the same, or the same for another build or spec (%v)",
			o.Report, err)
	}

	r, err := ReadBacktest(t.Context(), task.Store, "clicks", o.Report)
	if err != nil || r == nil || len(r.Nights) != 3 {
		t.Fatalf("ReadBacktest: got %+v, %v; want a report of 3 nights", r, err)
	}
	text, page, err := r.Files()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]byte{backtest.ReportFile: text, backtest.PageFile: page} {
		got, _, err := blob.ReadAll(t.Context(), task.Store, sweep.DatasetBacktest("clicks", o.Report)+name, 1<<24)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s in the bucket has %d bytes, and of what was read %d are made (%v)", name, len(got), len(want),
				err)
		}
	}

	p, err := readProgress(t.Context(), task.Store, folder)
	if err != nil || p == nil ||
		!slices.Equal(p.Lines, []string{"2026-11-10 log_loss", "2026-11-11 log_loss", "2026-11-12 log_loss"}) {
		t.Errorf("readProgress: got %+v, %v; want a line for each of three nights", p, err)
	}
	if left, _ := filepath.Glob(filepath.Join(s.Scratch, "*")); len(left) != 0 {
		t.Errorf("left on the machine: %q", left)
	}
}

// TestBacktestTaskSaysWhy: what is wrong with spec or table is the outcome, with its exit code, and there is no report.
func TestBacktestTaskSaysWhy(t *testing.T) {
	for says, spec := range map[string]string{
		"no row on 2026-11-21": strings.ReplaceAll(strings.ReplaceAll(threeNights, "11-10", "11-20"), "11-12", "11-20"),
		"backtest.yaml:2":      strings.Replace(threeNights, "2026-11-10", "yesterday", 1),
		"delay is -1":          threeNights + "delay: -1\n",
		"no column \"then\"":   threeNights + "time: then\n",
	} {
		task, s := play(t, spec)
		err := task.Backtest(t.Context(), s, func(page.BacktestNight, string, time.Duration) string { return "" })
		o, readErr := readOutcome(t.Context(), task.Store, sweep.DatasetBacktestRun("clicks", task.Env.Job))
		if err == nil || readErr != nil || o == nil || o.Code != 3 || o.Report != "" ||
			!strings.Contains(o.Error, says) {
			t.Errorf("Backtest on %q: got %v, outcome %+v, %v; want %q in both", spec, err, o, readErr, says)
		}
	}
}

// TestLinesAreShownOnce: those of each attempt, in order, and those of the last moment when the job is over.
func TestLinesAreShownOnce(t *testing.T) {
	store, c := blob.Memory(), &cloud{states: []string{"RUNNING", "RUNNING", "RUNNING", "FAILED"}}
	q := request()
	q.Kind = Backtest
	j, err := Submit(t.Context(), c, q)
	if err != nil {
		t.Fatal(err)
	}
	left := []Progress{{Lines: []string{"1"}}, {Lines: []string{"1", "2"}}, {Attempt: 1, Lines: []string{"1"}},
		{Attempt: 1, Lines: []string{"1", "2", "3"}}}
	c.look = func(string) {
		left[0].Format = 1
		if err := put(t.Context(), store, "f/"+progressFile, blob.Any, left[0]); err != nil {
			t.Error(err)
		}
		left = left[1:]
	}
	var said []string
	f := &Follower{Jobs: c, Store: store, Every: time.Millisecond,
		Progress: func(step stager.Step, _, _ int64) { t.Errorf("a step %q that there is not", step) },
		Line:     func(line string) { said = append(said, line) }}
	_, err = f.Wait(t.Context(), "f/", j)
	var failed *FailedError
	if !errors.As(err, &failed) || !strings.Contains(err.Error(), "backtest job backtest-clicks-") ||
		!slices.Equal(said, []string{"1", "2", "1", "2", "3"}) {
		t.Errorf("Wait: got %v and the lines %q; want the error of a backtest job, and 1 2 of the first attempt, 1 "+
			"2 3 of the second", err, said)
	}
}
