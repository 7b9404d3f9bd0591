package nights_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coppice/internal/nights"
	"coppice/internal/nights/nightstest"
)

// TestIndexOfPandasIsLeftOut: a CSV that was written with its index and read and written again has it under pandas' own
// name; it is no feature unless the spec says so.
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
}

// TestFirstNightSpeaksUp: without a night before it, staging still says what is wrong with a table by itself, what to
// do about it, and nothing else.
func TestFirstNightSpeaksUp(t *testing.T) {
	const n = 6000
	price := func(i int) float64 { return float64(i*i%7919) / 7 }
	base := func(i int) string { return fmt.Sprintf("%g,site%d,%d", price(i), i%23, (i*i+i/3)%997) }
	label := func(i int) int { return (i*7 + i*i%5) % 3 % 2 }
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
		"a ninth of the rows of train also in test": {table("", func(i int) string {
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
		"names for ids, one in 500 wrong": {table(",name", func(i int) string {
			if i%500 == 7 {
				return base(i) + ",Unknown"
			}
			return base(i) + fmt.Sprintf(",The site %c", 'a'+i%23)
		}), nights.CodeSameColumn, "drop: [name]"},
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

// TestCopiesAreToldFromRowsThatAreAlike: a table that was copied, or whose positive rows were, is said whatever the
// share of its rows; rows of few values are alike by nature, and their labels differ.
func TestCopiesAreToldFromRowsThatAreAlike(t *testing.T) {
	const split = "label: y\nencodings: none\nsplit: {by: random, train: 0.7, valid: 0.1, calib: 0.1, test: 0.1}\n"
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
		for _, before := range [][]*nights.Profile{nil, {p}} { // however often it was so
			found := find(t, nights.Request{Night: r.Night, Tonight: p, Before: before})
			copied := slices.ContainsFunc(found, func(f nights.Finding) bool { return f.Code == nights.CodeCopiedRows })
			if copied != c.copied {
				t.Errorf("%s: copies %v, expected %v; %.3g of test's rows are in train, found %v", name, copied,
					c.copied, p.Shared, found)
			}
		}
	}
}

// TestAnEditOfTheSpecBlocksNothing: somebody who tries out a spec stages the same table again with a split, by which
// all test rows are also in train. That is no second night. Another table is one, and is let pass, too; without a
// schedule or contract:, only the third night can be blocked.
func TestAnEditOfTheSpecBlocksNothing(t *testing.T) {
	s := nightstest.Stream{Seed: 3, Rows: 4000}
	staged := func(day int, again bool, split string) night {
		t.Helper()
		table := s.Night(day)
		for i, row := range table.Rows {
			if half := len(table.Rows) / 2; again && i >= half { // at another time
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

// TestNightsAreAccepted: a night that a person has accepted is accepted, whatever was found in it.
func TestNightsAreAccepted(t *testing.T) {
	blocking := []nights.Finding{{Level: nights.Blocking, Code: nights.CodeLabelRate}}
	for want, r := range map[string]nights.Record{"good": {}, "blocked": {Findings: blocking},
		"accepted": {Accepted: &nights.Acceptance{Lasting: true}}} {
		if got := r.State(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestRowsRepeatWithoutAColumn: where a column that tells rows apart is left out tonight, as it is monotonic in this
// window, rows repeat that did not before, and nothing is wrong.
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
