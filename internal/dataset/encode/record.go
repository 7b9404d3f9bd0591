package encode

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"coppice/internal/dataset"
)

// recordLayout is the position of a row's values in its record.
type recordLayout struct {
	weight, time int // offsets; -1 if there is none
	group        int // likewise
	parts        []partLayout
	width        int
	loaded       int // bytes of a row with its parts unpacked to hashes
}

// partLayout is the position of a part: its hash in 8 bytes or, for a part with few values, the value's number in 1 or
// 2.
type partLayout struct {
	at, bytes int
	values    *dictionary
}

// A record begins with the row's number and its label, of four bytes each.
const recordLabel = 4

// newRecordLayout places what rows are kept with: weight, time and group only where they are needed, and hashes of
// parts with few values as numbers of values.
func newRecordLayout(c *Config) recordLayout {
	l := recordLayout{weight: -1, time: -1, group: -1, width: 8}
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

	for i := range c.Parts {
		p := partLayout{at: l.width, bytes: 8}
		if i < len(c.Few) && c.Few[i] > 0 && c.Few[i] <= math.MaxUint16 {
			p.values = &dictionary{make([]uint64, 0, c.Few[i]), make([]uint16, 2*slotsFor(c.Few[i]))}
			if p.bytes = 1; c.Few[i] > math.MaxUint8+1 {
				p.bytes = 2
			}
		}
		l.parts = append(l.parts, p)
		l.width += p.bytes
	}
	return l
}

// packRows writes rows as records into the memory of to, column by column.
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

// packPart writes a part of rows into their records. A part with a dictionary is written as numbers of its values; it
// stops and returns false at the first value for which the dictionary has no room. Any other part is written as hashes,
// and true is returned.
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

// unpack reads a part of the records at the given places, or of consecutive ones if there are none.
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

// dictionary numbers the values of a part in order of appearance.
type dictionary struct {
	values []uint64 // by number
	slots  []uint16 // of a hash table with open addressing: 1 + the number of a value; 0 is free
}

// number returns a value's number; ok is false if there are too many values.
func (d *dictionary) number(value uint64) (number uint16, ok bool) {
	mask := uint64(len(d.slots) - 1)

	i := value & mask
	for ; d.slots[i] != 0; i = (i + 1) & mask {
		if number = d.slots[i] - 1; d.values[number] == value {
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
