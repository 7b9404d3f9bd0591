package dataset

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"coppice/internal/must"
	"coppice/internal/strictyaml"
)

// TestParseSpecReadsEverything parses a spec with nearly all keys, and compares it field by field.
func TestParseSpecReadsEverything(t *testing.T) {
	s := must.Get(ParseSpec("d.yaml", []byte(`
name: clicks
source: gs://bucket/exports/*.parquet
label: {column: arr_delay, above: 15}
weight: w
group: user_id
drop: [session_id]
categorical: [campaign_id, webpage_id]
numeric: [zip]
missing: ["", NA, null, 999]
csv: {delimiter: "\t", header: false, quote: none}
max_bin: 63
split: {by: hash, key: user_id, train: 0.7, valid: 0.1, calib: 0.1, test: 0.1}
sample: {rows: 1000, negatives: 0.1}
sample_rows_for_bins: 5000
encodings:
  columns: {site: rate, ad: [rate, count, recency]}
  keys: [[site, ad], [zip~, ts.hour]]
  budget: 0
  back_off: {campaign_id: advertiser_id}
  order: {column: ts, delay: 36h}
  levels: 1000000
derive: {ts: [hour, weekday]}
`)))(t)
	above, header := 15.0, false
	want := &Spec{
		Name: "clicks", Source: SourceSpec{Files: []string{"gs://bucket/exports/*.parquet"}},
		Label: LabelSpec{Column: "arr_delay", Above: &above}, Weight: "w",
		Group: "user_id", Drop: []string{"session_id"}, Categorical: []string{"campaign_id", "webpage_id"},
		Numeric: []string{"zip"},
		Missing: Tokens{"", "NA", "null", "999"}, CSV: CSVSpec{"\t", &header, "none"}, MaxBin: 63,
		Split: SplitSpec{By: "hash", Key: "user_id", Train: Portion{Share: 0.7}, Valid: Portion{Share: 0.1},
			Calib: Portion{Share: 0.1}, Test: Portion{Share: 0.1}},
		Sample: SampleSpec{Rows: 1000, Negatives: 0.1}, BinRows: 5000, doc: s.doc,
		Encodings: EncodingsSpec{
			Columns: map[string]ColumnEncodings{"site": {"rate"}, "ad": {"rate", "count", "recency"}},
			Keys:    []KeySpec{{"site", "ad"}, {"zip~", "ts.hour"}}, Budget: new(int),
			BackOff: BackOffSpec{"campaign_id": "advertiser_id"},
			Order:   OrderSpec{By: "time", Column: "ts", Delay: Duration(36 * time.Hour)}, Levels: 1_000_000,
			Rows: DefaultEncodingRows, Final: true,
		},
		Derive: DeriveSpec{"ts": {"hour", "weekday"}},
	}
	if !reflect.DeepEqual(s, want) {
		t.Errorf("got\n%+v\nwant\n%+v", s, want)
	}
}

// TestParseSpecDefaultsAndForms checks the defaults of a short spec, and the short forms of labels and splits.
func TestParseSpecDefaultsAndForms(t *testing.T) {
	parse := func(rest string) *Spec {
		t.Helper()
		return must.Get(ParseSpec("d.yaml", []byte("name: a\nsource: x.csv\n"+rest)))(t)
	}
	s := parse("label: y\n")
	if s.MaxBin != 255 || s.Sample.Rows != 50000 || s.BinRows != 200000 ||
		!reflect.DeepEqual([]string(s.Missing), DefaultMissing()) ||
		!s.CSV.HasHeader() || s.Split.By != "" {
		t.Errorf("the defaults are %+v; want 255 bins, 50,000 rows of sample and no split", s)
	}
	if s := parse("label: {column: y, positive: yes, negative: 0}\nmissing: []\n"); *s.Label.Positive != "yes" ||
		*s.Label.Negative != "0" || len(s.Missing) != 0 {
		t.Errorf("label %+v, missing %q; want yes as positive, 0 as negative, nothing missing", s.Label, s.Missing)
	}
	if s := parse("label: {column: y, positive: +, negative: -}\n"); *s.Label.Negative != "-" {
		t.Errorf("negative is %q, want -, which stands for no missing label", *s.Label.Negative)
	}
	s = parse("label: y\nsplit: {by: column, column: part, train: [a, 1], test: 2017}\n")
	want := map[string][]string{"train": {"a", "1"}, "test": {"2017"}}
	if !reflect.DeepEqual(s.Split.ValuesOf(), want) || s.Split.Shares() != [4]float64{} {
		t.Errorf("values %v, shares %v; want the values as texts, and no shares", s.Split.ValuesOf(), s.Split.Shares())
	}
	for _, none := range []string{"", ", valid: []", ", train: []"} { // an empty list is as good as none
		s = parse("label: y\nsplit: {by: column, column: part" + none + "}\n")
		if got := s.Split.ValuesOf(); len(got) != 4 || got["calib"][0] != "calib" { // as of each of the four
			t.Errorf("with the lists %q, the values are %v, want each split's own name", none, got)
		}
	}
	if s := parse("label: y\nsplit: {by: time, column: ts, train: 1}\n"); s.Split.Shares() != [4]float64{1, 0, 0, 0} {
		t.Errorf("the shares are %v, want all of train", s.Split.Shares())
	}
}

// TestParseSpecNamesThePlace makes one mistake in a spec at a time, and expects an error with its line and column, and
// with what to write instead.
func TestParseSpecNamesThePlace(t *testing.T) {
	const head = "name: a\nsource: x.csv\nlabel: y\n"
	for name, tc := range map[string]struct{ in, want string }{
		"another tool's key": {head + "target: y\n", `d.yaml:4:1: unknown key "target" (did you mean "label"?)`},
		"unknown key":        {head + "lable: y\n", `d.yaml:4:1: unknown key "lable" (did you mean "label"?)`},
		"unknown label key": {"name: a\nsource: x\nlabel: {column: y, abve: 3}\n",
			`d.yaml:3:20: unknown key "abve" (did you mean "above"?)`},
		"path in name": {"name: ../a\nsource: x\nlabel: y\n",
			`d.yaml:1:7: dataset name "../a": use 1 to 40 of a-z`},
		"no name":   {"source: x\nlabel: y\n", "d.yaml:1:1: dataset name"},
		"no source": {"name: a\nlabel: y\n", "d.yaml:1:1: source is missing"},
		"no label":  {"name: a\nsource: x\n", "d.yaml:1:1: label is missing"},
		"label kind": {"name: a\nsource: x\nlabel: {column: y, kind: ranking}\n",
			`d.yaml:3:26: kind "ranking": use regression, binary or classes`},
		"positive and above": {"name: a\nsource: x\nlabel: {column: y, positive: 1, above: 2}\n",
			"d.yaml:3:40: give positive or above, not both"},
		"negative alone": {"name: a\nsource: x\nlabel: {column: y, negative: no}\n",
			"d.yaml:3:30: negative needs positive"},
		"same labels": {"name: a\nsource: x\nlabel: {column: y, positive: 1, negative: 1}\n",
			`positive and negative are both "1"`},
		"regression and above": {"name: a\nsource: x\nlabel: {column: y, above: 1, kind: regression}\n",
			"is binary, not of kind regression"},
		"positive is missing": {"name: a\nsource: x\nlabel: {column: y, positive: None}\n",
			"d.yaml:3:30: positive is \"None\", which stands for a missing value, so its rows would be left out; " +
				"list under `missing` what does"},
		"negative is missing": {"name: a\nsource: x\nlabel: {column: y, positive: b, negative: ' 9'}\nmissing: ['9 " +
			"']\n", "d.yaml:3:43: negative is \" 9\", which stands for a missing value, so its rows would be left " +
			"out; take it off"},
		"long token": {head + "missing: [" + strings.Repeat("x", 1025) + "]\n", "d.yaml:4:10: a text of 1025 bytes"},
		"negative age": {head + "contract: {max_age: -1h}\n",
			"d.yaml:4:21: max_age is -1h0m0s: use a duration such as 36h"},
		"quote":     {head + "csv: {quote: \"'\"}\n", "d.yaml:4:14: quote \"'\": use none"},
		"position":  {head + "position: b\n", `d.yaml:4:1: unknown key "position"`},
		"max_bin":   {head + "max_bin: 256\n", "d.yaml:4:10: max_bin is 256: use 2 to 255"},
		"sample":    {head + "sample: 0\n", "d.yaml:4:9: sample is 0: use 1 to 1000000"},
		"bin rows":  {head + "sample_rows_for_bins: 9\n", "d.yaml:4:23: sample_rows_for_bins is 9"},
		"delimiter": {head + "csv: {delimiter: ab}\n", `d.yaml:4:18: delimiter "ab": use one character`},
		"both kinds": {head + "numeric: [b]\ncategorical: [a, b]\n",
			`d.yaml:4:11: column "b" cannot be both numeric and categorical`},
		"twice":            {head + "drop: [b, c, b]\n", `d.yaml:4:14: column "b" is listed twice`},
		"label dropped":    {head + "drop: [y]\n", `d.yaml:4:8: column "y" is the label and never a feature`},
		"label and weight": {head + "weight: y\n", `d.yaml:4:9: column "y" cannot be both label and weight`},
		"split without by": {head + "split: {train: 1}\n",
			"d.yaml:4:9: split needs by: hash, random, classes, time or column"},
		"split by": {head + "split: {by: tme, column: t, train: 1}\n",
			`d.yaml:4:13: by "tme" (did you mean "time"?)`},
		"hash without key":    {head + "split: {by: hash, train: 1}\n", "d.yaml:4:9: a split by hash needs key"},
		"time without column": {head + "split: {by: time, train: 1}\n", "d.yaml:4:9: a split by time needs column"},
		"time with key": {head + "split: {by: time, column: t, key: k, train: 1}\n",
			"d.yaml:4:35: a split by time has column, not key"},
		"split by label": {head + "split: {by: hash, key: y, train: 1}\n",
			`column "y" is the label or the weight`},
		"shares": {head + "split: {by: hash, key: k, train: 0.7, test: 0.1}\n",
			"d.yaml:4:9: train, valid, calib and test sum to 0.8: they must sum to 1"},
		"negative share": {head + "split: {by: hash, key: k, train: 1.5, test: -0.5}\n",
			"d.yaml:4:34: train must be a share of the rows, from 0 to 1"},
		"text share": {head + "split: {by: hash, key: k, train: most}\n",
			"d.yaml:4:34: train must be a share"},
		"list share": {head + "split: {by: time, column: k, train: [a]}\n",
			"d.yaml:4:37: train must be a share"},
		"no train":        {head + "split: {by: hash, key: k, test: 1}\n", "train is missing"},
		"no train values": {head + "split: {by: column, column: k, test: 1}\n", "train is missing"},
		"value twice": {head + "split: {by: column, column: k, train: [a, b], test: b}\n",
			`d.yaml:4:53: "b" is already listed under train`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseSpec("d.yaml", []byte(tc.in))
			must.SayAs[*strictyaml.Error](t, "parsing the spec", err, tc.want)
		})
	}
}

// FuzzSpec checks that errors of ParseSpec have a place, and that the name of an accepted spec is valid.
func FuzzSpec(f *testing.F) {
	f.Add([]byte("name: a\nsource: x.csv\nlabel: {column: y, positive: yes}\nsplit: {by: column, column: p, train: " +
		"[a], test: 2}\n"))
	f.Add([]byte("name: a\nsource: x.csv\nlabel: y\nmissing: [null, ~]\nsplit: {by: hash, key: p, train: .5, test: " +
		"0.5}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := ParseSpec("d.yaml", data)
		var e *strictyaml.Error
		if err != nil && !errors.As(err, &e) {
			t.Fatalf("got error %v of type %T, want a *strictyaml.Error, which has a place", err, err)
		}
		if err == nil && CheckName(s.Name) != nil {
			t.Fatalf("the name %q was accepted, want an error as of CheckName", s.Name)
		}
	})
}

// specHead is the first three lines of specs; what is tested begins on the fourth.
const specHead = "name: a\nsource: x.csv\nlabel: y\n"

// wrongEncodings has mistakes in encodings with their errors, which name the place and say what to do. Errors about
// keys that may be any text name the place of the key's value.
var wrongEncodings = map[string]struct{ in, want string }{
	"word": {"encodings: sometimes\n",
		`d.yaml:4:12: encodings "sometimes": use auto, none or a mapping`},
	"number": {"encodings: 5\n", `d.yaml:4:12: encodings "5": use auto, none or a mapping`},
	"list":   {"encodings: [rate]\n", "d.yaml:4:12: expected a mapping, found a list"},
	"unknown key": {"encodings: {colums: {}}\n",
		`d.yaml:4:13: unknown key "colums" (did you mean "columns"?)`},
	"unknown order key": {"encodings:\n  order: {dely: 1h}\n",
		`d.yaml:5:11: unknown key "dely" (did you mean "delay"?)`},
	"encoding": {"encodings: {columns: {c: rat}}\n", `d.yaml:4:26: encoding "rat" (did you mean "rate"?)`},
	"encoding, far off": {"encodings: {columns: {c: embedding}}\n",
		"d.yaml:4:26: encoding \"embedding\" (known: categories, count, levels, none, rate, recency)"},
	"encoding twice":   {"encodings: {columns: {c: [rate, rate]}}\n", "d.yaml:4:26: rate is listed twice"},
	"none with others": {"encodings: {columns: {c: [none, rate]}}\n", "d.yaml:4:26: none, rate: use none alone"},
	"no encodings": {"encodings: {columns: {c: []}}\n",
		"d.yaml:4:26: : use none alone, or some of rate, count"},
	"categories, levels": {"encodings: {columns: {c: [categories, levels]}}\n",
		"d.yaml:4:26: categories, levels: use none alone, or some of rate, count, recency, categories, levels, " +
			"none; categories or levels, not both"},
	"second column": {"encodings:\n  columns:\n    a: rate\n    b: lvels\n",
		`d.yaml:7:8: encoding "lvels" (did you mean "levels"?)`},
	"dropped": {"drop: [c]\nencodings: {columns: {c: rate}}\n",
		`d.yaml:5:26: column "c" is dropped; leave it out of one of the two`},
	"mapping of encodings": {"encodings: {columns: {c: {}}}\n", "d.yaml:4:26: expected a list, found a mapping"},
	"empty key":            {"encodings: {keys: [[]]}\n", "d.yaml:4:20: a key of 0 columns; 1 to 4 are possible"},
	"long key": {"encodings: {keys: [[a, b], [a, b, c, d, e]]}\n",
		"d.yaml:4:28: a key of 5 columns; 1 to 4 are possible"},
	"part twice":          {"encodings: {keys: [[a, b], [a, c, a]]}\n", `d.yaml:4:28: "a" is listed twice`},
	"keys that are words": {"encodings: {keys: [a, b]}\n", "d.yaml:4:20: expected a list, found text"},
	"budget below 0":      {"encodings: {budget: -1}\n", "d.yaml:4:21: budget is -1: use 0 to 512"},
	"great budget":        {"encodings: {budget: 513}\n", "d.yaml:4:21: budget is 513: use 0 to 512"},
	"budget in words":     {"encodings: {budget: many}\n", `d.yaml:4:21: expected a whole number, found "many"`},
	"few levels":          {"encodings: {levels: 999}\n", "d.yaml:4:21: levels is 999: use 1000 to 28000000"},
	"many levels": {"encodings: {levels: 67108865}\n",
		"d.yaml:4:21: levels is 67108865: use 1000 to 28000000"},
	"back_off to itself":   {"encodings: {back_off: {a: a}}\n", `d.yaml:4:27: "a" falls back to itself`},
	"back_off in a circle": {"encodings: {back_off: {a: b, b: c, c: a}}\n", `d.yaml:4:27: "a" falls back to itself`},
	"back_off word": {"encodings: {back_off: some}\n",
		`d.yaml:4:23: back_off "some": use auto, none or a mapping such as`},
	"back_off list": {"encodings: {back_off: [a, b]}\n", "d.yaml:4:23: expected a mapping, found a list"},
}

// wrongOrders is the same for encodings.order.
var wrongOrders = map[string]struct{ in, want string }{
	"by":   {"encodings: {order: {by: tim}}\n", `d.yaml:4:25: by "tim" (did you mean "time"?)`},
	"word": {"encodings: {order: time}\n", "d.yaml:4:20: expected a mapping, found text"},
	"random and column": {"encodings: {order: {by: random, column: t}}\n",
		"d.yaml:4:21: column and delay are for an order by time"},
	"random and delay": {"encodings: {order: {by: random, delay: 1h}}\n",
		"d.yaml:4:21: column and delay are for an order by time"},
	"delay alone": {"encodings: {order: {delay: 36h}}\n",
		"d.yaml:4:28: delay is for an order by time: give column, too, or split by time"},
	"delay and auto": {"encodings: {order: {by: auto, delay: 36h}}\n",
		"d.yaml:4:38: delay is for an order by time: give column, too, or split by time"},
	"delay below 0": {"encodings: {order: {column: t, delay: -1h}}\n",
		"d.yaml:4:39: delay is -1h0m0s: use 0 or more"},
	"delay in what": {"encodings: {order: {column: t, delay: 36}}\n",
		`d.yaml:4:39: "36" is not a duration such as 24h or 90m`},
	"delay in days": {"encodings:\n  order:\n    column: t\n    delay: 2d\n",
		`d.yaml:7:12: "2d" is not a duration such as 24h or 90m`},
	"copies below 0": {"encodings: {order: {copies: -1}}\n", "d.yaml:4:29: copies is -1: use 1 to 16"},
	"many copies":    {"encodings: {order: {copies: 17}}\n", "d.yaml:4:29: copies is 17: use 1 to 16"},
	"time of what": {"encodings: {order: {by: time}}\n",
		"d.yaml:4:21: an order by time needs column where the split is not by time"},
	"copies by time": {"encodings: {order: {column: t, copies: 2}}\n",
		"d.yaml:4:40: there is only one order by time, so copies must be 1"},
	"copies of a split": {"split: {by: time, column: t, train: 1}\nencodings: {order: {copies: 3}}\n",
		"d.yaml:5:29: there is only one order by time, so copies must be 1"},
}

// wrongDerivations is the same for derive and sample.
var wrongDerivations = map[string]struct{ in, want string }{
	"what":             {"derive: {t: minute}\n", `d.yaml:4:13: "minute" (known: age, hour, none, weekday)`},
	"nearly":           {"derive: {t: [hour, weekdy]}\n", `d.yaml:4:13: "weekdy" (did you mean "weekday"?)`},
	"twice":            {"derive: {t: [hour, hour]}\n", "d.yaml:4:13: hour, hour: list each once, and none alone"},
	"none with others": {"derive: {t: [none, hour]}\n", "d.yaml:4:13: none, hour: list each once, and none alone"},
	"list":             {"derive: [t]\n", "d.yaml:4:9: expected a mapping, found a list"},
	"age without now": {"derive: {t: age}\n",
		`d.yaml:4:13: age is the time from "t" to the row's own time, which a split by time or ` +
			`encodings.order.column gives`},
	"age of now": {"derive: {t: age}\nencodings: {order: {column: t}}\n",
		`d.yaml:4:13: age is the time from "t" to the row's own time`},
	// by the alphabet, and so the same every time
	"first of two": {"derive:\n  b: moment\n  a: minute\n", `d.yaml:6:6: "minute"`},
	"no negatives": {"sample: {negatives: 0}\n", "d.yaml:4:21: negatives is 0: use a share above 0, up to 1"},
	"negatives below 0": {"sample: {negatives: -0.5}\n",
		"d.yaml:4:21: negatives is -0.5: use a share above 0, up to 1"},
	"too many":    {"sample: {negatives: 1.5}\n", "d.yaml:4:21: negatives is 1.5: use a share above 0, up to 1"},
	"NaN":         {"sample: {negatives: .nan}\n", `d.yaml:4:21: expected a number, found ".nan"`},
	"in words":    {"sample: {negatives: half}\n", `d.yaml:4:21: expected a number, found "half"`},
	"sample rows": {"sample: {rows: 0, negatives: 0.5}\n", "d.yaml:4:10: sample is 0: use 1 to 1000000"},
	"sample key": {"sample: {negatives: 0.1, row: 5}\n",
		`d.yaml:4:26: unknown key "row" (did you mean "rows"?)`},
	"sample in words": {"sample: many\n", `d.yaml:4:9: expected a whole number, found "many"`},
}

// TestEncodingsNameThePlace makes one mistake in encodings, derive or sample at a time, and expects an error with its
// line and column.
func TestEncodingsNameThePlace(t *testing.T) {
	for group, cases := range map[string]map[string]struct{ in, want string }{"encodings": wrongEncodings,
		"order": wrongOrders, "derive": wrongDerivations} {
		for name, tc := range cases {
			t.Run(group+" "+name, func(t *testing.T) {
				_, err := ParseSpec("d.yaml", []byte(specHead+tc.in))
				var e *strictyaml.Error
				if !errors.As(err, &e) || !strings.HasPrefix(err.Error(), tc.want) {
					t.Errorf("got  %v\nwant %s ...", err, tc.want)
				}
			})
		}
	}
	_, err := ParseSpec("d.yaml",
		[]byte("name: a\nsource: x.csv\nlabel: {column: y, kind: regression}\nsample: {negatives: 0.5}\n"))
	if want := "d.yaml:4:21: a label of kind regression has no negative rows"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestEncodingsForms checks what encodings become if they are left out, empty, auto, none, or have only some of their
// keys: the others have defaults.
func TestEncodingsForms(t *testing.T) {
	ten := 10
	defaults := func(change func(e *EncodingsSpec)) EncodingsSpec {
		e := EncodingsSpec{Levels: DefaultLevels, Rows: DefaultEncodingRows, Final: true}
		change(&e)
		return e
	}
	for in, want := range map[string]EncodingsSpec{
		"":                            defaults(func(*EncodingsSpec) {}),
		"encodings: auto\n":           defaults(func(*EncodingsSpec) {}),
		"encodings:\n":                defaults(func(*EncodingsSpec) {}),
		"encodings: ~\n":              defaults(func(*EncodingsSpec) {}),
		"encodings: {}\n":             defaults(func(*EncodingsSpec) {}),
		"encodings: none\n":           defaults(func(e *EncodingsSpec) { e.Off, e.Final = true, false }),
		"encodings: {budget: 10}\n":   defaults(func(e *EncodingsSpec) { e.Budget = &ten }),
		"encodings: {levels: 1000}\n": defaults(func(e *EncodingsSpec) { e.Levels = 1000 }),
		"encodings: {back_off: none}": defaults(func(e *EncodingsSpec) { e.BackOff = BackOffSpec{} }),
		"encodings: {back_off: auto}": defaults(func(*EncodingsSpec) {}),
		"encodings: {keys: [[a]]}\n":  defaults(func(e *EncodingsSpec) { e.Keys = []KeySpec{{"a"}} }),
		"encodings: {columns: {}}\n":  defaults(func(e *EncodingsSpec) { e.Columns = map[string]ColumnEncodings{} }),
		"encodings: {columns: {a.b: [levels, count], c: none}}\n": defaults(func(e *EncodingsSpec) {
			e.Columns = map[string]ColumnEncodings{"a.b": {"levels", "count"}, "c": {"none"}}
		}),
		"encodings: {back_off: {a: b, c: b, b: d}}\n": defaults(func(e *EncodingsSpec) {
			e.BackOff = BackOffSpec{"a": "b", "c": "b", "b": "d"}
		}),
		"encodings: {order: {copies: 16}}\n": defaults(func(e *EncodingsSpec) { e.Order.Copies = 16 }),
		"encodings: {order: {by: random}}\n": defaults(func(e *EncodingsSpec) { e.Order.By = OrderRandom }),
		"encodings: {order: {by: auto, column: t, delay: 1h30m, copies: 1}}\n": defaults(func(e *EncodingsSpec) {
			e.Order = OrderSpec{By: OrderTime, Column: "t", Delay: Duration(90 * time.Minute), Copies: 1}
		}),
	} {
		s, err := ParseSpec("d.yaml", []byte(specHead+in))
		if err != nil {
			t.Errorf("parsing %q: got error %v, expected none", in, err)
			continue
		}
		if !reflect.DeepEqual(s.Encodings, want) {
			t.Errorf("%q: got\n%+v\nwant\n%+v", in, s.Encodings, want)
		}
	}
}

// TestOrderFollowsTheSplit checks that statistics are ordered by the split's time unless the spec says otherwise, and
// which column has the rows' times.
func TestOrderFollowsTheSplit(t *testing.T) {
	const byTime, byHash = "split: {by: time, column: ts, train: 1}\n", "split: {by: hash, key: k, train: 1}\n"
	for in, want := range map[string]struct{ by, column string }{
		"":     {OrderRandom, ""},
		byHash: {OrderRandom, ""},
		byTime: {OrderTime, "ts"},
		byTime + "encodings: {order: {by: auto, delay: 1h}}\n": {OrderTime, "ts"},
		// Statistics are in a random order, but recency still has to know when a row was.
		byTime + "encodings: {order: {by: random}}\n":             {OrderRandom, "ts"},
		byTime + "encodings: {order: {column: at}}\n":             {OrderTime, "at"},
		byHash + "encodings: {order: {column: at}}\n":             {OrderTime, "at"},
		byHash + "encodings: {order: {by: time, column: at}}\n":   {OrderTime, "at"},
		byTime + "derive: {born: [age, hour], ts: none, x: []}\n": {OrderTime, "ts"},
	} {
		s, err := ParseSpec("d.yaml", []byte(specHead+in))
		if err != nil {
			t.Errorf("parsing %q: got error %v, expected none", in, err)
			continue
		}
		if s.OrderBy() != want.by || s.TimeColumn() != want.column {
			t.Errorf("%q: by %s, column %q, want %s, %q", in, s.OrderBy(), s.TimeColumn(), want.by, want.column)
		}
	}
}

// TestSampleForms checks that a sample may be a number of rows or a mapping, each key of which has a default.
func TestSampleForms(t *testing.T) {
	for in, want := range map[string]SampleSpec{
		"":                                     {Rows: DefaultSample},
		"sample: 7\n":                          {Rows: 7},
		"sample: {}\n":                         {Rows: DefaultSample},
		"sample: {negatives: 1}\n":             {Rows: DefaultSample}, // all of them
		"sample: {negatives: .1}\n":            {Rows: DefaultSample, Negatives: 0.1},
		"sample: {rows: 9, negatives: 1e-3}\n": {Rows: 9, Negatives: 0.001},
	} {
		s, err := ParseSpec("d.yaml", []byte(specHead+in))
		if err != nil {
			t.Errorf("parsing %q: got error %v, expected none", in, err)
			continue
		}
		must.Equal(t, s.Sample, want, "%q", in)
	}
}

// TestDivided counts groups with rows in both train and valid, the splits 0 and 1, and expects only the first million
// groups (mostGroups, 1,048,576) to be looked at. whole has no such group, some has two, and in many each is one.
func TestDivided(t *testing.T) {
	whole, some, many := SplitsOfGroups{}, SplitsOfGroups{}, SplitsOfGroups{}
	for group := range uint64(30) { // three rows of each group, in the split with number group%4
		for range 3 {
			whole.Add(group, uint8(group%4))
			some.Add(group, uint8(group%4))
		}
		whole.Add(group, max(2, uint8(group%4))) // and a split that is neither train nor valid
		// One row more, in the split beside: 0 and 1 are exchanged, and 2 and 3.
		if group%10 == 0 {
			some.Add(group, uint8(group%4)^1)
		}
	}
	if got := whole.Divided(); got != nil {
		t.Errorf("no group in both train and valid: got %v, want none", got)
	}
	// Groups 0, 10 and 20 are in two splits: 0 and 1 (train and valid), 2 and 3, and 0 and 1.
	if got := some.Divided(); got == nil || *got != (Divided{2, 30}) || got.String() != "2 of 30" {
		t.Errorf("two of 30 groups in train and valid: got %v, want 2 of 30", got)
	}
	for group := range uint64(mostGroups + 1) {
		many.Add(group, 0)
		many.Add(group, 1)
	}
	if got, want := many.Divided(), "1048576 of the first 1048576"; got == nil || got.String() != want {
		t.Errorf("more groups than are remembered: got %v, want %s", got, want)
	}
}

// TestNamesDay checks that a folder NAME={date:...} makes NAME a day, wherever it is in the place, and that another
// folder (site=de) and a file (day={date:02}.csv) do not.
func TestNamesDay(t *testing.T) {
	s := SourceSpec{Files: []string{"gs://b/year={date:2006}/month={date:01}/site=de/day={date:02}.csv"}}
	for column, want := range map[string]bool{"year": true, "month": true, "site": false, "day": false} {
		must.Equal(t, s.NamesDay(column), want, "%s names the day", column)
	}
}
