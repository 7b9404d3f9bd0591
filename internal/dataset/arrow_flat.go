package dataset

import "encoding/binary"

// fbTable is a flatbuffers table in a parser's data. pos is where it is, and vtable where its list of fields is, of
// vtableLen bytes. lo and hi bound the buffer that its offsets may point into. The zero table has no fields. (Google's
// own reader trusts its input and panics on invalid offsets.)
type fbTable struct {
	p           *parser
	pos, lo, hi int64
	vtable      int64
	vtableLen   int64
}

// fbVector is the position of a vector's first element and the number of its elements.
type fbVector struct{ at, n int64 }

// root returns the root table of the flatbuffer in bytes lo to hi.
func (p *parser) root(lo, hi int64) fbTable {
	t := fbTable{p: p, lo: lo, hi: hi}
	return t.follow(lo)
}

// follow returns the table that the offset stored at position at points to. If part of it is outside the buffer, the
// parser's error is set and the result has no fields.
func (t fbTable) follow(at int64) fbTable {
	pos, ok := t.target(at)
	if !ok || !t.checkInside(pos, 4) {
		return fbTable{p: t.p}
	}

	// A table begins with how far its vtable is before it, or behind it if negative. The vtable begins with its own
	// length in bytes. Two bytes later follow the positions of the fields within the table, in two bytes each.
	vtable := pos - int64(t.p.i32(pos))
	if !t.checkInside(vtable, 4) {
		return fbTable{p: t.p}
	}

	n := int64(t.p.u16(vtable))
	if n < 4 || !t.checkInside(vtable, n) {
		t.p.fail(vtable, "a flatbuffers table of %d bytes", n)
		return fbTable{p: t.p}
	}
	return fbTable{p: t.p, pos: pos, lo: t.lo, hi: t.hi, vtable: vtable, vtableLen: n}
}

// target returns where the offset stored at position at points to. Offsets count from their own position. It is false,
// with the parser's error set, if the offset itself is outside the buffer; the target may still be.
func (t fbTable) target(at int64) (int64, bool) {
	if !t.checkInside(at, 4) {
		return 0, false
	}
	return at + int64(t.p.u32(at)), true
}

// checkInside reports whether n bytes at pos are within the table's buffer. If not, it sets the parser's error. It is
// false once there is an error.
func (t fbTable) checkInside(pos, n int64) bool {
	if t.p.err != nil {
		return false
	}
	if pos < t.lo || n < 0 || pos > t.hi || n > t.hi-pos {
		t.p.fail(pos, "metadata points outside itself")
		return false
	}
	return true
}

// field returns the position of the field with this slot, which takes n bytes. ok is false if the field is absent, and
// so has its default, or if it is outside the buffer.
func (t fbTable) field(slot, n int64) (int64, bool) {
	entry := 4 + 2*slot // of the vtable; a vtable that ends earlier knows no such field
	if t.vtableLen < entry+2 {
		return 0, false
	}
	off := int64(t.p.u16(t.vtable + entry))
	if off == 0 || !t.checkInside(t.pos+off, n) {
		return 0, false
	}
	return t.pos + off, true
}

func (t fbTable) has(slot int64) bool {
	_, ok := t.field(slot, 1)
	return ok
}

func (t fbTable) u8(slot int64) uint8 {
	if at, ok := t.field(slot, 1); ok {
		return t.p.data[at]
	}
	return 0
}

func (t fbTable) i16(slot int64) int16 {
	if at, ok := t.field(slot, 2); ok {
		return int16(t.p.u16(at))
	}
	return 0
}

func (t fbTable) i32(slot int64) int32 {
	if at, ok := t.field(slot, 4); ok {
		return t.p.i32(at)
	}
	return 0
}

func (t fbTable) i64(slot int64) int64 {
	if at, ok := t.field(slot, 8); ok {
		return t.p.i64(at)
	}
	return 0
}

// child returns the table in a slot; a table without fields if it is absent.
func (t fbTable) child(slot int64) fbTable {
	if at, ok := t.field(slot, 4); ok {
		return t.follow(at)
	}
	return fbTable{p: t.p}
}

// vector returns the vector in a slot, whose elements take size bytes each. All of it is inside the buffer. It is empty
// if absent or, with the parser's error set, if damaged.
func (t fbTable) vector(slot, size int64) fbVector {
	at, ok := t.field(slot, 4)
	if !ok {
		return fbVector{}
	}

	at, ok = t.target(at)
	if !ok || !t.checkInside(at, 4) {
		return fbVector{}
	}

	// A vector begins with its number of elements.
	n := int64(t.p.u32(at))
	if !t.checkInside(at+4, n*size) {
		return fbVector{}
	}
	return fbVector{at + 4, n}
}

// element returns table i of a vector of tables.
func (t fbTable) element(v fbVector, i int64) fbTable { return t.follow(v.at + 4*i) }

// maxName bounds texts in the metadata, so that a long text shared by many columns cannot exhaust memory.
const maxName = 1024

// text returns the text in a slot, empty if there is none. A text of more than limit bytes sets the parser's error.
func (t fbTable) text(slot, limit int64) string {
	v := t.vector(slot, 1)
	if v.n > limit {
		t.p.fail(v.at, "a name of %d bytes", v.n)
		return ""
	}
	return string(t.p.data[v.at : v.at+v.n])
}

// The callers of these have checked that the bytes exist.

func (p *parser) u16(at int64) uint16 { return binary.LittleEndian.Uint16(p.data[at:]) }
func (p *parser) u32(at int64) uint32 { return binary.LittleEndian.Uint32(p.data[at:]) }
func (p *parser) i32(at int64) int32  { return int32(p.u32(at)) }
func (p *parser) i64(at int64) int64  { return int64(binary.LittleEndian.Uint64(p.data[at:])) }
