package page

import (
	"fmt"
	"reflect"
	"strings"
	"unicode"
)

// longest is how many characters of a foreign text a page shows.
const longest = 400

// cleaned is a copy of a view in which every text is clean, wherever it stands: no caller has to remember which one is
// foreign.
func cleaned[T any](view *T) *T {
	return cleanCopy(reflect.ValueOf(view)).Interface().(*T)
}

func cleanCopy(v reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	switch v.Kind() {
	case reflect.String:
		out.SetString(clean(v.String()))
	case reflect.Pointer:
		if !v.IsNil() {
			out.Set(reflect.New(v.Type().Elem()))
			out.Elem().Set(cleanCopy(v.Elem()))
		}
	case reflect.Slice:
		if !v.IsNil() {
			out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
			for i := range v.Len() {
				out.Index(i).Set(cleanCopy(v.Index(i)))
			}
		}
	case reflect.Map:
		if !v.IsNil() {
			out.Set(reflect.MakeMapWithSize(v.Type(), v.Len()))
			for it := v.MapRange(); it.Next(); {
				out.SetMapIndex(cleanCopy(it.Key()), cleanCopy(it.Value()))
			}
		}
	case reflect.Struct:
		out.Set(v)
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				out.Field(i).Set(cleanCopy(v.Field(i)))
			}
		}
	default:
		out.Set(v)
	}
	return out
}

// clean is a foreign text as it can be shown: what does not print, or would turn the text around it, is spelt out, and
// the end of a very long one is left out. What is left still has to be escaped.
func clean(text string) string {
	plain := true
	for _, r := range text {
		if hidden(r) {
			plain = false
			break
		}
	}
	if plain && len(text) <= longest {
		return text
	}

	var b strings.Builder
	n := 0
	for _, r := range text {
		if n++; n > longest {
			b.WriteString("…")
			break
		}
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			b.WriteByte(' ')
		case hidden(r) && r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		case hidden(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// hidden says that a character does not print: control characters, marks of direction, joiners, what is no character.
func hidden(r rune) bool {
	return r == unicode.ReplacementChar || unicode.Is(unicode.C, r) || unicode.In(r, unicode.Zl, unicode.Zp) ||
		unicode.Is(unicode.Mn, r) && r >= 0xfe00
}
