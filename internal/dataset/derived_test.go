package dataset

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"coppice/internal/must"
	"coppice/internal/problem"
)

// derivedFeatures returns one feature of each derivation, and the tables that they need.
func derivedFeatures() ([]Feature, []LevelTable) {
	city, at := Part{Column: "city", Kind: Categorical}, Part{Column: "at", Kind: Temporal}
	hour, age := Part{Column: "at", Kind: Temporal, Take: DeriveHour},
		Part{Column: "age", Kind: Numeric, Bounds: []float64{18, 40.5}}
	number := func(name string, d Derived) Feature {
		return Feature{Name: name, Kind: Numeric, Why: WhyDerived, Bins: 2, Bounds: []float64{0.25}, MissingBin: -1,
			OtherBin: -1, From: &d}
	}
	features := []Feature{
		number("id:rate", Derived{What: DeriveRate, Table: 0}),
		number("city:rate", Derived{What: DeriveRate, Table: 1}),
		number("city:recency", Derived{What: DeriveRecency, Table: 1, Of: []Part{at}}),
		number("city+age~+at.hour:count", Derived{What: DeriveCount, Table: 2}),
		number("at.hour", Derived{What: DeriveHour, Table: -1, Of: []Part{at}}),
		number("born.age", Derived{What: DeriveAge, Table: -1, Of: []Part{at, {Column: "born", Kind: Temporal}}}),
		{Name: "city.levels", Kind: Categorical, Why: WhyDerived, Bins: 2, Categories: []string{"Bonn"},
			Counts: []int64{3}, MissingBin: -1,
			OtherBin: 1,
			From:     &Derived{What: DeriveLevels, Table: -1, Of: []Part{city}}},
	}
	return features, []LevelTable{
		{Of: []Part{{Column: "id", Kind: Categorical}}, First: 0, Levels: 4, Floor: 1, Prior: 0.5, Strength: 1,
			BackOff: -1},
		{Of: []Part{city}, First: 4, Levels: 3, Floor: 1, Prior: 0.5, Strength: 10, BackOff: 0, Recency: true},
		{Of: []Part{city, age, hour}, First: 7, Levels: 11, Floor: 2, Prior: 0.5, Strength: 2, BackOff: -1},
	}
}

// derivedManifest returns the golden manifest with everything that format 2 adds: derived features, tables, an order
// and sampled negatives.
func derivedManifest(tb testing.TB) *Manifest {
	tb.Helper()
	m := must.Get(ReadManifest(goldenDir))(tb)
	features, tables := derivedFeatures()
	m.Features, m.Tables = append(m.Features, features...), tables
	m.Format, m.Negatives, m.Thinned = FormatDerived, 0.25, 300
	m.Order = &Ordering{By: OrderTime, Column: "at", DelaySeconds: 3600, Copies: 1}

	// A levels file is listed before the sample. Its size and checksums are the sample's, since no file is read.
	levels := m.Files[len(m.Files)-1]
	levels.Name = LevelsFile
	m.Files = slices.Insert(m.Files, len(m.Files)-1, levels)
	m.Version = must.Get(m.ContentVersion())(tb)
	return m
}

// derivedDamage has replacements in the text of derivedManifest, each of which makes one thing impossible. There,
// features 5 to 11 are those of derivedFeatures, in that order, behind the five of the golden manifest.
var derivedDamage = map[string]damage{
	"format of old":        {`"format":2`, `"format":1`, "format: 1, but the contents are of format 2"},
	"table beyond the end": {`"what":"rate","table":0`, `"what":"rate","table":3`, "features[5].from: table 3"},
	"table below 0":        {`"what":"rate","table":0`, `"what":"rate","table":-1`, "features[5].from: table -1"},
	"count of no table":    {`"what":"count","table":2`, `"what":"count","table":-1`, "features[8].from: table -1"},
	"hour of a table":      {`"what":"hour","table":-1`, `"what":"hour","table":0`, "features[9].from: table 0"},
	"what":                 {`"what":"hour"`, `"what":"minute"`, `features[9].from: what "minute"`},
	"what left out":        {`"what":"hour"`, `"what":""`, `features[9].from: what ""`},
	"what that is a kind": {`"what":"levels"`, `"what":"rate"`,
		`features[11].from: rate in a feature of kind "categorical"; it is numeric`},
	"levels of a number": {`"what":"hour"`, `"what":"levels"`,
		"features[9].from: levels of 1 columns in a feature of kind"},
	"levels of a time": {`"what":"levels","table":-1,"of":[{"column":"city","kind":"categorical"}]`,
		`"what":"levels","table":-1,"of":[{"column":"at","kind":"time"}]`, "features[11].from: levels of 1 columns"},
	"levels of nothing": {`"what":"levels","table":-1,"of":[{"column":"city","kind":"categorical"}]`,
		`"what":"levels","table":-1`, "features[11].from: levels of 0 columns"},
	"levels of a table": {`"what":"levels","table":-1`, `"what":"levels","table":1`,
		"features[11].from: levels of 1 columns"},
	"recency of none": {`"recency":true`, `"recency":false`,
		"features[7].from: recency of a table that does not have it"},
	"recency of no time": {`"what":"recency","table":1,"of":[{"column":"at","kind":"time"}]`,
		`"what":"recency","table":1`, "features[7].from: recency of 0 columns where it takes 1"},
	"recency by text": {`"what":"recency","table":1,"of":[{"column":"at","kind":"time"}]`,
		`"what":"recency","table":1,"of":[{"column":"at","kind":"categorical"}]`,
		`features[7].from: recency of column "at", which is not read as a time`},
	"rate of a column": {`"what":"rate","table":0`, `"what":"rate","table":0,"of":[{"column":"at","kind":"time"}]`,
		"features[5].from: rate of 1 columns where it takes 0"},
	"hour of a number": {`"what":"hour","table":-1,"of":[{"column":"at","kind":"time"}]`,
		`"what":"hour","table":-1,"of":[{"column":"at","kind":"numeric"}]`, `features[9].from: hour of column "at"`},
	"hour of an hour": {`"what":"hour","table":-1,"of":[{"column":"at","kind":"time"}]`,
		`"what":"hour","table":-1,"of":[{"column":"at","kind":"time","take":"hour"}]`,
		`features[9].from: hour of column "at"`},
	"hour of a range": {`"what":"hour","table":-1,"of":[{"column":"at","kind":"time"}]`,
		`"what":"hour","table":-1,"of":[{"column":"at","kind":"time","bounds":[1]}]`,
		`features[9].from: hour of column "at"`},
	"age of one time": {`"what":"age","table":-1,"of":[{"column":"at","kind":"time"},`,
		`"what":"age","table":-1,"of":[`, "features[10].from: age of 1 columns where it takes 2"},
	"name of a column": {`"name":"at.hour"`, `"name":"at"`, `features[9]: the name "at" is repeated`},
	"name twice":       {`"name":"city:rate"`, `"name":"id:rate"`, `features[6]: the name "id:rate" is repeated`},
	"derived from __row": {`"what":"levels","table":-1,"of":[{"column":"city"`,
		`"what":"levels","table":-1,"of":[{"column":"__row"`, `"__row" is taken`},

	"falls back to itself": {`"back_off":0`, `"back_off":1`, "tables[1]: falls back to table 1"},
	"falls back later":     {`"back_off":0`, `"back_off":2`, "tables[1]: falls back to table 2"},
	"circle": {`"prior":0.5,"strength":1,"back_off":-1`, `"prior":0.5,"strength":1,"back_off":1`,
		"tables[0]: falls back to table 1"},
	"falls back below":   {`"back_off":0`, `"back_off":-2`, "tables[1]: falls back to table -2"},
	"class of none":      {`"strength":10`, `"strength":10,"class":1`, "tables[1]: class 1 of 0"},
	"class below 0":      {`"strength":10`, `"strength":10,"class":-1`, "tables[1]: class -1 of 0"},
	"floor 0":            {`"floor":2`, `"floor":0`, "tables[2]: levels 11 from 7, floor 0"},
	"floor below 0":      {`"floor":2`, `"floor":-2`, "tables[2]: levels 11 from 7, floor -2"},
	"levels below 0":     {`"levels":11`, `"levels":-11`, "tables[2]: levels -11"},
	"too many levels":    {`"levels":11`, `"levels":67108865`, "tables[2]: levels 67108865"},
	"too many in all":    {`"levels":11`, `"levels":67108864`, "tables: more than 67108864 levels"},
	"huge levels":        {`"levels":11`, `"levels":9223372036854775807`, "tables[2]: levels 9223372036854775807"},
	"first below 0":      {`"first":7`, `"first":-7`, "tables[2]: levels 11 from -7"},
	"gap before a table": {`"first":7`, `"first":8`, "tables[2]: begins at level 8 where 7 belongs"},
	"tables overlap":     {`"first":7`, `"first":6`, "tables[2]: begins at level 6 where 7 belongs"},
	"first is not 0":     {`"first":0`, `"first":1`, "tables[0]: begins at level 1 where 0 belongs"},
	"strength 0":         {`"strength":10`, `"strength":0`, "tables[1]: prior 0.5, strength 0"},
	"strength below 0":   {`"strength":10`, `"strength":-10`, "tables[1]: prior 0.5, strength -10"},
	"endless prior":      {`"prior":0.5`, `"prior":1e999`, "cannot unmarshal number 1e999"},
	"no parts": {`"of":[{"column":"id","kind":"categorical"}]`, `"of":[]`,
		"tables[0]: levels of 0 columns; 1 to 4 are possible"},
	"too many parts": {`"of":[{"column":"id","kind":"categorical"}]`, `"of":[` +
		strings.Repeat(`{"column":"id","kind":"categorical"},`, 4) + `{"column":"x","kind":"numeric"}]`,
		"tables[0].of: more than 4 values"},
	"part without a name": {`"of":[{"column":"id"`, `"of":[{"column":""`, "tables[0]: column name"},
	"part's kind": {`"of":[{"column":"id","kind":"categorical"}]`, `"of":[{"column":"id","kind":"text"}]`,
		`tables[0]: kind "text"`},
	"hour of a category": {`"of":[{"column":"id","kind":"categorical"}]`,
		`"of":[{"column":"id","kind":"categorical","take":"hour"}]`, `tables[0]: take "hour" of a categorical column`},
	"age of a part": {`"take":"hour"`, `"take":"age"`, `tables[2]: take "age" of a time column`},
	"ranges of a category": {`"of":[{"column":"id","kind":"categorical"}]`,
		`"of":[{"column":"id","kind":"categorical","bounds":[1]}]`, "tables[0]: ranges of a categorical column"},
	"ranges descend":      {`"bounds":[18,40.5]`, `"bounds":[18,4.5]`, "tables[2]: bounds[1] is 4.5"},
	"ranges repeat":       {`"bounds":[18,40.5]`, `"bounds":[18,18]`, "tables[2]: bounds[1] is 18"},
	"ranges of NaN":       {`"bounds":[18,40.5]`, `"bounds":[18,NaN]`, "invalid character"},
	"levels file missing": {`"levels":3`, `"levels":0`, "begins at level 7 where 4 belongs"},

	"order left out": {`"order":{"by":"time","column":"at","delay_seconds":3600,"copies":1},`, ``,
		"order: missing, though there are statistics"},
	"order by nothing": {`"by":"time","column":"at"`, `"by":"magic","column":"at"`, `order: by "magic"`},
	"copies by time":   {`"copies":1`, `"copies":2`, "order: 2 copies by time"},
	"no copies":        {`"copies":1`, `"copies":0`, "order: 0 copies by time"},
	"too many copies": {`"order":{"by":"time","column":"at","delay_seconds":3600,"copies":1}`,
		`"order":{"by":"random","copies":17}`, "order: 17 copies by random"},
	"uneven copies": {`"order":{"by":"time","column":"at","delay_seconds":3600,"copies":1}`,
		`"order":{"by":"random","copies":2}`, "order: 2 copies of 11 rows in all"},
	"delay below 0":   {`"delay_seconds":3600`, `"delay_seconds":-1`, "order: a delay of -1 s by time"},
	"delay at random": {`"by":"time","column":"at"`, `"by":"random"`, "order: a delay of 3600 s by random"},
	"column at random": {`"by":"time","column":"at","delay_seconds":3600`, `"by":"random","column":"at"`,
		"order: a delay of 0 s by random"},
	"time of no column":  {`"by":"time","column":"at"`, `"by":"time"`, "order: column name"},
	"negatives below 0":  {`"negatives":0.25`, `"negatives":-0.25`, "negatives: -0.25 of a binary label"},
	"all negatives":      {`"negatives":0.25`, `"negatives":1`, "negatives: 1 of a binary label"},
	"more than all":      {`"negatives":0.25`, `"negatives":1.5`, "negatives: 1.5 of a binary label"},
	"negative rows left": {`"thinned":300`, `"thinned":-300`, "negatives: 0.25 of a binary label, -300 rows left out"},
	"not a class":        {`"kind":"binary"`, `"kind":"regression"`, "negatives: 0.25 of a regression label"},
	"no levels file": {`"name":"levels.arrow"`, `"name":"sample.arrow"`,
		`files: "sample.arrow" where "levels.arrow" belongs`},
}

// TestDerivedManifestRefuses makes one of derivedDamage at a time in the text of a manifest with derived features, and
// expects an error that names the place.
func TestDerivedManifestRefuses(t *testing.T) {
	good := must.Get(derivedManifest(t).Encode())(t)
	if _, err := DecodeManifest(good); err != nil {
		t.Fatalf("a manifest before any damage: %v; want it read", err)
	}
	for name, tc := range derivedDamage {
		t.Run(name, func(t *testing.T) { tc.refused(t, good) })
	}
}

// TestDerivedManifestRefusesNoNumbers checks manifests with what JSON cannot write, such as NaN, but a program may
// make.
func TestDerivedManifestRefusesNoNumbers(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(m *Manifest)
		want   string
	}{
		"NaN bound": {func(m *Manifest) { m.Tables[2].Of[1].Bounds = []float64{math.NaN()} },
			"tables[2]: bounds[0] is NaN"},
		"infinite bound": {func(m *Manifest) { m.Tables[2].Of[1].Bounds = []float64{math.Inf(1)} },
			"tables[2]: bounds[0] is +Inf"},
		"NaN prior": {func(m *Manifest) { m.Tables[1].Prior = math.NaN() }, "tables[1]: prior NaN"},
		"NaN strength": {func(m *Manifest) { m.Tables[1].Strength = math.NaN() },
			"tables[1]: prior 0.5, strength NaN"},
		"NaN negatives": {func(m *Manifest) { m.Negatives = math.NaN() }, "negatives: NaN"},
		"NaN delay":     {func(m *Manifest) { m.Order.DelaySeconds = math.NaN() }, "order: a delay of NaN s"},
		"endless delay": {func(m *Manifest) { m.Order.DelaySeconds = math.Inf(1) }, "order: a delay of +Inf s"},
		"too many tables": {func(m *Manifest) { m.Tables = make([]LevelTable, MaxTables+1) },
			fmt.Sprintf("tables: %d of them", MaxTables+1)},
	} {
		m := derivedManifest(t)
		tc.change(m)
		if err := m.check(); !problem.Is(err, problem.Damaged) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want ... %s ...", name, err, tc.want)
		}
	}
}

// TestDerivedEncodingTravelsAlone checks that the Encoding of a manifest with derived features survives being written
// and read, and which columns its features are made of.
func TestDerivedEncodingTravelsAlone(t *testing.T) {
	e := travel(t, derivedManifest(t))
	if want := []string{"age", "price € <b>", "at", "city", "id", "born"}; !slices.Equal(e.Inputs(), want) {
		t.Errorf("inputs %q, want %q", e.Inputs(), want)
	}
	var parts []string
	for _, p := range e.PartsOf(&e.Features[6]) { // city:rate, whose table falls back to that of id
		parts = append(parts, p.String())
	}
	if want := []string{"city", "id"}; !slices.Equal(parts, want) {
		t.Errorf("parts %q, want %q", parts, want)
	}
	must.Equal(t, e.Tables[2].Name(), "city+age~+at.hour", "the table's name")
}

// FuzzDecodeEncoding checks that an encoding which is accepted has inputs and not too many levels, and is accepted
// again after it has been written.
func FuzzDecodeEncoding(f *testing.F) {
	good := must.Get(json.Marshal(derivedManifest(f).Encoding()))(f)
	f.Add(good)
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := DecodeEncoding(data)
		if err != nil && !problem.Is(err, problem.Damaged) {
			t.Fatalf("got error %v of type %T, want one of kind Damaged", err, err)
		}
		if err != nil {
			return
		}
		if n := levelsOf(e.Tables); n < 0 || n > MaxLevels {
			t.Fatalf("%d levels were accepted, want at most %d", n, MaxLevels)
		}
		if len(e.Inputs()) == 0 {
			t.Fatal("an encoding with no inputs was accepted, want at least one")
		}
		again := must.Get(json.Marshal(e))(t)
		if _, err := DecodeEncoding(again); err != nil {
			t.Fatalf("written and decoded again: got error %v, want none", err)
		}
	})
}

// TestBinsOfNumbers checks that a number is in the first bin whose bound is not below it, and that NaN is in the bin of
// missing values or, if there is none, in that of 0 (bin 1, whose bound is 0).
func TestBinsOfNumbers(t *testing.T) {
	f := Feature{Kind: Numeric, Bounds: []float64{-2, 0, 3.5}, Bins: 5, MissingBin: 4, OtherBin: -1}
	none := Feature{Kind: Numeric, Bounds: []float64{-2, 0, 3.5}, Bins: 4, MissingBin: -1, OtherBin: -1}
	for _, tc := range []struct {
		x         float64
		bin, none uint8
	}{
		{math.Inf(-1), 0, 0}, {-2, 0, 0}, {math.Nextafter(-2, 0), 1, 1}, {0, 1, 1}, {math.Copysign(0, -1), 1, 1},
		{1, 2, 2}, {3.5, 2, 2},
		{3.6, 3, 3}, {math.Inf(1), 3, 3}, {math.NaN(), 4, 1},
	} {
		if a, b := f.BinOfNumber(tc.x), none.BinOfNumber(tc.x); a != tc.bin || b != tc.none {
			t.Errorf("%v: bin %d, and without one for missing values %d; want %d and %d", tc.x, a, b, tc.bin, tc.none)
		}
	}
}

// TestBinsOfCategories checks that a whole number from 0 up to below Bins is its own bin, NaN in the bin of missing
// values if there is one, and all else in the bin of other categories. Of two features with two categories, the first
// has a bin of missing values, 3, and the second has not, so there 3 is no bin.
func TestBinsOfCategories(t *testing.T) {
	f := Feature{Kind: Categorical, Categories: []string{"b", ""}, Bins: 4, OtherBin: 2, MissingBin: 3}
	none := Feature{Kind: Categorical, Categories: []string{"b", ""}, Bins: 3, OtherBin: 2, MissingBin: -1}
	for _, tc := range []struct {
		x         float64
		bin, none uint8
	}{{0, 0, 0}, {2, 2, 2}, {3, 3, 2}, {4, 2, 2}, {-1, 2, 2}, {0.5, 2, 2}, {1e30, 2, 2}, {math.NaN(), 3, 2}} {
		if a, b := f.BinOfNumber(tc.x), none.BinOfNumber(tc.x); a != tc.bin || b != tc.none {
			t.Errorf("%v: bins %d and %d, want %d and %d", tc.x, a, b, tc.bin, tc.none)
		}
	}
}

// TestTextOf checks the text of a value of each type: the shortest that reads back as the same value.
func TestTextOf(t *testing.T) {
	v := func(typ Type, unit Unit, x any) *Values {
		switch x := x.(type) {
		case string:
			return &Values{Type: typ, Text: []string{x}}
		case float64:
			return &Values{Type: typ, Float: []float64{x}}
		case int:
			return &Values{Type: typ, Unit: unit, Int: []int64{int64(x)}}
		}
		panic("no such value")
	}
	for _, tc := range []struct {
		v    *Values
		want string
	}{
		{v(Text, "", " 0052"), " 0052"},
		{v(Float, "", 1734.0), "1734"},
		{v(Float, "", -0.25), "-0.25"},
		{v(Float, "", 1e300), "1e+300"},
		{v(Int, "", math.MaxInt64), "9223372036854775807"},
		{v(Bool, "", 1), "true"},
		{v(Time, Day, 17349), "2017-07-02"},
		{v(Time, Milli, -1), "1969-12-31T23:59:59.999Z"},
		{v(Time, Micro, 1499039000000000), "2017-07-02T23:43:20Z"},
		{v(Time, Nano, 1499039000000000001), "2017-07-02T23:43:20.000000001Z"},
	} {
		must.Equal(t, tc.v.TextOf(0), tc.want, "text of %+v", *tc.v)
	}
}

// TestSplitAndSeconds checks counts of each unit as seconds and nanoseconds. Nanoseconds count from 0 upwards before
// 1970, too: a millisecond before it is second -1 and 999 ms.
func TestSplitAndSeconds(t *testing.T) {
	for _, tc := range []struct {
		unit      Unit
		n         int64
		sec, nsec int64
	}{{Day, -2, -172800, 0}, {Milli, 1500, 1, 5e8}, {Milli, -1, -1, 999e6}, {Nano, -1, -1, 999999999},
		{Micro, math.MinInt64, -9223372036855, 224192000}} { // -9223372036854.775808 s, rounded down, and the rest
		sec, nsec := tc.unit.Split(tc.n)
		if sec != tc.sec || nsec != tc.nsec {
			t.Errorf("%d %s: %d s and %d ns, want %d and %d", tc.n, tc.unit, sec, nsec, tc.sec, tc.nsec)
		}
	}
	must.Equal(t, Seconds(1499039000, 250e6), 1499039000.25, "1499039000 s and 250 ms")
}
