package ingest

import (
	"math"

	"coppice/internal/dataset"
)

// Times reads a column of times from tables that are not staged.
type Times struct {
	column  string
	markers *missingMarkers
}

// NewTimes reads the column of that name. missing lists the texts that stand for a missing value.
func NewTimes(column string, missing []string) *Times {
	return &Times{column, newMissingMarkers(missing)}
}

// Seconds returns the times of a batch's rows, in seconds since 1970. A missing time, or a column of another kind, is a
// *TableError.
func (t *Times) Seconds(b *Batch) ([]float64, error) {
	v := b.Column(t.column)
	if v == nil {
		return nil, &TableError{File: b.file, Column: t.column,
			Msg: "the table has no such column, which should hold the row's time"}
	}

	out := make([]float64, b.Rows)
	for i := range out {
		switch {
		case missing(v, i, t.markers):
			return nil, b.errorAt(i, t.column, "the time is missing; leave such rows out of the table")
		case v.Type == dataset.Time:
			out[i] = dataset.Seconds(v.Unit.Split(v.Int[i]))
		case v.Type == dataset.Text:
			sec, nsec, ok := parseTime(v.Text[i])
			if !ok {
				return nil, b.errorAt(i, t.column, "%q is not a time", brief(v.Text[i]))
			}
			out[i] = dataset.Seconds(sec, nsec)
		default:
			return nil, b.errorAt(i, t.column, "the column holds numbers, not times")
		}
	}
	return out, nil
}

// Day is the number of days from 1970-01-01 to the UTC day of a time.
func Day(seconds float64) int { return int(math.Floor(seconds / (24 * 60 * 60))) }

// Keep returns a batch of only the rows at the given places.
func (b *Batch) Keep(places []int32) *Batch { return b.keep(places) }

// With returns a batch with one more column.
func (b *Batch) With(name string, v dataset.Values) *Batch {
	out := *b
	out.Names = append(append([]string(nil), b.Names...), name)
	out.Columns = append(append([]dataset.Values(nil), b.Columns...), v)
	return &out
}
