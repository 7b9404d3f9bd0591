package plan_test

import (
	"strings"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/sweep"
)

func TestBagIsRefused(t *testing.T) {
	spec := withoutRequire(t)
	for edit, want := range map[string]string{
		"ensemble: {bag: 0}":                       "bag is 0: use 2 to 10",
		"ensemble: {bag: 11}":                      "bag is 11: use 2 to 10",
		"ensemble: {bags: 3}":                      `did you mean "bag"`,
		"ensemble: {bag: 3}\nfinal: {rows: train}": "its models are those of the final training; leave final out",
		"ensemble: {bag: 3}\nvalidate: {kfold: 5}": "validate has none: its winner is " +
			"trained on train and valid already",
	} {
		unread(t, want, strings.Replace(spec, "machine:", edit+"\nmachine:", 1))
	}
	for edit, want := range map[string]int{"": 1, "ensemble: {bag: 1}": 1,
		"ensemble: {bag: 3}\nfinal: {rows: all}": 3} {
		text := strings.Replace(spec, "machine:", edit+"\nmachine:", 1)
		s, err := sweep.ParseSpec("sweep.yaml", []byte(text), words())
		if err != nil || s.Bag() != want {
			t.Errorf("%s: got %+v, %v, expected a bag of %d", edit, s, err, want)
		}
	}
}

// TestBagByDefault: small tables get a bag of five unless rows by time, statistics under a key or a limit on cost speak
// against it, which refuses one that is asked for where the reason is the table's.
func TestBagByDefault(t *testing.T) {
	small := func(edit func(*dataset.Manifest)) *dataset.Manifest {
		m := manifest(all...)
		for i := range m.Splits {
			m.Splits[i].Rows = 10_000
		}
		edit(m)
		return m
	}
	few := small(func(*dataset.Manifest) {})
	const asked = "ensemble: {bag: 3}\n"
	for _, tc := range []struct {
		lines, require string
		m              *dataset.Manifest
		bag            int
		refused        string
	}{
		{"", "", few, 5, ""},
		{"ensemble: {bag: 1}\n", "", few, 1, ""},
		{asked, "", few, 3, ""},
		{asked, `require: ["trees < 900"]`, few, 3, ""},
		{"", `require: ["trees < 900"]`, few, 1, ""},
		{"", `require: ["auc > 0.6"]`, few, 5, ""},
		{"", "", manifest(all...), 1, ""},
		{"final: {rows: train}\n", "", few, 1, ""},
		{"", "", small(func(m *dataset.Manifest) { m.Split.By = dataset.SplitByTime }), 1, ""},
		{asked, "", small(func(m *dataset.Manifest) { m.Split.By = dataset.SplitByTime }), 0,
			"rows are divided by time"},
		{asked, "", small(func(m *dataset.Manifest) {
			m.Split.By, m.Order = dataset.SplitByHash, &dataset.Ordering{}
		}), 0, "have seen the keys of every fold"},
		{asked, "", small(func(m *dataset.Manifest) { m.Negatives = 0.1 }), 0, "a sample of its negative rows"},
	} {
		p, err := build(parse(t, `require: ["precision@1% > 0.1", "trees < 900"]`, tc.require, "final: {rows: train}\n",
			tc.lines), tc.m)
		switch {
		case tc.refused != "":
			if err == nil || !strings.Contains(err.Error(), tc.refused) {
				t.Errorf("%s: got error %v, want %q", tc.lines, err, tc.refused)
			}
		case err != nil:
			t.Errorf("%s%s: %v", tc.lines, tc.require, err)
		case p.Spec.Bag() != tc.bag || strings.Contains(strings.Join(p.Notes, "\n"), "ensemble: ") != (tc.bag > 1):
			t.Errorf("%s%s: a bag of %d, want %d; notes %q", tc.lines, tc.require, p.Spec.Bag(), tc.bag, p.Notes)
		}
	}
}

func withoutRequire(t *testing.T) string {
	t.Helper()
	before, after, ok := strings.Cut(spec, "\nrequire:")
	_, after, more := strings.Cut(after, "\n")
	if !ok || !more {
		t.Fatal("the spec of these tests has no line require: any more")
	}
	return strings.Replace(before+"\n"+after, "final: {rows: train}\n", "", 1)
}
