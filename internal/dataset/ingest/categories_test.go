package ingest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/dataset/table"
)

// monthTable is CSV with columns of few numbers and times, and one of ids.
func monthTable(rows int) string {
	rng := rand.New(rand.NewPCG(3, 5))
	var b strings.Builder
	b.WriteString("y,month,share,day,site,zip\n")
	for range rows {
		fmt.Fprintf(&b, "%d,%d,%.1f,2026-01-%02d,s%d,%05d\n",
			rng.IntN(2), 1+rng.IntN(12), rng.Float64(), 1+rng.IntN(9), rng.IntN(50), rng.IntN(90))
	}
	return b.String()
}

// Where the spec asks for categories there are categories, of numbers and times, too.
func TestCategoriesOfNumbers(t *testing.T) {
	text := monthTable(3000)
	s := mustStage(t, "label: y\nsplit: {by: hash, key: site, train: 0.8, test: 0.2}\n"+
		"encodings: {columns: {month: categories, share: [rate, categories], day: levels, zip: categories}}\n", text)
	for name, first := range map[string]string{"month": "7", "share": "0.5", "day": "2026-01-05"} {
		f := s.feature(t, name)
		if f.Kind != dataset.Categorical || f.Why != dataset.WhyForced || !slices.Contains(f.Categories, first) {
			t.Errorf("%s is %s (%s) with categories %q, want categories with %s among them", name, f.Kind, f.Why,
				f.Categories, first)
		}
	}
	if f := s.feature(t, "zip"); f.Why != dataset.WhyDigits {
		t.Errorf("zip is %s because of %s, want what the table says: %s", f.Kind, f.Why, dataset.WhyDigits)
	}
	s.feature(t, "share:rate")
	checkEncoder(t, s, []table.File{writeFile(t, "again.csv", text)}, dataset.CSVSpec{})
}

func TestCategoriesRefused(t *testing.T) {
	for rest, want := range map[string]string{
		"numeric: [month]\nencodings: {columns: {month: categories}}\n": `column "month" is listed ` + `under numeric`,
		"derive: {day: [weekday]}\nencodings: {columns: {day.weekday: categories}}\n": `"day.weekday" is a number ` +
			`derived from a time`,
	} {
		_, err := tryStage(t, "label: y\n"+rest, []table.File{writeFile(t, "t.csv", monthTable(100))}, Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want ... %s ...", rest, err, want)
		}
	}
}
