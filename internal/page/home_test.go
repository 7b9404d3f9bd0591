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
	"coppice/internal/page/plot"
	"coppice/internal/sweep"
)

// worseThan9 is why a version is not live, as sweep.Conclusion.Why says it.
const worseThan9 = "worse than version 9: log_loss 2.7 % worse (1.1 to 4.4 %)"

// tonight is a home page with something of every kind: a sweep that runs (11) and will exceed its budget, one that was
// not promoted (10), one that was (9), one that cannot be read, a blocked table, and a model with nothing live. The
// sweep has run for ten minutes at $3.20 an hour, which is $0.53; what is left of its $2.00 lasts 28 minutes.
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
		AsOf: at.Add(10 * time.Minute)}
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
			Last: &held, Held: 1},
			{Name: "views", Versions: 1}}}
}

// said is the text that a reader of a page sees, with one blank wherever there are blanks, line breaks or tags.
func said(page string) string {
	text := regexp.MustCompile(`<[^>]*>`).ReplaceAllString(visible(page), " ")
	return strings.Join(strings.Fields(text), " ")
}

// TestTonight: the home page says what is live, how the last night went, what runs, and what needs a person; an empty
// one says that nothing does.
func TestTonight(t *testing.T) {
	text := said(write(t, tonight()))
	says(t, "home", text, "not promoted",
		"3 things to do, one sweep runs ctr : version 9 is live · promoted ",
		"11 of 50 trials ended, about 28 min left, about $0.53 of $2.00 spent, best average_precision "+
			"0.1162. Its budget ends it about 03:38 UTC .",
		"clicks : version 2 was blocked when it was staged",
		"Found: 20 % of the labels are missing (labels_lost). To do: look at launcher datasets show clicks@2 , then",
		worseThan9+" Nothing to do: version 9 stays live, and the next night tries again.",
		"night-x : its plan or its conclusion cannot be read", "nothing is live")
	says(t, "an empty home", said(write(t, &page.Index{})), "Nothing to do ")
}

// TestAmber: a version that went live although its predictions are off beyond chance (a caution) is amber on the home
// page, the model's and the sweep's, and its caution is told; without one it is green. A night that was cancelled later
// does not change the colour.
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
		want := plot.Either(caution, "answer a-held", "answer a-live") // amber and green
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

// TestNothingToDo: a page says "Nothing to do" if nothing needs a person. Where something does, it says what, with the
// command that mends it.
func TestNothingToDo(t *testing.T) {
	// runs has 10 minutes left at $12 an hour; broke would spend $3 of a budget of $2.
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
	const mend = "then mend its source and launcher stage DATASET.yaml , or launcher datasets accept clicks@"
	for name, tc := range map[string]struct {
		view    writer
		nothing bool
		says    string
	}{
		"sweep":              {sample(50), true, "% better (-0.34 to &#43;2 %). Nothing to do: version 9 is live."},
		"held":               {held, true, "version 8 stays live, and the next night tries again."},
		"runs":               {runs, true, "Nothing to do: it ends by itself."},
		"reaches its budget": {broke, false, "Its budget ends it"},
		"model":              {live, true, "Nothing to do: version 10 is live."},
		"held model":         {versions(10), true, "the next night tries again."},
		"dataset":            {manyNights(30), true, "Nothing to do for this table."},
		"blocked":            {blocked, false, mend},
		"home":               {tonight(), true, mend + "2"},
	} {
		text := said(write(t, tc.view))
		if got := strings.Contains(text, "Nothing to do"); got != tc.nothing || !strings.Contains(text, tc.says) {
			t.Errorf("%s: nothing to do: %t, expected %t and %q; got %.900q", name, got, tc.nothing, tc.says, text)
		}
	}
}

// TestTwoThingsToDo: if a person has to decide about the last night, and the job of a newer sweep is gone, both are
// told, on the home page and in Month.Asks.
func TestTwoThingsToDo(t *testing.T) {
	last := page.IndexSweep{ID: "night-1", Model: "ctr", Version: 4, State: "winner", Dataset: "clicks@1",
		Verdict: sweep.VerdictNotComparable}
	gone := page.IndexSweep{ID: "night-2", Model: "ctr", Running: true,
		Asks: sweep.Todo{Sweep: "night-2", Stopped: true}}
	month := page.Month{Nights: []page.ModelNight{{IndexSweep: gone}, {IndexSweep: last}}}
	for on, text := range map[string]string{"the month": month.Asks(3), "home": said(write(t, &page.Index{
		Models: []page.IndexModel{{Name: "ctr", Champion: 3, Last: &last, Asked: gone.Asks}},
		Sweeps: []page.IndexSweep{gone, last}}))} {
		says(t, on, text, "decide whether version 4 goes live", "started night-2 once more")
	}
}

// TestOneAnswer: for a night with each possible ending, the home page, the model's page and the sweep's page say what
// to do in the same words, those of sweep.Conclusion.Todo, and say nothing else there is to do.
func TestOneAnswer(t *testing.T) {
	for name, change := range map[string]func(*sweep.Conclusion){
		"held back":      func(c *sweep.Conclusion) { c.Gate.Verdict = sweep.VerdictNotPromoted },
		"not comparable": func(c *sweep.Conclusion) { c.Gate.Verdict = sweep.VerdictNotComparable },
		"blocked":        func(c *sweep.Conclusion) { c.Gate.Verdict = sweep.VerdictBlocked },
		"by hand":        func(c *sweep.Conclusion) { c.Gate.Passed = true },
		"third in a row": func(c *sweep.Conclusion) { c.Standing.Nights = 3 },
		"live":           func(c *sweep.Conclusion) { c.Gate.Promoted, c.Gate.Verdict = true, sweep.VerdictPromoted },
		"odd table":      func(c *sweep.Conclusion) { c.Warned = "40,000 rows, earlier 60,000 to 80,000" },
	} {
		s := sample(5)
		c := s.Winner.Conclusion
		c.Gate.Passed, c.Gate.Promoted, c.Standing = false, false, &sweep.Standing{Model: "ctr", Champion: 8, Nights: 1}
		change(c)

		// The views that launcher/internal/report would make of the conclusion.
		live := plot.Either(c.Gate.Promoted, c.Version, 8)
		if c.Gate.Promoted {
			c.Standing = nil
		}
		last := page.IndexSweep{ID: s.ID, Model: "ctr", Dataset: s.Dataset, Version: c.Version, State: "winner",
			Verdict: c.Verdict(), Why: c.Why(), Asks: c.Todo(s.Dataset, 0)}
		model := page.IndexModel{Name: "ctr", Champion: live, Last: &last}
		m := &page.Model{Name: "ctr", Champion: live, Month: page.Month{Nights: []page.ModelNight{{IndexSweep: last,
			LiveValue: math.NaN(), NewValue: math.NaN()}}}}
		if c.Standing != nil {
			model.Held = c.Standing.Nights
			m.Nights = slices.Repeat(m.Nights, c.Standing.Nights)
		}

		want := strings.ReplaceAll(c.Todo(s.Dataset, live).String(), "`", "") // the page marks commands by an element
		for on, view := range map[string]writer{"home": &page.Index{Models: []page.IndexModel{model}}, "model": m,
			"sweep": s} {
			text := said(write(t, view))
			for _, k := range []string{" .", " ;", " ,"} { // behind a command's tag
				text = strings.ReplaceAll(text, k, k[1:])
			}
			if !strings.Contains(text, want) || strings.Count(text, "Nothing to do:") > 1 ||
				strings.Contains(text, "Nothing to do") && strings.Contains(text, "To do:") {
				t.Errorf("%s, %s: want %q, and no other answer; got %.900q", name, on, want, text)
			}
		}
	}
}
