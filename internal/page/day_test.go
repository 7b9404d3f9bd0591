package page_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"coppice/internal/page"
)

// servedDay is n hours of a model whose column site has campaigns that are new in the last ones, and whose champion
// moved.
func servedDay(n int) *page.Day {
	d := &page.Day{Model: "ctr", Live: "ctr@13", AsOf: time.Date(2026, 11, 22, 3, 12, 0, 0, time.UTC),
		Command: "launcher served ctr --last 24"}
	for i := range n {
		begin := d.AsOf.Truncate(time.Hour).Add(time.Duration(i-n) * time.Hour)
		h := page.DayHour{Begin: begin, Version: "ctr@12", Servers: 3,
			Requests: int64(72_000 + 30_000*math.Sin(float64(i)/4)), Mean: .03 + .002*math.Cos(float64(i)/3),
			P50: .0007, P99: .0027, Refused: int64(i % 3)}
		if i > 2*n/3 {
			h.Version = "ctr@13"
		}
		h.Rows = 50 * h.Requests
		if i >= n-3 {
			h.Findings = []string{"site: 40 % of the values are unseen, compared with 1 %"}
		}
		d.Hours = append(d.Hours, h)
		if i < n-4 {
			d.Judged = append(d.Judged, page.DayJudged{Begin: begin, Rows: h.Rows, Ratio: 1 + .03*math.Sin(float64(i)),
				Entropy: .84}, page.DayJudged{Begin: begin, Segment: "site=a.com", Rows: 1000, Ratio: 1.01,
				Entropy: .9})
		}
	}
	d.Drifts = []page.DayDrift{{Column: "site", What: "unseen", Version: "ctr@13", Now: .18, Usual: .01, Low: .0098,
		High: .4, Off: 3}}
	for j, column := range []string{"campaign", "device", "advertiser_of_the_last_seven_days_by_campaign", "hour"} {
		usual := .01 * float64(j+2)
		d.Drifts = append(d.Drifts, page.DayDrift{Column: column, What: "unseen", Version: "ctr@13", Now: 1.1 * usual,
			Usual: usual, Low: .9 * usual, High: 1.3 * usual}, page.DayDrift{Column: column, What: "missing",
			Version: "ctr@12", Now: .001, Usual: math.NaN(), Low: 0, High: .002})
	}
	return d
}

// quiet is a day without a finding, before labels have arrived.
func quiet(n int) *page.Day {
	d := servedDay(n)
	d.Judged = nil
	for i := range d.Hours {
		d.Hours[i].Findings = nil
	}
	d.Drifts[0].Off, d.Drifts[0].Now = 0, .0102
	return d
}

// TestDayPage: a day begins with whether all was well, and no script comes with it.
func TestDayPage(t *testing.T) {
	busy, refused, judged, long := quiet(24), quiet(24), quiet(24), servedDay(31*24)
	later, labels, unasked, unknown := quiet(1), quiet(24), quiet(1), quiet(2)
	busy.Hours[3].Busy = busy.Hours[3].Requests / 50
	refused.Hours[3].Refused = refused.Hours[3].Requests
	judged.Judged = []page.DayJudged{{Begin: judged.Hours[5].Begin, Segment: "site=a.com", Rows: 900, Ratio: 3,
		Finding: "300 positive rows predicted where 100 came"}}
	later.Hours[0].Findings = []string{"site: too many are unseen"}
	later.Judged = []page.DayJudged{{Begin: later.AsOf.Truncate(time.Hour), Finding: "too few positive rows"}}
	labels.Judged, labels.Hours, labels.Drifts = servedDay(24).Judged, nil, nil
	unasked.Hours[0] = page.DayHour{Begin: unasked.AsOf.Truncate(time.Hour), Version: "ctr@12"}
	for i := range unknown.Drifts {
		unknown.Drifts[i].Usual = math.NaN()
	}
	for i := range 500 {
		long.Drifts = append(long.Drifts, page.DayDrift{Column: strings.Repeat("c", i)})
	}
	for name, tc := range map[string]struct {
		day  *page.Day
		want []string
	}{
		"off": {servedDay(24), []string{"ctr needs a look: 3 of 24 hours", "If nobody acts",
			"Labels have arrived of 20 hours", "2026-11-22 00:00 ctr@13: site: 40 % of the values are unseen",
			"usually 1 %, too high", "ctr@13 answers now"}},
		"well": {quiet(24), []string{"a-live", "ctr was well in 24 hours", "No column was missing"}},
		"late": {later, []string{"ctr needs a look: 2 of 2 hours"}},
		"labels": {labels, []string{"ctr was well in 20 hours", "No column was compared",
			"Labels have arrived of 20 hours"}},
		"unknown": {unknown, []string{"ctr was well in 2 hours", "No column was compared"}},
		"unasked": {unasked, []string{"a-none", "No request to ctr is recorded"}},
		"busy":    {busy, []string{"a-held", "1 of 24 hours", "1.96 % of the requests were turned away (429)"}},
		"refused": {refused, []string{"a-held", "1 of 24 hours", "50 % of the requests were refused (4xx)"}},
		"judged": {judged, []string{"a-held", "2026-11-21 08:00 site=a.com: 300 positive rows predicted where 100 came",
			"Labels have arrived of 1 hour"}},
		"empty": {&page.Day{Model: "ctr"}, []string{"a-none", "No request to ctr is recorded",
			"launcher serve --profiles"}},
		"long": {long, []string{"3 of 744 hours"}},
		"one":  {quiet(1), []string{"ctr was well in 1 hour"}},
	} {
		text := write(t, tc.day)
		for _, want := range tc.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: the page lacks %q", name, want)
			}
		}
		if strings.Contains(text, "<script") || strings.Contains(text, "script-src") ||
			!strings.Contains(text, "default-src &#39;none&#39;; style-src") {
			t.Errorf("%s: the page has a script, or may have one", name)
		}
		if len(text) > 300_000 {
			t.Errorf("%s: the page has %d bytes, want at most 300,000", name, len(text))
		}
		checkPages(t, map[string]writer{name: tc.day})
	}
	hostilePages(t, func() writer { return servedDay(9) })
}
