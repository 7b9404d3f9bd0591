package table

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync/atomic"

	"github.com/andybalholm/brotli"
	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/compress"
	"github.com/apache/arrow/go/v17/parquet/metadata"
	"github.com/apache/thrift/lib/go/thrift"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"coppice/internal/dataset"
)

const (
	maxPage        = 1 << 30   // most that any number in a page's header may be: bytes, values
	maxHeader      = 16 << 20  // most bytes of a page's header, which may include statistics of long texts
	readAheadBytes = 128 << 10 // largest buffer of a column
	leastRead      = 4 << 10   // smallest one: the reader of headers would put another buffer around a smaller one

	// maxInflate is more than the best ratio of gzip, Snappy and LZ4: a page that claims more is damaged. Zstandard and
	// Brotli have no such bound.
	maxInflate = 1100

	lz4Raw = compress.Compression(7) // the library has no name for it
)

// pageMemory bounds the memory into which all columns of a file together unpack their pages: a file of 90 kilobytes can
// hold pages of gigabytes. Columns use it from several goroutines.
type pageMemory struct {
	left   atomic.Int64 // bytes that may still be taken
	packed chan []byte  // memory for packed pages, which columns exchange: so there is one per thread, not per column
}

// The bound is minMemory plus inflate times the file's bytes. A wide table holds one page of each column at a time,
// usually of a megabyte, so minMemory is enough for 256 columns. Pages of a real table do not unpack to more than a
// hundred times the file.
const (
	minMemory = 256 << 20
	inflate   = 100
)

// newPageMemory returns the memory for the columns of a file of so many bytes.
func newPageMemory(fileBytes int64) *pageMemory {
	m := &pageMemory{packed: make(chan []byte, 64)}
	m.left.Store(minMemory + inflate*fileBytes)
	return m
}

// take reserves bytes; the caller adds them to left when it no longer uses them. An error says that the file would need
// too much.
func (m *pageMemory) take(bytes int64) error {
	if m.left.Add(-bytes) < 0 {
		m.left.Add(bytes)
		return fmt.Errorf("its page unpacks to %d MB, too much for a file of this size; write smaller pages", bytes>>20)
	}
	return nil
}

// page is a page of values, or of a dictionary. Its slices are valid until the next page is read.
type page struct {
	dictionary bool
	encoding   parquet.Encoding
	values     int64  // number of values, nulls included
	levels     []byte // runs that tell which rows are null; empty if none can be
	data       []byte // the values that are not null, in the page's encoding
}

// pageReader reads the pages of one column, column chunk by column chunk: beginChunk, then nextPage until errNoPages.
// It replaces the library's own reader, which ends early without an error if a file is damaged, can loop forever on
// truncated levels, ignores checksums, and copies every page twice.
type pageReader struct {
	optional bool // values may be null
	zstd     *zstd.Decoder
	memory   *pageMemory
	taken    int64 // bytes of memory that the current page has taken
	kept     int64 // bytes of memory that the dictionary has taken

	// The current column chunk.
	section *io.LimitedReader // its bytes in the file
	file    *bufio.Reader     // on section
	headers thrift.TProtocol  // reads page headers from file
	codec   compress.Compression
	left    int64  // values in the remaining pages
	packed  []byte // the current page as it is in the file; nil if its memory was given to other columns
	plain   []byte // the current page unpacked
}

var errEncrypted = errors.New("it is encrypted; drop the column, or write it without encryption")

// beginChunk starts on the column chunk c of a row group with so many rows, in a file r of size bytes. writer is the
// program that wrote the file. It gives back the memory of the chunk before.
func (p *pageReader) beginChunk(r io.ReaderAt, size int64, c *metadata.ColumnChunkMetaData, writer *metadata.AppVersion,
	rows int64) error {
	if c.CryptoMetadata() != nil {
		return errEncrypted
	}

	// Where the chunk's bytes are. The dictionary, if there is one, comes first.
	start, n := c.DataPageOffset(), c.TotalCompressedSize()
	if d := c.DictionaryPageOffset(); c.HasDictionaryPage() && d > 0 && d < start {
		start = d
	}
	if start < 0 || n < 0 || start > size || n > size-start {
		return fmt.Errorf("its data lies outside the file (byte %d, length %d)", start, n)
	}
	if writer.LessThan(metadata.Parquet816FixedVersion) {
		n = min(n+100, size-start) // some writers forgot to count the dictionary page's header (PARQUET-816)
	}
	if c.NumValues() != rows {
		return fmt.Errorf("it has %d values in %d rows", c.NumValues(), rows)
	}

	// Give back what the last chunk has taken.
	p.codec, p.left = c.Compression(), rows
	p.memory.left.Add(p.taken + p.kept)
	p.taken, p.kept = 0, 0
	p.openRange(r, start, n)
	return nil
}

// openRange begins to read n bytes of r from position start on.
func (p *pageReader) openRange(r io.ReaderAt, start, n int64) {
	// A buffer is only as large as the chunk: in a wide table a column's chunk is a few kilobytes, and full buffers for
	// all columns would be most of the memory.
	if size := int(min(readAheadBytes, max(n, leastRead))); p.file == nil || p.file.Size() < size {
		p.file = bufio.NewReaderSize(nil, size)
		p.headers = thrift.NewTCompactProtocolConf(thrift.NewStreamTransportR(p.file),
			&thrift.TConfiguration{MaxMessageSize: maxHeader})
	}
	p.section = &io.LimitedReader{R: io.NewSectionReader(r, start, n), N: n}
	p.file.Reset(p.section)
}

// errNoPages is returned by nextPage after the last page.
var errNoPages = errors.New("no more pages")

// nextPage reads the next page of values or of a dictionary, and skips pages of other types. It gives back the memory
// of the page before.
func (p *pageReader) nextPage() (page, error) {
	p.memory.left.Add(p.taken)
	p.taken = 0

	for p.left > 0 {
		h, err := readPageHeader(p.headers)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = fmt.Errorf("its pages end before its last %d values", p.left)
		}
		if err != nil {
			return page{}, err
		}

		// Read the page's bytes, into memory that another column has given up if there is any. rest is how many bytes
		// of the chunk have not been taken: some wait in the file's buffer.
		if rest := p.section.N + int64(p.file.Buffered()); h.compressed > rest {
			return page{}, fmt.Errorf("a page of %d bytes, of which %d are there", h.compressed, rest)
		}
		if p.packed == nil {
			select {
			case p.packed = <-p.memory.packed:
			default:
			}
		}
		p.packed = dataset.Resize(p.packed, int(h.compressed))
		if _, err := io.ReadFull(p.file, p.packed); err != nil {
			return page{}, err
		}
		if h.hasCRC && crc32.ChecksumIEEE(p.packed) != uint32(h.crc) {
			return page{}, errors.New("a page's contents differ from its checksum")
		}

		switch h.typ {
		case pageDictionary:
			data, err := p.unpack(p.packed, h.uncompressed)
			return page{dictionary: true, encoding: parquet.Encoding(h.encoding), values: h.values, data: data}, err
		case pageData, pageDataV2:
			return p.dataPage(h)
		}
	}
	return page{}, errNoPages
}

// dataPage unpacks the page of values in p.packed, and divides it into levels and values. Repetition levels, which only
// nested columns need, are skipped.
func (p *pageReader) dataPage(h pageHeader) (out page, err error) {
	if h.values > p.left {
		return page{}, fmt.Errorf("a page of %d values where %d are left", h.values, p.left)
	}
	p.left -= h.values
	out = page{encoding: parquet.Encoding(h.encoding), values: h.values}

	// In version 2 the levels come before the values and are never compressed.
	if h.typ == pageDataV2 {
		levels := h.levelBytes + h.repBytes
		if levels > int64(len(p.packed)) || levels > h.uncompressed {
			return page{}, errShortLevels
		}
		out.data = p.packed[levels:]
		if p.optional {
			out.levels = p.packed[h.repBytes:levels]
		}
		if h.packed {
			out.data, err = p.unpack(out.data, h.uncompressed-levels)
		}
		return out, err
	}

	// In version 1 the levels are part of what is compressed, after four bytes with their length.
	out.data, err = p.unpack(p.packed, h.uncompressed)
	if err != nil || !p.optional {
		return out, err
	}
	if parquet.Encoding(h.levels) != parquet.Encodings.RLE {
		return page{}, fmt.Errorf("a page with levels in the encoding %s", parquet.Encoding(h.levels))
	}
	if len(out.data) < 4 || int64(binary.LittleEndian.Uint32(out.data)) > int64(len(out.data)-4) {
		return page{}, errShortLevels
	}
	levels := 4 + int(binary.LittleEndian.Uint32(out.data))
	out.levels, out.data = out.data[4:levels], out.data[levels:]
	return out, nil
}

var errShortLevels = errors.New("a page too short for its levels")

// unpack decompresses data to size bytes. data is p.packed or, if the levels are not compressed, the part after them.
// If it is all of p.packed and is compressed, other columns may use its memory from then on.
func (p *pageReader) unpack(data []byte, size int64) ([]byte, error) {
	whole := len(data) == len(p.packed)
	if p.codec == compress.Codecs.Uncompressed {
		if int64(len(data)) != size {
			return nil, fmt.Errorf("a page of %d bytes where %d belong", len(data), size)
		}
		return data, nil
	}

	// Refuse a size that cannot be before memory is taken for it.
	unbounded := p.codec == compress.Codecs.Zstd || p.codec == compress.Codecs.Brotli
	if !unbounded && size > maxInflate*int64(len(data)) {
		return nil, fmt.Errorf("a page of %d bytes in %d", size, len(data))
	}
	if err := p.reserveMemory(size); err != nil {
		return nil, err
	}
	p.plain = dataset.Resize(p.plain, int(size))
	out, err := p.decompress(p.plain, data)
	if err != nil {
		return nil, fmt.Errorf("a page that cannot be decompressed: %w", err)
	}
	if whole {
		select {
		case p.memory.packed <- p.packed:
		default:
		}
		p.packed = nil
	}
	if int64(len(out)) != size {
		return nil, fmt.Errorf("a page of %d bytes where %d belong", len(out), size)
	}
	return out, nil
}

// dropPage forgets the current page and gives back its memory, once its values have been copied.
func (p *pageReader) dropPage() {
	p.memory.left.Add(p.taken)
	p.packed, p.plain, p.taken = nil, nil, 0
}

// reserveMemory takes memory for the current page; it is given back with the next page.
func (p *pageReader) reserveMemory(bytes int64) error {
	err := p.memory.take(bytes)
	if err == nil {
		p.taken += bytes
	}
	return err
}

// decompress decompresses data into to, which is as long as the page's header says, and returns the part of it that was
// filled.
func (p *pageReader) decompress(to, data []byte) ([]byte, error) {
	var stream io.Reader
	switch p.codec {
	case compress.Codecs.Snappy:
		// The error wraps one in any case: err is nil where only the length is wrong.
		if n, err := snappy.DecodedLen(data); err != nil || n != len(to) {
			return nil, fmt.Errorf("%d bytes of Snappy where %d belong (%w)", n, len(to),
				errors.Join(err, snappy.ErrCorrupt))
		}
		return snappy.Decode(to, data)
	case compress.Codecs.Zstd:
		return p.zstd.DecodeAll(data, to[:0:len(to)]) // the decoder's options bound the result by this capacity
	case lz4Raw:
		n, err := lz4.UncompressBlock(data, to)
		return to[:max(0, n)], err
	case compress.Codecs.Brotli:
		stream = brotli.NewReader(bytes.NewReader(data))
	case compress.Codecs.Gzip:
		z, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil, err
		}
		stream = z
	default:
		return nil, fmt.Errorf("%s is not supported", p.codec)
	}
	n, err := io.ReadFull(stream, to)
	return to[:n], err
}

// pageHeader is the part of a page's header that is needed to read columns that are not nested. Source: parquet.thrift
// of apache/parquet-format.
type pageHeader struct {
	typ          int64 // one of the page types below
	uncompressed int64 // bytes
	compressed   int64 // bytes in the file
	hasCRC       bool
	crc          int64

	values     int64
	encoding   int64
	levels     int64 // encoding of definition levels, in a data page
	levelBytes int64 // this and the following only in a data page of version 2
	repBytes   int64
	packed     bool // whether the values are compressed
}

// Types of pages. Others, such as index pages, are skipped.
const (
	pageData       = 0
	pageDictionary = 2
	pageDataV2     = 3
)

// readPageHeader reads a PageHeader. All sizes in it are from 0 to maxPage.
func readPageHeader(r thrift.TProtocol) (pageHeader, error) {
	h := pageHeader{packed: true}
	err := readFields(r, func(id int16, typ thrift.TType) (bool, error) {
		// The numbers are those of the fields in parquet.thrift. Fields 5, 7 and 8 are the headers of the types of
		// pages.
		switch {
		case id == 4 && typ == thrift.I32:
			h.hasCRC = true
			return true, readNumber(r, &h.crc)
		case (id == 5 || id == 7) && typ == thrift.STRUCT: // of data pages and dictionaries
			return true, readNumbers(r, map[int16]*int64{1: &h.values, 2: &h.encoding, 3: &h.levels}, nil)
		case id == 8 && typ == thrift.STRUCT:
			return true, readNumbers(r, map[int16]*int64{1: &h.values, 4: &h.encoding, 5: &h.levelBytes,
				6: &h.repBytes}, &h.packed)
		}
		into := map[int16]*int64{1: &h.typ, 2: &h.uncompressed, 3: &h.compressed}[id]
		if into == nil || typ != thrift.I32 {
			return false, nil
		}
		return true, readNumber(r, into)
	})
	if err != nil {
		return h, fmt.Errorf("a page header that is not one: %w", err)
	}

	for _, size := range []int64{h.uncompressed, h.compressed, h.values, h.levelBytes, h.repBytes} {
		if size < 0 || size > maxPage {
			return h, fmt.Errorf("a page header with the number %d", size)
		}
	}
	return h, nil
}

// readFields calls read for every field of a struct, and skips each field for which read returns false.
func readFields(r thrift.TProtocol, read func(id int16, typ thrift.TType) (bool, error)) error {
	const maxDepth = 8 // of skipped fields
	ctx := context.Background()
	if _, err := r.ReadStructBegin(ctx); err != nil {
		return err
	}
	for {
		_, typ, id, err := r.ReadFieldBegin(ctx)
		if err != nil || typ == thrift.STOP {
			return errors.Join(err, r.ReadStructEnd(ctx))
		}
		handled, err := read(id, typ)
		if err == nil && !handled {
			err = thrift.Skip(ctx, r, typ, maxDepth)
		}
		if err != nil {
			return err
		}
	}
}

func readNumber(r thrift.TProtocol, into *int64) error {
	x, err := r.ReadI32(context.Background())
	*into = int64(x)
	return err
}

// readNumbers reads the 32-bit fields of a struct into the variables for their ids, and skips all other fields. If flag
// is not nil, the boolean field 7 is read into it: is_compressed of a DataPageHeaderV2, the only boolean that is
// needed.
func readNumbers(r thrift.TProtocol, into map[int16]*int64, flag *bool) error {
	return readFields(r, func(id int16, typ thrift.TType) (bool, error) {
		switch {
		case into[id] != nil && typ == thrift.I32:
			return true, readNumber(r, into[id])
		case id == 7 && flag != nil && typ == thrift.BOOL:
			var err error
			*flag, err = r.ReadBool(context.Background())
			return true, err
		}
		return false, nil
	})
}
