package page_test

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"coppice/internal/must"
	"coppice/internal/page"
	"coppice/internal/registry"
	"coppice/internal/sweep"
)

// versions is a model of n versions, one a night. All but the last were promoted in turn, so version n-1 is live; the
// last one is worse. After night 4 there is another one without a version, whose table was blocked.
func versions(n int) *page.Model {
	first := time.Date(2026, 11, 11, 4, 0, 0, 0, time.UTC)
	m := &page.Model{Name: "ctr", Champion: n - 1, Of: n - 1,
		Features: []page.Importance{{Feature: "campaign_id rate", Gain: 0.5, Splits: 400},
			{Feature: "price", Gain: 0.3, Splits: 900}, {Feature: "site", Gain: 0.2, Splits: 100}, {Feature: "unused"}}}
	for i := 1; i <= n; i++ {
		at := first.AddDate(0, 0, i)
		v := page.VersionView{Version: registry.Version{Number: i, Info: registry.Info{At: at, By: "aggregator",
			Why: "trial 3 has the highest average_precision",
			Metrics: map[string]float64{"auc": 0.77 + 0.01*math.Sin(float64(i)), "average_precision": 0.1162,
				"brier": 0.02345, "ece": 0.00123, "log_loss": 0.113},
			Labels: map[string]string{"sweep": fmt.Sprint("night-ctr-", i), "trial": "39",
				"dataset": "clicks@0123456789abcdef"}}}}
		m.Versions = append(m.Versions, v)
		if i < n-1 {
			m.Past = append(m.Past, i)
		}
		if i < n {
			m.Moves = append(m.Moves, registry.Event{Alias: "champion", Kind: "promoted", By: "aggregator",
				Why:  "better",
				From: i - 1, To: i, At: at})
		}
	}
	m.Versions[n-2].Tag = "champion"
	for i := n; i >= 1; i-- {
		night := page.ModelNight{IndexSweep: page.IndexSweep{ID: fmt.Sprint("night-ctr-", i),
			Dataset: "clicks@0123456789abcdef", Verdict: sweep.VerdictPromoted, Why: "better", Version: i},
			At: first.AddDate(0, 0, i).Add(-time.Hour), Live: i, Judged: "log_loss",
			LiveValue: 0.1145 + 0.001*math.Sin(float64(i)),
			NewValue:  0.1138 + 0.001*math.Sin(float64(i))}
		switch i {
		case 9: // as on its sweep's page
			night.LiveValue, night.NewValue = 0.114, 0.113
		case n:
			night.Verdict, night.Why, night.Live = sweep.VerdictNotPromoted, worseThan9, n-1
			night.Found = "warning: price"
			night.NewValue = night.LiveValue + 0.0031
		case 1:
			night.LiveValue, night.NewValue = math.NaN(), math.NaN()
		case 4:
			m.Nights = append(m.Nights, page.ModelNight{IndexSweep: page.IndexSweep{
				Dataset: "clicks@fedcba9876543210", Verdict: sweep.VerdictBlocked, Why: "all labels are 0"},
				At: night.At.Add(12 * time.Hour), Live: 4, LiveValue: math.NaN(), NewValue: math.NaN()})
		}
		m.Nights = append(m.Nights, night)
	}
	m.Moves = append(m.Moves, registry.Event{Alias: "canary", Kind: "promoted", By: "ana", Why: "try it", To: n,
		At: first.AddDate(0, 0, n)})
	m.Effects = effects(m.Features)
	return m
}

// TestAsksWithoutAnEnd: if no night has ended by itself, Month.Asks tells of the newest night: that it was cancelled or
// runs. A night that cannot be read asks nothing.
func TestAsksWithoutAnEnd(t *testing.T) {
	night := func(state string, verdict sweep.Verdict) page.ModelNight {
		return page.ModelNight{IndexSweep: page.IndexSweep{ID: "n", State: state, Verdict: verdict}}
	}
	cancelled, runs := night("cancelled", sweep.VerdictCancelled), night(page.Running, "")
	for want, nights := range map[string][]page.ModelNight{
		"": {night(page.Unreadable, "")},
		"Nothing to do: it was cancelled by hand; what is live stays live.": {cancelled},
		"Nothing to do: it ends by itself.":                                 {runs, cancelled},
	} {
		must.Equal(t, (&page.Month{Nights: nights}).Asks(0), want, "%+v", nights)
	}
}

// effects makes SHAP values of 120 rows for each feature that some split uses; one of the rows has no value.
func effects(of []page.Importance) (all []page.Effect) {
	for i, f := range of {
		if f.Splits == 0 {
			continue
		}
		e := page.Effect{Feature: f.Feature}
		for row := range 120 {
			e.Shap = append(e.Shap, math.Sin(float64(row*(i+1)))/float64(i+1))
			e.Rank = append(e.Rank, float64(row)/119)
		}
		e.Rank[7] = math.NaN()
		all = append(all, e)
	}
	return all
}

// TestModelPage: pages of models with many versions, with one and with none pass checkPages, hostile texts do no harm,
// and 30 versions take at most 300 kB.
func TestModelPage(t *testing.T) {
	one := &page.Model{Name: "ctr", Versions: versions(2).Versions[:1]}
	checkPages(t, map[string]writer{"many": versions(10), "one": one, "empty": &page.Model{Name: "nobody"}})
	hostilePages(t, func() writer { return versions(4) })
	if text := write(t, versions(30)); len(text) > 300_000 {
		t.Errorf("30 versions take %d bytes, expected at most 300,000", len(text))
	}
}

// TestNightsOfAModel: a model's page begins with what is live and how the last night went. Of each night it says what
// was found in its table, how the live and the new version did on its rows, and why it was not promoted. It tells of a
// rollback, and of several nights in a row without a champion.
func TestNightsOfAModel(t *testing.T) {
	// Of 11 nights, one was blocked and the last one made no champion: it scored 0.0031 more than the 0.114 of
	// version 9.
	text := said(write(t, versions(10)))
	says(t, "eleven nights", text, "Version 9 is live promoted 2026-11-20 04:00 "+
		"The last night, 2026-11-21 03:00 : not promoted. W"+worseThan9[1:]+". "+
		"Nothing to do: version 9 stays live, and the next night tries again.",
		"made a champion 9 of 11 nights",
		"warning: price",
		"all labels are 0",
		"log_loss, lower is better: of the version that was live and of the night's new one, on the same test rows.",
		"not promoted 10 9 0.114 0.1171")

	// Version 3 was taken back.
	m := versions(4)
	m.Champion, m.Moves = 2, append(m.Moves, registry.Event{Alias: "champion", Kind: registry.RolledBack, From: 3,
		To: 2, At: m.Moves[2].At.Add(time.Hour)})
	says(t, "version 3 taken back", said(write(t, m)), "Version 2 is live restored by a rollback 2026-11-14 05:00")

	// The last two nights made no champion.
	m = versions(4)
	m.Nights[1].Verdict = sweep.VerdictNoWinner
	says(t, "two nights without a champion", said(write(t, m)), "2 nights in a row have made no champion.")
}

// TestCommandsToCopy: a page prints the commands that would change what it shows (cancel a sweep, promote a version,
// roll back), only where they apply, and under the program's name in page.Commands. A version that is marked bad is not
// promoted, and there is no rollback from the first champion.
func TestCommandsToCopy(t *testing.T) {
	first, open, bad := &page.Model{Name: "ctr", Versions: versions(2).Versions[:1]}, sample(5), versions(4)
	open.State, open.Winner = "running", nil
	for _, version := range []int{4, 1, 2} { // version 3 is live, and 1 and 2 were before
		bad.Moves = append(bad.Moves, registry.Event{Kind: registry.MarkedBad, To: version})
	}
	bad.Moves = append(bad.Moves, registry.Event{Kind: registry.Cleared, To: 2})
	for name, tc := range map[string]struct {
		view writer
		want []string
	}{
		"running": {open, []string{"launcher cancel night-ctr-9"}},
		"ended":   {sample(5), nil},
		"live": {versions(10), []string{"launcher registry promote ctr@10 --why REASON",
			"launcher registry rollback ctr --why REASON"}},
		"none is live":       {first, []string{"launcher registry promote ctr@1 --why REASON"}},
		"the first champion": {versions(2), []string{"launcher registry promote ctr@2 --why REASON"}},
		"4 and 1 are bad": {bad, []string{"launcher registry promote ctr@2 --why REASON",
			"launcher registry rollback ctr --why REASON"}},
		"no version": {&page.Model{Name: "nobody"}, nil},
	} {
		var got []string
		for _, m := range regexp.MustCompile(`<code>(launcher (?:cancel|registry) [^<]*)</code>`).FindAllStringSubmatch(
			write(t, tc.view), -1) {
			got = append(got, m[1])
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: the page prints %q, expected %q", name, got, tc.want)
		}
	}

	// Under another name.
	before := page.Commands
	defer func() { page.Commands = before }()
	page.Commands = strings.NewReplacer("launcher cancel", "coppice cancel")
	says(t, "called coppice", write(t, open), "<code>coppice cancel night-ctr-9</code>")
}

// TestIndexPage: the home page passes checkPages with something on it and empty, and hostile texts do no harm.
func TestIndexPage(t *testing.T) {
	view := func() writer {
		return &page.Index{Sweeps: []page.IndexSweep{{ID: "night-1", Dataset: "clicks@1", Model: "ctr", State: "winner",
			Planned: time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC), Trials: 50, Version: 3}}, More: 2,
			Datasets: []page.IndexDataset{{Name: "clicks", Versions: 30}},
			Models:   []page.IndexModel{{Name: "ctr", Versions: 9, Champion: 8}}}
	}
	checkPages(t, map[string]writer{"some": view(), "empty": &page.Index{}})
	hostilePages(t, view)
}
