package page_test

import (
	"strings"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/page"
)

// TestIdsAreFeatures: a column of which only statistics are features has a row, for all of them.
func TestIdsAreFeatures(t *testing.T) {
	user := dataset.LevelTable{Of: []dataset.Part{{Column: "user"}}}
	m := &dataset.Manifest{Tables: []dataset.LevelTable{user}, Features: []dataset.Feature{
		{Name: "price", Kind: dataset.Numeric},
		{Name: "user:rate", Kind: dataset.Numeric, From: &dataset.Derived{What: dataset.DeriveRate}},
		{Name: "user:count", Kind: dataset.Numeric, From: &dataset.Derived{What: dataset.DeriveCount}}}}
	for statistics, want := range map[bool]string{false: "price numeric; user id, rate and count of it",
		true: "price numeric; user:rate numeric, rate of user; user:count numeric, count of user"} {
		var got []string
		for _, row := range page.Features(m, statistics).Rows {
			text := row[0] + " " + row[1]
			if of := row[len(row)-1]; strings.Contains(of, " of ") {
				text += ", " + of
			}
			got = append(got, text)
		}
		if text := strings.Join(got, "; "); text != want {
			t.Errorf("each statistic %t: got %q, want %q", statistics, text, want)
		}
	}
}
