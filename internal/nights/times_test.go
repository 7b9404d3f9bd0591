package nights_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/nights"
	"coppice/internal/nights/nightstest"
)

// TestAnotherColumnIsTheTime: tables are windows of ten days, of which each night replaces one, and the spec names no
// time. On the last three nights the first column has times in fewer rows than it takes to be the time of the rows
// (mostTimed, in ingest), and the second becomes it. That a window shares nine tenths of its rows with last night's is
// expected all the same, or not known: no night is blocked.
func TestAnotherColumnIsTheTime(t *testing.T) {
	const spec = "label: is_click\nencodings: none\nsplit: {by: random, seed: 1, train: 0.8, test: 0.2}\n"
	window := func(day int, share float64) string {
		var csv strings.Builder
		csv.WriteString("a,b,x,is_click\n")
		for d := day; d < day+10; d++ {
			r := rand.New(rand.NewPCG(uint64(d), 5)) // a day's rows are the same in every window
			for range 600 {
				at := nightstest.First.AddDate(0, 0, d).Add(time.Duration(r.IntN(86400)) * time.Second)
				first := ""
				if r.Float64() < share {
					first = at.Format(time.RFC3339)
				}
				fmt.Fprintf(&csv, "%s,%s,%.6f,%d\n", first, at.Add(time.Minute).Format(time.RFC3339),
					r.NormFloat64(), r.IntN(4)/3)
			}
		}
		return csv.String()
	}

	var before []*nights.Profile
	for day, share := range []float64{0.92, 0.92, 0.92, 0.92, 0.88, 0.88, 0.88} {
		staged := stageCSV(t, window(day, share), spec)
		tonight := measured(t, staged.Night, staged.Manifest)
		if want := map[bool]string{true: "a", false: "b"}[share > 0.9]; tonight.TimeColumn != want {
			t.Errorf("night %d: the time is column %q, want %q", day, tonight.TimeColumn, want)
		}
		found := find(t, nights.Request{Night: staged.Night, Tonight: tonight, Before: before, Declared: true})
		if nights.Blocked(found) {
			t.Errorf("night %d: blocked by %+v, want no night to be", day, found)
		}
		before = append(before, tonight)
	}
}

// TestNightWithoutTimes: a rule about the age of rows blocks a night whose rows have no time. What is said is to name
// the column under contract.time or, if the spec does, that this column has no times.
func TestNightWithoutTimes(t *testing.T) {
	n := stageGood(t, nightstest.Stream{Seed: 3, Rows: 3000}.Night(0), nil)
	timeless := *n.profile
	timeless.TimeColumn = ""
	for named, want := range map[string]string{
		"":   "but no column says how old the rows are; name it under contract.time",
		"ts": "but this column, named under contract.time, has no times tonight",
	} {
		spec := &dataset.Spec{Contract: dataset.ContractSpec{Time: named, MaxAge: dataset.Duration(time.Hour)}}
		found := find(t, nights.Request{Night: n.rows, Tonight: &timeless, Spec: spec, At: nightstest.First})
		if len(found) != 1 || found[0].Code != nights.CodeStale || found[0].Level != nights.Blocking ||
			found[0].Column != named || !strings.HasSuffix(found[0].Text, want) {
			t.Errorf("contract.time %q: found %+v, want one stale that blocks, of that column: ... %s", named, found,
				want)
		}
	}
}

// TestFreshnessOfLabelsThatComeLate: if labels are final only after two days, a table is as fresh as its newest row,
// but has only the rows with final labels: of 1,000 hourly rows, all but the last 48.
func TestFreshnessOfLabelsThatComeLate(t *testing.T) {
	var b strings.Builder
	b.WriteString("y,x,ts\n")
	begin := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	for i := range 1000 {
		fmt.Fprintf(&b, "%d,%d,%s\n", i%2, i%17, begin.Add(time.Duration(i)*time.Hour).Format(time.RFC3339))
	}
	r := stageCSV(t, b.String(), "label: {column: y, matures: 48h, at: ts}\n")
	p := measured(t, r.Night, r.Manifest)
	if newest := begin.Add(999 * time.Hour); p.Rows != 952 || p.TimeColumn != "ts" || !p.Newest.Equal(newest) ||
		!p.Oldest.Equal(begin) {
		t.Errorf("profile of %d rows by %q, from %s to %s; want 952 by ts up to %s", p.Rows, p.TimeColumn, p.Oldest,
			p.Newest, newest)
	}
}
