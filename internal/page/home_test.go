package page_test

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"coppice/internal/nights"
	"coppice/internal/page"
	"coppice/internal/sweep"
)

// worseThan9 is why a version is not live, as sweep.Conclusion.Why says it.
const worseThan9 = "worse than version 9: log_loss 2.7 % worse (1.1 to 4.4 %)"

// tonight is an index with something of every kind.
func tonight() *page.Index {
	at := time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)
	ended := func(id string, v sweep.Verdict, why string, version int) page.IndexSweep {
		score := 0.1162
		return page.IndexSweep{ID: id, Dataset: "clicks@1", Model: "ctr", State: "winner", Trials: 50,
			Metric: "average_precision", Score: &score,
			Planned: at.AddDate(0, 0, version-11),
			Version: version, Verdict: v, Why: why, At: at.AddDate(0, 0, version-11).Add(time.Hour), Best: math.NaN()}
	}
	runs := page.IndexSweep{ID: "night-ctr-11", Dataset: "clicks@1", Model: "ctr", State: page.Running, Planned: at,
		Trials: 50, Running: true, Ended: 11, Metric: "average_precision", Best: 0.11619, Price: 3.2,
		Left: sweep.Range{Low: 1788, Expected: 2040, High: 2292}, Budget: 2,
		Now: at.Add(10 * time.Minute)}
	held := ended("night-ctr-10", sweep.VerdictNotPromoted, worseThan9, 10)
	return &page.Index{More: 3,
		Sweeps: []page.IndexSweep{runs, held, ended("night-ctr-9", sweep.VerdictPromoted, "better by 0.001", 9),
			{ID: "night-x", State: "unreadable", Best: math.NaN()}},
		Datasets: []page.IndexDataset{{Name: "clicks", Versions: 30, Staged: at,
			Night: &page.Night{Version: "2", LabelRate: 0.026,
				State: "blocked", Findings: []nights.Finding{{Code: nights.CodeLabelsLost, Level: "blocking",
					Text: "20 % of the labels are missing"}}}},
			{Name: "views", Versions: 2, Staged: at, Night: &page.Night{Version: "1", State: "good"}}},
		Models: []page.IndexModel{{Name: "ctr", Versions: 10, Champion: 9, Since: at.Add(-47 * time.Hour),
			Metric: "average_precision", Trend: []float64{0.109, 0.112, 0.1115, 0.1162}, Last: &held, Held: 1},
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
	for _, want := range []string{"not promoted",
		"4 things need you, one sweep runs ctr : version 9 is live · promoted ",
		"11 of 50 trials ended, about 28 min left, about $0.53 of $2.00 spent, best average_precision " +
			"0.1162. Its budget ends it about 03:38 UTC .",
		"clicks : version 2 was blocked when it was staged",
		"Found: 20 % of the labels are missing (labels_lost).",
		"the last sweep made no champion: " + worseThan9 + ". If nobody acts, version 9 stays live " +
			"and the next sweep tries again.",
		"from 0.109 to 0.1162 over 4 nights, each on its own rows",
		"night-x : its plan or its conclusion cannot be read", "nothing is live"} {
		if !strings.Contains(text, want) {
			t.Errorf("got %.1500q, want %q in it", text, want)
		}
	}
	if quiet := said(write(t, &page.Index{})); !strings.Contains(quiet, "Nothing needs you ") {
		t.Errorf("got %q, want that nothing needs a person", quiet)
	}
}

// TestAmber: what went live with a total that is off beyond chance is amber wherever it stands, never green, and a
// night has one colour at home and on its model's page, whatever was cancelled after it.
func TestAmber(t *testing.T) {
	at := time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)
	why := "it predicts 24 % more than observed (9 to 42 %); better"
	for _, caution := range []bool{true, false} {
		last := page.IndexSweep{ID: "n-1", Model: "ctr", State: "winner", Version: 1, At: at, Why: why,
			Verdict: sweep.VerdictPromoted, Caution: caution}
		night := page.ModelNight{IndexSweep: last, At: at, Live: 1, LiveValue: math.NaN(), NewValue: math.NaN()}
		stopped := night
		stopped.Verdict, stopped.Caution = sweep.VerdictCancelled, false
		night1 := sample(8)
		ratio := sweep.GateCheck{Name: "calibration", Passed: true, Value: 1.04, Low: 0.97, High: 1.1}
		if caution {
			ratio.Value, ratio.Low, ratio.High = 1.24, 1.09, 1.42
		}
		night1.Winner.Gate.Checks = append(night1.Winner.Gate.Checks, ratio)
		want := map[bool]string{true: "answer a-held", false: "answer a-live"}[caution]
		for name, view := range map[string]writer{
			"home": &page.Index{Models: []page.IndexModel{{Name: "ctr", Versions: 1, Champion: 1, Last: &last}},
				Sweeps: []page.IndexSweep{last}},
			"model": &page.Model{Name: "ctr", Champion: 1, Versions: versions(2).Versions[:1],
				Month: page.Month{Nights: []page.ModelNight{stopped, night}}},
			"sweep": night1} {
			text := write(t, view)
			if !strings.Contains(text, want) || strings.Contains(text, `class="off"`) != (caution && name == "sweep") ||
				caution && !strings.Contains(said(text), "predicts 24 % more than observed (9 to 42 %)") {
				t.Errorf("%s with a caution %t: want %q, and what is off; got %.900q", name, caution, want, said(text))
			}
		}
	}
}

// TestNothingToDo: a page says so where nothing needs a person, and only there; where something does, with the command
// that mends it.
func TestNothingToDo(t *testing.T) {
	runs, broke, held, live, blocked := sample(8), sample(8), sample(8), versions(10), manyNights(30)
	for _, s := range []*page.Sweep{runs, broke} {
		s.State, s.Winner, s.Left = "running", nil, sweep.Range{Expected: 600}
		s.Money = &page.Money{Known: true, Total: 1, Hourly: 12}
	}
	broke.Money.Budget = 2
	held.Winner.Gate.Promoted, held.Winner.Gate.Passed = false, false
	live.Champion, live.Nights = 10, live.Nights[:1]
	live.Nights[0].Verdict = sweep.VerdictPromoted
	blocked.Nights = blocked.Nights[:1+slices.IndexFunc(blocked.Nights, func(n page.Night) bool {
		return n.State == nights.Held
	})]
	for name, tc := range map[string]struct {
		view    writer
		nothing bool
		says    string
	}{
		"sweep":              {sample(50), true, "trial 44 is as good. Nothing to do."},
		"held":               {held, false, "the next sweep tries again."},
		"runs":               {runs, true, "Nothing to do: it ends by itself."},
		"reaches its budget": {broke, false, "Its budget ends it"},
		"model":              {live, true, "Nothing to do."},
		"held model":         {versions(10), false, "the next night tries again."},
		"dataset":            {manyNights(30), true, "Nothing to do for this table."},
		"blocked": {blocked, false, "Mend its source and stage it again: launcher stage DATASET.yaml . If it is " +
			"right as it is: launcher datasets accept clicks@"},
		"home": {tonight(), false, "launcher stage DATASET.yaml . If it is right as it is: launcher datasets accept " +
			"clicks@2"},
	} {
		text := said(write(t, tc.view))
		if got := strings.Contains(text, "Nothing to do"); got != tc.nothing || !strings.Contains(text, tc.says) {
			t.Errorf("%s: nothing to do: %t, expected %t and %q; got %.900q", name, got, tc.nothing, tc.says, text)
		}
	}
}
