package ingest

import (
	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/table"
)

// clock reads the column that statistics are ordered by, if it does not also split the rows by time. Texts may turn out
// to be times or numbers: as long as all of them could be either, both are counted.
type clock struct {
	column   string
	markers  *cell.Markers
	asTime   *axis // nil once a value is not a time
	asNumber *axis // nil once a value is not a finite number
}

// observe handles a batch in the first pass. Values count as times and as numbers, until one rules either out; a value
// that is missing, or rules out what was left, is an error.
func (c *clock) observe(batch *table.Batch, values *dataset.Values) error {
	for i := range batch.Rows {
		if cell.Missing(values, i, c.markers) {
			return batch.ErrorAt(i, c.column,
				"the row has no place in the order of the statistics: its time is missing")
		}

		want := c.describeExpected()
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

// describeExpected says what is expected, for messages about an unreadable value.
func (c *clock) describeExpected() string {
	switch {
	case c.asTime == nil:
		return "not a finite number as the values before it are"
	case c.asNumber == nil:
		return "not a time as the values before it are"
	}
	return "neither a time (such as 2017-07-02T10:03:20Z) nor a finite number"
}

// timeAt is value i as a time, in seconds since 1970.
func timeAt(values *dataset.Values, i int) (float64, bool) {
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

// timeOf returns value i in seconds since 1970, or as a number. It is known after the first pass.
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
