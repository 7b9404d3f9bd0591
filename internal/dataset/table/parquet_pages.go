package table

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"

	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/compress"
	"github.com/apache/arrow/go/v17/parquet/file"
	"github.com/apache/arrow/go/v17/parquet/metadata"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// pageReader passes the pages of one column chunk to the library's decoders. It replaces the library's own, which ends
// early without an error if a file is damaged, can loop forever on truncated levels, ignores checksums, and copies
// every page twice.
type pageReader struct {
	window window
	codec  compress.Compression
	zstd   *zstd.Decoder
	left   int64      // values in the remaining pages
	level  int16      // highest definition level: 0 or 1
	width  int        // bytes of each value, or 0
	fixed  bool       // values are texts of that width
	lent   bool       // values point into the page, so its memory must not be reused
	packed *sync.Pool // of *[]byte
	direct bool       // the decoder checks indices itself
	dict   int64      // number of values in the chunk's dictionary
	buf    []byte
	plain  []byte // a page's values as rewritten by plainly
	page   file.Page
	err    error
}

// maxHeader bounds a page's header, which may include statistics of long texts.
const maxHeader = 16 << 20

var errEncrypted = errors.New("it is encrypted; drop the column, or write it without encryption")

// begin starts on a column chunk with rows rows in a file of size bytes.
func (p *pageReader) begin(r io.ReaderAt, size int64, c *metadata.ColumnChunkMetaData, writer *metadata.AppVersion,
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

	p.window = window{r: r, at: start, end: start + n, buf: p.window.buf[:0]}
	p.codec, p.left, p.dict, p.page, p.err = c.Compression(), rows, 0, nil, nil
	return nil
}

// SetMaxPageHeaderSize is part of file.PageReader; maxHeader applies instead.
func (p *pageReader) SetMaxPageHeaderSize(int) {}

// Reset is part of file.PageReader; begin is used instead.
func (p *pageReader) Reset(parquet.BufferedReader, int64, compress.Compression, *file.CryptoContext) {
}

// Page returns the current page.
func (p *pageReader) Page() file.Page { return p.page }

// Err returns the error that ended the pages, or nil.
func (p *pageReader) Err() error { return p.err }

// Next moves to the next page.
func (p *pageReader) Next() bool {
	p.page = nil
	for p.err == nil && p.left > 0 && p.page == nil {
		p.page, p.err = p.read()
	}
	return p.page != nil
}

// read reads one page; nil if it is of a type that is skipped.
func (p *pageReader) read() (file.Page, error) {
	h, err := p.header()
	if err != nil {
		return nil, err
	}

	packed := p.packed.Get().(*[]byte)
	defer p.packed.Put(packed)
	data, err := p.contents(h, packed)
	if err != nil {
		return nil, err
	}

	if h.hasCRC && crc32.ChecksumIEEE(data) != uint32(h.crc) {
		return nil, errors.New("a page's contents differ from its checksum")
	}

	switch h.typ {
	case pageDictionary:
		data, err = p.unpack(data, h.uncompressed, true)
		if err != nil {
			return nil, err
		}
		if h.values > int64(len(data)) {
			return nil, fmt.Errorf("a dictionary of %d values in %d bytes", h.values, len(data))
		}
		p.dict = h.values
		return file.NewDictionaryPage(memory.NewBufferBytes(data), int32(h.values), parquet.Encoding(h.encoding)), nil
	case pageData, pageDataV2:
		return p.dataPage(h, data)
	}
	return nil, nil
}

// contents returns the bytes of a page as they are in the file. They stay valid until the column's next page or, if
// they are to be decompressed at once, are in the memory of packed, which the next page of any column overwrites while
// it is in the cache.
func (p *pageReader) contents(h pageHeader, packed *[]byte) ([]byte, error) {
	if p.codec != compress.Codecs.Uncompressed {
		return p.window.read(int(h.compressed), packed)
	}
	data, err := p.window.peek(int(h.compressed))
	if err == nil && int64(len(data)) < h.compressed {
		err = fmt.Errorf("a page of %d bytes, of which %d are there", h.compressed, len(data))
	}
	if err != nil {
		return nil, err
	}
	p.window.skip(int(h.compressed))
	return data[:h.compressed], nil
}

func (p *pageReader) dataPage(h pageHeader, data []byte) (file.Page, error) {
	if h.values > p.left {
		return nil, fmt.Errorf("a page of %d values where %d are left", h.values, p.left)
	}

	p.left -= h.values
	if h.typ == pageDataV2 {
		return p.dataPageV2(h, data)
	}

	data, err := p.unpack(data, h.uncompressed, p.lent)
	if err != nil {
		return nil, err
	}

	levels := 0
	switch {
	case p.level == 0:
	case parquet.Encoding(h.levels) == parquet.Encodings.RLE:
		if len(data) < 4 || int64(binary.LittleEndian.Uint32(data)) > int64(len(data)-4) {
			return nil, errors.New("a page too short for its levels")
		}
		levels = 4 + int(binary.LittleEndian.Uint32(data))
		if err := checkLevels(data[4:levels], h.values); err != nil {
			return nil, err
		}
	default: // one bit each, or a type that the library rejects
		levels = min(int(h.values+7)/8, len(data))
	}

	encoding, data, err := p.plainly(parquet.Encoding(h.encoding), data, levels)
	if err != nil {
		return nil, err
	}
	if err := p.checkIndices(encoding, h.values, data[levels:]); err != nil {
		return nil, err
	}
	return file.NewDataPageV1(memory.NewBufferBytes(data), int32(h.values), encoding, parquet.Encoding(h.levels),
		parquet.Encoding(h.repeated), int32(len(data))), nil
}

// dataPageV2 reads a page whose levels are never compressed.
func (p *pageReader) dataPageV2(h pageHeader, data []byte) (file.Page, error) {
	levels := h.levelBytes + h.repBytes
	if levels > int64(len(data)) || levels > h.uncompressed {
		return nil, errors.New("a page too short for its levels")
	}

	if p.level > 0 {
		if err := checkLevels(data[h.repBytes:levels], h.values); err != nil {
			return nil, err
		}
	}

	if h.packed && p.codec != compress.Codecs.Uncompressed {
		values, err := p.unpack(data[levels:], h.uncompressed-levels, true)
		if err != nil {
			return nil, err
		}
		data = append(append(make([]byte, 0, h.uncompressed), data[:levels]...), values...)
	} else {
		data = bytes.Clone(data)
	}

	encoding, data, err := p.plainly(parquet.Encoding(h.encoding), data, int(levels))
	if err != nil {
		return nil, err
	}
	if err := p.checkIndices(encoding, h.values, data[levels:]); err != nil {
		return nil, err
	}
	return file.NewDataPageV2(memory.NewBufferBytes(data), int32(h.values), int32(h.nulls), int32(h.rows), encoding,
		int32(h.levelBytes), int32(h.repBytes), int32(len(data)), false), nil
}

// checkIndices makes sure that no index is far beyond the dictionary: the library allocates as many values as the
// largest index asks for before it checks them. Up to 16 bits are accepted, which needs little memory.
func (p *pageReader) checkIndices(encoding parquet.Encoding, values int64, data []byte) error {
	if p.direct || encoding != parquet.Encodings.PlainDict && encoding != parquet.Encodings.RLEDict {
		return nil
	}

	if len(data) == 0 || data[0] <= 16 {
		return nil
	}
	if data[0] > 32 {
		return fmt.Errorf("a page with indices of %d bits", data[0])
	}
	if greatest := greatestIndex(data[1:], uint(data[0]), values); greatest >= uint64(p.dict) {
		return fmt.Errorf("a page with the index %d into a dictionary of %d values", greatest, p.dict)
	}
	return nil
}

// header reads the next page's header.
func (p *pageReader) header() (pageHeader, error) {
	for n := 4 << 10; ; n *= 4 {
		data, err := p.window.peek(n)
		if err != nil {
			return pageHeader{}, err
		}

		h, length, err := parsePageHeader(data)

		switch {
		case err == nil:
			p.window.skip(length)
			return h, nil
		case !errors.Is(err, errShort):
			return h, err
		case len(data) < n:
			return h, fmt.Errorf("its pages end before its last %d values", p.left)
		case n >= maxHeader:
			return h, fmt.Errorf("a page header of more than %d bytes", maxHeader)
		}
	}
}

// maxInflate is more than the best compression ratio of gzip, Snappy and LZ4: a page that claims more is damaged, and
// not worth its memory.
const maxInflate = 1100

// unpack decompresses a page of size bytes, into fresh memory or into memory that the next page overwrites.
func (p *pageReader) unpack(data []byte, size int64, fresh bool) ([]byte, error) {
	if p.codec == compress.Codecs.Uncompressed {
		if int64(len(data)) != size {
			return nil, fmt.Errorf("a page of %d bytes where %d belong", len(data), size)
		}
		if fresh {
			data = bytes.Clone(data)
		}
		return data, nil
	}

	if (p.codec == compress.Codecs.Gzip || p.codec == compress.Codecs.Snappy || p.codec == lz4Raw) &&
		size > maxInflate*int64(len(data)) {
		return nil, fmt.Errorf("a page of %d bytes in %d", size, len(data))
	}

	to := p.buf
	if fresh || int64(cap(to)) < size {
		to = make([]byte, size)
		if !fresh {
			p.buf = to
		}
	}

	out, err := p.decompress(to[:size], data)
	if err != nil {
		return nil, fmt.Errorf("a page that cannot be decompressed: %w", err)
	}

	if int64(len(out)) != size {
		return nil, fmt.Errorf("a page of %d bytes where %d belong", len(out), size)
	}

	return out, nil
}

// decompress fills to; if the length does not match, it may return other memory.
func (p *pageReader) decompress(to, data []byte) ([]byte, error) {
	switch p.codec {
	case compress.Codecs.Snappy:
		if n, err := snappy.DecodedLen(data); err != nil || n != len(to) {
			return nil, fmt.Errorf("%d bytes of Snappy where %d belong (%w)", n, len(to),
				errors.Join(err, snappy.ErrCorrupt))
		}
		return snappy.Decode(to, data)
	case compress.Codecs.Zstd:
		return p.zstd.DecodeAll(data, to[:0])
	case lz4Raw:
		n, err := lz4.UncompressBlock(data, to)
		return to[:max(0, n)], err
	case compress.Codecs.Gzip:
		z, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil, err
		}
		_, err = io.ReadFull(z, to)
		return to, err
	}

	codec, err := compress.GetCodec(p.codec)
	if err != nil {
		return nil, err
	}
	return codec.Decode(to, data), nil // it panics on errors; guard is up the stack
}
