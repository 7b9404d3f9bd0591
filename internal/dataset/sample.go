package dataset

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"unicode/utf8"
)

// RowColumn is the sample's column with each row's number in its split.
const RowColumn = "__row"

// Sample holds some held-out rows with their raw values, as in the table. It allows checking a finished model without
// knowledge of bins, and comparing models of different datasets.
type Sample struct {
	Split   string
	Row     []uint32 // each sampled row's number in the split, ascending
	Names   []string // of the features, in the manifest's order
	Columns []Values // one per name
}

// Metadata of sample.arrow: the split, and each column's Type (and Unit).
const (
	metaSplit = "split"
	metaType  = "type"
	metaUnit  = "unit"
)

// Column returns the values of the feature called name, or nil if there is no such feature.
func (s *Sample) Column(name string) *Values {
	for i, n := range s.Names {
		if n == name {
			return &s.Columns[i]
		}
	}
	return nil
}

// Select returns a sample with some of the rows, given by ascending indices.
func (s *Sample) Select(rows []int) *Sample {
	out := &Sample{Split: s.Split, Row: Pick(s.Row, rows), Names: s.Names}
	for i := range s.Columns {
		out.Columns = append(out.Columns, pickValues(&s.Columns[i], rows))
	}
	return out
}

// Encode returns the sample as an Arrow file, which ReadSample reads. It fails if a column has more than 2 GiB of text.
func (s *Sample) Encode() ([]byte, error) { return s.encode(context.Background()) }

// encode is Encode, but returns ctx's error if ctx ends before a column is written.
func (s *Sample) encode(ctx context.Context) ([]byte, error) {
	fields := []arrowField{{name: RowColumn, typ: arrowUint32}}
	cols := []column{{}}
	for i, name := range s.Names {
		f, c, err := sampleField(name, &s.Columns[i])
		if err != nil {
			return nil, err
		}
		fields = append(fields, f)
		cols = append(cols, c)
	}

	l := newLayout(fields, cols, int64(len(s.Row)), []keyValue{{metaSplit, s.Split}})
	file := make([]byte, l.size)
	copy(file, l.head)
	copy(file[l.tailAt:], l.foot)
	at := func(s span) []byte { return file[s.off : s.off+s.n] }

	// The row numbers, and then each feature's nulls and values.
	rows := at(l.columns[0].data)
	for i, r := range s.Row {
		binary.LittleEndian.PutUint32(rows[4*i:], r)
	}

	for i := range s.Columns {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		v, c := &s.Columns[i], l.columns[i+1]
		if validity := at(c.validity); len(validity) > 0 {
			for j := range v.Len() {
				if !v.IsNull(j) {
					validity[j/8] |= 1 << (j % 8)
				}
			}
		}
		v.encode(at(c.offsets), at(c.data))
	}
	return file, nil
}

// sampleField returns how a column is stored, and how many nulls and bytes of text it has. Truth values and times are
// stored as whole numbers.
func sampleField(name string, v *Values) (arrowField, column, error) {
	f := arrowField{name: name, typ: arrowInt64, nullable: true, meta: []keyValue{{metaType, string(v.Type)}}}
	var c column
	switch v.Type {
	case Text:
		f.typ = arrowUtf8
		for i, t := range v.Text {
			if !v.IsNull(i) {
				c.textBytes += int64(len(t))
			}
		}
		if c.textBytes > math.MaxInt32 {
			return f, c, fmt.Errorf("column %q: the sample's texts have %d bytes, more than %d; drop the column or "+
				"lower `sample`", name, c.textBytes, math.MaxInt32)
		}
	case Float:
		f.typ = arrowFloat64
	case Time:
		f.meta = append(f.meta, keyValue{metaUnit, string(v.Unit)})
	}

	for i := range v.Null {
		if v.Null[i] {
			c.nulls++
		}
	}
	return f, c, nil
}

// encode writes the values into the buffers of a column, which are zero. offsets is for texts only. Nulls stay zero.
func (v *Values) encode(offsets, data []byte) {
	end := uint32(0)
	for i := range v.Len() {
		null := v.IsNull(i)
		switch v.Type {
		case Text:
			if !null {
				end += uint32(copy(data[end:], v.Text[i]))
			}
			// A null has an offset as well, with no bytes.
			binary.LittleEndian.PutUint32(offsets[4*i+4:], end)

		case Float:
			if !null {
				binary.LittleEndian.PutUint64(data[8*i:], math.Float64bits(v.Float[i]))
			}

		default:
			if !null {
				binary.LittleEndian.PutUint64(data[8*i:], uint64(v.Int[i]))
			}
		}
	}
}

// ReadSample decodes and checks the contents of a sample.arrow: the row numbers, which ascend, in a first column
// RowColumn, and then a column for each feature. It copies the data.
func ReadSample(data []byte) (*Sample, error) {
	f, err := parseArrow(SampleFile, data)
	if err != nil {
		return nil, err
	}
	fail := func(format string, args ...any) (*Sample, error) {
		return nil, badFile(SampleFile, -1, fmt.Sprintf(format, args...))
	}

	// The split and the row numbers.
	if len(f.meta) != 1 || f.meta[0].key != metaSplit {
		return fail("the schema does not say of which split it is a sample")
	}
	if f.fields[0].name != RowColumn || f.fields[0].typ != arrowUint32 || f.nulls[0] != 0 || f.rows > MaxSample {
		return fail("no column %s of up to %d row numbers", RowColumn, MaxSample)
	}

	s := &Sample{Split: f.meta[0].value, Row: make([]uint32, f.rows)}
	rows := data[f.columns[0].data.off:]
	for i := range s.Row {
		s.Row[i] = binary.LittleEndian.Uint32(rows[4*i:])
		if i > 0 && s.Row[i] <= s.Row[i-1] {
			return fail("row numbers do not ascend at row %d", i)
		}
	}

	// The features.
	seen := map[string]bool{RowColumn: true}
	for i := 1; i < len(f.fields); i++ {
		name := f.fields[i].name
		if seen[name] {
			return fail("column %.60q is repeated", name)
		}
		seen[name] = true
		v, err := f.decodeColumn(data, i)
		if err != nil {
			return nil, err
		}
		s.Names = append(s.Names, name)
		s.Columns = append(s.Columns, *v)
	}
	return s, nil
}

// decodeColumn decodes column i of a sample and checks its type, nulls and texts. A null of a column of floats is NaN.
func (f *arrowFile) decodeColumn(data []byte, i int) (*Values, error) {
	field := f.fields[i]
	c := f.columns[i]
	rows := int(f.rows)

	v := &Values{}
	for _, kv := range field.meta {
		switch kv.key {
		case metaType:
			v.Type = Type(kv.value)
		case metaUnit:
			v.Unit = Unit(kv.value)
		}
	}

	wrong := func(at int64, what string) (*Values, error) {
		return nil, badFile(SampleFile, at, fmt.Sprintf("column %.60q: %s", field.name, what))
	}

	// The type in the metadata must go with the type in which values are stored, and times alone have a unit, a known
	// one.
	stored, known := map[Type]arrowType{Text: arrowUtf8, Float: arrowFloat64, Int: arrowInt64, Bool: arrowInt64,
		Time: arrowInt64}[v.Type]
	unitFits := v.Unit == ""
	if v.Type == Time {
		unitFits = v.Unit == Day || v.Unit.PerSecond() > 0 // PerSecond is 0 for Day
	}
	if !known || stored != field.typ || !unitFits {
		return wrong(-1, fmt.Sprintf("the type %.20q with the unit %.20q does not fit the column", v.Type, v.Unit))
	}

	// Bit j of the validity bitmap says that value j is not null.
	if c.validity.n > 0 {
		v.Null = make([]bool, rows)
		nulls := int64(0)
		for j := range v.Null {
			if data[c.validity.off+int64(j/8)]>>(j%8)&1 == 0 {
				v.Null[j] = true
				nulls++
			}
		}
		if nulls != f.nulls[i] {
			return wrong(c.validity.off, fmt.Sprintf("%d nulls where the metadata says %d", nulls, f.nulls[i]))
		}
	}

	// parseArrow has checked that the buffers have the bytes of so many rows, except for those of texts.
	buf := data[c.data.off : c.data.off+c.data.n]
	switch v.Type {
	case Text:
		if bad := v.decodeText(data[c.offsets.off:c.offsets.off+c.offsets.n], buf); bad >= 0 {
			return wrong(c.offsets.off+4*int64(bad), "a text that leaves its buffer or is not UTF-8")
		}
	case Float:
		v.Float = make([]float64, rows)
		for j := range v.Float {
			v.Float[j] = math.Float64frombits(binary.LittleEndian.Uint64(buf[8*j:]))
			if v.IsNull(j) {
				v.Float[j] = math.NaN()
			}
		}
	default:
		v.Int = make([]int64, rows)
		for j := range v.Int {
			v.Int[j] = int64(binary.LittleEndian.Uint64(buf[8*j:]))
		}
	}
	return v, nil
}

// decodeText sets v.Text from the buffers of a column of texts: text j has the bytes of data from offset j up to offset
// j+1. There is one more offset than texts. It returns the index of the first text that is not inside data or not
// UTF-8, or -1 if there is none.
func (v *Values) decodeText(offsets, data []byte) int {
	n := len(offsets)/4 - 1
	all := string(data) // one copy, shared by the texts
	v.Text = make([]string, n)
	from := binary.LittleEndian.Uint32(offsets)

	for j := range n {
		to := binary.LittleEndian.Uint32(offsets[4*j+4:])
		if from > to || int64(to) > int64(len(all)) || !utf8.ValidString(all[from:to]) {
			return j
		}
		v.Text[j] = all[from:to]
		from = to
	}
	return -1
}
