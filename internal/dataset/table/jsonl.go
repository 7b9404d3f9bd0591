package table

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"coppice/internal/dataset"
)

// jsonlSource is a file with one JSON object on each line, as BigQuery and loggers write it. Its columns are the keys
// of all objects, in the order in which they first appear. Writers leave out keys without a value, so the whole file is
// read once to find the keys.
//
// Values are texts, numbers as written, like the fields of CSV: what they mean is decided from all of them. A key that
// has an object or a list in some row is a column that cannot be read.
type jsonlSource struct {
	file File
	head string
	cols []Column
}

// Limits of a JSON object.
const (
	maxKeys  = 1 << 16 // of all objects of a file together
	maxDepth = 64      // of nested values
)

// openJSONL reads the whole file for its keys, which become s.cols. A key with a nested value makes its column
// unreadable; the reason names the first such line. A file without any key is an error.
func openJSONL(f File, head string) (*jsonlSource, error) {
	s := &jsonlSource{file: f, head: head}
	known := map[string]int{}
	err := s.eachLine(context.Background(), func(l *jsonLine) error {
		return l.eachKey(func(key string, v JSONValue) error {
			i, ok := known[key]
			if !ok {
				if len(known) == maxKeys {
					return l.fail(key, "the file has more than %d keys", maxKeys)
				}
				i = len(s.cols)
				known[strings.Clone(key)] = i
				s.cols = append(s.cols, Column{Name: strings.Clone(key), Type: dataset.Text, Untyped: true})
			}
			if v.Nested != "" && s.cols[i].Unreadable == "" {
				s.cols[i].Unreadable = fmt.Sprintf("nested (%s in line %d)", v.Nested, l.number)
			}
			return nil
		})
	})
	if err == nil && len(s.cols) == 0 {
		err = &InputError{File: f.URI, Msg: "the file has no objects with keys"}
	}
	return s, err
}

// shareKeys gives every file the columns of all files, as a writer leaves out a key that no row of a file has. It also
// adds the needed columns that no file has (see CheckKeys), with nulls. It does nothing unless all sources are files of
// JSON objects. file is for the error.
func shareKeys(file string, sources []source, needed []string) error {
	var all []Column
	at := map[string]int{}
	for _, s := range sources {
		j, ok := s.(*jsonlSource)
		if !ok {
			return nil // an error names the difference
		}
		for _, c := range j.cols {
			i, ok := at[c.Name]
			if !ok {
				at[c.Name] = len(all)
				all = append(all, c)
			} else if all[i].Unreadable == "" {
				all[i].Unreadable = c.Unreadable
			}
		}
	}
	if err := CheckKeys(file, needed, slices.Sorted(maps.Keys(at))); err != nil {
		return err
	}
	for _, name := range needed {
		if _, ok := at[name]; !ok {
			all = append(all, Column{Name: name, Type: dataset.Text, Untyped: true})
		}
	}
	for _, s := range sources {
		s.(*jsonlSource).cols = all
	}
	return nil
}

func (s *jsonlSource) columns() []Column { return s.cols }

// read passes on the objects as rows (see source), in batches of q.rows rows, or fewer if their texts are long. A key
// that an object does not have is null in its row.
func (s *jsonlSource) read(ctx context.Context, q request) error {
	at := map[string]int{} // the index in a batch of a key that is read
	for i, p := range q.places {
		at[s.cols[p].Name] = i
	}

	// emit passes on the batch b, which has been filled up to the line l. bytes is the length of its lines so far.
	b, first, bytes := (*Batch)(nil), int64(0), 0
	emit := func(l *jsonLine) error {
		full := b
		b, bytes = nil, 0
		for i := range full.Columns {
			if v := &full.Columns[i]; !slices.Contains(v.Null, true) {
				v.Null = nil
			}
		}
		full.First = first
		first += int64(full.Rows)
		return q.emit(full, l.raw.n, s.file.Bytes)
	}
	var last *jsonLine
	err := s.eachLine(ctx, func(l *jsonLine) error {
		last = l
		if b == nil {
			b = q.empty()
			b.clear(len(q.places))
		}

		// Begin a row in which all is null, then set what the object has.
		for i := range b.Columns {
			c := &b.Columns[i]
			c.Text, c.Null, c.Literal = append(c.Text, ""), append(c.Null, true), append(c.Literal, false)
		}
		b.Lines = append(b.Lines, l.number)
		b.Rows++
		bytes += len(l.Text)

		err := l.eachKey(func(key string, v JSONValue) error {
			if i, ok := at[key]; ok {
				c := &b.Columns[i]
				c.Text[b.Rows-1], c.Null[b.Rows-1], c.Literal[b.Rows-1] = v.Text, v.Null, !v.Quoted
			}
			return nil
		})
		if err == nil && (b.Rows == q.rows || bytes >= batchBytes) {
			err = emit(l)
		}
		return err
	})
	if err == nil && b != nil {
		err = emit(last)
	}
	return err
}

// eachLine calls use for every line that is not blank, in order, until use returns an error or ctx ends. The jsonLine
// is the same each time. A line may have maxRecord bytes.
func (s *jsonlSource) eachLine(ctx context.Context, use func(*jsonLine) error) error {
	t, err := openText(s.file, s.head)
	if err != nil {
		return err
	}
	defer t.Close()

	l := &jsonLine{textFile: t, seen: map[string]int{}}
	l.Fail, l.Deep = l.failHere, maxDepth
	in := bufio.NewReaderSize(t.clean, cleanBytes)
	for {
		text, err := in.ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		l.number++
		t.clean.limit = t.clean.n + maxRecord
		indented := strings.TrimRight(text, blanks)
		l.Text = strings.TrimLeft(indented, blanks)
		l.indent = len(indented) - len(l.Text)
		if l.Text != "" {
			if err := use(l); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
		if l.number%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// blanks may stand around the object of a line.
const blanks = " \t\r\n"

// jsonLine is a line being read, in JSON.Text.
type jsonLine struct {
	*textFile
	JSON
	indent int            // how many blanks stood before Text
	number int            // of the line, from 1
	seen   map[string]int // by key of the file so far, the last line that has it
}

// fail returns an error about the line, and a key of it unless that is empty.
func (l *jsonLine) fail(key, format string, args ...any) error {
	return &InputError{File: l.uri, Line: l.number, Column: key, Msg: fmt.Sprintf(format, args...)}
}

// failHere returns an error about the line that names the position of the character that is read next.
func (l *jsonLine) failHere(key, format string, args ...any) error {
	if l.At == len(l.Text) {
		format += "; an object must be on one line"
	}
	at := l.indent + utf8.RuneCountInString(l.Text[:l.At]) + 1
	return l.fail(key, "character %d: "+format, append([]any{at}, args...)...)
}

// eachKey calls use with every key and value of the line's object. A key that occurs twice, and anything after the
// object, is an error.
func (l *jsonLine) eachKey(use func(key string, v JSONValue) error) error {
	l.At = 0
	switch l.Text[0] {
	case '{':
	case '[':
		return l.fail("", "the line begins a list; write one object per line, for example with jq -c '.[]'")
	default:
		return l.fail("", "the line begins with %.10q, where each line is a JSON object such as {\"a\": 1}", l.Text)
	}

	err := l.EachKey(func(key string) error {
		if l.seen[key] == l.number {
			return l.fail(key, "the object has this key twice")
		}
		// openJSONL refuses a file at maxKeys. This bounds the memory for one that has changed since.
		if _, known := l.seen[key]; !known && len(l.seen) > 2*maxKeys {
			return l.fail(key, "the file has more than %d keys", maxKeys)
		}
		l.seen[strings.Clone(key)] = l.number
		v, err := l.Value(key)
		if err == nil {
			err = use(key, v)
		}
		return err
	})
	if err == nil && !l.Ended() {
		err = l.fail("", "%.20q follows the object; write one object per line", l.Text[l.At:])
	}
	return err
}
