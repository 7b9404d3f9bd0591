package ingest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/dataset/table"
	"coppice/internal/strictyaml"
)

// orderedTable is CSV whose rows have a place in time, as a number and as a time, in no order.
func orderedTable(rows int) string {
	var b strings.Builder
	b.WriteString("y,site,tick,at,part\n")
	for i := range rows {
		at := i * 7919 % rows
		fmt.Fprintf(&b, "%d,s%d,%d,2026-01-%02d 00:00:%02d,%s\n", (i/3)%2, i%50, at, 1+at*28/rows, at%60,
			[]string{"train", "train", "test"}[i%3])
	}
	return b.String()
}

// Numbers order rows in CSV, too, where all columns are text, and rows see those of lesser numbers only.
func TestOrderByNumbersInText(t *testing.T) {
	s := mustStage(t, "label: y\nsplit: {by: column, column: part}\n"+
		"encodings: {order: {column: tick}, columns: {site: [rate, count, recency]}}\n", orderedTable(6000))
	if o := s.Manifest.Order; o == nil || o.By != dataset.OrderTime || o.Column != "tick" {
		t.Fatalf("statistics are ordered by %+v, expected by the time in tick", o)
	}
	if f := s.feature(t, "site:recency"); f.From.Of[0].Kind != dataset.Numeric {
		t.Errorf("the order is read as %s", f.From.Of[0].Kind)
	}
	checkEncoder(t, s, []table.File{writeFile(t, "again.csv", orderedTable(6000))}, dataset.CSVSpec{})
}

func TestOrderRefuses(t *testing.T) {
	for rest, want := range map[string]string{
		"encodings: {order: {column: tick, delay: 24h}}\n": `column "tick" holds numbers ` +
			`in an unknown unit`,
		"encodings: {order: {by: random}, columns: {site: [rate, recency]}}\n":       "recency needs an order by time",
		"encodings: {columns: {site: recency}}\n":                                    "recency needs an order by time",
		"encodings: {order: {column: at, delay: 24h}, columns: {site: [recency]}}\n": "",
	} {
		_, err := tryStage(t, "label: y\nsplit: {by: column, column: part}\n"+rest,
			[]table.File{writeFile(t, "t.csv", orderedTable(3000))}, Options{})
		var at *strictyaml.Error
		switch {
		case want == "" && err != nil, want != "" && (!errors.As(err, &at) || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: got %v, want %q", rest, err, want)
		}
	}
}

// What staging leaves out by itself stays in the sample: the champion of another night may be made of it. What the spec
// drops does not.
func TestSampleKeepsWhatIsLeftOut(t *testing.T) {
	s := mustStage(t, "label: y\ndrop: [at]\nsplit: {by: column, column: part}\nencodings: {order: {column: "+
		"tick}}\nsample: 100\n",
		orderedTable(6000))
	if got := codes(s); !slices.Contains(got, "dropped tick") {
		t.Fatalf("%q: the test needs a column that was left out", got)
	}
	if got := s.sample(t).Names; !slices.Contains(got, "site") || !slices.Contains(got, "tick") ||
		slices.Contains(got, "at") {
		t.Errorf("the sample has %q", got)
	}
}

// A column that goes on with time stays where the latest rows say what the next ones are like, and goes where they do
// not.
func TestColumnsThatGoOnWithTime(t *testing.T) {
	if testing.Short() {
		t.Skip("it finds no race that shorter tests do not")
	}
	const months, rows = 48, 4800
	for name, tc := range map[string]struct {
		rate    func(month int) float64
		rest    string
		dropped bool
	}{
		"trend": {func(m int) float64 { return 0.1 + 0.6*float64(m)/months }, "", false},
		// From then on, all rows before are the worse guess.
		"one change":             {func(m int) float64 { return []float64{0.2, 0.5}[2*m/months] }, "", false},
		"to and fro":             {func(m int) float64 { return []float64{0.2, 0.5}[m/6%2] }, "", true},
		"nothing":                {func(int) float64 { return 0.3 }, "", true},
		"nothing, but asked for": {func(int) float64 { return 0.3 }, "numeric: [month]\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(3, 3))
			var b strings.Builder
			b.WriteString("y,site,month,at,part\n")
			for i := range rows {
				month := i * months / rows
				y := 0
				if rng.Float64() < tc.rate(month) {
					y = 1
				}
				fmt.Fprintf(&b, "%d,s%d,%d,%d-%02d-01 00:00:00,%s\n", y, rng.IntN(50), month, 2020+month/12, 1+month%12,
					[]string{"train", "valid"}[i*10/rows/8])
			}

			s := mustStage(t, "label: y\nsplit: {by: column, column: part}\nencodings: {order: {column: at}}\n"+tc.rest,
				b.String())
			if got := slices.Contains(codes(s), "dropped month"); got != tc.dropped {
				t.Errorf("staging dropped month: %t, want %t; warnings %q", got, tc.dropped, codes(s))
			}
		})
	}
}
