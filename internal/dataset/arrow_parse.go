package dataset

import (
	"encoding/binary"
	"fmt"
	"math"
)

// arrowFile is the metadata of a Coppice Arrow IPC file. It has been checked against the file's size: every span is in
// the body, at a multiple of 64 bytes, after the previous one.
type arrowFile struct {
	fields  []arrowField
	meta    []keyValue
	rows    int64
	columns []columnSpans
	nulls   []int64
}

// maxFields bounds the columns of a file; maxMeta the bytes of metadata that are read. A schema or field has up to two
// short pairs of metadata. Since all fields may share one text, more would let a small file take a lot of memory.
const (
	maxFields   = MaxFeatures + 1
	maxMeta     = 64 << 20
	maxPairs    = 4
	maxMetaText = 64
)

// parseArrow reads and checks the metadata of a file. name is for errors, and data are the file's contents, which may
// be mapped: only a few pages at both ends are touched, whatever the size.
func parseArrow(name string, data []byte) (*arrowFile, error) {
	p := &parser{name: name, data: data}
	f := p.parseFile()
	if p.err != nil {
		return nil, p.err
	}
	return f, nil
}

// parser reads flatbuffers. It keeps the first error. After one, reads return zero values, so that callers need not
// check after each of them.
type parser struct {
	name string
	data []byte
	err  error
}

func (p *parser) fail(at int64, format string, args ...any) {
	if p.err == nil {
		p.err = badFile(p.name, at, fmt.Sprintf(format, args...))
	}
}

// Slots of a Footer of Arrow's File.fbs, and the size of its Blocks: offset, length of metadata, length of body.
const (
	footerSchema       = 1
	footerDictionaries = 2
	footerBatches      = 3
	blockBytes         = 24
)

// parseFile checks the magic at both ends, finds the footer before the last one, and reads its schema and its only
// record batch. The result is only valid if p.err is nil.
func (p *parser) parseFile() *arrowFile {
	size := int64(len(p.data))
	if size < int64(len(arrowHead)+len(arrowMagic)+4) {
		p.fail(-1, "%d bytes are too few for an Arrow file", size)
		return nil
	}
	if string(p.data[:len(arrowHead)]) != arrowHead {
		p.fail(0, "an Arrow file begins with ARROW1")
		return nil
	}

	magicAt := size - int64(len(arrowMagic))
	if string(p.data[magicAt:]) != arrowMagic {
		p.fail(magicAt, "an Arrow file ends with ARROW1; this one may be truncated")
		return nil
	}

	// The footer locates everything else.
	footerLen := int64(binary.LittleEndian.Uint32(p.data[magicAt-4:]))
	footerAt := magicAt - 4 - footerLen
	if footerLen < 4 || footerLen > maxMeta || footerAt < int64(len(arrowHead)) {
		p.fail(magicAt-4, "a footer of %d bytes does not fit the file", footerLen)
		return nil
	}

	footer := p.root(footerAt, magicAt-4)
	f := &arrowFile{}
	p.parseSchema(footer.child(footerSchema), f)
	if n := footer.vector(footerDictionaries, blockBytes).n; n != 0 {
		p.fail(footerAt, "%d dictionaries; a file of Coppice has none", n)
	}
	batches := footer.vector(footerBatches, blockBytes)
	if batches.n != 1 {
		p.fail(footerAt, "%d record batches; a file of Coppice has one", batches.n)
	}

	if p.err == nil {
		block := batches.at
		p.parseBatch(f, p.i64(block), int64(p.i32(block+8)), p.i64(block+16), footerAt)
	}
	return f
}

// parseSchema reads the columns and the metadata of a Schema into f. Slots are those of Schema.fbs: endianness (0 is
// little), fields, metadata. Big-endian files are refused, since values are used as they are mapped.
func (p *parser) parseSchema(t fbTable, f *arrowFile) {
	if t.i16(0) != 0 {
		p.fail(t.pos, "big-endian contents")
	}
	fields := t.vector(1, 4)
	if fields.n < 1 || fields.n > maxFields {
		p.fail(fields.at, "%d columns", fields.n)
		return
	}
	for i := int64(0); i < fields.n && p.err == nil; i++ {
		f.fields = append(f.fields, p.parseField(t.element(fields, i)))
	}
	f.meta = p.parseKeyValues(t, 2)
}

// Slots of a Field of Arrow's Schema.fbs.
const (
	fieldName = iota
	fieldNullable
	fieldTypeID
	fieldType
	fieldDictionary
	fieldChildren
	fieldMetadata
)

// parseField reads a Field of Arrow's Schema.fbs. It refuses types that this package does not write.
func (p *parser) parseField(t fbTable) arrowField {
	f := arrowField{name: t.text(fieldName, maxName), nullable: t.u8(fieldNullable) != 0}
	f.typ.id = t.u8(fieldTypeID)
	typ := t.child(fieldType)

	switch f.typ.id {
	case typeInt: // its slots are the width in bits and the sign
		f.typ.bits = int(typ.i32(0))
		f.typ.signed = typ.u8(1) != 0
	case typeFloatingPoint:
		switch typ.i16(0) {
		case precisionSingle:
			f.typ.bits = 32
		case precisionDouble:
			f.typ.bits = 64
		}
	case typeFixedSizeBinary:
		f.typ.width = int(typ.i32(0))
	}

	// Accept only the types that this package writes.
	switch f.typ {
	case arrowUint8, arrowUint32, arrowUint64, arrowInt64, arrowFloat32, arrowFloat64, arrowUtf8:
	default:
		if f.typ.id != typeFixedSizeBinary || f.typ.width < 1 || f.typ.width > MaxFeatures {
			p.fail(t.pos, "column %.60q has an Arrow type that no file of Coppice has", f.name)
		}
	}

	if t.has(fieldDictionary) || t.vector(fieldChildren, 4).n != 0 {
		p.fail(t.pos, "column %.60q is dictionary-encoded or nested", f.name)
	}
	f.meta = p.parseKeyValues(t, fieldMetadata)
	return f
}

// parseKeyValues reads the pairs of metadata in a slot; none if it is absent.
func (p *parser) parseKeyValues(t fbTable, slot int64) []keyValue {
	v := t.vector(slot, 4)
	if v.n > maxPairs {
		p.fail(v.at, "%d pairs of metadata", v.n)
		return nil
	}
	var kvs []keyValue
	for i := int64(0); i < v.n && p.err == nil; i++ {
		kv := t.element(v, i)
		kvs = append(kvs, keyValue{kv.text(0, maxMetaText), kv.text(1, maxMetaText)})
	}
	return kvs
}

// parseBatch checks the message of the record batch and reads its rows and buffers into f. The message begins at byte
// at with metaLen bytes, its body of bodyLen bytes follows, and both must end before footerAt.
func (p *parser) parseBatch(f *arrowFile, at, metaLen, bodyLen, footerAt int64) {
	// Message and body must be inside the file, before the footer. The metadata are a marker and a length, of four
	// bytes each, and a message of no less than eight bytes.
	bodyAt := at + metaLen
	if at < int64(len(arrowHead)) || at > footerAt || metaLen < 16 || metaLen > maxMeta || bodyAt > footerAt {
		p.fail(footerAt, "a record batch at byte %d with %d bytes of metadata", at, metaLen)
		return
	}
	if bodyAt%alignment != 0 || bodyLen < 0 || bodyLen > footerAt-bodyAt {
		p.fail(at, "a body of %d bytes at byte %d", bodyLen, bodyAt)
		return
	}
	if p.u32(at) != arrowContinuation || int64(p.u32(at+4)) != metaLen-8 {
		p.fail(at, "no record batch begins here")
		return
	}

	// The message, which the footer describes, too. Slots are those of Message in Message.fbs: 1 is the kind of the
	// header, 2 the header, 3 the length of the body.
	message := p.root(at+8, bodyAt)
	if message.u8(1) != headerBatch || message.i64(3) != bodyLen {
		p.fail(at, "the message is not the record batch that the footer promises")
	}

	// Its record batch. Slots are those of RecordBatch in Message.fbs: rows, nodes, buffers, compression.
	batch := message.child(2)
	if batch.has(3) {
		p.fail(batch.pos, "compressed buffers; a file of Coppice has none")
	}
	f.rows = batch.i64(0)
	if f.rows < 1 || f.rows > MaxRows {
		p.fail(batch.pos, "%d rows", f.rows)
	}

	nodes, buffers := batch.vector(1, 16), batch.vector(2, 16)
	if nodes.n != int64(len(f.fields)) {
		p.fail(nodes.at, "%d columns where the schema has %d", nodes.n, len(f.fields))
	}

	if p.err == nil {
		p.parseBuffers(f, nodes, buffers, span{bodyAt, bodyLen})
	}
}

// parseBuffers sets f.columns and f.nulls to each column's buffers within the body, and trusts no length. A buffer must
// have exactly the bytes that the rows and the type need, except for the bytes of texts, and must begin behind the
// buffer before it. No buffer may be left over. nodes has a struct of 16 bytes for each column, its rows and its nulls,
// and buffers one for each buffer, its offset in the body and its length.
func (p *parser) parseBuffers(f *arrowFile, nodes, buffers fbVector, body span) {
	next, end := int64(0), int64(0) // index of the next buffer; where the one before ends in the body

	// take returns where the next buffer is in the file. It must have need bytes; -1 allows any number.
	take := func(need int64) span {
		if next >= buffers.n {
			p.fail(buffers.at, "%d buffers are too few for the schema", buffers.n)
			return span{}
		}

		at := buffers.at + 16*next
		next++
		s := span{p.i64(at), p.i64(at + 8)}
		if s.off < end || s.n < 0 || s.off%alignment != 0 || s.off > body.n || s.n > body.n-s.off {
			p.fail(at, "a buffer of %d bytes at byte %d of a body of %d", s.n, s.off, body.n)
			return span{}
		}
		if need >= 0 && s.n != need {
			p.fail(at, "a buffer of %d bytes where %d belong", s.n, need)
			return span{}
		}

		end = s.off + s.n
		return span{body.off + s.off, s.n}
	}

	for i, field := range f.fields {
		node := nodes.at + 16*int64(i)
		nulls := p.i64(node + 8)
		if p.i64(node) != f.rows || nulls < 0 || nulls > f.rows || nulls > 0 && !field.nullable {
			p.fail(node, "column %.60q has %d rows and %d nulls", field.name, p.i64(node), nulls)
			return
		}

		// A column without nulls has a validity bitmap of no bytes, and one with nulls a bit for each row.
		var c columnSpans
		bitmap := int64(0)
		if nulls > 0 {
			bitmap = (f.rows + 7) / 8
		}
		c.validity = take(bitmap)
		if field.typ.id == typeUtf8 {
			c.offsets = take(4 * (f.rows + 1))
			c.data = take(-1)
		} else {
			if field.typ.valueBytes() > math.MaxInt64/MaxRows { // the size below would overflow
				p.fail(node, "column %.60q is too wide", field.name)
				return
			}
			c.data = take(field.typ.valueBytes() * f.rows)
		}

		if p.err != nil {
			return
		}
		f.columns = append(f.columns, c)
		f.nulls = append(f.nulls, nulls)
	}

	if next != buffers.n {
		p.fail(buffers.at, "%d buffers where the schema has %d", buffers.n, next)
	}
}
