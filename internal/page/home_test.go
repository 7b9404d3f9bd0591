package page_test

import (
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"coppice/internal/nights"
	"coppice/internal/page"
	"coppice/internal/sweep"
)

// tonight is an index with something of every kind.
func tonight() *page.Index {
	at := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	ended := func(id string, v sweep.Verdict, why string, version int) page.IndexSweep {
		return page.IndexSweep{ID: id, Dataset: "clicks@1", Model: "ctr", State: "winner", Planned: at, Trials: 50,
			Version: version, Verdict: v, Why: why, At: at.Add(time.Hour), Best: math.NaN()}
	}
	runs := page.IndexSweep{ID: "night-ctr-3", Dataset: "clicks@1", Model: "ctr", State: "open", Planned: at,
		Trials: 50, Running: true, Ended: 12, Metric: "log_loss", Best: 0.1131, Left: 34 * time.Minute, Price: 2,
		Now: at.Add(time.Hour)}
	held := ended("night-ctr-2", sweep.VerdictNotPromoted, "worse than version 8 by 0.0031", 9)
	return &page.Index{More: 3,
		Sweeps: []page.IndexSweep{runs, held, ended("night-ctr-1", sweep.VerdictPromoted, "better by 0.001", 8),
			{ID: "night-x", State: "unreadable", Best: math.NaN()}},
		Datasets: []page.IndexDataset{{Name: "clicks", Versions: 30, Staged: at, Night: &page.Night{Version: "2",
			State: "blocked", Findings: []nights.Finding{{Code: nights.CodeLabelsLost, Level: "blocking",
				Text: "20 % of the labels are missing"}}}},
			{Name: "views", Versions: 2, Staged: at, Night: &page.Night{Version: "1", State: "good"}}},
		Models: []page.IndexModel{{Name: "ctr", Versions: 9, Champion: 8, Since: at.Add(-72 * time.Hour),
			Metric: "log_loss", Trend: []float64{0.12, 0.118, 0.119, 0.115}, Last: &held, Held: 2},
			{Name: "views", Versions: 1}}}
}

// said is the text that a reader sees.
func said(page string) string {
	text := regexp.MustCompile(`<[^>]*>`).ReplaceAllString(visible(page), " ")
	return strings.Join(strings.Fields(text), " ")
}

// TestTonight: the first page says what is live, how the last night went, what runs, and what needs a person.
func TestTonight(t *testing.T) {
	text := said(write(t, tonight()))
	for _, want := range []string{"version 8 is live", "not promoted", "3 things need you, one sweep runs",
		"12 of 50 trials ended, about 34 min left, best log_loss 0.1131, about $2.00 spent.",
		"clicks : version 2 was blocked when it was staged",
		"Found: 20 % of the labels are missing (labels_lost).",
		"2 sweeps in a row made no champion. The last one: worse than version 8 by",
		"night-x : its plan or its conclusion cannot be read", "nothing is live"} {
		if !strings.Contains(text, want) {
			t.Errorf("got %.1500q, want %q in it", text, want)
		}
	}
	if quiet := said(write(t, &page.Index{})); !strings.Contains(quiet, "Nothing needs you ") {
		t.Errorf("got %q, want that nothing needs a person", quiet)
	}
}
