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

// namedTable is CSV of ids in columns of the given names; of a name that ends in # (which is taken off), whole numbers.
func namedTable(rows int, names ...string) string {
	rng := rand.New(rand.NewPCG(11, 5))
	var b strings.Builder
	b.WriteString("y,at")
	for _, name := range names {
		b.WriteString("," + strings.TrimSuffix(name, "#"))
	}
	b.WriteString("\n")
	for range rows {
		fmt.Fprintf(&b, "%d,2026-01-%02d %02d:00:00", rng.IntN(2), 1+rng.IntN(28), rng.IntN(24))
		for i, name := range names {
			if strings.HasSuffix(name, "#") {
				fmt.Fprintf(&b, ",%d", rng.IntN(900))
			} else {
				fmt.Fprintf(&b, ",%c%d", 'a'+i, rng.IntN(60))
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

const namedSpec = "label: y\nsplit: {by: hash, key: at, train: 0.8, test: 0.2}\n"

// Columns whose names look like those of statistics, or like ranges, are told from them by what they are. Where two
// features would have one name, a sentence says of which columns.
func TestNamesAreNotIdentity(t *testing.T) {
	if testing.Short() {
		t.Skip("it finds no race that shorter tests do not")
	}
	for name, tc := range map[string]struct {
		columns []string
		rest    string
		want    string // of the error; empty: none
		same    bool   // sample and staged bins agree, and each key has levels of its own
	}{
		"a pair and a column": {[]string{"a", "b", "a+b"}, "encodings: {keys: [[a, b]], columns: {a+b: categories}}\n",
			"", true},
		"a pair and a column with a rate": {[]string{"a", "b", "a+b"}, "encodings: {keys: [[a, b]]}\n",
			`the rate of column "a+b" and the rate of column "a" with column "b" are both features called "a+b:rate"`,
			false},
		"ranges and a column": {[]string{"age#", "age~"},
			"encodings: {columns: {age: none}, keys: [[age~]]}\n", `"age~" is both `, false},
		"ranges beside a column": {[]string{"age#", "age~", "b"}, "encodings: {keys: [[age, b]]}\n", "", true},
		"a statistic that is a column": {[]string{"a", "a:rate#"}, "",
			`column "a:rate" and the rate of column "a" are both features called "a:rate"`, false},
		"asked for, beside a column": {[]string{"a", "at.hour#"}, "drop: []\nderive: {at: [hour]}\n",
			`column "at.hour" and the hour of column "at" are both features called "at.hour"`, false},
		"not asked for, beside a column": {[]string{"a", "at.hour#"}, "encodings: {order: {column: at}}\n", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			text := namedTable(4000, tc.columns...)
			s, err := tryStage(t, namedSpec+tc.rest, []table.File{writeFile(t, "t.csv", text)}, Options{})
			var at *strictyaml.Error
			switch {
			case tc.want != "" && (!errors.As(err, &at) || !strings.Contains(err.Error(), tc.want)):
				t.Fatalf("got %v, want an error about the spec: ... %s ...", err, tc.want)
			case tc.want != "":
				return
			case err != nil:
				t.Fatal(err)
			}
			checkEncoder(t, s, []table.File{writeFile(t, "again.csv", text)}, dataset.CSVSpec{})
			var of []string
			for _, table := range s.Manifest.Tables {
				of = append(of, fmt.Sprintf("%+v", table.Of))
			}
			slices.Sort(of)
			if len(slices.Compact(slices.Clone(of))) != len(of) {
				t.Errorf("tables of the same parts: %q", of)
			}
		})
	}
}

// Levels are counted by what they are, however they are written.
func TestLevelsAreCountedByMeaning(t *testing.T) {
	var b strings.Builder
	b.WriteString("y,id\n")
	for i := range 4000 {
		fmt.Fprintf(&b, "%d,%s\n", i%2, fmt.Sprintf([]string{"%d", "%d.0", "%d", " %d"}[i%4], 1000+i/4%40))
	}
	s := mustStage(t, "label: y\ncategorical: [id]\nsplit: {by: random, train: 0.8, test: 0.2}\n", b.String())
	if got := s.Manifest.About.Encodings; len(got) != 1 || got[0].Levels != 40 {
		t.Errorf("got %+v, want 40 levels of id, which are written in three ways each", got)
	}

	// A missing value is none of them, whether they are categories or have statistics.
	for spec, want := range map[string]int{"encodings: none\n": 40, "encodings: {columns: {id: [rate, count]}}\n": 40,
		"encodings: {columns: {id: categories}}\n": 40} {
		s := mustStage(t, "label: y\ncategorical: [id]\n"+spec, b.String()+"1,\n0,\n1,NA\n")
		if got := s.Manifest.About.Encodings; len(got) != 1 || got[0].Levels != want {
			t.Errorf("%s: got %+v, want %d levels", spec, got, want)
		}
	}
}

// What a key that was asked for is worth is measured, and where there are too few rows to tell, nothing is said.
func TestAskedKeysAreMeasured(t *testing.T) {
	var b strings.Builder
	b.WriteString("y,a,b\n")
	rng := rand.New(rand.NewPCG(1, 2))
	for range 4000 {
		x, z := rng.IntN(40), rng.IntN(40)
		fmt.Fprintf(&b, "%d,a%d,b%d\n", (x^z)&1, x, z)
	}
	for _, rows := range []int{4000, 500} {
		lines := strings.SplitAfter(b.String(), "\n")[:rows+1]
		s := mustStage(t, "label: y\nencodings: {keys: [[a, b]]}\n", strings.Join(lines, ""))
		i := slices.IndexFunc(s.Manifest.About.Encodings, func(e dataset.EncodingInfo) bool { return e.Name == "a+b" })
		if i < 0 {
			t.Fatalf("no a+b in %+v", s.Manifest.About.Encodings)
		}
		switch gain := s.Manifest.About.Encodings[i].Gain; {
		case rows == 4000 && (gain == nil || *gain < 0.1):
			t.Errorf("a+b decides the label, and is said to be worth %v", gain)
		case rows == 500 && gain != nil:
			t.Errorf("500 rows cannot tell what a+b is worth, and it is said to be %v", *gain)
		}
	}
}
