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
	maxPage        = 1 << 30  // any number in a page's header: bytes, values
	maxHeader      = 16 << 20 // a page's header, which may include statistics of long texts
	readAheadBytes = 128 << 10
	leastRead      = 4 << 10 // less would be buffered again by the reader of headers

	// maxInflate is more than the best ratio of gzip, Snappy and LZ4: a page that claims more is damaged. Zstandard and
	// Brotli have no such bound.
	maxInflate = 1100

	lz4Raw = compress.Compression(7) // the library has no name for it
)

// pageMemory bounds what all columns of a file unpack at a time: a file of 90 kilobytes can hold pages of gigabytes.
// Wide tables hold a page of each column, usually of a megabyte; minMemory is that of 256 columns, and a real table's
// pages do not unpack to more than inflate times its file.
type pageMemory struct {
	left   atomic.Int64
	packed chan []byte // memory for pages before they are unpacked: one per thread, where columns would need one each
}

const (
	minMemory = 256 << 20
	inflate   = 100
)

func newPageMemory(fileBytes int64) *pageMemory {
	m := &pageMemory{packed: make(chan []byte, 64)}
	m.left.Store(minMemory + inflate*fileBytes)
	return m
}

// take reserves bytes, which the caller adds to left when they are no longer used.
func (m *pageMemory) take(bytes int64) error {
	if m.left.Add(-bytes) < 0 {
		m.left.Add(bytes)
		return fmt.Errorf("its page unpacks to %d MB, too much for a file of this size; write smaller pages", bytes>>20)
	}
	return nil
}

// page is a page of values; data is valid until the next page.
type page struct {
	dictionary bool
	encoding   parquet.Encoding
	values     int64  // with nulls
	levels     []byte // runs of definition levels
	data       []byte
}

// pageReader reads the pages of one column, column chunk by column chunk. The library's own reader ends early without
// an error if a file is damaged, can loop forever on truncated levels, ignores checksums, and copies every page twice.
type pageReader struct {
	optional bool // values may be null
	zstd     *zstd.Decoder
	memory   *pageMemory
	taken    int64 // of memory, by the current page
	kept     int64 // of memory, by the dictionary

	section *io.LimitedReader
	file    *bufio.Reader // on section
	headers thrift.TProtocol
	codec   compress.Compression
	left    int64 // values in the remaining pages
	packed  []byte
	plain   []byte
}

var errEncrypted = errors.New("it is encrypted; drop the column, or write it without encryption")

// beginChunk starts on a column chunk with rows rows in a file of size bytes.
func (p *pageReader) beginChunk(r io.ReaderAt, size int64, c *metadata.ColumnChunkMetaData, writer *metadata.AppVersion,
	rows int64) error {
	if c.CryptoMetadata() != nil {
		return errEncrypted
	}

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

	p.codec, p.left = c.Compression(), rows
	p.memory.left.Add(p.taken + p.kept)
	p.taken, p.kept = 0, 0
	p.openRange(r, start, n)
	return nil
}

// openRange begins to read n bytes of r from start on.
func (p *pageReader) openRange(r io.ReaderAt, start, n int64) {
	// Of a wide table a column's chunk is a few kilobytes: a full buffer for each column would be most of the memory.
	if size := int(min(readAheadBytes, max(n, leastRead))); p.file == nil || p.file.Size() < size {
		p.file = bufio.NewReaderSize(nil, size)
		p.headers = thrift.NewTCompactProtocolConf(thrift.NewStreamTransportR(p.file),
			&thrift.TConfiguration{MaxMessageSize: maxHeader})
	}
	p.section = &io.LimitedReader{R: io.NewSectionReader(r, start, n), N: n}
	p.file.Reset(p.section)
}

// errNoPages is returned by next behind the last page.
var errNoPages = errors.New("no more pages")

// nextPage reads the next page of values or of a dictionary.
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

// dataPage splits the page in packed into levels and values.
func (p *pageReader) dataPage(h pageHeader) (out page, err error) {
	if h.values > p.left {
		return page{}, fmt.Errorf("a page of %d values where %d are left", h.values, p.left)
	}
	p.left -= h.values
	out = page{encoding: parquet.Encoding(h.encoding), values: h.values}

	// In version 2 the levels are in front of the values and never compressed.
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

// unpack decompresses a page, or the part behind its levels, to size bytes.
func (p *pageReader) unpack(data []byte, size int64) ([]byte, error) {
	whole := len(data) == len(p.packed)
	if p.codec == compress.Codecs.Uncompressed {
		if int64(len(data)) != size {
			return nil, fmt.Errorf("a page of %d bytes where %d belong", len(data), size)
		}
		return data, nil
	}

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

// dropPage frees the memory of the current page.
func (p *pageReader) dropPage() {
	p.memory.left.Add(p.taken)
	p.packed, p.plain, p.taken = nil, nil, 0
}

// reserveMemory reserves memory until the next page.
func (p *pageReader) reserveMemory(bytes int64) error {
	err := p.memory.take(bytes)
	if err == nil {
		p.taken += bytes
	}
	return err
}

// decompress fills to, whose length the page's header has stated, or returns less if there is less.
func (p *pageReader) decompress(to, data []byte) ([]byte, error) {
	var stream io.Reader
	switch p.codec {
	case compress.Codecs.Snappy:
		if n, err := snappy.DecodedLen(data); err != nil || n != len(to) {
			return nil, fmt.Errorf("%d bytes of Snappy where %d belong (%w)", n, len(to),
				errors.Join(err, snappy.ErrCorrupt))
		}
		return snappy.Decode(to, data)
	case compress.Codecs.Zstd:
		return p.zstd.DecodeAll(data, to[:0:len(to)])
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

// pageHeader is the part of a page's header needed to read flat columns. Source: parquet.thrift of
// apache/parquet-format.
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

// readPageHeader reads a PageHeader. The sizes that it returns are within 0 to maxPage.
func readPageHeader(r thrift.TProtocol) (pageHeader, error) {
	h := pageHeader{packed: true}
	err := readFields(r, func(id int16, typ thrift.TType) (bool, error) {
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

// readFields calls read for every field of a struct, and skips those that read does not handle.
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
		known, err := read(id, typ)
		if err == nil && !known {
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

// readNumbers reads the 32-bit fields of a struct whose ids have a variable, and skips all others, except that field 7
// goes to flag, unless that is nil: it is the only boolean that is needed, is_compressed of a DataPageHeaderV2.
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
