// Package strictjson reads JSON that two readers must not understand differently. encoding/json takes a key twice (the
// last one counts), a key in another case, null for a number, and bytes that are not UTF-8 (replaced), and stops after
// the first value. Here all of these are errors that name the place in the value: features[3].from.table.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxDepth bounds how deeply values are nested, which costs stack in every reader.
const maxDepth = 32

// Decode reads one value into v, a pointer. It refuses keys that v does not have, and needs those that Go always
// writes: of fields with a tag that omits nothing. The caller bounds the size of data.
func Decode(data []byte, v any) error { return decode(data, v, false) }

// DecodeKnown is Decode, except that keys that v does not have are ignored: for records to which later builds may add.
func DecodeKnown(data []byte, v any) error { return decode(data, v, true) }

func decode(data []byte, v any, unknown bool) error {
	if !utf8.Valid(data) {
		return errors.New("it is not UTF-8")
	}
	if half := halfOfPair(data); half != "" {
		return fmt.Errorf("%s is half of a character", half)
	}

	r := &reader{json.NewDecoder(bytes.NewReader(data)), unknown}
	r.UseNumber()
	if err := r.value(reflect.TypeOf(v).Elem(), "", 0, false); err != nil {
		return err
	}
	if _, err := r.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("there is more data after byte %d", r.InputOffset())
	}
	return json.Unmarshal(data, v)
}

var (
	wholePair = regexp.MustCompile(`\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}`)
	half      = regexp.MustCompile(`\\u[dD][89a-fA-F][0-9a-fA-F]{2}`)
)

// halfOfPair returns an escape such as \ud83d without its other half, which encoding/json would replace.
func halfOfPair(data []byte) string {
	if !half.Match(data) {
		return ""
	}
	escapes := bytes.ReplaceAll(data, []byte(`\\`), []byte("_")) // what follows a backslash in the text is no escape
	return string(half.Find(wholePair.ReplaceAll(escapes, []byte("_"))))
}

// reader walks over the value, beside the type that it is read into.
type reader struct {
	*json.Decoder
	unknown bool // keys are ignored
}

func (r *reader) value(t reflect.Type, place string, depth int, nullable bool) error {
	token, err := r.Token()
	if err != nil {
		return at(place, err)
	}

	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t != nil && reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		t = nil // it reads itself; only what holds for all JSON is checked
	}

	delim, _ := token.(json.Delim)
	switch {
	case token == nil && t != nil && !nullable:
		return at(place, errors.New("it is null"))
	case delim != 0 && depth == maxDepth:
		return at(place, fmt.Errorf("values are nested more than %d deep", maxDepth))
	case delim == '{':
		err = r.object(t, place, depth)
	case delim == '[':
		err = r.list(t, place, depth)
	}
	return err
}

func (r *reader) object(t reflect.Type, place string, depth int) error {
	fields := fieldsOf(t)
	seen := map[string]bool{}
	for r.More() {
		token, err := r.Token()
		if err != nil {
			return at(place, err)
		}
		key, _ := token.(string)
		if seen[key] {
			return at(place, fmt.Errorf("the key %.60q is there twice", key))
		}
		seen[key] = true

		field, known := fields[key]
		if fields != nil && !known {
			for name := range fields {
				if strings.EqualFold(name, key) {
					return at(place, fmt.Errorf("the key %.60q; write %q", key, name))
				}
			}
			if !r.unknown {
				return at(place, fmt.Errorf("unknown key %.60q", key))
			}
		}
		if t != nil && t.Kind() == reflect.Map {
			field.Type = t.Elem()
		}

		if err := r.value(field.Type, strings.TrimPrefix(fmt.Sprintf("%s.%.60s", place, key), "."), depth+1,
			writesNull(field)); err != nil {
			return err
		}
	}
	if _, err := r.Token(); err != nil {
		return at(place, err)
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if tag := fields[name].Tag.Get("json"); !r.unknown && !seen[name] && tag != "" &&
			!strings.Contains(tag, ",omit") {
			return at(place, fmt.Errorf("the key %q is missing", name))
		}
	}
	return nil
}

func (r *reader) list(t reflect.Type, place string, depth int) error {
	var of reflect.Type
	if t != nil && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) {
		of = t.Elem()
	}
	for i := 0; r.More(); i++ {
		if err := r.value(of, fmt.Sprintf("%s[%d]", place, i), depth+1, false); err != nil {
			return err
		}
	}
	_, err := r.Token()
	return at(place, err)
}

// fieldsOf returns a struct's fields by their keys; nil for any other type.
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

// writesNull reports whether Go writes null for an empty field.
func writesNull(f reflect.StructField) bool {
	if f.Type == nil || strings.Contains(f.Tag.Get("json"), ",omit") {
		return false
	}
	return f.Type.Kind() == reflect.Pointer || f.Type.Kind() == reflect.Slice || f.Type.Kind() == reflect.Map ||
		f.Type.Kind() == reflect.Interface
}

func at(place string, err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err == nil || place == "" {
		return err
	}
	return fmt.Errorf("%s: %w", place, err)
}
