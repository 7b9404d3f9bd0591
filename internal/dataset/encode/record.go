package encode

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"coppice/internal/dataset"
)

// recordLayout says where a row's values are in its record, as offsets in bytes.
type recordLayout struct {
	weight, time, group int // -1 if records have none
	parts               []partLayout
	width               int // bytes of a record
	loaded              int // about the bytes of a row in a block, where each part is a hash
}

// partLayout says where a part is in a record. It takes 8 bytes for its hash. A part with few values takes 1 or 2 bytes
// for the number of the value in a dictionary.
type partLayout struct {
	at, bytes int
	values    *dictionary // nil if hashes are stored
}

// recordLabel is the offset of a row's label. Before it is the row's number, and both take 4 bytes.
const recordLabel = 4

// newRecordLayout lays out records for a Config. Weight, time and group have a place only if they are needed. A part
// with at most 65,535 values, by c.Few, gets a dictionary: its slots have 1 + the number of a value in two bytes. The
// numbers of at most 256 values, from 0 on, take one byte in a record.
func newRecordLayout(c *Config) recordLayout {
	l := recordLayout{weight: -1, time: -1, group: -1, width: 8} // 8: the row's number and its label
	if c.Weighted {
		l.weight = l.width
		l.width += 4
	}
	if c.timed() {
		l.time = l.width
		l.width += 8
	}
	if c.Order.By == dataset.OrderGroup {
		l.group = l.width
		l.width += 8
	}
	l.loaded = l.width + 8*c.Parts

	// The parts, each as small as its number of values allows.
	for i := range c.Parts {
		p := partLayout{at: l.width, bytes: 8}
		if i < len(c.Few) && c.Few[i] > 0 && c.Few[i] <= math.MaxUint16 {
			// Twice the usual slots are still small, and make it likely that a value is found at the first look.
			p.values = &dictionary{make([]uint64, 0, c.Few[i]), make([]uint16, 2*slotsFor(c.Few[i]))}
			p.bytes = 1
			if c.Few[i] > math.MaxUint8+1 {
				p.bytes = 2
			}
		}
		l.parts = append(l.parts, p)
		l.width += p.bytes
	}
	return l
}

// packRows writes a record for each row of r, one after the other, and returns them. It uses the memory of to if there
// is enough. If a part has more values than its dictionary has room for, the error is a *TooManyValuesError.
func (l *recordLayout) packRows(r *LabelledRows, to []byte, threads int) ([]byte, error) {
	n := len(r.Label)
	to = dataset.Resize(to, n*l.width)
	for i, label := range r.Label {
		record := to[i*l.width:]
		binary.LittleEndian.PutUint32(record, uint32(r.First+i))
		binary.LittleEndian.PutUint32(record[recordLabel:], math.Float32bits(label))
	}
	if l.weight >= 0 {
		for i, weight := range r.Weight {
			binary.LittleEndian.PutUint32(to[i*l.width+l.weight:], math.Float32bits(weight))
		}
	}
	if l.time >= 0 {
		for i, time := range r.Time {
			binary.LittleEndian.PutUint64(to[i*l.width+l.time:], math.Float64bits(time))
		}
	}

	if l.group >= 0 {
		for i, group := range r.Group {
			binary.LittleEndian.PutUint64(to[i*l.width+l.group:], group)
		}
	}

	// Each part has its own dictionary and its own bytes of the records, so parts are written in parallel.
	fits := make([]bool, len(l.parts))
	dataset.Parallel(threads, len(l.parts), func(p int) { fits[p] = l.parts[p].packPart(r.Parts[p], to, l.width) })
	if p := slices.Index(fits, false); p >= 0 {
		return to, &TooManyValuesError{Part: p, Known: len(l.parts[p].values.values)}
	}
	return to, nil
}

// TooManyValuesError is a part with more values than Config.Few allows.
type TooManyValuesError struct {
	Part  int
	Known int // number of values
}

func (e *TooManyValuesError) Error() string {
	return fmt.Sprintf("part %d of a row has more than the %d values that it had before", e.Part, e.Known)
}

// packPart writes a part of all rows into their records, which are width bytes apart in to. It returns false if a value
// finds no room in the part's dictionary; then the remaining rows are not written.
func (p *partLayout) packPart(hashes []uint64, to []byte, width int) bool {
	at := p.at
	for _, hash := range hashes {
		if p.values == nil {
			binary.LittleEndian.PutUint64(to[at:], hash)
			at += width
			continue
		}

		number, ok := p.values.number(hash)
		if !ok {
			return false
		}

		if p.bytes == 1 {
			to[at] = byte(number)
		} else {
			binary.LittleEndian.PutUint16(to[at:], number)
		}
		at += width
	}
	return true
}

// unpack reads a part of len(out) records, which are width bytes apart, into out as hashes. If places is nil these are
// the first records, else those at places[i].at.
func (p *partLayout) unpack(records []byte, width int, places []ranked, out []uint64) {
	for i := range out {
		at := i*width + p.at
		if places != nil {
			at = int(places[i].at)*width + p.at
		}

		switch p.bytes {
		case 1:
			out[i] = p.values.values[records[at]]
		case 2:
			out[i] = p.values.values[binary.LittleEndian.Uint16(records[at:])]
		default:
			out[i] = binary.LittleEndian.Uint64(records[at:])
		}
	}
}

func (l *recordLayout) row(record []byte) uint32 { return binary.LittleEndian.Uint32(record) }

func (l *recordLayout) label(record []byte) float64 {
	return float64(math.Float32frombits(binary.LittleEndian.Uint32(record[recordLabel:])))
}

// weightOf is 1 if rows have no weights.
func (l *recordLayout) weightOf(record []byte) float64 {
	if l.weight < 0 {
		return 1
	}
	return float64(math.Float32frombits(binary.LittleEndian.Uint32(record[l.weight:])))
}

func (l *recordLayout) timeOf(record []byte) float64 {
	return math.Float64frombits(binary.LittleEndian.Uint64(record[l.time:]))
}

// dictionary numbers the values of a part in the order in which they first appear. It has room for cap(values) values.
type dictionary struct {
	values []uint64 // by number
	slots  []uint16 // of a hash table with open addressing: 1 + the number of a value; 0 is free
}

// number returns a value's number, and adds the value if it is new. ok is false if it is new and there is no room.
func (d *dictionary) number(value uint64) (number uint16, ok bool) {
	// The values are hashes already, so their lower bits choose the slot.
	mask := uint64(len(d.slots) - 1)

	i := value & mask
	for ; d.slots[i] != 0; i = (i + 1) & mask {
		number = d.slots[i] - 1
		if d.values[number] == value {
			return number, true
		}
	}

	if len(d.values) == cap(d.values) {
		return 0, false
	}

	d.values = append(d.values, value)
	d.slots[i] = uint16(len(d.values))
	return d.slots[i] - 1, true
}
