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

// deriver computes a column of numbers from columns of times. The column is added to a batch after those of the table,
// and is then a feature like any other.
type deriver struct {
	from     dataset.Derived
	places   []int                 // indices of the times in roles.read
	encoders []*cell.ColumnEncoder // the times' encoders
	// added by Coppice, not by the spec: if the column holds no times, that is not an error
	auto bool
	buf  [][]float64
}

// name of the feature.
func (d *deriver) name() string {
	return d.from.Of[len(d.from.Of)-1].Column + "." + string(d.from.What)
}

// addDerivers adds what derive: asks for. If the spec does not say what to derive from the time that splits the rows,
// the time itself is not a feature, but its hour and weekday may become features.
func (r *roles) addDerivers(spec *dataset.Spec, t *cell.Markers, use func(path, name string) (int, error)) error {
	wanted := dataset.DeriveSpec{}
	maps.Copy(wanted, spec.Derive)

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
				d.encoders = append(d.encoders, cell.NewNumbers(name, dataset.Temporal, t))
			}

			r.derivers = append(r.derivers, d)
		}
	}
	return nil
}

// computeColumn computes the column for a batch. If a column that nobody asked to derive from turns out not to hold
// times, it is missing throughout, and left out later; one that was asked for is an error of the row.
func (d *deriver) computeColumn(batch *table.Batch) (dataset.Values, error) {
	out := dataset.Values{Type: dataset.Float, Float: make([]float64, batch.Rows)}
	times := make([][]float64, len(d.places))
	d.buf = dataset.Resize(d.buf, len(d.places))

	for i, place := range d.places {
		numbers, buf, err := d.encoders[i].Numbers(&batch.Columns[place], d.buf[i])
		d.buf[i] = buf

		var value *cell.ValueError
		switch {
		case err != nil && d.auto: // a column of other texts or numbers; dropped after the survey
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

	for i := range out.Float {
		if d.from.What == dataset.DeriveAge {
			out.Float[i] = cell.Age(times[0][i], times[1][i])
		} else {
			out.Float[i] = cell.Take(d.from.What, times[0][i])
		}
	}
	return out, nil
}

// derive returns a batch with the derived columns added behind its own, which it shares.
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

// derivedFeatures returns the features of the derived columns.
func (r *roles) derivedFeatures() []feature {
	var out []feature
	for i := range r.derivers {
		d := &r.derivers[i]
		out = append(out, feature{place: len(r.read) + i, column: table.Column{Name: d.name(), Type: dataset.Float},
			from:   &d.from,
			source: d.places[0], auto: d.auto})
	}
	return out
}

// orderTimes returns the times by which a batch's rows are ordered for statistics: seconds since 1970, or the column's
// numbers. Every row must have one.
func (s *survey) orderTimes(batch *table.Batch, out []float64) ([]float64, error) {
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
