package gbt

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestIgnoreColumnIsCanonical(t *testing.T) {
	for _, tc := range []struct {
		in   any
		want ColumnList
	}{
		{"", ""}, {" , ", ""}, {"name:", ""},
		{"5,0, 3,5", "0,3,5"}, {"10,9", "9,10"}, {7, "7"}, {7.0, "7"}, {"007", "7"},
		{"name:price, age,price", "name:age,price"}, {" name:a b", "name:a b"}, {"name:3", "name:3"},
	} {
		for _, alias := range []string{"ignore_column", "ignore_feature", "blacklist"} {
			p, err := ParseParams(map[string]any{alias: tc.in})
			if err != nil || p.IgnoreColumn != tc.want {
				t.Errorf("%s: %v gives %q, want %q (%v)", alias, tc.in, p.IgnoreColumn, tc.want, err)
			}
			again, err := ParseParams(p.Map())
			if err != nil || again != p {
				t.Errorf("%v: its map gives %+v, %v", tc.in, again, err)
			}
		}
	}
	for in, says := range map[any]string{
		"age": `"age" is not a column number; numbers count from 0, names come after ` +
			`name:`,
		"-1":          `"-1" is not a column number`,
		"1;2":         `"1;2" is not a column number`,
		"99999999999": "is not a column number",
		-1: `expected columns such as "0,3" or "name:age,price": -1 is outside [0, ` +
			`2.147483647e+09]`,
		1.5:                                 "expected a whole number, found 1.5",
		true:                                "expected a number, found true",
		"name:a\nb":                         "has marks that cannot be written here",
		strings.Repeat("1,", maxColumnList): "bytes of column names; at most",
	} {
		_, err := ParseParams(map[string]any{"blacklist": in})
		var pe *ParamError
		if !errors.As(err, &pe) || pe.Name != "blacklist" || !strings.Contains(err.Error(), says) {
			t.Errorf("%.40v: got %v, want %q", in, err, says)
		}
	}
}

func TestForColumns(t *testing.T) {
	columns := []string{"age", "price", "a,b", "twice", "twice", " blank", "new\nline", "3"}
	for in, want := range map[ColumnList]ColumnList{
		"":               "",
		"0,1":            "name:age,price",
		"name:price":     "name:price",
		"0,2":            "0,2", // a comma cannot be written
		"1,4":            "1,4", // a name that is not the only one
		"5":              "5",
		"6":              "6",
		"7":              "name:3",
		"name:3":         "name:3",
		"0,1,2,3,4,5,6":  "0,1,2,3,4,5,6",
		"name:age,price": "name:age,price",
	} {
		p, err := Params{IgnoreColumn: in}.ForColumns(columns)
		if err != nil || p.IgnoreColumn != want {
			t.Errorf("%q gives %q, want %q (%v)", in, p.IgnoreColumn, want, err)
		}
		if again, err := p.ForColumns(columns); err != nil || again != p {
			t.Errorf("%q: a second time gives %q, %v", in, again.IgnoreColumn, err)
		}
	}
	for in, want := range map[ColumnList]string{
		"name:prise":      `ignore_column: there is no column "prise" (did you mean "price"?)`,
		"8":               "ignore_column: there is no column 8; the table's 8 columns count from 0",
		"name:twice":      `ignore_column: more than one column has the name "twice"; give the number`,
		"0,1,2,3,4,5,6,7": "ignore_column: all 8 columns are ignored; leave at least one",
	} {
		_, err := Params{IgnoreColumn: in}.ForColumns(columns)
		var pe *ParamError
		if !errors.As(err, &pe) || err.Error() != want {
			t.Errorf("%q: got  %v\nwant %s", in, err, want)
		}
	}
	many := make([]string, 30_000)
	for i := range many {
		many[i] = fmt.Sprint("column ", i)
	}
	if _, err := (Params{IgnoreColumn: "name:zzz"}).ForColumns(many); err == nil || len(err.Error()) > 200 {
		t.Errorf("an error of %d bytes", len(err.Error()))
	}
}

// TestPatterns ignores all matching columns.
func TestPatterns(t *testing.T) {
	columns := []string{"user_id", "user_age", "site", "site:rate", "site×hour:count", "user_id:count", "a/b:count",
		"a*b", "a[b", "axb"}
	for in, want := range map[ColumnList]ColumnList{
		"name:user*":           "name:user_age,user_id,user_id:count",
		"name:*:count":         "name:a/b:count,site×hour:count,user_id:count",
		"name:user_??":         "name:user_id",
		"name:user_*,site*,si": "", // a plain name that no column has
		"name:site?rate,site":  "name:site,site:rate",
		"name:[as]*:*":         "name:a/b:count,site:rate,site×hour:count",
		"name:a*b":             "name:a*b", // a column has exactly this name
		`name:a\*b`:            "name:a*b",
		"name:a?b":             "name:a*b,a[b,axb",
		"name:a[b":             "name:a[b",
		"name:a[b,axb":         "name:a[b,axb",
		"name:*e,user*,user_*": "name:site,site:rate,user_age,user_id,user_id:count",
	} {
		p, err := Params{IgnoreColumn: in}.ForColumns(columns)
		if want == "" {
			var pe *ParamError
			if !errors.As(err, &pe) || !strings.Contains(err.Error(), `there is no column "si"`) {
				t.Errorf("ignoring %q: got error %v; want one about the missing column si", in, err)
			}
			continue
		}
		got, gotErr := p.IgnoreColumn.numbers(columns)
		meant, meantErr := want.numbers(columns)
		if err != nil || p.IgnoreColumn != in || gotErr != nil || meantErr != nil || !slices.Equal(got, meant) {
			t.Errorf("%q gives %q, columns %v, want %q, %v (%v)", in, p.IgnoreColumn, got, want, meant,
				errors.Join(err, gotErr, meantErr))
		}
		if again, err := p.ForColumns(columns); err != nil || again != p {
			t.Errorf("%q: a second time gives %q, %v", in, again.IgnoreColumn, err)
		}
	}
	for in, want := range map[ColumnList]string{
		"name:zone*":        `ignore_column: no column matches "zone*"`,
		"name:user*,user-*": `ignore_column: no column matches "user-*"`,
		"name:*":            "ignore_column: all 10 columns are ignored; leave at least one",
		"name:s[i": `ignore_column: the pattern "s[i" cannot be read; a bracket is open, or nothing ` +
			`follows the last backslash`,
	} {
		_, err := Params{IgnoreColumn: in}.ForColumns(columns)
		var pe *ParamError
		if !errors.As(err, &pe) || err.Error() != want {
			t.Errorf("%q: got  %v\nwant %s", in, err, want)
		}
	}
}

// drop returns the table without some of its columns, which must be equivalent to ignoring them.
func (t *table) drop(columns []int) *table {
	d := *t
	d.Features, d.Columns, d.RowMajor = nil, nil, nil
	for f := range t.Features {
		if !slices.Contains(columns, f) {
			d.Features = append(d.Features, t.Features[f])
			d.Columns = append(d.Columns, t.Columns[f])
		}
	}
	d.RowMajor = rowMajor(d.Columns)
	return &d
}

// TestIgnoredColumnsAreAsIfAbsent compares with a copy of the table without these columns: same trees, except for the
// features' numbers. Few and many ignored columns take different loops.
func TestIgnoredColumnsAreAsIfAbsent(t *testing.T) {
	for seed := range uint64(12) {
		d := randomTable(tableSpec{rows: 4000, numerical: 8, categorical: 3, bins: 40, missing: 0.1, seed: seed})
		rng := rand.New(rand.NewPCG(seed, 5))
		gone := rng.Perm(11)[:1+rng.IntN(10)]
		p := small()
		p.NumIterations = 4
		p.FeatureFraction, p.FeatureFractionByNode = []float64{1, 0.6}[seed%2], []float64{1, 0.6}[seed/2%2]
		without := mustTrain(t, &d.drop(gone).Data, p, Options{}).Model
		p.IgnoreColumn = numbered(gone)
		masked := mustTrain(t, &d.Data, p, Options{Threads: 2}).Model
		if masked.Features() != 11 || len(masked.Trees) != len(without.Trees) {
			t.Fatalf("seed %d: %d features, %d trees instead of %d", seed, masked.Features(), len(masked.Trees),
				len(without.Trees))
		}
		var kept []int
		for f := range d.Features {
			if !slices.Contains(gone, f) {
				kept = append(kept, f)
			}
		}
		for i, tree := range without.Trees {
			for node, f := range tree.Feature {
				tree.Feature[node] = kept[f]
			}
			if got, want := masked.Trees[i].text(i), tree.text(i); !bytes.Equal(got, want) {
				t.Fatalf("seed %d, without columns %v, tree %d: %s", seed, gone, i, firstDifference(got, want))
			}
		}
	}
}

func TestIgnoredColumnsInTheModel(t *testing.T) {
	d := randomTable(tableSpec{rows: 2000, numerical: 3, categorical: 1, bins: 20, seed: 3})
	p := small()
	plain := text(t, mustTrain(t, &d.Data, p, Options{}).Model)
	if bytes.Contains(plain, []byte("ignore_column")) {
		t.Error("a model of all columns has a line about ignored ones")
	}
	p.IgnoreColumn = "2,0"
	first := text(t, mustTrain(t, &d.Data, p, Options{}).Model)
	for _, line := range []string{"feature_names=numa numb numc cat_d\n", "[ignore_column: 0,2]\n"} {
		if !bytes.Contains(first, []byte(line)) {
			t.Errorf("the model has no %q", line)
		}
	}
	if infos := bytes.SplitAfter(plain, []byte("\n"))[8]; !bytes.HasPrefix(infos, []byte("feature_infos=")) ||
		!bytes.Contains(first, infos) {
		t.Errorf("the model has no %q", infos)
	}
	p.IgnoreColumn = "name:numc,numa"
	if !bytes.Equal(text(t, mustTrain(t, &d.Data, p, Options{}).Model), first) {
		t.Error("the same columns by name and by number give two models")
	}
	var pe *ParamError
	for _, bad := range []ColumnList{"name:num", "4", "0,1,2,3"} {
		p.IgnoreColumn = bad
		if _, err := Train(t.Context(), &d.Data, p, Options{}); !errors.As(err, &pe) || pe.Name != "ignore_column" {
			t.Errorf("ignoring %q: got error %v; want one about ignore_column", bad, err)
		}
	}
}

func FuzzColumnList(f *testing.F) {
	f.Add("name:a,b", "a\nb,b\nc")
	f.Add("0,1", "a\na\nb")
	f.Add("1", "x\n y\nz")
	f.Add("name:a*,[b-c]?", "a*\nab\nbx\nz")
	f.Fuzz(func(t *testing.T, list, table string) {
		columns := strings.Split(table, "\n")
		l, err := parseColumns(list)
		if err != nil {
			return
		}
		if again, err := parseColumns(string(l)); err != nil || again != l {
			t.Fatalf("%q is canonical as %q, which is canonical as %q (%v)", list, l, again, err)
		}
		p, err := Params{IgnoreColumn: l}.ForColumns(columns)
		if err != nil {
			return
		}
		before, err1 := l.numbers(columns)
		after, err2 := p.IgnoreColumn.numbers(columns)
		if err1 != nil || err2 != nil || !slices.Equal(before, after) || len(after) >= len(columns) {
			t.Fatalf("%q of %q: %v, %v; as %q %v, %v", l, columns, before, err1, p.IgnoreColumn, after, err2)
		}
		if again, err := parseColumns(string(p.IgnoreColumn)); err != nil || again != p.IgnoreColumn {
			t.Fatalf("%q cannot be read back: %q, %v", p.IgnoreColumn, again, err)
		}
	})
}
