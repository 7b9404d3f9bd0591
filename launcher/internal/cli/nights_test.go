package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"coppice/internal/must"
	"coppice/internal/page"
	"coppice/internal/sweep"
)

// TestNights: a model's nights in one list, with the champion's age and how many nights in a row have not replaced it.
func TestNights(t *testing.T) {
	w := newWorld(t)
	w.staged()
	file := w.file("sweep.yaml", sweepYAML)
	w.refused(sweep.ExitNotFound, "no sweep of model ctr", "nights", "ctr")
	w.register(1)
	w.must("registry", "promote", "ctr@1", "--why", "a test")
	for night, outcome := range []sweep.Outcome{sweep.OutcomeWinner, sweep.OutcomeNoWinner, sweep.OutcomeNoWinner} {
		w.now = w.now.Add(24 * time.Hour)
		w.jobs.run = w.concluded(outcome)
		w.run("sweep", file, "--id", "night-"+string(rune('a'+night)))
	}
	var m page.Month
	out := w.must("nights", "ctr", "--json")
	if err := json.Unmarshal([]byte(out), &m); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	if len(m.Nights) != 3 || m.Standing.Champion != 1 || m.Standing.Nights != 2 ||
		m.Nights[0].Verdict != sweep.VerdictNoWinner || m.Nights[0].Age != 3 || m.Nights[2].Live != 1 {
		t.Errorf("got %+v; want three nights, the last two without a new champion, and version 1 of three days", m)
	}
	if out := w.must("nights", "ctr"); !strings.Contains(out, "2 nights in a row without a new champion; ctr@1 is 3 "+
		"days old") || !strings.Contains(out, "because") {
		t.Errorf("the list does not say how old the champion is, or why:\n%s", out)
	}
	if out := w.must("nights", "ctr", "--days", "1", "--json"); strings.Count(out, `"sweep"`) != 2 {
		t.Errorf("of one day there should be two nights:\n%s", out)
	}
	w.jobs.run = w.concluded(sweep.OutcomeWinner)
	w.run("sweep", file, "--schedule", "0 2 * * *")
	must.Do(t, json.Unmarshal([]byte(w.must("nights", "ctr", "--json")), &m))
	if n := m.Nights[0]; n.Night != "2026-11-24" || m.Nights[1].Night == "" {
		t.Errorf("got %+v; want the night of the slot of the 24th, and every night named", m.Nights)
	}
	for _, command := range []string{"list", "list ctr"} {
		if out := w.must(strings.Fields("registry " + command + " --json")...); !strings.Contains(out,
			`"metric": "auc"`) {
			t.Errorf("registry %s does not say by what the version was chosen:\n%s", command, out)
		}
	}
	for _, command := range []string{"nights --json", "leaderboard --json", "bill --json", "report --out -"} {
		args := strings.Fields(command)
		name := map[bool]string{true: "ctr", false: "@latest"}[args[0] == "nights"]
		if named := w.must(append([]string{args[0], name}, args[1:]...)...); w.must(args...) != named {
			t.Errorf("%s without a name is not that of the newest, %s", command, name)
		}
	}
	if out := w.must("leaderboard"); !strings.HasPrefix(out, "night-20261124-0200, the newest sweep:\n") {
		t.Errorf("got\n%s\nwant which sweep it is of", out)
	}
	w.refused(sweep.ExitUsage, "--days is 0", "nights", "ctr", "--days", "0")
	for _, args := range [][]string{{"promote", "ctr@1"}, {"rollback", "ctr"},
		{"promote", "ctr@1", "--alias", "canary"}} {
		w.refused(sweep.ExitUsage, "--why is missing", append([]string{"registry"}, args...)...)
		w.refused(sweep.ExitUsage, "--why is missing", append([]string{"registry"}, append(args, "--why", " ")...)...)
	}
}
