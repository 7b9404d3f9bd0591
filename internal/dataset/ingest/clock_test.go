package ingest

import (
	"strings"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/dataset/table"
)

// An error about the order names the row that cannot be read, and what the rows before it are. Of two readings both
// stay open until a value closes one.
func TestOrderNamesTheRowThatIsWrong(t *testing.T) {
	for name, tc := range map[string]struct{ values, want string }{
		"text among numbers": {"17 18.5 19 soon 21",
			`t.csv:5: column "at": the row has no place in the order of the statistics: its time is "soon", not a ` +
				`finite number as the values before it are`},
		"text among times": {"2026-01-01 2026-01-02 soon 2026-01-03",
			`t.csv:4: column "at": the row has no place in the order of the statistics: its time is "soon", not a ` +
				`time as the values before it are`},
		"number among times": {"2026-01-01 17 2026-01-02",
			`t.csv:3: column "at": the row has no place in the order of the statistics: its time is "17", not a ` +
				`time as`},
		"text first": {"soon 17 18",
			`t.csv:2: column "at": the row has no place in the order of the statistics: its time is "soon", neither ` +
				`a time`},
		"missing": {"17 NA 18",
			`t.csv:3: column "at": the row has no place in the order of the statistics: its time is missing`},
		"infinite": {"17 inf 18",
			`t.csv:3: column "at": the row has no place in the order of the statistics: its time is "inf", not a ` +
				`finite number`},
		"numbers, all of them": {strings.Repeat("17 18.5 -3 ", 400), ""},
		"times, all of them":   {strings.Repeat("2026-01-01 2026-01-02T10:00:00Z ", 600), ""},
	} {
		var b strings.Builder
		b.WriteString("y,at,id\n")
		for i, value := range strings.Fields(tc.values) {
			b.WriteString([]string{"0,", "1,"}[i%2] + value + ",i" + value + "\n")
		}
		_, err := tryStage(t, "label: y\nencodings: {order: {column: at}}\n",
			[]table.File{writeFile(t, "t.csv", b.String())}, Options{})
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: got  %v\nwant %s", name, err, tc.want)
		}
	}
}

// The column by whose values rows are split may order the statistics as well.
func TestOrderByTheColumnOfASplit(t *testing.T) {
	var b strings.Builder
	b.WriteString("y,day,id\n")
	for i := range 3000 {
		b.WriteString([]string{"0,", "1,"}[i/7%2] + []string{"1", "2", "3"}[i%3] + ",i" +
			[]string{"a", "b", "c", "d", "e"}[i%5] + "\n")
	}
	s := mustStage(t, "label: y\nsplit: {by: column, column: day, train: ['1', '2'], test: '3'}\n"+
		"encodings: {order: {by: time, column: day}, columns: {id: [rate, count]}}\n", b.String())
	if o := s.Manifest.Order; o == nil || o.Column != "day" || o.By != dataset.OrderTime {
		t.Errorf("ordered by %+v, want by time, column day", o)
	}
	checkEncoder(t, s, []table.File{writeFile(t, "again.csv", b.String())}, dataset.CSVSpec{})
}
