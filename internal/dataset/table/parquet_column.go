package table

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/metadata"
	"github.com/apache/arrow/go/v17/parquet/schema"

	"coppice/internal/dataset"
)

// parquetColumn decodes one column, row group by row group: beginChunk, then read until all rows of the group are read.
// A page holds values in the plain encoding, or indices into a dictionary. Values of a dictionary are converted once,
// however many rows have them; all others are converted from the plain encoding straight to their destination.
type parquetColumn struct {
	kind  kind
	pages pageReader

	words dataset.Values    // of the dictionary
	bad   map[uint32]string // by index of a word that cannot be used, the reason
	known bool              // there is a dictionary

	// The current page.
	rows    int    // unread rows
	levels  runs   // for each unread row: 1 if it has a value, 0 if it is null
	indexed bool   // it has indices, otherwise plain values
	indices runs   // into words, of the unread values
	plain   []byte // the unread values

	scratch [256]uint32 // no more: wide tables have thousands of columns
	null    []bool      // memory of readRows
}

// newParquetColumn returns a column of the schema. pages is its page reader, without a chunk yet.
func newParquetColumn(c *schema.Column, pages pageReader) *parquetColumn {
	pages.optional = c.MaxDefinitionLevel() > 0 // 1, in a field of the schema's root
	return &parquetColumn{kind: kindOf(c), pages: pages}
}

// beginChunk starts on the column chunk of a row group with so many rows. r is the file, of size bytes, and writer the
// program that wrote it.
func (c *parquetColumn) beginChunk(r io.ReaderAt, size int64, meta *metadata.ColumnChunkMetaData,
	writer *metadata.AppVersion, rows int64) error {
	c.rows, c.known, c.bad, c.words = 0, false, nil, dataset.Values{}
	if c.kind.physical == parquet.Types.Boolean {
		c.words.Int = []int64{0, 1} // booleans are bits, or runs of them: indices
	}
	return c.pages.beginChunk(r, size, meta, writer, rows)
}

// read fills out with the next n values of the row group, from as many pages as they take. Data that ends before the
// values do is an error.
func (c *parquetColumn) read(n int, out *dataset.Values) error {
	c.kind.makeRoom(out, n)
	for at := 0; at < n; {
		if c.rows == 0 {
			if err := c.nextPage(n - at); err != nil {
				return err
			}
			continue
		}

		m := min(c.rows, n-at)
		if err := c.readRows(at, m, n, out); err != nil {
			return err
		}
		at += m
		c.rows -= m

		// Levels that are left over would have been taken for values.
		if c.rows == 0 && len(c.levels.data) > 0 {
			return errors.New("a page with more levels than values")
		}
	}
	return nil
}

// nextPage moves to the next page. If that is a dictionary, it reads it, and c.rows stays 0. missing is how many rows
// of the batch are still needed, for the error that there is no page left.
func (c *parquetColumn) nextPage(missing int) error {
	p, err := c.pages.nextPage()
	if errors.Is(err, errNoPages) {
		return fmt.Errorf("its data ends %d rows early", missing)
	}
	if err != nil {
		return err
	}
	if p.dictionary {
		return c.readDictionary(p)
	}

	c.rows, c.levels = int(p.values), runs{data: p.levels, width: 1}
	c.indices, c.indexed, err = c.indicesOf(p)
	if err == nil && !c.indexed {
		c.plain, err = c.plainOf(p)
	}
	return err
}

// indicesOf returns the indices of a page that has indices; ok is false if it has plain values. Pages of booleans
// always have indices: into false and true.
func (c *parquetColumn) indicesOf(p page) (indices runs, ok bool, err error) {
	isBool := c.kind.physical == parquet.Types.Boolean
	switch p.encoding {
	case parquet.Encodings.PlainDict, parquet.Encodings.RLEDict:
		if !c.known {
			return runs{}, true, errors.New("a page of indices without a dictionary before it")
		}
		if len(p.data) == 0 || p.data[0] > 32 {
			return runs{}, true, errors.New("a page of indices that does not say how wide they are")
		}
		return runs{data: p.data[1:], width: uint(p.data[0])}, true, nil
	case parquet.Encodings.RLE: // four bytes with the length, then the indices
		if isBool && len(p.data) >= 4 {
			return runs{data: p.data[4:], width: 1}, true, nil
		}
	case parquet.Encodings.Plain:
		if isBool {
			return packedRun(p.data, 1), true, nil
		}
	}
	return runs{}, false, nil
}

// plainOf returns a page's values in the plain encoding, whatever encoding they have. An encoding that the column's
// type cannot have is an error.
func (c *parquetColumn) plainOf(p page) ([]byte, error) {
	width, physical := c.kind.width, c.kind.physical
	isInt := physical == parquet.Types.Int32 || physical == parquet.Types.Int64
	isText := physical == parquet.Types.ByteArray || physical == parquet.Types.FixedLenByteArray

	switch e := p.encoding; {
	case e == parquet.Encodings.Plain:
		return p.data, nil
	case e == byteStreamSplit && width > 0:
		if len(p.data)%width != 0 {
			return nil, fmt.Errorf("a page of %d bytes in %d streams", len(p.data), width)
		}
		return joinStreams(p.data, width), nil
	case e == parquet.Encodings.DeltaBinaryPacked && isInt:
		return plainDeltas(p.data, width, c.pages.reserveMemory)
	case e == parquet.Encodings.DeltaLengthByteArray && isText, e == parquet.Encodings.DeltaByteArray && isText:
		return plainTexts(p.data, width, e == parquet.Encodings.DeltaByteArray, c.pages.reserveMemory)
	}
	return nil, fmt.Errorf("a page of %s in the encoding %s", physical, p.encoding)
}

const byteStreamSplit = parquet.Encoding(9) // the library has no name for it

// readDictionary converts the words of a dictionary page to c.words. A word that cannot be used is noted in c.bad: it
// is an error only of rows that have it.
func (c *parquetColumn) readDictionary(p page) error {
	if c.known {
		return errors.New("a second dictionary")
	}
	if p.encoding != parquet.Encodings.Plain && p.encoding != parquet.Encodings.PlainDict {
		return fmt.Errorf("a dictionary encoded as %s", p.encoding)
	}
	if c.kind.physical == parquet.Types.Boolean {
		return errors.New("a dictionary of booleans")
	}

	// The words must fill the page.
	n := int(p.values)
	end, err := c.kind.measurePlain(p.data, n)
	var long *valueError
	if errors.As(err, &long) { // a word longer than is read, so where the next begins is not known
		return fmt.Errorf("a dictionary with %w", err)
	}
	if err != nil {
		return fmt.Errorf("a dictionary of %d values in %d bytes", n, len(p.data))
	}

	// In memory a text has a header and a copy of its bytes. Once the copies are made, the page itself is not needed.
	const header = 16
	size := header * int64(n)
	if c.kind.typ == dataset.Text {
		size += int64(end)
		defer c.pages.dropPage()
	}
	if err := c.pages.memory.take(size); err != nil {
		return err
	}
	c.pages.kept += size

	// Convert the words. After one that cannot be used, go on with the next.
	c.known = true
	c.kind.makeRoom(&c.words, n)

	for data, at := p.data[:end], 0; ; {
		err := c.kind.convert(data, c.kind.valuesBetween(&c.words, at, n))
		var value *valueError
		if !errors.As(err, &value) {
			return err // nil once all words are converted
		}
		if c.bad == nil {
			c.bad = map[uint32]string{}
		}
		c.bad[uint32(at+value.at)] = value.msg
		skip, err := c.kind.measurePlain(data, value.at+1)
		if err != nil {
			return err
		}
		data, at = data[skip:], at+value.at+1
	}
}

// readRows reads the next m rows of the current page into rows at to at+m of out, which has n rows in all. The page has
// only the values that are present. They are read first, and then moved to their rows if some rows are null. An error
// of a value says its index in out.
func (c *parquetColumn) readRows(at, m, n int, out *dataset.Values) error {
	// No row is null: the column cannot have nulls, or its levels say so at once.
	if !c.pages.optional || c.levels.skipOnes(m) {
		return shiftError(c.readValues(c.kind.valuesBetween(out, at, at+m), m), at, nil)
	}

	// Find the rows that are null.
	c.null = dataset.Resize(c.null, m)
	present, err := c.readLevels(c.null)
	if err != nil {
		return err
	}
	if present == m {
		return shiftError(c.readValues(c.kind.valuesBetween(out, at, at+m), m), at, nil)
	}
	if err := c.readValues(c.kind.valuesBetween(out, at, at+present), present); err != nil {
		return shiftError(err, at, c.null)
	}

	// Move the values to their rows.
	if out.Null == nil {
		out.Null = make([]bool, n)
	}
	copy(out.Null[at:], c.null)
	switch c.kind.typ {
	case dataset.Text:
		spread(out.Text[at:], c.null, present, "")
	case dataset.Float:
		spread(out.Float[at:], c.null, present, math.NaN())
	default:
		spread(out.Int[at:], c.null, present, 0)
	}
	return nil
}

// readLevels sets, for each of the next rows, whether it is null, and returns how many are not.
func (c *parquetColumn) readLevels(null []bool) (present int, err error) {
	for len(null) > 0 {
		n := min(len(null), len(c.scratch))
		if err := c.levels.read(c.scratch[:n]); err != nil {
			return 0, err
		}
		for i, level := range c.scratch[:n] {
			null[i] = level != 1
			present += int(level & 1)
			if level > 1 {
				return 0, fmt.Errorf("a page with the level %d", level)
			}
		}
		null = null[n:]
	}
	return present, nil
}

// spread moves the first present values to the rows that are not null, and sets the others to absent. It goes
// backwards, since values only move towards the end.
func spread[T any](values []T, null []bool, present int, absent T) {
	for i := len(null) - 1; i >= 0; i-- {
		if null[i] {
			values[i] = absent
			continue
		}
		present--
		values[i] = values[present]
	}
}

// shiftError translates the error of a value. Its index is among the values that are present; the result has that of
// its row in the batch. first is the batch's row where they begin, and null tells which of the following rows are null;
// nil if none is. Other errors are returned as they are.
func shiftError(err error, first int, null []bool) error {
	var value *valueError
	if !errors.As(err, &value) {
		return err
	}
	row, left := value.at, value.at
	for i, absent := range null {
		if !absent {
			left--
		}
		if left < 0 {
			row = i
			break
		}
	}
	return &valueError{first + row, value.msg}
}

// readValues fills out with the page's next n values. Plain values are converted; indices are looked up in the
// dictionary. The error of a value has its index among the n.
func (c *parquetColumn) readValues(out *dataset.Values, n int) error {
	if !c.indexed {
		end, err := c.kind.measurePlain(c.plain, n)
		if err != nil {
			return err
		}
		err = c.kind.convert(c.plain[:end], out)
		c.plain = c.plain[end:]
		return err
	}

	for at := 0; at < n; {
		// The next indices, as many as scratch holds.
		index := c.scratch[:min(n-at, len(c.scratch))]
		err := c.indices.read(index)
		if err != nil {
			return err
		}

		// Some words of the dictionary may be unusable.
		if c.bad != nil {
			for i, x := range index {
				if msg, ok := c.bad[x]; ok {
					return &valueError{at + i, msg}
				}
			}
		}

		switch c.kind.typ {
		case dataset.Text:
			err = lookUp(c.words.Text, index, out.Text[at:])
		case dataset.Float:
			err = lookUp(c.words.Float, index, out.Float[at:])
		default:
			err = lookUp(c.words.Int, index, out.Int[at:])
		}
		if err != nil {
			return err
		}
		at += len(index)
	}
	return nil
}

// lookUp sets out to the words of a dictionary at the given indices. An index beyond the dictionary is an error: a
// damaged page may hold any.
func lookUp[T any](words []T, index []uint32, out []T) error {
	out = out[:len(index)]
	for i, x := range index {
		if uint64(x) >= uint64(len(words)) {
			return fmt.Errorf("a page with the index %d into a dictionary of %d values", x, len(words))
		}
		out[i] = words[x]
	}
	return nil
}
