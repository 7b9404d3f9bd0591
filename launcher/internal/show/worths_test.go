package show

import (
	"bytes"
	"strings"
	"testing"

	"coppice/internal/program"
	"coppice/internal/program/tables"
	"coppice/internal/search"
	"coppice/internal/sweep"
)

// TestShowWorths shows a sweep over three groups, one of whose sets has no score yet.
func TestShowWorths(t *testing.T) {
	f := &sweep.Features{Try: sweep.TryDropOne, Groups: map[string][]string{"site": {"site", "site:rate"},
		"user": {"age"}, "\x1b[2Jx": {"x"}}}
	p := &sweep.Plan{Sweep: "night-1", Maximize: true,
		Spec: sweep.Spec{Metric: "auc", Search: sweep.Search{Features: f}}}
	sets, _, err := search.Sets(f, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	var results []sweep.Result
	for n, kept := range sets {
		p.Trials = append(p.Trials, sweep.Trial{Number: n, Source: f.Try, Params: f.Params(kept)})
		if n < 3 {
			results = append(results, sweep.Result{Sweep: p.Sweep, Trial: n, Status: sweep.StatusDone,
				Score: 0.75 - 0.01*float64(n), Trees: 5})
		}
	}

	var out bytes.Buffer
	w := Printer{Screen: tables.Screen{Output: program.To(&out)}}
	w.Worths(search.NewWorths(p, sweep.Fold(p, results)))
	text := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{"│ site │ +0.02 │ - │ 0.73 │ site, site:rate │", "│ user │ - │ - │ - │ age │",
		"auc, valid: 0.75 with all groups", "no intervals", "no score yet: 1 of the sets of columns"} {
		if !strings.Contains(text, want) {
			t.Errorf("the worths do not say %q:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "\x1b[2J") {
		t.Errorf("a group's name commands the terminal: %q", out.String())
	}

	out.Reset()
	w.Board(p, sweep.Fold(p, results), 0)
	if text := out.String(); !strings.Contains(text, "all groups") || !strings.Contains(text, "all but site") ||
		strings.Contains(text, "name:") {
		t.Errorf("the leaderboard does not show the sets as groups:\n%s", text)
	}
}
