package table

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"coppice/internal/dataset"
)

// Partition is a column that has one value in all rows of a file: Hive's folders NAME=VALUE.
type Partition struct {
	Name, Value string
	Null        bool
}

// hiveNull is how Hive and Spark write a folder for rows without a value.
const hiveNull = "__HIVE_DEFAULT_PARTITION__"

// Partitions returns the columns that the folders of a file give, those in its name behind fixed.
func Partitions(fixed, name string) ([]Partition, error) {
	rest, ok := strings.CutPrefix(name, strings.TrimPrefix(fixed, "./"))
	if fixed == "." {
		rest, ok = name, true
	}
	folders := strings.Split(rest, "/")
	if !ok || len(folders) == 1 {
		return nil, nil
	}

	var out []Partition
	for _, folder := range folders[:len(folders)-1] {
		column, value, ok := strings.Cut(folder, "=")
		if !ok || column == "" {
			continue
		}
		if plain, err := url.PathUnescape(value); err == nil {
			value = plain
		}
		if !utf8.ValidString(value) || strings.ContainsRune(value, 0) {
			return nil, &InputError{File: name, Column: column,
				Msg: fmt.Sprintf("the folder gives it %.60q, which is not text in UTF-8", value)}
		}
		if slices.ContainsFunc(out, func(p Partition) bool { return p.Name == column }) {
			return nil, &InputError{File: name, Column: column, Msg: "two folders of its name give this column a value"}
		}
		out = append(out, Partition{Name: column, Value: value, Null: value == hiveNull})
	}
	return out, nil
}

// partitioned is a file with the columns that its folders give. A column that it holds itself is read from it.
type partitioned struct {
	source
	given map[int]Partition // by place in cols
	cols  []Column
}

// withPartitions adds the columns of a file's folders to those of its own. Files of objects also have columns that only
// other files hold: such a one has the folder's value here.
func withPartitions(s source, f File, own []Column) source {
	p := &partitioned{source: s, given: map[int]Partition{}, cols: slices.Clone(s.columns())}
	for _, c := range f.Partitions {
		named := func(have Column) bool { return have.Name == c.Name }
		if slices.ContainsFunc(own, named) {
			continue
		}
		place := slices.IndexFunc(p.cols, named)
		if place < 0 {
			place = len(p.cols)
			p.cols = append(p.cols, Column{Name: c.Name, Type: dataset.Text, Untyped: true})
		}
		p.given[place] = c
	}
	if len(p.given) == 0 {
		return s
	}
	return p
}

func (p *partitioned) columns() []Column { return p.cols }

func (p *partitioned) read(ctx context.Context, q request) error {
	inner := q
	inner.places = nil
	for _, place := range q.places {
		if _, given := p.given[place]; !given {
			inner.places = append(inner.places, place)
		}
	}

	// The file fills a batch of its own; that of the caller gets its columns and the given ones.
	var outer *Batch
	inner.empty = func() *Batch {
		if outer = q.empty(); outer.inner == nil {
			outer.inner = &Batch{}
		}
		return outer.inner
	}
	inner.emit = func(b *Batch, done, total int64) error {
		columns := make([]dataset.Values, 0, len(q.places))
		next := 0
		for _, place := range q.places {
			if given, ok := p.given[place]; ok {
				columns = append(columns, given.values(b.Rows))
				continue
			}
			columns = append(columns, b.Columns[next])
			next++
		}
		*outer = Batch{Columns: columns, Rows: b.Rows, First: b.First, Lines: b.Lines, inner: b}
		return q.emit(outer, done, total)
	}
	return p.source.read(ctx, inner)
}

// values are the column's, of some rows.
func (p Partition) values(rows int) dataset.Values {
	v := dataset.Values{Type: dataset.Text, Text: slices.Repeat([]string{p.Value}, rows)}
	if p.Null {
		v.Text, v.Null = make([]string, rows), slices.Repeat([]bool{true}, rows)
	}
	return v
}

// String names the columns and values, for a fingerprint.
func (p Partition) String() string {
	if p.Null {
		return fmt.Sprintf("%q=null", p.Name)
	}
	return fmt.Sprintf("%q=%q", p.Name, p.Value)
}
