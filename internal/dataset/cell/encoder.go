package cell

import (
	"fmt"
	"sync"

	"coppice/internal/dataset"
	"coppice/internal/dataset/table"
)

// Encoder turns raw rows into the inputs of a model, by exactly the rules that staged its dataset. It is built from
// what is registered with every model, and is safe for concurrent use.
type Encoder struct {
	encoding *dataset.Encoding
	levels   *dataset.Levels
	markers  *Markers
	inputs   []string
	parts    Parts   // of all tables
	partsOf  [][]int // by table, indices of its parts
	guides   []guide // by table

	witnesses []witness          // by input
	encoders  []*ColumnEncoder   // by feature that is a column, or the further categories of one; nil for others
	features  [][]int            // by feature, the inputs of the columns it is directly made of
	partIn    []int              // by part, its input
	readers   []*PartReader      // by part; every lookup has copies
	kinds     [2]dataset.Feature // a number and a time

	lookups sync.Pool // of *lookup
}

// NewEncoder makes the encoder for a dataset's features (dataset.Manifest.Encoding) or a model's (features.json).
// levels are those of its tables, nil if it has none; they must stay open as long as the encoder is used.
func NewEncoder(e *dataset.Encoding, levels *dataset.Levels) (*Encoder, error) {
	have, want := 0, 0
	if levels != nil {
		have = levels.Len()
	}

	if n := len(e.Tables); n > 0 {
		want = e.Tables[n-1].First + e.Tables[n-1].Levels
	}

	if have != want {
		return nil, fmt.Errorf("%d levels where the features' tables have %d", have, want)
	}

	enc := &Encoder{encoding: e, levels: levels, markers: NewMarkers(e.Missing), inputs: e.Inputs(),
		encoders: make([]*ColumnEncoder, len(e.Features)),
		kinds:    [2]dataset.Feature{{Kind: dataset.Numeric}, {Kind: dataset.Temporal}}}
	for i := range e.Features {
		if f := &e.Features[i]; f.From == nil || f.From.What == dataset.DeriveLevels {
			enc.encoders[i] = NewColumnEncoder(f, enc.markers)
		}
	}

	for i := range e.Tables {
		var of []int
		for _, part := range e.Tables[i].Of {
			number, _ := enc.parts.Add(part)
			of = append(of, number)
		}
		enc.partsOf = append(enc.partsOf, of)
		enc.guides = append(enc.guides, newGuide(&e.Tables[i], levels))
	}
	enc.witnesses = newWitnesses(e, enc.inputs)

	inputOf := make(map[string]int, len(enc.inputs))
	for i, name := range enc.inputs {
		inputOf[name] = i
	}
	enc.features = make([][]int, len(e.Features))
	for i := range e.Features {
		if f := &e.Features[i]; f.From == nil {
			enc.features[i] = []int{inputOf[f.Name]}
		} else {
			for _, part := range f.From.Of {
				enc.features[i] = append(enc.features[i], inputOf[part.Column])
			}
		}
	}
	for _, part := range enc.parts.All {
		enc.readers = append(enc.readers, NewPartReader(part, enc.markers))
		enc.partIn = append(enc.partIn, inputOf[part.Column])
	}
	enc.lookups.New = func() any { return newLookup(enc) }
	return enc, nil
}

// Columns returns the names of the columns that the features are made of, as to be passed to Table.Read.
func (e *Encoder) Columns() []string { return e.inputs }

// Numbers tells, for each of Columns, whether it is a feature of numbers and nothing else is made of it but from the
// numbers: then it may be given as numbers in place of their texts.
func (e *Encoder) Numbers() []bool {
	numbers := make([]bool, len(e.inputs))
	for i, w := range e.witnesses {
		numbers[i] = w.number >= 0 && e.encoding.Features[w.number].Kind == dataset.Numeric
	}
	for i := range e.encoding.Features {
		if f := &e.encoding.Features[i]; f.From != nil {
			for at, part := range f.From.Of {
				in := e.features[i][at]
				numbers[in] = numbers[in] && part.Kind == dataset.Numeric
			}
		}
	}
	for i, part := range e.parts.All {
		numbers[e.partIn[i]] = numbers[e.partIn[i]] && part.Kind == dataset.Numeric
	}
	return numbers
}

// Encode returns the model values of a batch in row-major order, b.Rows x features, in the memory of out if it
// suffices. A model value is: for a numeric feature the number (NaN if missing, infinities clamped to the float64
// range), for a time seconds since 1970, for a category its bin, for a derived feature what FORMAT.md says. Columns are
// found by name; additional ones are ignored, and one that is missing or cannot be read as its feature's kind is a
// *table.InputError. If in is not nil, the values seen are added to it. Up to threads goroutines share the rows.
func (e *Encoder) Encode(b *table.Batch, out []float64, in *Inputs, threads int) ([]float64, error) {
	errorAt := func(row int, column, msg string) error { return b.ErrorAt(row, column, "%s", msg) }
	return e.encode(rows{b.Rows, b.File, b.Names, b.Columns, errorAt}, out, in, threads)
}

// EncodeSample returns the model values of a dataset's sample, as Encode does. The sample may be from another dataset
// than the encoder.
func (e *Encoder) EncodeSample(s *dataset.Sample) ([]float64, error) {
	return e.encode(sampled(s), nil, nil, 1)
}

// rows are rows to encode.
type rows struct {
	n       int
	file    string // for messages
	names   []string
	columns []dataset.Values
	errorAt func(row int, column, msg string) error
}

func sampled(s *dataset.Sample) rows {
	return rows{len(s.Row), dataset.SampleFile, s.Names, s.Columns, func(row int, column, msg string) error {
		return &table.InputError{File: dataset.SampleFile, Row: int64(row) + 1, Column: column, Msg: msg}
	}}
}

// chunkRows is how many rows are encoded at a time: their values stay in the cache while one feature after the other is
// written into their rows.
const chunkRows = 256

// encode computes model values from columns, and counts the columns' values in in, which may be nil.
func (e *Encoder) encode(r rows, out []float64, in *Inputs, threads int) ([]float64, error) {
	look := e.lookups.Get().(*lookup)
	defer look.release()
	if err := look.resolve(&r); err != nil {
		return nil, err
	}
	width := len(e.encoders)
	out = dataset.Resize(out, r.n*width)

	var err error
	if r.n <= chunkRows || threads < 2 {
		for first := 0; first < r.n && err == nil; first += chunkRows {
			err = look.encode(first, min(first+chunkRows, r.n), out[first*width:], r.errorAt, in != nil)
		}
	} else {
		err = look.encodeChunks(&r, out, in != nil, threads)
	}
	if err != nil {
		return nil, err
	}
	if in != nil && r.n > 0 {
		in.Add(&Inputs{Rows: int64(r.n), Columns: look.counts})
	}
	return out, nil
}
