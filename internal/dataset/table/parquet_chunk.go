package table

import (
	"fmt"
	"math"

	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/file"
	"github.com/apache/arrow/go/v17/parquet/schema"

	"coppice/internal/dataset"
)

// chunk decodes one column, row group by row group. read fills out with exactly n values.
type chunk interface {
	begin(pages *pageReader, open opener)
	read(n int, out *dataset.Values) error
}

// opener opens the library's decoder on pages.
type opener func(pages file.PageReader) file.ColumnChunkReader

// newChunk returns the decoder of a column that kindOf can read.
func newChunk(c *schema.Column) chunk {
	k := kindOf(c)
	library := newLibraryChunk(c, k)
	if own, ok := newNumberChunk(c, k, library); ok {
		return own
	}
	return library
}

func newLibraryChunk(c *schema.Column, k kind) chunk {
	switch c.PhysicalType() {
	case parquet.Types.Boolean:
		return newTyped(c, k, func(r *file.BooleanColumnChunkReader) batchReader[bool] { return r.ReadBatch }, k.bools)
	case parquet.Types.Int32:
		return newTyped(c, k, func(r *file.Int32ColumnChunkReader) batchReader[int32] { return r.ReadBatch }, k.int32s)
	case parquet.Types.Int64:
		return newTyped(c, k, func(r *file.Int64ColumnChunkReader) batchReader[int64] { return r.ReadBatch }, k.int64s)
	case parquet.Types.Int96:
		return newTyped(c, k, func(r *file.Int96ColumnChunkReader) batchReader[parquet.Int96] { return r.ReadBatch },
			k.int96s)
	case parquet.Types.Float:
		return newTyped(c, k, func(r *file.Float32ColumnChunkReader) batchReader[float32] { return r.ReadBatch },
			floats[float32])
	case parquet.Types.Double:
		return newTyped(c, k, func(r *file.Float64ColumnChunkReader) batchReader[float64] { return r.ReadBatch },
			floats[float64])
	case parquet.Types.ByteArray:
		return newTyped(c, k,
			func(r *file.ByteArrayColumnChunkReader) batchReader[parquet.ByteArray] { return r.ReadBatch },
			byteArrays[parquet.ByteArray](k))
	default:
		return newTyped(c, k, func(r *file.FixedLenByteArrayColumnChunkReader) batchReader[parquet.FixedLenByteArray] {
			return r.ReadBatch
		}, byteArrays[parquet.FixedLenByteArray](k))
	}
}

// batchReader is the ReadBatch method of one of the library's column readers: it fills values with those that are not
// null and definitions with one level per row, and returns the number of each.
type batchReader[T any] func(n int64, values []T, definitions, repetitions []int16) (levels int64, read int, err error)

// typedChunk decodes a column of the physical type T.
type typedChunk[T any, R file.ColumnChunkReader] struct {
	kind        kind
	level       int16 // definition level of a present value; 0 if none can be null
	method      func(R) batchReader[T]
	convert     func(values []T, out *dataset.Values) error // writes the values densely, from index 0
	reader      file.ColumnChunkReader
	readBatch   batchReader[T]
	values      []T
	definitions []int16
}

func newTyped[T any, R file.ColumnChunkReader](c *schema.Column, k kind, method func(R) batchReader[T],
	convert func([]T, *dataset.Values) error) chunk {
	return &typedChunk[T, R]{kind: k, level: c.MaxDefinitionLevel(), method: method, convert: convert}
}

func (t *typedChunk[T, R]) begin(pages *pageReader, open opener) {
	r := open(pages)
	t.reader, t.readBatch = r, t.method(r.(R))
}

func (t *typedChunk[T, R]) read(n int, out *dataset.Values) error {
	t.values = dataset.Resize(t.values, n)
	var definitions []int16
	if t.level > 0 {
		t.definitions = dataset.Resize(t.definitions, n)
		definitions = t.definitions
	}

	levels, read := 0, 0
	for levels < n {
		var rest []int16
		if definitions != nil {
			rest = definitions[levels:]
		}

		l, r, err := t.readBatch(int64(n-levels), t.values[read:], rest, nil)
		if err == nil {
			err = t.reader.Err()
		}
		if err != nil {
			return err
		}

		if l == 0 {
			return fmt.Errorf("its data ends %d rows early", n-levels)
		}

		levels, read = levels+int(l), read+r
	}

	shape(t.kind, n, out)
	if err := t.convert(t.values[:read], out); err != nil {
		return t.place(err)
	}

	if read == n {
		return nil
	}
	if definitions == nil || !t.spread(definitions, read, out) {
		return fmt.Errorf("it has %d values where its levels say otherwise", read)
	}
	return nil
}

// shape makes room for n values in out.
func shape(k kind, n int, out *dataset.Values) {
	out.Type, out.Unit, out.Null = k.typ, k.unit, nil
	switch k.typ {
	case dataset.Text:
		out.Text = dataset.Resize(out.Text, n)
	case dataset.Float:
		out.Float = dataset.Resize(out.Float, n)
	default:
		out.Int = dataset.Resize(out.Int, n)
	}
}

// spread moves the first read values of out to the rows whose definition level says that they have a value.
func (t *typedChunk[T, R]) spread(definitions []int16, read int, out *dataset.Values) bool {
	out.Null = make([]bool, len(definitions))
	for i := len(definitions) - 1; i >= 0; i-- {
		there := definitions[i] == t.level
		if there {
			if read--; read < 0 {
				return false
			}
		}

		out.Null[i] = !there

		switch t.kind.typ {
		case dataset.Text:
			if there {
				out.Text[i] = out.Text[read]
			} else {
				out.Text[i] = ""
			}
		case dataset.Float:
			if there {
				out.Float[i] = out.Float[read]
			} else {
				out.Float[i] = math.NaN()
			}
		default:
			if there {
				out.Int[i] = out.Int[read]
			} else {
				out.Int[i] = 0
			}
		}
	}
	return read == 0
}

// place translates the index of a value to that of its row.
func (t *typedChunk[T, R]) place(err error) error {
	e, ok := err.(*valueError) //nolint:errorlint // from convert, which does not wrap
	if !ok || t.level == 0 {
		return err
	}

	value := e.at
	for row, d := range t.definitions {
		if d == t.level {
			if value == 0 {
				return &valueError{row, e.msg}
			}
			value--
		}
	}
	return err
}

// resize returns a slice of length n with arbitrary contents.
func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
