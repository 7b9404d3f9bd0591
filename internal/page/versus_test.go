package page_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"coppice/internal/page"
)

// TestVersus: two sweeps beside each other, what differs first, and whose best trial is better only where both are
// measured alike.
func TestVersus(t *testing.T) {
	same := regexp.MustCompile(`<tr><th scope="row">(?s:.*)<tr class="differs">`)
	for name, tc := range map[string]struct {
		change func(b *page.Sweep)
		want   []string
		lines  bool // both are drawn
	}{
		"alike": {func(*page.Sweep) {}, []string{"Their best trials are equally good"}, true},
		"better": {func(b *page.Sweep) { b.Trials[14].Score += 0.01 },
			[]string{"night-2 has the better best trial, by 0.01", "its trial 14 has average_precision 0.12753",
				"It may be chance: a sweep keeps scores, not predictions"}, true},
		"worse": {func(b *page.Sweep) {
			for i := range b.Trials {
				b.Trials[i].Score -= 0.02
			}
		}, []string{"night-ctr-9 has the better best trial, by 0.02"}, true},
		"other table": {func(b *page.Sweep) { b.Dataset = "views@1" },
			[]string{"Their scores cannot be compared", "the valid rows of its own table", "views@1"}, true},
		"other metric": {func(b *page.Sweep) { b.Metric = "auc" },
			[]string{"Their scores cannot be compared", "by average_precision, the other by auc"}, false},
		"no score": {func(b *page.Sweep) { b.Trials = nil },
			[]string{"Their scores cannot be compared", "Not both have a trial with a score"}, true},
		"parameters": {func(b *page.Sweep) { b.Winner.Params = []page.Pair{{Name: "max_depth", Text: "7"}} },
			[]string{`<th scope="row">max_depth</th><td>not set</td><td>7</td>`,
				`<th scope="row">num_leaves</th><td>29</td><td>not set</td>`}, true},
		"running": {func(b *page.Sweep) { b.State, b.Winner = "running", nil },
			[]string{`<th scope="row">outcome</th><td>promoted</td><td>running</td>`,
				`<th scope="row">trials ended</th><td>50 of 50</td><td>50 of 50</td>`}, true},
	} {
		a, b := sample(50), sample(50)
		b.ID = "night-2"
		tc.change(b)
		text := write(t, &page.Versus{A: a, B: b})
		for _, want := range tc.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: the page lacks %q", name, want)
			}
		}
		if drawn := strings.Contains(text, `id="best"`); drawn != tc.lines {
			t.Errorf("%s: both are drawn: %t, want %t", name, drawn, tc.lines)
		}
		if found := same.FindString(text); found != "" {
			t.Errorf("%s: a line that does not differ stands before one that does", name)
		}
	}
	checkPages(t, map[string]writer{"versus": &page.Versus{A: sample(50), B: goals(20), Others: tonight().Sweeps},
		"empty": &page.Versus{A: &page.Sweep{ID: "a"}, B: &page.Sweep{ID: "b"}}})
}

// TestBeside: a sweep can be put beside every other one that can be read, those of its model first.
func TestBeside(t *testing.T) {
	x := tonight()
	x.Sweeps = append([]page.IndexSweep{{ID: "other", Model: "views"}}, x.Sweeps...)
	var got []string
	for _, s := range x.Beside("night-ctr-10", "ctr") {
		got = append(got, s.ID)
	}
	if want := "[night-ctr-11 night-ctr-9 other]"; fmt.Sprint(got) != want {
		t.Errorf("beside night-ctr-10 come %v, want %s", got, want)
	}
}

// TestTheBestAreDrawn: of thousands of trials the best have rows in the page and marks in the drawings, and the data
// all.
func TestTheBestAreDrawn(t *testing.T) {
	text := write(t, sample(1200))
	rows := strings.Count(text, `<tr data-t=`)
	lines := len(regexp.MustCompile(`<path class="pl `).FindAllString(text, -1))
	if rows != 200 || lines < 500 || lines > 510 { // its key has some
		t.Errorf("of 1,200 trials %d have rows and %d lines, want 200 and 500 to 510", rows, lines)
	}
	if n := strings.Count(values(t, text, "trial"), ","); n != 1199 {
		t.Errorf("the data have %d trials, want 1,200", n+1)
	}
	if !strings.Contains(text, "The drawings show the best 500 of 1200 trials") {
		t.Error("the page does not say that its drawings show the best 500")
	}
}
