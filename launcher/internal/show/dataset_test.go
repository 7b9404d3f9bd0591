package show

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/dataset/ingest"
	"coppice/internal/program"
	"coppice/internal/program/tables"
)

// TestYAMLText: column names survive the list that is printed for pasting.
func TestYAMLText(t *testing.T) {
	for _, name := range []string{"user_id", "odd name", "null", "No", "1", "a,b", "a: b", "x]", "#", "é", "\u202e",
		"-", "~", `"`, "a.b-c", "tab\t"} {
		spec, err := dataset.ParseSpec("d.yaml", []byte("name: t\nsource: t.csv\nlabel: y\ndrop: ["+strconv.Quote(name)+
			"]\n"))
		if err != nil || len(spec.Drop) != 1 || spec.Drop[0] != name {
			t.Errorf("%q is written %s and read as %q (%v)", name, strconv.Quote(name), spec.Drop, err)
		}
	}
}

// TestManyWarnings: a table of 10,000 columns that look like ids has a few lines of hints, not one for each.
func TestManyWarnings(t *testing.T) {
	all := []dataset.Warning{{Code: ingest.HintKey, Column: "user", Text: "one"}}
	for i := range 1234 {
		all = append(all, dataset.Warning{Code: ingest.HintIDs, Column: fmt.Sprint("c", i), Text: "many"})
	}
	var out strings.Builder
	Printer{Screen: tables.Screen{Output: program.To(&out)}}.warnings(all)
	want := "hint: user: one\nhint: c0: many\nhint: c1: many\nhint: c2: many\nhint: c3: many\nhint: c4: many\n" +
		"and 1,229 more with code " + ingest.HintIDs + ", which the dataset's manifest.json has\n"
	if out.String() != want {
		t.Errorf("1,234 columns of whole numbers printed\n%s\nexpected\n%s", out.String(), want)
	}
}

// TestLeaksInOneLine: what several columns give away is said once, with their names.
func TestLeaksInOneLine(t *testing.T) {
	var out strings.Builder
	Printer{Screen: tables.Screen{Output: program.To(&out)}}.warnings([]dataset.Warning{
		{Code: ingest.WarnLeak, Column: "a", Text: "one"}, {Code: ingest.WarnLeak, Column: "b", Text: "two"}})
	if want := "warning: a, b: " + leaks + "\n"; out.String() != want {
		t.Errorf("two columns that leak printed\n%s\nexpected\n%s", out.String(), want)
	}
}
