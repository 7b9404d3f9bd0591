package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/nights"
	"coppice/internal/notify"
	"coppice/internal/sweep"
)

// listens makes a channel that records its messages, or fails.
func (w *world) listens(heard *[]notify.VerdictMessage, fail *error) {
	send := func(_ context.Context, m *notify.VerdictMessage) error {
		if *fail == nil {
			*heard = append(*heard, *m)
		}
		return *fail
	}
	w.verdicts = func(context.Context) ([]notify.Channel, func(), error) {
		return []notify.Channel{{Name: "topic", Send: send}}, func() {}, nil
	}
}

// TestBlockedNightIsTold: when it is staged, and by the scheduled sweep that is not started because of it; each once,
// and not if no sweep trains on the dataset or a person runs the command.
func TestBlockedNightIsTold(t *testing.T) {
	w := newWorld(t)
	var heard []notify.VerdictMessage
	fail := errors.New("no answer")
	w.listens(&heard, &fail)

	w.file("clicks.csv", string(datasettest.Table(datasettest.Options{Rows: 1200})))
	spec := w.file("dataset.yaml",
		"name: clicks\nsource: clicks.csv\nlabel: is_click\ndrop: [revenue]\nsplit: {by: hash, key: user_id, train: "+
			"0.6, valid: 0.4}\ncontract: {rows: {min: 100000}}\n")
	night := w.file("sweep.yaml", sweepYAML)

	// A channel that fails does not change how the command ends.
	w.refused(sweep.ExitBlocked, "note: a notification could not be sent: dataset clicks@", "stage", spec)
	fail = nil
	for range 2 {
		w.refused(sweep.ExitBlocked, "is blocked", "stage", spec)
	}
	w.refused(sweep.ExitBlocked, " --in "+w.dir+"/out --why REASON`", "stage", spec, "--out", w.dir+"/out")
	out := filepath.Join(w.dir, "Black Friday's data") // a path that a shell would take apart
	_, _, says := w.run("stage", spec, "--out", out)
	_, remedy, _ := strings.Cut(says, "accept it: `launcher ")
	remedy, _, _ = strings.Cut(remedy, "`")
	w.must(shellWords(t, strings.Replace(remedy, "REASON", "'a small test'", 1))...)
	w.must("stage", spec, "--out", out)

	w.refused(sweep.ExitBlocked, "is blocked", "sweep", night)
	for range 2 {
		w.refused(sweep.ExitBlocked, "is blocked", "sweep", night, "--schedule", "0 3 * * *", "--no-wait", "--json")
	}
	w.refused(sweep.ExitBlocked, "is blocked", "sweep", night, "--schedule", "0 3 * * *", "--dry-run")

	if len(heard) != 2 {
		t.Fatalf("told %d times, want 2: %+v", len(heard), heard)
	}
	staged, refused := heard[0], heard[1]
	if staged.Occasion != sweep.OccasionStaged || staged.Verdict != sweep.VerdictBlocked ||
		!strings.HasPrefix(staged.Dataset, "clicks@") || !strings.Contains(staged.Reason, "rows") {
		t.Errorf("when it was staged: %+v", staged)
	}
	if refused.Occasion != sweep.OccasionRefused || refused.Sweep != "night-20261121-0300" || refused.Model != "ctr" ||
		refused.Dataset != staged.Dataset {
		t.Errorf("when the sweep was not started: %+v", refused)
	}

	// Once a person has accepted the night, there is no message.
	w.must("datasets", "accept", staged.Dataset, "--why", "a small test")
	w.must("sweep", night, "--schedule", "0 3 * * *", "--no-wait", "--json")
	if len(heard) != 2 {
		t.Errorf("told %+v", heard[2:])
	}
	if i := slices.IndexFunc(heard, func(m notify.VerdictMessage) bool { return m.Next == "" }); i >= 0 {
		t.Errorf("no word on what to do: %+v", heard[i])
	}
}

// shellWords are the arguments that a shell makes of a command line.
func shellWords(t *testing.T, line string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf '%s\\n' "+line).Output()
	if err != nil {
		t.Fatalf("a shell cannot read %q: %v", line, err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}

// TestStatusShowsTheNight: what staging found in the dataset that a sweep trains on, whatever became of it since.
func TestStatusShowsTheNight(t *testing.T) {
	w := newWorld(t)
	w.file("clicks.csv", string(datasettest.Table(datasettest.Options{Rows: 1200})))
	spec := w.file("dataset.yaml",
		"name: clicks\nsource: clicks.csv\nlabel: is_click\ndrop: [revenue]\nsplit: {by: hash, key: user_id, train: "+
			"0.6, valid: 0.4}\ncontract: {rows: {min: 100000}}\n")
	if code, _, said := w.run("stage", spec); code != sweep.ExitBlocked {
		t.Fatalf("staging a small table ended with %d: %s", code, said)
	}
	w.must("datasets", "accept", "clicks", "--why", "a small test")
	w.must("sweep", w.file("sweep.yaml", sweepYAML), "--id", "night-1", "--no-wait")
	says := func(parts ...string) {
		t.Helper()
		out := w.must("status", "night-1")
		for _, part := range parts {
			if !strings.Contains(out, part) {
				t.Errorf("status says\n%s\nexpected %q in it", out, part)
			}
		}
	}

	says("accepted by", ": a small test", "blocking: ", "(rows)")
	var got struct {
		Night struct {
			State    string
			Findings []nights.Finding
		}
	}
	if err := json.Unmarshal([]byte(w.must("status", "night-1", "--json")), &got); err != nil ||
		got.Night.State != "accepted" || len(got.Night.Findings) == 0 || got.Night.Findings[0].Code != nights.CodeRows {
		t.Errorf("status --json has the night %+v, %v; expected an accepted one with the finding %q", got.Night, err,
			nights.CodeRows)
	}

	// A record that is damaged or gone is no reason to say nothing about the sweep.
	for object, err := range w.buckets["datasets"].List(t.Context(), sweep.DatasetNights("clicks")) {
		if err != nil {
			t.Fatal(err)
		}
		w.put("datasets", object.Name, "{")
	}
	says("unreadable", "not started")
}

// TestStageSaysWhatIsNotFinal, to people and as JSON.
func TestStageSaysWhatIsNotFinal(t *testing.T) {
	w := newWorld(t)
	var b strings.Builder
	b.WriteString("y,x,ts\n")
	for i := range 400 {
		fmt.Fprintf(&b, "%d,%d,2026-11-%02dT%02d:00:00Z\n", i%2, i%17, 1+i/24, i%24)
	}
	w.file("late.csv", b.String())
	spec := w.file("late.yaml", "name: late\nsource: late.csv\nlabel: {column: y, matures: 24h, at: ts}\ndrop: [ts]\n")
	if out := w.must("stage", spec); !strings.Contains(out,
		"left out: 24 rows after 2026-11-16T15:00:00Z with labels that are not final (y matures in 24 h)") {
		t.Errorf("it does not say what was left out:\n%s", out)
	}
	var m dataset.Manifest
	if err := json.Unmarshal([]byte(w.must("stage", spec, "--json")), &m); err != nil || m.About.Unripe == nil ||
		m.About.Unripe.Rows != 24 {
		t.Errorf("as JSON: %+v, %v", m.About.Unripe, err)
	}
}
