package cell

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"coppice/internal/dataset"
	"coppice/internal/dataset/encode"
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

	witnesses []witness        // by input
	encoders  []*ColumnEncoder // by feature that is a column, or the further categories of one; nil for others
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
		encoders: make([]*ColumnEncoder, len(e.Features))}
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
	}
	enc.witnesses = newWitnesses(e, enc.inputs)
	return enc, nil
}

// Columns returns the names of the columns that the features are made of, as to be passed to Table.Read.
func (e *Encoder) Columns() []string { return e.inputs }

// Encode returns the model values of a batch in row-major order, b.Rows x features, in the memory of out if it
// suffices. A model value is: for a numeric feature the number (NaN if missing, infinities clamped to the float64
// range), for a time seconds since 1970, for a category its bin, for a derived feature what FORMAT.md says. Columns are
// found by name; additional ones are ignored, and one that is missing or cannot be read as its feature's kind is a
// *table.InputError. If in is not nil, the values seen are added to it.
func (e *Encoder) Encode(b *table.Batch, out []float64, in *Inputs) ([]float64, error) {
	return e.encode(b.Rows, b.File, byName(b.Names, b.Columns), func(row int, column, msg string) error {
		return b.ErrorAt(row, column, "%s", msg)
	}, out, in)
}

// Segments returns, for each row of a batch, a hash of its values in some columns. Values are normalised like ids:
// 1001, "1001" and " 1001.0" are the same. A missing column is a *table.InputError.
func (e *Encoder) Segments(b *table.Batch, by []string) ([]uint64, error) {
	return e.segments(b.Rows, b.File, b.Column, by)
}

// SampleSegments is Segments for a dataset's sample.
func (e *Encoder) SampleSegments(s *dataset.Sample, by []string) ([]uint64, error) {
	return e.segments(len(s.Row), dataset.SampleFile, s.Column, by)
}

func (e *Encoder) segments(rows int, file string, column func(string) *dataset.Values, by []string) ([]uint64, error) {
	keys, part := make([]uint64, rows), make([]uint64, rows)
	for i := range keys {
		keys[i] = encode.Level()
	}

	for _, name := range by {
		v := column(name)
		if v == nil || v.Len() != rows {
			return nil, &table.InputError{File: file, Column: name, Msg: "the column is missing, but the model is " +
				"calibrated by it"}
		}
		if err := NewPartReader(dataset.Part{Column: name, Kind: dataset.Categorical}, e.markers).Hashes(v,
			part); err != nil {
			return nil, err
		}
		for i, h := range part {
			keys[i] = encode.Join(keys[i], h)
		}
	}

	return keys, nil
}

// EncodeSample returns the model values of a dataset's sample, as Encode does. The sample may be from another dataset
// than the encoder.
func (e *Encoder) EncodeSample(s *dataset.Sample) ([]float64, error) {
	return e.encode(len(s.Row), dataset.SampleFile, byName(s.Names, s.Columns), placeInSample, nil, nil)
}

func placeInSample(row int, column, msg string) error {
	return &table.InputError{File: dataset.SampleFile, Row: int64(row) + 1, Column: column, Msg: msg}
}

// encode computes model values from columns, and counts the columns' values in in, which may be nil.
func (e *Encoder) encode(rows int, file string, columns map[string]*dataset.Values,
	place func(row int, column, msg string) error, out []float64, in *Inputs) ([]float64, error) {
	for _, name := range e.inputs {
		v := columns[name]
		if v == nil {
			return nil, &table.InputError{File: file, Column: name,
				Msg: "the column is missing, but the model needs it"}
		}
		if v.Len() != rows {
			return nil, &table.InputError{File: file, Column: name, Msg: fmt.Sprintf("%d values in %d rows", v.Len(),
				rows)}
		}
	}
	width := len(e.encoders)
	out = dataset.Resize(out, rows*width)
	if rows == 0 {
		return out, nil
	}

	tables := len(e.encoding.Tables)
	look := lookup{e: e, rows: rows, columns: columns, parts: make([][]uint64, len(e.parts.All)),
		slots: make([][]int32, tables),
		rates: make([][]float64, tables)}
	for i := range e.encoders {
		name, err := look.feature(i, out[i:], width)
		var value *ValueError
		if errors.As(err, &value) {
			return nil, place(value.At, name, value.Msg)
		}
		if err != nil {
			return nil, err
		}
	}

	if in != nil {
		return out, look.count(in, out)
	}
	return out, nil
}

// byName returns columns by their names; of two with one name, the first.
func byName(names []string, columns []dataset.Values) map[string]*dataset.Values {
	out := make(map[string]*dataset.Values, len(names))
	for i, name := range slices.Backward(names) {
		out[name] = &columns[i]
	}
	return out
}

// lookup is the encoding of some rows; levels needed by several features are looked up once.
type lookup struct {
	e       *Encoder
	rows    int
	columns map[string]*dataset.Values
	parts   [][]uint64  // by part, the rows' hashes
	slots   [][]int32   // by table, the positions of the rows' levels; -1 if unknown
	rates   [][]float64 // by table
}

// feature writes the values of feature i to out[0], out[stride] ... An error about a value also names the column.
func (l *lookup) feature(i int, out []float64, stride int) (column string, err error) {
	f := &l.e.encoding.Features[i]
	if c := l.e.encoders[i]; c != nil {
		column = f.Name
		if f.From != nil {
			column = f.From.Of[0].Column
		}
		return column, c.values(l.columns[column], out, stride)
	}

	switch what := f.From.What; what {
	case dataset.DeriveHour, dataset.DeriveWeekday, dataset.DeriveAge:
		return l.calendar(f.From, out, stride)
	case dataset.DeriveRate:
		rates, column, err := l.rate(f.From.Table)
		for r, x := range rates {
			out[r*stride] = x
		}
		return column, err
	default:
		slots, column, err := l.find(f.From.Table)
		if err != nil || what == dataset.DeriveCount {
			for r, at := range slots {
				out[r*stride] = 0
				if at >= 0 {
					out[r*stride] = float64(l.e.levels.Rows[at])
				}
			}
			return column, err
		}
		return l.recency(f.From, slots, out, stride)
	}
}

// times returns a column of times as seconds since 1970, and one of numbers as it is.
func (l *lookup) times(p dataset.Part) ([]float64, error) {
	c := NewNumbers(p.Column, p.Kind, l.e.markers)
	numbers, _, err := c.Numbers(l.columns[p.Column], nil)
	return numbers, err
}

// calendar writes hours, weekdays or other calendar values of times.
func (l *lookup) calendar(d *dataset.Derived, out []float64, stride int) (column string, err error) {
	var times [2][]float64
	for i, p := range d.Of {
		if times[i], err = l.times(p); err != nil {
			return p.Column, err
		}
	}

	for r, t := range times[0] {
		if d.What == dataset.DeriveAge {
			out[r*stride] = Age(t, times[1][r])
		} else {
			out[r*stride] = Take(d.What, t)
		}
	}
	return "", nil
}

// recency writes the time since the levels were last seen.
func (l *lookup) recency(d *dataset.Derived, slots []int32, out []float64, stride int) (column string, err error) {
	now, err := l.times(d.Of[0])
	for r, at := range slots {
		out[r*stride] = math.NaN()
		if at >= 0 && err == nil {
			out[r*stride] = now[r] - l.e.levels.Last[at]
		}
	}
	return d.Of[0].Column, err
}

// rate returns the rates of the rows' levels in a table.
func (l *lookup) rate(table int) (rates []float64, column string, err error) {
	if l.rates[table] != nil {
		return l.rates[table], "", nil
	}

	slots, column, err := l.find(table)
	if err != nil {
		return nil, column, err
	}

	t := &l.e.encoding.Tables[table]
	var above []float64
	if t.BackOff >= 0 {
		if above, column, err = l.rate(t.BackOff); err != nil {
			return nil, column, err
		}
	}

	rates = make([]float64, l.rows)
	for r, at := range slots {
		sum, n, prior := 0.0, 0.0, t.Prior
		if at >= 0 {
			sum, n = l.e.levels.Sum[at], l.e.levels.Seen(int(at))
		}
		if above != nil {
			prior = above[r]
		}
		rates[r] = t.Rate(sum, n, prior)
	}

	l.rates[table] = rates
	return rates, "", nil
}

// find returns the positions of the rows' levels in a table.
func (l *lookup) find(table int) (slots []int32, column string, err error) {
	if l.slots[table] != nil {
		return l.slots[table], "", nil
	}

	t := &l.e.encoding.Tables[table]
	levels := make([]uint64, l.rows)
	for i := range levels {
		levels[i] = encode.Level()
	}

	for _, number := range l.e.partsOf[table] {
		part := l.parts[number]
		if part == nil { // several tables may share it
			p := l.e.parts.All[number]
			part = make([]uint64, l.rows)
			if err := NewPartReader(p, l.e.markers).Hashes(l.columns[p.Column], part); err != nil {
				return nil, p.Column, err
			}
			l.parts[number] = part
		}
		for i, h := range part {
			levels[i] = encode.Join(levels[i], h)
		}
	}

	slots = make([]int32, l.rows)
	for i, level := range levels {
		slots[i] = -1
		if at, ok := l.e.levels.Find(t, max(level, 1)); ok {
			slots[i] = int32(at)
		}
	}

	l.slots[table] = slots
	return slots, "", nil
}
