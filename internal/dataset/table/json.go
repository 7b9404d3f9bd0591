package table

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// JSON reads a text of JSON objects whose values are cells: lines of a table here, requests in package serve. The text
// is read from front to back; each method moves At over what it has read.
type JSON struct {
	Text string
	At   int // position in Text of the next byte to read
	Deep int // how deeply values may be nested
	// Fail makes the error about a key, or about no key if that is empty, at the position At.
	Fail func(key, format string, args ...any) error
}

// JSONValue is a value of an object. The zero value is an unquoted empty text, which no value is.
type JSONValue struct {
	Text   string // of a text without its quotes; of a number or a truth value as it is written
	Null   bool   // it is null
	Quoted bool   // it is a text
	Nested string // "an object" or "a list" if it is one, whose contents are skipped; otherwise empty
}

// Peek skips white space and returns the next byte, without moving over it. It returns 0 at the end of the text.
func (j *JSON) Peek() byte {
	for j.At < len(j.Text) {
		switch c := j.Text[j.At]; c {
		case ' ', '\t', '\r', '\n':
			j.At++
		default:
			return c
		}
	}
	return 0
}

// Ended reports whether nothing follows but white space. A zero byte is something, for which Peek returns 0, too.
func (j *JSON) Ended() bool { return j.Peek() == 0 && j.At == len(j.Text) }

// Broken returns the error that something else was expected at the reader's position. key is what the error is about,
// or "".
func (j *JSON) Broken(key, expected string) error {
	if j.At >= len(j.Text) {
		return j.Fail(key, "it ends where %s belongs", expected)
	}
	return j.Fail(key, "%.20q, where %s belongs", j.Text[j.At:], expected)
}

// EachKey reads an object and calls use after each key; use has to read the key's value. An error of use ends it.
func (j *JSON) EachKey(use func(key string) error) error {
	if j.Peek() != '{' {
		return j.Broken("", `an object such as {"column": value}`)
	}
	j.At++
	for first := true; ; first = false { // whether no pair has been read yet
		// What ends the object or the pair before.
		switch c := j.Peek(); {
		case c == '}':
			j.At++
			return nil
		case first:
		case c == ',':
			j.At++
		default:
			return j.Broken("", "a comma or }")
		}

		key, err := j.readString("")
		if err != nil {
			return err
		}
		if j.Peek() != ':' {
			return j.Broken(key, "a colon")
		}
		j.At++
		if err := use(key); err != nil {
			return err
		}
	}
}

// endsWord tells which bytes end a number, or a word such as true.
var endsWord = [256]bool{',': true, '}': true, ']': true, ':': true, '"': true, '{': true, '[': true, ' ': true,
	'\t': true, '\r': true, '\n': true}

// Value reads the value of a key. Of an object or a list it says only that there is one, and skips it. key is for
// messages.
func (j *JSON) Value(key string) (JSONValue, error) {
	switch c := j.Peek(); c {
	case '"':
		text, err := j.readString(key)
		return JSONValue{Text: text, Quoted: true}, err
	case '{':
		return JSONValue{Nested: "an object"}, j.skipNested(key)
	case '[':
		return JSONValue{Nested: "a list"}, j.skipNested(key)
	}

	// A number, or one of three words.
	start := j.At
	for j.At < len(j.Text) && !endsWord[j.Text[j.At]] {
		j.At++
	}
	switch word := j.Text[start:j.At]; {
	case word == "null":
		return JSONValue{Null: true}, nil
	case isPlainNumber(word), json.Valid([]byte(word)):
		return JSONValue{Text: word}, nil
	}
	j.At = start
	return JSONValue{}, j.Broken(key, "a value")
}

// skipNested moves over an object or a list, in which values may be nested at most j.Deep deep. key is for messages.
func (j *JSON) skipNested(key string) error {
	d := json.NewDecoder(strings.NewReader(j.Text[j.At:]))
	d.UseNumber()
	for depth := 0; ; {
		token, err := d.Token()
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		switch {
		case err != nil:
			return j.Broken(key, "a value")
		case depth > j.Deep:
			return j.Fail(key, "nested more than %d deep", j.Deep)
		case depth == 0:
			j.At += int(d.InputOffset())
			return nil
		}
	}
}

// isPlainNumber reports whether a word is a JSON number without an exponent, as most are: digits, at most one point
// that has digits on both sides, and no zero before another digit of the whole part. It is faster than json.Valid.
func isPlainNumber(word string) bool {
	word = strings.TrimPrefix(word, "-")
	pointAt := len(word)
	for i := range len(word) {
		switch {
		case word[i] == '.' && pointAt == len(word):
			pointAt = i
		case word[i]-'0' > 9: // no digit; of a byte below '0' the difference wraps around
			return false
		}
	}
	return pointAt > 0 && pointAt != len(word)-1 && (pointAt == 1 || word[0] != '0')
}

// readString reads a text in quotes and returns it without them. The result shares the input's memory unless the text
// has escapes. key is for messages.
func (j *JSON) readString(key string) (string, error) {
	if j.Peek() != '"' {
		return "", j.Broken(key, "a text in quotes")
	}
	// Look for the closing quote; only a text with escapes has to be copied.
	start, escaped := j.At, false
	for j.At++; j.At < len(j.Text) && j.Text[j.At] != '"'; j.At++ {
		switch c := j.Text[j.At]; {
		case c == '\\':
			escaped = true
			j.At++
		case c < ' ':
			return "", j.Fail(key, "the control character %q in a text", c)
		}
	}
	if j.At >= len(j.Text) {
		j.At = len(j.Text) // a backslash was the last byte
		return "", j.Broken(key, "the end of a text")
	}
	j.At++
	raw := j.Text[start:j.At]
	if !escaped {
		return raw[1 : len(raw)-1], nil
	}

	text, err := unquote(raw)
	if err != nil {
		return "", j.Fail(key, "%v", err)
	}
	return text, nil
}

// unquote returns the text that a JSON text in quotes stands for. Half of a surrogate pair and a NUL are errors, as
// UTF-8 and tables cannot hold them.
func unquote(raw string) (string, error) {
	var text string
	if err := json.Unmarshal([]byte(raw), &text); err != nil {
		return "", fmt.Errorf("%.40s is not a JSON text", raw)
	}
	// The library writes U+FFFD for half of a surrogate pair. So there is one if the result has more of them than the
	// input, as itself or as an escape.
	if lone := strings.Count(text, "\ufffd") - strings.Count(raw, "\ufffd") -
		bytes.Count(bytes.ToLower([]byte(raw)), []byte(`\ufffd`)); lone > 0 {
		return "", fmt.Errorf("%.40s has half of a surrogate pair", raw)
	}
	if strings.ContainsRune(text, 0) {
		return "", fmt.Errorf("%.40s has a NUL", raw)
	}
	return text, nil
}
