package dataset

import (
	"encoding/binary"
	"slices"

	flatbuffers "github.com/google/flatbuffers/go"
)

// alignment of every buffer in the file: a cache line, as Arrow recommends.
const alignment = 64

const (
	arrowMagic        = "ARROW1"
	arrowHead         = "ARROW1\x00\x00" // padded to 8 bytes
	arrowContinuation = 0xFFFFFFFF
)

func align(n int64) int64 { return (n + alignment - 1) &^ (alignment - 1) }

// column is what must be known of a column's contents before the file can be laid out.
type column struct {
	nulls     int64 // if there are any, a validity bitmap is laid out
	textBytes int64 // for Utf8: total length of the values
}

// span is n bytes at offset off of the file.
type span struct{ off, n int64 }

// columnSpans says where one column's buffers are in the file. validity is empty if there are no nulls, and offsets
// unless the column is text.
type columnSpans struct{ validity, offsets, data span }

// layout is an Arrow IPC file with one record batch, complete except for the columns' values. These can be written in
// any order, because the number of rows is known in advance.
type layout struct {
	head    []byte // the beginning of the file: magic, schema, the batch's metadata
	foot    []byte // the end of the file, from tailAt: end of stream, footer, magic
	tailAt  int64
	size    int64
	columns []columnSpans
}

// newLayout lays out a file of so many rows. cols has the nulls and texts of each field; it may be nil if no field has
// any. meta is stored in the schema.
func newLayout(fields []arrowField, cols []column, rows int64, meta []keyValue) *layout {
	if cols == nil {
		cols = make([]column, len(fields))
	}

	l := &layout{columns: make([]columnSpans, len(fields))}
	body := int64(0)
	reserve := func(n int64) span { // the next n bytes of the body
		s := span{body, n}
		body = align(body + n)
		return s
	}

	// The body first: the head contains its length.
	for i, f := range fields {
		c := &l.columns[i]
		c.validity = reserve(0) // a buffer of no bytes is listed, too, and needs an offset
		if cols[i].nulls > 0 {
			c.validity = reserve((rows + 7) / 8)
		}
		if f.typ.id == typeUtf8 {
			c.offsets = reserve(4 * (rows + 1))
			c.data = reserve(cols[i].textBytes)
		} else {
			c.data = reserve(f.typ.valueBytes() * rows)
		}
	}

	// Then what comes before it.
	l.head = appendMessage([]byte(arrowHead), buildSchemaMessage(fields, meta), 8)
	batchAt := int64(len(l.head))
	l.head = appendMessage(l.head, l.buildBatchMessage(fields, cols, rows, body), alignment)
	bodyAt := int64(len(l.head))

	// Now that the body's place is known, turn offsets in the body into offsets in the file.
	for i := range l.columns {
		c := &l.columns[i]
		for _, s := range []*span{&c.validity, &c.offsets, &c.data} {
			s.off += bodyAt
		}
	}

	l.tailAt = bodyAt + body
	l.foot = buildTail(fields, meta, batchAt, bodyAt-batchAt, body)
	l.size = l.tailAt + int64(len(l.foot))
	return l
}

// appendMessage appends a message to file with Arrow's marker and length before it, which take 8 bytes, and zeros after
// it, so that the file continues at a multiple of so many bytes. The length includes the zeros.
func appendMessage(file, message []byte, multiple int) []byte {
	at := len(file)
	end := (at + 8 + len(message) + multiple - 1) / multiple * multiple
	file = binary.LittleEndian.AppendUint32(file, arrowContinuation)
	file = binary.LittleEndian.AppendUint32(file, uint32(end-at-8))
	file = append(file, message...)
	return append(file, make([]byte, end-len(file))...)
}

// buildSchemaMessage returns the message with the schema, which has no body.
func buildSchemaMessage(fields []arrowField, meta []keyValue) []byte {
	b := flatbuffers.NewBuilder(1 << 10)
	return finishMessage(b, headerSchema, buildSchema(b, fields, meta), 0)
}

// buildBatchMessage returns the message that describes the file's only record batch: its number of rows, each column's
// nulls, and where each column's buffers are in the body (validity, offsets of texts, data). body is the size of the
// body in bytes. l.columns must still have offsets within the body.
func (l *layout) buildBatchMessage(fields []arrowField, cols []column, rows, body int64) []byte {
	var buffers []span
	for i, c := range l.columns {
		buffers = append(buffers, c.validity)
		if fields[i].typ.id == typeUtf8 {
			buffers = append(buffers, c.offsets)
		}
		buffers = append(buffers, c.data)
	}

	// Flatbuffers are built back to front: referenced objects before those that refer to them.
	b := flatbuffers.NewBuilder(1 << 10)
	b.StartVector(16, len(buffers), 8)
	for _, s := range slices.Backward(buffers) {
		buildPair(b, s.off, s.n)
	}
	bufferVector := b.EndVector(len(buffers))

	b.StartVector(16, len(fields), 8)
	for i := len(fields) - 1; i >= 0; i-- {
		buildPair(b, rows, cols[i].nulls)
	}
	nodeVector := b.EndVector(len(fields))

	// The slots are those of RecordBatch in Message.fbs: rows, nodes, buffers.
	b.StartObject(5)
	b.PrependInt64Slot(0, rows, 0)
	b.PrependUOffsetTSlot(1, nodeVector, 0)
	b.PrependUOffsetTSlot(2, bufferVector, 0)
	return finishMessage(b, headerBatch, b.EndObject(), body)
}

// buildPair adds a FieldNode or a Buffer to a vector, both of which are structs of two 64-bit integers.
func buildPair(b *flatbuffers.Builder, first, second int64) {
	b.Prep(8, 16)
	b.PrependInt64(second)
	b.PrependInt64(first)
}

// finishMessage wraps a header, which is the schema or the record batch, in a Message (Message.fbs) with a body of so
// many bytes, and returns the finished buffer.
func finishMessage(b *flatbuffers.Builder, headerType byte, header flatbuffers.UOffsetT, body int64) []byte {
	// The slots of Message: version, type of the header, header, length of the body.
	b.StartObject(5)
	b.PrependInt64Slot(3, body, 0)
	b.PrependUOffsetTSlot(2, header, 0)
	b.PrependInt16Slot(0, arrowV5, 0)
	b.PrependByteSlot(1, headerType, 0)
	b.Finish(b.EndObject())
	return b.FinishedBytes()
}

// buildTail returns everything after the body: the end of the stream, the footer, the footer's length and the magic.
// The footer has the schema again, and says that the one batch is at batchAt, with batchMeta bytes of metadata and then
// body bytes of body.
func buildTail(fields []arrowField, meta []keyValue, batchAt, batchMeta, body int64) []byte {
	b := flatbuffers.NewBuilder(1 << 10)
	schema := buildSchema(b, fields, meta)

	// No dictionaries, and one Block for the batch, whose fields are written from the last to the first.
	b.StartVector(24, 0, 8)
	dictionaries := b.EndVector(0)
	b.StartVector(24, 1, 8)
	b.Prep(8, 24)
	b.PrependInt64(body)
	b.Pad(4) // the struct's own padding
	b.PrependInt32(int32(batchMeta))
	b.PrependInt64(batchAt)
	batches := b.EndVector(1)

	// The slots are those of Footer in File.fbs: version, schema, dictionaries, batches.
	b.StartObject(5)
	b.PrependUOffsetTSlot(1, schema, 0)
	b.PrependUOffsetTSlot(2, dictionaries, 0)
	b.PrependUOffsetTSlot(3, batches, 0)
	b.PrependInt16Slot(0, arrowV5, 0)
	b.Finish(b.EndObject())

	// A message of length 0 ends the stream.
	tail := binary.LittleEndian.AppendUint32(nil, arrowContinuation)
	tail = binary.LittleEndian.AppendUint32(tail, 0)
	tail = append(tail, b.FinishedBytes()...)
	tail = binary.LittleEndian.AppendUint32(tail, uint32(len(b.FinishedBytes())))
	return append(tail, arrowMagic...)
}
