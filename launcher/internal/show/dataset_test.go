package show

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/dataset/ingest"
	"coppice/internal/nights"
	"coppice/internal/program"
	"coppice/internal/program/tables"
	"coppice/internal/sweep"
	"coppice/launcher/internal/bill"
)

// TestYAMLText: column names are the same after they were printed in a list for pasting and read as YAML.
func TestYAMLText(t *testing.T) {
	for _, name := range []string{"user_id", "odd name", "null", "No", "1", "a,b", "a: b", "x]", "#", "é", "\u202e",
		"-", "~", `"`, "a.b-c", "tab\t"} {
		spec, err := dataset.ParseSpec("d.yaml", []byte("name: t\nsource: t.csv\nlabel: y\ndrop: ["+strconv.Quote(name)+
			"]\n"))
		if err != nil || len(spec.Drop) != 1 || spec.Drop[0] != name {
			t.Errorf("%q is written %s and read as %q (%v), want the same name", name, strconv.Quote(name), spec.Drop,
				err)
		}
	}
}

// TestManyWarnings: of 1,234 columns with the same hint the first five have a line each, and one line counts the
// others.
func TestManyWarnings(t *testing.T) {
	all := []dataset.Warning{{Code: ingest.HintKey, Column: "user", Text: "one"}}
	for i := range 1234 {
		all = append(all, dataset.Warning{Code: ingest.HintIDs, Column: fmt.Sprint("c", i), Text: "many"})
	}
	var out strings.Builder
	Printer{Screen: tables.Screen{Output: program.To(&out)}}.warnings(all, true)
	want := "hint: user: one\nhint: c0: many\nhint: c1: many\nhint: c2: many\nhint: c3: many\nhint: c4: many\n" +
		"and 1,229 more with code " + ingest.HintIDs + ", which the dataset's manifest.json has\n"
	if out.String() != want {
		t.Errorf("1,234 columns of whole numbers printed\n%s\nexpected\n%s", out.String(), want)
	}
}

// TestLeaksInOneLine: two columns that leak the label share one warning.
func TestLeaksInOneLine(t *testing.T) {
	var out strings.Builder
	Printer{Screen: tables.Screen{Output: program.To(&out)}}.warnings([]dataset.Warning{
		{Code: ingest.WarnLeak, Column: "a", Text: "one"}, {Code: ingest.WarnLeak, Column: "b", Text: "two"}}, true)
	if want := "warning: a, b: " + leaks + "\n"; out.String() != want {
		t.Errorf("two columns that leak printed\n%s\nexpected\n%s", out.String(), want)
	}
}

// TestLeaksOfANightInOneLine: findings of three columns that leak the label share a line. A single one keeps its text
// with the number.
func TestLeaksOfANightInOneLine(t *testing.T) {
	leak := func(column string) nights.Finding {
		return nights.Finding{Code: nights.CodeLeak, Level: nights.Warning, Column: column, Text: "alone, AUC .93"}
	}
	for want, findings := range map[string][]nights.Finding{
		"warning: a: alone, AUC .93 (leak)\n": {leak("a")},
		"warning: a, b, c: each alone tells most of the label: are they known before it is? If not, drop " +
			"them\n": {leak("a"), leak("b"), leak("c")},
	} {
		var out strings.Builder
		Printer{Screen: tables.Screen{Output: program.To(&out)}}.Findings(&nights.Record{Findings: findings}, nil)
		if out.String() != want {
			t.Errorf("%d leaks printed %q, expected %q", len(findings), out.String(), want)
		}
	}
}

// TestAColumnIsToldOnce: a column that was left out because it looks like an ID has one line: that it is ignored or,
// together with another useless column, that it looks like an ID.
func TestAColumnIsToldOnce(t *testing.T) {
	all := []dataset.Warning{{Code: ingest.WarnIDLike, Column: "id", Text: "every value is unique"},
		{Code: ingest.WarnDropped, Column: "id", Text: "column ignored"}}
	if got := Told(all, true); !slices.Equal(got, []string{"warning: id: column ignored"}) {
		t.Errorf("an ID that is left out is told as %q, want only that it is ignored", got)
	}
	all = append(all, dataset.Warning{Code: ingest.WarnConstant, Column: "same", Text: "one value"})
	want := []string{"warning: nearly every value is unique (looks like an ID): id",
		"warning: the same value in every row: same"}
	if got := Told(all, true); !slices.Equal(got, want) {
		t.Errorf("an ID and a constant are told as %q, expected %q", got, want)
	}
}

// TestOddTextsAreMended: a column of texts such as 5.1 kg, nearly all of which differ, is not among those to drop.
func TestOddTextsAreMended(t *testing.T) {
	all := []dataset.Warning{{Code: ingest.WarnIDLike, Column: "weight"}, {Code: ingest.WarnOdd, Column: "weight"},
		{Code: ingest.WarnConstant, Column: "same"}, {Code: ingest.WarnIDLike, Column: "id"}}
	if got := dropped(all); !slices.Equal(got, []string{`"same"`, `"id"`}) {
		t.Errorf("to drop are %q, expected the constant column and the ID", got)
	}
}

// TestDropIsAdvisedOnTheFirstNight: on the first night constant columns come with the advice to drop them, several as a
// list to paste. On later nights there is no such advice, since models need the columns.
func TestDropIsAdvisedOnTheFirstNight(t *testing.T) {
	a := dataset.Warning{Code: ingest.WarnConstant, Column: "a", Text: "every row has the same value; drop the column"}
	b := dataset.Warning{Code: ingest.WarnConstant, Column: "b", Text: a.Text}
	const fact = "warning: the same value in every row: a"
	for _, c := range []struct {
		all     []dataset.Warning
		against []string
		want    string
	}{
		{[]dataset.Warning{a}, nil, "warning: a: every row has the same value; drop the column\n"},
		{[]dataset.Warning{a, b}, nil, fact + ", b\nnothing can be learned from these 2 columns; to leave them out, " +
			"add this to the dataset's YAML, or to its existing drop:\ndrop: [\"a\", \"b\"]\n"},
		{[]dataset.Warning{a}, []string{"v1"}, fact + "\n"},
		{[]dataset.Warning{a, b}, []string{"v1"}, fact + ", b\n"},
	} {
		var out strings.Builder
		Printer{Screen: tables.Screen{Output: program.To(&out)}}.warnings(c.all,
			isFirst(&nights.Record{Against: c.against}))
		if out.String() != c.want {
			t.Errorf("%d constant columns after %d nights print\n%s\nexpected\n%s", len(c.all), len(c.against),
				out.String(), c.want)
		}
	}
}

// TestABillSaysWhichJobHasNoPrice: of three jobs the second has no price. Its trials and machines say so, a note names
// it, and the costs of the others are shown.
func TestABillSaysWhichJobHasNoPrice(t *testing.T) {
	var out bytes.Buffer
	w := Printer{Screen: tables.Screen{Output: program.To(&out)}}
	b := &bill.Bill{Cost: 2.5, Labels: map[string]string{"team": "ads", "env": "prod"},
		Quote: &sweep.Quote{Hourly: 1, PriceDate: "2026-08-20"}, Region: "us-central1", VMs: 4,
		Jobs: []bill.Job{{Machine: "n2-highmem-8", VMs: 4, Model: "on Spot", Hourly: 1, PriceDate: "2026-08-20"},
			{Number: 1, Machine: "m9-large-2", VMs: 3, Model: "on demand"},
			{Number: 2, Machine: "n2-highmem-16", VMs: 2, Model: "on demand", Hourly: 2, PriceDate: "2026-08-01"}},
		Trials: []bill.TrialCost{{Status: "first", Cost: 2.25}, {Trial: 1, Status: "second", Unpriced: true}}}
	w.Bill(b, 0)
	for _, line := range strings.Split(out.String(), "\n") {
		if strings.Contains(line, "first") && !strings.Contains(line, "$2.25") || strings.Contains(line, "second") &&
			!strings.Contains(line, "no price") ||
			strings.Contains(line, "m9-large-2") && strings.Contains(line, "2026-08-20") {
			t.Errorf("got the line %q; want $2.25 for the first, no price for the second, and no date for "+
				"m9-large-2", line)
		}
	}
	for _, part := range []string{"env=prod, team=ads", "$2.50",
		"4 x n2-highmem-8 on Spot, $1.00 per hour each (price of 2026-08-20) in",
		"3 x m9-large-2 on demand, no price in us-central1 ",
		"2 x n2-highmem-16 on demand, $2.00 per hour each (price of 2026-08-01) in",
		"note: not in the totals, because the price is not known: job 1"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("want %q in\n%s", part, out.String())
		}
	}
}

// TestABillRecommendsNoSpeedOfAToy: a speed that differs from the quoted one by more than 15 % is recommended for the
// next quote only if a million rows or more were trained on. With fewer a note says why not. A speed as quoted, or
// none, has neither.
func TestABillRecommendsNoSpeedOfAToy(t *testing.T) {
	const speed, note = "for the next quote on such machines: --ns-per-value 9.827\n",
		"note: 4,253 rows are too few for a speed to quote with: below 1,000,000 the fixed cost"
	for _, tc := range []struct {
		rows        int
		ns          float64
		speed, note bool
	}{{4253, 9.827, false, true}, {1_000_000, 9.827, true, false}, {999_999, 1.5, false, false},
		{4253, 0, false, false}} {
		var out bytes.Buffer
		w := Printer{Screen: tables.Screen{Output: program.To(&out)}}
		w.Bill(&bill.Bill{NsPerValue: tc.ns, Quote: &sweep.Quote{NsPerValue: 1.5}}, tc.rows)
		if strings.Contains(out.String(), speed) != tc.speed || strings.Contains(out.String(), note) != tc.note {
			t.Errorf("%+v: the bill says %s; want speed and note only where the case has them", tc, out.String())
		}
	}
}

// TestABillOfALocalCloud: in a local cloud the bill says that nothing is paid, before what Google's machines would have
// cost. It does not compare with the quote, which is for those machines. In the cloud it does (40 ns per value are
// 30.77 times the quoted 1.3), with a note that so few rows take longer each, and says nothing of the kind. Both call
// trial 3 the final one.
func TestABillOfALocalCloud(t *testing.T) {
	b := &bill.Bill{Cost: 2.5, Hours: 1, NsPerValue: 40, Machine: "n2-highmem-2", Quote: &sweep.Quote{NsPerValue: 1.3},
		Jobs:   []bill.Job{{Machine: "n2-highmem-2", VMs: 4, Model: "on Spot", Hourly: 1}},
		Trials: []bill.TrialCost{{Trial: 2}, {Trial: 3, Final: true}}}
	for home, want := range map[bool][]string{true: {"3, the final",
		"Nothing is paid: the sweep ran in a local cloud. On Google's machines it would have cost:\n"},
		false: {"3, the final", "actual / quoted", "30.77", "note: 4,253 rows are too few"}} {
		var out bytes.Buffer
		w := Printer{Screen: tables.Screen{Output: program.To(&out)}, Home: home}
		w.Bill(b, 4253)
		got := out.String()
		for _, text := range want {
			if !strings.Contains(got, text) {
				t.Errorf("local %t: got %s\nwant %q in it", home, got, text)
			}
		}
		if strings.Contains(got, "30.77") == home || strings.Contains(got, "too few") == home ||
			strings.Contains(got, "actual / quoted") == home ||
			strings.Contains(strings.ToLower(got), "nothing is paid") != home {
			t.Errorf("local %t: want money and shares only where something is paid, got %s", home, got)
		}
	}
}
