package table

import (
	"context"
	"fmt"
	"math"
	"slices"

	"coppice/internal/dataset"
)

// mergeColumns returns the columns of a table after file f, with the columns have, is added. all are the columns of the
// files before it, and from the URI of the file that each column's type comes from, which is also returned.
//
// A column gets a type that holds the values of all files. Numbers and anything else go together at first: the numbers
// may be a column of nulls, whose type says nothing, which shows when it is read. A column that is new is null in the
// files before. A column that f lacks is an error.
func mergeColumns(all []Column, from []string, f File, have []Column) ([]Column, []string, error) {
	fail := func(column, format string, args ...any) error {
		return &InputError{File: f.URI, Column: column, Msg: fmt.Sprintf(format, args...)}
	}
	names, at := placesOf(have)
	for i := range all {
		c := &all[i]
		place, ok := at[c.Name]
		if !ok {
			return nil, nil, fail(c.Name, "missing here, but present in %s%s", from[i], Suggest(c.Name, names))
		}
		other := have[place]
		typ, unit, ok := widestType(*c, other)
		if !ok {
			return nil, nil, unlike(f.URI, other, from[i], *c, "")
		}
		if typ != c.Type || unit != c.Unit {
			from[i] = f.URI
		}
		c.Type, c.Unit, c.Untyped = typ, unit, c.Untyped || other.Untyped
		c.Dictionary, c.Index = c.Dictionary || other.Dictionary, c.Index || other.Index
	}
	_, known := placesOf(all)
	for _, c := range have {
		if _, ok := known[c.Name]; !ok {
			all, from = append(all, c), append(from, f.URI)
		}
	}
	return all, from, nil
}

// placesOf returns the names of columns, and by name where each is.
func placesOf(columns []Column) (names []string, at map[string]int) {
	names, at = make([]string, len(columns)), make(map[string]int, len(columns))
	for i, c := range columns {
		names[i], at[c.Name] = c.Name, i
	}
	return names, at
}

// widestType returns the type that holds the values of both columns; ok is false if there is none. Whole numbers and
// fractions go together as floats, and times of two units in the finer one. Numbers and anything else get the other's
// type: the numbers may be a column of nulls. Columns of which one only can be read do not go together, nor do texts
// whose meaning is declared and texts of CSV.
func widestType(a, b Column) (typ dataset.Type, unit dataset.Unit, ok bool) {
	number := func(c Column) bool { return c.Type == dataset.Float || c.Type == dataset.Int }
	switch {
	case a.Type == b.Type && a.Unit == b.Unit && a.Untyped == b.Untyped && (a.Unreadable == "") == (b.Unreadable == ""):
		return a.Type, a.Unit, true
	case a.Unreadable != "" || b.Unreadable != "":
	case number(a) && number(b):
		return dataset.Float, "", true
	case a.Type == dataset.Time && b.Type == dataset.Time:
		if a.Unit.PerSecond() < b.Unit.PerSecond() { // 0 for days, which are the coarsest
			a = b
		}
		return dataset.Time, a.Unit, true
	case number(a):
		return b.Type, b.Unit, true
	case number(b):
		return a.Type, a.Unit, true
	}
	return "", "", false
}

// reshaped is a file with other columns than its own. Some of its columns are the file's, as they are or in other
// types; others are given.
type reshaped struct {
	source
	cols []Column
	at   []int // by column, its index in the file; -1 if the file does not have it
	// fill returns a column that the file does not have, for so many rows.
	fill func(place, rows int) dataset.Values
	// convert returns the file's values of a column in the column's type; nil leaves all values as they are.
	convert func(place int, v *dataset.Values) (dataset.Values, error)
}

func (f *reshaped) columns() []Column { return f.cols }

// read passes on batches of the columns asked for. Those that the file has are read from it and converted; the others
// are filled.
func (f *reshaped) read(ctx context.Context, q request) error {
	// Ask the file for the columns that it has. among is, by column of q, its index among these; -1 if it is filled.
	inner, among := q, make([]int, len(q.places))
	inner.places = nil
	for i, place := range q.places {
		among[i] = -1
		if own := f.at[place]; own >= 0 {
			among[i] = len(inner.places)
			inner.places = append(inner.places, own)
		}
	}

	// The file fills a batch of its own, outer.inner, whose columns become some of outer's, the caller's batch.
	var outer *Batch
	inner.empty = func() *Batch {
		if outer = q.empty(); outer.inner == nil {
			outer.inner = &Batch{}
		}
		return outer.inner
	}
	inner.emit = func(b *Batch, done, total int64) (err error) {
		columns := make([]dataset.Values, len(q.places))
		for i, place := range q.places {
			switch {
			case among[i] < 0:
				columns[i] = f.fill(place, b.Rows)
			case f.convert == nil:
				columns[i] = b.Columns[among[i]]
			default:
				if columns[i], err = f.convert(place, &b.Columns[among[i]]); err != nil {
					return err
				}
			}
		}
		*outer = Batch{Columns: columns, Rows: b.Rows, First: b.First, Lines: b.Lines, inner: b}
		return q.emit(outer, done, total)
	}
	return f.source.read(ctx, inner)
}

// widenFile returns file i with the columns of the table, in the types that files have them. at has the index in the
// file of each column, -1 if the file does not have it; from has the file that each type comes from, for an error about
// a value that does not fit.
func (t *Table) widenFile(i int, at []int, from []string) source {
	columns := slices.Clone(t.columns) // ReadAs changes the types in t.columns, and then gets texts of these to read
	fill := func(place, rows int) dataset.Values { return nullValues(&columns[place], rows) }
	return &reshaped{t.sources[i], columns, at, fill, func(place int, v *dataset.Values) (dataset.Values, error) {
		c := &columns[place]
		out, misfit := widenValues(v, c)
		if misfit < 0 {
			return out, nil
		}
		why := ""
		if c.Type != dataset.Text {
			why = fmt.Sprintf(", where %s does not fit", v.TextOf(misfit))
		}
		return out, unlike(from[place], *c, t.files[i].URI, Column{Type: v.Type, Unit: v.Unit}, why)
	}}
}

// unlike returns the error that column c of the file here has another type than the column other of the file there. why
// is added to it.
func unlike(here string, c Column, there string, other Column, why string) error {
	return &InputError{File: here, Column: c.Name, Msg: fmt.Sprintf("is %s here and %s in %s%s; write all files with "+
		"the same types", describeType(c), describeType(other), there, why)}
}

// nullValues returns rows of a column in which all is null.
func nullValues(c *Column, rows int) dataset.Values {
	v := dataset.Values{Type: c.Type, Unit: c.Unit, Null: slices.Repeat([]bool{true}, rows)}
	switch c.Type {
	case dataset.Text:
		v.Text = make([]string, rows)
	case dataset.Float:
		v.Float = slices.Repeat([]float64{math.NaN()}, rows)
	default:
		v.Int = make([]int64, rows)
	}
	return v
}

// widenValues returns values in the type of column c. misfit is the index of the first value that does not fit, or -1.
// Nulls and NaN always fit, as nulls. Of values in another type or unit, whole numbers that a float64 holds exactly fit
// a column of floats, times fit one of times in whose unit an int64 can count them, and 0 and 1 fit truth values.
func widenValues(v *dataset.Values, c *Column) (out dataset.Values, misfit int) {
	if v.Type == c.Type && v.Unit == c.Unit {
		return *v, -1
	}
	out = nullValues(c, v.Len())
	for i := range out.Null {
		if v.IsNull(i) || v.Type == dataset.Float && v.Float[i] != v.Float[i] {
			continue
		}
		out.Null[i] = false
		switch {
		case v.Type == dataset.Int && c.Type == dataset.Float && v.Int[i] <= dataset.MaxExact &&
			v.Int[i] >= -dataset.MaxExact:
			out.Float[i] = float64(v.Int[i])
		case v.Type == dataset.Time && c.Type == dataset.Time:
			sec, nsec := v.Unit.Split(v.Int[i])
			per := c.Unit.PerSecond() // not 0: the column has the finer unit of two, so not days
			if sec > math.MaxInt64/per-1 || sec < math.MinInt64/per+1 {
				return out, i
			}
			out.Int[i] = sec*per + nsec/(1e9/per)
		case c.Type == dataset.Bool && (v.TextOf(i) == "0" || v.TextOf(i) == "1"):
			out.Int[i] = int64(v.TextOf(i)[0] - '0')
		default:
			return out, i
		}
	}
	return out, -1
}
