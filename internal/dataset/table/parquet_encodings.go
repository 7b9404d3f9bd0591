package table

import (
	"encoding/binary"
	"errors"
)

// The encodings of Parquet's values, as Encodings.md of apache/parquet-format describes them. Levels and indices are
// runs. Every other encoding is rewritten to the plain one, so that values are converted from one form only. In the
// plain encoding, numbers are little-endian, texts of a fixed length follow each other, and every other text follows
// four bytes with its length.

var (
	errRuns  = errors.New("a page with truncated levels or indices")
	errDelta = errors.New("a page with deltas that are truncated or out of bounds")
)

// runs reads numbers of up to 32 bits from Parquet's hybrid encoding. It is a sequence of runs; each begins with a head
// that says whether one number is repeated, or groups of eight bit-packed numbers follow.
type runs struct {
	data  []byte // what follows the current run
	width uint   // bits of a number
	left  int    // numbers left in the current run

	repeated bool   // the current run repeats value; otherwise its numbers are in packed
	value    uint32 // the repeated number
	packed   []byte // the packed numbers, and all bytes after them
	bit      int    // where the next number begins in packed
	bits     int    // how many bits of packed belong to the run
}

// packedRun returns one run of packed numbers without a head, which is all of data.
func packedRun(data []byte, width uint) runs {
	return runs{width: width, left: 8 * len(data), packed: data, bits: 8 * len(data)}
}

// beginRun reads the head of the next run and finds its numbers. The lowest bit of a head is the kind of the run, the
// others are a count: with 0, one number in whole bytes is repeated that often; with 1, that many groups of eight
// packed numbers follow.
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

	// Eight numbers of width bits take width bytes. Some writers cut off the last group after its last number, so there
	// may be fewer bits than left says.
	size := min(int(count)*int(r.width), len(r.data))
	r.left, r.packed, r.bit, r.bits, r.data = 8*int(count), r.data, 0, 8*size, r.data[size:]
	return nil
}

// read fills out with the next numbers. It is an error if there are too few.
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

// unpack fills out with the next packed numbers, which must be there. A number of up to 32 bits begins in one byte and
// ends within the next four, so eight bytes always contain all of it.
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

// skipOnes skips the next n numbers if all of them are 1, and reports whether it did. It looks at one run only, so it
// may return false although all are 1.
func (r *runs) skipOnes(n int) bool {
	if r.left == 0 && r.beginRun() != nil || !r.repeated || r.value != 1 || r.left < n {
		return false
	}
	r.left -= n
	return true
}

// joinStreams returns plain values of width bytes. In the encoding BYTE_STREAM_SPLIT, data holds the first bytes of all
// values, then all second bytes, and so on.
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

// plainDeltas returns plain numbers of width bytes, 4 or 8, from the encoding DELTA_BINARY_PACKED.
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

// plainTexts returns plain texts. If shared is false, data holds the lengths of all texts, then the texts
// (DELTA_LENGTH_BYTE_ARRAY). If it is true, data holds for each text how many bytes it shares with the text before it,
// and then the rest of every text in the first form (DELTA_BYTE_ARRAY). A width other than 0 is the length that each
// text must have.
func plainTexts(data []byte, width int, shared bool, room room) (out []byte, err error) {
	// Lengths of the shared beginnings and of the rests.
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

	// Check all lengths before anything is allocated: those of a damaged page may be any numbers. before is the length
	// of the previous text, left the bytes of data that are left.
	size, before, left := int64(0), int64(0), int64(len(data))
	for i, suffix := range suffixes {
		prefix := prefixes[i]
		length := prefix + suffix
		if prefix < 0 || prefix > before || suffix < 0 || suffix > left || width > 0 && length != int64(width) {
			return nil, errDelta
		}
		before, left = length, left-suffix
		size += 4 + length
		if size > maxPage {
			return nil, errDelta
		}
	}
	if err := room(size); err != nil {
		return nil, err
	}

	// Put the texts together.
	out = make([]byte, 0, size)
	begin := 0 // where the previous text begins in out
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

// readDeltas reads numbers in the encoding DELTA_BINARY_PACKED, and returns them with the data that follows. The
// encoding has a header and the first number, then blocks of differences. A block has the least difference, and
// miniblocks of equally many differences above it, each with a width in bits of its own.
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

	// parts is the miniblocks of a block, total all numbers, and each the numbers of a miniblock.
	parts, total := int(head[1]), int(head[2])
	if total == 0 {
		return nil, data, nil
	}
	// The format has miniblocks of a multiple of 32 numbers.
	if parts == 0 || head[0]%uint64(parts) != 0 || head[0]/uint64(parts)%32 != 0 || head[0] == 0 {
		return nil, nil, errDelta
	}
	each := int(head[0]) / parts
	// The first number is in the header, so total-1 are in miniblocks, which take at least a byte each, the width.
	if (total-1)/each > len(data) {
		return nil, nil, errDelta
	}
	if err := room(8 * int64(total)); err != nil {
		return nil, nil, err
	}

	// Read the blocks.
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

// unpackDeltas appends n numbers to out, which has at least one. Each number is larger than the one before it by least
// plus a difference of width bits from data.
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
