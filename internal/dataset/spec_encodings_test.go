package dataset

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"coppice/internal/strictyaml"
)

const specHead = "name: a\nsource: x.csv\nlabel: y\n" // three lines; what is tested begins on the fourth

// Errors of encodings, with the place that they are about and what to do. Those of keys that may be any text are placed
// at their value.
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
		"encodings: {back_off: {a: b, c: b, b: d}}\n": defaults(func(e *EncodingsSpec) { e.BackOff = BackOffSpec{"a": "b", "c": "b", "b": "d"} }),
		"encodings: {order: {copies: 16}}\n":          defaults(func(e *EncodingsSpec) { e.Order.Copies = 16 }),
		"encodings: {order: {by: random}}\n":          defaults(func(e *EncodingsSpec) { e.Order.By = OrderRandom }),
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

// The order follows the split unless the spec says otherwise, and the row's time with it.
func TestOrderFollowsTheSplit(t *testing.T) {
	const byTime, byHash = "split: {by: time, column: ts, train: 1}\n", "split: {by: hash, key: k, train: 1}\n"
	for in, want := range map[string]struct{ by, column string }{
		"":     {OrderRandom, ""},
		byHash: {OrderRandom, ""},
		byTime: {OrderTime, "ts"},
		byTime + "encodings: {order: {by: auto, delay: 1h}}\n": {OrderTime, "ts"},
		// recency still knows when a row was
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
		if s.Sample != want {
			t.Errorf("%q: got %+v, want %+v", in, s.Sample, want)
		}
	}
}
