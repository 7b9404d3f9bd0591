package dataset_test

import (
	"strings"
	"testing"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/must"
)

// TestContractExpects: the days of contract.expect are read, and a range that says nothing is refused where it stands.
func TestContractExpects(t *testing.T) {
	spec := func(expect string) (*dataset.Spec, error) {
		return dataset.ParseSpec("d.yaml", []byte("name: t\nsource: t.csv\nlabel: y\n"+expect))
	}
	s := must.Get(spec("contract:\n  expect:\n" +
		"    - {from: 2026-11-27, to: 2026-11-30, findings: [rows], why: Black Friday}\n"))(t)
	e := s.Contract.Expect[0]
	for day, want := range map[string]bool{"2026-11-26": false, "2026-11-27": true, "2026-11-30": true,
		"2026-12-01": false} {
		at := must.Get(time.Parse(time.DateOnly, day))(t)
		if got := e.Holds(at.Add(23 * time.Hour)); got != want {
			t.Errorf("%s: expected %t, want %t", day, got, want)
		}
	}
	if !s.Contract.Declared {
		t.Error("a spec with contract: declares none; want Declared")
	}
	if s, err := spec(""); err != nil || s.Contract.Declared {
		t.Errorf("a spec without contract: %v, declared %t; want neither", err, s.Contract.Declared)
	}
	if s, err := spec("contract: auto\n"); err != nil || !s.Contract.Declared {
		t.Errorf("contract: auto: %v; want it declared", err)
	}

	for entry, says := range map[string]string{
		"{from: 27.11.2026, findings: [rows], why: a}":                 "is not a day",
		"{findings: [rows], why: a}":                                   "is not a day",
		"{from: 2026-11-27, to: 2026-11-26, findings: [rows], why: a}": "is before",
		"{from: 2026-11-27, findings: [rows]}":                         "and why",
		"{from: 2026-11-27, why: a}":                                   "give the findings",
		"{from: 2026-11-27, findings: [Rows], why: a}":                 "is not a finding",
		"{from: 2026-11-27, findings: [rows], why: a, until: b}":       "until",
	} {
		if _, err := spec("contract:\n  expect:\n    - " + entry + "\n"); err == nil || !strings.Contains(err.Error(),
			says) ||
			!strings.Contains(err.Error(), "d.yaml:6") {
			t.Errorf("%s: %v; want an error in line 6 that says %q", entry, err, says)
		}
	}
}
