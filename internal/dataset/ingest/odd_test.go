package ingest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/table"
)

// TestOddTexts: a few odd texts among numbers are missing values if they are what programs write for these; others
// make the column texts, which is said.
func TestOddTexts(t *testing.T) {
	for text, want := range map[string]struct {
		numeric bool   // else texts, nearly all of which are unique: no feature
		warning string // that there is one with these words; none if empty
	}{
		`\N`:     {true, ""},
		"#N/A":   {true, ""},
		"?":      {true, ""},
		"-":      {true, ""},
		"NaT":    {true, ""},
		"-nan":   {true, ""},
		"-1e400": {true, `"-1e400" is beyond the largest number, 1.8e308: such values are missing`},
		"-Inf":   {true, "infinite values count as the largest number, 1.8e308; if they stand for missing values"},
		"n.a.": {false,
			`97.5 % of the values are numbers, all others are "n.a.": the column is read as texts`},
		"2x, x": {false,
			`97.5 % of the values are numbers, all others are "2x, x": the column is read as texts`},
		"0052": {false, `97.5 % of the values are numbers, all others are "0052"`},
	} {
		var b strings.Builder
		b.WriteString("y,x1,z\n")
		for i := range 1000 {
			x := fmt.Sprintf("%d.5", i)
			if i%40 == 7 {
				x = text
			}
			fmt.Fprintf(&b, "%d,\"%s\",%c\n", i%2, x, 'a'+i%3)
		}
		s := mustStage(t, "label: y\n", b.String())
		var warnings []string
		for _, w := range s.Manifest.About.Warnings {
			if w.Column == "x1" && w.Code != WarnIDLike {
				warnings = append(warnings, w.Text)
			}
		}
		got := strings.Join(warnings, "\n")
		if !strings.Contains(got, want.warning) || want.warning == "" && got != "" {
			t.Errorf("1000 rows, every 40th %q: got warnings %q, want %q", text, warnings, want.warning)
		}
		at := slices.IndexFunc(s.Manifest.Features, func(f dataset.Feature) bool { return f.Name == "x1" })
		if numeric := at >= 0 && s.Manifest.Features[at].Kind == dataset.Numeric; numeric != want.numeric {
			t.Errorf("1000 rows, every 40th %q: x1 is a numeric feature: %t, want %t", text, numeric, want.numeric)
		}
	}
}

// - is missing as a number, and a label beside +.
func TestMinusIsALabel(t *testing.T) {
	s := mustStage(t, "label: {column: y, positive: \"+\"}\n", "y,x\n"+strings.Repeat("+,1\n-,-\n-,3\n", 40))
	if s.Manifest.Splits[0].Rows != 120 || s.feature(t, "x").Kind != dataset.Numeric {
		t.Errorf("%d rows, and x is %s", s.Manifest.Splits[0].Rows, s.feature(t, "x").Kind)
	}
}

// Two columns of times are times, whether the table says that they are texts or not.
func TestTimesInTexts(t *testing.T) {
	var b strings.Builder
	b.WriteString("y,a,b,c,d\n")
	for i := range 200 {
		fmt.Fprintf(&b, "%d,2024-10-%02d 00:17:05 UTC,2024/10/%d 12:00,\"June %d, 2018\",20241020T%02d0000Z\n", i%2,
			i%28+1, i%28+1, i%28+1, i%24)
	}
	s := mustStage(t, "label: y\nsplit: {by: time, column: a, train: 0.7, valid: 0.3}\n", b.String())
	for _, name := range []string{"b", "c", "d"} {
		if f := s.feature(t, name); f.Kind != dataset.Temporal {
			t.Errorf("%s is %s", name, f.Kind)
		}
	}
}

// A sentinel among the labels, and a value that one row has, are told.
func TestOddLabels(t *testing.T) {
	for want, label := range map[string]func(i int) string{
		"99 of 297 sampled labels are -999, and all others 1 to 98": func(i int) string {
			return []string{"-999", fmt.Sprint(i % 99), fmt.Sprint(i % 99)}[i%3]
		},
		`one row alone has "TOTAL"`: func(i int) string { return []string{"a", "b", "TOTAL"}[i%2+i/296*(2-i%2)] },
		`one row alone has "1"`:     func(i int) string { return fmt.Sprint(i / 296) },
	} {
		var b strings.Builder
		b.WriteString("y,x\n")
		for i := range 297 {
			fmt.Fprintf(&b, "%s,%d\n", label(i), i%7)
		}
		kind := "label: y\n"
		if strings.Contains(want, "99") {
			kind = "label: {column: y, kind: regression}\n"
		} else if strings.Contains(want, "TOTAL") {
			kind = "label: {column: y, kind: classes}\n"
		}
		said := fmt.Sprint(mustStage(t, kind, b.String()).Manifest.About.Warnings)
		if !strings.Contains(said, want) {
			t.Errorf("said is %s\nexpected ... %s ...", said, want)
		}
	}
}

// TestLabelsInOtherSpellings: numbers are compared as numbers where both are written as texts, too, however draft and
// pandas write them. Ids longer than a float64 holds are compared as texts.
func TestLabelsInOtherSpellings(t *testing.T) {
	for _, c := range [][3]string{{"1.0", "2.0", "2"}, {"01", "02", "2"}, {"1e3", "2e3", "2000"}, {"1", "2", "2.0"},
		{"12345678901234567891", "12345678901234567890", "12345678901234567890"}} {
		var b strings.Builder
		b.WriteString("y,x\n")
		for i := range 300 {
			fmt.Fprintf(&b, "%s,%d\n", c[min(1, i%3)], i)
		}
		s := mustStage(t, fmt.Sprintf("label: {column: y, positive: %q}\n", c[2]), b.String())
		rows := float32(0)
		for _, split := range s.Splits {
			for _, y := range split.Label {
				rows += y
			}
		}
		if rows != 200 {
			t.Errorf("of %s and %s, %v of 300 rows have the label %s; expected 200", c[0], c[1], rows, c[2])
		}
	}
}

// TestDeclaredTexts: numbers with fractions that a table declares as texts, as pandas writes a column with \N, are
// categories, with a hint; whole numbers declared so may be ids, and get none.
func TestDeclaredTexts(t *testing.T) {
	for name, c := range map[string]struct {
		most string // 41 of 81 texts; the others are whole numbers
		hint bool
	}{
		"fractions":     {"0.5", true},
		"whole numbers": {"7", false},
		"a word":        {"x", false},
	} {
		texts := []string{c.most}
		for i := range 40 {
			texts = append(texts, c.most, fmt.Sprint(i))
		}
		s := newColumnSurvey(feature{column: table.Column{Name: "bid", Type: dataset.Text}}, &cell.Markers{})
		s.observe(&table.Batch{}, &dataset.Values{Type: dataset.Text, Text: texts}, nil)
		kind, _, err := s.kind()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var warnings []string
		s.warnOfOdd(func(_, format string, args ...any) { warnings = append(warnings, fmt.Sprintf(format, args...)) })
		hint := strings.Contains(fmt.Sprint(warnings), "--format bid=number")
		if kind != dataset.Categorical || hint != c.hint {
			t.Errorf("%s, 81 declared texts: got kind %s, warnings %q; want categorical, and a hint of --format: %t",
				name, kind, warnings, c.hint)
		}
	}
}
