package conclude

import (
	"strings"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/must"
	"coppice/internal/nights"
	"coppice/internal/sweep"
)

// TestNightsSayWhatIsBlocked: a blocked night blocks, an accepted or unknown one does not, and a damaged record does
// not pass as good.
func TestNightsSayWhatIsBlocked(t *testing.T) {
	p := &sweep.Plan{Dataset: sweep.DatasetRef{Name: "clicks", Version: "0123456789abcdef"}}
	found := []nights.Finding{{Code: nights.CodeInverted, Level: nights.Blocking,
		Text: "positive and negative look swapped"}}
	record := func(change func(*nights.Record)) string {
		r := &nights.Record{Format: 1, Dataset: p.Dataset.Name, Version: p.Dataset.Version, Profile: &nights.Profile{},
			Findings: found}
		change(r)
		text := must.Get(r.Encode())(t)
		return string(text)
	}

	for name, tc := range map[string]struct {
		record string // empty for no record
		want   string // part of the reason; empty: not blocked
	}{
		"unknown": {"", ""},
		"blocked": {record(func(*nights.Record) {}), "look swapped"},
		"accepted": {record(func(r *nights.Record) {
			r.Accepted = &nights.Acceptance{By: "ann", Why: "so it is", At: time.Unix(0, 0)}
		}), ""},
		"good":    {record(func(r *nights.Record) { r.Findings = nil }), ""},
		"damaged": {"{", "damaged"},
		"another's": {strings.ReplaceAll(record(func(*nights.Record) {}), p.Dataset.Version, "fedcba9876543210"),
			"damaged"},
	} {
		store := blob.Memory()
		if tc.record != "" {
			must.Get(store.Put(t.Context(), sweep.DatasetNight("clicks", p.Dataset.Version), blob.Absent,
				strings.NewReader(tc.record)))(t)
		}
		got, err := Nights{store}.Blocked(t.Context(), p)
		if err != nil || (len(got) > 0) != (tc.want != "") || !strings.Contains(strings.Join(got, "; "), tc.want) {
			t.Errorf("%s: blocked for %q, %v; want %q", name, got, err, tc.want)
		}
	}
}
