package table

import (
	"fmt"
	"io"
	"strings"

	"coppice/internal/dataset"
)

// CSVWriter writes batches as delimited UTF-8 text with a header and LF line ends. Nulls are empty fields; NaN and
// infinities are written as such. Open can read the result.
type CSVWriter struct {
	w         io.Writer
	columns   []Column
	delimiter byte
	buf       []byte
}

// NewCSVWriter writes the header and returns a writer of rows of the given columns. delimiter is an ASCII character,
// such as ',' or '\t'; a quote or an end of a line is an error.
func NewCSVWriter(w io.Writer, columns []Column, delimiter byte) (*CSVWriter, error) {
	if delimiter == 0 || delimiter >= 0x80 || strings.IndexByte("\"\r\n", delimiter) >= 0 {
		return nil, fmt.Errorf("write CSV: %q cannot delimit fields", delimiter)
	}
	c := &CSVWriter{w: w, columns: columns, delimiter: delimiter}
	for i, column := range columns {
		c.appendField(i, column.Name, len(columns))
	}
	return c, c.flush()
}

// Write writes the rows of a batch. Its columns are found by name; a column that is missing or of another type is an
// error.
func (c *CSVWriter) Write(b *Batch) error {
	values, err := matchBatch(c.columns, b)
	if err != nil {
		return err
	}

	var text []byte
	for row := range b.Rows {
		for i, v := range values {
			text = text[:0]
			if !v.IsNull(row) {
				text = v.AppendText(text, row)
			}
			c.appendField(i, string(text), len(values))
		}

		if len(c.buf) > 1<<16 {
			if err := c.flush(); err != nil {
				return err
			}
		}
	}

	return c.flush()
}

// appendField appends field i of a row of n fields to the buffer, in quotes if it needs them, and the delimiter or end
// of the line after it.
func (c *CSVWriter) appendField(i int, text string, n int) {
	lonely := n == 1 && text == "" // an empty line would not be read as a row
	if lonely || strings.ContainsAny(text, "\"\r\n") || strings.IndexByte(text, c.delimiter) >= 0 {
		c.buf = append(c.buf, '"')
		c.buf = append(c.buf, strings.ReplaceAll(text, `"`, `""`)...)
		c.buf = append(c.buf, '"')
	} else {
		c.buf = append(c.buf, text...)
	}

	if i+1 < n {
		c.buf = append(c.buf, c.delimiter)
	} else {
		c.buf = append(c.buf, '\n')
	}
}

func (c *CSVWriter) flush() error {
	_, err := c.w.Write(c.buf)
	c.buf = c.buf[:0]
	return err
}

// matchBatch returns the values of columns in a batch, which it finds by name. A column that is missing, or of another
// type or length, is an error.
func matchBatch(columns []Column, b *Batch) ([]*dataset.Values, error) {
	values := make([]*dataset.Values, len(columns))
	for i, c := range columns {
		v := b.Column(c.Name)
		switch {
		case v == nil:
			return nil, &InputError{Column: c.Name, Msg: "the batch to be written has no such column"}
		case v.Type != c.Type || v.Unit != c.Unit || v.Len() != b.Rows:
			return nil, &InputError{Column: c.Name, Msg: fmt.Sprintf("%d values of type %s where %d of type %s belong",
				v.Len(), v.Type, b.Rows, c.Type)}
		}
		values[i] = v
	}
	return values, nil
}
