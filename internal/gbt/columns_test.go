package gbt

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"coppice/internal/must"
	"coppice/internal/strictyaml"
)

// TestIgnoreColumnIsCanonical: lists of ignored columns that mean the same become the same text, under each alias, and
// parse again to themselves.
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
				t.Errorf("%v: parsing its map gives %+v, %v; want %+v again", tc.in, again, err, p)
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

// TestForColumns: numbers of columns become names wherever a name can stand for its column. A column that is not there,
// a name that two columns have, and a list of all columns are errors, short ones even for a table of many columns.
func TestForColumns(t *testing.T) {
	columns := []string{"age", "price", "a,b", "twice", "twice", " blank", "new\nline", "3"}
	for in, want := range map[ColumnList]ColumnList{
		"":               "",
		"0,1":            "name:age,price",
		"name:price":     "name:price",
		"0,2":            "0,2", // a comma cannot be written
		"1,4":            "1,4", // a name that is not the only one
		"5":              "5",   // a name that begins with a blank
		"6":              "6",   // a name with a line break
		"7":              "name:3",
		"name:3":         "name:3",
		"0,1,2,3,4,5,6":  "0,1,2,3,4,5,6",
		"name:age,price": "name:age,price",
	} {
		p, err := Params{IgnoreColumn: in}.ForColumns(columns)
		if err != nil || p.IgnoreColumn != want {
			t.Errorf("%q gives %q, want %q (%v)", in, p.IgnoreColumn, want, err)
		}
		must.Equal(t, must.Get(p.ForColumns(columns))(t), p, "%q, a second time", in)
	}
	refused(t, columns, map[ColumnList]string{
		"name:prise":      `ignore_column: there is no column "prise" (did you mean "price"?)`,
		"8":               "ignore_column: there is no column 8; the table's 8 columns count from 0",
		"name:twice":      `ignore_column: more than one column has the name "twice"; give the number`,
		"0,1,2,3,4,5,6,7": "ignore_column: all 8 columns are ignored; leave at least one",
	})
	many := make([]string, 30_000)
	for i := range many {
		many[i] = fmt.Sprint("column ", i)
	}
	if _, err := (Params{IgnoreColumn: "name:zzz"}).ForColumns(many); err == nil || len(err.Error()) > 200 {
		t.Errorf("an unknown column of a table with 30,000: got error %.300v; want one of at most 200 bytes", err)
	}
}

// TestPatterns: a pattern in ignore_column stands for all columns that match it, but a word that is itself the name of
// a column only for that one. A word or pattern without any column is an error. Lists with patterns are kept as
// written.
func TestPatterns(t *testing.T) {
	columns := []string{"user_id", "user_age", "site", "site:rate", "site×hour:count", "user_id:count", "a/b:count",
		"a*b", "a[b", "axb"}
	for in, want := range map[ColumnList]ColumnList{
		"name:user*":           "name:user_age,user_id,user_id:count",
		"name:*:count":         "name:a/b:count,site×hour:count,user_id:count",
		"name:user_??":         "name:user_id",
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
		got, gotErr := p.IgnoreColumn.numbers(columns)
		meant, meantErr := want.numbers(columns)
		if err != nil || p.IgnoreColumn != in || gotErr != nil || meantErr != nil || !slices.Equal(got, meant) {
			t.Errorf("%q gives %q, columns %v, want %q, %v (%v)", in, p.IgnoreColumn, got, want, meant,
				errors.Join(err, gotErr, meantErr))
		}
		must.Equal(t, must.Get(p.ForColumns(columns))(t), p, "%q, a second time", in)
	}
	refused(t, columns, map[ColumnList]string{
		"name:user_*,site*,si": `ignore_column: there is no column "si" (known: a*b, a/b:count, a[b, axb, ` +
			`site, site:rate, site×hour:count, user_age, user_id, user_id:count)`,
		"name:zone*":        `ignore_column: no column matches "zone*"`,
		"name:user*,user-*": `ignore_column: no column matches "user-*"`,
		"name:*":            "ignore_column: all 10 columns are ignored; leave at least one",
		"name:s[i": `ignore_column: the pattern "s[i" cannot be read; a bracket is open, or nothing ` +
			`follows the last backslash`,
	})
}

// refused fails the test unless ForColumns refuses each of the lists with its error.
func refused(t *testing.T, columns []string, lists map[ColumnList]string) {
	t.Helper()
	for in, want := range lists {
		_, err := Params{IgnoreColumn: in}.ForColumns(columns)
		var pe *ParamError
		if !errors.As(err, &pe) || err.Error() != want {
			t.Errorf("ignoring %q: got  %v\nwant %s", in, err, want)
		}
	}
}

// drop returns the table without some of its columns.
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

// TestIgnoredColumnsAreAsIfAbsent: with some columns ignored, the trees are those of a table without these columns,
// except for the numbers of features. One to ten of eleven columns are ignored, since histograms are added up in
// different ways for few and for many features.
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
			t.Fatalf("seed %d: got %d features and %d trees, want 11 and %d", seed, masked.Features(),
				len(masked.Trees),
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
			if got, want := masked.Trees[i].formatTree(i), tree.formatTree(i); !bytes.Equal(got, want) {
				t.Fatalf("seed %d, without columns %v, tree %d: %s", seed, gone, i, firstDifference(got, want))
			}
		}
	}
}

// TestIgnoredColumnsInTheModel: a model file lists the ignored columns by number, and keeps the names and ranges of all
// features; columns that there are not, or all of them, are refused.
func TestIgnoredColumnsInTheModel(t *testing.T) {
	d := randomTable(tableSpec{rows: 2000, numerical: 3, categorical: 1, bins: 20, seed: 3})
	p := small()
	plain := text(t, mustTrain(t, &d.Data, p, Options{}).Model)
	if bytes.Contains(plain, []byte("ignore_column")) {
		t.Error("a model of all columns has a line about ignore_column, want none")
	}
	p.IgnoreColumn = "2,0"
	first := text(t, mustTrain(t, &d.Data, p, Options{}).Model)
	for _, line := range []string{"feature_names=numa numb numc cat_d\n", "[ignore_column: 0,2]\n"} {
		if !bytes.Contains(first, []byte(line)) {
			t.Errorf("the model lacks %q, want it in its text", line)
		}
	}
	// feature_infos is the ninth line (WriteTo).
	if infos := bytes.SplitAfter(plain, []byte("\n"))[8]; !bytes.HasPrefix(infos, []byte("feature_infos=")) ||
		!bytes.Contains(first, infos) {
		t.Errorf("the model lacks %q, want the ranges of all features", infos)
	}
	p.IgnoreColumn = "name:numc,numa"
	if !bytes.Equal(text(t, mustTrain(t, &d.Data, p, Options{}).Model), first) {
		t.Error("the same columns by name and by number give different models, want the same bytes")
	}
	var pe *ParamError
	for _, bad := range []ColumnList{"name:num", "4", "0,1,2,3"} {
		p.IgnoreColumn = bad
		if _, err := Train(t.Context(), &d.Data, p, Options{}); !errors.As(err, &pe) || pe.Name != "ignore_column" {
			t.Errorf("ignoring %q: got error %v; want one about ignore_column", bad, err)
		}
	}
}

// FuzzColumnList: a list of columns that is accepted is canonical after parsing it once, and stands for the same
// columns after ForColumns, which leaves at least one.
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
		must.Equal(t, must.Get(parseColumns(string(l)))(t), l, "what %q parses to, parsed", list)
		p, err := Params{IgnoreColumn: l}.ForColumns(columns)
		if err != nil {
			return
		}
		before, err1 := l.numbers(columns)
		after, err2 := p.IgnoreColumn.numbers(columns)
		if err1 != nil || err2 != nil || !slices.Equal(before, after) || len(after) >= len(columns) {
			t.Fatalf("%q of %q: %v, error %v; as %q %v, error %v; want the same columns, and not all", l, columns,
				before, err1, p.IgnoreColumn, after, err2)
		}
		must.Equal(t, must.Get(parseColumns(string(p.IgnoreColumn)))(t), p.IgnoreColumn, "columns, parsed again")
	})
}

// TestParseParams: aliases and numbers of every kind give the canonical parameters.
func TestParseParams(t *testing.T) {
	p, err := ParseParams(map[string]any{
		"eta": 0.3, "num_leaves": 63.0, "reg_lambda": 2, "subsample": 0.5, "bagging_freq": int64(1),
		"objective": "l2", "random_state": uint64(9), "boost_from_average": false, "max_depth": -5.0,
	})
	must.Do(t, err)
	want := Defaults()
	want.LearningRate, want.NumLeaves, want.LambdaL2, want.BaggingFraction, want.BaggingFreq = 0.3, 63, 2, 0.5, 1
	want.Objective, want.Seed, want.BoostFromAverage, want.MaxDepth = "regression", 9, false, -5
	if p != want {
		t.Errorf("got  %+v\nwant %+v", p, want)
	}
}

// TestRandomTrialsSetEveryParameter: among 200 random trials, and ten of each objective, every parameter that is
// trained with has another value than its default at least once: what they never set, no test compares with the
// reference. Those of early stopping have tests of their own.
func TestRandomTrialsSetEveryParameter(t *testing.T) {
	unraced(t)
	usual, set := Defaults().Map(), map[string]bool{}
	for seed := range uint64(200) {
		for name, v := range randomTrial(seed, tableOfFew).p.Map() {
			set[name] = set[name] || v != usual[name]
		}
		if seed%20 > 0 {
			continue
		}
		for _, objective := range Objectives() { // as in TestObjectivesAgainstTheReference
			trial := randomTrial(seed, tableOfFew).withObjective(objective, rand.New(rand.NewPCG(seed, 5)))
			for name, v := range trial.p.Map() {
				set[name] = set[name] || v != usual[name]
			}
		}
	}
	ends := []string{"early_stopping_round", "early_stopping_min_delta"}
	for _, s := range trainedWith {
		if !set[s.name] && !slices.Contains(ends, s.name) {
			t.Errorf("no random trial sets %s: draw it in randomParams (property_test.go), and have the reference "+
				"(reference_test.go) use it", s.name)
		}
	}
}

// TestParametersAreDocumented: a person who looks for a parameter finds it in docs/sweep.md.
func TestParametersAreDocumented(t *testing.T) {
	text := must.Get(os.ReadFile(filepath.Join("..", "..", "docs", "sweep.md")))(t)
	_, part, _ := strings.Cut(string(text), "\n## Parameters\n")
	part, _, _ = strings.Cut(part, "\n### ")
	for _, s := range trainedWith {
		if !strings.Contains(part, "`"+s.name+"`") {
			t.Errorf("the part Parameters of docs/sweep.md lacks `%s`: add it to the list, or to the table with what "+
				"it does", s.name)
		}
	}
}

// TestParseParamsRefuses: parameters that there are not, of a wrong type or out of range, that say the same twice, or
// that exclude each other or the objective, are refused with what to use.
func TestParseParamsRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		in   map[string]any
		want string
	}{
		"unknown": {map[string]any{"num_leafs": 3},
			`num_leafs: there is no such training parameter (did you mean "num_leaves"?)`},
		// What there is instead is listed; strictyaml has the test of that list.
		"near none": {map[string]any{"qqqqqqqqqqqq": 3}, "qqqqqqqqqqqq: there is no such training parameter" +
			strictyaml.Suggest("qqqqqqqqqqqq", paramWords())},
		"twice": {map[string]any{"eta": 0.1, "learning_rate": 0.1},
			"learning_rate: says the same as eta; keep one"},
		"text":       {map[string]any{"num_leaves": "many"}, `num_leaves: expected a number, found "many"`},
		"digits":     {map[string]any{"bagging_freq": "4"}, `bagging_freq: expected a number, found "4"`},
		"nothing":    {map[string]any{"bagging_freq": nil}, "bagging_freq: expected a number, found nothing"},
		"negative":   {map[string]any{"bagging_freq": -1}, "bagging_freq: -1 is outside [0, 1e+06]"},
		"fraction":   {map[string]any{"num_leaves": 3.5}, "num_leaves: expected a whole number, found 3.5"},
		"too low":    {map[string]any{"num_leaves": 1}, "num_leaves: 1 is outside [2, 131072]"},
		"open bound": {map[string]any{"learning_rate": 0}, "learning_rate: 0 is outside (0, 100]"},
		"NaN":        {map[string]any{"lambda_l2": math.NaN()}, "lambda_l2: NaN is outside [0, 1e+300]"},
		"bool":       {map[string]any{"is_unbalance": 1}, "is_unbalance: expected true or false, found 1"},
		"objective": {map[string]any{"objective": "xentlambda"},
			`objective: LightGBM has objective "xentlambda", Coppice does not: it is cross_entropy with another ` +
				"meaning of weights; use cross_entropy"},
		"no objective": {map[string]any{"objective": "huba"},
			`objective: there is no objective "huba" (did you mean "huber"?)`},
		"of another objective": {map[string]any{"objective": "l2", "alpha": 0.5},
			"alpha: has no effect with objective regression; it belongs to huber and quantile"},
		"one against the rest": {map[string]any{"objective": "ova"}, `objective: LightGBM has objective "ova", ` +
			"Coppice does not: use multiclass, which has the lower log loss"},
		"a quantile": {map[string]any{"objective": "quantile", "alpha": 2},
			"alpha: 2 is not a quantile; use a number between 0 and 1"},
		"gains": {map[string]any{"objective": "lambdarank", "label_gain": "0,1,x"},
			`label_gain: "x" is not a gain; use numbers of 0 or more, such as "0,1,3,7"`},
		"one gain": {map[string]any{"objective": "lambdarank", "label_gain": "1"},
			`label_gain: there is a gain of one grade only; give one for each, such as "0,1,3,7"`},
		"both": {map[string]any{"is_unbalance": true, "scale_pos_weight": 2},
			"is_unbalance: cannot be combined with scale_pos_weight; keep one"},
		"not a value": {map[string]any{"objective": 3}, "objective: expected text, found 3"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseParams(tc.in)
			var pe *ParamError
			if !errors.As(err, &pe) || err.Error() != tc.want {
				t.Errorf("got  %v\nwant %v", err, tc.want)
			}
		})
	}
}

// TestMapIsComplete: the table has a parameter for every field of Params, and the map of the defaults parses to the
// defaults. So configurations with equal maps are the same. Parameters that are trained with come first, and all others
// have a note. No name or alias is in the table twice.
func TestMapIsComplete(t *testing.T) {
	fields := reflect.TypeFor[Params]().NumField()
	must.Equal(t, fields, len(trainedWith), "fields of Params, of which each is a parameter")
	p, err := ParseParams(Defaults().Map())
	if err != nil || p != Defaults() {
		t.Errorf("parsing the map of the defaults gives %+v, %v; want the defaults", p, err)
	}
	seen := map[string]bool{}
	for i, s := range paramTable {
		for _, name := range append(strings.Fields(s.aliases), s.name) {
			if seen[name] {
				t.Errorf("%s is in the table twice, want once", name)
			}
			seen[name] = true
		}
		if (s.training != nil) != (i < len(trainedWith)) || s.training == nil && s.note == "" {
			t.Errorf("%s: want it before those that are not trained with, or after those that are and with a note",
				s.name)
		}
	}
}

// FuzzParseParams: for any name and any value, ParseParams returns a *ParamError or valid parameters, and never panics.
func FuzzParseParams(f *testing.F) {
	f.Add("num_leaves", 3.0, "x", false)
	f.Add("objective", 0.0, "binary", true)
	f.Fuzz(func(t *testing.T, name string, number float64, word string, flag bool) {
		for _, v := range []any{number, word, flag, nil, []any{number}} {
			p, err := ParseParams(map[string]any{name: v})
			var pe *ParamError
			if err != nil && !errors.As(err, &pe) {
				t.Fatalf("%q as %v: got error %v of type %T, want a *ParamError", name, v, err, err)
			}
			if err == nil && strings.Contains(name, "num_leaves") && (p.NumLeaves < 2 || p.NumLeaves > 131072) {
				t.Fatalf("num_leaves %d was accepted, want 2 to 131072 only", p.NumLeaves)
			}
		}
	})
}

// TestConfOfTexts: lists of columns and of gains in a LightGBM file are texts with commas, as LightGBM writes them, and
// not lists of numbers, which these parameters do not take. Other values with commas are lists. As to LightGBM, quotes
// are not part of a value, and an empty one is none.
func TestConfOfTexts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "train.conf")
	must.Do(t, os.WriteFile(file, []byte("objective = \"lambdarank\"\nlabel_gain = 0,1,3,7\nignore_feature = 0,3\n"+
		"metric = ndcg,auc\nnum_leaves = '7'\nlearning_rate =\n"), 0o600))
	got, _, _, err := ReadParams(file)
	want := map[string]any{"objective": "lambdarank", "label_gain": "0,1,3,7", "ignore_feature": "0,3",
		"metric": []any{"ndcg", "auc"}, "num_leaves": uint64(7)}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %#v, error %v; want %#v", got, err, want)
	}
}

// TestOneNameOfEach: two names of a parameter in one file are refused, with the line of the second one by name, since
// it is not clear which one is meant. Names of what has no effect may be several.
func TestOneNameOfEach(t *testing.T) {
	file := filepath.Join(t.TempDir(), "p.yaml")
	for text, want := range map[string]string{
		"num_leaves: 9\nnum_leaf: 7\n":       file + ":1:13: num_leaves: says the same as num_leaf; keep one",
		"metric: auc\nmetrics: log_loss\n":   file + ":2:10: metrics: says the same as metric; keep one",
		"data: a\ntrain: b\nnum_leaves: 9\n": "",
	} {
		must.Do(t, os.WriteFile(file, []byte(text), 0o600))
		if _, _, _, err := ReadParams(file); (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%q: got error %v, want %q", text, err, want)
		}
	}
}

// FuzzConf: whatever the file holds, it is refused, or becomes YAML of as many lines that can be read. (A last line
// without a newline gets one. YAML refuses a name that occurs twice, a file without any is empty, and the test lets one
// of more than 64 KiB be refused.)
func FuzzConf(f *testing.F) {
	f.Add([]byte("# of LightGBM\ntask = train\nmetric = log_loss,auc\nnum_trees = 100   # trees\n"))
	f.Add([]byte("a = \"x\n: - {\nb=1,,e\r\nc = -\x00\xff"))
	f.Fuzz(func(t *testing.T, text []byte) {
		yaml, err := fromConf("x.conf", text)
		if err != nil {
			return
		}
		if got, want := strings.Count(string(yaml), "\n"), strings.Count(string(text), "\n"); got-want > 1 ||
			got < want {
			t.Errorf("got %d lines, want %d", got, want)
		}
		values := map[string]any{}
		_, err = strictyaml.Decode("x.conf", yaml, &values)
		if err != nil && !strings.Contains(err.Error(), "already defined") &&
			!strings.Contains(err.Error(), "is empty") && len(yaml) < 1<<16 {
			t.Errorf("%q: got %v, want values", yaml, err)
		}
	})
}
