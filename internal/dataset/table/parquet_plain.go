package table

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/compress"
	"github.com/apache/arrow/go/v17/parquet/schema"
)

// Encodings that the library has no name or no decoder for. Source: parquet.thrift and Encodings.md of
// apache/parquet-format.
const (
	byteStreamSplit = parquet.Encoding(9)
	lz4Raw          = compress.Compression(7)
)

// fixedWidth is the number of bytes of each value in a column; 0 if it varies or is less than one.
func fixedWidth(c *schema.Column) int {
	switch c.PhysicalType() {
	case parquet.Types.Int32, parquet.Types.Float:
		return 4
	case parquet.Types.Int64, parquet.Types.Double:
		return 8
	case parquet.Types.FixedLenByteArray:
		return max(0, c.TypeLength())
	}
	return 0
}

// plainly rewrites the values of a data page from an encoding that the library cannot read to the plain one, which
// every decoder here reads. The page's levels, its first bytes, stay as they are.
func (p *pageReader) plainly(encoding parquet.Encoding, page []byte, levels int) (parquet.Encoding, []byte, error) {
	if p.width == 0 {
		return encoding, page, nil
	}

	var size int
	var write func(to []byte)
	switch coded := page[levels:]; {
	case encoding == byteStreamSplit:
		if len(coded)%p.width != 0 {
			return 0, nil, fmt.Errorf("a page of %d bytes in %d streams", len(coded), p.width)
		}
		size, write = len(coded), func(to []byte) { joinStreams(coded, p.width, to) }

	case encoding == parquet.Encodings.DeltaByteArray && p.fixed:
		values, err := readDeltaTexts(coded, p.width)
		if err != nil {
			return 0, nil, err
		}
		size, write = len(values), func(to []byte) { copy(to, values) }
	default:
		return encoding, page, nil
	}

	to := p.plain[:0]
	if p.lent || cap(to) < levels+size {
		to = make([]byte, 0, levels+size)
		if !p.lent {
			p.plain = to
		}
	}
	to = append(to, page[:levels]...)[:levels+size]
	write(to[levels:])
	return parquet.Encodings.Plain, to, nil
}

// joinStreams writes values whose bytes are stored as one stream per byte position.
func joinStreams(data []byte, width int, to []byte) {
	n := len(data) / width
	switch width {
	case 4:
		a, b, c, d := data[:n], data[n:2*n], data[2*n:3*n], data[3*n:4*n]
		for i := range a {
			binary.LittleEndian.PutUint32(to[4*i:], uint32(a[i])|uint32(b[i])<<8|uint32(c[i])<<16|uint32(d[i])<<24)
		}
	default:
		for stream := range width {
			at := stream
			for _, b := range data[stream*n : (stream+1)*n] {
				to[at] = b
				at += width
			}
		}
	}
}

var errDelta = errors.New("a page whose deltas are truncated or out of bounds")

// readDeltaTexts reads values of width bytes that are stored as a prefix shared with the previous value, and a suffix
// (DELTA_BYTE_ARRAY).
func readDeltaTexts(data []byte, width int) ([]byte, error) {
	prefixes, data, err := readDeltas(data)
	if err != nil {
		return nil, err
	}
	suffixes, data, err := readDeltas(data)
	if err != nil {
		return nil, err
	}
	if len(prefixes) != len(suffixes) || int64(len(prefixes))*int64(width) > maxPage {
		return nil, errDelta
	}

	out := make([]byte, 0, len(prefixes)*width)
	for i, prefix := range prefixes {
		suffix := suffixes[i]
		if prefix < 0 || suffix < 0 || prefix+suffix != int64(width) || suffix > int64(len(data)) || prefix > 0 &&
			i == 0 {
			return nil, errDelta
		}
		out = append(out, out[max(0, len(out)-width):][:prefix]...)
		out = append(out, data[:suffix]...)
		data = data[suffix:]
	}
	return out, nil
}

// readDeltas reads numbers stored as differences in blocks (DELTA_BINARY_PACKED), and returns the data after them.
func readDeltas(data []byte) (out []int64, rest []byte, err error) {
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

	// A miniblock takes at least a byte, which bounds the number of values to allocate.
	parts, total := int(head[1]), int(head[2])
	if total == 0 {
		return nil, data, nil
	}
	if parts == 0 || head[0]%uint64(parts) != 0 || head[0]/uint64(parts)%32 != 0 || head[0] == 0 {
		return nil, nil, errDelta
	}
	each := int(head[0]) / parts
	if (total-1)/each > len(data) {
		return nil, nil, errDelta
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
