package ingest

import (
	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/table"
)

// clock reads the column that orders statistics, if that column does not also split the rows by time. Its texts may
// turn out to be times or numbers: as long as all of them could be either, both are counted. All methods but observe
// are valid after the first pass.
type clock struct {
	column   string
	markers  *cell.Markers
	asTime   *axis // nil once a value is not a time
	asNumber *axis // nil once a value is not a finite number
}

// observe counts the times of a batch in the first pass. Each value counts as a time and as a number, until one value
// rules either out: then asTime or asNumber becomes nil. A value that is missing, or that rules out what was left, is
// an error that names the row.
func (c *clock) observe(batch *table.Batch, values *dataset.Values) error {
	for i := range batch.Rows {
		if cell.Missing(values, i, c.markers) {
			return batch.ErrorAt(i, c.column,
				"the row has no place in the order of the statistics: its time is missing")
		}

		want := c.describeExpected() // as it was before this value
		if c.asTime != nil {
			if x, ok := timeAt(values, i); ok {
				c.asTime.add(x)
			} else {
				c.asTime = nil
			}
		}
		if c.asNumber != nil {
			if x, ok := parseNumber(values, i); ok && dataset.Finite(x) {
				c.asNumber.add(x)
			} else {
				c.asNumber = nil
			}
		}

		if c.asTime == nil && c.asNumber == nil {
			return batch.ErrorAt(i, c.column,
				"the row has no place in the order of the statistics: its time is %.40q, %s",
				values.TextOf(i), want)
		}
	}
	return nil
}

// describeExpected says what a value is not, in an error about one that is neither a time nor a number.
func (c *clock) describeExpected() string {
	switch {
	case c.asTime == nil:
		return "not a finite number as the values before it are"
	case c.asNumber == nil:
		return "not a time as the values before it are"
	}
	return "neither a time (such as 2017-07-02T10:03:20Z) nor a finite number"
}

// timeAt returns value i as a time, in seconds since 1970; ok is false if it is not a time.
func timeAt(values *dataset.Values, i int) (seconds float64, ok bool) {
	switch values.Type {
	case dataset.Time:
		return dataset.Seconds(values.Unit.Split(values.Int[i])), true
	case dataset.Text:
		sec, nsec, ok := cell.ParseTime(values.Text[i])
		return dataset.Seconds(sec, nsec), ok
	}
	return 0, false
}

// kind tells how the column is read. It is known after the first pass.
func (c *clock) kind() dataset.Kind {
	if c.asTime != nil {
		return dataset.Temporal
	}
	return dataset.Numeric
}

// axis returns the counts of rows by time. It is known after the first pass.
func (c *clock) axis() *axis {
	if c.asTime != nil {
		return c.asTime
	}
	return c.asNumber
}

// timeOf returns value i in seconds since 1970, or as a number if the column holds numbers; false if it is missing or
// neither.
func (c *clock) timeOf(values *dataset.Values, i int) (float64, bool) {
	if cell.Missing(values, i, c.markers) {
		return 0, false
	}
	if c.asTime != nil {
		return timeAt(values, i)
	}
	x, ok := parseNumber(values, i)
	return x, ok && dataset.Finite(x)
}
