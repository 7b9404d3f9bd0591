package show_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/metric"
	"coppice/internal/must"
	"coppice/internal/page"
	"coppice/internal/program"
	"coppice/internal/program/tables"
	"coppice/internal/search"
	"coppice/internal/sweep"
	"coppice/launcher/internal/draft"
	"coppice/launcher/internal/show"
	"coppice/launcher/internal/stager"
	"coppice/launcher/internal/sweepview"
)

// fitted is a fit of three trials, of which trial 1 won with 0.8, trial 0 had 0.7, trial 2 failed, and the winner was
// not promoted. Of 8 rows on which it was tested 2 are positive.
func fitted() (p *sweep.Plan, st sweepview.State, view *page.Sweep) {
	p = &sweep.Plan{Sweep: "clicks-1", Spec: sweep.Spec{Metric: "auc"}}
	var rows []sweep.Row
	for i, score := range []float64{0.7, 0.8, 0} {
		p.Trials = append(p.Trials, sweep.Trial{Number: i, Params: sweep.Params{"num_leaves": i,
			"num_iterations": 1000, "objective": "binary"}})
		r := &sweep.Result{Trial: i, Status: sweep.StatusDone, Score: score, Trees: 5}
		if i == 2 {
			r.Status, r.Trees = sweep.StatusFailed, 0
		}
		rows = append(rows, sweep.Row{Trial: p.Trials[i], Result: r})
	}
	slices.SortFunc(rows[:2], func(a, b sweep.Row) int { return b.Result.Trial - a.Result.Trial }) // the best first
	st = sweepview.State{Board: sweep.Board{Rows: rows},
		Conclusion: &sweep.Conclusion{Outcome: sweep.OutcomeWinner, Model: "clicks", Version: 4, Trial: 1, Done: 2,
			Gate: &sweep.GateDecision{Reason: "no better"}}}
	view = &page.Sweep{Winner: &page.Winner{Tested: &metric.Tested{Calibrated: true,
		Bins: []metric.Bin{{Weight: 3, Positive: 1}, {Weight: 5, Positive: 1}}}}}
	for range 20 {
		view.Winner.Features = append(view.Winner.Features, page.Importance{Feature: "site", Gain: 0.05})
	}
	return p, st, view
}

// TestNewFit: the summary of a fit has the leaderboard, the base rate of the rows that were tested, and the first eight
// features; none if the winner cannot be read.
func TestNewFit(t *testing.T) {
	p, st, view := fitted()
	f := show.NewFit(&draft.Draft{Rows: 10}, p, st, view)
	if f.Model != "clicks" || f.Version != 4 || f.Champion || f.Why != "no better" || f.Trials != 3 || f.Done != 2 {
		t.Errorf("got %+v; want clicks@4, no better and so not promoted, 2 of 3 trials done", f)
	}
	if want := "num_iterations=1000 num_leaves=1"; f.Params != want { // as registry show has them
		t.Errorf("got the parameters %q, want those that differ from their defaults, %q", f.Params, want)
	}
	if f.Base != 0.25 { // of the rows that were judged, whatever the table's is
		t.Errorf("got the base rate %v, expected that of the 8 tested rows, .25", f.Base)
	}
	if f.Default != nil {
		t.Errorf("without the default configuration, its score is %v; want none", *f.Default)
	}
	if len(f.Leaderboard) != 3 || f.Leaderboard[0].Trial != 1 || f.Leaderboard[2].State != "failed" {
		t.Errorf("leaderboard %+v; want trials 1 and 0, and 2 as failed", f.Leaderboard)
	}
	if f.Leaderboard[0].Score == nil || f.Leaderboard[2].Score != nil {
		t.Errorf("got the scores %v and %v, want one of trial 1 and none of trial 2, which has no trees",
			f.Leaderboard[0].Score, f.Leaderboard[2].Score)
	}
	if len(f.Features) != 8 || f.Features[0] != (page.Importance{Feature: "site", Gain: 0.05}) {
		t.Errorf("%d features %v; want the first 8", len(f.Features), f.Features)
	}
	if view.Winner = nil; show.NewFit(&draft.Draft{}, p, st, view).Features != nil {
		t.Error("it names features of a winner that cannot be read; want none")
	}
}

// TestFitted: a fit's text has the commands for the version's number, since the champion is another; and the score of
// the default configuration, if that was a trial.
func TestFitted(t *testing.T) {
	p, st, view := fitted()
	f := show.NewFit(&draft.Draft{Rows: 10}, p, st, view)
	var out strings.Builder
	show.Printer{Screen: tables.Screen{Output: program.To(&out)}}.Fitted(f)
	const byDefault = "the default │ trial 0: 0.7"
	if text := strings.Join(strings.Fields(out.String()), " "); strings.Contains(text, byDefault) {
		t.Errorf("without a trial of the default configuration: got %s\nwant no %s", text, byDefault)
	}
	st.Board.Rows[1].Trial.Source = search.SourceDefault
	show.Printer{Screen: tables.Screen{Output: program.To(&out)}}.Fitted(show.NewFit(&draft.Draft{}, p, st, view))
	if text := strings.Join(strings.Fields(out.String()), " "); !strings.Contains(text, byDefault) {
		t.Errorf("got %s\nwant what the search is held against: %s", text, byDefault)
	}
	if want := "launcher registry promote clicks@4 --why \"checked by hand\"\n"; !strings.Contains(out.String(), want) {
		t.Errorf("got %s\nwant a command that can be pasted: %s", out.String(), want)
	}
	if want := "the base rate alone, 25 % of the test rows: "; !strings.Contains(f.WithoutFeatures(), want) {
		t.Errorf("got %s\nwant of which rows it is: %s", f.WithoutFeatures(), want)
	}
	if !strings.Contains(out.String(), "launcher serve --model clicks@4\n") {
		t.Errorf("got %s\nwant a line that serves the model", out.String())
	}
}

// TestHurry: a fit warns if more than half of the trials are missing, or if the winner's training was cut. It blames
// the limit unless a task was held up. Here two trials have ended, of so many that were wanted.
func TestHurry(t *testing.T) {
	p, st, view := fitted()
	rows := st.Board.Rows
	for _, tc := range []struct {
		wanted  int
		cut     bool
		trouble *sweep.Trouble
		want    string
	}{
		{4, false, nil, ""}, // 2 of them done
		// 2.5 minutes for 5 trials rather than 2, and at least twice as many as there were.
		{5, false, nil, "--minutes (1m0s) allowed 2 of 5 trials: the model may be underfit; repeat with --minutes 2.5"},
		{2, true, nil, "--minutes (1m0s) allowed 2 of 2 trials, and cut the training of the best one at 40 trees: " +
			"the model may be underfit; repeat with --minutes 2"},
		{5, false, &sweep.Trouble{Task: 1, Text: "no room"},
			"2 of 5 trials ended, since task 1 was held up: no room; mend that and fit again"},
	} {
		rows[0].Result.AtLimit, rows[0].Result.TreesGrown = tc.cut, 40
		f := show.NewFit(&draft.Draft{Rows: 10}, p, st, view)
		f.Hurry(tc.wanted, time.Minute, rows, tc.trouble)
		if f.Hurried != tc.want || len(f.Warnings) != min(len(tc.want), 1) {
			t.Errorf("of %d trials 2 ended, cut %t, trouble %v: %q, expected %q", tc.wanted, tc.cut, tc.trouble,
				f.Hurried, tc.want)
		}
	}
}

// TestWithoutFeatures: a fit says what a model without features scores by its metric: rows in random order for ndcg@10,
// the mean for rmse and mae. If that is better than the model, as for rmse here, it says so. It also prints the
// parameters that are not at their defaults: the objective, but not num_leaves of 31.
func TestWithoutFeatures(t *testing.T) {
	const better = "; better than this model, which has learned nothing that holds on test rows"
	for by, want := range map[string]string{"ndcg@10": "rows in random order: ndcg@10 0.5",
		"rmse": "the mean alone: rmse 0.5" + better,
		"mae":  "the mean alone: mae 0.5"} {
		p := &sweep.Plan{Spec: sweep.Spec{Metric: by, Objective: "lambdarank"}, Trials: make([]sweep.Trial, 1)}
		p.Trials[0].Params = sweep.Params{"objective": "lambdarank", "num_leaves": 31.0}
		st := sweepview.State{Conclusion: &sweep.Conclusion{Outcome: sweep.OutcomeWinner, Model: "m", Version: 1,
			Test: map[string]float64{"ndcg@10": 0.6, "rmse": 0.6, "mae": 0.4}},
			Board: sweep.Board{Rows: []sweep.Row{{Result: &sweep.Result{Status: sweep.StatusDone}}}}}
		var out strings.Builder
		f := show.NewFit(&draft.Draft{}, p, st,
			&page.Sweep{Winner: &page.Winner{Tested: &metric.Tested{Alone: map[string]float64{by: 0.5}}}})
		show.Printer{Screen: tables.Screen{Output: program.To(&out)}}.Fitted(f)
		for _, want := range []string{want[:14], "objective=lambdarank"} { // the rest of the text is wrapped
			if !strings.Contains(out.String(), want) || strings.Contains(out.String(), "num_leaves") {
				t.Errorf("got %s\nwant %s, and no num_leaves, which is at its default", out.String(), want)
			}
		}
		must.Equal(t, f.WithoutFeatures(), want, "%s of %v without features", by, f.Test[by])
	}
}

// TestNearlyPerfect: a model that is nearly perfect on test gets one warning, which asks for a leak and names the
// columns of which the features with the largest gains are made: half of a gain of .6 each for paid and interest. At
// the bound itself there is none.
func TestNearlyPerfect(t *testing.T) {
	e := &dataset.Encoding{Features: []dataset.Feature{{Name: "paid"}, {Name: "term"},
		{Name: "paid+interest:rate", From: &dataset.Derived{What: dataset.DeriveRate}}},
		Tables: []dataset.LevelTable{{Of: []dataset.Part{{Column: "paid"}, {Column: "interest"}}, BackOff: -1}}} // none
	features := []page.Importance{{Feature: "paid+interest:rate", Gain: 0.6}, {Feature: "term", Gain: 0.2},
		{Feature: "paid", Gain: 0.1}}
	for by, value := range map[string]float64{"auc": 0.9944, "r2": 0.981, "multi_error": 0.0049} {
		f := &show.Fit{Conclusion: &sweep.Conclusion{Outcome: sweep.OutcomeWinner,
			Test: map[string]float64{by: value}}, Plan: &sweep.Plan{}, Features: features}
		f.AskOfLeak(e)
		var out strings.Builder
		show.Printer{Screen: tables.Screen{Output: program.To(&out)}}.Fitted(f)
		want := fmt.Sprintf("nearly perfect on test (%s %v): is a column known only after the label? Largest: paid, "+
			"interest, term; leave it out with --drop", by, value)
		if len(f.Warnings) != 1 || f.Warnings[0] != want || strings.Count(out.String(), "nearly perfect") != 1 {
			t.Errorf("%s of %v: got %q and\n%s\nwant %q, once each", by, value, f.Warnings, out.String(), want)
		}
		usual := map[bool]float64{true: 0.005, false: 0.98}[by == "multi_error"]
		f = &show.Fit{Conclusion: &sweep.Conclusion{Test: map[string]float64{by: usual}}, Features: features}
		if f.AskOfLeak(e); len(f.Warnings) > 0 {
			t.Errorf("%s of %v: got %q, want no question", by, usual, f.Warnings)
		}
	}
}

// TestBaseRateOfClasses: a fit of several classes says what always predicting their shares scores (a half, and twice a
// quarter of the rows: 1.04), and which class is the most frequent.
func TestBaseRateOfClasses(t *testing.T) {
	p := &sweep.Plan{Sweep: "jobs-1", Spec: sweep.Spec{Metric: "multi_logloss"}, Trials: make([]sweep.Trial, 1)}
	st := sweepview.State{Conclusion: &sweep.Conclusion{Outcome: sweep.OutcomeWinner, Model: "jobs", Version: 1}}
	view := &page.Sweep{Winner: &page.Winner{Tested: &metric.Tested{Classes: []metric.Class{
		{Name: "clerk", Rows: 2, Weight: 1}, {Name: "farmer", Rows: 4, Weight: 2}, {Name: "none"},
		{Name: "nurse", Rows: 2, Weight: 1}}}}}

	var out strings.Builder
	f := show.NewFit(&draft.Draft{}, p, st, view)
	show.Printer{Screen: tables.Screen{Output: program.To(&out)}}.Fitted(f)
	want := "multi_logloss 1.04; the most frequent, farmer, has 50 %" // 2 log(4)/4 + log(2)/2
	if !strings.Contains(out.String(), want) {
		t.Errorf("got %s\nwant %s", out.String(), want)
	}
}

// TestNotable: of 50 features the types of 40 are printed, and how to see all. Since a warning advises a key of
// dataset.yaml, a line names the flags of fit that do the same.
func TestNotable(t *testing.T) {
	m := &dataset.Manifest{Name: "visits"}
	for i := range 50 {
		m.Features = append(m.Features, dataset.Feature{Name: fmt.Sprintf("f%02d", i), Kind: dataset.Numeric,
			Why: dataset.WhyNumbers})
	}
	m.About.Warnings = []dataset.Warning{{Column: "ticket", Text: "consider drop: [ticket]"}}
	var out strings.Builder
	show.Printer{Screen: tables.Screen{Output: program.To(&out)}}.Notable(&stager.Staged{Manifest: m})
	for _, want := range []string{"Override with --drop", "f39 ", "all numbers", "... and 10 more",
		"all of them: launcher datasets show visits"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got %s\nwant %q", out.String(), want)
		}
	}
	if strings.Contains(out.String(), "f40") || strings.Contains(out.String(), "<nil>") {
		t.Errorf("want the types of 40 features at most, and no <nil> for a row's empty cells:\n%s", out.String())
	}
}
