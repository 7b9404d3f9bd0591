package page_test

import (
	"slices"
	"strings"
	"testing"

	"coppice/metric"
	"coppice/page"
	"coppice/page/plot"
)

// TestSegmentsThatNothingCameIn: where nothing came, there is no ratio to draw, but what was predicted says whether that may be chance.
func TestSegmentsThatNothingCameIn(t *testing.T) {
	s := sample(2)
	s.Winner.Tested.Segments = []page.Segment{
		{Name: "campaign 1", Bin: metric.Bin{Rows: 12345, Weight: 12345, Before: 400, After: 300.27}},
		{Name: "campaign 2", Bin: metric.Bin{Rows: 1000, Weight: 1000, Before: 40, After: 3.7}},
		{Name: "campaign 3", Bin: metric.Bin{Rows: 900, Weight: 900, Before: 40, After: 3.6}},
		{Name: "campaign 4", Bin: metric.Bin{Rows: 100, Weight: 100, Positive: 10, Before: 40, After: 11}},
	}
	charts := s.Charts()
	at := slices.IndexFunc(charts, func(c *plot.Chart) bool { return c.ID == "segments" })
	if at < 0 {
		t.Fatal("the segments of a winner are not drawn")
	}

	if want := "2 of 4 segments hold 1."; !strings.HasSuffix(charts[at].Summary, want) {
		t.Errorf("300 and 3.7 were predicted where nothing came, 3.6 where that may be chance: %q, expected %q at its end", charts[at].Summary, want)
	}
	var labels []string
	for _, l := range charts[at].Labels {
		labels = append(labels, l.String)
	}
	for _, want := range []string{"0 of 12345, 300.3 predicted", "0 of 1000, 3.7 predicted", "0 of 900, 3.6 predicted", "10 of 100"} {
		if !slices.Contains(labels, want) {
			t.Errorf("the notes are %q, expected %q among them", labels, want)
		}
	}
}
