package ingest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"coppice/dataset"
	"coppice/strictyaml"
)

// orderedTable is CSV whose rows have a place in time, as a number and as a time, in no order.
func orderedTable(rows int) string {
	var b strings.Builder
	b.WriteString("y,site,tick,at,part\n")
	for i := range rows {
		at := i * 7919 % rows
		fmt.Fprintf(&b, "%d,s%d,%d,2026-01-%02d 00:00:%02d,%s\n", (i/3)%2, i%50, at, 1+at*28/rows, at%60, []string{"train", "train", "test"}[i%3])
	}
	return b.String()
}

// Numbers order rows in CSV, too, where all columns are text, and rows see those of lesser numbers only.
func TestOrderByNumbersInText(t *testing.T) {
	s := mustStage(t, "label: y\nsplit: {by: column, column: part}\n"+
		"encodings: {order: {column: tick}, columns: {site: [rate, count, recency]}}\n", orderedTable(6000))
	if o := s.Manifest.Order; o == nil || o.By != dataset.OrderTime || o.Column != "tick" {
		t.Fatalf("%+v", o)
	}
	if f := s.feature(t, "site:recency"); f.From.Of[0].Kind != dataset.Numeric {
		t.Errorf("the order is read as %s", f.From.Of[0].Kind)
	}
	checkEncoder(t, s, []File{writeFile(t, "again.csv", orderedTable(6000))}, dataset.CSVSpec{})
}

func TestOrderRefuses(t *testing.T) {
	for rest, want := range map[string]string{
		"encodings: {order: {column: tick, delay: 24h}}\n":                           `column "tick" holds numbers, whose unit is not known`,
		"encodings: {order: {by: random}, columns: {site: [rate, recency]}}\n":       "recency needs an order by time",
		"encodings: {columns: {site: recency}}\n":                                    "recency needs an order by time",
		"encodings: {order: {column: at, delay: 24h}, columns: {site: [recency]}}\n": "",
	} {
		_, err := tryStage(t, "label: y\nsplit: {by: column, column: part}\n"+rest, []File{writeFile(t, "t.csv", orderedTable(3000))}, Options{})
		var at *strictyaml.Error
		switch {
		case want == "" && err != nil, want != "" && (!errors.As(err, &at) || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: got %v, want %q", rest, err, want)
		}
	}
}

// What staging leaves out by itself stays in the sample: the champion of another night may be made of it. What the spec drops does not.
func TestSampleKeepsWhatIsLeftOut(t *testing.T) {
	s := mustStage(t, "label: y\ndrop: [at]\nsplit: {by: column, column: part}\nencodings: {order: {column: tick}}\nsample: 100\n",
		orderedTable(6000))
	if got := codes(s); !slices.Contains(got, "dropped tick") {
		t.Fatalf("%q: the test needs a column that was left out", got)
	}
	if got := s.sample(t).Names; !slices.Contains(got, "site") || !slices.Contains(got, "tick") || slices.Contains(got, "at") {
		t.Errorf("the sample has %q", got)
	}
}
