package cell

import (
	"math"
	"slices"

	"coppice/internal/dataset"
	"coppice/internal/dataset/encode"
)

// Inputs counts, for each column that features are made of, the values that tell a model little or nothing. If ids are
// suddenly written differently, or a column has lost its values, predictions are still numbers; these counts reveal it.
type Inputs struct {
	Rows    int64        `json:"rows"`
	Columns []InputCount `json:"columns"`
}

// InputCount holds the counts of one column.
type InputCount struct {
	Column  string `json:"column"`
	Missing int64  `json:"missing"`
	// IDs says whether unseen and rare values are counted, which requires features that know the column's individual
	// values.
	IDs    bool  `json:"ids,omitempty"`
	Unseen int64 `json:"unseen"` // values that the features cannot tell from values unseen in train
	Rare   int64 `json:"rare"`   // values with fewer than rareRows rows in train
}

// rareRows is the least number of rows of train that a value has if it is not rare.
const rareRows = 10

// countRule says from what the values of an input are counted.
type countRule struct {
	table      int   // whose levels are the column's values; -1 if there is none
	categories []int // features whose categories are the column's values; empty if there is a table
	number     int   // the numeric or time feature that is the column itself; -1 if there is none
}

// newCountRules chooses for each column from what it is counted: the first table whose levels are the column's values
// or, without one, the features that are made of them.
func newCountRules(e *dataset.Encoding, columns []string) []countRule {
	byName := make(map[string]*countRule, len(columns))
	out := make([]countRule, len(columns))
	for i, column := range columns {
		out[i] = countRule{table: -1, number: -1}
		byName[column] = &out[i]
	}

	// Tables whose levels are the values of a single column, neither in ranges nor as hours or weekdays.
	for i := range e.Tables {
		t := &e.Tables[i]
		of := t.Of[0]
		ofValues := len(t.Of) == 1 && of.Take == "" && len(of.Bounds) == 0
		if w := byName[of.Column]; ofValues && t.Levels > 0 && w != nil && w.table < 0 {
			w.table = i
		}
	}

	// Features, for columns without such a table.
	for i := range e.Features {
		f := &e.Features[i]
		column := f.Name
		if f.Kind == dataset.Categorical && f.From != nil {
			column = f.From.Of[0].Column
		}
		switch w := byName[column]; {
		case w == nil || w.table >= 0: // a derived feature, whose name is no column's, or a column with a table
		case f.Kind == dataset.Categorical:
			w.categories = append(w.categories, i)
		case f.From == nil:
			w.number = i
		}
	}
	return out
}

// CountSample counts the inputs in the rows of a dataset's sample.
func (e *Encoder) CountSample(s *dataset.Sample) (*Inputs, error) {
	in := &Inputs{}
	_, err := e.encode(sampled(s), nil, in, 1)
	return in, err
}

// add adds the counts of other rows of the same column. It also sets the column, for a c that is still zero.
func (c *InputCount) add(other *InputCount) {
	c.Column, c.IDs = other.Column, other.IDs
	c.Missing += other.Missing
	c.Unseen += other.Unseen
	c.Rare += other.Rare
}

// countRows adds the values of the chunk's inputs to l.counts. out has the chunk's model values: [rows x features].
func (l *lookup) countRows(out []float64) error {
	for i := range l.counts {
		c, w := &l.counts[i], &l.e.countRules[i]
		c.Column, c.IDs = l.e.inputs[i], w.table >= 0 || len(w.categories) > 0
		switch {
		case w.table >= 0:
			if err := l.countLevels(c, w.table); err != nil {
				return err
			}
		case len(w.categories) > 0:
			l.countCategories(c, &l.columns[i], w.categories, out)
		default:
			l.countMissing(c, &l.columns[i], w.number, out)
		}
	}
	return nil
}

// countLevels adds the values of a column in the chunk's rows to c: those that are missing, those that are no level of
// the table, and those whose level has fewer than rareRows rows.
func (l *lookup) countLevels(c *InputCount, table int) error {
	slots, _, err := l.findLevels(table)
	if err != nil {
		return err
	}

	hashes, err := l.hashesOfPart(l.e.partsOf[table][0])
	if err != nil {
		return err
	}
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

// countCategories adds the values v of a column to c. features are the indices of the features whose categories are the
// column's values, and out has the chunk's model values: [rows x features]. A value is unseen if none of the features
// has it as a category.
func (l *lookup) countCategories(c *InputCount, v *dataset.Values, features []int, out []float64) {
	width := len(l.e.encoders)
	first := l.e.encoders[features[0]]
	for r := range l.rows {
		other := !slices.ContainsFunc(features,
			func(i int) bool { return out[r*width+i] != float64(l.e.encoders[i].other) })
		inMissingBin := first.missing != first.other && out[r*width+features[0]] == float64(first.missing)
		switch {
		// A feature without a bin of missing values has them in that of other categories.
		case inMissingBin, other && Missing(v, r, l.e.markers):
			c.Missing++
		case other:
			c.Unseen++
		}
	}
}

// countMissing counts the missing values v of a column of numbers or times. feature is the index of the feature that is
// the column itself, whose model values are NaN where they are missing. If there is none (-1), the raw values decide;
// in a column of texts, a number that stands for a missing value then has to be spelled as the marker is.
func (l *lookup) countMissing(c *InputCount, v *dataset.Values, feature int, out []float64) {
	width := len(l.e.encoders)
	for r := range l.rows {
		if feature >= 0 && math.IsNaN(out[r*width+feature]) || feature < 0 && Missing(v, r, l.e.markers) {
			c.Missing++
		}
	}
}

// Add adds the counts of other rows of the same columns.
func (in *Inputs) Add(other *Inputs) {
	if in.Columns == nil {
		in.Columns = make([]InputCount, len(other.Columns))
	}
	in.Rows += other.Rows
	for i := range other.Columns {
		in.Columns[i].add(&other.Columns[i])
	}
}
