package nights_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/must"
	"coppice/internal/nights"
)

// TestFreshnessOfLabelsThatComeLate: a table is as fresh as its newest row, and has as many rows as have final labels.
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

// TestAsOfIsNotWhatNightsAreToldApartBy: the stated moment differs every night, and nights are still compared.
func TestAsOfIsNotWhatNightsAreToldApartBy(t *testing.T) {
	hashes := func(label string) [2]string {
		t.Helper()
		s := must.Get(dataset.ParseSpec("d.yaml",
			[]byte("name: t\nsource: t.csv\nlabel: {column: y, at: ts, "+label+"}\n")))(t)
		before := s.Label
		spec, meaning := must.Get2(nights.SpecHashes(s))(t)
		if s.Label != before {
			t.Errorf("hashing %s left the label as %+v, expected %+v", label, s.Label, before)
		}
		return [2]string{spec, meaning}
	}

	first := hashes("matures: 48h, as_of: 2026-11-19T03:00:00Z")
	for _, label := range []string{"matures: 48h, as_of: 2026-11-20T03:00:00Z", "matures: 48h"} {
		if got := hashes(label); got != first {
			t.Errorf("%s hashes to %q, and with another as_of it was %q; expected the same", label, got, first)
		}
	}
	if got := hashes("matures: 72h, as_of: 2026-11-19T03:00:00Z"); got[0] == first[0] || got[1] == first[1] {
		t.Errorf("labels that are final a day later hash to %q, as before; expected others", got)
	}
}
