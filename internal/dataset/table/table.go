package table

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"coppice/internal/dataset"
	"coppice/internal/problem"
	"coppice/internal/strictyaml"
)

// Column is a column of a table.
type Column struct {
	Name      string
	Type      dataset.Type
	Unit      dataset.Unit // of dataset.Time
	Semicolon bool         // the file's delimiter is a semicolon, as where numbers have a decimal comma

	// Untyped says that the table does not declare what the column's texts mean: in CSV always, in Parquet for numbers
	// that do not fit a 64-bit integer.
	Untyped bool

	// Dictionary says that the column held categories, of any type, in the program that wrote the table.
	Dictionary bool

	// Index says that pandas wrote its row labels into the column.
	Index bool

	Format dataset.Format // in which texts were read that are values of Type

	// Unreadable says why the column cannot be read, such as "a list"; empty if it can.
	Unreadable string
}

// Batch is some consecutive rows of a table. It is valid during the call that receives it; its texts stay valid after
// that.
type Batch struct {
	Names   []string // of Columns, in the order requested
	Columns []dataset.Values
	Rows    int
	First   int64   // number of the first row in the whole table, from 0
	Numbers []int64 // by row, its number in the whole table; nil as long as no row has been left out
	File    string  // URI of the rows' file
	Done    int64   // bytes of the table read so far; see Table.Bytes

	firstInFile int64  // number of the first row in the file, from 0
	inner       *Batch // what the file's own reader has filled, if this batch has other columns (reshaped)
	Lines       []int  // by row, its line in a text file; nil for other files
}

// Column returns the values of the named column, or nil if the batch does not have it.
func (b *Batch) Column(name string) *dataset.Values {
	for i, n := range b.Names {
		if n == name {
			return &b.Columns[i]
		}
	}
	return nil
}

// clear makes b a batch of no rows, with so many columns of texts. The columns keep their memory.
func (b *Batch) clear(columns int) {
	if len(b.Columns) != columns {
		b.Columns = make([]dataset.Values, columns)
	}
	b.Rows, b.Lines, b.Numbers = 0, b.Lines[:0], nil
	for i := range b.Columns {
		b.Columns[i] = dataset.Values{Type: dataset.Text, Text: b.Columns[i].Text[:0]}
	}
}

// Row returns the number of row i in the whole table, from 0.
func (b *Batch) Row(i int) int64 {
	if b.Numbers != nil {
		return b.Numbers[i]
	}
	return b.First + int64(i)
}

// ErrorAt returns an *InputError about row i of the batch.
func (b *Batch) ErrorAt(i int, column, format string, args ...any) error {
	// b.First counts from the table's first row, b.firstInFile from the file's.
	e := &InputError{File: b.File, Row: b.Row(i) - b.First + b.firstInFile + 1, Column: column,
		Msg: fmt.Sprintf(format, args...)}
	if b.Lines != nil {
		e.Line = b.Lines[i]
	}
	return e
}

// Keep returns a batch of only the rows at the given places, each once; that is b itself if it is all of them. b stays
// as it is.
func (b *Batch) Keep(places []int32) *Batch {
	if len(places) == b.Rows {
		return b
	}

	out := *b
	out.Rows = len(places)
	out.Columns = make([]dataset.Values, len(b.Columns))
	for i := range b.Columns {
		out.Columns[i] = b.Columns[i].Pick(places)
	}

	out.Lines = dataset.PickInto(b.Lines, places, nil)
	out.Numbers = make([]int64, len(places))
	for i, p := range places {
		out.Numbers[i] = b.Row(int(p))
	}
	return &out
}

// Table is one or more files with the same columns.
type Table struct {
	files   []File
	sources []source
	columns []Column
	byName  map[string]int // by name, the index in columns
	places  [][]int        // by file and column of the table, the index of the column in the file
	threads int
	// values reads the texts of a column that has a format; see ReadAs.
	values func(b *Batch, column int, f dataset.Format) (dataset.Values, error)
}

// Options say how to open a table.
type Options struct {
	CSV     dataset.CSVSpec // how text is delimited; ignored for other formats
	Threads int             // how many goroutines may decode
	Keys    []string        // columns that will be read: JSON objects may leave them out, see CheckKeys
}

// Open reads the headers of files and finds the columns that they have together, in any order. Columns that a file adds
// are null in the files before it; a column that a later file lacks is an error (see mergeColumns).
func Open(files []File, o Options) (*Table, error) {
	if len(files) == 0 {
		return nil, problem.New(problem.NotFound, "a table without files")
	}
	t := &Table{files: files, threads: o.Threads}
	var own [][]Column // by file
	for _, f := range files {
		s, err := openSource(f, o)
		if err != nil {
			return nil, err
		}
		t.sources = append(t.sources, s)
		own = append(own, s.columns())
	}

	// Join the columns of all files.
	if err := shareKeys(files[0].URI, t.sources, o.Keys); err != nil {
		return nil, err
	}

	var from []string // by column of the table, the file that its type comes from
	for i, f := range files {
		s := withPartitions(t.sources[i], f, own[i])
		t.sources[i] = s
		if err := checkNames(f, s.columns()); err != nil {
			return nil, err
		}
		var err error
		if t.columns, from, err = mergeColumns(t.columns, from, f, s.columns()); err != nil {
			return nil, err
		}
	}

	// Find each column in each file. A file that lacks some, or has others of another type, is read through widenFile,
	// which gives it all columns of the table in the table's order.
	_, t.byName = placesOf(t.columns)
	for i, s := range t.sources {
		at, same := make([]int, len(t.columns)), true // by column of the table, its index in the file; -1 for none
		whole := make([]int, len(t.columns))          // the same once the file has all columns of the table
		_, placeInFile := placesOf(s.columns())
		for k, c := range t.columns {
			whole[k], at[k] = k, -1
			if place, ok := placeInFile[c.Name]; ok {
				at[k] = place
				inFile := s.columns()[place]
				same = same && inFile.Type == c.Type && inFile.Unit == c.Unit
			}
			same = same && at[k] >= 0
		}
		if !same {
			t.sources[i], at = t.widenFile(i, at, from), whole
		}
		t.places = append(t.places, at)
	}
	return t, nil
}

// openSource returns the reader for a file, which its first bytes and its name decide. A format that cannot be read is
// an *InputError that says what to do.
func openSource(f File, o Options) (source, error) {
	head, err := readHead(f)
	if err != nil {
		return nil, err
	}

	if other := otherFormat(f, head); other != "" {
		return nil, &InputError{File: f.URI, Msg: other}
	}
	ext := Suffix(f.URI)
	isParquet := ext == ".parquet" || ext == ".pq"
	packed := unsupportedCompression(head)

	switch {
	case isParquet && strings.HasPrefix(head, magicSecret):
		return nil, &InputError{File: f.URI, Msg: "an encrypted Parquet file, which cannot be read; write it " +
			"without encryption"}
	case strings.HasPrefix(head, magicParquet):
		return openParquet(f, o.Threads)
	case isParquet:
		return nil, &InputError{File: f.URI, Msg: fmt.Sprintf("the name says Parquet, but the file begins with %q, "+
			"not PAR1", head[:min(4, len(head))])}
	case packed != "":
		return nil, &InputError{File: f.URI, Msg: fmt.Sprintf("compressed with %s, which is not supported; "+
			"decompress it, or use gzip or zstd", packed)}
	}
	if slices.Contains([]string{".jsonl", ".ndjson", ".json"}, ext) {
		return openJSONL(f, head)
	}
	return openCSV(f, head, o.CSV)
}

// svmLine matches the beginning of a file of svmlight: a label and, after an optional query, one pair INDEX:VALUE alone
// on its line, or two pairs.
var svmLine = regexp.MustCompile(`^[-+]?[0-9.]+ (qid|[0-9]+):[-+.0-9e]+( [0-9]+:[-+.0-9e]+(\s|$)|\s*([#\n]|$))`)

// otherFormat returns a message if a file is of a known format that is not read, or if a file next to it holds part of
// the table. The message says what to write instead; it is empty if there is nothing to say.
func otherFormat(f File, head string) string {
	switch {
	case strings.HasPrefix(head, "ARROW1"), strings.HasPrefix(head, "FEA1"):
		return "an Arrow IPC (Feather) file, which is not read; write Parquet"
	case svmLine.MatchString(head):
		return "an svmlight (LibSVM) file, which is not read; write CSV or Parquet with a column for each feature"
	}
	for suffix, column := range map[string]string{".query": "group", ".weight": "weight"} {
		if _, err := os.Stat(f.Path + suffix); err == nil && f.Path != "" {
			return fmt.Sprintf("%s%s lies beside it, which is not read; write its values into a column, "+
				"and name that as the %s", filepath.Base(f.Path), suffix, column)
		}
	}
	return ""
}

// checkNames returns an error if a column of a file has a name that no column may have, or the name of another column.
func checkNames(f File, columns []Column) error {
	seen := map[string]int{}
	for i, c := range columns {
		if err := dataset.CheckColumnName(c.Name); err != nil {
			return &InputError{File: f.URI, Msg: fmt.Sprintf("column %d", i+1), Err: err}
		}
		if other, ok := seen[c.Name]; ok {
			return &InputError{File: f.URI, Column: c.Name,
				Msg: fmt.Sprintf("columns %d and %d have this name; rename one", other+1, i+1)}
		}
		seen[c.Name] = i
	}
	return nil
}

// describeType says, for messages, what a column holds.
func describeType(c Column) string {
	switch {
	case c.Unreadable != "":
		return c.Unreadable
	case c.Unit != "":
		return fmt.Sprintf("%s (%s)", c.Type, c.Unit)
	}
	return string(c.Type)
}

// Columns returns the columns of the table, in the order of the first file.
func (t *Table) Columns() []Column { return t.columns }

// URI names the table in messages: its first file.
func (t *Table) URI() string { return t.files[0].URI }

// Bytes is the size of all files.
func (t *Table) Bytes() int64 {
	n := int64(0)
	for _, f := range t.files {
		n += f.Bytes
	}
	return n
}

// Suggest returns the end of a message about an unknown name: the most similar of names, or all of them if there are
// few, or how many there are.
func Suggest(name string, names []string) string {
	s := strictyaml.Suggest(name, names)
	if len(s) > 600 { // bytes: more nobody reads
		return fmt.Sprintf(" (there are %d columns)", len(names))
	}
	return strings.Replace(s, "(known: ", "(the columns are: ", 1)
}

// mostLacking is how many missing columns a message names.
const mostLacking = 10

// Lacking returns the error about a table that lacks some of the needed columns; at least one must be missing. names
// are the columns that it has. The error names up to mostLacking of the missing columns, and for each the one that was
// probably meant; then the columns that there are, as Suggest does.
func Lacking(file string, needed, names []string) *InputError {
	lacking, others := removeWords(needed, names), removeWords(names, needed)
	if len(lacking) == 1 {
		hint := Suggest(lacking[0], others)
		if !strings.Contains(hint, "did you mean") {
			hint = Suggest("", names)
		}
		return &InputError{File: file, Column: lacking[0], Msg: "no such column" + hint}
	}
	words := make([]string, min(len(lacking), mostLacking))
	for i := range words {
		words[i] = strconv.Quote(lacking[i])
		if near := strictyaml.Nearest(lacking[i], others); near != "" {
			words[i] += fmt.Sprintf(" (did you mean %q?)", near)
			others = removeWords(others, []string{near}) // it is meant once at most
		}
	}
	text := strings.Join(words, ", ")
	if more := len(lacking) - mostLacking; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return &InputError{File: file, Msg: fmt.Sprintf("%d columns are missing: %s%s", len(lacking), text,
		Suggest("", names))}
}

// CheckKeys returns an error if JSON objects lack needed columns by mistake. keys are those that the objects have,
// needed the columns that will be read; file is for the message.
//
// Objects may leave out keys, so a needed column that no object has is null in all rows. But there are two signs of a
// mistake: a key that nearly has the name of a needed column that is lacking, and objects without any needed column.
func CheckKeys(file string, needed, keys []string) error {
	lacking, others := removeWords(needed, keys), removeWords(keys, needed)
	for _, name := range lacking {
		if key := strictyaml.Nearest(name, others); key != "" {
			return &InputError{File: file, Column: key, Msg: fmt.Sprintf("no such column (did you mean %q?)", name)}
		}
	}
	switch {
	case len(lacking) == 0 || len(lacking) < len(needed):
		return nil
	case len(others) == 0:
		return &InputError{File: file, Msg: "no row has a key that is needed" + Suggest("", needed)}
	}
	return &InputError{File: file, Column: others[0], Msg: "no such column" + Suggest("", needed)}
}

// removeWords returns the words that are not among others.
func removeWords(words, others []string) []string {
	is := map[string]bool{}
	for _, o := range others {
		is[o] = true
	}
	return slices.DeleteFunc(slices.Clone(words), func(w string) bool { return is[w] })
}

// Find returns the indices of columns by their names. A column that cannot be read is an error. If some are missing,
// the error is that of Lacking.
func (t *Table) Find(names ...string) ([]int, error) {
	places := make([]int, len(names))
	lacks := false
	for n, name := range names {
		i, ok := t.byName[name]
		switch {
		case !ok:
			lacks = true
		case t.columns[i].Unreadable != "":
			return nil, &InputError{File: t.files[0].URI, Column: name,
				Msg: fmt.Sprintf("is %s, which cannot be a feature; list it under `drop` or flatten it",
					t.columns[i].Unreadable)}
		}
		places[n] = i
	}
	if !lacks {
		return places, nil
	}
	all := make([]string, len(t.columns))
	for i, c := range t.columns {
		all[i] = c.Name
	}
	return nil, Lacking(t.files[0].URI, names, all)
}
