package table

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"coppice/internal/dataset"
)

// Partition is a column that has one value in all rows of a file, as the name of a folder says: NAME=VALUE, as Hive and
// Spark write it.
type Partition struct {
	Name, Value string
	Null        bool // the rows have no value
}

// hiveNull is the value that Hive and Spark give a folder of rows without a value.
const hiveNull = "__HIVE_DEFAULT_PARTITION__"

// Partitions returns the columns that the folders in a file's name give: those folders NAME=VALUE that come after
// fixed, the part of the name that the source states. Other folders are ignored. A value that is not UTF-8, and two
// folders of the same column, are errors.
func Partitions(fixed, name string) ([]Partition, error) {
	// Names of files are without the ./ that a source may begin with.
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

// withPartitions returns the source s of file f with the columns that the file's folders give added. own are the
// columns that the file itself holds; they win over folders of the same name. A file of JSON objects may have further
// columns in s: keys that only other files hold (see shareKeys). If a folder gives such a column, all rows have the
// folder's value, not null. If the folders give no column, the result is s itself.
func withPartitions(s source, f File, own []Column) source {
	_, has := placesOf(own)
	out, given := &reshaped{source: s, cols: slices.Clone(s.columns())}, map[int]Partition{}
	for i := range out.cols {
		out.at = append(out.at, i)
	}
	for _, c := range f.Partitions {
		if _, ok := has[c.Name]; ok {
			continue
		}
		place := slices.IndexFunc(out.cols, func(have Column) bool { return have.Name == c.Name })
		if place < 0 {
			place = len(out.cols)
			out.cols = append(out.cols, Column{Name: c.Name, Type: dataset.Text, Untyped: true})
			out.at = append(out.at, 0) // set below, as for a column that s has
		}
		given[place], out.at[place] = c, -1 // not read from the file: fill gives it
	}
	if len(given) == 0 {
		return s
	}
	out.fill = func(place, rows int) dataset.Values { return given[place].repeatValue(rows) }
	return out
}

// repeatValue returns the column of a file's rows, which all have the folder's value.
func (p Partition) repeatValue(rows int) dataset.Values {
	v := dataset.Values{Type: dataset.Text, Text: slices.Repeat([]string{p.Value}, rows)}
	if p.Null {
		v.Text, v.Null = make([]string, rows), slices.Repeat([]bool{true}, rows)
	}
	return v
}

// String returns the column and its value, as Fingerprint hashes them.
func (p Partition) String() string {
	if p.Null {
		return fmt.Sprintf("%q=null", p.Name)
	}
	return fmt.Sprintf("%q=%q", p.Name, p.Value)
}
