package dataset

import flatbuffers "github.com/google/flatbuffers/go"

// Constants of Arrow, from Schema.fbs, Message.fbs and File.fbs (https://arrow.apache.org/docs/format/Columnar.html).
const (
	arrowV5 = 4 // MetadataVersion

	headerSchema = 1 // MessageHeader
	headerBatch  = 3

	typeInt             = 2 // Type
	typeFloatingPoint   = 3
	typeUtf8            = 5
	typeFixedSizeBinary = 15

	precisionSingle = 1
	precisionDouble = 2
)

// arrowType is one of the few Arrow types in Coppice's files.
type arrowType struct {
	id     byte // of the Type union
	bits   int  // width of an integer or float
	signed bool
	width  int // bytes of a fixed-size binary
}

// The types of all columns in all files, except the fixed-size binary of rows.arrow.
var (
	arrowUint8   = arrowType{id: typeInt, bits: 8}
	arrowUint32  = arrowType{id: typeInt, bits: 32}
	arrowUint64  = arrowType{id: typeInt, bits: 64}
	arrowInt64   = arrowType{id: typeInt, bits: 64, signed: true}
	arrowFloat32 = arrowType{id: typeFloatingPoint, bits: 32}
	arrowFloat64 = arrowType{id: typeFloatingPoint, bits: 64}
	arrowUtf8    = arrowType{id: typeUtf8}
)

func arrowBinary(width int) arrowType { return arrowType{id: typeFixedSizeBinary, width: width} }

// valueBytes returns the size of one value in the data buffer; 0 for text, whose values vary in size.
func (t arrowType) valueBytes() int64 {
	switch t.id {
	case typeFixedSizeBinary:
		return int64(t.width)
	case typeUtf8:
		return 0
	}
	return int64(t.bits / 8)
}

// arrowField is a column of a file. Only columns of the sample may have nulls and metadata.
type arrowField struct {
	name     string
	typ      arrowType
	nullable bool
	meta     []keyValue
}

// keyValue is a pair of a schema's or a field's metadata.
type keyValue struct{ key, value string }

// buildSchema adds a Schema table to b and returns its offset. The numbers of slots are those of Schema.fbs, here and
// below. Flatbuffers are built from the leaves: what a table refers to is added before it.
func buildSchema(b *flatbuffers.Builder, fields []arrowField, meta []keyValue) flatbuffers.UOffsetT {
	offsets := make([]flatbuffers.UOffsetT, len(fields))
	for i, f := range fields {
		offsets[i] = buildField(b, f)
	}
	vector := buildOffsets(b, offsets)
	metaVector := buildKeyValues(b, meta)
	b.StartObject(4)
	b.PrependUOffsetTSlot(1, vector, 0)
	if metaVector != 0 {
		b.PrependUOffsetTSlot(2, metaVector, 0)
	}
	return b.EndObject()
}

// buildField adds a column's Field table and returns its offset.
func buildField(b *flatbuffers.Builder, f arrowField) flatbuffers.UOffsetT {
	name := b.CreateString(f.name)
	typ := buildType(b, f.typ)
	children := buildOffsets(b, nil) // Arrow C++ requires the vector, even if empty
	meta := buildKeyValues(b, f.meta)

	b.StartObject(7)
	b.PrependUOffsetTSlot(0, name, 0)
	b.PrependBoolSlot(1, f.nullable, false)
	b.PrependByteSlot(2, f.typ.id, 0)
	b.PrependUOffsetTSlot(3, typ, 0)
	b.PrependUOffsetTSlot(5, children, 0)
	if meta != 0 {
		b.PrependUOffsetTSlot(6, meta, 0)
	}
	return b.EndObject()
}

// buildType adds the table with a type's parameters and returns its offset. It is empty for types without parameters.
func buildType(b *flatbuffers.Builder, t arrowType) flatbuffers.UOffsetT {
	switch t.id {
	case typeInt:
		b.StartObject(2)
		b.PrependInt32Slot(0, int32(t.bits), 0)
		b.PrependBoolSlot(1, t.signed, false)

	case typeFloatingPoint:
		b.StartObject(1)
		precision := int16(precisionSingle)
		if t.bits == 64 {
			precision = precisionDouble
		}
		b.PrependInt16Slot(0, precision, 0)

	case typeFixedSizeBinary:
		b.StartObject(1)
		b.PrependInt32Slot(0, int32(t.width), 0)

	default:
		b.StartObject(0)
	}

	return b.EndObject()
}

// buildOffsets adds a vector of tables, given by their offsets, and returns its offset.
func buildOffsets(b *flatbuffers.Builder, offsets []flatbuffers.UOffsetT) flatbuffers.UOffsetT {
	b.StartVector(4, len(offsets), 4)
	for i := len(offsets) - 1; i >= 0; i-- {
		b.PrependUOffsetT(offsets[i])
	}
	return b.EndVector(len(offsets))
}

// buildKeyValues adds a vector of metadata and returns its offset; 0, which is no offset, if there is none.
func buildKeyValues(b *flatbuffers.Builder, kvs []keyValue) flatbuffers.UOffsetT {
	if len(kvs) == 0 {
		return 0
	}
	offsets := make([]flatbuffers.UOffsetT, len(kvs))
	for i, kv := range kvs {
		key, value := b.CreateString(kv.key), b.CreateString(kv.value)
		b.StartObject(2)
		b.PrependUOffsetTSlot(0, key, 0)
		b.PrependUOffsetTSlot(1, value, 0)
		offsets[i] = b.EndObject()
	}
	return buildOffsets(b, offsets)
}
