package serve

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/table"
)

// maxDepth bounds how deeply values of a request are nested.
const maxDepth = 32

// readInstances reads {"instances": [{"column": value, ...}, ...]}, one object for each row, of which there may be
// limit. Values have the meaning that they have in a file of objects for `launcher predict`. A key that a row lacks is
// null there. A key that comes twice in an object is an error, and so is anything but white space after the request's
// object, whose other keys are ignored.
//
// Columns of which only the number matters are read as numbers, which is faster. If a row has a text in one of them,
// the request is read again with texts everywhere.
func readInstances(m *Model, body []byte, limit int) (*table.Batch, error) {
	if !utf8.Valid(body) {
		return nil, errors.New("the request is not UTF-8")
	}
	text := string(body)
	b, err := readColumns(m, text, limit, m.numbers)
	if errors.Is(err, errText) {
		b, err = readColumns(m, text, limit, make([]bool, len(m.numbers)))
	}
	return b, err
}

// errText is a value that is not a number.
var errText = errors.New("a text in a column of numbers")

// readColumns reads up to limit rows into the columns that the model needs. numbers says, by column, which are read as
// numbers: a text there is errText. Other errors are mistakes of the request, and name row and key.
func readColumns(m *Model, text string, limit int, numbers []bool) (*table.Batch, error) {
	r := &instances{columns: newColumns(m), limit: limit, numbers: numbers, last: make([]int, len(m.columns))}
	r.JSON = table.JSON{Text: text, Deep: maxDepth, Fail: r.fail}
	rows := -1
	err := r.EachKey(func(key string) error {
		if key != "instances" {
			_, err := r.Value(key)
			return err
		}
		if rows >= 0 {
			return r.fail("", "the key \"instances\" comes twice")
		}
		var err error
		rows, err = r.readRows()
		return err
	})

	if err == nil && !r.Ended() {
		err = r.Broken("", "the end of the request")
	}
	if err != nil {
		return nil, err
	}
	if rows < 0 {
		return nil, errors.New(`the request has no key "instances"; send {"instances": [{"column": value, ...}, ...]}`)
	}
	if rows == 0 {
		return nil, errors.New("no rows: the list of instances is empty")
	}

	// The last rows, or all, may lack a key: fill up the columns to the same length.
	for i := range r.columns.batch.Columns {
		r.columns.have[i] = r.columns.batch.Columns[i].Len() > 0
		r.padColumn(i, rows)
	}
	r.columns.batch.Rows = rows
	return &r.columns.batch, table.CheckKeys("", m.columns, r.columns.columnNames())
}

// instances reads rows of JSON into columns.
type instances struct {
	table.JSON
	columns *columns
	limit   int      // the most rows
	numbers []bool   // by the model's column: whether it is read as a number
	row     int      // number of the current one, from 0
	last    []int    // by the model's column: how many rows have been written
	order   []placed // the keys of the last rows in their order: rows mostly have the same keys in the same order
	used    int      // how many keys of this row have been read, which are the first of order
	seen    []string // keys of this row that the model does not need
}

// placed is a key and the place of its column among the model's; -1 if the model does not need it.
type placed struct {
	key   string
	place int
}

// readRows reads the list of rows and returns how many there are; more than r.limit are an error. The columns are grown
// once, after the first row, whose length tells about how many there are.
func (r *instances) readRows() (int, error) {
	if r.Peek() != '[' {
		return 0, r.Broken("", `a list of objects under "instances"`)
	}
	r.At++
	for r.row = 0; ; r.row++ {
		if r.Peek() == ']' && r.row == 0 {
			r.At++
			return 0, nil
		}
		if r.row == r.limit {
			return 0, tooMany(r.limit)
		}
		r.used, r.seen = 0, r.seen[:0]
		from := r.At
		if err := r.EachKey(r.readCell); err != nil {
			return 0, err
		}
		if r.row == 0 { // the others are about as long
			rows := min((len(r.Text)-r.At)/(r.At-from), r.limit) // a row has at least its two braces
			for i := range r.columns.batch.Columns {
				v := &r.columns.batch.Columns[i]
				if v.Type == dataset.Float {
					v.Float = slices.Grow(v.Float, rows)
				} else {
					v.Text = slices.Grow(v.Text, rows)
				}
			}
		}
		switch r.Peek() {
		case ',':
			r.At++
		case ']':
			r.At++
			return r.row + 1, nil
		default:
			return 0, r.Broken("", "a comma or ]")
		}
	}
}

// readCell reads the value of a key of the current row. A key that the model does not need is only checked; one that is
// there twice is an error, and so is a nested value.
func (r *instances) readCell(key string) error {
	// Find the column: in most rows this key is the one that came at this point in the row before.
	var place int
	if r.used < len(r.order) && r.order[r.used].key == key {
		place = r.order[r.used].place
	} else {
		place = r.columns.placeOf(key)
		r.order = append(r.order[:r.used], placed{key, place})
	}
	r.used++

	// Of a key that the model does not need, the value is only checked.
	value, err := r.Value(key)
	if err != nil {
		return err
	}
	if place < 0 {
		if slices.Contains(r.seen, key) {
			return r.twice(key)
		}
		if len(r.seen) == mostOther {
			return r.fail(key, "row %d has more than %d keys that the model does not need", r.row+1, mostOther)
		}
		r.seen = append(r.seen, key)
		return nil
	}
	if r.last[place] > r.row { // this row has the key's value already
		return r.twice(key)
	}

	if value.Nested != "" {
		return &table.InputError{Row: int64(r.row) + 1, Column: key,
			Msg: fmt.Sprintf("is nested (%s), which cannot be a feature; flatten it", value.Nested)}
	}

	// Rows before this one that lack the key get nulls; then this row's value follows. In the first row there is none
	// to fill up, but the column gets its type.
	v := &r.columns.batch.Columns[place]
	if r.last[place] < r.row || r.row == 0 {
		r.padColumn(place, r.row)
	}
	if v.Type == dataset.Float {
		x, ok := numberOf(value)
		if !ok {
			return errText // readInstances then reads the whole request again, with texts everywhere
		}
		v.Float = append(v.Float, x)
	} else {
		v.Text, v.Literal = append(v.Text, value.Text), append(v.Literal, !value.Quoted)
		if value.Null && v.Null == nil {
			v.Null = make([]bool, r.row, r.row+8) // all earlier rows have a value; 8: room for some more
		}
		if v.Null != nil {
			v.Null = append(v.Null, value.Null)
		}
	}
	r.last[place] = r.row + 1
	return nil
}

// numberOf returns the number that a JSON value is, NaN for null; false for a text, a truth value, and a number that
// cannot be read.
func numberOf(v table.JSONValue) (float64, bool) {
	switch {
	case v.Null:
		return math.NaN(), true
	case v.Quoted || v.Text == "true" || v.Text == "false":
		return 0, false
	}
	return cell.ParseForced(v.Text)
}

// padColumn appends nulls to a column until it has so many rows, for rows that lack its key. It also sets the column's
// type.
func (r *instances) padColumn(place, rows int) {
	v := &r.columns.batch.Columns[place]
	r.last[place] = rows
	if r.numbers[place] {
		v.Type = dataset.Float
		for len(v.Float) < rows {
			v.Float = append(v.Float, math.NaN())
		}
		return
	}
	v.Type = dataset.Text
	for n := len(v.Text); n < rows; n++ {
		if v.Null == nil {
			v.Null = make([]bool, n, rows)
		}
		v.Text, v.Null, v.Literal = append(v.Text, ""), append(v.Null, true), append(v.Literal, false)
	}
}

// fail is the error of a request that cannot be read at the current byte. It has the form that table.JSON asks for.
func (r *instances) fail(_, format string, args ...any) error {
	return fmt.Errorf("byte %d of the request: %s", r.At, fmt.Sprintf(format, args...))
}

// twice is the error of an object that has a key twice.
func (r *instances) twice(key string) error {
	return &table.InputError{Row: int64(r.row) + 1, Column: key, Msg: "the object has this key twice"}
}
