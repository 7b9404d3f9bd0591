package page_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"coppice/internal/metric"
	"coppice/internal/page"
	"coppice/internal/page/plot"
	"coppice/internal/sweep"
)

// chart returns the chart of a page that has the id; the test fails if there is none.
func chart(t *testing.T, s *page.Sweep, id string) *plot.Chart {
	t.Helper()
	charts := s.Charts()
	at := slices.IndexFunc(charts, func(c *plot.Chart) bool { return c.ID == id })
	if at < 0 {
		t.Fatalf("the page has no drawing %q", id)
	}
	return charts[at]
}

// card returns what a reader sees of a table with a title, by its id; the test fails if there is none.
func card(t *testing.T, s *page.Sweep, id string) string {
	t.Helper()
	for _, f := range figure.FindAllStringSubmatch(write(t, s), -1) {
		if f[1] == id+"-card" {
			return said(f[0])
		}
	}
	t.Fatalf("the page has no table %q", id)
	return ""
}

// TestWeightsDoNotMakeRows: intervals in the reliability chart come from the number of rows, not from their weights:
// 500 rows of weight 50 say no more than 500 rows of weight 1.
func TestWeightsDoNotMakeRows(t *testing.T) {
	s := sample(2)
	// 10 % was predicted and 12 % observed, a deviation of 1.5 standard errors with 500 rows, so within noise. With
	// 25,000 rows it would be 11 standard errors.
	for _, w := range []float64{1, 50} {
		s.Winner.Tested.Bins = []metric.Bin{{Rows: 500, Weight: 500 * w, Positive: 60 * w, Before: 50 * w,
			After: 50 * w, Squares: 500 * w * w}}
		says(t, fmt.Sprintf("rows of weight %v", w), chart(t, s, "reliability").Summary, "1 of 1 bin within noise")
	}
}

// TestTheDefaultIsARival: the page compares the winner with the default, the runner-up and the live version. If the
// default is the runner-up, there is one row for both.
func TestTheDefaultIsARival(t *testing.T) {
	s := sample(50)
	next := s.Winner.Tested.RunnerUp.Trial
	// First as sample makes it; then, by the end of the loop's body, with the runner-up as default.
	for _, want := range [][]string{{"the default (trial 2) 2.6 % 0.94 % 4.2 % better beyond chance",
		"version 8 0.88 % 0.35 % 1.4 % better beyond chance log_loss 0.113 0.114 20,000",
		fmt.Sprintf("the runner-up (trial %d) 0.84 %% -0.34 %% 2 %% within noise", next)},
		{fmt.Sprintf("the runner-up and default (trial %d), both uncalibrated", next)}} {
		got := card(t, s, "rivals")
		says(t, "rivals", got, want...)
		s.Winner.Tested.Default.Trial, s.Winner.Tested.Default.Calibrated = s.Winner.Tested.RunnerUp.Trial, false
	}
	if got := card(t, s, "rivals"); strings.Contains(got, "the default (") {
		t.Errorf("got %q, want the default once, as the runner-up", got)
	}
}

// TestRivalsAreTheGates: a comparison on earlier nights names the version that the gate's check names (5), which need
// not be the champion (2).
func TestRivalsAreTheGates(t *testing.T) {
	s := sample(8)
	s.Winner.Gate.Champion = 2
	s.Winner.Gate.Checks = append(s.Winner.Gate.Checks, sweep.GateCheck{Name: "reference", Version: 5, Value: 0.01,
		Low: 0.005, High: 0.015, Rows: 10, New: 0.09, Old: 0.1})
	says(t, "rivals", card(t, s, "rivals"), "version 5 on earlier nights")
}

// TestWithoutFeatures: beside the metric on test stands what a model without features scores (0.4321), named after what
// such a model predicts for that metric.
func TestWithoutFeatures(t *testing.T) {
	for by, want := range map[string]string{"ndcg@10": "rows in random order", "rmse": "the mean alone",
		"value(prediction)": "the base rate alone"} {
		s := sample(2)
		s.Metric, s.Winner.Test = by, map[string]float64{by: 0.75}
		s.Winner.Tested = &metric.Tested{Alone: map[string]float64{by: 0.4321},
			Calibrated: want == "the base rate alone"}
		says(t, by, said(write(t, s)), want+" 0.4321")
	}
}

// TestAMetricThatWasNotMeasured: if the sweep's metric (f1) was not measured on test, no other one stands in its place:
// only the gate's metric is told. The sample has AUC, too, the first by name.
func TestAMetricThatWasNotMeasured(t *testing.T) {
	s := sample(8)
	s.Metric = "f1"
	got := said(write(t, s))
	if strings.Contains(got, "auc on test") || !strings.Contains(got, "log_loss on test of ctr version 9") {
		t.Errorf("got %.900q, want log_loss on test, and no other metric", got)
	}
}

// TestGainsAreSharesOfTheirOwnRows: a gain is a share of the old version's value on the same rows. Tonight that is 0.01
// of 0.1, on earlier nights 0.05 of 0.5: 10 % both times.
func TestGainsAreSharesOfTheirOwnRows(t *testing.T) {
	s := sample(2)
	s.Winner.Tested.RunnerUp, s.Winner.Tested.Default = nil, nil
	s.Winner.Gate.Old, s.Winner.Gate.New = 0.1, 0.09
	s.Winner.Gate.Checks = []sweep.GateCheck{{Name: "tonight", Value: 0.01, Low: 0.005, High: 0.015, Rows: 10,
		New: 0.09, Old: 0.1}, {Name: "reference", Value: 0.05, Low: 0.025, High: 0.075, Rows: 10, New: 0.45, Old: 0.5}}
	if got := strings.Count(card(t, s, "rivals"), " 10 % 5 % 15 % better beyond chance "); got != 2 {
		t.Errorf("%d gains of a tenth, want that of 0.01 over 0.1 and that of 0.05 over 0.5 on other rows: %s", got,
			card(t, s, "rivals"))
	}
}

// TestTheMetricThatChoseComesFirst: in the table of a model's versions, the metric by which the newest sweep chose its
// winner comes before the others. A golden file holds the same of the winner's metrics on a sweep's page.
func TestTheMetricThatChoseComesFirst(t *testing.T) {
	m := versions(3)
	m.Nights = []page.ModelNight{{IndexSweep: page.IndexSweep{Metric: "log_loss"}}}
	got := said(write(t, m))
	if i, j := strings.Index(got, " log_loss "), strings.Index(got, " auc "); i < 0 || j >= 0 && j < i {
		t.Errorf("log_loss stands at %d, auc at %d of %.600q; want log_loss first", i, j, got)
	}
}

// TestChecksSayWhatTheyMeasure: each check of the gate says what its number is, where the name alone would be mistaken
// for another number on the page: the calibration error beyond chance is not the one in the table of metrics, and the
// share of a column in the first trees is not that of a feature in all.
func TestChecksSayWhatTheyMeasure(t *testing.T) {
	s := sample(2)
	s.Winner.Gate.Checks = []sweep.GateCheck{{Name: "ece", Passed: true}, {Name: "share", Passed: true, Value: 0.52488},
		{Name: "calibration", Passed: true, Value: 1.04, Low: 0.99, High: 1.1},
		{Name: "calibration", Passed: true, Value: 0.9, Reason: "on 20,000 rows of earlier nights"},
		{Name: "tonight", Passed: true, Value: -0.002, Low: -0.005, High: 0.001}}
	text := said(write(t, s))
	says(t, "five checks", text, "calibration error that chance does not explain, of the base rate 0 %",
		"largest share of one column, of the gain of the first trees 52 %",
		"predicted in total, of what was observed tonight 104 % (99 % to 110 %)",
		"predicted in total, of what was observed on earlier nights 90 %",
		"≈ holds, within the margin gain over the live version, on tonight",
		" -0.002 (-0.005 to 0.001), within the margin")
}

// TestNothingWasCalibrated: if no calibrator was fitted (method none), the page tells nothing of predictions before
// calibration, and the chart has one curve less in its legend.
func TestNothingWasCalibrated(t *testing.T) {
	for method, want := range map[string]bool{"none": false, "platt": true} {
		s := sample(2)
		s.Winner.Calibration.Method = method
		if got := strings.Contains(strings.ToLower(said(write(t, s))), "before calibration"); got != want {
			t.Errorf("calibrated by %s: the page tells of before and after: %t, expected %t", method, got, want)
		}
		if got := len(chart(t, s, "reliability").Keys); got != plot.Either(want, 3, 2) {
			t.Errorf("calibrated by %s: the legend has %d entries, want 3 if calibrated, else 2", method, got)
		}
	}
}
