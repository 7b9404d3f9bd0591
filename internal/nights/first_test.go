package nights_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/dataset/ingest"
	"coppice/internal/must"
	"coppice/internal/nights"
	"coppice/internal/nights/nightstest"
)

// TestIndexOfPandasIsLeftOut: the row index that pandas writes into a CSV is no feature. It has the name "Unnamed: 0"
// if the file was read and written again; then the spec may make it a feature. Or it has no name; then it is left out
// only if it numbers the rows.
func TestIndexOfPandasIsLeftOut(t *testing.T) {
	var b strings.Builder
	b.WriteString("Unnamed: 0,y,x\n")
	for i := range 500 {
		fmt.Fprintf(&b, "%d,%d,%d\n", i, i*i%7%2, i%13)
	}
	for rest, want := range map[string]int{"": 1, "numeric: [\"Unnamed: 0\"]\n": 2} {
		r := stageCSV(t, b.String(), "label: y\nencodings: none\nsplit: {by: random, train: 0.6, valid: 0.4}\n"+rest)
		if got := len(r.Manifest.Features); got != want {
			t.Errorf("with %q: %d features, want %d; warnings %v", rest, got, want, r.Manifest.About.Warnings)
		}
	}

	// Without a name: 0, 1, 2, ... and 1, 2, 3, ... number the rows; 40, 80, 120, ... do not.
	for from, want := range map[int]int{0: 1, 1: 1, 40: 2} {
		b.Reset()
		b.WriteString(",y,x\n")
		for i := range 500 {
			fmt.Fprintf(&b, "%d,%d,%d\n", from+i*max(1, from), i*i%7%2, i%13)
		}
		r := stageCSV(t, b.String(), "label: y\nencodings: none\nsplit: {by: random, train: 0.6, valid: 0.4}\n")
		if got := len(r.Manifest.Features); got != want {
			t.Errorf("with numbers from %d: %d features, want %d; %v", from, got, want, r.Manifest.About.Warnings)
		}
	}
}

// TestFirstNightSpeaksUp: a first night has one warning about a fault that its table shows by itself, which says what
// to do about it. A table without a fault has none.
func TestFirstNightSpeaksUp(t *testing.T) {
	const n = 6000
	price := func(i int) float64 { return float64(i*i%7919) / 7 }
	base := func(i int) string { return fmt.Sprintf("%g,site%d,%d", price(i), i%23, (i*i+i/3)%997) }
	label := func(i int) int { return (i*7 + i*i%5) % 3 % 2 }
	// table returns a CSV of n rows with the columns more after the usual ones; the last quarter is test.
	table := func(more string, row func(i int) string) string {
		var b strings.Builder
		b.WriteString("y,price,site,age" + more + ",part\n")
		for i := range n {
			part := "train"
			if i >= n*3/4 {
				part = "test"
			}
			fmt.Fprintf(&b, "%d,%s,%s\n", label(i), row(i), part)
		}
		return b.String()
	}

	for name, c := range map[string]struct {
		csv  string
		want nights.Code
		says string
	}{
		"nothing wrong": {table("", base), "", ""},
		"a ninth of the rows of test also in train": {table("", func(i int) string {
			if i >= n*3/4 && i%9 == 0 {
				return base(i - n*3/4)
			}
			return base(i)
		}), nights.CodeSharedRows, "split: {by: hash"},
		"the same column twice": {table(",cost", func(i int) string {
			return base(i) + fmt.Sprintf(",%g", price(i))
		}), nights.CodeSameColumn, "drop: [cost]"},
		"the same numbers in another unit": {table(",cents", func(i int) string {
			return base(i) + fmt.Sprintf(",%g", 100*price(i)+3)
		}), nights.CodeSameColumn, "drop: [cents]"},
		"few numbers in another unit, one in 500 wrong": {table(",room,rent", func(i int) string {
			room := i / 3 % 11
			rent := 100 * room
			if i%500 == 7 {
				rent = 1000 - rent
			}
			return base(i) + fmt.Sprintf(",%d,%d", room, rent)
		}), nights.CodeSameColumn, "drop: [rent]"},
		"names for ids, one in 500 wrong": {table(",name", func(i int) string {
			if i%500 == 7 {
				return base(i) + ",Unknown"
			}
			return base(i) + fmt.Sprintf(",The site %c", 'a'+i%23)
		}), nights.CodeSameColumn, "drop: [name]"},
		"two texts of which each row has its own": {table(",first,second", func(i int) string {
			return base(i) + fmt.Sprintf(",a%d,b%d", i, i*7919%100_003)
		}), "", ""},
		// Each column has its usual value in 399 of 400 rows, and another one in other rows than the second column.
		"two texts that are usually the same": {table(",error,alarm", func(i int) string {
			texts := [2]string{"none", "none"}
			if i%400 < 2 {
				texts[i%400] = fmt.Sprintf("code %d", i/400%3)
			}
			return base(i) + "," + texts[0] + "," + texts[1]
		}), "", ""},
		// In the first 5,000 rows, by which columns are compared, neither has a value. In the others a tenth of the
		// neighbours are in another order.
		"two columns that begin late and are much alike": {table(",early,late", func(i int) string {
			if i < 5100 {
				return base(i) + ",,"
			}
			x := float64(i * i % 7919)
			return base(i) + fmt.Sprintf(",%g,%g", x, x+5.5*float64(i%2))
		}), "", ""},
		"the label by another name": {table(",answer", func(i int) string {
			return base(i) + fmt.Sprintf(",%d", 5+label(i))
		}), nights.CodeLeak, "drop: [answer]"},
	} {
		r := stageCSV(t, c.csv, "label: y\nencodings: none\nsplit: {by: column, column: part}\n")
		p := measured(t, r.Night, r.Manifest)
		found := find(t, nights.Request{Night: r.Night, Tonight: p})
		switch {
		case c.want == "" && len(found) > 0:
			t.Errorf("%s: found %v, want nothing", name, found)
		case c.want != "" && (len(found) != 1 || found[0].Code != c.want || found[0].Level != nights.Warning ||
			!strings.Contains(found[0].Text, c.says)):
			t.Errorf("%s: found %v, want one warning %s that says %q", name, found, c.want, c.says)
		}
	}
}

// TestCopiesAreToldFromRowsThatAreAlike: there is a warning if many rows of the table, or of its positive rows, are
// copies, also if the night before was the same. There is none where rows are equal because their columns have few
// values: their labels differ.
func TestCopiesAreToldFromRowsThatAreAlike(t *testing.T) {
	const split = "label: y\nencodings: none\nsplit: {by: random, train: 0.7, valid: 0.1, calib: 0.1, test: 0.1}\n"
	// rows are all different, positives are some of those with the label 1, few are of 21 kinds, and numbers have a
	// label that is a number.
	r := rand.New(rand.NewPCG(1, 2))
	var rows, positives, few, numbers []string
	for i := range 3000 {
		x, y := r.NormFloat64(), 0
		if r.Float64() < 0.05+0.2*float64(i%3) {
			y = 1
		}
		rows = append(rows, fmt.Sprintf("%d,%g,%d", y, x, i%3))
		if y == 1 && i%3 == 0 {
			positives = append(positives, rows[i])
		}
		few = append(few, fmt.Sprintf("%d,%d,%d", y, i%7, i%3))
		numbers = append(numbers, fmt.Sprintf("%g,%g,%d", r.NormFloat64(), x, i%3))
	}
	for name, c := range map[string]struct {
		rows   [][]string
		label  string
		copied bool
	}{
		"no copies":             {[][]string{rows}, "y", false},
		"copied once":           {[][]string{rows, rows}, "y", true},
		"copied four times":     {[][]string{rows, rows, rows, rows, rows}, "y", true},
		"two fifths copied":     {[][]string{rows, rows[:1200]}, "y", true},
		"one row in thirty":     {[][]string{rows, rows[:100]}, "y", false},
		"positives copied":      {[][]string{rows, positives, positives, positives, positives}, "y", true},
		"a number, copied":      {[][]string{numbers, numbers}, "{column: y, kind: regression}", true},
		"a number":              {[][]string{numbers}, "{column: y, kind: regression}", false},
		"few values":            {[][]string{few}, "y", false},
		"few values and copies": {[][]string{few, few}, "y", false},
	} {
		table := "y,a,b\n" + strings.Join(slices.Concat(c.rows...), "\n") + "\n"
		r := stageCSV(t, table, strings.Replace(split, "y\n", c.label+"\n", 1))
		p := measured(t, r.Night, r.Manifest)
		for _, before := range [][]*nights.Profile{nil, {p}} { // a first night, and one that was the same before
			found := find(t, nights.Request{Night: r.Night, Tonight: p, Before: before})
			copied := slices.ContainsFunc(found, func(f nights.Finding) bool { return f.Code == nights.CodeCopiedRows })
			if copied != c.copied {
				t.Errorf("%s: copies %v, expected %v; %.3g of test's rows are in train, found %v", name, copied,
					c.copied, p.Shared, found)
			}
		}
	}
}

// TestAnEditOfTheSpecBlocksNothing: somebody who tries out a spec stages the same table again with a split that puts
// copies of all test rows into train. That table is no second night, and the fault is told but does not block.
// Without a schedule or contract: (Request.Declared), neither does it on a second night with another table, but on
// the third.
func TestAnEditOfTheSpecBlocksNothing(t *testing.T) {
	s := nightstest.Stream{Seed: 3, Rows: 4000}
	// staged stages the table of a day. With again, its second half repeats the first at other times.
	staged := func(day int, again bool, split string) night {
		t.Helper()
		table := s.Night(day)
		for i, row := range table.Rows {
			if half := len(table.Rows) / 2; again && i >= half { // column 0 is the time
				copy(row[1:], table.Rows[i-half][1:])
			}
		}
		r := stageCSV(t, string(table.CSV()), "label: is_click\nencodings: none\n"+split)
		p := measured(t, r.Night, r.Manifest)
		return night{r.Night, p}
	}
	const byTime = "split: {by: time, column: ts, train: 0.7, valid: 0.1, calib: 0.1, test: 0.1}\n"
	other, first, edited := staged(0, false, byTime), staged(0, true, "drop: [ts]\n"), staged(0, true, byTime)
	second, third := staged(1, false, byTime), staged(2, true, byTime)
	for _, c := range []struct {
		what        string
		tonight     night
		before      []*nights.Profile
		respecified bool
		blocked     bool
	}{
		{"the same table with a split", edited, []*nights.Profile{first.profile}, true, false},
		{"half of the rows again, on the second night", third, []*nights.Profile{second.profile}, false, false},
		{"half of the rows again, on the third", third, []*nights.Profile{other.profile, second.profile}, false, true},
	} {
		found := find(t, nights.Request{Night: c.tonight.rows, Tonight: c.tonight.profile, Before: c.before,
			Respecified: c.respecified})
		if nights.Blocked(found) != c.blocked || len(found) == 0 {
			t.Errorf("%s: found %v; want it found, and blocked: %t", c.what, found, c.blocked)
		}
	}
}

// TestNightsAreAccepted: the state of a night is good, blocked, or accepted by a person. For people, a good night with
// warnings is called by their number.
func TestNightsAreAccepted(t *testing.T) {
	blocking := []nights.Finding{{Level: nights.Blocking, Code: nights.CodeLabelRate}}
	for want, r := range map[string]nights.Record{"good": {}, "blocked": {Findings: blocking},
		"accepted": {Accepted: &nights.Acceptance{Lasting: true}}} {
		if got := r.State(); got != want || nights.Word(got, r.Findings) != want {
			t.Errorf("state %s, for people %s, want %s for both", got, nights.Word(got, r.Findings), want)
		}
	}
	warn := []nights.Finding{{Level: nights.Warning}, {Level: nights.Note}, {Level: nights.Warning}}
	for want, n := range map[string]int{"good": 0, "1 warning": 1, "2 warnings": 3} {
		must.Equal(t, nights.Word(nights.Good, warn[:n]), want, "%v", warn[:n])
	}
}

// TestRowsRepeatWithoutAColumn: contents of rows are compared without some columns (Profile.Outside). If tonight leaves
// out one more column than last night, more contents repeat, and that is no finding. If it leaves out the same, it is.
func TestRowsRepeatWithoutAColumn(t *testing.T) {
	s := nightstest.Stream{Seed: 5, Rows: 3000}
	first := stageGood(t, s.Night(0), nil)
	before := []*nights.Profile{first.profile}
	n := stageGood(t, s.Night(1), before)
	n.profile.Again, n.profile.Shared = 0.1, 0.1
	for _, tc := range []struct {
		outside []string
		want    bool
	}{{first.profile.Outside, true}, {append([]string{"day"}, first.profile.Outside...), false}} {
		n.profile.Outside = tc.outside
		found := compare(t, n, before)
		if got := slices.ContainsFunc(found, func(f nights.Finding) bool {
			return f.Code == nights.CodeRepeatedRows || f.Code == nights.CodeSharedRows
		}); got != tc.want {
			t.Errorf("a tenth of the rows repeat without %q, before without %q: found %v, expected rows that repeat %t",
				tc.outside, first.profile.Outside, found, tc.want)
		}
	}
}

// window returns a table of the given number of days that ends with day last. A day has fifteen rows, always the same.
func window(days, last int) nightstest.Table {
	t := nightstest.Table{Names: []string{"ts", "campaign_id", "advertiser_id", "user_id", "price", "is_click"}}
	for day := last - days + 1; day <= last; day++ {
		r := rand.New(rand.NewPCG(uint64(day), 1))
		for i := range 15 {
			at := nightstest.First.AddDate(0, 0, day).Add(time.Duration(i) * 96 * time.Minute)
			campaign, click := r.IntN(8), 0
			if r.IntN(10) < 1+campaign/2 {
				click = 1
			}
			t.Rows = append(t.Rows, []string{at.Format("2006-01-02T15:04:05.000Z"), fmt.Sprint(campaign),
				fmt.Sprint(campaign / 2), fmt.Sprint("u", r.IntN(300)), fmt.Sprintf("%.4f", 1+r.Float64()),
				fmt.Sprint(click)})
		}
	}
	return t
}

// TestHonestWindows: nearly all rows of a window of 28, 90 or 180 days are also last night's, which is no fault, on the
// second night and where nights were left out (202, 204 and 207). The same window again is blocked as the same rows,
// also with new dates. Day 200 is the first, so that even the longest window begins after day 0.
func TestHonestWindows(t *testing.T) {
	for _, days := range []int{28, 90, 180} {
		var before []*nights.Profile
		tonight := func(table nightstest.Table) []nights.Finding {
			n := stageGood(t, table, before)
			found := compare(t, n, before)
			before = append(before, n.profile)
			return found
		}
		for i, day := range []int{200, 201, 203, 205, 206, 208} {
			if found := tonight(window(days, day)); nights.Blocked(found) {
				t.Errorf("honest night %d of %d days is held back, want it to pass: %v", i, days, found)
			}
		}
		last, usual := window(days, 208), before
		for name, table := range map[string]nightstest.Table{"the same rows": last,
			"new dates": last.Moved(24 * time.Hour)} {
			before = slices.Clone(usual)
			if found := tonight(table); !nights.Blocked(found) || found[0].Code != nights.CodeSameRows {
				t.Errorf("%s, %d days: found %v, want same_rows", name, days, found)
			}
		}
	}
}

// TestAWindowFillsWithALeak: from day 208 on, price gives away the label. In a window of 14 days it explains a little
// more each night, so that no night differs much from the one before. A night must still be blocked for the leak before
// half of the window has it, and none of the eight nights before day 208.
func TestAWindowFillsWithALeak(t *testing.T) {
	const days, first = 14, 208
	var before []*nights.Profile
	for day := first - 8; day < first+days/2; day++ {
		table := window(days, day)
		for i, row := range table.Rows {
			// Column 4 is the price, 5 the label, and a day has fifteen rows.
			if rowsDay := day - days + 1 + i/15; rowsDay >= first && row[5] == "1" {
				row[4] = "0.5"
			}
		}
		n := must.Get(stage(t, table, before))(t)
		found := compare(t, n, before)
		leaks := slices.ContainsFunc(found, func(f nights.Finding) bool { return f.Code == nights.CodeLeak })
		switch {
		case day < first && nights.Blocked(found):
			t.Errorf("an honest night is held back, want it to pass: %v", found)
		case leaks && nights.Blocked(found):
			return
		}
		before = append(before, n.profile)
	}
	t.Errorf("price knows the label of half of the days, and no night was held back; want one to be, for a leak")
}

// wide stages a table of 60 rows with so many columns. Every second column has fractions, whose quantiles take as many
// digits in a record as numbers can.
func wide(t *testing.T, columns int) (*ingest.Night, *dataset.Manifest) {
	t.Helper()
	var b strings.Builder
	b.WriteString("y")
	for c := range columns {
		fmt.Fprintf(&b, ",column_%d", c)
	}
	for i := range 60 {
		fmt.Fprintf(&b, "\n%d", i%2)
		for c := range columns {
			if c%2 == 0 {
				fmt.Fprintf(&b, ",%d", (i+c)/2*1001)
			} else {
				fmt.Fprintf(&b, ",%g", float64(i/2+1)/float64(c+3))
			}
		}
	}
	r := stageCSV(t, b.String(), "label: y\nmax_bin: 8\nencodings: none\n")
	return r.Night, r.Manifest
}

// TestMeasureStops: Measure returns context.Canceled if it is cancelled after any column. After that, each thread
// finishes at most the column that it works on.
func TestMeasureStops(t *testing.T) {
	const columns, threads = 50, 2
	n, m := wide(t, columns)
	calls := int64(0)
	must.Get(nights.Measure(t.Context(), n, m, 1, func(int64, int64) { calls++ }))(t)
	for at := int64(1); at < calls; at++ {
		ctx, cancel := context.WithCancel(t.Context())
		after := make(chan struct{}, calls)
		_, err := nights.Measure(ctx, n, m, threads, func(done, _ int64) {
			if done >= at {
				cancel()
				after <- struct{}{}
			}
		})
		if !errors.Is(err, context.Canceled) || len(after) > threads {
			t.Errorf("cancelled after %d of %d columns: got error %v after %d more, expected that it is cancelled "+
				"after at most %d", at, calls, err, len(after)-1, threads-1)
		}
	}
}

// TestRecordOfTheWidestTable: the record of a night with as many columns as a dataset may have is at most MaxRecord
// bytes, and can be read back and compared with. Without COPPICE_FULL, the table has an eighth of the columns, and its
// record may have an eighth of the bytes. That is the stricter test, as more is kept of each column of narrower tables.
func TestRecordOfTheWidestTable(t *testing.T) {
	if testing.Short() {
		t.Skip("not with -short: it has thousands of columns")
	}
	share := 8
	if os.Getenv("COPPICE_FULL") != "" {
		share = 1
	}
	columns := dataset.MaxFeatures / share
	n, m := wide(t, columns)
	p := measured(t, n, m)
	version := strings.Repeat("0", 16)
	text, err := (&nights.Record{Format: 1, Dataset: "t", Version: version, Profile: p}).Encode()
	if err != nil {
		t.Fatalf("write the record of %d columns: got error %v, want none", len(p.Columns), err)
	}
	t.Logf("%d bytes", len(text))
	if len(text)*share > nights.MaxRecord {
		t.Errorf("the record of %d columns has %d bytes; want %d times as many to be at most %d", columns, len(text),
			share, nights.MaxRecord)
	}
	r, err := nights.DecodeRecord(text, "t", version)
	if err != nil {
		t.Fatalf("read the record of %d columns: got error %v, want none", len(p.Columns), err)
	}
	found := find(t, nights.Request{Night: n, Tonight: p, Before: []*nights.Profile{r.Profile},
		Respecified: true})
	if nights.Blocked(found) {
		t.Errorf("the same night again: found %v, expected nothing that blocks", found)
	}
}

// TestAnotherTable: if 300 columns have other names than last night, more than maxRenames, each is reported as missing
// and none as renamed, because pairs of them are not compared.
func TestAnotherTable(t *testing.T) {
	const columns = 300
	n, m := wide(t, columns)
	p := measured(t, n, m)
	renamed := *p
	renamed.Columns = slices.Clone(p.Columns)
	for i := range renamed.Columns {
		renamed.Columns[i].Name = "was_" + renamed.Columns[i].Name
	}
	count := map[nights.Code]int{}
	for _, f := range find(t, nights.Request{Night: n, Tonight: p, Before: []*nights.Profile{&renamed},
		Declared: true}) {
		count[f.Code]++
	}
	if count[nights.CodeColumnMissing] != columns || count[nights.CodeColumnRenamed] != 0 {
		t.Errorf("%d columns with other names: found %v, expected each to be missing and none renamed", columns, count)
	}
}

// TestMissingSince: the finding about a missing column says how many nights before had it if all of them had. If not,
// it says only that the last one had.
func TestMissingSince(t *testing.T) {
	n, m := wide(t, 3)
	p := measured(t, n, m)
	had := nights.Profile{Rows: p.Rows + 1, Label: p.Label, Columns: append(slices.Clone(p.Columns),
		nights.Column{Name: "gone"})} // another table
	earlier := had
	earlier.Rows++
	// p is tonight's profile; as the earlier of two nights it stands for one without the column.
	for want, before := range map[string][]*nights.Profile{
		"the column is missing; the night before had it":    {p, &had},
		"the column is missing; the 2 nights before had it": {&earlier, &had},
	} {
		found := find(t, nights.Request{Night: n, Tonight: p, Before: before, Declared: true})
		i := slices.IndexFunc(found, func(f nights.Finding) bool { return f.Code == nights.CodeColumnMissing })
		if i < 0 || found[i].Text != want {
			t.Errorf("a column that is missing tonight: found %v; want %q", found, want)
		}
	}
}
