package table

import (
	"fmt"
	"io"

	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/compress"
	"github.com/apache/arrow/go/v17/parquet/file"
	"github.com/apache/arrow/go/v17/parquet/schema"

	"coppice/internal/dataset"
)

// Codec is the compression of a Parquet file's pages.
type Codec string

// Codecs of ParquetWriter.
const (
	Snappy Codec = "snappy"
	Zstd   Codec = "zstd"
	Plain  Codec = "none"
)

// groupRows is the least number of rows in a row group, except the last.
const groupRows = 1 << 17

// ParquetWriter writes batches as a Parquet file. It keeps one encoded row group in memory.
type ParquetWriter struct {
	sink    *sink
	w       *file.Writer
	columns []Column
	group   file.BufferedRowGroupWriter // the row group being written; nil between two
	rows    int                         // of group
	levels  []int16                     // memory of writeColumn, as are values
	values  struct {
		texts  []parquet.ByteArray
		floats []float64
		ints   []int64
		days   []int32
		bools  []bool
	}
}

// NewParquetWriter begins a file with the given columns, any of which may hold nulls. After Close, the caller closes w.
// With an error, the writer cannot be used.
func NewParquetWriter(w io.Writer, columns []Column, codec Codec) (*ParquetWriter, error) {
	codecs := map[Codec]compress.Compression{Snappy: compress.Codecs.Snappy, Zstd: compress.Codecs.Zstd,
		Plain: compress.Codecs.Uncompressed}
	compression, ok := codecs[codec]
	if !ok {
		return nil, fmt.Errorf("write Parquet: codec %q; use snappy, zstd or none", codec)
	}

	p := &ParquetWriter{sink: &sink{w: w}, columns: columns}

	err := recoverPanics(func() error {
		fields := make(schema.FieldList, len(columns))
		for i, c := range columns {
			physical, logical := parquetType(c)
			node, err := schema.NewPrimitiveNodeLogical(c.Name, parquet.Repetitions.Optional, logical, physical, 0, -1)
			if err != nil {
				return fmt.Errorf("column %q: %w", c.Name, err)
			}
			fields[i] = node
		}

		root, err := schema.NewGroupNode("schema", parquet.Repetitions.Required, fields, -1)
		if err != nil {
			return err
		}

		props := parquet.NewWriterProperties(parquet.WithCompression(compression), parquet.WithCreatedBy("coppice"))
		p.w = file.NewParquetWriter(p.sink, root, file.WithWriterProps(props))
		return nil
	})

	return p, p.sink.wrap(err)
}

// sink passes what the library writes to the caller's writer. It hides that writer's Close method, which the library
// would call, and remembers its first error, which the library drops.
type sink struct {
	w   io.Writer
	err error
}

func (s *sink) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	if s.err == nil {
		s.err = err
	}
	return n, err
}

// wrap returns the error of the caller's writer if there is one, as the library's error err is only its consequence.
// Otherwise it returns err; nil stays nil.
func (s *sink) wrap(err error) error {
	if s.err != nil {
		err = s.err
	}
	if err != nil {
		return fmt.Errorf("write Parquet: %w", err)
	}
	return nil
}

// parquetType says how a column is written. Times other than days are written in UTC and in the column's unit.
func parquetType(c Column) (parquet.Type, schema.LogicalType) {
	switch c.Type {
	case dataset.Text:
		return parquet.Types.ByteArray, schema.StringLogicalType{}
	case dataset.Float:
		return parquet.Types.Double, schema.NoLogicalType{}
	case dataset.Bool:
		return parquet.Types.Boolean, schema.NoLogicalType{}
	case dataset.Int:
		return parquet.Types.Int64, schema.NoLogicalType{}
	}

	if c.Unit == dataset.Day {
		return parquet.Types.Int32, schema.DateLogicalType{}
	}
	units := map[dataset.Unit]schema.TimeUnitType{dataset.Milli: schema.TimeUnitMillis,
		dataset.Micro: schema.TimeUnitMicros, dataset.Nano: schema.TimeUnitNanos}
	return parquet.Types.Int64, schema.NewTimestampLogicalType(true, units[c.Unit])
}

// Write adds the rows of a batch to the row group, and ends the group once it has groupRows rows. The batch's columns
// are found by name; a column that is missing or of another type is an error.
func (p *ParquetWriter) Write(b *Batch) error {
	values, err := matchBatch(p.columns, b)
	if err != nil {
		return err
	}

	err = recoverPanics(func() error {
		if p.group == nil {
			p.group = p.w.AppendBufferedRowGroup()
		}
		for i, v := range values {
			w, err := p.group.Column(i)
			if err != nil {
				return err
			}
			if err := p.writeColumn(w, v); err != nil {
				return fmt.Errorf("column %q: %w", p.columns[i].Name, err)
			}
		}

		p.rows += b.Rows
		if p.rows < groupRows {
			return nil
		}
		return p.closeGroup()
	})
	return p.sink.wrap(err)
}

// closeGroup ends the row group that is being written, if there is one. The next batch begins another.
func (p *ParquetWriter) closeGroup() error {
	group := p.group
	p.group, p.rows = nil, 0
	if group == nil {
		return nil
	}
	return group.Close()
}

// writeColumn writes the values of a column to a row group: the values that are present, and for every row whether it
// has one. A day that does not fit a Parquet date is a *valueError.
func (p *ParquetWriter) writeColumn(w file.ColumnChunkWriter, v *dataset.Values) error {
	p.levels = dataset.Resize(p.levels, v.Len())
	s := &p.values
	s.texts, s.floats, s.ints, s.days, s.bools = s.texts[:0], s.floats[:0], s.ints[:0], s.days[:0], s.bools[:0]

	// Collect the present values, in the type that the file has for the column.
	for i := range p.levels {
		if v.IsNull(i) {
			p.levels[i] = 0
			continue
		}

		p.levels[i] = 1
		switch {
		case v.Type == dataset.Text:
			s.texts = append(s.texts, parquet.ByteArray(v.Text[i]))
		case v.Type == dataset.Float:
			s.floats = append(s.floats, v.Float[i])
		case v.Type == dataset.Bool:
			s.bools = append(s.bools, v.Int[i] != 0)
		case v.Unit == dataset.Day:
			s.days = append(s.days, int32(v.Int[i]))
			if int64(int32(v.Int[i])) != v.Int[i] {
				return &valueError{i, fmt.Sprintf("day %d does not fit a Parquet date", v.Int[i])}
			}
		default:
			s.ints = append(s.ints, v.Int[i])
		}
	}

	var err error
	switch w := w.(type) {
	case *file.ByteArrayColumnChunkWriter:
		_, err = w.WriteBatch(s.texts, p.levels, nil)
	case *file.Float64ColumnChunkWriter:
		_, err = w.WriteBatch(s.floats, p.levels, nil)
	case *file.BooleanColumnChunkWriter:
		_, err = w.WriteBatch(s.bools, p.levels, nil)
	case *file.Int32ColumnChunkWriter:
		_, err = w.WriteBatch(s.days, p.levels, nil)
	case *file.Int64ColumnChunkWriter:
		_, err = w.WriteBatch(s.ints, p.levels, nil)
	default:
		err = fmt.Errorf("a writer of type %T", w)
	}

	return err
}

// Close writes the remaining rows and the file's footer. It does not close the caller's writer.
func (p *ParquetWriter) Close() error {
	err := recoverPanics(func() error {
		if err := p.closeGroup(); err != nil {
			return err
		}
		return p.w.Close()
	})
	return p.sink.wrap(err)
}
