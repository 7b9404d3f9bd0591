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
	inputs   []string // names of the columns that features are made of
	parts    Parts    // of all tables
	partsOf  [][]int  // by table, indices of its parts
	guides   []guide  // by table

	countRules []countRule        // by input
	encoders   []*ColumnEncoder   // by feature; nil for a derived one, except for further categories of a column
	features   [][]int            // by feature, the inputs of the columns that it is made of, without those of tables
	partIn     []int              // by part, its input
	readers    []*PartReader      // by part; every lookup has copies with memory of their own
	kinds      [2]dataset.Feature // a feature of numbers and one of times, to read columns that are not features

	lookups sync.Pool // of *lookup
}

// NewEncoder makes the encoder for a dataset's features (dataset.Manifest.Encoding) or a model's (features.json).
// levels are those of its tables, nil if it has none. They must stay open as long as the encoder is used, and the
// encoder does not close them.
func NewEncoder(e *dataset.Encoding, levels *dataset.Levels) (*Encoder, error) {
	// The levels must be those of the tables, whose levels follow each other.
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

	// The parts of the tables' levels.
	for i := range e.Tables {
		var of []int
		for _, part := range e.Tables[i].Of {
			number, _ := enc.parts.Add(part) // the part's index, whether new or shared with another table
			of = append(of, number)
		}
		enc.partsOf = append(enc.partsOf, of)
		enc.guides = append(enc.guides, newGuide(&e.Tables[i], levels))
	}
	enc.countRules = newCountRules(e, enc.inputs)

	// Which inputs features and parts are made of.
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

// Columns returns the names of the columns that the features are made of: those that a batch for Encode needs.
func (e *Encoder) Columns() []string { return e.inputs }

// Numbers reports for each of Columns whether its values may be given as numbers instead of texts, with the same
// result. That is so if it is a numeric feature, and all else that is made of the column is made of its numbers.
func (e *Encoder) Numbers() []bool {
	// Numeric features, unless something derived or a part of a table reads the column otherwise.
	numbers := make([]bool, len(e.inputs))
	for i, w := range e.countRules {
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

// Encode returns the model values of a batch: [b.Rows x features], in the memory of out if that suffices. The model
// value of a numeric feature is the number (NaN if missing, infinities clamped to the float64 range), of a time the
// seconds since 1970, of a category its bin, and of a derived feature what FORMAT.md says.
//
// Columns are found by name, and others are ignored. A column that is missing, or a value that cannot be read as its
// feature's kind, is a *table.InputError. If in is not nil, the values of the columns are counted there. Up to threads
// goroutines share the rows.
func (e *Encoder) Encode(b *table.Batch, out []float64, in *Inputs, threads int) ([]float64, error) {
	errorAt := func(row int, column, msg string) error { return b.ErrorAt(row, column, "%s", msg) }
	r := rows{n: b.Rows, file: b.File, names: b.Names, columns: b.Columns, errorAt: errorAt}
	return e.encode(r, out, in, threads)
}

// EncodeSample returns the model values of a dataset's sample, as Encode does. The sample may be from another dataset
// than the encoder.
func (e *Encoder) EncodeSample(s *dataset.Sample) ([]float64, error) {
	return e.encode(sampled(s), nil, nil, 1)
}

// rows is the rows to encode, from a batch or a sample.
type rows struct {
	n       int
	file    string // for messages
	names   []string
	columns []dataset.Values
	errorAt func(row int, column, msg string) error
}

// sampled returns the rows of a sample.
func sampled(s *dataset.Sample) rows {
	errorAt := func(row int, column, msg string) error {
		return &table.InputError{File: dataset.SampleFile, Row: int64(row) + 1, Column: column, Msg: msg}
	}
	return rows{n: len(s.Row), file: dataset.SampleFile, names: s.Names, columns: s.Columns, errorAt: errorAt}
}

// chunkRows is how many rows are encoded at a time: their values stay in the cache while one feature after the other is
// written into their rows.
const chunkRows = 256

// encode is Encode for any rows.
func (e *Encoder) encode(r rows, out []float64, in *Inputs, threads int) ([]float64, error) {
	look := e.lookups.Get().(*lookup)
	defer look.release()
	if err := look.findColumns(&r); err != nil {
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
