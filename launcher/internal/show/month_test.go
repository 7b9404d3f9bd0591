package show

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"coppice/internal/must"
	"coppice/internal/page"
	"coppice/internal/program"
	"coppice/internal/program/tables"
	"coppice/internal/sweep"
)

// TestMonthIn80Columns: on a terminal of 80 columns the list of nights leaves out datasets and ages, and keeps each
// night's reason. On one of 200 it has all.
func TestMonthIn80Columns(t *testing.T) {
	m := &page.Month{Standing: sweep.Standing{Model: "ctr", Champion: 7}, Nights: []page.ModelNight{
		{IndexSweep: page.IndexSweep{ID: "nightly-20261123-0200", Night: "2026-11-23",
			Dataset: "clicks@0123456789abcdef", Version: 8, Verdict: sweep.VerdictNotPromoted,
			Why: "worse than version 7 on 36,000 rows of earlier nights (versions 1, 2, 3)"},
			Data: "2026-11-22", Live: 7, Age: 1},
		{IndexSweep: page.IndexSweep{Night: "2026-11-22", Why: "first"}, Clock: " 03:15", Live: 7}}}
	for width, whole := range map[int]bool{80: false, 200: true} {
		var out bytes.Buffer
		Printer{Screen: tables.Screen{Output: program.To(&out), Width: width}}.Month(m, time.Time{})
		text := strings.Join(strings.Fields(strings.ReplaceAll(out.String(), "│", "")), " ")
		if !strings.Contains(out.String(), "│ why") || !strings.Contains(text, "2026-11-23") ||
			!strings.Contains(text, "worse than version") || strings.Contains(text, "clicks@") != whole ||
			strings.Contains(text, "7 <1 day first") != whole || !strings.Contains(text, "2026-11-22 03:15") {
			t.Errorf("%d columns: got\n%s\nwant both nights and their reasons, and datasets and ages: %t", width,
				out.String(), whole)
		}
	}
}

// TestMonthWithoutAChampion: a model whose nights have made no champion yet has none, of whatever age.
func TestMonthWithoutAChampion(t *testing.T) {
	var out bytes.Buffer
	m := &page.Month{Standing: sweep.Standing{Model: "late", Nights: 2}}
	Printer{Screen: tables.Screen{Output: program.To(&out), Width: 80}}.Month(m, time.Now())
	if text := out.String(); !strings.HasPrefix(text, "late has no champion\n") {
		t.Errorf("got %q, want that it has no champion", text)
	}
}

// TestScoresIn80Columns: a list of sweeps keeps their scores on a terminal of 80 columns. Score is that of the metric
// that chose a version, or of log_loss if that metric is not recorded.
func TestScoresIn80Columns(t *testing.T) {
	score, at := 0.061234, time.Date(2026, 11, 2, 3, 0, 0, 0, time.UTC)
	var out bytes.Buffer
	w := Printer{Screen: tables.Screen{Output: program.To(&out), Width: 80}}
	w.Sweeps(&page.Index{Sweeps: []page.IndexSweep{{ID: "nightly-campaigns-20261102-0300", Planned: at,
		Dataset: "campaigns@0123456789abcdef",
		Trials:  50, State: "winner", Verdict: sweep.VerdictNotComparable, Model: "campaigns", Version: 12,
		Metric: "average_precision", Score: &score, SE: 0.00123}}}, at.AddDate(0, 0, 27))
	if !strings.Contains(out.String(), "0.0612 ± 0.0012") || !strings.Contains(out.String(), page.OwnScore+" ") {
		t.Errorf("got\n%s\nwant the score with its error", out.String())
	}
	for by, want := range map[string]string{"auc": "auc 0.7", "": "log_loss 0.1", "of_another_build": "log_loss 0.1"} {
		must.Equal(t, Score(map[string]float64{"auc": 0.7, "log_loss": 0.1}, by, 0), want, "chosen by %q", by)
	}
}
