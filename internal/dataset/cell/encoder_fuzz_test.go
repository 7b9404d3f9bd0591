package cell

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/dataset/encode"
	"coppice/internal/dataset/table"
	"coppice/internal/must"
)

// ofEverything is an encoding with one feature of each derivation: what features.json may hold.
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

// levelsFor are levels for an encoding's tables; nil where it has none. The first few of each table are those that the
// texts of randomBatch have in a table of one column of categories; the others are random.
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
			if hashes[i] = rng.Uint64(); i < len(known) {
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

// randomBatch has a column for each name, of any type, with values that may be absent, odd or extreme.
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

// tryEncoding makes an encoder of features.json and gives it batches of all kinds. Nothing that DecodeEncoding accepts
// may panic, and what cannot be encoded is a *table.InputError.
func tryEncoding(t *testing.T, text []byte, seed uint64) (encoded int) {
	e, err := dataset.DecodeEncoding(text)
	if err != nil {
		return 0
	}
	last := len(e.Tables) - 1
	if last >= 0 && e.Tables[last].First+e.Tables[last].Levels > 1<<12 {
		return 0 // more than is needed here; the number of levels is not what the features are about
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	levels := levelsFor(e, rng)
	enc, err := NewEncoder(e, levels)
	if err != nil {
		t.Fatalf("an encoding that was read has no encoder: %v", err)
	}
	if last >= 0 && levels != nil {
		if _, err := NewEncoder(e, nil); err == nil {
			t.Fatal("tables with levels were given none")
		}
	}

	for range 20 {
		b := randomBatch(enc.Columns(), rng)
		var in Inputs
		out, err := enc.Encode(b, nil, &in, 1)
		var bad *table.InputError
		switch {
		case err != nil && !errors.As(err, &bad):
			t.Fatalf("untyped error %T: %v", err, err)
		case err == nil && len(out) != b.Rows*len(e.Features):
			t.Fatalf("%d values in %d rows of %d features", len(out), b.Rows, len(e.Features))
		case err == nil:
			encoded++
			checkCodes(t, e, out)
			checkNumbers(t, enc, b, out, &in)
		}
	}
	return encoded
}

// checkNumbers gives the encoder numbers in place of their texts, where it says that it may be: the same comes out.
func checkNumbers(t *testing.T, enc *Encoder, b *table.Batch, want []float64, wantIn *Inputs) {
	t.Helper()
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
			} else if form == FormText {
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

// checkCodes makes sure that every code is a bin of its feature.
func checkCodes(t *testing.T, e *dataset.Encoding, values []float64) {
	t.Helper()
	for i, x := range values {
		f := &e.Features[i%len(e.Features)]
		if f.Kind == dataset.Categorical && !(x >= 0 && x < float64(f.Bins) && x == math.Trunc(x)) {
			t.Fatalf("feature %q, of %d bins, has the code %v", f.Name, f.Bins, x)
		}
		if bin := f.BinOfNumber(x); int(bin) >= f.Bins {
			t.Fatalf("feature %q, of %d bins, has bin %d for %v", f.Name, f.Bins, bin, x)
		}
	}
}

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

// The seeds above do reach the encoder: most random types are no times, but of many batches some are encoded.
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
			t.Errorf("%d of 1,000 batches were encoded, pruned %v", encoded, pruned)
		}
	}
}
