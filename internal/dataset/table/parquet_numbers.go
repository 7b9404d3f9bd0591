package table

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/file"
	"github.com/apache/arrow/go/v17/parquet/schema"

	"coppice/internal/dataset"
)

// numberChunk decodes columns of plain numbers, which most columns of a training table are, in the two encodings that
// almost all writers use for them: plain values, and indices into a dictionary. It writes a page's values straight to
// their destination; the library would copy them three times. The first page in another encoding and all pages after it
// are left to the library's decoder.
type numberChunk[T float64 | int64] struct {
	kind    kind
	level   int16 // highest definition level: 0 or 1
	width   int   // bytes of a value
	decode  func(data []byte, out []T)
	lookUp  func(words []byte, indices []uint32, out []T)
	values  func(v *dataset.Values) []T
	library chunk
	left    bool // to the library's decoder

	open       opener
	pages      *pageReader
	dictionary file.Page // nil until there is one

	rows    int       // unread rows of the current page
	levels  levelRuns // of them
	null    []bool    // scratch
	data    []byte    // their values, or
	runs    indexRuns // their indices
	indexed bool
	indices [1024]uint32 // scratch
}

// newNumberChunk returns the decoder of a column of plain numbers; ok is false for other columns.
func newNumberChunk(c *schema.Column, k kind, library chunk) (_ chunk, ok bool) {
	if k.meaning != plain || k.unreadable != "" {
		return nil, false
	}

	level := c.MaxDefinitionLevel()
	floats := func(v *dataset.Values) []float64 { return v.Float }
	ints := func(v *dataset.Values) []int64 { return v.Int }

	switch c.PhysicalType() {
	case parquet.Types.Float:
		return &numberChunk[float64]{kind: k, level: level, width: 4, decode: decodeFloats, lookUp: lookUpFloats,
			values: floats, library: library}, true
	case parquet.Types.Double:
		return &numberChunk[float64]{kind: k, level: level, width: 8, decode: decodeDoubles, lookUp: lookUpDoubles,
			values: floats, library: library}, true
	case parquet.Types.Int32:
		return &numberChunk[int64]{kind: k, level: level, width: 4, decode: decodeInts, lookUp: lookUpInts,
			values: ints, library: library}, true
	case parquet.Types.Int64:
		return &numberChunk[int64]{kind: k, level: level, width: 8, decode: decodeLongs, lookUp: lookUpLongs,
			values: ints, library: library}, true
	}
	return nil, false
}

func (c *numberChunk[T]) begin(pages *pageReader, open opener) {
	c.pages, c.open, c.left, c.dictionary, c.rows = pages, open, false, nil, 0
	pages.direct = true
}

func (c *numberChunk[T]) read(n int, out *dataset.Values) error {
	shape(c.kind, n, out)

	for at := 0; at < n; {
		if c.left {
			return c.readLibrary(at, n, out)
		}
		if c.rows == 0 {
			if err := c.next(n - at); err != nil {
				return err
			}
			continue
		}

		m := min(c.rows, n-at)
		if err := c.readPage(at, m, n, out); err != nil {
			return err
		}

		c.rows -= m
		at += m
	}
	return nil
}

// next moves to the next page with values; missing is how many rows of the batch are still needed.
func (c *numberChunk[T]) next(missing int) error {
	if !c.pages.Next() {
		if err := c.pages.Err(); err != nil {
			return err
		}
		return fmt.Errorf("its data ends %d rows early", missing)
	}

	page := c.pages.Page()
	if d, ok := page.(*file.DictionaryPage); ok {
		return c.keepDictionary(d)
	}

	levels, values, ok := c.divide(page)
	if !ok {
		return c.leave(page)
	}

	switch parquet.Encoding(page.Encoding()) {
	case parquet.Encodings.Plain:
		c.data, c.indexed = values, false
	case parquet.Encodings.PlainDict, parquet.Encodings.RLEDict:
		if c.dictionary == nil {
			return errors.New("a page of indices without a dictionary before it")
		}
		if len(values) == 0 || values[0] > 32 {
			return errors.New("a page of indices that does not say how wide they are")
		}
		c.runs, c.indexed = indexRuns{data: values[1:], width: uint(values[0])}, true
	default:
		return c.leave(page)
	}

	c.levels, c.rows = levelRuns{data: levels}, int(page.NumValues())
	return nil
}

// divide splits a page into definition levels and values. ok is false if the levels have an encoding not used in the
// last ten years.
func (c *numberChunk[T]) divide(page file.Page) (levels, values []byte, ok bool) {
	data := page.Data()

	switch p := page.(type) {
	case *file.DataPageV1:
		if c.level == 0 {
			return nil, data, true
		}
		if p.DefinitionLevelEncoding() != parquet.Encodings.RLE {
			return nil, nil, false
		}
		n := 4 + int(binary.LittleEndian.Uint32(data)) // pageReader has checked that it fits
		return data[4:n], data[n:], true
	case *file.DataPageV2:
		from := int(p.RepetitionLevelByteLen())
		to := from + int(p.DefinitionLevelByteLen())
		return data[from:to], data[to:], true
	}
	return nil, nil, false
}

func (c *numberChunk[T]) keepDictionary(page *file.DictionaryPage) error {
	if c.dictionary != nil {
		return errors.New("a second dictionary")
	}
	c.dictionary = page
	if e := parquet.Encoding(page.Encoding()); e != parquet.Encodings.Plain && e != parquet.Encodings.PlainDict {
		return fmt.Errorf("a dictionary encoded as %s", e)
	}
	if n, data := int(page.NumValues()), page.Data(); len(data)/c.width < n {
		return fmt.Errorf("a dictionary of %d values in %d bytes", n, len(data))
	}
	return nil
}

// leave passes the rest of the column chunk to the library: the dictionary, this page, and later ones.
func (c *numberChunk[T]) leave(page file.Page) error {
	c.left, c.pages.direct = true, false
	ahead := []file.Page{page}
	if c.dictionary != nil {
		ahead = []file.Page{c.dictionary, page}
	}

	if _, values, ok := c.divide(page); ok {
		if err := c.pages.checkIndices(parquet.Encoding(page.Encoding()), int64(page.NumValues()), values); err != nil {
			return err
		}
	}

	rest := &leftPages{pageReader: c.pages, ahead: ahead}
	c.library.begin(c.pages, func(file.PageReader) file.ColumnChunkReader { return c.open(rest) })
	return nil
}

// leftPages returns some pages that were already read before the others.
type leftPages struct {
	*pageReader
	ahead []file.Page
}

func (p *leftPages) Next() bool {
	if len(p.ahead) == 0 {
		return p.pageReader.Next()
	}
	p.page, p.ahead = p.ahead[0], p.ahead[1:]
	return true
}

// readLibrary fills out from row at on with the library's decoder.
func (c *numberChunk[T]) readLibrary(at, n int, out *dataset.Values) error {
	rest := dataset.Values{}
	if out.Float != nil {
		rest.Float = out.Float[at:n:n]
	}
	if out.Int != nil {
		rest.Int = out.Int[at:n:n]
	}

	if err := c.library.read(n-at, &rest); err != nil {
		return err
	}

	if rest.Null != nil || out.Null != nil {
		out.Null = append(resizeTo(out.Null, at), rest.Null...)
		out.Null = resizeTo(out.Null, n)
	}
	return nil
}

// resizeTo returns a slice of length n that keeps its contents.
func resizeTo(s []bool, n int) []bool {
	if len(s) >= n {
		return s[:n]
	}
	return append(s, make([]bool, n-len(s))...)
}

// readPage writes m rows of the current page to out, from row at of n on.
func (c *numberChunk[T]) readPage(at, m, n int, out *dataset.Values) error {
	to := c.values(out)[at : at+m]
	if c.level == 0 || c.levels.allThere(m) {
		return c.readValues(to)
	}

	c.null = dataset.Resize(c.null, m)
	there, err := c.levels.read(c.null)
	if err != nil {
		return err
	}
	if err := c.readValues(to[:there]); err != nil || there == m {
		return err
	}

	if out.Null == nil {
		out.Null = make([]bool, n)
	}
	null := out.Null[at : at+m]
	copy(null, c.null)

	absent := T(0)
	if c.kind.typ == dataset.Float {
		nan := math.NaN() // a variable, since the constant would not compile for the integer type
		absent = T(nan)
	}

	// Backwards, since values only move towards the end.
	for i := m - 1; i >= 0; i-- {
		if null[i] {
			to[i] = absent
		} else {
			there--
			to[i] = to[there]
		}
	}
	return nil
}

// readValues fills out with the page's next values.
func (c *numberChunk[T]) readValues(out []T) error {
	if c.indexed {
		return c.readIndexed(out)
	}
	size := len(out) * c.width
	if size > len(c.data) {
		return fmt.Errorf("a page that ends %d values early", len(out)-len(c.data)/c.width)
	}
	c.decode(c.data[:size], out)
	c.data = c.data[size:]
	return nil
}

// readIndexed fills out with the dictionary words at the page's next indices.
func (c *numberChunk[T]) readIndexed(out []T) error {
	words := c.dictionary.Data()
	for len(out) > 0 {
		n := min(len(out), len(c.indices))
		greatest, err := c.runs.read(c.indices[:n])
		if err != nil {
			return err
		}

		if known := c.dictionary.NumValues(); uint64(greatest) >= uint64(known) {
			return fmt.Errorf("a page with the index %d into a dictionary of %d values", greatest, known)
		}

		c.lookUp(words, c.indices[:n], out[:n])
		out = out[n:]
	}
	return nil
}
