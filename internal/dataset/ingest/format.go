package ingest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/table"
)

// Reading says how columns of texts are read that are not simply texts: as numbers with marks for readers, such as
// 1,234.5 or 12 %, or as dates such as 31/12/2024.
type Reading struct {
	Formats dataset.Formats   // by column
	Said    []dataset.Warning // what was found
	Open    map[string]string // by column that could be read in two ways: the text of the warning about it
}

// maxHead is how many rows are read first, to rule out the many columns that need no format.
const maxHead = 1 << 14

// errEnough ends reading after the first rows.
var errEnough = errors.New("enough rows")

// addTexts shows the texts of a column to a recogniser, except those that are missing values.
func addTexts(recogniser *cell.Recogniser, v *dataset.Values, markers *cell.Markers) {
	for j, text := range v.Text {
		if !v.IsNull(j) && !markers.Has(text) {
			recogniser.Add(text)
		}
	}
}

// tellOdd adds a warning if one text keeps a column from being read as numbers or dates, which all texts before it are:
// at least oddRows of them, as fewer say little. It also adds one if all texts look like dates with years of two
// digits, of which nobody can tell the century.
func (r *Reading) tellOdd(name string, c *cell.Recogniser) {
	if c.ShortYears >= oddRows {
		r.Said = append(r.Said, dataset.Warning{Code: WarnOdd, Column: name, Text: fmt.Sprintf("texts such as %.40q "+
			"look like dates, but years of two digits are not read: the column is read as texts; write the years in "+
			"full, as in 2025-01-31", c.Odd)})
	}
	if c.RuledOut && c.Example != "" && c.Agreed >= oddRows {
		r.Said = append(r.Said, dataset.Warning{Code: WarnOdd, Column: name, Text: fmt.Sprintf("before %.40q "+
			"all values are %s: the column is read as texts; if that stands for a missing value, list it "+
			"under missing: (--missing), else mend it", c.Odd, dataset.FormatWords[c.Almost])})
	}
}

// Recognise finds out which text columns of a table hold numbers with marks for readers, or dates, and has the table
// read them as what they are from then on. All texts of a column together tell the order of day and month.
//
// Formats that the spec gives are taken as they are. dates, if not empty, decides for dates whose texts do not tell the
// order; otherwise such a column stays open (Reading.Open), which is an error if the spec uses it as a time.
//
// It reads the first rows of all text columns, and further ones only of columns that may still have a format.
func Recognise(ctx context.Context, spec *dataset.Spec, t *table.Table, dates dataset.Format,
	markers *cell.Markers) (*Reading, error) {
	// Formats that are known, and columns of texts whose formats are to be found.
	r, said := &Reading{Formats: dataset.Formats{}, Open: map[string]string{}}, saidFormats(spec, t)
	seen := map[string]*cell.Recogniser{}
	for _, c := range t.Columns() {
		switch f := said[c.Name]; {
		case c.Type != dataset.Text || c.Unreadable != "" || f == dataset.AsText:
		case f != "":
			r.Formats[c.Name] = f
		case !c.Dictionary:
			seen[c.Name] = &cell.Recogniser{Semicolon: c.Semicolon}
		}
	}

	// The first rows, then all rows of the columns that are left. The first rows count twice, which does not matter.
	for _, most := range []int64{maxHead, math.MaxInt64} {
		if len(seen) == 0 {
			break
		}
		names, read := slices.Sorted(maps.Keys(seen)), int64(0)
		err := t.Read(ctx, names, min(maxHead, table.BatchRows(len(names))), func(b *table.Batch) error {
			for i, name := range b.Names {
				addTexts(seen[name], &b.Columns[i], markers)
			}
			read += int64(b.Rows)
			if read >= most {
				return errEnough
			}
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) {
			return nil, err
		}
		for _, name := range names {
			r.tellOdd(name, seen[name])
		}
		// As long as there are rows left, a column without any format may still get one.
		maps.DeleteFunc(seen, func(_ string, c *cell.Recogniser) bool {
			return c.RuledOut || err == nil && len(c.Formats()) == 0
		})
		// No error means that all rows have been read.
		if err == nil {
			break
		}
	}

	// Settle the formats of the columns that are left. A time that stays open cannot be used.
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		can := seen[name].Formats()
		if len(can) == 2 && slices.Contains(can, dates) {
			can = []dataset.Format{dates}
		}
		r.settle(name, can, seen[name].Example, markers)
	}
	for _, column := range []string{spec.TimeColumn(), spec.Label.At, spec.Contract.Time} {
		if text := r.Open[column]; text != "" {
			return nil, spec.Errorf("format", "column %q: %s", column, text)
		}
	}
	t.ReadAs(r.Formats, func(b *table.Batch, i int, f dataset.Format) (dataset.Values, error) {
		out, bad := cell.ReadAs(f, &b.Columns[i], markers)
		if bad != nil {
			return out, b.ErrorAt(bad.At, b.Names[i], "%s", bad.Msg)
		}
		return out, nil
	})
	return r, nil
}

// settle adds a column's format to r, and a hint that says so. can has the one format that all texts have, or two: then
// the column stays open, with a warning. example is one of the texts.
func (r *Reading) settle(name string, can []dataset.Format, example string, markers *cell.Markers) {
	one, _ := cell.ReadAs(can[0], &dataset.Values{Type: dataset.Text, Text: []string{example}}, markers)
	code, text := HintFormat, fmt.Sprintf("texts such as %.40q are read as %s, this one as %s; under categorical: "+
		"(--categorical %s) they stay texts", example, dataset.FormatWords[can[0]], one.TextOf(0), name)
	if len(can) == 1 {
		r.Formats[name] = can[0]
	} else {
		code, text = WarnFormat, fmt.Sprintf("texts such as %.40q are %s or %s, which no value tells: they stay texts "+
			"unless you say %s or %s under format: (--format %s=%[4]s)", example, dataset.FormatWords[can[0]],
			dataset.FormatWords[can[1]], can[0], can[1], name)
		r.Open[name] = text
	}
	r.Said = append(r.Said, dataset.Warning{Code: code, Column: name, Text: text})
}

// saidFormats returns the formats that are known before reading: those that the spec gives, and AsText for columns that
// it uses as neither numbers nor times.
func saidFormats(spec *dataset.Spec, t *table.Table) dataset.Formats {
	said, texts := dataset.Formats{}, slices.Concat(spec.Drop, spec.Categorical, []string{spec.Split.Key, spec.Group})
	if l := &spec.Label; l.Positive != nil || l.Kind == dataset.Classes {
		texts = append(texts, l.Column)
	}
	if spec.Split.By == dataset.SplitByColumn {
		texts = append(texts, spec.Split.Column)
	}
	for _, c := range t.Columns() {
		if asksForCategories(spec, c.Name) || slices.Contains(texts, c.Name) {
			said[c.Name] = dataset.AsText
		}
	}
	maps.Copy(said, spec.Format) // comes last, as it takes precedence
	return said
}
