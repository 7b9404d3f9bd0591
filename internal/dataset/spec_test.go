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
		Name: "clicks", Source: SourceSpec{Files: []string{"gs://bucket/exports/*.parquet"}}, Label: LabelSpec{Column: "arr_delay", Above: &above},
		Weight: "w", Group: "user_id", Drop: []string{"session_id"}, Categorical: []string{"campaign_id", "webpage_id"},
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

func TestParseSpecDefaultsAndForms(t *testing.T) {
	parse := func(rest string) *Spec {
		t.Helper()
		s := must.Get(ParseSpec("d.yaml", []byte("name: a\nsource: x.csv\n"+rest)))(t)
		return s
	}
	s := parse("label: y\n")
	if s.MaxBin != 255 || s.Sample.Rows != 50000 || s.BinRows != 200000 ||
		!reflect.DeepEqual([]string(s.Missing), DefaultMissing()) ||
		!s.CSV.HasHeader() || s.Split.By != "" {
		t.Errorf("defaults: %+v", s)
	}
	if s := parse("label: {column: y, positive: yes, negative: 0}\nmissing: []\n"); *s.Label.Positive != "yes" ||
		*s.Label.Negative != "0" || len(s.Missing) != 0 {
		t.Errorf("label %+v, missing %q", s.Label, s.Missing)
	}
	s = parse("label: y\nsplit: {by: column, column: part, train: [a, 1], test: 2017}\n")
	want := map[string][]string{"train": {"a", "1"}, "test": {"2017"}}
	if !reflect.DeepEqual(s.Split.ValuesOf(), want) || s.Split.Shares() != [4]float64{} {
		t.Errorf("values %v, shares %v", s.Split.ValuesOf(), s.Split.Shares())
	}
	s = parse("label: y\nsplit: {by: column, column: part}\n")
	if got := s.Split.ValuesOf(); len(got) != 4 || got["calib"][0] != "calib" {
		t.Errorf("values %v", got)
	}
	if s := parse("label: y\nsplit: {by: time, column: ts, train: 1}\n"); s.Split.Shares() != [4]float64{1, 0, 0, 0} {
		t.Errorf("shares %v", s.Split.Shares())
	}
}

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
		"quote":     {head + "csv: {quote: \"'\"}\n", "d.yaml:4:14: quote \"'\": use none"},
		"position":  {head + "position: b\n", "d.yaml:4:1: position: is gone; "},
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
			var e *strictyaml.Error
			if !errors.As(err, &e) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got  %v\nwant ... %s ...", err, tc.want)
			}
		})
	}
}

func FuzzSpec(f *testing.F) {
	f.Add([]byte("name: a\nsource: x.csv\nlabel: {column: y, positive: yes}\nsplit: {by: column, column: p, train: " +
		"[a], test: 2}\n"))
	f.Add([]byte("name: a\nsource: x.csv\nlabel: y\nmissing: [null, ~]\nsplit: {by: hash, key: p, train: .5, test: " +
		"0.5}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := ParseSpec("d.yaml", data)
		var e *strictyaml.Error
		if err != nil && !errors.As(err, &e) {
			t.Fatalf("untyped error %T: %v", err, err)
		}
		if err == nil && CheckName(s.Name) != nil {
			t.Fatalf("name %q", s.Name)
		}
	})
}
