package ingest

import (
	"slices"

	"coppice/dataset"
	"coppice/dataset/encode"
)

// Inputs counts, of each column that features are made of, the values by which a model tells nothing, or little. Where ids are suddenly
// written in another way, or a column has lost its values, predictions are still numbers: these counts tell.
type Inputs struct {
	Rows    int64        `json:"rows"`
	Columns []InputCount `json:"columns"`
}

// InputCount is the count of one column.
type InputCount struct {
	Column  string `json:"column"`
	Missing int64  `json:"missing"`
	// IDs is whether unseen and rare values are counted: where the features know the column's values one by one.
	IDs    bool  `json:"ids,omitempty"`
	Unseen int64 `json:"unseen"` // those that the features do not tell from values that train did not have
	Rare   int64 `json:"rare"`   // those that fewer than rareRows rows of train had
}

// rareRows is how many rows of train a value has that is not rare.
const rareRows = 10

// witness is how the values of an input are counted.
type witness struct {
	table      int   // whose levels are the column's values; -1 where there is none
	categories []int // features whose categories are the column's; none where there is a table
	number     int   // the feature that is the column itself, as numbers; -1 where there is none
}

// newWitness chooses how to count a column.
func newWitness(e *dataset.Encoding, column string) witness {
	w := witness{table: -1, number: -1}
	for i := range e.Tables {
		t := &e.Tables[i]
		of := t.Of[0]
		if len(t.Of) == 1 && of.Column == column && of.Take == "" && len(of.Bounds) == 0 && t.Levels > 0 {
			w.table = i
			return w
		}
	}

	for i := range e.Features {
		f := &e.Features[i]
		switch {
		case f.Kind == dataset.Categorical && f.From == nil && f.Name == column,
			f.Kind == dataset.Categorical && f.From != nil && f.From.Of[0].Column == column:
			w.categories = append(w.categories, i)
		case f.Kind != dataset.Categorical && f.From == nil && f.Name == column:
			w.number = i
		}
	}
	return w
}

// CountSample counts the inputs of a dataset's sample.
func (e *Encoder) CountSample(s *dataset.Sample) (*Inputs, error) {
	in := &Inputs{}
	_, err := e.encode(len(s.Row), dataset.SampleFile, s.Column, placeInSample, nil, in)
	return in, err
}

// count adds the rows that were looked up, whose values are in out, to in.
func (l *lookup) count(in *Inputs, out []float64) error {
	if in.Columns == nil {
		for i, name := range l.e.inputs {
			w := &l.e.witnesses[i]
			in.Columns = append(in.Columns, InputCount{Column: name, IDs: w.table >= 0 || len(w.categories) > 0})
		}
	}

	in.Rows += int64(l.rows)
	for i := range in.Columns {
		c, w := &in.Columns[i], &l.e.witnesses[i]
		switch {
		case w.table >= 0:
			if err := l.countLevels(c, w.table); err != nil {
				return err
			}
		case len(w.categories) > 0:
			l.countCategories(c, w.categories, out)
		default:
			l.countMissing(c, w.number, out)
		}
	}
	return nil
}

// countLevels counts a column by its levels in a table.
func (l *lookup) countLevels(c *InputCount, table int) error {
	slots, _, err := l.find(table)
	if err != nil {
		return err
	}

	hashes := l.parts[l.e.partsOf[table][0]]
	for r, at := range slots {
		switch {
		case hashes[r] == encode.Missing():
			c.Missing++
		case at < 0:
			c.Unseen++
		case l.e.levels.Rows[at] < rareRows:
			c.Rare++
		}
	}
	return nil
}

// countCategories counts a column by the bins of features that hold its categories: a value is unseen if it is none of any of them.
func (l *lookup) countCategories(c *InputCount, features []int, out []float64) {
	width := len(l.e.encoders)
	v := l.column(c.Column)
	first := l.e.encoders[features[0]]
	for r := range l.rows {
		other := !slices.ContainsFunc(features, func(i int) bool { return out[r*width+i] != float64(l.e.encoders[i].other) })
		switch {
		case first.missing != first.other && out[r*width+features[0]] == float64(first.missing), other && missing(v, r, l.e.markers):
			c.Missing++
		case other:
			c.Unseen++
		}
	}
}

// countMissing counts the missing values of a column of numbers or times. Where it is no feature itself, spellings of a number that
// stands for a missing value are not looked at.
func (l *lookup) countMissing(c *InputCount, feature int, out []float64) {
	width, v := len(l.e.encoders), l.column(c.Column)
	for r := range l.rows {
		if feature >= 0 && out[r*width+feature] != out[r*width+feature] || feature < 0 && missing(v, r, l.e.markers) {
			c.Missing++
		}
	}
}
