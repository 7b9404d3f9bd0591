package ingest

import (
	"errors"
	"fmt"

	"coppice/dataset"
)

// Encoder turns raw rows into the values that a model was trained on, by exactly the rules that staged its dataset. It is
// made of what goes into the registry with every model, and may be used from several goroutines.
type Encoder struct {
	coders []*coder
}

// NewEncoder makes the encoder of a dataset's features (dataset.Manifest.Encoding) or of a model's (features.json).
func NewEncoder(e *dataset.Encoding) *Encoder {
	enc := &Encoder{}
	t := newTokens(e.Missing)
	for i := range e.Features {
		enc.coders = append(enc.coders, newCoder(&e.Features[i], t))
	}
	return enc
}

// Columns are the names of the features, in the order of the model values: what to ask Table.Read for.
func (e *Encoder) Columns() []string {
	names := make([]string, len(e.coders))
	for i, c := range e.coders {
		names[i] = c.feature.Name
	}
	return names
}

// Encode gives the model values of a batch, row by row: b.Rows x features, in the memory of out where it suffices. A model
// value is: of a numeric feature the number (NaN when missing, infinities clamped to what a float64 holds), of a time
// seconds since 1970, of a category its bin. The batch's columns are found by name; more than are needed do not matter, and
// one that is missing or cannot be read as its feature is a *TableError.
func (e *Encoder) Encode(b *Batch, out []float64) ([]float64, error) {
	return e.encode(b.Rows, b.file, b.Column, func(row int, column, msg string) error { return b.errorAt(row, column, "%s", msg) }, out)
}

// EncodeSample gives the model values of a dataset's sample, as Encode does. The sample may be another dataset's than the
// encoder.
func (e *Encoder) EncodeSample(s *dataset.Sample) ([]float64, error) {
	place := func(row int, column, msg string) error {
		return &TableError{File: dataset.SampleFile, Row: int64(row) + 1, Column: column, Msg: msg}
	}
	return e.encode(len(s.Row), dataset.SampleFile, s.Column, place, nil)
}

func (e *Encoder) encode(rows int, file string, column func(string) *dataset.Values, place func(row int, column, msg string) error, out []float64) ([]float64, error) {
	width := len(e.coders)
	out = resize(out, rows*width)
	for i, c := range e.coders {
		name := c.feature.Name
		v := column(name)
		if v == nil {
			return nil, &TableError{File: file, Column: name, Msg: "the column is missing, and the model needs it"}
		}
		if v.Len() != rows {
			return nil, &TableError{File: file, Column: name, Msg: fmt.Sprintf("%d values in %d rows", v.Len(), rows)}
		}
		if rows == 0 {
			continue
		}
		if err := c.values(v, out[i:], width); err != nil {
			var value *valueError
			if errors.As(err, &value) {
				return nil, place(value.at, name, value.msg)
			}
			return nil, err
		}
	}
	return out, nil
}
