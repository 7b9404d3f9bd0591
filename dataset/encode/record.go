package encode

import (
	"encoding/binary"
	"math"
)

// recordLayout says where a row's values lie in its record.
type recordLayout struct {
	weight, time, parts int // offsets; -1 where there is none
	n                   int // parts
	width               int
}

// A record begins with the row's number and its label, of four bytes each.
const recordLabel = 4

func newRecordLayout(parts int, weighted, timed bool) recordLayout {
	l := recordLayout{weight: -1, time: -1, n: parts, width: 8}
	if weighted {
		l.weight = l.width
		l.width += 4
	}
	if timed {
		l.time = l.width
		l.width += 8
	}
	l.parts = l.width
	l.width += 8 * parts
	return l
}

// append adds the record of row i.
func (l *recordLayout) append(to []byte, r *Rows, i int) []byte {
	to = binary.LittleEndian.AppendUint32(to, uint32(r.First+i))
	to = binary.LittleEndian.AppendUint32(to, math.Float32bits(r.Label[i]))
	if l.weight >= 0 {
		to = binary.LittleEndian.AppendUint32(to, math.Float32bits(r.Weight[i]))
	}
	if l.time >= 0 {
		to = binary.LittleEndian.AppendUint64(to, math.Float64bits(r.Time[i]))
	}
	for _, part := range r.Parts {
		to = binary.LittleEndian.AppendUint64(to, part[i])
	}
	return to
}

func (l *recordLayout) row(record []byte) uint32 { return binary.LittleEndian.Uint32(record) }

func (l *recordLayout) label(record []byte) float64 {
	return float64(math.Float32frombits(binary.LittleEndian.Uint32(record[recordLabel:])))
}

// weightOf is 1 where rows have no weights.
func (l *recordLayout) weightOf(record []byte) float64 {
	if l.weight < 0 {
		return 1
	}
	return float64(math.Float32frombits(binary.LittleEndian.Uint32(record[l.weight:])))
}

func (l *recordLayout) timeOf(record []byte) float64 {
	return math.Float64frombits(binary.LittleEndian.Uint64(record[l.time:]))
}

func (l *recordLayout) part(record []byte, i int) uint64 {
	return binary.LittleEndian.Uint64(record[l.parts+8*i:])
}
