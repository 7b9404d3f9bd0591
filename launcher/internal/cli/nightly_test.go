package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/dataset"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/must"
	"coppice/internal/nights"
	"coppice/internal/nights/nightstest"
	"coppice/internal/notify"
	"coppice/internal/page"
	"coppice/internal/sweep"
	"coppice/launcher/internal/stager"
)

// TestThirtyNights runs one command each night for thirty nights, of the days 3 to 32, in which the clocks change. Each
// makes one sweep on the files of the last four days, named after its slot, 01:30 in Amsterdam, in UTC. In every third
// night the command runs again 20 hours later, partly with another file in the folder, and makes no second sweep. In
// the night whose newest day has no file, it makes none, and people are notified once, though it is started twice. The
// three nights after that have a warning about the missing day.
func TestThirtyNights(t *testing.T) {
	w := newWorld(t)
	var heard []notify.VerdictMessage
	var fail error
	w.listens(&heard, &fail)
	zone := must.Get(time.LoadLocation("Europe/Amsterdam"))(t)
	night := w.spec("trials: 4", "trials: 1")
	w.file("clicks.yaml", strings.Replace(string(nightstest.Spec("days")), "source: days",
		"source:\n  files: days/{date:2006-01-02}/*.csv\n  last: 4d\n  missing: allow", 1)+
		"encodings: none\ncontract: none\n")
	stream := nightstest.Stream{Seed: 5, Rows: 500}

	// appear writes a file of a day's rows into the day's folder.
	appear := func(day int, file string) {
		path := filepath.Join(w.dir, "days", nightstest.First.AddDate(0, 0, day).Format(time.DateOnly), file)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o777))
		must.Do(t, os.WriteFile(path, stream.Night(day).CSV(), 0o600))
	}
	command := []string{"nightly", night, "--schedule", "30 1 * * *", "--time-zone",
		"Europe/Amsterdam", "--no-wait", "--json"}

	// Days count from 0, and day 0 is nightstest.First, 2026-10-05. The first night has the days 0 to 3. Day 12,
	// 2026-10-17, never comes.
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

		if day%3 == 1 && day != missing { // a second start; from day 22 on it finds one more file
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

	// Every staged version is one night's. Three of them lack a day: those of the three nights after the missing one,
	// which still has it among its last four days.
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

// TestASecondStartIsNoNewNight: a second start for a slot attaches to its sweep, although the table is older by then
// than its contract allows, and nobody is notified.
func TestASecondStartIsNoNewNight(t *testing.T) {
	w := newWorld(t)
	var heard []notify.VerdictMessage
	var fail error
	w.listens(&heard, &fail)
	night := w.spec("trials: 4", "trials: 1")
	w.file("clicks.yaml", string(nightstest.Spec("day.csv"))+"encodings: none\ncontract: {max_age: 30h}\n")
	w.file("day.csv", string(nightstest.Stream{Seed: 5, Rows: 800}.Night(0).CSV()))
	w.now = nightstest.First.AddDate(0, 0, 1).Add(2 * time.Hour)
	command := []string{"nightly", night, "--at", w.now.Format(time.RFC3339), "--no-wait"}
	w.must(command...)
	w.now = w.now.AddDate(0, 0, 3) // the table is three days older, and contract.max_age is 30 hours
	w.must(command...)
	if len(w.jobs.submitted) != 1 || len(heard) > 0 {
		t.Errorf("two starts in one slot: %d jobs, people heard %+v; expected one job and nothing",
			len(w.jobs.submitted), heard)
	}
}

// TestATableOfAnEarlierNight: a source that has gone back to the table of the night before the last one starts no
// sweep, which people are told once. With --at a night is made up for with it.
func TestATableOfAnEarlierNight(t *testing.T) {
	w := newWorld(t)
	var heard []notify.VerdictMessage
	var fail error
	w.listens(&heard, &fail)
	night := w.spec("trials: 4", "trials: 1")
	w.file("clicks.yaml", string(nightstest.Spec("day.csv"))+"encodings: none\n")
	command := []string{"nightly", night, "--no-wait"}
	for day, of := range []int{0, 1, 0} {
		w.file("day.csv", string(nightstest.Stream{Seed: 5, Rows: 4000}.Night(of).CSV()))
		w.now = nightstest.First.AddDate(0, 0, day+1).Add(2 * time.Hour)
		if day < 2 {
			w.must(command...)
		}
	}
	for range 2 {
		w.refused(sweep.ExitConflict, "which was staged on 2026-10-06, and a newer one since", command...)
	}
	if len(w.jobs.submitted) != 2 || len(heard) != 1 || !strings.Contains(heard[0].Reason, "a newer one since") {
		t.Errorf("three nights: %d jobs, people heard %+v; expected two jobs, and one message", len(w.jobs.submitted),
			heard)
	}
	w.must(append(command, "--at", w.now.Format(time.RFC3339))...)
	if len(w.jobs.submitted) != 3 {
		t.Errorf("with --at: %d jobs, expected a third one", len(w.jobs.submitted))
	}
}

// TestNightlyFlags: nightly finds the dataset.yaml beside the sweep's file, makes up for an earlier slot with --at, and
// refuses a time in the future, flags that do not go together, and the YAML of another dataset.
func TestNightlyFlags(t *testing.T) {
	w := newStagedWorld(t)
	night := w.spec()
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
	other := w.spec("dataset: clicks", "dataset: sales")
	w.refused(sweep.ExitInput, `trains on dataset "sales", but `, "nightly", other, "--table", table)
}

// threeNights runs the sweeps night-a, night-b and night-c of a model whose version 1 is live, on the 22nd, 23rd and
// 24th. The first has a winner, the others have none.
func (w *world) threeNights() {
	w.t.Helper()
	w.register(1)
	w.must("registry", "promote", "ctr@1", "--why", "a test")
	for night, outcome := range []sweep.Outcome{sweep.OutcomeWinner, sweep.OutcomeNoWinner, sweep.OutcomeNoWinner} {
		w.now = w.now.Add(24 * time.Hour)
		w.jobs.run = w.concluded(outcome)
		w.run("sweep", w.spec(), "--id", "night-"+string(rune('a'+night)))
	}
}

// TestNights: nights lists a model's nights, the newest first, with their verdicts, the champion's age, and how many
// nights in a row have not replaced it. With --days 1 it lists those since a day ago, both ends included, which are two
// here. A scheduled sweep is the night of its slot.
func TestNights(t *testing.T) {
	w := newStagedWorld(t)
	w.refused(sweep.ExitNotFound, "no sweep of model ctr", "nights", "ctr")
	w.threeNights()

	// Version 1 was made on the 21st, three days before the last night.
	var m page.Month
	must.Do(t, json.Unmarshal([]byte(w.must("nights", "ctr", "--json")), &m))
	if len(m.Nights) != 3 || m.Standing.Champion != 1 || m.Standing.Nights != 2 ||
		m.Nights[0].Verdict != sweep.VerdictNoWinner || m.Nights[0].Age != 3 || m.Nights[2].Live != 1 {
		t.Errorf("got %+v; want three nights, the last two without a new champion, and version 1 of three days", m)
	}
	w.says(w.must("nights", "ctr"), "2 nights in a row without a new champion; ctr version 1 is 3 days old", "because")
	if out := w.must("nights", "ctr", "--days", "1", "--json"); strings.Count(out, `"sweep"`) != 2 {
		t.Errorf("nights --days 1: got\n%s\nwant two nights", out)
	}
	w.refused(sweep.ExitUsage, "--days is 0", "nights", "ctr", "--days", "0")

	w.jobs.run = w.concluded(sweep.OutcomeWinner)
	w.run("sweep", w.spec(), "--schedule", "0 2 * * *") // it is 03:00 of the 24th, so the last slot is that of 02:00
	must.Do(t, json.Unmarshal([]byte(w.must("nights", "ctr", "--json")), &m))
	if n := m.Nights[0]; n.Night != "2026-11-24" || m.Nights[1].Night == "" {
		t.Errorf("got %+v; want the night of the slot of the 24th, and every night named", m.Nights)
	}
}

// TestCommandsWithoutAName: without a name, nights shows the model of the newest sweep, and other commands that sweep;
// leaderboard says which one it is. Lists of versions name the metric of their model's sweeps.
func TestCommandsWithoutAName(t *testing.T) {
	w := newStagedWorld(t)
	w.threeNights()
	for command, name := range map[string]string{"nights --json": "ctr", "leaderboard --json": "@latest",
		"bill --json": "@latest", "report --out -": "@latest"} {
		args := strings.Fields(command)
		if named := w.must(append([]string{args[0], name}, args[1:]...)...); w.must(args...) != named {
			t.Errorf("%s without a name: want the same as for the newest, %s:\n%s", command, name, named)
		}
	}
	if out := w.must("leaderboard"); !strings.HasPrefix(out, "night-c, the newest sweep:\n") {
		t.Errorf("leaderboard without a name: got\n%s\nwant which sweep it is of", out)
	}
	for _, command := range []string{"list", "list ctr"} {
		w.says(w.must(strings.Fields("registry "+command+" --json")...), `"metric": "auc"`)
	}
}

// TestMovesNeedAReason: moving an alias needs --why, which must not be blank.
func TestMovesNeedAReason(t *testing.T) {
	w := newWorld(t)
	w.register(1)
	w.must("registry", "promote", "ctr@1", "--why", "a test")
	for _, line := range []string{"promote ctr@1", "rollback ctr", "promote ctr@1 --alias canary"} {
		args := strings.Fields("registry " + line)
		w.refused(sweep.ExitUsage, "--why is missing", args...)
		w.refused(sweep.ExitUsage, "--why is missing", append(args, "--why", " ")...)
	}
}

// TestNightsAfterAPerson: after a person has moved the champion, `nights`, `status` and the night's own command say
// which version is live, who moved it and why, in place of what the night decided.
func TestNightsAfterAPerson(t *testing.T) {
	w := newStagedWorld(t)
	w.threeChampions() // versions 1 to 3, of which 3 is live
	w.now = w.now.AddDate(0, 0, 1)
	command := []string{"nightly", w.spec(), "--at", w.now.Format(time.RFC3339)}
	w.jobs.run = w.concluded(sweep.OutcomeWinner, func(c *sweep.Conclusion) { c.Version = 3 })
	w.says(w.must(command...), "ctr version 3 is live.")
	// says runs a command, whatever its exit code, and looks for want in its output with single spaces.
	says := func(want string, command ...string) {
		t.Helper()
		if _, out, _ := w.run(command...); !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("%s says\n%s\nwant %q in it", command, out, want)
		}
	}
	says("ctr version 3 is live Nothing to do: version 3 is live.", "nights", "ctr")

	w.now = w.now.Add(time.Hour)
	w.must("registry", "rollback", "ctr", "--why", "it fell")
	by := must.Get(user.Current())(t).Username
	says("ctr version 2 is live, by hand ("+by+": it fell) Nothing to do: version 2 is live.", "nights", "ctr")
	says("ctr version 3 was promoted; version 2 is live, by hand ("+by+": it fell). On test", command...)
	says("ctr version 3 was promoted; version 2 is live, by hand ("+by+": it fell). On test", "status", "@latest")

	// The next night's version, 1, is not promoted by the gate; then a person promotes it.
	w.now = w.now.AddDate(0, 0, 1)
	w.jobs.run = w.concluded(sweep.OutcomeWinner, func(c *sweep.Conclusion) {
		c.Version, c.Gate.Passed, c.Gate.Promoted, c.Gate.Verdict = 1, false, false, sweep.VerdictNotPromoted
	})
	command = []string{"sweep", command[1], "--id", "night-2"}
	says("ctr version 1 is not live: not promoted.", command...)
	says("1 night without a new champion; ctr version 2 is", "nights", "ctr")
	w.now = w.now.Add(time.Hour)
	w.must("registry", "promote", "ctr@1", "--why", "it is right")
	says("ctr version 1 is live, by hand ("+by+": it is right) Nothing to do: version 1 is live.", "nights", "ctr")
	says("promoted by hand", "nights", "ctr")
	says("ctr version 1 was not promoted; version 1 is live, by hand ("+by+": it is right).", command...)
}

// TestABlockedNightStandsInItsPlace: a blocked night that is made up for later is listed by the day of its slot, after
// newer nights, and not by when it was staged.
func TestABlockedNightStandsInItsPlace(t *testing.T) {
	w := newStagedWorld(t)
	w.now = w.now.AddDate(0, 0, 4)
	file := w.spec()
	w.jobs.run = w.concluded(sweep.OutcomeWinner)
	w.must("nightly", file, "--at", w.now.Format(time.RFC3339))
	w.file("clicks.csv", string(datasettest.Table(datasettest.Options{Rows: 1100})))
	spec := filepath.Join(w.dir, "dataset.yaml")
	text := must.Get(os.ReadFile(spec))(t)
	w.file("dataset.yaml", string(text)+"contract: {rows: {min: 100000}}\n") // the table has 1,100, so it is blocked
	at := w.now.AddDate(0, 0, -2)
	w.now = w.now.Add(time.Hour)
	w.refused(sweep.ExitBlocked, "is blocked", "nightly", file, "--at", at.Format(time.RFC3339))
	var m page.Month
	must.Do(t, json.Unmarshal([]byte(w.must("nights", "ctr", "--json")), &m))
	if len(m.Nights) != 2 || m.Nights[1].Night != at.Format(time.DateOnly) ||
		m.Nights[1].Verdict != sweep.VerdictBlocked {
		t.Errorf("got the nights %+v; want that of %s, which was blocked, last", m.Nights, at.Format(time.DateOnly))
	}
}

// listens gives the world a channel that appends its messages to heard, or fails with *fail while that is set.
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

// TestBlockedNightIsTold: people are notified once that a dataset is blocked, when it is staged into the bucket, and
// once that a scheduled sweep was not started because of it. They are not notified of a dataset in a local folder, of a
// sweep that a person starts, or of a dry run. If a channel fails, the command ends as without it.
func TestBlockedNightIsTold(t *testing.T) {
	w := newWorld(t)
	var heard []notify.VerdictMessage
	fail := errors.New("no answer")
	w.listens(&heard, &fail)

	w.file("clicks.csv", string(datasettest.Table(datasettest.Options{Rows: 1200})))
	spec := w.file("dataset.yaml", clicksYAML+"contract: {rows: {min: 100000}}\n")
	night := w.spec()

	// A channel that fails does not change how the command ends.
	w.refused(sweep.ExitBlocked, "note: a notification could not be sent: dataset clicks@", "stage", spec)
	fail = nil
	for range 2 { // the first tells it, since the message before was lost; the second does not tell it again
		w.refused(sweep.ExitBlocked, "is blocked", "stage", spec)
	}

	// In a local folder, the error names the command that accepts it, quoted for a shell.
	w.refused(sweep.ExitBlocked, " --in "+w.dir+"/out --why REASON`", "stage", spec, "--out", w.dir+"/out")
	out := filepath.Join(w.dir, "Black Friday's data") // a path that a shell would take apart
	_, _, says := w.run("stage", spec, "--out", out)
	_, remedy, _ := strings.Cut(says, "accept it: `launcher ")
	remedy, _, _ = strings.Cut(remedy, "`")
	w.must(shellWords(t, strings.Replace(remedy, "REASON", "'a small test'", 1))...)
	w.must("stage", spec, "--out", out)

	// A sweep by hand, a scheduled one, and a dry run.
	w.refused(sweep.ExitBlocked, "is blocked", "sweep", night)
	for range 2 {
		w.refused(sweep.ExitBlocked, "is blocked", "sweep", night, "--schedule", "0 3 * * *", "--no-wait", "--json")
	}
	w.refused(sweep.ExitBlocked, "is blocked", "sweep", night, "--schedule", "0 3 * * *", "--dry-run")

	// Only these were told: the first staging after the channel worked again, and the first scheduled start.
	if len(heard) != 2 {
		t.Fatalf("told %d times, want 2: %+v", len(heard), heard)
	}
	staged, refused := heard[0], heard[1]
	if staged.Occasion != sweep.OccasionStaged || staged.Verdict != sweep.VerdictBlocked ||
		!strings.HasPrefix(staged.Dataset, "clicks@") || !strings.Contains(staged.Reason, "rows") {
		t.Errorf("told when it was staged: %+v; want that clicks is blocked, for its rows", staged)
	}
	if refused.Occasion != sweep.OccasionRefused || refused.Sweep != "night-20261121-0300" || refused.Model != "ctr" ||
		refused.Dataset != staged.Dataset {
		t.Errorf("told when the sweep was not started: %+v; want night-20261121-0300 of ctr, on %s", refused,
			staged.Dataset)
	}

	// Once a person has accepted the night, there is no message.
	w.must("datasets", "accept", staged.Dataset, "--why", "a small test")
	w.must("sweep", night, "--schedule", "0 3 * * *", "--no-wait", "--json")
	if len(heard) != 2 {
		t.Errorf("told after it was accepted: %+v; want nothing", heard[2:])
	}
	if i := slices.IndexFunc(heard, func(m notify.VerdictMessage) bool { return m.Next == "" }); i >= 0 {
		t.Errorf("told %+v; want what to do next in every message", heard[i])
	}
}

// shellWords returns the arguments that a shell makes of a command line.
func shellWords(t *testing.T, line string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf '%s\\n' "+line).Output()
	if err != nil {
		t.Fatalf("a shell reads %q: %v, want no error", line, err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}

// TestStatusShowsTheNight: status shows what staging found in the sweep's dataset, and who has accepted it. If the
// record is damaged, it says so and shows the rest.
func TestStatusShowsTheNight(t *testing.T) {
	w := newWorld(t)
	w.file("clicks.csv", string(datasettest.Table(datasettest.Options{Rows: 1200})))
	spec := w.file("dataset.yaml", clicksYAML+"contract: {rows: {min: 100000}}\n")
	if code, _, said := w.run("stage", spec); code != sweep.ExitBlocked {
		t.Fatalf("staging a small table ended with %d, want that of a blocked one: %s", code, said)
	}
	w.must("datasets", "accept", "clicks", "--why", "a small test")
	w.must("sweep", w.spec(), "--id", "night-1", "--no-wait")

	w.says(w.must("status", "night-1"), "accepted by", ": a small test", "blocking: ", "(rows)")
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
		must.Do(t, err)
		w.put("datasets", object.Name, "{")
	}
	w.says(w.must("status", "night-1"), "unreadable", "not started")
}

// TestAnOldTableIsAccepted: the refusal of a table that is older than contract.max_age advises to accept it, and that
// helps, although no finding blocks it.
func TestAnOldTableIsAccepted(t *testing.T) {
	w := newWorld(t)
	table := w.file("clicks.yaml", string(nightstest.Spec("day.csv"))+"encodings: none\ncontract: {max_age: 30h}\n")
	w.file("day.csv", string(nightstest.Stream{Seed: 5, Rows: 800}.Night(0).CSV()))
	w.now = nightstest.First.AddDate(0, 0, 1).Add(2 * time.Hour) // two hours after the newest row
	w.must("stage", table)
	night := w.spec()
	w.now = w.now.AddDate(0, 0, 3)
	w.refused(sweep.ExitBlocked, "accept it: `launcher datasets accept", "sweep", night, "--no-wait")
	w.says(w.must("datasets", "accept", "clicks", "--why", "the source is late"), "may be trained on")
	w.must("sweep", night, "--no-wait")
}

// TestReasonsOfAcceptances: a reason to accept a dataset must not be blank, and may have 1,000 characters, which are
// more bytes in most languages: "ü" has two. One that is refused is not written down, and the other is, in full.
func TestReasonsOfAcceptances(t *testing.T) {
	w := newWorld(t)
	w.file("clicks.csv", string(datasettest.Table(datasettest.Options{Rows: 300})))
	spec := w.file("dataset.yaml", "name: clicks\nsource: clicks.csv\nlabel: is_click\nencodings: none\n"+
		"drop: [user_id, revenue]\nsplit: {by: random, train: 0.6, valid: 0.4}\ncontract: "+
		"{rows: {min: 100000}}\n")
	w.refused(sweep.ExitBlocked, "(rows)", "stage", spec)
	state := func() (night struct {
		Accepted *struct{ Why string }
	}) {
		for object, err := range w.buckets["datasets"].List(t.Context(), sweep.DatasetNights("clicks")) {
			must.Do(t, err)
			must.Get(blob.ReadJSON(t.Context(), w.buckets["datasets"], object.Name, &night))(t)
		}
		return night
	}
	w.refused(sweep.ExitUsage, "the reason has 0 characters", "datasets", "accept", "clicks", "--why", " ")
	w.refused(sweep.ExitUsage, "the reason has 1001 characters", "datasets", "accept", "clicks", "--why",
		strings.Repeat("ü", 1001))
	if a := state().Accepted; a != nil {
		t.Errorf("refused reasons: accepted as %.20q, want it not to be", a.Why)
	}
	why := strings.Repeat("ü", 1000)
	w.must("datasets", "accept", "clicks", "--why", why)
	if a := state().Accepted; a == nil || a.Why != why {
		t.Errorf("a reason of 1,000 characters: accepted as %+v, want it in full", a)
	}
}

// TestStageSaysWhatIsNotFinal: staging leaves out the rows of the last day, whose labels take 24 hours to be final, and
// says how many these are, as text and as JSON.
func TestStageSaysWhatIsNotFinal(t *testing.T) {
	w := newWorld(t)
	var b strings.Builder
	b.WriteString("y,x,ts\n")
	for i := range 400 { // a row an hour, the last at 2026-11-17T15:00:00Z
		fmt.Fprintf(&b, "%d,%d,2026-11-%02dT%02d:00:00Z\n", i%2, i%17, 1+i/24, i%24)
	}
	w.file("late.csv", b.String())
	spec := w.file("late.yaml", "name: late\nsource: late.csv\nlabel: {column: y, matures: 24h, at: ts}\ndrop: [ts]\n")
	w.says(w.must("stage", spec),
		"left out: 24 rows after 2026-11-16T15:00:00Z with labels that are not final (y matures in 24 h)")
	var m dataset.Manifest
	if err := json.Unmarshal([]byte(w.must("stage", spec, "--json")), &m); err != nil || m.About.Unripe == nil ||
		m.About.Unripe.Rows != 24 {
		t.Errorf("as JSON: %+v, %v; want 24 rows that are not ripe", m.About.Unripe, err)
	}
}
