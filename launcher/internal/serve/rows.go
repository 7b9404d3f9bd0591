package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"coppice/internal/dataset"
	"coppice/internal/dataset/table"
)

// columns collects the columns of a request that a model needs. Others are ignored, as `predict` does.
type columns struct {
	m     *Model
	have  []bool // by the model's column: whether the request has it
	batch table.Batch
	other []string // names of columns that the model does not need, for a hint
}

// mostOther bounds the names that are kept for a hint.
const mostOther = 256

// newColumns returns the columns of a request for m that has none yet.
func newColumns(m *Model) *columns {
	return &columns{m: m, have: make([]bool, len(m.columns)),
		batch: table.Batch{Names: m.columns, Columns: make([]dataset.Values, len(m.columns))}}
}

// placeOf returns the place of a column among the model's. If the model does not need it, it returns -1 and remembers
// the name for a hint.
func (c *columns) placeOf(name string) int {
	if i, ok := c.m.place[name]; ok {
		return i
	}
	if len(c.other) < mostOther {
		c.other = append(c.other, name)
	}
	return -1
}

// columnNames returns the names of the request's columns: at most mostOther that the model does not need, then all that
// it needs.
func (c *columns) columnNames() []string {
	names := c.other
	for i, name := range c.m.columns {
		if c.have[i] {
			names = append(names, name)
		}
	}
	return names
}

// tooMany is the error of a request that has more than limit rows.
func tooMany(limit int) error {
	return &table.InputError{Msg: fmt.Sprintf("more than %d rows; send them in several requests, or use "+
		"`launcher predict` for whole tables", limit)}
}

// readText reads the rows of a body, at most limit, as `launcher predict` reads a file of that name: CSV with a header,
// or one JSON object per line. Compressed text is refused, since a few kilobytes could become gigabytes.
func readText(ctx context.Context, m *Model, name string, body []byte, limit int) (*table.Batch, error) {
	for _, magic := range []string{"\x1f\x8b", "\x28\xb5\x2f\xfd", "PAR1", "ARROW1"} {
		if bytes.HasPrefix(body, []byte(magic)) {
			return nil, errors.New("the request is compressed, Parquet or an Arrow file; send plain text or JSON")
		}
	}
	t, err := table.Open([]table.File{{URI: name, Contents: body, Bytes: int64(len(body))}}, table.Options{Threads: 1,
		Keys: m.columns})
	if err != nil {
		return nil, err
	}

	// All rows come as one batch, since a batch may have one row more than the limit.
	var all *table.Batch
	err = t.Read(ctx, m.columns, limit+1, func(b *table.Batch) error {
		if all != nil || b.Rows > limit {
			return tooMany(limit)
		}
		whole := *b
		whole.Columns = slices.Clone(b.Columns) // the reader uses b again to look for another batch
		all = &whole
		return nil
	})
	if err == nil && all == nil {
		err = &table.InputError{File: name, Msg: "no rows"}
	}
	return all, err
}
