package serve

import (
	"fmt"
	"slices"

	"coppice/internal/dataset"
	"coppice/internal/dataset/table"
)

// columns collects the columns of a request that a model needs. Others are ignored, as `predict` does.
type columns struct {
	m     *Model
	have  []bool // by the model's column
	batch table.Batch
	other []string // names of columns that the model does not need, for a hint
}

// mostOther bounds the names that are kept for a hint.
const mostOther = 256

func newColumns(m *Model) *columns {
	return &columns{m: m, have: make([]bool, len(m.columns)),
		batch: table.Batch{Names: m.columns, Columns: make([]dataset.Values, len(m.columns))}}
}

// at returns the place of a column, -1 if the model does not need it.
func (c *columns) at(name string) int {
	if i, ok := c.m.place[name]; ok {
		return i
	}
	if len(c.other) < mostOther {
		c.other = append(c.other, name)
	}
	return -1
}

// done returns the batch of all columns, or says which are missing in the words of `predict`.
func (c *columns) done(rows int) (*table.Batch, error) {
	if slices.Contains(c.have, false) {
		names := c.other
		for i, name := range c.m.columns {
			if c.have[i] {
				names = append(names, name)
			}
		}
		return nil, table.Lacking("", c.m.columns, names)
	}
	c.batch.Rows = rows
	return &c.batch, nil
}

// tooMany is a request of more rows than one may have.
func tooMany(limit int) error {
	return &table.InputError{Msg: fmt.Sprintf("more than %d rows; send them in several requests, or use "+
		"`launcher predict` for whole tables", limit)}
}
