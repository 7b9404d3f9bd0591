package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/dataset"
	"coppice/internal/gbt"
	"coppice/internal/must"
	"coppice/internal/page"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/sweepview"
)

// TestTooLateToCancel: once the aggregator has begun to conclude a sweep, cancel refuses, and writes nothing that the
// aggregator would obey.
func TestTooLateToCancel(t *testing.T) {
	w := newStagedWorld(t)
	w.must("sweep", w.spec(), "--no-wait", "--id", "night-1")
	must.Get(blobtest.CreateJSON(t.Context(), w.buckets["sweeps"], sweep.Names("night-1").Ending(),
		sweep.Ending{Format: 1, Sweep: "night-1"}))(t)
	w.refused(sweep.ExitConflict, "too late to cancel", "cancel", "night-1")
	if _, err := w.buckets["sweeps"].Stat(t.Context(), sweep.Names("night-1").Cancel()); !errors.Is(err,
		blob.ErrNotExist) {
		t.Errorf("the object that cancels the sweep: %v, want that it does not exist", err)
	}
}

// TestStageShowsTheDataset: stage shows columns, kinds, splits and the place of the dataset, and says if it was staged
// before. --out puts it in a folder or in a bucket, and --dry-run puts it nowhere.
func TestStageShowsTheDataset(t *testing.T) {
	w := newWorld(t)
	out := w.staged()
	// The spec forces campaign_id, whole numbers such as 4009, to be categorical.
	w.says(out, "campaign_id", "categorical", "forced", "4009", "age", "numeric", "train", "positive",
		"gs://datasets/datasets/clicks/", "staged")
	w.says(w.staged(), "was staged before")
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
	w.says(out, "would be read")
	if _, err := os.Stat(folder); !os.IsNotExist(err) {
		t.Errorf("--dry-run made %s (%v), want nothing staged", folder, err)
	}
	w.must("stage", filepath.Join(w.dir, "dataset.yaml"), "--out", folder)
	if _, err := dataset.ReadManifest(filepath.Join(folder, "clicks", m.Version)); err != nil {
		t.Errorf("stage --out of a folder: %v, want the dataset's manifest in it", err)
	}
	w.must("stage", filepath.Join(w.dir, "dataset.yaml"), "--out", "gs://registry/some/where")
	if _, err := w.buckets["registry"].Stat(t.Context(), "some/where/"+sweep.DatasetDir("clicks", m.Version)+
		"manifest.json"); err != nil {
		t.Errorf("stage --out of a bucket: %v, want the dataset's manifest in it", err)
	}
	w.refused(sweep.ExitUsage, "gs://", "stage", filepath.Join(w.dir, "dataset.yaml"), "--out", "gs://")
	w.refused(sweep.ExitUsage, "..", "stage", filepath.Join(w.dir, "dataset.yaml"), "--out", "gs://registry/../x")
	w.refused(sweep.ExitNotFound, "nowhere.yaml", "stage", "nowhere.yaml")
}

// TestSweepFromPlanToWinner: sweep shows its trials as they end, the winner and what became of it. The commands that
// read an ended sweep agree with it, and a second sweep command submits nothing. cancel ends the job that still runs,
// and then has nothing to cancel. A sweep whose plan or conclusion is damaged is listed as unreadable beside the
// others.
func TestSweepFromPlanToWinner(t *testing.T) {
	w := newStagedWorld(t)
	file := w.spec()
	w.jobs.run = w.concluded(sweep.OutcomeWinner)
	out := w.must("sweep", file)
	w.says(out, "4 trials", "note:", "calib or test", "trial   3", "winner", "trial 3 of sweep night-", "auc 0.61",
		"promoted: there was no champion", "launcher registry show ctr@1")
	// Again: the sweep has ended, so nothing is submitted.
	w.must("sweep", file, "--json")
	var id sweep.ID
	for id = range w.jobs.submitted {
	}
	if len(w.jobs.submitted) != 1 || w.jobs.submitted[id] != 1 {
		t.Fatalf("swept twice: submitted %v, want one sweep, once", w.jobs.submitted)
	}

	// The commands that read an ended sweep agree with it.
	w.says(w.must("status"), "ctr version 1", "promoted")
	if out := w.must("leaderboard", string(id)); !strings.Contains(out, "num_leaves") ||
		strings.Count(out, "│ done") != 4 ||
		strings.Index(out, "0.63") > strings.Index(out, "0.62") { // trials 0 to 3 score 0.60 to 0.63 (concluded)
		t.Errorf("want four trials that are done, the best first, in the leaderboard:\n%s", out)
	}
	var top sweep.Board
	must.Do(t, json.Unmarshal([]byte(w.must("leaderboard", string(id), "--json")), &top))
	if len(top.Rows) != 4 {
		t.Errorf("leaderboard --json: %d rows, want 4", len(top.Rows))
	}
	var snap sweepview.Snapshot
	if err := json.Unmarshal([]byte(w.must("status", string(id), "--json")), &snap); err != nil || snap.Done != 4 ||
		snap.Best.Trial != 3 || snap.Conclusion == nil {
		t.Errorf("status --json: %+v, %v, expected 4 trials done, the best of them 3, and a conclusion", snap, err)
	}

	// Its job still runs until it is cancelled.
	if out := w.must("cancel", string(id)); !strings.Contains(out, "its job was still running, and is cancelled") ||
		!w.jobs.cancelled {
		t.Errorf("cancelled a running sweep: got %s; want its job cancelled, and that said", out)
	}
	w.refused(sweep.ExitConflict, "nothing to cancel", "cancel", string(id))
	w.refused(sweep.ExitNotFound, "launcher status", "watch", "nobody")

	// It is not started again.
	out = w.must("sweep", file, "--no-wait")
	w.says(out, "has already ended (winner)")
	w.lacks(out, "submitted")

	// What is no id of a sweep.
	w.refused(sweep.ExitInput, "use 1 to 63 of", "status", "Night")
	w.refused(sweep.ExitUsage, `"@latst" is no sweep: give its id, or @latest`, "status", "@latst")

	// A plan that cannot be read hides no other sweep.
	w.put("sweeps", sweep.Names("broken").Plan(), "{")
	w.says(w.must("status"), "unreadable", string(id))
	w.refused(sweep.ExitInput, "sweep broken:", "status", "broken")

	// Nor does a conclusion that cannot be read.
	w.put("sweeps", sweep.Names(id).Conclusion(), "{")
	if out := w.must("status"); strings.Count(out, "unreadable") != 2 {
		t.Errorf("status with a damaged plan and a damaged conclusion: want both called unreadable\n%s", out)
	}
	w.refused(sweep.ExitInput, "not a conclusion", "status", string(id))
}

// TestNoPlanWithoutBatch: while Batch does not answer, no plan is written. A plan without a job would be concluded, and
// its id would be spent.
func TestNoPlanWithoutBatch(t *testing.T) {
	w := newStagedWorld(t)
	w.jobs.away = errors.New("no answer")
	w.refused(sweep.ExitError, "no answer", "sweep", w.spec())
	w.empty("sweeps")
}

// TestCtrlCSaysThatTheSweepGoesOn: Ctrl-C ends the watching, not the sweep; the launcher says so, and how to watch it
// again.
func TestCtrlCSaysThatTheSweepGoesOn(t *testing.T) {
	w := newStagedWorld(t)
	ctx, stop := context.WithCancel(t.Context())
	w.ctx, w.jobs.run = ctx, func(*sweep.Plan) { stop() }
	w.refused(sweep.ExitInterrupt, "sweep night-1 continues: `launcher watch night-1`", "sweep",
		w.spec(), "--id", "night-1")
}

// TestSweepWithoutAWinner: a command that has waited for such a sweep ends with a code of its own, and the reason.
func TestSweepWithoutAWinner(t *testing.T) {
	w := newStagedWorld(t)
	w.jobs.run = w.concluded(sweep.OutcomeNoWinner)
	w.refused(sweep.ExitNoWinner, "because", "sweep", w.spec())
}

// TestSweepIDs: a sweep with an id is started once; the same command later attaches to it.
func TestSweepIDs(t *testing.T) {
	w := newStagedWorld(t)
	file := w.spec()
	out := w.must("sweep", file, "--id", "nightly-1", "--no-wait")
	if !strings.Contains(out, "launcher watch nightly-1") || w.jobs.submitted["nightly-1"] != 1 {
		t.Errorf("a sweep with an id: got %s; want one job, and the command to watch it", out)
	}
	w.now = w.now.Add(time.Hour)
	w.says(w.must("sweep", file, "--id", "nightly-1", "--no-wait"), "attached")
	other := w.spec("trials: 4", "trials: 5")
	w.refused(sweep.ExitConflict, " by build v1, this is v1)", "sweep", other, "--id", "nightly-1", "--no-wait")
	w.refused(sweep.ExitUsage, "sweep id", "sweep", file, "--id", "../x")
}

// TestSubmissionThatFailsIsTakenUp: the plan is written before the job is submitted, so when the submission fails, the
// same command submits it later.
func TestSubmissionThatFailsIsTakenUp(t *testing.T) {
	w := newStagedWorld(t)
	file := w.spec()
	w.jobs.err = errors.New("no quota")
	w.refused(sweep.ExitError, "no quota", "sweep", file, "--id", "x", "--no-wait")
	w.jobs.err = nil
	w.must("sweep", file, "--id", "x", "--no-wait")
	if w.jobs.submitted["x"] != 1 {
		t.Errorf("sweep x was submitted %d times, want once", w.jobs.submitted["x"])
	}
}

// TestDryRunWritesNothing: a dry run shows trials, memory and the request to Batch, and leaves no object behind.
func TestDryRunWritesNothing(t *testing.T) {
	w := newStagedWorld(t)
	file := w.spec()
	out := w.must("sweep", file, "--dry-run") // two tasks: an n2-highmem-2 has two vCPUs, and a task one thread
	w.says(out, "num_leaves", "random", `"taskCount": 2`, "private to a trial", "of which the dataset takes")
	var both struct {
		Plan    sweep.Plan      `json:"plan"`
		Request json.RawMessage `json:"request"`
	}
	if err := json.Unmarshal([]byte(w.must("sweep", file, "--dry-run", "--json")), &both); err != nil ||
		len(both.Plan.Trials) != 4 || len(both.Request) == 0 {
		t.Errorf("sweep --dry-run --json: %+v, %v, expected a plan of 4 trials and a request", both, err)
	}
	w.empty("sweeps")
	if len(w.jobs.submitted) > 0 {
		t.Error("a job was submitted, want none")
	}
}

// TestCancel: cancel ends the job of a sweep, and says so. Its object is created once, and a watcher learns of it. A
// job that still waits for machines after the sweep was concluded, as after an interrupted cancel, is cancelled, too.
func TestCancel(t *testing.T) {
	w := newStagedWorld(t)
	w.must("sweep", w.spec(), "--id", "x", "--no-wait")
	if out := w.must("cancel", "x"); !strings.Contains(out, "(job cancelled)") || !w.jobs.cancelled {
		t.Errorf("cancelled sweep x: got %s; want its job cancelled, and that said", out)
	}
	read := func() string {
		data, _ := must.Get2(blob.ReadAll(t.Context(), w.buckets["sweeps"], sweep.Names("x").Cancel(), 1<<10))(t)
		return string(data)
	}
	first := read()
	w.says(first, `"format": 1`, `"sweep": "x"`)
	w.refused(sweep.ExitNoWinner, "cancelled", "watch", "x")
	w.must("cancel", "x")
	if again := read(); again != first {
		t.Errorf("cancelling again made %s of %s; want it created once", again, first)
	}

	w.jobs.cancelled = false
	must.Get(sweepstore.New(w.buckets["sweeps"], "x").CreateConclusion(t.Context(), sweep.Conclusion{
		Format: sweep.FormatVersion, Sweep: "x", Outcome: sweep.OutcomeCancelled, At: w.now}))(t)
	w.says(w.must("cancel", "x"), "its job was still running, and is cancelled")
	w.says(w.must("cancel", "x"), "sweep x was already cancelled")
}

// TestLsShowsTheNewestFirst: status without an id lists sweeps by the time of their plans, not by their names.
func TestLsShowsTheNewestFirst(t *testing.T) {
	w := newStagedWorld(t)
	file := w.spec()
	w.put("sweeps", sweep.Names("a-broken").Plan(), "{")
	for _, id := range []string{"m-first", "z-second", "b-third"} {
		w.must("sweep", file, "--id", id, "--no-wait")
		w.now = w.now.Add(time.Hour)
	}

	var got []page.IndexSweep
	must.Do(t, json.Unmarshal([]byte(w.must("status", "--json")), &got))
	var ids []string
	for _, l := range got {
		ids = append(ids, l.ID)
	}
	if order := strings.Join(ids, " "); order != "b-third z-second m-first a-broken" {
		t.Errorf("status lists %s, expected b-third z-second m-first a-broken: the newest first, and last what cannot "+
			"be read", order)
	}
}

// TestRollbackTo: --to goes back past a version, and only to one that was the champion. If it is that already, nothing
// changes. A rollback from the first champion is refused, also after others in between.
func TestRollbackTo(t *testing.T) {
	w := newWorld(t)
	w.register(4)
	for _, version := range []string{"1", "2", "3"} {
		w.must("registry", "promote", "ctr@"+version, "--why", "a test")
	}
	w.refused(sweep.ExitInput, "champion of ctr was at 1-2 before, never at 4; to move it there, promote it",
		"registry", "rollback", "ctr", "--to", "4", "--why", "a test")
	w.refused(sweep.ExitUsage, "--to is 0", "registry", "rollback", "ctr", "--to", "0", "--why", "a test")
	w.says(w.must("registry", "rollback", "ctr", "--to", "3", "--why", "a test"), "already")
	w.says(w.must("registry", "rollback", "ctr", "--to", "1", "--why", "a test"), "version 3 -> 1")
	// Nothing was champion before version 1, though 3 was in between.
	w.refused(sweep.ExitNotFound, "champion of ctr has no earlier version to return to", "registry", "rollback",
		"ctr", "--why", "a test")
	w.says(w.must("registry", "show", "ctr", "--history"), "3 -> 1")
}

// TestParametersOfAResultCanBeFedBack: a spec takes all parameters of a result.json, including empty lists of columns,
// as fixed values and in a grid.
func TestParametersOfAResultCanBeFedBack(t *testing.T) {
	text := must.Get(json.Marshal(gbt.Defaults().Map()))(t)
	var params map[string]any
	must.Do(t, json.Unmarshal(text, &params))
	for _, own := range []string{"objective", "metric", "early_stopping_round", "num_threads", "seed"} {
		delete(params, own) // the spec has keys of its own for them
	}
	text = must.Get(json.Marshal(params))(t)

	w := newStagedWorld(t)
	for _, search := range []string{fmt.Sprintf("{fixed: [%s]}", text), "{grid: {ignore_column: ['', 'name:age']}}"} {
		yaml := strings.Replace(sweepYAML, "{random: {num_leaves: {log_int: [4, 40]}}}", search, 1)
		trials := "trials: 1"
		if strings.Contains(search, "grid") { // which has two values
			trials = "trials: 2"
		}
		yaml = strings.Replace(yaml, "trials: 4", trials, 1)
		w.must("sweep", w.file("again.yaml", yaml), "--dry-run")
	}
}

// TestWordsOnScreens: commands show an outcome in words, and as it is stored with --json.
func TestWordsOnScreens(t *testing.T) {
	w := newStagedWorld(t)
	w.jobs.run = w.concluded(sweep.OutcomeNoWinner)
	file := w.spec()
	w.run("sweep", file, "--id", "night-1")
	w.says(w.must("status"), "│ no winner │")
	w.says(w.must("status", "--json"), `"outcome": "no_winner"`)
	w.jobs.cancelled = true // so that its job does not run any more, and there is nothing to cancel
	w.refused(sweep.ExitConflict, "has ended (no winner)", "cancel", "night-1")
}

// TestFirstThingFirst: the refusal of a wrong number says first what is expected, that of a missing reason the command
// to give.
func TestFirstThingFirst(t *testing.T) {
	w := newWorld(t)
	w.refused(sweep.ExitUsage, `--days "x": expected a whole number`, "nights", "ctr", "--days", "x")
	w.refused(sweep.ExitUsage, "give --why: launcher datasets accept", "datasets", "accept", "clicks")
}

// TestLogOfALauncherNobodyWatches: as a Cloud Run job the launcher writes log lines, which are found by the sweep's
// trace; a person gets none.
func TestLogOfALauncherNobodyWatches(t *testing.T) {
	w := newStagedWorld(t)
	if _, _, errOut := w.run("sweep", w.spec(), "--no-wait", "--id", "night-0"); errOut != "" {
		t.Errorf("a person got log lines, want none: %s", errOut)
	}
	w.env = map[string]string{"COPPICE_LOG": "json"}
	code, _, errOut := w.run("sweep", w.spec(), "--no-wait", "--id", "night-1")
	var line map[string]any
	if err := json.Unmarshal([]byte(errOut), &line); err != nil || code != 0 {
		t.Fatalf("ended with %d, want 0 and a line of JSON: %v in %s", code, err, errOut)
	}
	if line["message"] != "sweep submitted" || line["logging.googleapis.com/trace"] != "projects/p/traces/"+
		sweep.ID("night-1").Trace() {
		t.Errorf(`the log line is %v; want "sweep submitted" with the sweep's trace`, line)
	}
	if _, _, errOut = w.run("watch", "no-such-sweep"); !strings.Contains(errOut, `"severity":"ERROR"`) {
		t.Errorf("watched a sweep that does not exist: got %s; want a log line of severity ERROR", errOut)
	}
}

// commandLine matches a command in a list of commands.
var commandLine = regexp.MustCompile(`(?m)^  ([a-z]+) {2,}\S`)

// commandsIn returns the commands that a part of a help text lists.
func commandsIn(text string) (names []string) {
	for _, m := range commandLine.FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	return names
}

// TestHelpStartsWithSevenCommands: the help begins with the commands that make a first model, and has every other one
// in some group.
func TestHelpStartsWithSevenCommands(t *testing.T) {
	out := newWorld(t).must("--help")
	_, rest, found := strings.Cut(out, "\nStart, in this order:\n")
	first, rest, _ := strings.Cut(rest, "\n\n")
	got := commandsIn(first)
	slices.Sort(got) // main lists them in their order, tests as cobra does
	if want := []string{"fit", "plan", "predict", "report", "stage", "sweep", "watch"}; !found ||
		!slices.Equal(got, want) {
		t.Errorf("the first group has %v, expected %v", got, want)
	}
	if _, ungrouped, _ := strings.Cut(rest, "\nAdditional Commands:\n"); !slices.Equal(commandsIn(ungrouped),
		[]string{"completion", "help"}) {
		t.Errorf("outside of all groups are %v, expected cobra's own commands", commandsIn(ungrouped))
	}
}

// TestEveryHelpHasAnExample: the help of every command has an example of that command, and lines that fit a terminal.
func TestEveryHelpHasAnExample(t *testing.T) {
	w := newWorld(t)
	var visit func(path ...string)
	visit = func(path ...string) {
		out := w.must(append(slices.Clone(path), "--help")...)
		_, example, found := strings.Cut(out, "\nExamples:\n")
		if !found || !strings.Contains(example, "launcher "+strings.Join(path, " ")) {
			t.Errorf("the help of %v has no example of it, want one:\n%s", path, out)
		}
		before, after, _ := strings.Cut(out, "\nExamples:\n")
		_, after, _ = strings.Cut(after, "\n\n") // without the examples, which are lines to copy and may be longer
		for _, line := range strings.Split(before+after, "\n") {
			if n := len([]rune(line)); n > 80 {
				t.Errorf("the help of %v has a line of %d characters, want at most the 80 of a terminal that does not "+
					"tell: %s", path, n, line)
			}
		}
		for _, line := range strings.Split(out, "\n") {
			if n := len([]rune(line)); n > 130 {
				t.Errorf("the help of %v has an example of %d characters, want at most 130: %s", path, n, line)
			}
		}
		if _, list, ok := strings.Cut(out, "Commands:\n"); ok && len(path) > 0 {
			list, _, _ = strings.Cut(list, "\n\n")
			for _, name := range commandsIn(list) {
				visit(append(slices.Clone(path), name)...)
			}
		}
	}
	visit()
	for _, name := range commandsIn(w.must("--help")) {
		if name != "help" && name != "completion" { // these are cobra's
			visit(name)
		}
	}
	w.says(w.must("stage-task", "--help"), "--batch")
}
