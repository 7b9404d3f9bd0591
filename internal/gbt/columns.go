package gbt

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"coppice/internal/strictyaml"
)

// ColumnList names columns as LightGBM's ignore_column does: "0,3,5" by feature number, from 0, or "name:age,price" by
// name. A name that no column has may be a pattern of path.Match, "name:user*,*:count", for all columns that match.
// Empty means no column.
type ColumnList string

// IgnoreColumn is the parameter that excludes columns from a model.
const IgnoreColumn = "ignore_column"

const (
	byName = "name:"
	// maxColumnList bounds the bytes of a list, far above any reasonable one.
	maxColumnList = 1 << 20
)

// parseColumns parses a list of columns. The result is in canonical form as far as that is possible without knowing the
// table: sorted, without duplicates and without spaces around the commas.
func parseColumns(text string) (ColumnList, error) {
	if len(text) > maxColumnList {
		return "", fmt.Errorf("%d bytes of column names; at most %d", len(text), maxColumnList)
	}

	if names, ok := strings.CutPrefix(strings.TrimSpace(text), byName); ok {
		return parseNames(names)
	}

	var numbers []int
	for _, word := range cutWords(text) {
		n, err := columnNumber(word)
		if err != nil {
			return "", err
		}
		numbers = append(numbers, n)
	}

	slices.Sort(numbers)
	return numbered(slices.Compact(numbers)), nil
}

// columnNumber parses the number of a column, counted from 0 and less than 2^31.
func columnNumber(word string) (int, error) {
	n, err := strconv.ParseUint(word, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("%.60q is not a column number; numbers count from 0, names come after %s", word, byName)
	}
	return int(n), nil
}

// parseNames is parseColumns for a list of names, without the "name:" before it.
func parseNames(text string) (ColumnList, error) {
	names := cutWords(text)
	for _, name := range names {
		if !writable(name) {
			return "", fmt.Errorf("the column name %.60q has marks that cannot be written here; give the column's "+
				"number", name)
		}
	}
	slices.Sort(names)
	return named(slices.Compact(names)), nil
}

// cutWords splits a comma-separated list and drops empty entries.
func cutWords(text string) []string {
	var out []string
	for word := range strings.SplitSeq(text, ",") {
		word = strings.TrimSpace(word)
		if word != "" {
			out = append(out, word)
		}
	}
	return out
}

// writable reports whether a column's name can be written in a list, whose names are separated by commas, and in a line
// of the model file.
func writable(name string) bool {
	control := func(r rune) bool { return r < ' ' || r == 0x7f }
	return name != "" && name == strings.TrimSpace(name) && !strings.Contains(name, ",") &&
		!strings.ContainsFunc(name, control)
}

// numbered returns the list of columns by number.
func numbered(numbers []int) ColumnList {
	text := make([]string, len(numbers))
	for i, n := range numbers {
		text[i] = strconv.Itoa(n)
	}
	return ColumnList(strings.Join(text, ","))
}

// named returns the list of columns by name.
func named(names []string) ColumnList {
	if len(names) == 0 {
		return ""
	}
	return ColumnList(byName + strings.Join(names, ","))
}

// numbers returns the indices of the list's columns in a table whose columns have these names, ascending and each once.
// A word that is a pattern and not itself the name of a column stands for all columns that match it.
func (l ColumnList) numbers(columns []string) ([]int, error) {
	list, isNames := strings.CutPrefix(string(l), byName)
	find := numberFinder(columns)
	if isNames {
		find = nameFinder(columns)
	}

	var out []int
	for _, word := range cutWords(list) {
		if isNames && isPattern(word) && !slices.Contains(columns, word) {
			matches, err := matchPattern(word, columns)
			if err != nil {
				return nil, err
			}
			out = append(out, matches...)
			continue
		}

		n, err := find(word)
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}

	slices.Sort(out)
	return slices.Compact(out), nil
}

// Names returns the names of the list's columns in a table whose columns have these names, in the table's order.
func (l ColumnList) Names(columns []string) ([]string, error) {
	numbers, err := l.numbers(columns)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(numbers))
	for i, n := range numbers {
		names[i] = columns[n]
	}
	return names, nil
}

// ColumnNamed returns the columns that a word in a list of names stands for: the column of this name or, if there is
// none, all columns that match the word as a pattern. It is an error if there are none of either, except that a pattern
// with a statistic mark may match no column.
func ColumnNamed(word string, columns []string) ([]string, error) {
	if slices.Contains(columns, word) {
		return []string{word}, nil
	}
	return ColumnList(byName + word).Names(columns)
}

// numberFinder returns a function that finds the index of a column by its number, counted from 0, in a text.
func numberFinder(columns []string) func(string) (int, error) {
	return func(word string) (int, error) {
		n, err := strconv.Atoi(word)
		if err != nil || n < 0 || n >= len(columns) {
			return 0, fmt.Errorf("there is no column %.20s; the table's %d columns count from 0", word, len(columns))
		}
		return n, nil
	}
}

// nameFinder returns a function that finds the index of a column by its name, which no other column may have.
func nameFinder(columns []string) func(string) (int, error) {
	const twice = -1
	index := make(map[string]int, len(columns)) // by name; twice if several columns have it
	for i, name := range columns {
		if _, found := index[name]; found { // an error only if this name is looked up
			i = twice
		}
		index[name] = i
	}

	return func(name string) (int, error) {
		n, found := index[name]
		switch {
		case !found:
			return 0, fmt.Errorf("there is no column %.60q%s", name, suggestColumn(name, columns))
		case n == twice:
			return 0, fmt.Errorf("more than one column has the name %.60q; give the number", name)
		}
		return n, nil
	}
}

// isPattern reports whether a word is a pattern.
func isPattern(word string) bool { return strings.ContainsAny(word, "*?[") }

// statisticMarks occur in the names of columns that staging computes from other columns, such as the click rate of a
// site (site:rate) or the number of rows with a pair of values (site+ad:count). Which of these a dataset has is only
// decided when it is staged. So a pattern with such a mark may match no column.
const statisticMarks = ":+"

// matchPattern returns the indices of the columns whose names match a pattern of path.Match, except that a slash is not
// special. It is an error if none does, unless the pattern has a statistic mark.
func matchPattern(pattern string, columns []string) ([]int, error) {
	plain := strings.NewReplacer("/", "\x00").Replace // path.Match treats \x00 as any other character

	var out []int
	for i, name := range columns {
		ok, err := path.Match(plain(pattern), plain(name))
		if err != nil {
			return nil, fmt.Errorf("the pattern %.60q cannot be read; a bracket is open, or nothing follows the "+
				"last backslash", pattern)
		}
		if ok {
			out = append(out, i)
		}
	}

	if len(out) == 0 && !strings.ContainsAny(pattern, statisticMarks) {
		return nil, fmt.Errorf("no column matches %.60q", pattern)
	}
	return out, nil
}

// suggestColumn returns the end of an error message about an unknown column: the most similar name or, if none is
// similar, all names if there are few, else how many there are.
func suggestColumn(word string, columns []string) string {
	const few = 20
	hint := strictyaml.Suggest(word, columns)
	if strings.HasPrefix(hint, " (known") && len(columns) > few {
		return fmt.Sprintf(" among %d", len(columns))
	}
	return hint
}

// ForColumns returns p for a table whose columns have these names. Parameters that name columns are brought into a form
// that depends only on the columns, so that equal configurations have equal maps and make equal models. The form is by
// name, or by number if a name is ambiguous or cannot be written (it contains a comma, for instance). Lists with
// patterns are kept as they are. A list with an unknown column, or one that ignores all columns, is a *ParamError.
func (p Params) ForColumns(columns []string) (Params, error) {
	var err error
	if p.IgnoreColumn, err = p.IgnoreColumn.forColumns(columns); err != nil {
		return p, &ParamError{IgnoreColumn, err.Error()}
	}
	return p, nil
}

// NamesColumns reports whether the value of a parameter, given by name or alias, is a list of columns.
func NamesColumns(parameter string) bool {
	return CanonicalName(parameter) == IgnoreColumn
}

// forColumns returns the list in the form that Params.ForColumns describes. It is an error if a column is not there, or
// if the list has all of them.
func (l ColumnList) forColumns(columns []string) (ColumnList, error) {
	if l == "" {
		return "", nil
	}

	numbers, err := l.numbers(columns)
	if err != nil {
		return l, err
	}

	if len(numbers) == len(columns) {
		return l, fmt.Errorf("all %d columns are ignored; leave at least one", len(columns))
	}

	list, isNames := strings.CutPrefix(string(l), byName)
	if isNames && slices.ContainsFunc(cutWords(list), isPattern) {
		return l, nil // a pattern is easier to read than the columns that it stands for
	}

	names := make([]string, len(numbers))
	allWritable := true
	for i, n := range numbers {
		names[i] = columns[n]
		allWritable = allWritable && writable(columns[n])
	}

	// By name, unless a name cannot be written or two columns have it, which is an error of numbers.
	slices.Sort(names)
	out := named(names)
	if _, err := out.numbers(columns); err != nil || !allWritable {
		out = numbered(numbers)
	}
	return out, nil
}

// mustFind returns the indices of the list's columns among a table's features, ascending. The list must come from
// ForColumns for this table; otherwise mustFind may panic.
func (l ColumnList) mustFind(features []Feature) []int {
	numbers, err := l.numbers(columnNames(features))
	if err != nil {
		panic(fmt.Sprintf("a parameter that was not made for this table: %v", err))
	}
	return numbers
}

// columnNames returns the names of a table's features.
func columnNames(features []Feature) []string {
	names := make([]string, len(features))
	for i := range features {
		names[i] = features[i].Name
	}
	return names
}
