package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"coppice/internal/dataset"
	"coppice/internal/dataset/ingest"
	"coppice/internal/engine"
	"coppice/internal/page"
	"coppice/internal/program"
	"coppice/internal/program/tables"
	"coppice/internal/sweep"
	"coppice/launcher/internal/doctor"
	"coppice/launcher/internal/draft"
	"coppice/launcher/internal/provision"
	"coppice/launcher/internal/show"
	"coppice/launcher/internal/stager"
	"coppice/launcher/internal/sweepview"
)

// terminal is what a terminal shows of what is written to it. A line that goes on below is what no person wants to see.
type terminal struct {
	width   int
	rows    [][]rune
	row     int
	column  int
	wrapped []string
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

// escape obeys a control sequence, and returns how long it is.
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

func (t *terminal) line() {
	for len(t.rows) <= t.row {
		t.rows = append(t.rows, nil)
	}
}

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

// everyWidth has what is to be written on terminals of three widths looked at.
func everyWidth(t *testing.T, name string, write func(*terminal)) (last *terminal) {
	t.Helper()
	for _, width := range []int{80, 100, 160} {
		last = &terminal{width: width}
		write(last)
		if len(last.wrapped) > 0 {
			t.Errorf("%s at %d columns: %d lines go on below, the first is\n%s", name, width, len(last.wrapped),
				last.wrapped[0])
		}
		if testing.Verbose() && width == 80 {
			t.Logf("%s\n%s", name, last)
		}
	}
	return last
}

// TestEveryCommandFitsItsTerminal: what the commands print, their help and their errors, with long names and reasons.
func TestEveryCommandFitsItsTerminal(t *testing.T) {
	const id = "nightly-clicks-of-the-whole-world-20261120-0300"
	w := newWorld(t)
	w.screen = true
	w.staged()
	w.jobs.run = w.concluded(sweep.OutcomeWinner)
	w.must("sweep", w.file("sweep.yaml", sweepYAML), "--id", id)
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
	for _, line := range lines {
		everyWidth(t, line, func(on *terminal) {
			w.width = on.width
			w.runTo(on, on, strings.Fields(line)...)
		})
	}
}

// TestProgressIsOneLine: of a sweep with many trials, however many counts it has; a failed one has a line of its own.
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
			v.Show(b, sweepview.Snapshot{Running: 3, Ready: 12, Paused: 13, Left: 3700,
				Tally: sweep.Tally{Done: n, AtLimit: 4, Stopped: 14, Untrained: 15, Failed: 1, Waiting: 10},
				Best:  &sweepview.Best{Trial: 7, Score: 0.123456},
				Job:   provision.SweepJob{JobStatus: engine.JobStatus{State: engine.Running}}})
			now = now.Add(time.Second)
			if n > 9 && len(on.rows) > 4 {
				t.Fatalf("after %d trials %d lines:\n%s", n, len(on.rows), on)
			}
		}
		if !strings.Contains(on.String(), "49/60 done · 62 min left · best average_precision 0.1235 (#7)") {
			t.Errorf("the line is\n%s", on)
		}
		v.Close()
	})
	if text := on.String(); strings.Contains(text, "done") || !strings.Contains(text, "trial   9 failed: no memory") {
		t.Errorf("what stays is\n%s\nexpected the failed trial alone", text)
	}
}

// TestWhatAFitPrintsFits: what was found in a table, what is odd, and how good the model is.
func TestWhatAFitPrintsFits(t *testing.T) {
	long := strings.Repeat("a long finding about a column ", 9)
	column := strings.Repeat("a_long_name_", 12)
	pasted := column[:48] // a part of what is copied stays whole, or it would not be read as it was
	var warnings []dataset.Warning
	for _, of := range [][2]string{{ingest.HintIDs, column}, {ingest.HintKey, column}, {ingest.WarnConstant, pasted},
		{ingest.WarnIDLike, pasted}} {
		warnings = append(warnings, dataset.Warning{Code: of[0], Column: of[1], Text: long},
			dataset.Warning{Code: of[0], Column: "short", Text: long})
	}
	base := 0.5
	fitted := &show.Fit{Model: "clicks", Version: 3, Why: long, Hurried: long, Metric: "log_loss", Done: 3,
		Data: "a folder/" + pasted, Params: strings.Repeat("num_leaves=12 ", 20), Default: &base, Base: 0.02,
		Test: map[string]float64{"log_loss": 0.1, "auc": 0.7}, Within: &sweep.Within{Low: 0.05, High: 0.2},
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
