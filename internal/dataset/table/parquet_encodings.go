package table

import (
	"encoding/binary"
	"errors"
)

// The encodings of Parquet's values, as Encodings.md of apache/parquet-format describes them. Levels and indices are
// runs; every other encoding is rewritten to the plain one, so that values are converted from one form only: numbers
// little-endian, texts of one length as they are, others behind four bytes with their length.

var (
	errRuns  = errors.New("a page with truncated levels or indices")
	errDelta = errors.New("a page with deltas that are truncated or out of bounds")
)

// runs reads numbers of up to 32 bits from the hybrid encoding: each run begins with a head, whose lowest bit says
// whether one repeated number follows or groups of eight bit-packed ones.
type runs struct {
	data     []byte // behind the current run
	width    uint   // bits of a number
	left     int    // numbers left in the current run
	repeated bool
	value    uint32 // the repeated number, or
	packed   []byte // the packed ones, with what follows them
	bit      int    // of packed, where the next one begins
	bits     int    // of packed, that belong to the run
}

// packedRun is one run of packed numbers without a head.
func packedRun(data []byte, width uint) runs {
	return runs{width: width, left: 8 * len(data), packed: data, bits: 8 * len(data)}
}

// beginRun reads the head of the next run and where its numbers are. A head is a count and, as its lowest bit, the kind
// of the run: 0 for so many repetitions of a number in whole bytes, 1 for so many groups of eight packed numbers.
func (r *runs) beginRun() error {
	head, n := binary.Uvarint(r.data)
	count := head >> 1
	if n <= 0 || count == 0 || count > maxPage {
		return errRuns
	}
	r.data, r.repeated = r.data[n:], head&1 == 0

	if r.repeated {
		size := int(r.width+7) / 8
		if size > len(r.data) {
			return errRuns
		}
		var value [4]byte
		copy(value[:], r.data[:size])
		r.left, r.value, r.data = int(count), binary.LittleEndian.Uint32(value[:]), r.data[size:]
		return nil
	}

	// Some writers cut off the last group behind its last number, so there may be fewer bits than left says.
	size := min(int(count)*int(r.width), len(r.data))
	r.left, r.packed, r.bit, r.bits, r.data = 8*int(count), r.data, 0, 8*size, r.data[size:]
	return nil
}

// read fills out with the next numbers, from runs of one number and runs of packed ones. Too few are an error.
func (r *runs) read(out []uint32) error {
	for len(out) > 0 {
		if r.left == 0 {
			if err := r.beginRun(); err != nil {
				return err
			}
		}

		n := min(r.left, len(out))
		switch {
		case r.repeated:
			for i := range out[:n] {
				out[i] = r.value
			}
		case r.bit+n*int(r.width) > r.bits:
			return errRuns
		default:
			r.unpack(out[:n])
		}
		out, r.left = out[n:], r.left-n
	}
	return nil
}

// unpack reads packed numbers, which must be present. Eight bytes contain the whole of a number of up to 32 bits that
// begins in the first of them.
func (r *runs) unpack(out []uint32) {
	mask := uint64(1)<<r.width - 1
	for i := range out {
		at := r.bit >> 3
		var word uint64
		if at+8 <= len(r.packed) {
			word = binary.LittleEndian.Uint64(r.packed[at:])
		} else {
			var last [8]byte
			copy(last[:], r.packed[at:])
			word = binary.LittleEndian.Uint64(last[:])
		}
		out[i] = uint32(word >> (r.bit & 7) & mask)
		r.bit += int(r.width)
	}
}

// skipOnes skips n numbers if a run of at least n repeated ones comes next. It may return false at the boundary of two.
func (r *runs) skipOnes(n int) bool {
	if r.left == 0 && r.beginRun() != nil || !r.repeated || r.value != 1 || r.left < n {
		return false
	}
	r.left -= n
	return true
}

// joinStreams makes plain values of width bytes from one stream per byte position (BYTE_STREAM_SPLIT).
func joinStreams(data []byte, width int) []byte {
	n := len(data) / width
	out := make([]byte, n*width)
	for stream := range width {
		at := stream
		for _, b := range data[stream*n : (stream+1)*n] {
			out[at] = b
			at += width
		}
	}
	return out
}

// room is asked before so many bytes are allocated.
type room func(bytes int64) error

// plainDeltas makes plain numbers of width bytes from deltas.
func plainDeltas(data []byte, width int, room room) ([]byte, error) {
	numbers, _, err := readDeltas(data, room)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, len(numbers)*width)
	for _, x := range numbers {
		if width == 4 {
			out = binary.LittleEndian.AppendUint32(out, uint32(x))
		} else {
			out = binary.LittleEndian.AppendUint64(out, uint64(x))
		}
	}
	return out, nil
}

// plainTexts makes plain texts from texts behind all their lengths (DELTA_LENGTH_BYTE_ARRAY) or, if they are shared,
// from suffixes in that form behind the lengths of the prefixes that each shares with the text before it
// (DELTA_BYTE_ARRAY). A width other than 0 is the length of each.
func plainTexts(data []byte, width int, shared bool, room room) (out []byte, err error) {
	var prefixes []int64
	if shared {
		if prefixes, data, err = readDeltas(data, room); err != nil {
			return nil, err
		}
	}
	suffixes, data, err := readDeltas(data, room)
	if err != nil {
		return nil, err
	}
	if !shared {
		prefixes = make([]int64, len(suffixes))
	}
	if len(prefixes) != len(suffixes) {
		return nil, errDelta
	}

	// First the lengths, so that nothing is allocated for texts that cannot be.
	size, before, left := int64(0), int64(0), int64(len(data))
	for i, suffix := range suffixes {
		prefix := prefixes[i]
		length := prefix + suffix
		if prefix < 0 || prefix > before || suffix < 0 || suffix > left || width > 0 && length != int64(width) {
			return nil, errDelta
		}
		before, left = length, left-suffix
		if size += 4 + length; size > maxPage {
			return nil, errDelta
		}
	}
	if err := room(size); err != nil {
		return nil, err
	}

	out = make([]byte, 0, size)
	begin := 0 // of the text before
	for i, suffix := range suffixes {
		if width == 0 {
			out = binary.LittleEndian.AppendUint32(out, uint32(prefixes[i]+suffix))
		}
		text := len(out)
		out = append(out, out[begin:begin+int(prefixes[i])]...)
		out = append(out, data[:suffix]...)
		begin, data = text, data[suffix:]
	}
	return out, nil
}

// readDeltas reads numbers stored as differences in blocks (DELTA_BINARY_PACKED), and returns the data behind them.
func readDeltas(data []byte, room room) (out []int64, rest []byte, err error) {
	var head [3]uint64 // values per block, miniblocks per block, total values
	for i := range head {
		x, n := binary.Uvarint(data)
		if n <= 0 || x > maxPage {
			return nil, nil, errDelta
		}
		head[i], data = x, data[n:]
	}
	last, n := binary.Varint(data)
	if n <= 0 {
		return nil, nil, errDelta
	}
	data = data[n:]

	parts, total := int(head[1]), int(head[2])
	if total == 0 {
		return nil, data, nil
	}
	if parts == 0 || head[0]%uint64(parts) != 0 || head[0]/uint64(parts)%32 != 0 || head[0] == 0 {
		return nil, nil, errDelta
	}
	each := int(head[0]) / parts
	if (total-1)/each > len(data) { // a miniblock takes at least a byte
		return nil, nil, errDelta
	}
	if err := room(8 * int64(total)); err != nil {
		return nil, nil, err
	}

	for out = append(make([]int64, 0, total), last); len(out) < total; {
		least, n := binary.Varint(data)
		if n <= 0 || parts > len(data)-n {
			return nil, nil, errDelta
		}
		widths := data[n : n+parts]
		data = data[n+parts:]

		for _, width := range widths {
			if len(out) == total {
				break // miniblocks without values have only a width
			}
			size := each / 8 * int(width)
			if width > 64 || size > len(data) {
				return nil, nil, errDelta
			}
			out = unpackDeltas(data[:size], uint(width), least, min(each, total-len(out)), out)
			data = data[size:]
		}
	}
	return out, data, nil
}

// unpackDeltas appends n numbers to out, each larger than the previous one by least plus a difference of width bits.
func unpackDeltas(data []byte, width uint, least int64, n int, out []int64) []int64 {
	last := out[len(out)-1]
	at := uint(0)
	for range n {
		delta := uint64(0)
		for got := uint(0); got < width; {
			take := min(8-at&7, width-got)
			delta |= uint64(data[at>>3]>>(at&7)&(1<<take-1)) << got
			got, at = got+take, at+take
		}
		last += least + int64(delta)
		out = append(out, last)
	}
	return out
}
