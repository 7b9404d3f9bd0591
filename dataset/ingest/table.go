package ingest

import (
	"fmt"
	"slices"
	"strings"

	"coppice/dataset"
	"coppice/strictyaml"
)

// Column is a column of a table.
type Column struct {
	Name string
	Type dataset.Type
	Unit dataset.Unit // of dataset.Time

	// Untyped says that the table itself does not know what the column's texts mean: so it is in CSV, and of numbers in
	// Parquet that no 64-bit integer holds.
	Untyped bool

	// Dictionary says that the column held categories, of whatever type, in the program that wrote the table.
	Dictionary bool

	// Unreadable says why the column cannot be read, such as "a list"; empty for all that can.
	Unreadable string
}

// Batch is some rows of a table, in order. It lasts as long as the call that it was handed to; its texts last longer.
type Batch struct {
	Names   []string // of Columns, in the order that was asked for
	Columns []dataset.Values
	Rows    int
	First   int64 // number of the first row in the whole table, from 0

	file        string  // the URI that rows come from
	firstInFile int64   // number of the first row there, from 0
	lines       []int   // of each row, in a text file
	rowNumbers  []int64 // of each row in the whole table, once rows have been left out; nil before
	progress    int64   // bytes of the table read so far
}

// Column gives the values of the column called name, or nil.
func (b *Batch) Column(name string) *dataset.Values {
	for i, n := range b.Names {
		if n == name {
			return &b.Columns[i]
		}
	}
	return nil
}

// row is the number of row i in the whole table.
func (b *Batch) row(i int) int64 {
	if b.rowNumbers != nil {
		return b.rowNumbers[i]
	}
	return b.First + int64(i)
}

// errorAt is a *TableError at row i.
func (b *Batch) errorAt(i int, column, format string, args ...any) error {
	e := &TableError{File: b.file, Row: b.row(i) - b.First + b.firstInFile + 1, Column: column, Msg: fmt.Sprintf(format, args...)}
	if b.lines != nil {
		e.Line = b.lines[i]
	}
	return e
}

// Table is one or several files with the same columns.
type Table struct {
	files   []File
	sources []source
	columns []Column
	places  [][]int // of each file, where each of columns is
	threads int
}

// TableOptions say how text is delimited (Parquet files ignore it) and how many goroutines may decode.
type TableOptions struct {
	CSV     dataset.CSVSpec
	Threads int
}

// OpenTable reads the headers of files, which must all have the same columns, in whatever order.
func OpenTable(files []File, o TableOptions) (*Table, error) {
	if len(files) == 0 {
		return nil, &NotFoundError{"", "no files"}
	}
	t := &Table{files: files, threads: o.Threads}
	for _, f := range files {
		s, err := openSource(f, o)
		if err != nil {
			return nil, err
		}

		t.sources = append(t.sources, s)
		if err := checkNames(f, s.columns()); err != nil {
			return nil, err
		}

		if t.columns == nil {
			t.columns = slices.Clone(s.columns())
		}

		places, err := matchColumns(files[0], t.columns, f, s.columns())
		if err != nil {
			return nil, err
		}
		t.places = append(t.places, places)
		for i, place := range places {
			t.columns[i].Dictionary = t.columns[i].Dictionary || s.columns()[place].Dictionary
		}
	}
	return t, nil
}

func openSource(f File, o TableOptions) (source, error) {
	head, err := sniff(f)
	if err != nil {
		return nil, err
	}

	ext := suffix(f.URI)
	isParquet := ext == ".parquet" || ext == ".pq"
	packed := unsupported(head)

	switch {
	case isParquet && strings.HasPrefix(head, magicSecret):
		return nil, &TableError{File: f.URI, Msg: "an encrypted Parquet file, which cannot be read; write it without encryption"}
	case strings.HasPrefix(head, magicParquet):
		return openParquet(f, o.Threads)
	case isParquet:
		return nil, &TableError{File: f.URI, Msg: fmt.Sprintf("the name says Parquet, but the file begins with %q, not PAR1", head[:min(4, len(head))])}
	case packed != "":
		return nil, &TableError{File: f.URI, Msg: fmt.Sprintf("compressed with %s, which is not read; unpack it, or pack it with gzip or zstd", packed)}
	}
	return openCSV(f, head, o.CSV)
}

func checkNames(f File, columns []Column) error {
	seen := map[string]int{}
	for i, c := range columns {
		if err := dataset.CheckColumnName(c.Name); err != nil {
			return &TableError{File: f.URI, Msg: fmt.Sprintf("column %d", i+1), Err: err}
		}
		if other, ok := seen[c.Name]; ok {
			return &TableError{File: f.URI, Column: c.Name, Msg: fmt.Sprintf("columns %d and %d have this name; rename one", other+1, i+1)}
		}
		seen[c.Name] = i
	}
	return nil
}

// matchColumns says where in file f each column of the first file is.
func matchColumns(first File, want []Column, f File, have []Column) ([]int, error) {
	at := make(map[string]int, len(have))
	names := make([]string, len(have))
	for i, c := range have {
		at[c.Name], names[i] = i, c.Name
	}

	places := make([]int, len(want))
	for i, c := range want {
		place, ok := at[c.Name]
		if !ok {
			return nil, &TableError{File: f.URI, Column: c.Name, Msg: fmt.Sprintf("missing here, but there in %s%s", first.URI, suggest(c.Name, names))}
		}

		other := have[place]
		if other.Type != c.Type || other.Unit != c.Unit || other.Untyped != c.Untyped {
			return nil, &TableError{File: f.URI, Column: c.Name, Msg: fmt.Sprintf("is %s here and %s in %s; write all files with the same types", describe(other), describe(c), first.URI)}
		}

		places[i] = place
		delete(at, c.Name)
	}

	for _, c := range have {
		if _, extra := at[c.Name]; extra {
			return nil, &TableError{File: f.URI, Column: c.Name, Msg: fmt.Sprintf("there here, but missing in %s", first.URI)}
		}
	}
	return places, nil
}

func describe(c Column) string {
	switch {
	case c.Unreadable != "":
		return c.Unreadable
	case c.Unit != "":
		return fmt.Sprintf("%s (%s)", c.Type, c.Unit)
	}
	return string(c.Type)
}

// Columns are the columns of the table, in the order of the first file.
func (t *Table) Columns() []Column { return t.columns }

// suggest is the nearest of names in words, or all of them where they are few.
func suggest(name string, names []string) string {
	s := strictyaml.Suggest(name, names)
	if len(s) > 600 {
		return fmt.Sprintf(" (there are %d columns)", len(names))
	}
	return s
}

func (t *Table) find(name string) (int, error) {
	names := make([]string, len(t.columns))
	for i, c := range t.columns {
		names[i] = c.Name
		if c.Name != name {
			continue
		}
		if c.Unreadable != "" {
			return 0, &TableError{File: t.files[0].URI, Column: name, Msg: fmt.Sprintf("is %s, which cannot be a feature; list it under `drop` or flatten it", c.Unreadable)}
		}
		return i, nil
	}
	return 0, &TableError{File: t.files[0].URI, Column: name, Msg: "no such column" + suggest(name, names)}
}
