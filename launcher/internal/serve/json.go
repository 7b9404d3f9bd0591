package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/table"
)

// maxDepth bounds how deeply values of a request are nested.
const maxDepth = 32

// readInstances reads {"instances": [{"column": value, ...}, ...]}, one object for each row. Values are texts, numbers
// as they are written, like a file of objects that `launcher predict` reads: a key that some row lacks is null there. A
// second key of one name is an error, as is anything but white space behind the value. Other keys of the request are
// ignored. Columns of which only the number matters are read as numbers, unless a row has a text in one of them.
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

func readColumns(m *Model, text string, limit int, numbers []bool) (*table.Batch, error) {
	r := &instances{scanner: scanner{text: text}, columns: newColumns(m), limit: limit, numbers: numbers}
	r.last = make([]int, len(m.columns))
	rows := -1
	err := r.eachKey(func(key string) error {
		if key != "instances" {
			return r.skipValue()
		}
		if rows >= 0 {
			return r.fail("the key \"instances\" comes twice")
		}
		var err error
		rows, err = r.readRows()
		return err
	})
	if err == nil {
		err = r.expectEnd()
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

	for i := range r.columns.batch.Columns {
		r.columns.have[i] = r.columns.batch.Columns[i].Len() > 0
		r.padColumn(i, rows)
	}
	r.columns.batch.Rows = rows
	return &r.columns.batch, table.CheckKeys("", m.columns, r.columns.columnNames())
}

// instances reads rows.
type instances struct {
	scanner
	columns *columns
	limit   int
	numbers []bool // columns that are read as numbers
	row     int    // number of the current one
	last    []int  // by the model's column, the number of rows that have been written
	order   []placed
	used    int      // keys of this row that are in the order of the row before
	seen    []string // keys of this row that the model does not need
}

// placed is a key and the place of its column: rows mostly have the same keys in the same order.
type placed struct {
	key    string
	quoted string // the key as it is written; empty if it has escapes
	at     int
}

// readRows reads the rows and returns how many there are.
func (r *instances) readRows() (int, error) {
	if r.peek() != '[' {
		return 0, r.broken(`a list of objects under "instances"`)
	}
	r.at++
	for r.row = 0; ; r.row++ {
		if r.peek() == ']' && r.row == 0 {
			r.at++
			return 0, nil
		}
		if r.row == r.limit {
			return 0, tooMany(r.limit)
		}
		r.used, r.seen = 0, r.seen[:0]
		r.expect()
		if r.peek() != '{' {
			return 0, r.broken(`an object such as {"column": value}`)
		}
		from := r.at
		if err := r.eachKey(r.readCell); err != nil {
			return 0, err
		}
		if r.row == 0 { // the others are about as long
			rows := min((len(r.text)-r.at)/(r.at-from), r.limit)
			for i := range r.columns.batch.Columns {
				v := &r.columns.batch.Columns[i]
				if v.Type == dataset.Float {
					v.Float = slices.Grow(v.Float, rows)
				} else {
					v.Text = slices.Grow(v.Text, rows)
				}
			}
		}
		switch r.peek() {
		case ',':
			r.at++
		case ']':
			r.at++
			return r.row + 1, nil
		default:
			return 0, r.broken("a comma or ]")
		}
	}
}

// readCell reads the value of a key of the current row.
func (r *instances) readCell(key string) error {
	var place int
	if r.used < len(r.order) && r.order[r.used].key == key {
		place = r.order[r.used].at
	} else {
		place = r.columns.placeOf(key)
		p := placed{key: key, at: place}
		if quoted := r.text[r.key:r.keyEnd]; len(quoted) == len(key)+2 {
			p.quoted = quoted
		}
		r.order = append(r.order[:r.used], p)
	}
	r.used++
	r.expect()
	if place < 0 {
		for _, other := range r.seen {
			if other == key {
				return r.twice(key)
			}
		}
		if len(r.seen) == mostOther {
			return r.fail("row %d has more than %d keys that the model does not need", r.row+1, mostOther)
		}
		r.seen = append(r.seen, key)
		return r.skipValue()
	}
	if r.last[place] > r.row {
		return r.twice(key)
	}

	v := &r.columns.batch.Columns[place]
	if r.last[place] < r.row || r.row == 0 {
		r.padColumn(place, r.row)
	}
	if v.Type == dataset.Float {
		x, ok := r.number()
		if !ok {
			return errText
		}
		v.Float = append(v.Float, x)
	} else {
		v.Literal = append(v.Literal, r.peek() != '"')
		text, null, err := r.scalar(key)
		if err != nil {
			return err
		}
		v.Text = append(v.Text, text)
		if null && v.Null == nil {
			v.Null = make([]bool, r.row, r.row+8)
		}
		if v.Null != nil {
			v.Null = append(v.Null, null)
		}
	}
	r.last[place] = r.row + 1
	return nil
}

// expect has the next key compared with that of the row before.
func (r *instances) expect() {
	if r.likely = ""; r.used < len(r.order) {
		r.likely = r.order[r.used].quoted
	}
}

// padColumn fills a column up to so many rows with nulls.
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

func (r *instances) twice(key string) error {
	return &table.InputError{Row: int64(r.row) + 1, Column: key, Msg: "the object has this key twice"}
}

// scalar reads a text, a number, a truth value or null.
func (r *instances) scalar(key string) (text string, null bool, err error) {
	switch c := r.peek(); c {
	case '"':
		text, err = r.readString()
		return text, false, err
	case '{', '[':
		what := map[byte]string{'{': "an object", '[': "a list"}[c]
		return "", false, &table.InputError{Row: int64(r.row) + 1, Column: key,
			Msg: fmt.Sprintf("is nested (%s), which cannot be a feature; flatten it", what)}
	}
	if text = r.skipPlainNumber(); text != "" {
		return text, false, nil
	}
	word := r.skipWord()
	switch {
	case word == "null":
		return "", true, nil
	case word == "true", word == "false", isNumber(word):
		return word, false, nil
	}
	r.at -= len(word)
	return "", false, r.broken("a value")
}

// scanner reads JSON, strictly.
type scanner struct {
	text        string
	at          int
	key, keyEnd int    // where the last key is, in quotes
	likely      string // the next key in quotes, if it is known
}

func (s *scanner) fail(format string, args ...any) error {
	return fmt.Errorf("byte %d of the request: %s", s.at, fmt.Sprintf(format, args...))
}

// broken says what is expected where the reader stands.
func (s *scanner) broken(expected string) error {
	if s.at >= len(s.text) {
		return s.fail("it ends where %s belongs", expected)
	}
	return s.fail("%.20q, where %s belongs", s.text[s.at:], expected)
}

// peek skips white space and returns the next byte; 0 at the end.
func (s *scanner) peek() byte {
	for s.at < len(s.text) {
		switch c := s.text[s.at]; c {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return c
		}
	}
	return 0
}

// expectEnd expects nothing but white space.
func (s *scanner) expectEnd() error {
	if s.peek() != 0 || s.at < len(s.text) {
		return s.broken("the end of the request")
	}
	return nil
}

// eachKey passes the keys of an object; use reads the value.
func (s *scanner) eachKey(use func(key string) error) error {
	if s.peek() != '{' {
		return s.broken("an object")
	}
	s.at++
	for first := true; ; first = false {
		switch c := s.peek(); {
		case c == '}' && first:
			s.at++
			return nil
		case first:
		case c == '}':
			s.at++
			return nil
		case c == ',':
			s.at++
			s.peek()
		default:
			return s.broken("a comma or }")
		}
		if s.peek() != '"' {
			return s.broken("a key in quotes")
		}
		var key string
		if s.key = s.at; s.likely != "" && strings.HasPrefix(s.text[s.at:], s.likely) {
			key = s.likely[1 : len(s.likely)-1]
			s.at += len(s.likely)
		} else {
			var err error
			if key, err = s.readString(); err != nil {
				return err
			}
		}
		s.keyEnd = s.at
		if s.peek() != ':' {
			return s.broken("a colon")
		}
		s.at++
		if err := use(key); err != nil {
			return err
		}
	}
}

// skipValue moves behind any value.
func (s *scanner) skipValue() error {
	start, depth := s.at, 0
	for {
		switch s.peek() {
		case 0:
			return s.broken("a value")
		case '"':
			if _, err := s.readString(); err != nil {
				return err
			}
		case '{', '[':
			if depth++; depth > maxDepth {
				return s.fail("nested more than %d deep", maxDepth)
			}
			s.at++
			continue
		case '}', ']':
			if depth--; depth < 0 {
				return s.broken("a value")
			}
			s.at++
		case ',', ':':
			if depth == 0 {
				return s.broken("a value")
			}
			s.at++
			continue
		default:
			if s.skipWord() == "" {
				return s.broken("a value")
			}
		}
		if depth == 0 {
			break
		}
	}
	if !json.Valid([]byte(s.text[start:s.at])) {
		s.at = start
		return s.broken("a value")
	}
	return nil
}

// skipWord moves behind a number or a name.
func (s *scanner) skipWord() string {
	start := s.at
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ',', '}', ']', ' ', '\t', '\r', '\n', ':', '"', '{', '[':
			return s.text[start:s.at]
		}
		s.at++
	}
	return s.text[start:s.at]
}

// skipPlainNumber moves behind a number without an exponent, as most are; it returns nothing and stays where there is
// none.
func (s *scanner) skipPlainNumber() string {
	text := s.text[s.at:]
	i := 0
	if strings.HasPrefix(text, "-") {
		i = 1
	}
	for part := range 2 { // before the point and behind it
		from := i
		for i < len(text) && text[i]-'0' <= 9 {
			i++
		}
		if i == from || i == len(text) || part == 0 && text[from] == '0' && i > from+1 {
			return ""
		}
		if part == 1 || text[i] != '.' {
			break
		}
		i++
	}
	switch text[i] {
	case ',', '}', ' ', '\t', '\r', '\n':
		s.at += i
		return text[:i]
	}
	return ""
}

// tens are the powers of ten by which the digits of a short number are divided.
var tens = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}

// number reads a number, NaN for null, to the same bits as cell.ParseForced. It reports false and stays where there is
// neither.
func (s *scanner) number() (float64, bool) {
	s.peek()
	text := s.text[s.at:]
	digits, from, point := uint64(0), 0, -1
	if text != "" && text[0] == '-' {
		from = 1
	}
	i := from
	for ; i < len(text); i++ {
		if c := uint64(text[i] - '0'); c <= 9 {
			digits = digits*10 + c
		} else if text[i] == '.' && point < 0 && i > from {
			point = i
		} else {
			break
		}
	}
	fraction, n := 0, i-from
	if point >= 0 {
		fraction = i - point - 1
		n--
	}
	whole := n - fraction
	// Most numbers are short, and then an exact division gives the nearest float64.
	if i < len(text) && (text[i] == ',' || text[i] == '}' || text[i] == ' ') && n <= 15 &&
		whole > 0 && (whole == 1 || text[from] != '0') && (point < 0 || fraction > 0) {
		s.at += i
		x := float64(digits) / tens[fraction]
		if from > 0 {
			x = -x
		}
		return x, true
	}

	begin := s.at
	switch word := s.skipWord(); {
	case word == "null":
		return math.NaN(), true
	case isNumber(word):
		return cell.ParseForced(word)
	}
	s.at = begin
	return 0, false
}

// readString reads a text in quotes.
func (s *scanner) readString() (string, error) {
	start, escaped := s.at, false
	for s.at++; s.at < len(s.text) && s.text[s.at] != '"'; s.at++ {
		switch c := s.text[s.at]; {
		case c == '\\':
			escaped = true
			s.at++
		case c < ' ':
			return "", s.fail("the control character %q in a text", c)
		}
	}
	if s.at >= len(s.text) {
		s.at = len(s.text)
		return "", s.broken("the end of a text")
	}
	s.at++
	raw := s.text[start:s.at]
	if !escaped {
		return raw[1 : len(raw)-1], nil
	}
	text, err := table.UnquoteJSON(raw)
	if err != nil {
		s.at = start
		return "", s.fail("%v", err)
	}
	return text, nil
}

// isNumber reports whether a word is a number of JSON.
func isNumber(s string) bool {
	s = strings.TrimPrefix(s, "-")
	digits := func() int {
		n := 0
		for n < len(s) && s[n] >= '0' && s[n] <= '9' {
			n++
		}
		s = s[n:]
		return n
	}
	zero := strings.HasPrefix(s, "0")
	if n := digits(); n == 0 || zero && n > 1 {
		return false
	}
	if strings.HasPrefix(s, ".") {
		s = s[1:]
		if digits() == 0 {
			return false
		}
	}
	if s != "" && (s[0] == 'e' || s[0] == 'E') {
		if s = s[1:]; s != "" && (s[0] == '+' || s[0] == '-') {
			s = s[1:]
		}
		if digits() == 0 {
			return false
		}
	}
	return s == ""
}
