package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"coppice/internal/blob"
	"coppice/internal/dataset"
	"coppice/internal/dataset/ingest"
	"coppice/internal/engine"
	"coppice/internal/fit"
	"coppice/internal/must"
	"coppice/internal/page"
	"coppice/internal/program"
	"coppice/internal/program/environment"
	"coppice/internal/program/tables"
	"coppice/internal/registry"
	"coppice/internal/search"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/doctor"
	"coppice/launcher/internal/draft"
	"coppice/launcher/internal/provision"
	"coppice/launcher/internal/show"
	"coppice/launcher/internal/stager"
	"coppice/launcher/internal/sweepview"
)

// TestLatest: @latest names the sweep that was planned last, a model's newest version, and a dataset's newest version.
func TestLatest(t *testing.T) {
	w := newStagedWorld(t)
	file := w.spec()
	for _, id := range []string{"z-first", "a-second"} {
		w.must("sweep", file, "--id", id, "--no-wait")
		w.now = w.now.Add(time.Hour)
	}
	w.register(2)
	w.must("registry", "promote", "ctr@1", "--why", "a test")
	w.says(w.must("status", "@latest"), "a-second")
	for ref, number := range map[string]string{"ctr": "ctr version 1", "ctr@latest": "ctr version 2"} {
		w.says(w.must("registry", "show", ref), "│ "+number)
	}
	w.says(w.must("datasets", "show", "clicks@latest"), "│ because")
	w.buckets["sweeps"] = blob.Memory()
	w.refused(sweep.ExitNotFound, "there is no sweep yet", "status", "@latest")
}

// TestEmptyListsSayWhatToDo: where there is no sweep, dataset or model yet, the list says which command makes the
// first.
func TestEmptyListsSayWhatToDo(t *testing.T) {
	w := newWorld(t)
	for command, want := range map[string]string{"status": "no sweep yet: `launcher fit",
		"datasets list": "no dataset yet: `launcher stage", "registry list": "no model yet: `launcher fit"} {
		if out := w.must(strings.Fields(command)...); !strings.HasPrefix(out, want) {
			t.Errorf("%s, where nothing is, says\n%s\nexpected %s ...", command, out, want)
		}
	}
}

// TestReport: report writes the page of a sweep, a model or a dataset, by its name or as KIND:NAME. A name of nothing
// is refused.
func TestReport(t *testing.T) {
	w := newStagedWorld(t)
	w.jobs.run = w.concluded(sweep.OutcomeWinner)
	w.must("sweep", w.spec(), "--id", "night-1")

	// A sweep's page, the same bytes each time.
	out := filepath.Join(w.dir, "page.html")
	w.says(w.must("report", "night-1", "--out", out), "wrote "+out)
	first := must.Get(os.ReadFile(out))(t)
	if !strings.HasPrefix(string(first), "<!doctype html>") {
		t.Errorf("the sweep's page begins with %.300q, want a document of HTML", first)
	}
	w.hasParts("the sweep's page", string(first), " is live", "num_leaves")
	if again := w.must("report", "night-1", "--out", "-"); again != string(first) {
		t.Error("written twice, the page has other bytes, want the same")
	}

	// A model's.
	v := must.Get(registry.New(w.buckets["registry"]).Register(t.Context(), "ctr", "night-1",
		map[string][]byte{"model.txt": []byte("{")},
		registry.Info{At: w.now, By: "test", Why: "best", Metrics: map[string]float64{"auc": 0.61},
			Labels: map[string]string{"sweep": "night-1", "dataset": "clicks@0"}}))(t)
	must.Get(registry.New(w.buckets["registry"]).Promote(t.Context(), "ctr", v.Number, registry.Expect{},
		registry.Act{By: "test", Why: "because", At: w.now}))(t)
	w.hasParts("the model's page", w.must("report", "ctr", "--out", "-"), "Version 1 is live", "clicks@0", "model.txt")
	w.hasParts("the page of model:ctr", w.must("report", "model:ctr", "--out", "-"), "Version 1 is live")

	// A dataset's.
	w.hasParts("the dataset's page", w.must("report", "clicks", "--out", "-"), "Night by night", "campaign_id",
		"night-1")

	// Refused.
	w.refused(sweep.ExitUsage, "a model's page has all its versions", "report", "ctr@champion", "--out", "-")
	w.refused(sweep.ExitNotFound, "dataset ctr is not staged", "report", "dataset:ctr", "--out", "-")
	w.refused(sweep.ExitUsage, "--out", "report", "night-1")
	w.refused(sweep.ExitNotFound, "there is no sweep", "report", "night-2", "--out", "-")
	w.refused(sweep.ExitUsage, "does not exist", "report", "night-1", "--out",
		filepath.Join(w.dir, "no", "folder.html"))
}

// TestANameOfSeveralKinds: of a name that a sweep and a dataset have, report writes the sweep's page, and a note names
// the dataset. There is no note if the kind is given, or if only one thing has the name.
func TestANameOfSeveralKinds(t *testing.T) {
	w := newStagedWorld(t)
	w.register(1)
	w.must("sweep", w.spec(), "--id", "clicks", "--no-wait")
	out := filepath.Join(w.dir, "page.html")
	for name, want := range map[string]string{
		"clicks":         "note: this is the page of sweep:clicks; there is dataset:clicks, too\n",
		"dataset:clicks": "",
		"ctr":            "",
	} {
		if code, _, said := w.run("report", name, "--out", out); code != 0 || said != want {
			t.Errorf("report %s ended with %d and said %q; want %q", name, code, said, want)
		}
	}
}

// TestWritePage writes a page into a folder that does not exist yet, and another over it.
func TestWritePage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pages", "night.html")
	for n := 1; n <= 2; n++ {
		view, want := &page.Index{More: n}, bytes.Buffer{}
		must.Do(t, view.Write(&want))
		if size, err := writePage(path, view); err != nil || size != want.Len() {
			t.Fatalf("page %d: %d bytes were written, %v; want %d", n, size, err, want.Len())
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want.Bytes()) {
			t.Errorf("page %d: the file has %d bytes, %v; want the %d of Write", n, len(got), err, want.Len())
		}
	}
}

// TestConsoleServes: the console prints its address and serves a sweep's page there, with the command that cancels it.
// It refuses POST, and ends with 0.
func TestConsoleServes(t *testing.T) {
	w := newStagedWorld(t)
	w.must("sweep", w.spec(), "--id", "night-1", "--no-wait")
	ctx, stop := context.WithCancel(t.Context())
	w.ctx = ctx
	from, to := io.Pipe()
	ended := make(chan int, 1)
	go func() { ended <- w.runTo(to, io.Discard, "console", "--listen", "127.0.0.1:0") }()
	lines := bufio.NewScanner(from)
	lines.Scan()
	for method, want := range map[string]int{http.MethodGet: http.StatusOK,
		http.MethodPost: http.StatusMethodNotAllowed} {
		r := must.Get(http.NewRequestWithContext(t.Context(), method, lines.Text()+"/sweeps/night-1", nil))(t)
		answer, err := http.DefaultClient.Do(r)
		must.Do(t, err)
		text, err := io.ReadAll(answer.Body)
		if err != nil || answer.Body.Close() != nil || answer.StatusCode != want ||
			want == http.StatusOK && !strings.Contains(string(text), "<code>launcher cancel night-1</code>") {
			t.Errorf("%s is answered %d %.200q, %v; expected %d", method, answer.StatusCode, text, err, want)
		}
	}
	stop()
	if code := <-ended; code != sweep.ExitOK {
		t.Errorf("the console ended with %d, expected %d", code, sweep.ExitOK)
	}
}

// someCallers returns callers that reject everybody; an error if none are configured.
func someCallers(_ context.Context, env environment.CallersEnv) (program.Callers, error) {
	if env.Audience == "" || len(env.Callers) == 0 {
		return nil, errors.New("nobody may call")
	}
	return nobody{}, nil
}

type nobody struct{}

func (nobody) Verify(context.Context, string) (string, error) { return "", errors.New("nobody") }

// TestConsoleRefuses: without an audience and callers, the console does not listen on an address that other machines
// can reach. Nor does it on an invalid port.
func TestConsoleRefuses(t *testing.T) {
	w := newWorld(t)
	w.refused(sweep.ExitInput, "ssh -L", "console", "--listen", "0.0.0.0:8765")
	w.refused(sweep.ExitInput, "invalid port 99999", "console", "--listen", "127.0.0.1:99999")
	w.env = map[string]string{"COPPICE_AUDIENCE": "https://console.example"}
	w.refused(sweep.ExitError, "nobody may call", "console", "--listen", "0.0.0.0:0")
}

// TestTried: the leaderboard says why a trial was tried, and why it was stopped at a rung. status counts stopped
// trials, and those that are paused at a rung, and does not count them as failed or running. Rungs are a ninth and a
// third of the 100 trees, since eta is 3.
func TestTried(t *testing.T) {
	w := newStagedWorld(t)
	spec := strings.Replace(sweepYAML, "search: {random: {num_leaves: {log_int: [4, 40]}}}",
		"search: {method: gp, fixed: [{}], random: {num_leaves: {log_int: [4, 40]}}, stop: {rule: "+
			"asha, min_trees: 5}}", 1)
	w.must("sweep", w.file("sweep.yaml", spec), "--id", "night-1", "--no-wait")

	plan := w.plan("night-1")
	if got := fmt.Sprint(plan.Spec.Search.Stop.Rungs); got != "[11 33]" {
		t.Errorf("the rungs of 100 trees are %v, want 11 and 33", got)
	}

	// Trial 0 is the one of search.fixed. Trial 1 is decided from its result: gp begins with a Halton sequence. Then it
	// is stopped at the first rung, 11 trees, with the reason that the leaderboard has to show.
	trials, score := sweepstore.NewTrials(w.buckets["sweeps"], plan), 0.75
	seen := []sweep.Seen{{Trial: 0, Status: sweep.StatusDone, Score: &score}}
	s := must.Get(search.Decide(plan, 1, seen, nil))(t)
	full := must.Get(fit.Complete(plan.Base, s.Params, nil))(t)
	must.Get(trials.CreateDecision(t.Context(), sweep.Decision{Format: 1, Sweep: plan.Sweep, Trial: 1, Task: 3,
		At: w.now, Params: full, Own: s.Params, Source: s.Source, Reason: s.Reason, Seen: seen}))(t)
	must.Get(trials.CreateRung(t.Context(), sweep.Rung{Format: 1, Sweep: plan.Sweep, Trial: 1, Step: 11, Score: 0.5,
		Pause: true, Reason: "rank 4 of 4", Seen: []sweep.Reached{{Step: 11, Trial: 0, Score: 0.6}}}))(t)
	must.Get(trials.CreateResult(t.Context(), sweep.Result{Format: 1, Sweep: plan.Sweep, Trial: 1,
		Status: sweep.StatusStopped, Reason: "at 11 trees: rank 4 of 4", Score: 0.5, TreesGrown: 11, Params: full}))(t)

	w.says(w.must("leaderboard", "night-1", "--all"), "fixed", "halton: initial design (Halton)",
		"at 11 trees: rank 4 of 4")
	out := w.must("status", "night-1")
	w.says(out, "1 trial, because others were better")
	w.lacks(out, "failed")

	// Trial 2 waits at the first rung: with eta 3, two trials there are too few to say which third is best.
	other := sweep.Reached{Step: 11, Trial: 0, Score: 0.6}
	must.Get(trials.CreateRung(t.Context(), sweep.Rung{Format: 1, Sweep: plan.Sweep, Trial: 2, Step: 11, Score: 0.5,
		Pause: true, Reason: "2 have come to rung 11, fewer than 3", Seen: []sweep.Reached{other}}))(t)
	must.Do(t, trials.CreatePause(t.Context(), 2, 0, 11))
	out = w.must("status", "night-1")
	w.says(out, "1 trial behind others at a rung; may resume")
	w.lacks(out, "1 running")
}

// TestTriedOfFolds: the plan of a sweep with cross-validation has a line for each configuration that is decided later:
// three of four, since the first is given by search.fixed. The page says why one was tried, and status counts the
// configurations that are open.
func TestTriedOfFolds(t *testing.T) {
	w := newStagedWorld(t)
	w.must("stage", w.file("dataset.yaml", strings.Replace(clicksYAML, "name: clicks", "name: plain", 1)+
		"categorical: [campaign_id]\nencodings: none\n"))
	file := w.file("sweep.yaml", strings.NewReplacer("search: {random: {num_leaves: {log_int: [4, 40]}}}",
		"search: {method: gp, fixed: [{}], random: {num_leaves: {log_int: [4, 40]}}}",
		"dataset: clicks", "dataset: plain\nvalidate: {kfold: 4}").Replace(sweepYAML))
	if out := strings.Join(strings.Fields(w.must("sweep", file, "--dry-run")), " "); !strings.Contains(out,
		"3 configurations are decided when their first fold is claimed") || strings.Count(out, "│ gp │") != 3 {
		t.Errorf("the plan is\n%s\nwant three configurations that are decided later, one line each", out)
	}
	w.must("sweep", file, "--id", "night-1", "--no-wait")

	// The first three of the four folds of every configuration come first: trials 0 to 2 are the first configuration's,
	// and trial 3 begins the second. That is decided by whoever claims its second fold, trial 4, with the score of
	// trial 0.
	plan, trials, score := w.plan("night-1"), sweepstore.NewTrials(w.buckets["sweeps"], w.plan("night-1")), 0.75
	seen := []sweep.Seen{{Trial: 0, Status: sweep.StatusDone, Score: &score}}
	s := must.Get(search.Decide(plan, 3, seen, nil))(t)
	full := must.Get(fit.Complete(plan.Base, s.Params, nil))(t)
	must.Get(trials.CreateDecision(t.Context(), sweep.Decision{Format: 1, Sweep: plan.Sweep, Trial: 3, Task: 2,
		Claim: 1, Holder: 4, At: w.now, Params: full, Own: s.Params, Source: s.Source, Reason: s.Reason,
		Seen: seen}))(t)

	w.hasParts("the sweep's page", w.must("report", "night-1", "--out", "-"), "initial design (Halton)")
	w.says(w.must("status", "night-1"), "4 open, in 4 folds")
}

// hasParts fails unless the text of a page has each of the parts.
func (w *world) hasParts(page, text string, parts ...string) {
	w.t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			w.t.Errorf("%s lacks %q, want it there: %.2000q", page, part, text)
		}
	}
}

// terminal shows what is written to it as a terminal does, and records the lines that are too long for it.
type terminal struct {
	width   int
	rows    [][]rune // what each line shows
	row     int      // of the cursor
	column  int      // of the cursor
	wrapped []string // lines that went on in the next one
}

func (t *terminal) Write(text []byte) (int, error) {
	for i := 0; i < len(text); {
		if n := t.escape(text[i:]); n > 0 {
			i += n
			continue
		}
		r, n := utf8.DecodeRune(text[i:])
		i += n
		t.put(r)
	}
	return len(text), nil
}

// escape obeys the control sequence at the beginning of text, and returns its length; 0 if there is none. It knows
// those that programs here use: cursor up, erase to the end of the line, and colours, which it ignores.
func (t *terminal) escape(text []byte) int {
	if len(text) < 3 || text[0] != '\x1b' || text[1] != '[' {
		return 0
	}
	end := slices.IndexFunc(text[2:], func(b byte) bool { return b >= '@' && b <= '~' })
	if end < 0 {
		return 0
	}
	n, _ := strconv.Atoi(string(text[2 : 2+end]))
	switch text[2+end] {
	case 'A':
		t.row = max(0, t.row-max(n, 1))
	case 'K':
		t.line()
		t.rows[t.row] = t.rows[t.row][:min(t.column, len(t.rows[t.row]))]
	case 'm':
	default:
		panic(fmt.Sprintf("unknown sequence %q", text[:3+end]))
	}
	return 3 + end
}

// line makes the rows down to that of the cursor.
func (t *terminal) line() {
	for len(t.rows) <= t.row {
		t.rows = append(t.rows, nil)
	}
}

// put shows a character at the cursor, or moves the cursor. In the last column it goes on in the next line.
func (t *terminal) put(r rune) {
	switch t.line(); r {
	case '\r':
		t.column = 0
		return
	case '\n':
		t.row, t.column = t.row+1, 0
		return
	case '\t':
		t.column = min(t.column/8*8+8, t.width-1)
		return
	}
	if t.column == t.width {
		t.wrapped = append(t.wrapped, string(t.rows[t.row]))
		t.row, t.column = t.row+1, 0
		t.line()
	}
	for len(t.rows[t.row]) <= t.column {
		t.rows[t.row] = append(t.rows[t.row], ' ')
	}
	t.rows[t.row][t.column] = r
	t.column++
}

func (t *terminal) String() string {
	var lines []string
	for _, row := range t.rows {
		lines = append(lines, strings.TrimRight(string(row), " "))
	}
	return strings.Join(lines, "\n")
}

// everyWidth calls write with terminals of three widths, and fails if a line is too long for one. It returns the
// widest.
func everyWidth(t *testing.T, name string, write func(*terminal)) (last *terminal) {
	t.Helper()
	for _, width := range []int{80, 100, 160} {
		last = &terminal{width: width}
		write(last)
		if len(last.wrapped) > 0 {
			t.Errorf("%s at %d columns: %d lines go on below, want none; the first is\n%s", name, width,
				len(last.wrapped), last.wrapped[0])
		}
		if testing.Verbose() && width == 80 {
			t.Logf("%s\n%s", name, last)
		}
	}
	return last
}

// TestEveryCommandFitsItsTerminal: no line of what commands print, of their help and of their errors is longer than the
// terminal is wide, even with long names and reasons.
func TestEveryCommandFitsItsTerminal(t *testing.T) {
	const id = "nightly-clicks-of-the-whole-world-20261120-0300"
	w := newWorld(t)
	w.screen = true
	w.staged()
	w.jobs.run = w.concluded(sweep.OutcomeWinner)
	w.must("sweep", w.spec(), "--id", id)
	w.register(3)
	long := strings.Repeat("a long reason ", 20)
	for _, version := range []string{"1", "2"} {
		w.must("registry", "promote", "ctr@"+version, "--why", long)
	}
	w.must("registry", "bad", "ctr@1", "--why", long)
	lines := strings.Split(strings.NewReplacer("ID", id, "DIR", w.dir).Replace(
		`stage DIR/dataset.yaml
plan DIR/sweep.yaml
plan DIR/sweep.yaml --rows 130000000 --features 40
sweep DIR/sweep.yaml --id ID
watch ID
status
status ID
leaderboard ID
leaderboard --all ID
bill ID
cancel ID
cancel no-such-sweep-ID
datasets list
datasets show clicks
datasets accept clicks --why x
registry list
registry list ctr
registry show ctr
registry show ctr@1
registry show ctr --history
registry show ctr --verify
clean
nights ctr
registry rollback ctr --to 7 --why x
registry explain ctr
registry reproduce ctr
fit t.csv
fit bigquery://project/dataset/table_of_everything_that_was_ever_seen --label clicked
registry bad ctr@2 --why x
registry promote ctr@1 --why x
registry delete ctr@2 --yes --why x`), "\n")
	var help func(string, *cobra.Command)
	help = func(path string, cmd *cobra.Command) {
		lines = append(lines, path+"--help")
		for _, child := range cmd.Commands() {
			help(path+child.Name()+" ", child)
		}
	}
	help("", rootCommand(&Setup{}))
	// Some of these are refused, whose errors have to fit, too, so their exit codes do not matter.
	for _, line := range lines {
		everyWidth(t, line, func(on *terminal) {
			w.width = on.width
			w.runTo(on, on, strings.Fields(line)...)
		})
	}
}

// TestProgressIsOneLine: the progress of a sweep with many trials and counts stays one line on a terminal. A failed
// trial has a line of its own, which is all that stays in the end.
func TestProgressIsOneLine(t *testing.T) {
	p := &sweep.Plan{Trials: make([]sweep.Trial, 60), Spec: sweep.Spec{Metric: "average_precision"}}
	on := everyWidth(t, "watch", func(on *terminal) {
		now := time.Unix(0, 0)
		v := show.NewProgress(program.World{Out: program.To(on), Err: program.To(on), Terminal: true, Width: on.width,
			Now: func() time.Time { return now }}, p, false)
		var b sweep.Board
		for n := range 50 {
			r := &sweep.Result{Trial: n, Status: sweep.StatusDone, Score: 0.123456, Trees: 100}
			if n == 9 {
				r.Status, r.Reason = sweep.StatusFailed, strings.Repeat("no memory was left ", 9)
			}
			b.Rows = append(b.Rows, sweep.Row{Trial: sweep.Trial{Number: n}, Result: r})
			v.Show(b, sweepview.Snapshot{Running: 3, Ready: 12, Paused: 13, Left: 3700, Tally: sweep.Tally{Done: n,
				AtLimit: 4, Stopped: 14, Untrained: 15, Failed: 1, Waiting: 10}, Best: &sweepview.Best{Trial: 7,
				Score: 0.123456}, Job: provision.SweepJob{JobStatus: engine.JobStatus{State: engine.Running}}})
			now = now.Add(time.Second)
			// The failed trial's 189 characters take three lines of 80 columns, and the progress one.
			if n > 9 && len(on.rows) > 4 {
				t.Fatalf("after %d trials %d lines are shown, want at most 4:\n%s", n, len(on.rows), on)
			}
		}
		// The last snapshot has 49 done and 3,700 s left, which are 62 minutes.
		if !strings.Contains(on.String(), "49/60 done · 62 min left · best average_precision 0.1235 (#7)") {
			t.Errorf("want a line of 49/60 done, the time left and the best:\n%s", on)
		}
		v.Close()
	})
	// After Close the line of progress is erased.
	if text := on.String(); strings.Contains(text, "done") || !strings.Contains(text, "trial   9 failed: no memory") {
		t.Errorf("what stays is\n%s\nexpected the failed trial alone", text)
	}
}

// TestWhatAFitPrintsFits: on terminals of 80, 100 and 160 columns (everyWidth), no line of what fit and doctor print is
// longer than the terminal is wide. Findings, reasons and names of columns are long texts, which have to be broken.
func TestWhatAFitPrintsFits(t *testing.T) {
	long := strings.Repeat("a long finding about a column ", 9)
	column := strings.Repeat("a_long_name_", 12)

	// What people copy is not broken within a name, or it would be another name. These are the columns of the advice
	// drop: [...], which WarnConstant and WarnIDLike give, the folder in a command of fit, and the account in doctor's.
	// 48 characters and the words beside them have less than 80. Hints give nothing to copy, so their column is longer.
	pasted := column[:48]
	var warnings []dataset.Warning
	for _, of := range [][2]string{{ingest.HintIDs, column}, {ingest.HintKey, column}, {ingest.WarnConstant, pasted},
		{ingest.WarnIDLike, pasted}} { // of: code, column
		warnings = append(warnings, dataset.Warning{Code: of[0], Column: of[1], Text: long},
			dataset.Warning{Code: of[0], Column: "short", Text: long})
	}
	base := 0.5
	fitted := &show.Fit{Conclusion: &sweep.Conclusion{Outcome: sweep.OutcomeWinner, Model: "clicks", Version: 3,
		Done: 3, Gate: &sweep.GateDecision{Reason: long}, Test: map[string]float64{"log_loss": 0.1, "auc": 0.7},
		Within: &sweep.Within{Low: 0.05, High: 0.2}}, Plan: &sweep.Plan{}, Hurried: long, Metric: "log_loss",
		Data: "a folder/" + pasted, Params: strings.Repeat("num_leaves=12 ", 20), Default: &base, Base: 0.02,
		Features: []page.Importance{{Feature: column, Gain: 0.4}, {Feature: "b", Gain: 0.3}}, Page: "pages/" + column}
	everyWidth(t, "fit", func(on *terminal) {
		p := show.Printer{Screen: tables.On(program.World{Out: program.To(on), Terminal: true, Width: on.width})}
		p.Found([]draft.Finding{{About: "label", Text: long}, {About: "numbers", Text: column}})
		p.Notable(&stager.Staged{Manifest: &dataset.Manifest{Name: "clicks", About: dataset.About{Warnings: warnings}}})
		p.Fitted(fitted)
		p.Checks(&doctor.Report{Findings: []doctor.Finding{{Verdict: doctor.Problem, Check: "roles", Where: column,
			What: long, Fix: "gcloud projects add-iam-policy-binding p --member " + pasted + " --role 'a b'"}}})
	})
}
