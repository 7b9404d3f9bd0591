package table

import (
	"encoding/binary"
	"errors"
)

// Levels and indices are runs: a head, whose lowest bit tells whether a repeated value follows or bit-packed groups of
// eight values (the hybrid encoding of apache/parquet-format's Encodings.md).

// checkLevels makes sure that one-bit definition levels cover exactly as many values as the page has: anything after
// them would be taken for values.
func checkLevels(data []byte, values int64) error {
	for have := int64(0); have < values; {
		head, n := binary.Uvarint(data)
		run := int64(head >> 1)
		if n <= 0 || run == 0 || run > maxPage {
			return errLevels
		}

		size := int64(1)
		if head&1 == 1 { // bit-packed groups of eight
			size, run = run, run*8
		}

		if size > int64(len(data)-n) {
			if head&1 == 0 || have+int64(len(data)-n)*8 < values { // the last group may be cut off after the last value
				return errLevels
			}
			return nil
		}

		data = data[int64(n)+size:]
		have += run
	}

	if len(data) > 0 {
		return errors.New("a page with more levels than values")
	}
	return nil
}

// greatestIndex is the largest of up to values indices of width bits, 1 to 32. If the runs end early, so does the loop:
// the decoder of the indices will notice.
func greatestIndex(data []byte, width uint, values int64) uint64 {
	greatest := uint64(0)
	for have := int64(0); have < values; {
		head, n := binary.Uvarint(data)
		run := int64(head >> 1)
		if n <= 0 || run == 0 || run > maxPage {
			break
		}

		data = data[n:]

		if head&1 == 0 {
			var value [8]byte
			data = data[copy(value[:(width+7)/8], data):]
			greatest = max(greatest, binary.LittleEndian.Uint64(value[:]))
			have += run
			continue
		}

		group := data[:min(int64(len(data)), run*int64(width))]
		data = data[len(group):]
		left := values - have // the last group is padded arbitrarily
		have += run * 8

		bits, got := uint64(0), uint(0)
		for _, b := range group {
			bits |= uint64(b) << got
			for got += 8; got >= width && left > 0; got -= width {
				greatest = max(greatest, bits&(1<<width-1))
				bits >>= width
				left--
			}
			if left == 0 {
				break
			}
		}
	}
	return greatest
}

// levelRuns reads one-bit definition levels that checkLevels has accepted.
type levelRuns struct {
	data   []byte // after the current run's head and, for a repeated level, after the level
	left   int    // rows left in the current run
	packed bool   // bit-packed
	there  bool   // the repeated level
	bit    uint   // of data[0], of the next packed level
}

// allThere reports whether the next n rows all have a value, and if so skips them. It may return false at the boundary
// of two runs.
func (l *levelRuns) allThere(n int) bool {
	if l.left == 0 && l.head() != nil || l.packed || !l.there || l.left < n {
		return false
	}
	l.left -= n
	return true
}

// head reads the head of the next run.
func (l *levelRuns) head() error {
	if l.packed && l.bit > 0 {
		return errLevels // whole bytes were expected before a head
	}

	head, n := binary.Uvarint(l.data)
	if n <= 0 || head>>1 == 0 || head>>1 > maxPage {
		return errLevels
	}

	l.data, l.left, l.bit = l.data[n:], int(head>>1), 0
	if l.packed = head&1 == 1; l.packed {
		l.left *= 8
		return nil
	}

	if len(l.data) == 0 {
		return errLevels
	}
	l.there, l.data = l.data[0] == 1, l.data[1:]
	return nil
}

var errLevels = errors.New("a page whose levels are truncated")

// read fills null for the next rows and returns how many have a value.
func (l *levelRuns) read(null []bool) (there int, err error) {
	for len(null) > 0 {
		if l.left == 0 {
			if err := l.head(); err != nil {
				return there, err
			}
		}

		n := min(l.left, len(null))
		if l.packed {
			if (n+int(l.bit)+7)/8 > len(l.data) {
				return there, errLevels
			}
			for i := range null[:n] {
				one := l.data[0] >> l.bit & 1
				null[i] = one == 0
				there += int(one)
				if l.bit++; l.bit == 8 {
					l.bit, l.data = 0, l.data[1:]
				}
			}
		} else {
			for i := range null[:n] {
				null[i] = !l.there
			}
			if l.there {
				there += n
			}
		}

		null, l.left = null[n:], l.left-n
	}
	return there, nil
}

// indexRuns reads indices of up to 32 bits.
type indexRuns struct {
	data  []byte // after the current run's head and, for a repeated index, after the index
	width uint
	left  int // indices left in the current run
	same  bool
	index uint32 // the repeated one
	bit   uint   // of data, of the next packed index
}

var errIndices = errors.New("a page whose indices are truncated")

// head reads the head of the next run.
func (r *indexRuns) head() error {
	if !r.same { // skip the whole bytes of the previous run, whose last group may be cut off
		r.data = r.data[min(len(r.data), int(r.bit+7)/8):]
	}

	head, n := binary.Uvarint(r.data)
	if n <= 0 || head>>1 == 0 || head>>1 > maxPage {
		return errIndices
	}

	r.data, r.left, r.bit = r.data[n:], int(head>>1), 0
	if r.same = head&1 == 0; !r.same {
		r.left *= 8
		return nil
	}

	var value [4]byte
	size := int(r.width+7) / 8
	if size > len(r.data) {
		return errIndices
	}
	copy(value[:], r.data[:size])
	r.index, r.data = binary.LittleEndian.Uint32(value[:]), r.data[size:]
	return nil
}

// read fills out with the next indices and returns the largest.
func (r *indexRuns) read(out []uint32) (greatest uint32, err error) {
	for len(out) > 0 {
		if r.left == 0 {
			if err := r.head(); err != nil {
				return 0, err
			}
		}

		n := min(r.left, len(out))
		if r.same {
			for i := range out[:n] {
				out[i] = r.index
			}
			greatest = max(greatest, r.index)
		} else {
			if (r.bit+uint(n)*r.width+7)/8 > uint(len(r.data)) {
				return 0, errIndices
			}
			greatest = max(greatest, r.unpack(out[:n]))
		}

		out, r.left = out[n:], r.left-n
	}
	return greatest, nil
}

// unpack reads bit-packed indices, which must be present, and returns the largest. Eight bytes from any byte on contain
// the whole of an index whose first bit is in that byte.
func (r *indexRuns) unpack(out []uint32) (greatest uint32) {
	data, bit, width, mask := r.data, r.bit, r.width, uint64(1)<<r.width-1

	safe := 0 // indices for which eight bytes can be read
	if last := (len(data)-8)*8 + 7; last >= int(bit) {
		safe = len(out)
		if width > 0 {
			safe = min(safe, (last-int(bit))/int(width)+1)
		}
	}

	for i := range out[:safe] {
		index := uint32(binary.LittleEndian.Uint64(data[bit>>3:]) >> (bit & 7) & mask)
		out[i] = index
		greatest = max(greatest, index)
		bit += width
	}

	for i := range out[safe:] {
		var last [8]byte
		copy(last[:], data[bit>>3:])
		index := uint32(binary.LittleEndian.Uint64(last[:]) >> (bit & 7) & mask)
		out[safe+i] = index
		greatest = max(greatest, index)
		bit += width
	}

	r.bit = bit
	return greatest
}
