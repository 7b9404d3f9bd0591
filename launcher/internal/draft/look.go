package draft

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/ingest"
	"coppice/internal/dataset/table"
	"coppice/internal/problem"
)

// seen is what a look at a table has found.
type seen struct {
	columns []*column
	byName  map[string]*column
	rows    int64
	label   labels
	queries queries
	markers *cell.Markers
	reading *ingest.Reading

	drop, categorical []string // names of columns, as Request.Drop and Request.Categorical mean them
}

// resolve returns the columns that the values of a flag name. Each value is the name of a column or, if there is none
// of that name, a list of names with commas between them.
func (s *seen) resolve(flag string, values []string) ([]string, error) {
	var out []string
	for _, v := range values {
		names := []string{v}
		if s.column(v) == nil {
			names = strings.Split(v, ",")
		}
		for _, name := range names {
			if s.column(name) == nil {
				return nil, problem.New(problem.Input, "%s: no column %s%s", flag, name, s.suggestColumn(name, ""))
			}
			if !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out, nil
}

func (s *seen) column(name string) *column {
	return s.byName[name]
}

// column is what is known of a column: from the first rows and, if it may be a time, a key or an id, from all.
type column struct {
	table.Column
	counted  bool    // its values are looked at: of texts, times, what may be an id or a key, what a flag names
	present  int64   // rows with a value
	missing  int64   // rows without one
	enough   bool    // of all rows only the first mostNumbered are looked at
	texts    bool    // some value is not a number
	odd      bool    // some value is not a whole number below 2^53 in its usual spelling
	times    bool    // every value is a time
	lo, hi   float64 // range of the numbers
	distinct counter
}

const (
	sampleRows = 20_000    // first rows, of which all columns are looked at
	maxCounted = 2_000_000 // most different values of a column that are counted
	batchRows  = 4096      // rows that readAll reads at a time
)

// counter counts the different values of a column, up to maxCounted.
type counter struct{ hashes map[uint64]struct{} }

// add counts a text if it is a new one.
func (c *counter) add(text string) {
	if c.hashes == nil {
		c.hashes = map[uint64]struct{}{}
	}
	if len(c.hashes) < maxCounted {
		c.hashes[cell.HashText([]byte(text))] = struct{}{}
	}
}

func (c *counter) n() int64 { return int64(len(c.hashes)) }

// errEnough ends the reading of a table once enough rows are read.
var errEnough = errors.New("enough rows")

// readTable reads the first rows of all columns, and all rows of the label and of what may be a time or a key. Columns
// that a flag names must be in the table.
func readTable(ctx context.Context, q Request) (*seen, error) {
	// Find and open the files.
	files, err := q.Files, error(nil)
	if files == nil {
		files, err = expand(q.Sources)
	}
	if err != nil {
		return nil, err
	}
	var csv dataset.CSVSpec
	if q.NoHeader {
		csv.Header = new(bool) // false: the first line is data
	}
	t, err := table.Open(files, table.Options{CSV: csv, Threads: runtime.GOMAXPROCS(0)})
	if err != nil {
		return nil, err
	}
	if _, err := t.Find(q.Label); err != nil {
		// A column with a number for a name shows that the first line is no header.
		hint := ""
		if slices.ContainsFunc(t.Columns(), func(c table.Column) bool {
			_, err := strconv.ParseFloat(c.Name, 64)
			return err == nil
		}) {
			hint = "; if the first line is data: --no-header"
		}
		return nil, fmt.Errorf("--label: %w%s", err, hint)
	}
	if _, err := t.Find(slices.Sorted(maps.Keys(q.said))...); err != nil {
		return nil, fmt.Errorf("--format: %w", err)
	}

	// Find out which texts are numbers or dates. Columns that are neither by a flag are put into the spec's drop, which
	// keeps them texts: keys, what says the split, categories, what is dropped, and a label of classes.
	s := &seen{byName: map[string]*column{}, markers: cell.NewMarkers(q.missing())}
	spec := &dataset.Spec{Format: q.said, Drop: []string{q.Key, q.Parts}, Group: q.Group}
	// Until resolve knows the columns, the value of a flag may be one name or a list of names: the spec gets both.
	for _, names := range slices.Concat(q.Categorical, q.Drop) {
		spec.Drop = append(append(spec.Drop, names), strings.Split(names, ",")...)
	}
	if q.Positive != "" || q.wantsClasses() {
		spec.Drop = append(spec.Drop, q.Label)
	}
	if s.reading, err = ingest.Recognise(ctx, spec, t, q.DateFormat, s.markers); err != nil {
		return nil, err
	}

	// Read the rows.
	if err := s.readFirst(ctx, t, &q); err != nil {
		return nil, err
	}
	return s, s.readAll(ctx, t, q)
}

// parseFormats sets q.said from the flags --format, and checks these and --date-format.
func (q *Request) parseFormats() error {
	q.said = dataset.Formats{}
	for _, flag := range q.Format {
		at := strings.LastIndex(flag, "=")
		if at < 1 {
			return problem.New(problem.Usage, "--format %s: write COLUMN=FORMAT, such as price=decimal_comma", flag)
		}
		column, format := flag[:at], flag[at+1:]
		q.said[column] = dataset.Format(format)
	}
	if err := q.said.Check(); err != nil {
		return problem.Wrap(problem.Usage, err, "--format")
	}

	if f := q.DateFormat; f != "" && f != dataset.DayFirst && f != dataset.MonthFirst {
		return problem.New(problem.Usage, "--date-format %s: use dmy, as in 31.12.2026, or mdy, as in 12/31/2026", f)
	}
	return nil
}

// missing returns the texts that stand for a missing value.
func (q *Request) missing() []string { return append(dataset.DefaultMissing(), q.Missing...) }

// readFirst reads the first rows of all columns that can be read. It fills s.columns, and resolves the columns that
// flags of q name.
func (s *seen) readFirst(ctx context.Context, t *table.Table, q *Request) (err error) {
	// Until resolve knows the columns, a value of --categorical may be one name or a list of names.
	named := append([]string{q.Time, q.Key, q.Group}, q.Categorical...)
	for _, names := range q.Categorical {
		named = append(named, strings.Split(names, ",")...)
	}
	var names []string
	for _, c := range t.Columns() {
		s.columns = append(s.columns, &column{Column: c, times: true, lo: math.Inf(1), hi: math.Inf(-1),
			counted: slices.Contains(named, c.Name) || c.Type == dataset.Text || namedTime(c.Name) ||
				c.Type == dataset.Time || c.Dictionary || ingest.NamedID(c.Name) || mayBeKey(c.Name) ||
				namedPeriod(c.Name)})
		s.byName[c.Name] = s.columns[len(s.columns)-1]
		if c.Unreadable == "" {
			names = append(names, c.Name)
		}
	}

	read := int64(0)
	err = t.Read(ctx, names, table.BatchRows(len(names)), func(b *table.Batch) error {
		for i, name := range b.Names {
			s.column(name).observe(&b.Columns[i], s.markers)
		}
		if read += int64(b.Rows); read >= sampleRows {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}

	// Only now is it known which columns there are.
	if q.Drop, err = s.resolve("--drop", q.Drop); err != nil {
		return err
	}
	if q.Categorical, err = s.resolve("--categorical", q.Categorical); err != nil {
		return err
	}
	if _, err = s.resolve("--metric", q.values); err != nil {
		return err
	}
	s.drop, s.categorical = q.Drop, q.Categorical
	return nil
}

// readAll reads all rows of the label and of columns that may be a time, a key or a group. Of an id, which may stay a
// number only in a small table, it looks at the first mostNumbered rows. Present, missing and different values of these
// columns are counted anew; what the first rows showed besides (texts, odd numbers, the range) still holds, and stays.
func (s *seen) readAll(ctx context.Context, t *table.Table, q Request) error {
	markers, labels := s.markers, cell.NewMarkers((&dataset.Spec{Missing: q.missing()}).LabelMissing())
	wanted := []string{q.Label}
	for _, c := range s.columns {
		asked := c.Name == q.Time || c.Name == q.Key || c.Name == q.Group
		everyRow := asked || c.isTime() || mayBeKey(c.Name)
		if c.Name != q.Label && c.Name != q.Weight && c.Unreadable == "" && (everyRow || c.isID()) {
			wanted = append(wanted, c.Name)
			c.present, c.missing, c.distinct, c.counted = 0, 0, counter{}, true
			c.enough = !everyRow
		}
	}
	return t.Read(ctx, wanted, batchRows, func(b *table.Batch) error {
		s.rows += int64(b.Rows)
		var label, group *dataset.Values
		for i, name := range b.Names {
			if name == q.Label {
				label = &b.Columns[i]
				s.label.observe(label, labels, q.Positive)
				continue
			}
			// Whether an id may stay a number depends on all of its values, but a larger table has no such ids.
			if c := s.column(name); !c.enough || s.rows <= mostNumbered {
				c.observe(&b.Columns[i], markers)
			}
			if name == q.Group {
				group = &b.Columns[i]
			}
		}
		if group != nil {
			s.queries.observe(group, label, markers, q.Positive)
		}
		return nil
	})
}

// expand lists the files of several sources, each a file, a folder or a glob.
func expand(places []string) ([]table.File, error) {
	var files []table.File
	for _, place := range places {
		some, err := table.Expand(place)
		if err != nil {
			return nil, err
		}
		files = append(files, some...)
	}
	return table.Sorted(files), nil
}

// observe looks at a batch's values of the column. It counts missing, present and different values; it notes whether
// some are texts or odd numbers, and whether all are times; and it widens the range of the numbers. Of a column that is
// not counted it notes only that it holds no times: such a column has the type of numbers, by which nothing is decided.
func (c *column) observe(v *dataset.Values, markers *cell.Markers) {
	if !c.counted {
		c.times = false
		return
	}
	for i := range v.Len() {
		if ingest.Missing(v, i, markers) {
			c.missing++
			continue
		}
		c.present++
		x, text, isNumber := valueOf(v, i)
		if v.Type == dataset.Text {
			if c.times {
				_, _, c.times = cell.ParseTime(text)
			}
			c.texts = c.texts || !isNumber
			c.odd = c.odd || text != strconv.FormatFloat(x, 'f', -1, 64)
		}
		// From 2^53 on, a float64 cannot tell whole numbers apart that differ by 1. A time has x = 0 here.
		c.odd = c.odd || x != math.Trunc(x) || math.Abs(x) >= 1<<53
		if isNumber {
			c.lo, c.hi = min(c.lo, x), max(c.hi, x)
		}
		c.distinct.add(v.TextOf(i))
	}
	if v.Type != dataset.Text {
		c.times = c.times && v.Type == dataset.Time
	}
}

// isTime reports whether the column holds times, and nothing else. Numbers may count seconds, too, but only a person
// can say so.
func (c *column) isTime() bool { return c.times && c.present > 0 }

// keyWords names who or what a row may be about. Rows about the same one are alike.
var keyWords = []string{"user", "customer", "client", "visitor", "session", "device", "patient", "person", "account",
	"household", "member", "cookie", "subject", "subscriber"}

// mayBeKey reports whether a column's name says that it holds whom its rows are about, such as user_id.
func mayBeKey(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(keyWords, func(w string) bool {
		rest, ok := strings.CutPrefix(name, w)
		return ok && slices.Contains([]string{"", "id", "_id", "-id", " id", ".id", "s", "_key", "_hash"}, rest)
	})
}

// labels is what the label column holds.
type labels struct {
	numbers map[float64]int64 // rows by value that is a number; see count
	texts   map[string]int64  // rows by value that is not
	present int64             // rows with a value
	missing int64             // rows without one
	named   int64             // rows with the value that --positive names
}

// maxClasses is the most values that a message lists.
const maxClasses = 20

// observe counts the label's values of a batch. yes is the value that --positive names, empty if it was not given.
func (l *labels) observe(v *dataset.Values, markers *cell.Markers, yes string) {
	if l.numbers == nil {
		l.numbers, l.texts = map[float64]int64{}, map[string]int64{}
	}
	for i := range v.Len() {
		if ingest.Missing(v, i, markers) {
			l.missing++
			continue
		}
		x, text, isNumber := valueOf(v, i)
		l.present++
		if yes != "" && ingest.SameValue(v, i, yes) {
			l.named++
		}
		if isNumber {
			count(l.numbers, x)
		} else {
			count(l.texts, text)
		}
	}
}

// rarest returns the number of rows of the rarest class. With --positive there are two: that value, and all others. A
// label of other than two values has classes only if classes says so. Without classes it is the number of all rows.
func (l *labels) rarest(classes bool) int64 {
	if l.named > 0 {
		return min(l.named, l.present-l.named)
	}
	if len(l.numbers)+len(l.texts) != 2 && !classes {
		return l.present
	}
	// l.present is no class, but at least as many as any: it keeps Min from being called without values.
	return min(slices.Min(append(slices.Collect(maps.Values(l.numbers)), l.present)),
		slices.Min(append(slices.Collect(maps.Values(l.texts)), l.present)))
}

// yesWords are values that mean yes.
var yesWords = []string{"yes", "y", "true", "t", "1", "positive", "pos", "click", "clicked", "churn", "churned",
	"converted", "fraud", "bad", "won", "ja", "oui", "si", "sí", "sim", "+"}

// decidePositive decides which of the label's two values means yes, and returns what to add to the message about it. Of
// two numbers it is the greater one. Otherwise it is the first value among yesWords, in the order of values, or else
// the rarer one.
func (l *labels) decidePositive() (value, why string) {
	if len(l.numbers) == 2 {
		numbers := slices.Sorted(maps.Keys(l.numbers))
		text := func(x float64) string { return string(dataset.AppendNumber(nil, x)) }
		return text(numbers[1]), "; negative class: " + text(numbers[0])
	}
	values := l.values()
	for _, v := range values {
		if slices.Contains(yesWords, strings.ToLower(v)) {
			return v, ""
		}
	}
	rarer := slices.MinFunc(values, func(a, b string) int { return cmp.Compare(l.rowsWith(a), l.rowsWith(b)) })
	return rarer, "; it is the rarer one, and --positive names another"
}

// values returns the label's values, numbers before texts, both in ascending order.
func (l *labels) values() []string {
	var out []string
	for _, x := range slices.Sorted(maps.Keys(l.numbers)) {
		out = append(out, string(dataset.AppendNumber(nil, x)))
	}
	return append(out, slices.Sorted(maps.Keys(l.texts))...)
}

// rowsWith returns the number of rows with a value, as values writes it.
func (l *labels) rowsWith(value string) int64 {
	for x, n := range l.numbers {
		if string(dataset.AppendNumber(nil, x)) == value {
			return n
		}
	}
	return l.texts[value]
}

// uniqueValues returns the values that only one row has, texts before numbers. It returns nil if there are none, or too
// many values to count.
func (l *labels) uniqueValues() []string {
	if len(l.numbers)+len(l.texts) > dataset.MaxClasses {
		return nil
	}
	var once []string
	for _, v := range slices.Backward(l.values()) {
		if l.rowsWith(v) == 1 {
			once = append(once, v)
		}
	}
	return once
}

// listValues names the label's values for a message: the first maxClasses, each cut to 40 characters, and that there
// are more.
func (l *labels) listValues() string { return l.listValuesBut("") }

// listValuesBut is listValues without one of the values.
func (l *labels) listValuesBut(one string) string {
	values, more := slices.DeleteFunc(l.values(), func(v string) bool { return v == one }), ""
	if len(values) > maxClasses {
		values, more = values[:maxClasses], " and more"
	}
	for i, v := range values {
		values[i] = fmt.Sprintf("%.40s", v)
	}
	return strings.Join(values, ", ") + more
}

// valueOf returns value i as a number, or as a text if isNumber is false. A text that spells a number is a number; text
// then has its spelling. A truth value is 0 or 1, and a time is a text. The value must not be missing.
func valueOf(v *dataset.Values, i int) (x float64, text string, isNumber bool) {
	switch v.Type {
	case dataset.Float:
		return v.Float[i], "", true
	case dataset.Int, dataset.Bool:
		return float64(v.Int[i]), "", true
	case dataset.Text:
		text = cell.Trim(v.Text[i])
		x, form := cell.ParseNumber(text)
		return x, text, form != cell.FormText && (x == x || form == cell.FormNumber)
	}
	return 0, v.TextOf(i), false
}

// count counts a value, but adds no new value once there are more than dataset.MaxClasses.
func count[K comparable](m map[K]int64, key K) {
	if _, ok := m[key]; ok || len(m) <= dataset.MaxClasses {
		m[key]++
	}
}
