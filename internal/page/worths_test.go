package page_test

import (
	"slices"
	"strings"
	"testing"

	"coppice/internal/page/plot"
	"coppice/internal/search"
)

// TestWorths: groups of columns are drawn with their intervals, those whose worth is not known are in the table only,
// and the summary names what helps beyond chance.
func TestWorths(t *testing.T) {
	s := sample(12)
	if charts := s.Charts(); slices.ContainsFunc(charts, func(c *plot.Chart) bool { return c.ID == "worths" }) {
		t.Error("a sweep over parameters has a chart of groups of columns")
	}
	is := func(x float64) *float64 { return &x }
	s.Worths = &search.Worths{How: "intervals of 95 %", Groups: []search.Worth{
		{Group: "sites", Columns: []string{"a", "b", "c"}, Worth: is(0.02), Low: is(0.01), High: is(0.03)},
		{Group: "user", Columns: []string{"d"}, Worth: is(0.001), Low: is(-0.01), High: is(0.012)},
		{Group: "noise", Columns: []string{"e", "f"}, Worth: is(-0.004)}, {Group: "late", Columns: []string{"g", "h"}}}}
	c := chart(t, s, "worths")
	if want := "Beyond chance: sites."; !strings.Contains(c.Summary, want) {
		t.Errorf("the summary is %q, expected that it says %q", c.Summary, want)
	}
	text := write(t, svg{c})
	for _, want := range []string{"sites", "3 columns", "1 column", "noise", "dot good", "dot open"} {
		if !strings.Contains(text, want) {
			t.Errorf("the chart of worths does not say %q", want)
		}
	}
	if strings.Contains(text, ">late<") || strings.Contains(text, "dot bad") {
		t.Error("the chart of worths shows a group without a worth, or calls one without an interval bad beyond chance")
	}
	if text := write(t, s); !strings.Contains(text, "late") {
		t.Error("the page does not list a group without a worth")
	}
}
