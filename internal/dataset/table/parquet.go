package table

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/file"
	"github.com/apache/arrow/go/v17/parquet/schema"
	"github.com/klauspost/compress/zstd"

	"coppice/internal/dataset"
)

// parquetSource is a Parquet file. The library reads its metadata, and nothing else: its readers end early without an
// error, panic or never end on damaged pages (docs/design.md). The way of a value:
//
//	parquetSource   row group by row group, a batch of rows of all columns at a time
//	parquetColumn   a column: nulls, dictionary, values into the batch
//	pageReader      a page: header, checksum, decompression
//	runs, plain...  the encodings, which all become indices or plain values
//	kind            plain values to numbers, times and texts
type parquetSource struct {
	file    File
	threads int // columns that are decoded at a time
	cols    []Column
	leaves  []int // for each of cols, its index among the file's leaf columns; -1 if it cannot be read
	rows    int64
}

// recoverPanics runs fn and returns its error. If the library panics, as it does on damaged files, that is an error,
// too.
func recoverPanics(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the Parquet library gave up: %v", p)
		}
	}()
	return fn()
}

// damagedFile returns an error about the file as a whole, whose cause is err.
func (s *parquetSource) damagedFile(err error) error {
	return &InputError{File: s.file.URI, Msg: "not a complete Parquet file", Err: err}
}

// open opens the file and reads its metadata. The caller closes the reader, which also closes the file.
func (s *parquetSource) open() (*file.Reader, *os.File, error) {
	f, err := os.Open(s.file.Path)
	if err != nil {
		return nil, nil, err
	}

	var r *file.Reader
	err = recoverPanics(func() (err error) {
		r, err = file.NewParquetReader(f)
		return err
	})
	if err != nil {
		return nil, nil, errors.Join(s.damagedFile(err), f.Close())
	}

	return r, f, nil
}

// openParquet reads the file's footer: the number of rows, the columns, and what pandas and Arrow have noted about
// them. It leaves the file closed. An error names the file.
func openParquet(f File, threads int) (*parquetSource, error) {
	s := &parquetSource{file: f, threads: max(1, threads)}
	r, _, err := s.open()
	if err != nil {
		return nil, err
	}
	defer r.Close()

	err = recoverPanics(func() error {
		// The row groups must have as many rows as the file says.
		s.rows = r.NumRows()
		sum := int64(0)
		for i := range r.NumRowGroups() {
			n := r.RowGroup(i).NumRows()
			if n < 0 || sum > s.rows { // at once, before sum can overflow
				return fmt.Errorf("row group %d has %d rows", i, n)
			}
			sum += n
		}
		if sum != s.rows {
			return fmt.Errorf("row groups of %d rows in a file of %d", sum, s.rows)
		}
		s.mapSchema(r.MetaData().Schema)
		were := dictionaries(r.MetaData().KeyValueMetadata())
		index := pandasIndex(r.MetaData().KeyValueMetadata())
		for i := range s.cols {
			s.cols[i].Dictionary, s.cols[i].Index = were[s.cols[i].Name], index[s.cols[i].Name]
		}
		return nil
	})
	if err != nil {
		return nil, s.damagedFile(err)
	}
	return s, nil
}

// mapSchema fills s.cols and s.leaves with a column for every top-level field of the schema. Nested and repeated fields
// are columns that cannot be read.
func (s *parquetSource) mapSchema(sc *schema.Schema) {
	leafOf := map[string]int{} // the columns of values that are top-level fields themselves, not within a group
	for i := range sc.NumColumns() {
		if sc.ColumnRoot(i) == sc.Column(i).SchemaNode() {
			leafOf[sc.Column(i).Name()] = i
		}
	}

	for i := range sc.Root().NumFields() {
		node := sc.Root().Field(i)
		c, place := Column{Name: node.Name()}, -1

		switch leaf, flat := leafOf[node.Name()]; {
		case node.Type() == schema.Group:
			c.Unreadable = fmt.Sprintf("nested (%s)", groupName(node))
		case !flat || node.RepetitionType() == parquet.Repetitions.Repeated:
			c.Unreadable = "a repeated field"
		default:
			place = leaf
			k := kindOf(sc.Column(leaf))
			c.Type, c.Unit, c.Untyped, c.Unreadable = k.typ, k.unit, k.untyped, k.unreadable
		}

		s.cols, s.leaves = append(s.cols, c), append(s.leaves, place)
	}
}

// groupName says, for messages, what a nested column is. Whatever is neither a list nor a map is a struct.
func groupName(n schema.Node) string {
	switch n.LogicalType().(type) {
	case schema.ListLogicalType:
		return "a list"
	case schema.MapLogicalType:
		return "a map"
	}
	return "a struct"
}

func (s *parquetSource) columns() []Column { return s.cols }

// read passes on one row group after the other (see source). If texts are long on average, batches have fewer rows, so
// that they do not fill the memory.
func (s *parquetSource) read(ctx context.Context, q request) error {
	r, f, err := s.open()
	if err != nil {
		return err
	}
	defer r.Close()

	info, err := f.Stat()
	if err != nil {
		return err
	}

	unzstd, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxPage), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		return err
	}
	defer unzstd.Close()

	// All columns share a bound on memory.
	budget := newPageMemory(info.Size())
	columns := make([]*parquetColumn, len(q.places))
	for i, p := range q.places {
		columns[i] = newParquetColumn(r.MetaData().Schema.Column(s.leaves[p]), pageReader{zstd: unzstd, memory: budget})
	}

	// first is the number of the row group's first row in the file.
	first := int64(0)
	for i := range r.NumRowGroups() {
		g := r.RowGroup(i)
		texts := int64(0)

		for j, p := range q.places {
			err := recoverPanics(func() error {
				meta, err := g.MetaData().ColumnChunk(s.leaves[p])
				if err != nil && strings.Contains(err.Error(), "decrypt") { // the library has no error type for it
					return errEncrypted
				}
				if err == nil {
					err = columns[j].beginChunk(f, info.Size(), meta, r.WriterVersion(), g.NumRows())
				}
				if err == nil && s.cols[p].Type == dataset.Text {
					texts += max(0, meta.TotalUncompressedSize())
				}
				return err
			})
			if err != nil {
				return s.damaged(first, p, err)
			}
		}

		// texts is the size of all texts in the group, so a batch has as many rows as have batchBytes of it on average.
		// A text that a dictionary gives to many rows counts once, and is in memory once.
		perRow := texts/max(1, g.NumRows()) + 1
		short := q
		short.rows = min(q.rows, max(1, int(batchBytes/perRow)))
		if err := s.readGroup(ctx, first, g.NumRows(), columns, short); err != nil {
			return err
		}

		first += g.NumRows()
	}
	return nil
}

// readGroup emits the batches of one row group, which has left rows. first is the number of its first row in the file.
// Columns are decoded in parallel; each stands at the beginning of the group.
func (s *parquetSource) readGroup(ctx context.Context, first, left int64, columns []*parquetColumn, q request) error {
	for left > 0 {
		b := q.empty()
		n := int(min(int64(q.rows), left))
		if len(b.Columns) != len(columns) {
			b.Columns = make([]dataset.Values, len(columns))
		}

		b.First, b.Rows, b.Lines, b.Numbers = first, n, nil, nil

		errs := make([]error, len(columns))
		dataset.Parallel(s.threads, len(columns), func(i int) {
			errs[i] = recoverPanics(func() error { return columns[i].read(n, &b.Columns[i]) })
		})
		for i, err := range errs { // the first column's error, for any number of threads
			if err != nil {
				return s.damaged(first, q.places[i], err)
			}
		}

		if err := ctx.Err(); err != nil {
			return err
		}

		first += int64(n)
		left -= int64(n)
		if err := q.emit(b, first, s.rows); err != nil {
			return err
		}
	}
	return nil
}

// damaged returns an error about the column at place, in the batch that begins with row first. If err is a *valueError,
// it names the value's row.
func (s *parquetSource) damaged(first int64, place int, err error) error {
	e := &InputError{File: s.file.URI, Row: first + 1, Column: s.cols[place].Name,
		Msg: "the column cannot be read from here on", Err: err}
	var value *valueError
	if errors.As(err, &value) {
		e.Row, e.Msg, e.Err = first+int64(value.at)+1, value.msg, nil
	}
	return e
}

// valueError says that a value exists but cannot be used. at is its index, from the batch's first row or, within a
// column, from the first value that was asked for.
type valueError struct {
	at  int
	msg string
}

func (e *valueError) Error() string { return e.msg }
