package cli

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/dataset"
	"coppice/internal/must"
	"coppice/internal/sweep"
	"coppice/launcher/internal/sweepview"
)

// TestTooLateToCancel has a sweep that the aggregator is concluding.
func TestTooLateToCancel(t *testing.T) {
	w := newWorld(t)
	w.staged()
	w.must("sweep", w.file("sweep.yaml", sweepYAML), "--no-wait", "--id", "night-1")
	must.Get(blobtest.CreateJSON(t.Context(), w.buckets["sweeps"], sweep.Names("night-1").Ending(),
		sweep.Ending{Format: 1, Sweep: "night-1"}))(t)
	w.refused(sweep.ExitConflict, "too late to cancel", "cancel", "night-1")
	if _, err := w.buckets["sweeps"].Stat(t.Context(), sweep.Names("night-1").Cancel()); !errors.Is(err,
		blob.ErrNotExist) {
		t.Errorf("it was cancelled: %v", err)
	}
}

func TestStageShowsTheDataset(t *testing.T) {
	w := newWorld(t)
	out := w.staged()
	for _, part := range []string{"campaign_id", "categorical", "forced", "4009", "age", "numeric", "train", "positive",
		"gs://datasets/datasets/clicks/", "staged"} {
		if !strings.Contains(out, part) {
			t.Errorf("it does not show %q:\n%s", part, out)
		}
	}
	if out := w.staged(); !strings.Contains(out, "was staged before") {
		t.Errorf("the second time:\n%s", out)
	}
	var m struct {
		Version string `json:"version"`
		Existed bool   `json:"existed"`
	}
	if err := json.Unmarshal([]byte(w.must("stage", filepath.Join(w.dir, "dataset.yaml"), "--json")), &m); err != nil ||
		len(m.Version) != 16 || !m.Existed {
		t.Errorf("stage --json, the third time: %+v, %v, expected a version of 16 digits that existed", m, err)
	}
	folder := filepath.Join(w.dir, "out")
	out = w.must("stage", filepath.Join(w.dir, "dataset.yaml"), "--out", folder, "--dry-run")
	if !strings.Contains(out, "would be read") {
		t.Errorf("--dry-run says %q, want what would be read", out)
	}
	if _, err := os.Stat(folder); !os.IsNotExist(err) {
		t.Errorf("--dry-run made %s (%v), want nothing staged", folder, err)
	}
	w.must("stage", filepath.Join(w.dir, "dataset.yaml"), "--out", folder)
	if _, err := dataset.ReadManifest(filepath.Join(folder, "clicks", m.Version)); err != nil {
		t.Error(err)
	}
	w.must("stage", filepath.Join(w.dir, "dataset.yaml"), "--out", "gs://registry/some/where")
	if _, err := w.buckets["registry"].Stat(t.Context(), "some/where/"+sweep.DatasetDir("clicks", m.Version)+
		"manifest.json"); err != nil {
		t.Error(err)
	}
	w.refused(sweep.ExitUsage, "gs://", "stage", filepath.Join(w.dir, "dataset.yaml"), "--out", "gs://")
	w.refused(sweep.ExitUsage, "..", "stage", filepath.Join(w.dir, "dataset.yaml"), "--out", "gs://registry/../x")
	w.refused(sweep.ExitNotFound, "nowhere.yaml", "stage", "nowhere.yaml")
}

func TestSweepFromPlanToWinner(t *testing.T) {
	w := newWorld(t)
	w.staged()
	file := w.file("sweep.yaml", sweepYAML)
	w.jobs.run = w.concluded(sweep.OutcomeWinner)
	out := w.must("sweep", file)
	for _, part := range []string{"4 trials", "note:", "calib or test", "trial   3", "winner",
		"trial 3 of sweep night-", "auc 0.61", "promoted: there was no champion", "launcher registry show ctr@1"} {
		if !strings.Contains(out, part) {
			t.Errorf("it does not show %q:\n%s", part, out)
		}
	}
	// Again: the sweep has ended, so nothing is submitted.
	w.must("sweep", file, "--json")
	for id, n := range w.jobs.submitted {
		if n != 1 {
			t.Errorf("%s was submitted %d times", id, n)
		}
	}
	if out := w.must("status"); !strings.Contains(out, "ctr@1") || !strings.Contains(out, "promoted") {
		t.Errorf("status:\n%s", out)
	}
	var id sweep.ID
	for id = range w.jobs.submitted {
	}
	if out := w.must("leaderboard", string(id)); !strings.Contains(out, "num_leaves") ||
		strings.Count(out, "│ done") != 4 || strings.Index(out, "0.63") > strings.Index(out, "0.62") {
		t.Errorf("leaderboard:\n%s", out)
	}
	var top sweep.Board
	if err := json.Unmarshal([]byte(w.must("leaderboard", string(id), "--json")), &top); err != nil ||
		len(top.Rows) != 4 {
		t.Errorf("%d rows, %v", len(top.Rows), err)
	}
	var snap sweepview.Snapshot
	if err := json.Unmarshal([]byte(w.must("status", string(id), "--json")), &snap); err != nil || snap.Done != 4 ||
		snap.Best.Trial != 3 || snap.Conclusion == nil {
		t.Errorf("status --json: %+v, %v, expected 4 trials done, the best of them 3, and a conclusion", snap, err)
	}
	if out := w.must("cancel", string(id)); !strings.Contains(out, "its job was still running, and is cancelled") ||
		!w.jobs.cancelled {
		t.Errorf("cancelled a running sweep: got %s; want its job cancelled, and that said", out)
	}
	w.refused(sweep.ExitConflict, "nothing to cancel", "cancel", string(id))
	w.refused(sweep.ExitNotFound, "launcher status", "watch", "nobody")
	if out := w.must("sweep", file, "--no-wait"); !strings.Contains(out, "has already ended (winner)") ||
		strings.Contains(out, "submitted") {
		t.Errorf("swept again after the end: got %s; want the outcome, and nothing submitted", out)
	}
	w.refused(sweep.ExitInput, "use 1 to 63 of", "status", "Night")
	w.refused(sweep.ExitUsage, `"@latst" is no sweep: give its id, or @latest`, "status", "@latst")

	// A plan that cannot be read hides no other sweep.
	must.Get(blob.Create(t.Context(), w.buckets["sweeps"], sweep.Names("broken").Plan(), []byte("{")))(t)
	if out := w.must("status"); !strings.Contains(out, "unreadable") || !strings.Contains(out, string(id)) {
		t.Errorf("status:\n%s", out)
	}
	w.refused(sweep.ExitInput, "sweep broken:", "status", "broken")

	// Nor does a conclusion.
	must.Get(w.buckets["sweeps"].Put(t.Context(), sweep.Names(id).Conclusion(), blob.Any, strings.NewReader("{")))(t)
	if out := w.must("status"); strings.Count(out, "unreadable") != 2 {
		t.Errorf("ls with a damaged conclusion:\n%s", out)
	}
	w.refused(sweep.ExitInput, "not a conclusion", "status", string(id))
}

// TestNoPlanWithoutBatch: a plan without a job would be concluded, and its id would be spent.
func TestNoPlanWithoutBatch(t *testing.T) {
	w := newWorld(t)
	w.staged()
	w.jobs.away = errors.New("no answer")
	w.refused(sweep.ExitError, "no answer", "sweep", w.file("sweep.yaml", sweepYAML))
	for attrs, err := range w.buckets["sweeps"].List(t.Context(), "") {
		t.Errorf("the bucket has %q (%v), want it empty: no plan without a job", attrs.Name, err)
	}
}

// TestCtrlCSaysThatTheSweepGoesOn stops watching.
func TestCtrlCSaysThatTheSweepGoesOn(t *testing.T) {
	w := newWorld(t)
	w.staged()
	ctx, stop := context.WithCancel(t.Context())
	w.ctx, w.jobs.run = ctx, func(*sweep.Plan) { stop() }
	w.refused(sweep.ExitInterrupt, "sweep night-1 continues: `launcher watch night-1`", "sweep",
		w.file("sweep.yaml", sweepYAML), "--id", "night-1")
}

func TestSweepWithoutAWinner(t *testing.T) {
	w := newWorld(t)
	w.staged()
	w.jobs.run = w.concluded(sweep.OutcomeNoWinner)
	w.refused(sweep.ExitNoWinner, "because", "sweep", w.file("sweep.yaml", sweepYAML))
}

func TestSweepIDs(t *testing.T) {
	w := newWorld(t)
	w.staged()
	file := w.file("sweep.yaml", sweepYAML)
	out := w.must("sweep", file, "--id", "nightly-1", "--no-wait")
	if !strings.Contains(out, "launcher watch nightly-1") || w.jobs.submitted["nightly-1"] != 1 {
		t.Errorf("a sweep with an id: got %s; want one job, and the command to watch it", out)
	}
	w.now = w.now.Add(time.Hour)
	if out := w.must("sweep", file, "--id", "nightly-1", "--no-wait"); !strings.Contains(out, "attached") {
		t.Errorf("the same sweep again: got %s; want it attached", out)
	}
	other := w.file("other.yaml", strings.Replace(sweepYAML, "trials: 4", "trials: 5", 1))
	w.refused(sweep.ExitConflict, " by build v1, this is v1)", "sweep", other, "--id", "nightly-1", "--no-wait")
	w.refused(sweep.ExitUsage, "sweep id", "sweep", file, "--id", "../x")
}

// TestSubmissionThatFailsIsTakenUp: the plan is written before the job is submitted, so the next run can submit it.
func TestSubmissionThatFailsIsTakenUp(t *testing.T) {
	w := newWorld(t)
	w.staged()
	file := w.file("sweep.yaml", sweepYAML)
	w.jobs.err = errors.New("no quota")
	w.refused(sweep.ExitError, "no quota", "sweep", file, "--id", "x", "--no-wait")
	w.jobs.err = nil
	w.must("sweep", file, "--id", "x", "--no-wait")
	if w.jobs.submitted["x"] != 1 {
		t.Errorf("submitted %d times", w.jobs.submitted["x"])
	}
}

func TestDryRunWritesNothing(t *testing.T) {
	w := newWorld(t)
	w.staged()
	file := w.file("sweep.yaml", sweepYAML)
	out := w.must("sweep", file, "--dry-run")
	for _, part := range []string{"num_leaves", "random", `"taskCount": 2`, "private to a trial",
		"of which the dataset takes"} {
		if !strings.Contains(out, part) {
			t.Errorf("it does not show %q:\n%s", part, out)
		}
	}
	var both struct {
		Plan    sweep.Plan      `json:"plan"`
		Request json.RawMessage `json:"request"`
	}
	if err := json.Unmarshal([]byte(w.must("sweep", file, "--dry-run", "--json")), &both); err != nil ||
		len(both.Plan.Trials) != 4 || len(both.Request) == 0 {
		t.Errorf("sweep --dry-run --json: %+v, %v, expected a plan of 4 trials and a request", both, err)
	}
	for attrs, err := range w.buckets["sweeps"].List(t.Context(), "") {
		t.Errorf("%s was written (%v)", attrs.Name, err)
	}
	if len(w.jobs.submitted) > 0 {
		t.Error("a job was submitted")
	}
}

func TestCancel(t *testing.T) {
	w := newWorld(t)
	w.staged()
	w.must("sweep", w.file("sweep.yaml", sweepYAML), "--id", "x", "--no-wait")
	if out := w.must("cancel", "x"); !strings.Contains(out, "(job cancelled)") || !w.jobs.cancelled {
		t.Errorf("cancelled sweep x: got %s; want its job cancelled, and that said", out)
	}
	read := func() string {
		data, _ := must.Get2(blob.ReadAll(t.Context(), w.buckets["sweeps"], sweep.Names("x").Cancel(), 1<<10))(t)
		return string(data)
	}
	first := read()
	if !strings.Contains(first, `"format": 1`) || !strings.Contains(first, `"sweep": "x"`) {
		t.Errorf("cancelling wrote %s, want a format and the sweep", first)
	}
	w.refused(sweep.ExitNoWinner, "cancelled", "watch", "x")
	w.must("cancel", "x")
	if again := read(); again != first {
		t.Errorf("cancelling again made %s of %s; it is created once", again, first)
	}
}
