package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/engine"
	"coppice/internal/machines"
	"coppice/internal/must"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/cloudjob"
)

// TestSlots: if anything changes between two starts for one slot, the plan and the job of the first stay.
func TestSlots(t *testing.T) {
	w := newWorld(t)
	w.staged()
	file := w.file("sweep.yaml", sweepYAML)
	start := func(file string, more ...string) map[string]any {
		var got map[string]any
		out := w.must(append([]string{"sweep", file, "--schedule", "0 3 * * *", "--no-wait", "--json"}, more...)...)
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatalf("sweep --json: %v, expected one JSON object, in:\n%s", err, out)
		}
		return got
	}
	if got := start(file); got["sweep"] != "night-20261121-0300" || got["trials"] != 4.0 {
		t.Errorf("the second start of the slot: got %v; want the sweep of 03:00 with its four trials", got)
	}
	w.now = w.now.Add(20 * time.Hour)
	other := w.file("other.yaml", strings.Replace(sweepYAML, "trials: 4", "trials: 5", 1))
	if got := start(other); got["sweep"] != "night-20261121-0300" || got["trials"] != 4.0 {
		t.Errorf("another spec in the same slot: %v", got)
	}
	w.now = w.now.Add(4 * time.Hour)
	if got := start(other); got["sweep"] != "night-20261122-0300" || got["trials"] != 5.0 {
		t.Errorf("the next slot: %v", got)
	}
	if got := start(other, "--time-zone", "America/New_York"); got["sweep"] != "night-20261121-0800" {
		t.Errorf("in New York: %v", got)
	}
	out := w.must("sweep", file, "--schedule", "0 3 * * *", "--no-wait")
	if !strings.Contains(out,
		"note: sweep night-20261122-0300 was started with another spec or version of the dataset") {
		t.Errorf("nothing is said of the other plan:\n%s", out)
	}
	if out := w.must("sweep", other, "--schedule", "0 3 * * *", "--no-wait"); strings.Contains(out, "another spec") {
		t.Errorf("the plan is the same:\n%s", out)
	}
	w.refused(sweep.ExitUsage, "--time-zone", "sweep", file, "--time-zone", "UTC")
	w.refused(sweep.ExitUsage, "--id or --schedule", "sweep", file, "--schedule", "0 3 * * *", "--id", "x")
	w.refused(sweep.ExitUsage, "five fields", "sweep", file, "--schedule", "@daily")
	w.refused(sweep.ExitUsage, "Mars", "sweep", file, "--schedule", "0 3 * * *", "--time-zone", "Mars/Olympus")
}

// TestANightThatNeverHadMachines: the next one cancels its job once its sweep has ended, and not before.
func TestANightThatNeverHadMachines(t *testing.T) {
	w := newWorld(t)
	w.staged()
	file := w.file("sweep.yaml", sweepYAML)
	w.jobs.status = &engine.JobStatus{State: engine.Waiting}
	for night, ended := range []bool{false, true} {
		w.must("sweep", file, "--schedule", "0 3 * * *", "--no-wait")
		if ended != w.jobs.cancelled {
			t.Errorf("after %d nights a job is cancelled: %t, want %t", night+1, w.jobs.cancelled, ended)
		}
		id := sweep.ID(fmt.Sprintf("night-2026112%d-0300", night+1))
		must.Get(sweepstore.New(w.buckets["sweeps"], id).CreateEnding(t.Context(), sweep.Ending{
			Format: 1, Sweep: id, Early: "at its limit", At: w.now}))(t)
		w.now = w.now.Add(24 * time.Hour)
		file = w.file("sweep.yaml", strings.Replace(sweepYAML, "trials: 4", "trials: 5", 1))
	}
}

// TestSlotsOfTwoSweeps: two schedules whose specs share a name do not silently become one sweep.
func TestSlotsOfTwoSweeps(t *testing.T) {
	w := newWorld(t)
	w.staged()
	w.must("stage", w.file("views.yaml", "name: views\nsource: clicks.csv\nlabel: is_click\ndrop: [revenue]\nsplit: "+
		"{by: hash, key: user_id, train: 0.6, valid: 0.4}\n"))
	w.must("sweep", w.file("sweep.yaml", sweepYAML), "--schedule", "0 3 * * *", "--no-wait", "--json")
	for _, c := range [][3]string{
		{"model: ctr", "model: cvr",
			`started with model "ctr" on dataset "clicks", but this spec trains model "cvr" on dataset "clicks"; ` +
				`two scheduled sweeps have the name "night"`},
		{"dataset: clicks", "dataset: views",
			`started with model "ctr" on dataset "clicks", but this spec trains model "ctr" on dataset "views"`},
	} {
		w.refused(sweep.ExitInput, c[2], "sweep", w.file("other.yaml", strings.Replace(sweepYAML, c[0], c[1], 1)),
			"--schedule", "0 3 * * *", "--no-wait", "--json")
	}
	if len(w.jobs.submitted) != 1 {
		t.Errorf("jobs %v", w.jobs.submitted)
	}
}

// TestObjectivesAreShown: the plan says how the winner is picked, and the leaderboard shows the trials' values and the
// front.
func TestObjectivesAreShown(t *testing.T) {
	w := newWorld(t)
	w.staged()
	spec := strings.Replace(sweepYAML, "metric: auc", "metric: [auc, model_bytes, trees]\npick: {within: 0.1%}", 1)
	if out := w.must("sweep", w.file("sweep.yaml", spec), "--dry-run"); !strings.Contains(out,
		"objectives: high auc, low model_bytes, low trees; of the trials within 0.1% of the best auc, the one "+
			"that is best by the others wins") {
		t.Errorf("the plan does not say what the sweep is to be good at:\n%s", out)
	}
	w.refused(sweep.ExitInput, "calibration_ratio is best at 1", "plan",
		w.file("bad.yaml", strings.Replace(sweepYAML, "metric: auc", "metric: [auc, calibration_ratio]", 1)))
	w.refused(sweep.ExitInput, "bad.yaml:5:15: ", "plan",
		w.file("bad.yaml", strings.Replace(sweepYAML, "metric: auc", "metric: [auc, model_byte]", 1)))

	w.jobs.run = w.concluded(sweep.OutcomeWinner)
	w.must("sweep", w.file("sweep.yaml", spec), "--id", "night-1")
	out := w.must("leaderboard", "night-1")
	if strings.Count(out, "front") != 6 || !strings.Contains(out, "model_bytes") ||
		!strings.Contains(out, "the winner is picked within 0.1% of the best auc") {
		t.Errorf("the board is\n%s\nexpected bytes, and four trials on the front, of which every better one "+
			"has more trees", out)
	}
}

func TestDryRunShowsFallbacks(t *testing.T) {
	w := newWorld(t)
	w.staged()
	file := w.file("sweep.yaml", strings.Replace(sweepYAML, "type: n2-highmem-2,",
		"type: n2-highmem-2, wait: 1m, fallback: [{type: n2d-highmem-4, zones: [us-central1-f]}, {spot: false}],", 1))
	out := w.must("sweep", file, "--dry-run")
	for _, part := range []string{"without machines after 1m0s: 1 x n2d-highmem-4, Spot in us-central1-f, 4 tasks",
		"1 x n2-highmem-2, on demand, 2 tasks"} {
		if !strings.Contains(out, part) {
			t.Errorf("no %q in\n%s", part, out)
		}
	}
	w.refused(sweep.ExitInput, `machine type "q9-big-4" is not in the catalogue`, "sweep",
		w.file("tiny.yaml", strings.Replace(sweepYAML, "type: n2-highmem-2,",
			"type: n2-highmem-2, wait: 1m, fallback: [{type: q9-big-4}],", 1)))
}

// TestNightsLeaveTheRegistry: what a schedule starts, staging and a sweep, needs no right on the registry, which iam.yaml
// says of it.
func TestNightsLeaveTheRegistry(t *testing.T) {
	w := newWorld(t)
	must.Get(w.buckets["registry"].Put(t.Context(), "registry/ctr/versions/1/version.json", blob.Absent,
		strings.NewReader("{}")))(t)
	registry := &blobtest.Counting{Store: w.buckets["registry"]}
	w.buckets["registry"] = registry
	w.staged()
	w.must("sweep", w.file("sweep.yaml", sweepYAML), "--schedule", "0 3 * * *", "--no-wait")
	if asked, listed := registry.Asked.Load(), registry.Listed.Load(); asked+listed > 0 {
		t.Errorf("staging and a scheduled sweep asked the registry for %d objects and were told %d names; want none",
			asked, listed)
	}
	w.run("registry", "list", "ctr")
	if registry.Listed.Load() == 0 {
		t.Error("registry list is not counted")
	}
}

// TestFitTakesAMachineOfANewAccount: on Google Cloud, whatever this machine has.
func TestFitTakesAMachineOfANewAccount(t *testing.T) {
	if m := must.Get(machines.Find(cloudjob.DefaultMachine))(t); m.VCPUs >= 12 {
		t.Errorf("staging takes %d vCPUs, want fewer than the 12 of a new account", m.VCPUs)
	}
	for here, want := range map[int]int{2: 2, 8: 8, 64: 8} {
		if got := coresOf(whereBatch, here); got != want || coresOf(whereLocal, here) != here {
			t.Errorf("of %d cores a sweep takes %d on Google Cloud and %d here, want %d and all", here, got,
				coresOf(whereLocal, here), want)
		}
	}
}
