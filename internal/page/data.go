package page

import (
	"math"
	"strconv"
	"time"

	"coppice/internal/page/plot"
)

// data is what the script of a page needs to know beside what is drawn: the columns of all tables, each once, and which
// table has which.
type data struct {
	Kind    string             `json:"kind"`
	ID      string             `json:"id"`
	Columns map[string]*column `json:"columns"`
	Tables  map[string]table   `json:"tables"`
	Ranges  map[string]string  `json:"ranges,omitempty"` // of the axes that a reader can narrow: their columns
	Curves  *curves            `json:"curves,omitempty"`

	// What a console may offer to do about it, if it was started to act.
	Acts     []string `json:"acts,omitempty"`
	Champion int      `json:"champion,omitempty"`
}

// column is one value of every row.
type column struct {
	Name   string    `json:"n"`
	Unit   plot.Unit `json:"u,omitempty"`
	Time   bool      `json:"time,omitempty"` // seconds since 1970
	Values []any     `json:"v"`
}

// table is what a chart shows, as numbers.
type table struct {
	Title   string   `json:"title"`
	Columns []string `json:"c"`
}

// curves are the learning curves as they are drawn. Their table has a row for each point.
type curves struct {
	Trial []int   `json:"t"`
	X     [][]num `json:"x"`
	Y     [][]num `json:"y"` // of five digits
}

// num is a number of seven digits; what is no finite number is null.
type num float64

// MarshalJSON writes it.
func (n num) MarshalJSON() ([]byte, error) {
	v := float64(n)
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return []byte("null"), nil
	}
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 7, 64), 64) // what was formatted can be parsed
	return strconv.AppendFloat(nil, v, 'g', -1, 64), nil
}

func newData(kind, id string) *data {
	return &data{Kind: kind, ID: id, Columns: map[string]*column{}, Tables: map[string]table{}}
}

// add makes a column of a value of each row.
func add[R any](d *data, key, name string, unit plot.Unit, rows []R, value func(R) any) {
	c := &column{Name: name, Unit: unit, Values: make([]any, len(rows))}
	for i, r := range rows {
		switch v := value(r).(type) {
		case float64:
			c.Values[i] = num(v)
		case string:
			c.Values[i] = v
		case time.Time:
			c.Time = true
			if !v.IsZero() {
				c.Values[i] = num(float64(v.UnixMilli()) / 1000)
			}
		default:
			c.Values[i] = v
		}
	}
	d.Columns[key] = c
}

// table says what the table of a chart holds.
func (d *data) table(chart, title string, columns ...string) {
	d.Tables[chart] = table{title, columns}
}

// field is a column of a chart's table: a value of each row.
type field[R any] struct {
	name string
	unit plot.Unit
	of   func(R) any
}

// tabulate makes the table of a chart whose rows no other table has.
func tabulate[R any](d *data, chart, title string, rows []R, fields []field[R]) {
	keys := make([]string, len(fields))
	for i, f := range fields {
		keys[i] = chart + "-" + strconv.Itoa(i)
		add(d, keys[i], f.name, f.unit, rows, f.of)
	}
	d.table(chart, title, keys...)
}
