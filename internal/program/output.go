package program

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Output is where a program writes. Part of what it shows comes from others: categories, names of columns, reasons of
// failed trials. Such text must not control the reader's terminal, so an Output lets no control character pass except
// line breaks and tabs, and no character that reorders others or is invisible. Each is shown as its JSON escape, such
// as \u001b, so JSON text keeps its value. To makes an Output of any writer; nothing else does.
type Output struct{ raw io.Writer }

// To returns an Output onto w. A character must not be split between two writes.
func To(w io.Writer) Output {
	if o, ok := w.(Output); ok {
		return o
	}
	return Output{w}
}

// Write writes text as converted by Visible.
func (o Output) Write(text []byte) (int, error) {
	if o.raw == nil { // the zero Output shows nothing
		return len(text), nil
	}
	if !hasUnsafe(text) {
		return o.raw.Write(text)
	}
	if _, err := io.WriteString(o.raw, Visible(string(text))); err != nil {
		return 0, err
	}
	return len(text), nil
}

// Raw is the underlying writer, for output that must be unchanged: a progress bar, a redirected file.
func (o Output) Raw() io.Writer { return o.raw }

// Renamed returns an Output that replaces names of commands in all text by those in names, for a program whose commands
// are typed in another way. A name must not be split between two writes.
func (o Output) Renamed(names interface{ Replace(text string) string }) Output {
	return Output{&renaming{o.raw, names}}
}

type renaming struct {
	to    io.Writer
	names interface{ Replace(text string) string }
}

func (r *renaming) Write(text []byte) (int, error) {
	if _, err := io.WriteString(r.to, r.names.Replace(string(text))); err != nil {
		return 0, err
	}
	return len(text), nil
}

// Visible replaces characters that a terminal obeys or hides by their JSON escapes, such as \u001b, and bytes that are
// not UTF-8 by \xff and the like.
func Visible(text string) string {
	if !hasUnsafe([]byte(text)) {
		return text
	}

	var b strings.Builder
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case !unsafeRune(r):
			b.WriteString(text[i : i+n])
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += n
	}
	return b.String()
}

func hasUnsafe(text []byte) bool {
	return bytes.IndexFunc(text, func(r rune) bool { return r == utf8.RuneError || unsafeRune(r) }) >= 0
}

// hidden lists the characters that are invisible or act as commands: Unicode's controls (C0, DEL, C1), formats
// (directions, joiners, tags), its separators of lines and paragraphs, and default-ignorable characters.
var hidden = []*unicode.RangeTable{unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp,
	unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector}

func unsafeRune(r rune) bool {
	if r < utf8.RuneSelf {
		return r < ' ' && r != '\n' && r != '\t' || r == 0x7f
	}
	return unicode.In(r, hidden...)
}

// A quoted text or a word without blanks is one value, shown up to maxValue characters; a line is shown up to maxLine.
const (
	maxValue = 200
	maxLine  = 2000
)

var longValue = regexp.MustCompile(fmt.Sprintf(`"(?:[^"\\]|\\.){%d,}"|\S{%d,}`, maxValue, maxValue))

// Brief shortens an error's text so that no value crowds out the rest: the middle of a long value is shown as "...".
func Brief(text string) string {
	if len(text) < maxValue {
		return text
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		line = longValue.ReplaceAllStringFunc(line, func(value string) string { return Middle(value, maxValue) })
		lines[i] = Middle(line, maxLine)
	}
	return strings.Join(lines, "\n")
}

// Middle shortens text to at most limit characters by replacing its middle with three dots. Two thirds of what is kept
// are from the beginning.
func Middle(text string, limit int) string {
	if len(text) <= limit { // so many bytes are not more characters
		return text
	}
	r := []rune(text)
	if len(r) <= limit {
		return text
	}
	tail := (limit - 3) / 3
	return string(r[:limit-3-tail]) + "..." + string(r[len(r)-tail:])
}
