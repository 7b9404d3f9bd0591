package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/gbt"
	"coppice/internal/must"
	"coppice/internal/page"
	"coppice/internal/sweep"
)

// TestLsShowsTheNewestFirst: names do not tell the time.
func TestLsShowsTheNewestFirst(t *testing.T) {
	w := newWorld(t)
	w.staged()
	file := w.file("sweep.yaml", sweepYAML)
	must.Get(blob.Create(t.Context(), w.buckets["sweeps"], sweep.Names("a-broken").Plan(), []byte("{")))(t)
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
		t.Errorf("ls lists %s, expected the newest first and what cannot be read last", order)
	}
}

// TestRollbackTo goes back past a version, and only to one that was the champion.
func TestRollbackTo(t *testing.T) {
	w := newWorld(t)
	w.register(4)
	for _, version := range []string{"1", "2", "3"} {
		w.must("registry", "promote", "ctr@"+version, "--why", "a test")
	}
	w.refused(sweep.ExitInput, "champion of ctr was at 1, 2 before, never at 4; to move it there, promote it", "registry",
		"rollback", "ctr", "--to", "4", "--why", "a test")
	w.refused(sweep.ExitUsage, "--to is 0", "registry", "rollback", "ctr", "--to", "0", "--why", "a test")
	if out := w.must("registry", "rollback", "ctr", "--to", "3", "--why", "a test"); !strings.Contains(out, "already") {
		t.Errorf("to where it is: %s", out)
	}
	if out := w.must("registry", "rollback", "ctr", "--to", "1", "--why", "a test"); !strings.Contains(out,
		"version 3 -> 1") {
		t.Errorf("to 1: %s", out)
	}
	// Nothing is before 1, though the champion has pointed elsewhere.
	w.refused(sweep.ExitNotFound, "champion of ctr has no earlier version to return to", "registry", "rollback",
		"ctr", "--why", "a test")
	if out := w.must("registry", "show", "ctr", "--history"); !strings.Contains(out, "3 -> 1") {
		t.Errorf("the history does not say so:\n%s", out)
	}
}

// TestParametersOfAResultCanBeFedBack: all of them, as in result.json, including empty lists of columns.
func TestParametersOfAResultCanBeFedBack(t *testing.T) {
	text := must.Get(json.Marshal(gbt.Defaults().Map()))(t)
	var params map[string]any
	must.Do(t, json.Unmarshal(text, &params))
	for _, own := range []string{"objective", "metric", "early_stopping_round", "num_threads", "seed"} {
		delete(params, own) // the spec has keys of its own for them
	}
	text = must.Get(json.Marshal(params))(t)

	w := newWorld(t)
	w.staged()
	for _, search := range []string{fmt.Sprintf("{fixed: [%s]}", text), "{grid: {ignore_column: ['', 'name:age']}}"} {
		yaml := strings.Replace(sweepYAML, "{random: {num_leaves: {log_int: [4, 40]}}}", search, 1)
		yaml = strings.Replace(yaml, "trials: 4", "trials: 1", 1)
		if strings.Contains(search, "grid") {
			yaml = strings.Replace(yaml, "trials: 1", "trials: 2", 1)
		}
		w.must("sweep", w.file("again.yaml", yaml), "--dry-run")
	}
}

// TestWordsOnScreens: outcomes are in words there, and as they are stored with --json.
func TestWordsOnScreens(t *testing.T) {
	w := newWorld(t)
	w.staged()
	w.jobs.run = w.concluded(sweep.OutcomeNoWinner)
	file := w.file("sweep.yaml", sweepYAML)
	w.run("sweep", file, "--id", "night-1")
	if out := w.must("status"); !strings.Contains(out, "│ no winner │") {
		t.Errorf("status shows\n%s\nexpected \"no winner\"", out)
	}
	if out := w.must("status", "--json"); !strings.Contains(out, `"outcome": "no_winner"`) {
		t.Errorf("status --json prints\n%s\nexpected no_winner", out)
	}
	w.jobs.cancelled = true
	w.refused(sweep.ExitConflict, "has ended (no winner)", "cancel", "night-1")
}

// TestFirstThingFirst: a wrong number is named by what is expected, a missing reason with the command.
func TestFirstThingFirst(t *testing.T) {
	w := newWorld(t)
	w.refused(sweep.ExitUsage, `--days "x": expected a whole number`, "nights", "ctr", "--days", "x")
	w.refused(sweep.ExitUsage, "give --why: launcher datasets accept", "datasets", "accept", "clicks")
}
