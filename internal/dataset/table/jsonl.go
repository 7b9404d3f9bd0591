package table

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
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
// of all objects, in the order in which they appear: writers leave out keys without a value, so the whole file is read
// for them. Values are texts, numbers as written, like the fields of CSV: what they mean is decided from all of them. A
// key with an object or a list in some row is a column that cannot be read.
type jsonlSource struct {
	file File
	head string
	cols []Column
}

// Limits of a JSON object.
const (
	maxKeys  = 1 << 16
	maxDepth = 64
)

func openJSONL(f File, head string) (*jsonlSource, error) {
	s := &jsonlSource{file: f, head: head}
	known := map[string]int{}
	err := s.eachLine(context.Background(), func(l *jsonLine) error {
		return l.eachKey(func(key string, v jsonValue) error {
			i, ok := known[key]
			if !ok {
				if len(known) == maxKeys {
					return l.fail(key, "the file has more than %d keys", maxKeys)
				}
				i = len(s.cols)
				known[strings.Clone(key)] = i
				s.cols = append(s.cols, Column{Name: strings.Clone(key), Type: dataset.Text, Untyped: true})
			}
			if v.nested != "" && s.cols[i].Unreadable == "" {
				s.cols[i].Unreadable = fmt.Sprintf("nested (%s in line %d)", v.nested, l.number)
			}
			return nil
		})
	})
	if err == nil && len(s.cols) == 0 {
		err = &InputError{File: f.URI, Msg: "the file has no objects with keys"}
	}
	return s, err
}

// shareKeys gives all files of objects the keys of all of them, and those needed.
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

func (s *jsonlSource) read(ctx context.Context, q request) error {
	at := map[string]int{} // the index in a batch of a key that is read
	for i, p := range q.places {
		at[s.cols[p].Name] = i
	}

	b, first, bytes := (*Batch)(nil), int64(0), 0
	emit := func(l *jsonLine) error {
		full := b
		b, bytes = nil, 0
		for i := range full.Columns {
			if v := &full.Columns[i]; !hasTrue(v.Null) {
				v.Null = nil
			}
		}
		full.First = first
		first += int64(full.Rows)
		return q.emit(full, l.raw.n, s.file.Bytes)
	}
	var last *jsonLine
	err := s.eachLine(ctx, func(l *jsonLine) error {
		if last = l; b == nil {
			b = q.empty()
			b.clear(len(q.places))
		}
		for i := range b.Columns { // absent, unless the object has the key
			c := &b.Columns[i]
			c.Text, c.Null, c.Literal = append(c.Text, ""), append(c.Null, true), append(c.Literal, false)
		}
		b.Lines = append(b.Lines, l.number)
		b.Rows++
		bytes += len(l.text)

		err := l.eachKey(func(key string, v jsonValue) error {
			if i, ok := at[key]; ok {
				c := &b.Columns[i]
				c.Text[b.Rows-1], c.Null[b.Rows-1], c.Literal[b.Rows-1] = v.text, v.null, !v.quoted
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

func hasTrue(flags []bool) bool {
	for _, f := range flags {
		if f {
			return true
		}
	}
	return false
}

// eachLine passes every line that is not empty.
func (s *jsonlSource) eachLine(ctx context.Context, use func(*jsonLine) error) error {
	t, err := openText(s.file, s.head)
	if err != nil {
		return err
	}
	defer t.Close()

	l := &jsonLine{textFile: t, seen: map[string]int{}}
	in := bufio.NewReaderSize(t.clean, cleanBytes)
	for {
		text, err := in.ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		l.number++
		t.clean.limit = t.clean.n + maxRecord
		if l.text = strings.Trim(text, " \t\r\n"); l.text != "" {
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

// jsonLine is a line being read.
type jsonLine struct {
	*textFile
	number int
	text   string
	at     int
	seen   map[string]int // by key, the last line that has it
}

// jsonValue is a value of an object.
type jsonValue struct {
	text   string // of a text, a number or a truth value
	null   bool
	quoted bool
	nested string // "an object" or "a list"; its contents are skipped
}

func (l *jsonLine) fail(key, format string, args ...any) error {
	return &InputError{File: l.uri, Line: l.number, Column: key, Msg: fmt.Sprintf(format, args...)}
}

// eachKey passes the keys and values of the line's object.
func (l *jsonLine) eachKey(use func(key string, v jsonValue) error) error {
	l.at = 0
	switch l.text[0] {
	case '{':
	case '[':
		return l.fail("", "the line begins a list; write one object per line, for example with jq -c '.[]'")
	default:
		return l.fail("", "the line begins with %.10q, where each line is a JSON object such as {\"a\": 1}", l.text)
	}

	l.at = 1
	for first := true; ; first = false {
		switch c := l.peek(); {
		case c == '}':
			l.at++
			if l.peek() != 0 {
				return l.fail("", "%.20q follows the object; write one object per line", l.text[l.at:])
			}
			return nil
		case first:
		case c == ',':
			l.at++
			l.peek()
		default:
			return l.broken("", "a comma or }")
		}

		key, err := l.readString("")
		if err != nil {
			return err
		}
		if l.seen[key] == l.number {
			return l.fail(key, "the object has this key twice")
		}
		if _, known := l.seen[key]; !known && len(l.seen) > 2*maxKeys {
			return l.fail(key, "the file has more than %d keys", maxKeys)
		}
		l.seen[strings.Clone(key)] = l.number
		if l.peek() != ':' {
			return l.broken(key, "a colon")
		}
		l.at++
		v, err := l.readValue(key)
		if err == nil {
			err = use(key, v)
		}
		if err != nil {
			return err
		}
	}
}

// peek skips white space and returns the next byte; 0 at the end.
func (l *jsonLine) peek() byte {
	for l.at < len(l.text) {
		switch c := l.text[l.at]; c {
		case ' ', '\t', '\r':
			l.at++
		default:
			return c
		}
	}
	return 0
}

// broken says what is expected where the reader stands.
func (l *jsonLine) broken(key, expected string) error {
	if l.at >= len(l.text) {
		return l.fail(key, "the line ends where %s belongs; an object must be on one line", expected)
	}
	return l.fail(key, "%.20q at character %d, where %s belongs", l.text[l.at:], utf8.RuneCountInString(l.text[:l.at])+
		1, expected)
}

func (l *jsonLine) readValue(key string) (jsonValue, error) {
	c := l.peek()
	start := l.at // peek has skipped the space before it
	switch c {
	case '"':
		text, err := l.readString(key)
		return jsonValue{text: text, quoted: true}, err
	case '{', '[':
		if err := l.skipNested(key); err != nil {
			return jsonValue{}, err
		}
		what := map[byte]string{'{': "an object", '[': "a list"}[c]
		if !json.Valid([]byte(l.text[start:l.at])) {
			return jsonValue{}, l.fail(key, "%s that is not JSON", what)
		}
		return jsonValue{nested: what}, nil
	}

	for l.at < len(l.text) && !strings.ContainsRune(",}] \t\r", rune(l.text[l.at])) {
		l.at++
	}
	word := l.text[start:l.at]
	switch {
	case word == "null":
		return jsonValue{null: true}, nil
	case word == "true", word == "false", word != "" && word[0] != '"' && json.Valid([]byte(word)):
		return jsonValue{text: word}, nil
	}
	l.at = start
	return jsonValue{}, l.broken(key, "a value")
}

// skipNested moves behind an object or a list.
func (l *jsonLine) skipNested(key string) error {
	for depth := 0; ; {
		switch l.peek() {
		case 0:
			return l.broken(key, "its end")
		case '"':
			if _, err := l.readString(key); err != nil {
				return err
			}
			continue
		case '{', '[':
			if depth++; depth > maxDepth {
				return l.fail(key, "nested more than %d deep", maxDepth)
			}
		case '}', ']':
			if depth--; depth == 0 {
				l.at++
				return nil
			}
		}
		l.at++
	}
}

// readString reads a text in quotes.
func (l *jsonLine) readString(key string) (string, error) {
	if l.peek() != '"' {
		return "", l.broken(key, "a text in quotes")
	}
	start, escaped := l.at, false
	for l.at++; l.at < len(l.text) && l.text[l.at] != '"'; l.at++ {
		switch c := l.text[l.at]; {
		case c == '\\':
			escaped = true
			l.at++
		case c < ' ':
			return "", l.fail(key, "the control character %q in a text", c)
		}
	}
	if l.at >= len(l.text) {
		return "", l.broken(key, "the end of a text")
	}
	l.at++
	raw := l.text[start:l.at]
	if !escaped {
		return raw[1 : len(raw)-1], nil
	}

	text, err := UnquoteJSON(raw)
	if err != nil {
		return "", l.fail(key, "%v", err)
	}
	return text, nil
}

// UnquoteJSON reads a JSON text with its quotes. It refuses half of a surrogate pair and a NUL.
func UnquoteJSON(raw string) (string, error) {
	var text string
	if err := json.Unmarshal([]byte(raw), &text); err != nil {
		return "", fmt.Errorf("%.40s is not a JSON text", raw)
	}
	// The library writes this character for half of a pair that stands for another one.
	if lone := strings.Count(text, "\ufffd") - strings.Count(raw, "\ufffd") -
		bytes.Count(bytes.ToLower([]byte(raw)), []byte(`\ufffd`)); lone > 0 {
		return "", fmt.Errorf("%.40s has half of a surrogate pair", raw)
	}
	if strings.ContainsRune(text, 0) {
		return "", fmt.Errorf("%.40s has a NUL", raw)
	}
	return text, nil
}
