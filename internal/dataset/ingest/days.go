package ingest

import (
	"math"

	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/table"
)

// Times reads a column of times from tables that are not staged.
type Times struct {
	column  string
	markers *cell.Markers
}

// NewTimes reads the column of that name. missing lists the texts that stand for a missing value.
func NewTimes(column string, missing []string) *Times {
	return &Times{column, cell.NewMarkers(missing)}
}

// Seconds returns the times of a batch's rows, in seconds since 1970. A missing time, or a column of another kind, is a
// *table.InputError.
func (t *Times) Seconds(b *table.Batch) ([]float64, error) {
	v := b.Column(t.column)
	if v == nil {
		return nil, &table.InputError{File: b.File, Column: t.column,
			Msg: "the table has no such column, which should hold the row's time"}
	}

	out := make([]float64, b.Rows)
	for i := range out {
		var ok bool
		switch out[i], ok = timeAt(v, i); {
		case cell.Missing(v, i, t.markers):
			return nil, b.ErrorAt(i, t.column, "the time is missing; leave such rows out of the table")
		case v.Type != dataset.Time && v.Type != dataset.Text:
			return nil, b.ErrorAt(i, t.column, "the column holds numbers, not times")
		case !ok:
			return nil, b.ErrorAt(i, t.column, "%.40q is not a time", v.Text[i])
		}
	}
	return out, nil
}

// Day is the number of days from 1970-01-01 to the UTC day of a time.
func Day(seconds float64) int { return int(math.Floor(seconds / (24 * 60 * 60))) }
