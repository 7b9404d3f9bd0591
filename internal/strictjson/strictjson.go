// Package strictjson reads JSON that two readers must not understand differently. encoding/json takes a key twice (the
// last one counts), a key in another case, null for a number, and bytes that are not UTF-8 (replaced), and stops after
// the first value. Here all of these are errors that name the place in the value: features[3].from.table.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	// maxDepth bounds how deeply values are nested, which costs stack in every reader.
	maxDepth = 32
	// maxBrackets and maxQuotes bound objects, lists and texts, which cost a reader tens of times their bytes; those
	// within a text are counted, too. A dataset of 32,768 features has half as many brackets, and one of 10,000
	// features with 255 categories each two thirds as many quotes.
	maxBrackets = 1 << 20
	maxQuotes   = 1 << 23
)

// Decode reads one value into v, a pointer. A key that v's type does not have is an error. So is a missing key that Go
// always writes, which is that of a field whose json tag has neither omitempty nor omitzero. A tag such as max:"255"
// bounds the length of a list. The caller has to bound the size of data.
func Decode(data []byte, v any) error { return decode(data, v, false) }

// DecodeKnown is Decode, except that keys that v does not have are ignored: for records to which later builds may add.
func DecodeKnown(data []byte, v any) error { return decode(data, v, true) }

// decode checks data and then decodes them into v. All that encoding/json would accept in silence is rejected before
// any memory is spent on it. If unknown is true, keys that v does not have are ignored.
func decode(data []byte, v any, unknown bool) error {
	if !utf8.Valid(data) {
		return errors.New("it is not UTF-8")
	}
	if bytes.Count(data, []byte("{"))+bytes.Count(data, []byte("[")) > maxBrackets ||
		bytes.Count(data, []byte(`"`)) > maxQuotes {
		return fmt.Errorf("more than %d objects and lists, or %d quotes", maxBrackets, maxQuotes)
	}
	if half := halfOfPair(data); half != "" {
		return fmt.Errorf("%s is half of a character", half)
	}

	if !json.Valid(data) {
		var raw json.RawMessage
		err := json.Unmarshal(data, &raw)
		if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
			return fmt.Errorf("byte %d: %w", syntax.Offset, err)
		}
		return err
	}

	// From here on it is valid JSON. Compare it with v's type.
	w := &walker{data: data, unknown: unknown}
	if place, err := w.passValue(reflect.StructField{Type: reflect.TypeOf(v).Elem()}, 0); err != nil {
		return at(place, err)
	}
	return json.Unmarshal(data, v)
}

// halfOfPair returns the first escape such as \ud83d that is half of a surrogate pair without its other half, or "" if
// there is none. encoding/json would replace it in silence. A character outside of the basic plane takes two such
// escapes of six bytes each.
func halfOfPair(data []byte) string {
	for {
		i := bytes.IndexByte(data, '\\')
		if i < 0 || i+1 == len(data) {
			return ""
		}
		data = data[i:]
		switch first := parseEscape(data); {
		case !utf16.IsSurrogate(first):
			data = data[2:] // so that the second backslash of an escaped one begins nothing
		case utf16.DecodeRune(first, parseEscape(data[6:])) == utf8.RuneError:
			return string(data[:6])
		default:
			data = data[12:]
		}
	}
}

// parseEscape returns the UTF-16 unit if data begin with an escape such as \ud83d, else 0.
func parseEscape(data []byte) rune {
	if len(data) < 6 || data[0] != '\\' || data[1] != 'u' {
		return 0
	}
	unit, err := strconv.ParseUint(string(data[2:6]), 16, 16)
	if err != nil {
		return 0
	}
	return rune(unit)
}

// walker goes over a value that is valid JSON and compares it with the type that it is to be read into. It does so
// before encoding/json allocates anything: a list of 64 MiB of "0," would become one of 28 million structs.
type walker struct {
	data    []byte
	at      int
	unknown bool // keys are ignored
}

// timePattern is RFC 3339, of which encoding/json takes more: one digit of hours, a comma before fractions.
var timePattern = regexp.MustCompile(
	`^"\d{4}-\d\d-\d\dT([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)"$`)

// passValue moves w behind the value that begins at w.at, and checks it on the way. f is the struct field that the
// value is read into; for a value of a list or map, f has only its type. If something is wrong, place is the path to it
// from this value, such as [3].from, "" for the value itself.
func (w *walker) passValue(f reflect.StructField, depth int) (place string, err error) {
	t := f.Type
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	isTime := t == reflect.TypeFor[time.Time]()
	if t != nil && reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		t = nil // it reads itself; only what holds for all JSON is checked
	}

	w.space()
	first := w.data[w.at]
	if err := fitsField(first, f, t); err != nil {
		return "", err
	}
	if isTime && first == 'n' && !writesNull(f) { // which time.Time itself would take for no time, in silence
		return "", errors.New("it is null")
	}
	if (first == '{' || first == '[') && depth == maxDepth {
		return "", fmt.Errorf("values are nested more than %d deep", maxDepth)
	}

	switch first {
	case '{':
		return w.passObject(t, depth)
	case '[':
		return w.passList(t, f.Tag.Get("max"), depth)
	case '"':
		if text := w.passText(); isTime && !timePattern.Match(text) {
			return "", fmt.Errorf("%.60s is no time such as 2006-01-02T15:04:05Z", text)
		}
	default:
		for w.at < len(w.data) && !isSpace(w.data[w.at]) && w.data[w.at] != ',' && w.data[w.at] != ']' &&
			w.data[w.at] != '}' {
			w.at++
		}
	}
	return "", nil
}

// fitsField returns an error if a value that begins with the byte first cannot be read into the field f. t is f's type
// without pointers, nil if any value will do. Only null, objects and lists are checked; encoding/json checks the rest.
// A list of bytes is a text in base64.
func fitsField(first byte, f reflect.StructField, t reflect.Type) error {
	switch {
	case t == nil:
	case first == 'n' && !writesNull(f):
		return errors.New("it is null")
	case first == 'n':
	case (t.Kind() == reflect.Struct || t.Kind() == reflect.Map) && first != '{':
		return errors.New("an object belongs here")
	case (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) && first != '[' && t.Elem().Kind() != reflect.Uint8:
		return errors.New("a list belongs here")
	}
	return nil
}

// space moves w behind white space.
func (w *walker) space() {
	for w.at < len(w.data) && isSpace(w.data[w.at]) {
		w.at++
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

// passText moves w behind the text that begins at w.at, and returns the text with its quotes.
func (w *walker) passText() []byte {
	begin := w.at
	for w.at++; w.data[w.at] != '"'; w.at++ {
		if w.data[w.at] == '\\' {
			w.at++
		}
	}
	w.at++
	return w.data[begin:w.at]
}

// next moves w to the next key or value of an object or list, and reports whether there is one. It is called when w is
// at the opening bracket or behind a value, at a comma or the closing bracket. When it returns false, w is behind the
// closing bracket.
func (w *walker) next() bool {
	here := w.data[w.at]
	w.at++
	if here == ']' || here == '}' {
		return false
	}
	w.space()
	if w.data[w.at] == ']' || w.data[w.at] == '}' { // of an empty one
		w.at++
		return false
	}
	return true
}

// passObject moves w behind the object that begins at w.at, and checks its keys and values. t is the type that the
// object is read into, nil if that reads itself.
//
//   - No key may be there twice.
//   - If t is a struct, an unknown key is an error, and so is the missing key of a field whose json tag has neither
//     omitempty nor omitzero. Both are allowed if unknown keys are ignored, as in records of other builds.
//   - A key that differs from a field's only in case is always an error, since encoding/json would read it.
//   - If t is a map or nil, any key may be there.
//
// If the error is in a value, place is the path to it from this object, such as files[3].from.
func (w *walker) passObject(t reflect.Type, depth int) (place string, err error) {
	fields := fieldsOf(t)
	seen := map[string]bool{}
	for w.next() {
		var key string
		if err := json.Unmarshal(w.passText(), &key); err != nil {
			return "", err
		}
		if seen[key] {
			return "", fmt.Errorf("the key %.60q is there twice", key)
		}
		seen[key] = true

		field, known := fields[key]
		if fields != nil && !known {
			for name := range fields {
				if strings.EqualFold(name, key) {
					return "", fmt.Errorf("the key %.60q; write %q", key, name)
				}
			}
			if !w.unknown {
				return "", fmt.Errorf("unknown key %.60q", key)
			}
		}
		if t != nil && t.Kind() == reflect.Map {
			field = reflect.StructField{Name: key, Type: t.Elem()}
		}

		w.space()
		w.at++ // the colon
		if place, err := w.passValue(field, depth+1); err != nil {
			if place != "" && place[0] != '[' {
				place = "." + place
			}
			return fmt.Sprintf("%.60s%s", key, place), err
		}
		w.space()
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if tag := fields[name].Tag.Get("json"); !w.unknown && !seen[name] && tag != "" &&
			!strings.Contains(tag, ",omit") {
			return "", fmt.Errorf("the key %q is missing", name)
		}
	}
	return "", nil
}

// passList moves w behind the list that begins at w.at, and checks its values. most is the field's tag max, the largest
// number of values, "" for any number. If the error is in a value, place is the path to it, such as [3].from.
func (w *walker) passList(t reflect.Type, most string, depth int) (place string, err error) {
	var of reflect.StructField
	if t != nil && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) {
		of.Type = t.Elem()
	}
	limit := math.MaxInt
	if most != "" {
		if limit, err = strconv.Atoi(most); err != nil {
			return "", err
		}
	}
	for i := 0; w.next(); i++ {
		if i == limit {
			return "", fmt.Errorf("more than %d values", limit)
		}
		if place, err := w.passValue(of, depth+1); err != nil {
			if place != "" && place[0] != '[' {
				place = "." + place
			}
			return fmt.Sprintf("[%d]%s", i, place), err
		}
		w.space()
	}
	return "", nil
}

// fieldsOf returns the fields of a struct type by their JSON keys, embedded ones included, and nil for any other type.
func fieldsOf(t reflect.Type) map[string]reflect.StructField {
	if t == nil || t.Kind() != reflect.Struct {
		return nil
	}
	fields := map[string]reflect.StructField{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			name = f.Name
		}
		if f.IsExported() && name != "-" && (!f.Anonymous || f.Tag.Get("json") != "") {
			fields[name] = f
		}
	}
	return fields
}

// writesNull reports whether encoding/json writes null for an empty value of the field, so that null has to be
// accepted. It is false for values of lists, whose f has no name.
func writesNull(f reflect.StructField) bool {
	if f.Type == nil || f.Name == "" || strings.Contains(f.Tag.Get("json"), ",omit") {
		return false
	}
	return f.Type.Kind() == reflect.Pointer || f.Type.Kind() == reflect.Slice || f.Type.Kind() == reflect.Map ||
		f.Type.Kind() == reflect.Interface
}

// at puts the place of an error in front of it, if there is one.
func at(place string, err error) error {
	if place == "" {
		return err
	}
	return fmt.Errorf("%s: %w", place, err)
}
