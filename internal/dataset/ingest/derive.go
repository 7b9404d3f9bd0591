package ingest

import (
	"errors"
	"maps"
	"math"
	"slices"

	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/table"
)

// deriver computes a column of numbers from one or two columns of times: an hour, a weekday, or an age. The column is
// added to a batch after those of the table, and is then a feature like any other.
type deriver struct {
	from     dataset.Derived
	places   []int                 // by time, its index in roles.read
	encoders []*cell.ColumnEncoder // by time, what reads its values
	buf      [][]float64           // by time, memory that is used again
	auto     bool                  // the spec did not ask for it, so it is no error if the column holds no times
}

// name returns the name of the derived column, such as at.hour. An age is named after the column, which is the last of
// its two times, not after the row's time.
func (d *deriver) name() string {
	return d.from.Of[len(d.from.Of)-1].Column + "." + string(d.from.What)
}

// addDerivers adds what derive: asks for. In addition, the hour and the weekday of the time that orders the rows are
// derived, because that time itself is usually not a feature. They are not if the spec says what to derive from it,
// switches encodings off, or orders rows by group. use adds a column to those read and returns its index.
func (r *roles) addDerivers(spec *dataset.Spec, markers *cell.Markers, use func(path, name string) (int, error)) error {
	wanted := dataset.DeriveSpec{}
	maps.Copy(wanted, spec.Derive) // the spec stays as it is

	auto := spec.TimeColumn()
	if _, said := wanted[auto]; said || auto == "" || spec.Encodings.Off ||
		spec.OrderBy() == dataset.OrderGroup {
		auto = ""
	} else {
		wanted[auto] = dataset.ColumnEncodings{string(dataset.DeriveHour), string(dataset.DeriveWeekday)}
	}

	for _, column := range slices.Sorted(maps.Keys(wanted)) {
		for _, word := range wanted[column] {
			if word == dataset.EncodeNone {
				continue
			}

			// An age is the difference of two times: that of the row, and the column's.
			d := deriver{from: dataset.Derived{What: dataset.Derivation(word), Table: -1}, auto: column == auto}
			names := []string{column}
			if d.from.What == dataset.DeriveAge {
				names = []string{spec.TimeColumn(), column}
			}

			for _, name := range names {
				place, err := use("derive."+column, name)
				if err != nil {
					return err
				}
				part := dataset.Part{Column: name, Kind: dataset.Temporal}
				d.from.Of, d.places = append(d.from.Of, part), append(d.places, place)
				d.encoders = append(d.encoders, cell.NewNumbers(name, dataset.Temporal, markers))
			}

			r.derivers = append(r.derivers, d)
		}
	}
	return nil
}

// computeColumn returns the derived column of a batch. A value that is not a time is an error that names the row if the
// spec asked for the column. If it did not, the column is missing in the whole batch, for which dropUseless leaves out
// the feature.
func (d *deriver) computeColumn(batch *table.Batch) (dataset.Values, error) {
	out := dataset.Values{Type: dataset.Float, Float: make([]float64, batch.Rows)}
	times := make([][]float64, len(d.places))
	d.buf = dataset.Resize(d.buf, len(d.places))

	// Read the times.
	for i, place := range d.places {
		numbers, buf, err := d.encoders[i].Numbers(&batch.Columns[place], d.buf[i])
		d.buf[i] = buf

		var value *cell.ValueError
		switch {
		case err != nil && d.auto: // not a column of times: dropped after the first pass
			for j := range out.Float {
				out.Float[j] = math.NaN()
			}
			return out, nil
		case errors.As(err, &value):
			return out, batch.ErrorAt(value.At, d.from.Of[i].Column, "%s, so there is no %s to derive from it",
				value.Msg, d.from.What)
		case err != nil:
			return out, err
		}

		times[i] = numbers
	}

	// Derive a number from the times of each row.
	for i := range out.Float {
		if d.from.What == dataset.DeriveAge {
			out.Float[i] = cell.Age(times[0][i], times[1][i])
		} else {
			out.Float[i] = cell.Take(d.from.What, times[0][i])
		}
	}
	return out, nil
}

// derive returns a batch with the derived columns added after its own. It shares the batch's columns and does not
// change the batch.
func (r *roles) derive(batch *table.Batch) (*table.Batch, error) {
	if len(r.derivers) == 0 {
		return batch, nil
	}

	out := *batch
	out.Columns = slices.Clone(batch.Columns)
	for i := range r.derivers {
		v, err := r.derivers[i].computeColumn(batch)
		if err != nil {
			return nil, err
		}
		out.Columns = append(out.Columns, v)
	}

	return &out, nil
}

// derivedFeatures returns a feature for each derived column, in the order in which derive adds them to a batch, after
// the columns read.
func (r *roles) derivedFeatures() []feature {
	var out []feature
	for i := range r.derivers {
		d := &r.derivers[i]
		out = append(out, feature{place: len(r.read) + i, column: table.Column{Name: d.name(), Type: dataset.Float},
			from: &d.from, source: d.places[0], auto: d.auto})
	}
	return out
}

// orderTimes returns the times that order a batch's rows for statistics, in seconds since 1970 or as the column's
// numbers. It uses the memory of out, which may be nil. The first pass has read every time, so an unreadable one means
// that the table has changed.
func (s *survey) orderTimes(batch *table.Batch, out []float64) ([]float64, error) {
	// Without a clock of its own (s.order), the order is that of the column that splits the rows by time.
	v, read := &batch.Columns[s.roles.order], s.splitter.timeOf
	if s.order != nil {
		read = s.order.timeOf
	}

	out = dataset.Resize(out, batch.Rows)
	for i := range out {
		var ok bool
		if out[i], ok = read(v, i); !ok {
			return nil, batch.ErrorAt(i, s.spec.TimeColumn(),
				"the row has no place in the order of the statistics: its time cannot be read; the table changed "+
					"while it was read")
		}
	}
	return out, nil
}
