package dataset

import (
	"encoding/binary"
	"math"
	"unicode/utf8"

	"coppice/internal/problem"
)

// Further Arrow types that other programs put into a stream, from Schema.fbs.
const (
	typeNull      = 1
	typeBool      = 6
	typeDate      = 8
	typeTimestamp = 10
	typeLargeUtf8 = 20
)

// streamField is a column of a stream.
type streamField struct {
	name string
	typ  arrowType
	unit Unit
	mult int64 // of a count of the unit
	to   int   // the place among the columns that are wanted; -1 for none
}

// ReadStream reads the columns called names, as far as they are there, and the number of rows of an Arrow IPC stream,
// as pyarrow.ipc.new_stream and Table.to_reader write it: whole numbers of up to 64 bits, float32 and float64, texts,
// truth values, dates, time stamps and nulls, in any number of batches. The result has a nil for a column that is not
// there. Streams that are compressed, dictionary-encoded, nested or big-endian, more than limit rows, and anything
// damaged are of kind Input. Texts share one copy of the data.
func ReadStream(data []byte, names []string, limit int) (columns []*Values, other []string, rows int, err error) {
	s := &stream{parser: parser{name: "the Arrow stream", data: data}, all: string(data), limit: int64(limit),
		columns: make([]*Values, len(names)), want: make(map[string]int, len(names))}
	for i, name := range names {
		s.want[name] = i
	}
	s.read()
	if s.err != nil {
		return nil, nil, 0, problem.New(problem.Input, "%v", s.err)
	}
	return s.columns, s.other, int(s.rows), nil
}

// stream reads messages, one behind the other.
type stream struct {
	parser
	all     string // data, shared by texts
	limit   int64
	fields  []streamField
	want    map[string]int
	columns []*Values
	other   []string // names of columns that are not wanted
	rows    int64
}

func (s *stream) read() {
	for at := int64(0); s.err == nil; {
		end := int64(len(s.data))
		if at == end && s.fields != nil { // a stream may end without saying so
			return
		}
		if end-at < 8 || s.u32(at) != arrowContinuation {
			s.fail(at, "no Arrow message begins here; send an IPC stream (application/vnd.apache.arrow.stream), "+
				"not a file")
			return
		}
		metaLen := int64(s.u32(at + 4))
		if metaLen == 0 {
			if at+8 != end {
				s.fail(at+8, "%d bytes follow the end of the stream", end-at-8)
			} else if s.fields == nil {
				s.fail(at, "the stream has no schema")
			}
			return
		}
		bodyAt := at + 8 + metaLen
		if metaLen < 8 || metaLen > maxMeta || bodyAt > end {
			s.fail(at, "a message of %d bytes of metadata", metaLen)
			return
		}

		message := s.root(at+8, bodyAt)
		bodyLen := message.i64(3)
		if bodyLen < 0 || bodyLen > end-bodyAt {
			s.fail(at, "a body of %d bytes; the stream may be truncated", bodyLen)
			return
		}
		switch kind := message.u8(1); {
		case kind == headerSchema && s.fields == nil:
			s.schema(message.child(2))
		case kind == headerBatch && s.fields != nil:
			s.batch(message.child(2), span{bodyAt, bodyLen})
		default:
			s.fail(at, "a message of kind %d does not belong here", kind)
		}
		at = bodyAt + bodyLen
	}
}

func (s *stream) schema(t fbTable) {
	if t.i16(0) != 0 {
		s.fail(t.pos, "big-endian contents")
	}
	fields := t.vector(1, 4)
	if fields.n < 1 || fields.n > maxFields {
		s.fail(fields.at, "%d columns", fields.n)
		return
	}
	seen := make(map[string]bool, fields.n)
	for i := int64(0); i < fields.n && s.err == nil; i++ {
		f := s.column(t.element(fields, i))
		if seen[f.name] {
			s.fail(t.pos, "two columns are called %.60q", f.name)
		}
		seen[f.name] = true
		s.fields = append(s.fields, f)
	}
}

// column reads a field of the schema.
func (s *stream) column(t fbTable) streamField {
	f := streamField{name: t.text(0, maxName), typ: arrowType{id: t.u8(2)}, mult: 1, to: -1}
	if t.has(4) {
		s.fail(t.pos, "column %.60q is dictionary-encoded; cast it to its values (of pandas' categories, "+
			"astype(object))",
			f.name)
	}
	typ := t.child(3)
	v := &Values{}
	switch f.typ.id {
	case typeNull:
		v.Type = Text
	case typeBool:
		v.Type = Bool
	case typeUtf8, typeLargeUtf8:
		v.Type = Text
	case typeInt:
		v.Type, f.typ.bits, f.typ.signed = Int, int(typ.i32(0)), typ.u8(1) != 0
		if b := f.typ.bits; b != 8 && b != 16 && b != 32 && b != 64 {
			s.fail(t.pos, "column %.60q has whole numbers of %d bits", f.name, b)
		}
	case typeFloatingPoint:
		v.Type, f.typ.bits = Float, map[int16]int{precisionSingle: 32, precisionDouble: 64}[typ.i16(0)]
		if f.typ.bits == 0 {
			s.fail(t.pos, "column %.60q has numbers of half precision; cast it to float32", f.name)
		}
	case typeDate:
		v.Type, f.typ.bits, f.unit = Time, 64, Milli // the default of Arrow
		if typ.has(0) && typ.i16(0) == 0 {
			f.typ.bits, f.unit = 32, Day
		}
	case typeTimestamp:
		v.Type, f.typ.bits = Time, 64
		switch typ.i16(0) {
		case 0:
			f.unit, f.mult = Milli, 1000
		case 1:
			f.unit = Milli
		case 2:
			f.unit = Micro
		case 3:
			f.unit = Nano
		default:
			s.fail(t.pos, "column %.60q has an unknown unit of time", f.name)
		}
		f.typ.signed = true
	default:
		s.fail(t.pos, "column %.60q is of an Arrow type that cannot be read; send the columns that the model "+
			"needs, as numbers, texts, truth values, dates or time stamps", f.name)
	}

	v.Unit = f.unit
	if i, ok := s.want[f.name]; ok && s.err == nil {
		f.to, s.columns[i] = i, v
	} else if len(s.other) < maxFields {
		s.other = append(s.other, f.name)
	}
	return f
}

// batch reads the rows of a record batch.
func (s *stream) batch(t fbTable, body span) {
	if t.has(3) {
		s.fail(t.pos, "compressed buffers; write the stream without compression")
	}
	rows := t.i64(0)
	if rows < 0 || rows > s.limit-s.rows {
		s.fail(t.pos, "more than %d rows", s.limit)
	}
	nodes, buffers := t.vector(1, 16), t.vector(2, 16)
	if nodes.n != int64(len(s.fields)) {
		s.fail(nodes.at, "%d columns where the schema has %d", nodes.n, len(s.fields))
	}

	next, end := int64(0), int64(0)
	take := func(need int64) span { // buffers must not overlap
		if s.err != nil || next >= buffers.n {
			s.fail(buffers.at, "%d buffers are too few for the schema", buffers.n)
			return span{}
		}
		at := buffers.at + 16*next
		next++
		b := span{s.i64(at), s.i64(at + 8)}
		if b.n == 0 && need == 0 {
			return span{}
		}
		if b.off < end || b.n < need || b.off > body.n || b.n > body.n-b.off {
			s.fail(at, "a buffer of %d bytes at byte %d of a body of %d, where %d bytes belong", b.n, b.off, body.n,
				need)
			return span{}
		}
		end = b.off + b.n
		return span{body.off + b.off, b.n}
	}

	for i := range s.fields {
		if s.err != nil {
			return
		}
		node := nodes.at + 16*int64(i)
		nulls := s.i64(node + 8)
		if s.i64(node) != rows || nulls < 0 || nulls > rows {
			s.fail(node, "column %.60q has %d rows and %d nulls in a batch of %d", s.fields[i].name, s.i64(node), nulls,
				rows)
			return
		}
		s.values(&s.fields[i], rows, nulls, take)
	}
	if next != buffers.n {
		s.fail(buffers.at, "%d buffers where the schema has %d", buffers.n, next)
	}
	s.rows += rows
}

// values appends a column's values of a batch.
func (s *stream) values(f *streamField, rows, nulls int64, take func(int64) span) {
	var v *Values
	if f.to >= 0 {
		v = s.columns[f.to]
	}
	if f.typ.id == typeNull {
		if v != nil {
			v.Text = append(v.Text, make([]string, rows)...)
			v.nulls(int(s.rows), int(rows), func(int) bool { return true })
		}
		return
	}

	bitmap := int64(0)
	if nulls > 0 {
		bitmap = (rows + 7) / 8
	}
	validity := take(bitmap)
	var offsets, data span
	switch f.typ.id {
	case typeUtf8, typeLargeUtf8:
		size := int64(4)
		if f.typ.id == typeLargeUtf8 {
			size = 8
		}
		if rows > 0 {
			offsets = take(size * (rows + 1))
		} else {
			offsets = take(0)
		}
		data = take(0)
		if v != nil && s.err == nil {
			s.texts(f, v, rows, size, offsets, data)
		}
	case typeBool:
		data = take((rows + 7) / 8)
		for r := int64(0); v != nil && s.err == nil && r < rows; r++ {
			v.Int = append(v.Int, int64(s.data[data.off+r/8]>>(r%8)&1))
		}
	default:
		data = take(int64(f.typ.bits/8) * rows)
		if v != nil && s.err == nil {
			s.numbers(f, v, rows, data)
		}
	}
	if v == nil || s.err != nil {
		return
	}
	if nulls > 0 || v.Null != nil {
		v.nulls(int(s.rows), int(rows), func(r int) bool {
			return nulls > 0 && s.data[validity.off+int64(r/8)]>>(r%8)&1 == 0
		})
	}
}

// nulls appends the rows for which null is true; the column has before rows already.
func (v *Values) nulls(before, rows int, null func(row int) bool) {
	if v.Null == nil {
		v.Null = make([]bool, before, before+rows)
	}
	for r := range rows {
		is := null(r)
		v.Null = append(v.Null, is)
		if is && v.Type == Float {
			v.Float[before+r] = math.NaN()
		}
	}
}

func (s *stream) texts(f *streamField, v *Values, rows, size int64, offsets, data span) {
	at := func(r int64) int64 {
		if size == 8 {
			return s.i64(offsets.off + 8*r)
		}
		return int64(s.i32(offsets.off + 4*r))
	}
	for r := range rows {
		from, to := at(r), at(r+1)
		if from < 0 || to < from || to > data.n {
			s.fail(offsets.off, "column %.60q: a text that leaves its buffer", f.name)
			return
		}
		text := s.all[data.off+from : data.off+to]
		if !utf8.ValidString(text) {
			s.fail(data.off+from, "column %.60q: a text that is not UTF-8", f.name)
			return
		}
		v.Text = append(v.Text, text)
	}
}

func (s *stream) numbers(f *streamField, v *Values, rows int64, data span) {
	b := s.data[data.off : data.off+data.n]
	for r := range rows {
		var n int64
		switch f.typ.bits {
		case 8:
			n = int64(int8(b[r]))
		case 16:
			n = int64(int16(binary.LittleEndian.Uint16(b[2*r:])))
		case 32:
			n = int64(int32(binary.LittleEndian.Uint32(b[4*r:])))
		default:
			n = int64(binary.LittleEndian.Uint64(b[8*r:]))
		}

		switch {
		case v.Type == Float && f.typ.bits == 32:
			v.Float = append(v.Float, float64(math.Float32frombits(uint32(n))))
			continue
		case v.Type == Float:
			v.Float = append(v.Float, math.Float64frombits(uint64(n)))
			continue
		case f.typ.id == typeInt && !f.typ.signed && f.typ.bits < 64:
			n &= 1<<f.typ.bits - 1
		case f.typ.id == typeInt && !f.typ.signed && n < 0:
			s.fail(data.off+8*r, "column %.60q: %d does not fit a signed number of 64 bits; send it as a text", f.name,
				uint64(n))
			return
		case f.mult > 1 && (n > math.MaxInt64/f.mult || n < math.MinInt64/f.mult):
			s.fail(data.off+8*r, "column %.60q: a time stamp of %d seconds", f.name, n)
			return
		}
		v.Int = append(v.Int, n*f.mult)
	}
}
