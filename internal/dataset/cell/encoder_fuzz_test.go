package cell

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/dataset/encode"
	"coppice/internal/dataset/table"
	"coppice/internal/must"
)

// ofEverything returns an encoding with one feature of each derivation.
func ofEverything() *dataset.Encoding {
	city, at := dataset.Part{Column: "city", Kind: dataset.Categorical},
		dataset.Part{Column: "at", Kind: dataset.Temporal}
	hour := dataset.Part{Column: "at", Kind: dataset.Temporal, Take: dataset.DeriveHour}
	age := dataset.Part{Column: "age", Kind: dataset.Numeric, Bounds: []float64{18, 40.5}}
	number := func(name string, what dataset.Derivation, number int, of ...dataset.Part) dataset.Feature {
		return dataset.Feature{Name: name, Kind: dataset.Numeric, Bins: 1, MissingBin: -1, OtherBin: -1,
			From: &dataset.Derived{What: what, Table: number, Of: of}}
	}
	return &dataset.Encoding{
		Format: dataset.FormatDerived, Missing: []string{"", "-999"},
		Features: []dataset.Feature{
			{Name: "age", Kind: dataset.Numeric, Bins: 2, Bounds: []float64{30}, MissingBin: -1, OtherBin: -1},
			{Name: "city", Kind: dataset.Categorical, Bins: 3, Categories: []string{"Ulm", "7"}, Counts: []int64{2, 1},
				MissingBin: -1, OtherBin: 2},
			number("id:rate", dataset.DeriveRate, 0),
			number("city:rate", dataset.DeriveRate, 1),
			number("city:recency", dataset.DeriveRecency, 1, at),
			number("city+age~+at.hour:count", dataset.DeriveCount, 2),
			number("at.hour", dataset.DeriveHour, -1, at),
			number("born.age", dataset.DeriveAge, -1, at, dataset.Part{Column: "born", Kind: dataset.Temporal}),
			{Name: "city.levels", Kind: dataset.Categorical, Bins: 2, Categories: []string{"Bonn"}, Counts: []int64{3},
				MissingBin: -1, OtherBin: 1,
				From: &dataset.Derived{What: dataset.DeriveLevels, Table: -1, Of: []dataset.Part{city}}},
		},
		Tables: []dataset.LevelTable{
			{Of: []dataset.Part{{Column: "id", Kind: dataset.Categorical}}, Levels: 4, Floor: 1, Prior: 0.5,
				Strength: 1, BackOff: -1},
			{Of: []dataset.Part{city}, First: 4, Levels: 3, Floor: 1, Prior: 0.5, Strength: 10, BackOff: 0,
				Recency: true},
			{Of: []dataset.Part{city, age, hour}, First: 7, Levels: 0, Floor: 2, Prior: 0.5, Strength: 2, BackOff: -1},
		},
	}
}

// levelsFor returns random levels for an encoding's tables; nil if these have none. Among the levels of each table are
// those of three texts of randomBatch, so that some values are found.
func levelsFor(e *dataset.Encoding, rng *rand.Rand) *dataset.Levels {
	n := 0
	for _, t := range e.Tables {
		n += t.Levels
	}
	if n == 0 {
		return nil
	}
	l := &dataset.Levels{}
	for _, t := range e.Tables {
		known := []uint64{encode.Text("7"), encode.Text("Ulm"), encode.Missing()}
		hashes := make([]uint64, t.Levels)
		for i := range hashes {
			hashes[i] = rng.Uint64()
			if i < len(known) {
				hashes[i] = encode.Join(encode.Level(), known[i])
			}
		}
		slices.Sort(hashes)
		for _, h := range hashes {
			l.Hash, l.Sum, l.Rows, l.Last = append(l.Hash, h), append(l.Sum, rng.NormFloat64()),
				append(l.Rows, rng.Uint32N(100)), append(l.Last, 1.5e9)
		}
	}
	return l
}

// randomBatch returns up to eight rows with a column for each name. Columns are of any type, with values that may be
// null, missing markers, odd or extreme.
func randomBatch(names []string, rng *rand.Rand) *table.Batch {
	b := &table.Batch{Names: names, Rows: rng.IntN(9)}
	texts := []string{"", "-999", "7", "7.0", "Ulm", "Bonn", "TRUE", "2017-07-02", "2017-07-02T10:03:20Z", "1e400",
		"\xff", "nan", "-0.25", "-999.0"}
	floats := []float64{0, -1, 7, 1e300, math.Inf(1), math.Inf(-1), math.NaN(), 1.5e9}
	for range names {
		v := dataset.Values{Type: []dataset.Type{dataset.Text, dataset.Float, dataset.Int, dataset.Bool,
			dataset.Time}[rng.IntN(5)]}
		if v.Type == dataset.Time {
			v.Unit = []dataset.Unit{dataset.Day, dataset.Milli, dataset.Micro, dataset.Nano}[rng.IntN(4)]
		}
		if rng.IntN(2) == 0 {
			v.Null = make([]bool, b.Rows)
		}
		for i := range b.Rows {
			switch v.Type {
			case dataset.Text:
				v.Text = append(v.Text, texts[rng.IntN(len(texts))])
			case dataset.Float:
				v.Float = append(v.Float, floats[rng.IntN(len(floats))])
			case dataset.Bool:
				v.Int = append(v.Int, rng.Int64N(2))
			default:
				v.Int = append(v.Int, []int64{0, 7, -1, math.MaxInt64, math.MinInt64}[rng.IntN(5)])
			}
			if v.Null != nil && rng.IntN(3) == 0 {
				v.Null[i] = true
				if v.Type == dataset.Float {
					v.Float[i] = math.NaN()
				}
			}
		}
		b.Columns = append(b.Columns, v)
	}
	return b
}

// tryEncoding decodes text as features.json and encodes 20 random batches by it. Nothing that DecodeEncoding accepts
// may panic, and what cannot be encoded must be a *table.InputError. It returns how many batches were encoded.
func tryEncoding(t *testing.T, text []byte, seed uint64) (encoded int) {
	e, err := dataset.DecodeEncoding(text)
	if err != nil {
		return 0
	}
	last := len(e.Tables) - 1
	if last >= 0 && e.Tables[last].First+e.Tables[last].Levels > 1<<12 {
		return 0 // making so many levels would take too long
	}

	// Make the encoder; without the levels of its tables it must be refused.
	rng := rand.New(rand.NewPCG(seed, 1))
	levels := levelsFor(e, rng)
	enc, err := NewEncoder(e, levels)
	if err != nil {
		t.Fatalf("NewEncoder of an encoding that was decoded: got error %v, want none", err)
	}
	if last >= 0 && levels != nil {
		if _, err := NewEncoder(e, nil); err == nil {
			t.Fatal("NewEncoder without the levels of its tables: got no error, want one")
		}
	}

	for range 20 {
		b := randomBatch(enc.Columns(), rng)
		var in Inputs
		out, err := enc.Encode(b, nil, &in, 1)
		var bad *table.InputError
		switch {
		case err != nil && !errors.As(err, &bad):
			t.Fatalf("got error %v of type %T, want a *table.InputError", err, err)
		case err == nil && len(out) != b.Rows*len(e.Features):
			t.Fatalf("got %d values, want %d rows x %d features", len(out), b.Rows, len(e.Features))
		case err == nil:
			encoded++
			checkCodes(t, e, out)
			checkNumbers(t, enc, b, out, &in)
		}
	}
	return encoded
}

// checkNumbers encodes the batch again with numbers in place of texts, for columns of which Encoder.Numbers says that
// this makes no difference. It expects the same values and counts: want and wantIn.
func checkNumbers(t *testing.T, enc *Encoder, b *table.Batch, want []float64, wantIn *Inputs) {
	t.Helper()
	// Replace columns of texts of which all are numbers or null.
	columns := slices.Clone(b.Columns)
	for i, may := range enc.Numbers() {
		if !may || columns[i].Type != dataset.Text {
			continue
		}
		v := dataset.Values{Type: dataset.Float}
		for r, text := range columns[i].Text {
			x, form := ParseNumber(text)
			if columns[i].IsNull(r) {
				x = math.NaN()
			} else if form == FormText { // the column stays as it is, since v gets too short
				break
			}
			v.Float = append(v.Float, x)
		}
		if len(v.Float) == b.Rows {
			columns[i] = v
		}
	}

	var in Inputs
	got, err := enc.Encode(&table.Batch{Names: b.Names, Rows: b.Rows, Columns: columns}, nil, &in, 1)
	if err != nil || !slices.Equal(in.Columns, wantIn.Columns) {
		t.Fatalf("numbers in place of texts: got %v, %+v; want %+v", err, in, *wantIn)
	}
	for i, x := range got {
		if math.Float64bits(x) != math.Float64bits(want[i]) {
			t.Fatalf("value %d from numbers: got %v, want %v as from texts", i, x, want[i])
		}
	}
}

// checkCodes checks that model values have bins, and that values of categorical features are bins themselves.
func checkCodes(t *testing.T, e *dataset.Encoding, values []float64) {
	t.Helper()
	for i, x := range values {
		f := &e.Features[i%len(e.Features)]
		if f.Kind == dataset.Categorical && !(x >= 0 && x < float64(f.Bins) && x == math.Trunc(x)) {
			t.Fatalf("categorical feature %q has value %v, want a bin below %d", f.Name, x, f.Bins)
		}
		if bin := f.BinOfNumber(x); int(bin) >= f.Bins {
			t.Fatalf("feature %q has bin %d for %v, want one below %d", f.Name, bin, x, f.Bins)
		}
	}
}

// FuzzEncoder runs tryEncoding on changed encodings.
func FuzzEncoder(f *testing.F) {
	e := ofEverything()
	for range 2 {
		text := must.Get(json.Marshal(e))(f)
		f.Add(text, uint64(1))
		for i := range e.Tables { // once more with tables of which all levels were pruned
			e.Tables[i].First, e.Tables[i].Levels = 0, 0
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, seed uint64) { tryEncoding(t, text, seed) })
}

// TestOddBatchesAreEncoded checks that FuzzEncoder's seeds are worth trying: with random types most batches are
// refused, but at least one in a hundred must be encoded, with tables and with tables of which no level is left. It
// tries 50 seeds of 20 batches each.
func TestOddBatchesAreEncoded(t *testing.T) {
	for _, pruned := range []bool{false, true} {
		e := ofEverything()
		for i := range e.Tables {
			if pruned {
				e.Tables[i].First, e.Tables[i].Levels = 0, 0
			}
		}
		text := must.Get(json.Marshal(e))(t)
		encoded := 0
		for seed := range uint64(50) {
			encoded += tryEncoding(t, text, seed)
		}
		if encoded < 10 {
			t.Errorf("tables without levels %t: %d of 1,000 batches were encoded, want at least 10", pruned, encoded)
		}
	}
}

// TestParseNumber checks which texts are numbers, ids made of digits, or texts, and that numbers have the value that Go
// reads. ParseForced must read ids as numbers, too, and booleans as 1 and 0.
func TestParseNumber(t *testing.T) {
	for text, want := range map[string]struct {
		x float64
		f Form
	}{
		"0": {0, FormNumber}, "-0": {math.Copysign(0, -1), FormNumber}, "17": {17, FormNumber}, "+17": {17, FormNumber},
		" 17\t": {17, FormNumber},
		"1.5":   {1.5, FormNumber}, ".5": {.5, FormNumber}, "5.": {5, FormNumber}, "-0.25": {-.25, FormNumber},
		"0.1":   {.1, FormNumber},
		"1e-05": {1e-5, FormNumber}, "1E+20": {1e20, FormNumber}, "1.0E10": {1e10, FormNumber},
		"-5e3": {-5000, FormNumber}, "1e-400": {0, FormNumber},
		"inf": {math.Inf(1), FormNumber}, "-Infinity": {math.Inf(-1), FormNumber},
		"+INF":             {math.Inf(1), FormNumber},
		"9007199254740992": {1 << 53, FormNumber}, "9007199254740993": {1 << 53, FormBig},
		"-9007199254740993":       {-(1 << 53), FormBig},
		"12345678901234567890123": {12345678901234567890123, FormBig}, "1234567890123456.5": {1234567890123456.5,
			FormNumber}, "0.1234567890123456789": {0.1234567890123456789, FormNumber},
		"623049e6": {623049e6, FormDigits}, "24154600": {24154600, FormNumber}, "1e5": {1e5, FormDigits},
		"1E5":  {1e5, FormDigits},
		"0052": {52, FormDigits}, "00": {0, FormDigits}, "-007": {-7, FormDigits}, "00.5": {.5, FormDigits},
		"0.50": {.5, FormNumber},
		"":     {0, FormText}, " ": {0, FormText}, "-": {0, FormText}, ".": {0, FormText}, "e5": {0, FormText},
		"1e": {0, FormText}, "1e+": {0, FormText}, "1 2": {0, FormText},
		"0x1p4": {0, FormText}, "1_000": {0, FormText}, "1,5": {0, FormText}, "12a": {0, FormText},
		"--1": {0, FormText}, "1.2.3": {0, FormText}, "infin": {0, FormText}, "nanny": {0, FormText},
		"٣": {0, FormText},
	} {
		x, f := ParseNumber(text)
		if f != want.f || f != FormText && math.Float64bits(x) != math.Float64bits(want.x) {
			t.Errorf("%q: %v, form %d; want %v, form %d", text, x, f, want.x, want.f)
		}
	}
	// NaN is a number. One that is too large for a float64 is NaN, too, but takes the form of an id.
	for _, text := range []string{"nan", "NaN", "-nan", "NAN", "1e+999", "-1e400"} {
		x, f := ParseNumber(text)
		want := FormNumber
		if strings.Contains(text, "e") {
			want = FormDigits
		}
		if f != want || x == x {
			t.Errorf("%q: %v, form %d; want NaN, form %d", text, x, f, want)
		}
	}
	for text, want := range map[string]float64{"True": 1, "false": 0, "0052": 52, "623049e6": 623049e6} {
		if x, ok := ParseForced(text); !ok || x != want {
			t.Errorf("ParseForced of %q: %v, %t; want %v", text, x, ok, want)
		}
	}
}

// FuzzNumber compares ParseNumber with strconv.ParseFloat: both must agree on what is a number, except for hexadecimal
// forms and underscores, and on its value, except that numbers beyond the range of a float64 are NaN.
func FuzzNumber(f *testing.F) {
	for _, s := range []string{"1.5", "-0.1e-7", "9007199254740993", "0052", "623049e6", "123456789012345",
		"0.000000000000000000000012", "inf", "1e999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		x, form := ParseNumber(s)
		want, err := strconv.ParseFloat(Trim(s), 64)
		if form == FormText {
			if err == nil && !strings.ContainsAny(s, "xX_pP") {
				t.Fatalf("%q is read as a text, want the number %v", s, want)
			}
			return
		}
		if math.IsInf(want, 0) && strings.ContainsAny(s, "0123456789") { // 1e999 is missing
			err, want = nil, math.NaN()
		}
		if err != nil {
			t.Fatalf("%q is read as the number %v, want a text: %v", s, x, err)
		}
		if math.Float64bits(x) != math.Float64bits(want) && (x == x || want == want) {
			t.Fatalf("%q: %v, want %v", s, x, want)
		}
	})
}

// TestParseTime checks forms of ISO 8601, to the nanosecond and with zones, and texts that are no times.
func TestParseTime(t *testing.T) {
	for text, want := range map[string]string{
		"2017-07-02": "2017-07-02T00:00:00Z", "2017-7-2": "2017-07-02T00:00:00Z",
		"2017-07-02 7:50": "2017-07-02T07:50:00Z", "2017-07-02T07:50": "2017-07-02T07:50:00Z",
		"2017-07-02 10:03:20": "2017-07-02T10:03:20Z", "2017-07-02T10:03:20.5Z": "2017-07-02T10:03:20.5Z",
		"2017-07-02 10:03:20,25":            "2017-07-02T10:03:20.25Z",
		"2017-07-02T10:03:20.123456789123Z": "2017-07-02T10:03:20.123456789Z",
		"2017-07-02T10:03:20+02:00":         "2017-07-02T08:03:20Z",
		"2017-07-02 10:03:20 -0530":         "2017-07-02T15:33:20Z",
		"2017-07-02T10:03+01":               "2017-07-02T09:03:00Z", "1969-12-31T23:59:59.5z": "1969-12-31T23:59:59.5Z",
		"2016-02-29": "2016-02-29T00:00:00Z", "9999-12-31": "9999-12-31T00:00:00Z",
		" 2000-02-29\t": "2000-02-29T00:00:00Z", "0000-01-01": "0000-01-01T00:00:00Z",
	} {
		at := must.Get(time.Parse(time.RFC3339Nano, want))(t)
		sec, nsec, ok := ParseTime(text)
		if !ok || sec != at.Unix() || nsec != int64(at.Nanosecond()) {
			t.Errorf("%q: read %t, %d s and %d ns; want %d and %d (%s)", text, ok, sec, nsec, at.Unix(),
				at.Nanosecond(), want)
		}
	}
	for _, text := range []string{"", "2017", "2017-13-01", "2017-02-29", "1900-02-29", "2017-00-01", "2017-01-00",
		"2017-01-32", "20170101", "2017-01-01T", "2017-01-01 25:00",
		"2017-01-01 10", "2017-01-01 10:60", "2017-01-01 10:00:61", "2017-01-01 10:00:00.", "2017-01-01 10:00 +25:00",
		"2017-01-01 10:00 CET", "2017-01-01x", "17-01-01", "-017-01-01", "abc"} {
		if _, _, ok := ParseTime(text); ok {
			t.Errorf("%q is read as a time, want it refused", text)
		}
	}
}

// TestTexts reads the texts of testdata/texts.json, which the tests of the Python package read, too. For each format of
// a column, and for times that are read without one, it has texts with what they are read as, or null if they are
// refused.
func TestTexts(t *testing.T) {
	data := must.Get(os.ReadFile("testdata/texts.json"))(t)
	var forms map[string]map[string]any
	must.Do(t, json.Unmarshal(data, &forms))
	for form, texts := range forms {
		order := orders[dataset.Format(form)] // YearFirst for times without a format
		for text, want := range texts {
			if f := dataset.Format(form); f == dataset.AsNumber || f == dataset.DecimalComma {
				v, err := ReadAs(f, &dataset.Values{Type: dataset.Text, Text: []string{text}}, NewMarkers(nil))
				if x, _ := want.(float64); (err == nil) != (want != nil) || err == nil && v.Float[0] != x {
					t.Errorf("%s %q is read as %v, %v; expected %v", form, text, v.Float, err, want)
				}
				continue
			}
			sec, nsec, ok := parseTime(text, order)
			got := any(nil)
			if ok {
				got = time.Unix(sec, nsec).UTC().Format(time.RFC3339Nano)
			}
			must.Equal(t, got, want, "%s %q is read as", form, text)
		}
	}
}

// FuzzTime checks that a time is read as the same one after it has been written in UTC, and that texts which Go reads,
// too, are the same time.
func FuzzTime(f *testing.F) {
	f.Add("2017-07-02T10:03:20.5+02:00")
	f.Add("2017-7-2 7:50")
	f.Fuzz(func(t *testing.T, s string) {
		sec, nsec, ok := ParseTime(s)
		if !ok {
			return
		}
		if nsec < 0 || nsec > 999999999 {
			t.Fatalf("%q: %d ns, want from 0 to 999999999", s, nsec)
		}
		// In UTC the year may be -1 or 10000, which ParseTime does not read: those times are not read again.
		again := time.Unix(sec, nsec).UTC().Format("2006-01-02T15:04:05.999999999Z")
		sec2, nsec2, ok := ParseTime(again)
		if (!ok || sec2 != sec || nsec2 != nsec) && len(again) >= 20 && again[4] == '-' {
			t.Fatalf("%q is %s, which is read as %d s, %d ns; want %d and %d", s, again, sec2, nsec2, sec, nsec)
		}
		if at, err := time.Parse(time.RFC3339Nano, s); err == nil &&
			(at.Unix() != sec || int64(at.Nanosecond()) != nsec) {
			t.Fatalf("%q: %d s and %d ns; want %s as Go reads it", s, sec, nsec, at)
		}
	})
}

// TestMarkers checks that a missing marker is found whatever the spaces around it, but only as it is written, and that
// one which is a number is also found as a number. NAN has the first letter of one marker and the length of another.
func TestMarkers(t *testing.T) {
	markers := NewMarkers([]string{"", "NA", "-999", "n/a "})
	for text, want := range map[string]bool{"": true, "  ": true, "NA": true, " NA ": true, "na": false, "-999": true,
		"-999.0": false, "n/a": true, "NAN": false} {
		must.Equal(t, markers.Has(text), want, "whether %q is a missing marker", text)
	}
	if !markers.HasNumber(-999) || markers.HasNumber(0) {
		t.Errorf("-999 is a marker as a number: %t, and 0: %t; want the first alone", markers.HasNumber(-999),
			markers.HasNumber(0))
	}
	if NewMarkers(nil).Has("") {
		t.Error("without markers the empty text stands for a missing value, want it not to")
	}
}

// TestShortNumbers compares shortNumber with ParseNumber on random texts of digits, signs, points and exponents: 40 of
// 45 characters to draw from are digits, so that many texts are numbers.
func TestShortNumbers(t *testing.T) {
	rng := rand.New(rand.NewPCG(34, 1))
	read := 0
	for range 100_000 {
		text := make([]byte, rng.IntN(18))
		for i := range text {
			text[i] = (strings.Repeat("0123456789", 4) + "-.+e ")[rng.IntN(45)]
		}
		got, ok := shortNumber(string(text))
		if !ok {
			continue
		}
		read++
		want, form := ParseNumber(string(text))
		if form == FormText || math.Float64bits(got) != math.Float64bits(want) {
			t.Fatalf("%q is read as %v; want %v (form %d)", text, got, want, form)
		}
	}
	if read < 10_000 {
		t.Errorf("%d texts are short numbers, want 10,000 of 100,000", read)
	}
}
