// Package page makes the HTML pages that people look at: a sweep, a model of the registry, a dataset, and the home page
// that lists all of them. A caller fills a view (Sweep, Model, DatasetPage, Index) and calls its Write, which gives one
// self-contained HTML file: charts as SVG, one style sheet, one script, and a content security policy that allows
// nothing from outside. The same view gives the same bytes.
//
// The package reads no store; launcher/internal/report does, and fills the views. All text in a view is foreign (it may
// come from a user's table), so each Write works on a copy whose texts are cleaned, and the templates escape them.
package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"html/template"
	"io"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"coppice/internal/page/plot"
	"coppice/internal/sweep"
)

//go:embed *.html
var files embed.FS

//go:embed page.css
var style []byte

//go:embed page.js
var source []byte

var (
	// The script without indentation and lines of comment, which every page would carry. No text in it goes over lines.
	script = regexp.MustCompile(`(?m)^ *//.*\n|^ +`).ReplaceAll(source, nil)
	glued  = strings.NewReplacer(" %", "\u00a0%") // a percent sign stays on the line of its number
	inCode = regexp.MustCompile("`([^`]*)`")
	bodies = template.Must(plot.Templates().Funcs(template.FuncMap{
		"when": when, "clock": clock, "ago": marked(`data-ago="1"`), "last": marked(`data-ago="night"`),
		"fresh": marked(`data-fresh="1"`), "check": check, "interval": interval, "unit": format, "comma": comma[int],
		"words": words, "sentence": sentence, "kept": glued.Replace, "capital": capital, "directed": directed,
		"budget": ofBudget, "numeric": numeric, "contains": strings.Contains, "ends_in": strings.HasSuffix,
		"cut": strings.TrimSuffix, "clip": plot.Clip, "blocked": sweep.TodoBlocked,
		"table": newHeading, "listed": Listed.heading, "cell": numberCell, "score": sweep.Score,
		"count": func(n int) float64 { return float64(n) },
		"known": func(v float64) bool { return !math.IsNaN(v) },
		"add":   func(a, b int) int { return a + b },
		"hours": func(h float64) string { return plot.Seconds.Format(3600 * h) },
		"bytes": func(n int64) string { return humanize.IBytes(uint64(n)) },
		"coded": func(text any) template.HTML { // with its commands, which stand between backticks
			return template.HTML(inCode.ReplaceAllString(html.EscapeString(fmt.Sprint(text)), "<code>$1</code>"))
		},
		"counted": func(n int, what string) string { return english.Plural(n, what, "") },
	}).ParseFS(files, "*.html"))
)

// Policy is the content security policy of every page: its own style and script, and news from where it came.
var Policy = fmt.Sprintf("default-src 'none'; style-src '%s'; script-src '%s'; connect-src 'self'; img-src data:; "+
	"base-uri 'none'; form-action 'none'", hash(style), hash(script))

func hash(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// Commands writes the commands on pages as they are typed, where the program that makes the pages has another name. It
// is set before the first page.
var Commands interface{ Replace(text string) string } = strings.NewReplacer()

// writePage writes a whole page to w. The template named body (a file of files, such as "sweep.html") makes the page's
// body from view, and d follows as JSON for the script. Nothing is written if either fails.
func writePage(w io.Writer, title, body string, view any, d *data) error {
	var content bytes.Buffer
	if err := bodies.ExecuteTemplate(&content, body, view); err != nil {
		return fmt.Errorf("make the page %s: %w", title, err)
	}

	// The data of the script. json.Marshal escapes < and >, so no text in it can end the element.
	text, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("make the page %s: %w", title, err)
	}
	content.WriteString(`<script type="application/json" id="data">`)
	content.Write(text)
	content.WriteString("</script>\n")
	named := Commands.Replace(content.String())

	// The head comes last, because it holds a hash of the contents: the page's version, by which the script of an open
	// page sees that there is a newer one.
	var out bytes.Buffer
	fmt.Fprintf(&out, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"+
		"<meta http-equiv=\"Content-Security-Policy\" content=\"%s\">\n<meta name=\"viewport\" "+
		"content=\"width=device-width, initial-scale=1\">\n"+
		"%s<meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" "+
		"content=\"no-referrer\">\n%s%x\">\n<title>%s</title>\n<style>",
		html.EscapeString(Policy), icon, versionMark, sha256.Sum256([]byte(named)), html.EscapeString(title))
	out.Write(style)
	out.WriteString("</style>\n</head>\n<body>\n")
	out.WriteString(named)
	out.WriteString("<script>")
	out.Write(script)
	out.WriteString("</script>\n</body>\n</html>\n")
	_, err = w.Write(out.Bytes())
	return err
}

// icon is the page's in a browser's tab: a stool with three shoots.
const icon = `<link rel="icon" href="data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'` +
	`%3E%3Cpath d='M8 14V3M8 14L3 5M8 14l5-9M4 14h8' fill='none' stroke='%23009e73' stroke-width='2' ` +
	`stroke-linecap='round'/%3E%3C/svg%3E">` + "\n"

// versionMark is the start of the element in a page's head that holds the hash of the page's contents.
const versionMark = `<meta name="version" content="`

// VersionOf returns the hash of its contents that a page carries in its head, or "" if the text is not such a page. Two
// pages with equal versions have equal contents. Only the first 4096 bytes are searched, which hold the head's elements
// before the style sheet.
func VersionOf(page []byte) string {
	_, after, found := bytes.Cut(page[:min(len(page), 4096)], []byte(versionMark))
	if !found || len(after) < sha256.Size*2 {
		return ""
	}
	return string(after[:sha256.Size*2])
}

// when writes a time in UTC as an HTML element, or a dash for the zero time. The page says once that times are UTC; the
// script shows the reader's local time when the pointer is on the element.
func when(t time.Time) template.HTML {
	if t.IsZero() {
		return "–"
	}
	t = t.UTC()
	return template.HTML(fmt.Sprintf(`<time datetime="%s">%s</time>`, t.Format(time.RFC3339),
		t.Format("2006-01-02 15:04")))
}

// marked returns a template function that writes a time as when does, with an attribute that tells the script to say
// more. "ago" (data-ago="1") shows how long ago it was. "last" also warns if that is over three days, since something
// should come every night. "fresh" warns if a running sweep was last seen more than an hour ago.
func marked(attribute string) func(time.Time) template.HTML {
	return func(t time.Time) template.HTML {
		return template.HTML(strings.Replace(string(when(t)), "<time ", "<time "+attribute+" ", 1))
	}
}

// words writes the name of a state or a verdict as a reader sees it: "no_winner" is "no winner".
func words(name string) string { return strings.ReplaceAll(name, "_", " ") }

// sentence ends a text with a full stop unless it is empty or has an end already. Percent signs are glued to their
// numbers (see glued).
func sentence(text string) string {
	text = glued.Replace(text)
	if text == "" || strings.ContainsAny(text[len(text)-1:], ".!?") {
		return text
	}
	return text + "."
}

// numeric reports whether a text looks like a number, maybe with separators, an exponent or a percent sign. An empty
// text counts as one.
func numeric(text string) bool { return strings.Trim(text, "0123456789.,-% e") == "" }

// heading is what a table begins with: its id, under which the script makes CSV of it, a title and a note. A column
// whose name ends in # is of numbers.
type heading struct {
	ID, Title, Note string
	Names           []string
}

func newHeading(id, title, note string, names ...string) heading {
	return heading{id, title, note, names}
}

// numberCell writes the table cell of a number: v in its unit, or v with its standard error if se has one, which then
// decides the digits. The cell also carries v with seven digits (data-v), from which the script makes CSV. NaN and
// infinities, which stand for "not known", give a cell with a hyphen.
func numberCell(unit plot.Unit, v float64, se ...float64) template.HTML {
	exact, _ := num(v).MarshalJSON() // never fails
	text := unit.Format(v)
	if len(se) > 0 {
		text = sweep.Score(v, se[0])
	}
	if string(exact) == "null" {
		return "<td class=\"n\">-</td>"
	}
	return template.HTML(fmt.Sprintf(`<td class="n" data-v="%s">%s</td>`, exact, html.EscapeString(text)))
}

// format is a number with its unit.
func format(u string, v float64) string { return plot.Unit(u).Format(v) }

// data is what the script of a page needs in addition to the page's HTML: the columns of all tables, each once, and
// which table has which.
type data struct {
	Kind    string             `json:"kind"`
	ID      string             `json:"id"`
	Open    bool               `json:"open,omitempty"`  // it runs: a console is asked for news
	Final   *int               `json:"final,omitempty"` // the number of the final training
	Columns map[string]*column `json:"columns"`
	Tables  map[string]table   `json:"tables"`
	Curves  *curves            `json:"curves,omitempty"`
}

// column is one value of every row.
type column struct {
	Name   string    `json:"n"`
	Unit   plot.Unit `json:"u,omitempty"`
	Time   bool      `json:"time,omitempty"` // seconds since 1970
	Digits int       `json:"d,omitempty"`    // behind the point, where all have as many
	Values []any     `json:"v"`
}

// table is what a chart shows, as numbers.
type table struct {
	Title   string   `json:"title"`
	Columns []string `json:"c"`
}

// curves are the learning curves as they are drawn. Their table has a row for each point.
type curves struct {
	Trial []int   `json:"t"`
	X     [][]num `json:"x"` // from the point before: shorter than the numbers of trees
	Y     [][]num `json:"y"` // of five digits
}

// num is a number that is written to a page's data with seven significant digits, which keeps pages small.
type num float64

// MarshalJSON writes the number, or null if it is NaN or infinite. It never returns an error.
func (n num) MarshalJSON() ([]byte, error) {
	v := float64(n)
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return []byte("null"), nil
	}
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 7, 64), 64) // what was formatted can be parsed
	return strconv.AppendFloat(nil, v, 'g', -1, 64), nil
}

func newData(kind, id string) *data {
	return &data{Kind: kind, ID: id, Columns: map[string]*column{}, Tables: map[string]table{}}
}

// addColumn adds a column to d under key: value gives its entry for each row. A time becomes seconds since 1970, and
// the zero time becomes null. NaN and infinities become null, too. All other values stay as they are.
func addColumn[R any](d *data, key, name string, unit plot.Unit, rows []R, value func(R) any) {
	c := &column{Name: name, Unit: unit, Values: make([]any, len(rows))}
	for i, r := range rows {
		switch v := value(r).(type) {
		case float64:
			c.Values[i] = num(v)
		case time.Time:
			c.Time = true
			if !v.IsZero() {
				c.Values[i] = v.Unix()
			}
		default:
			c.Values[i] = v
		}
	}
	d.Columns[key] = c
}

// table records that the table of the named chart has this title and these columns, which are keys of d.Columns.
func (d *data) table(chart, title string, columns ...string) {
	d.Tables[chart] = table{title, columns}
}

// longest is how many characters of a foreign text a page shows.
const longest = 400

// cleaned returns a deep copy of a view in which cleanText has gone over every string, however deep, so that no caller
// has to remember which strings are foreign.
func cleaned[T any](view *T) *T {
	return cleanCopy(reflect.ValueOf(view)).Interface().(*T)
}

// cleanCopy copies a value and all that it points to, and cleans the strings on the way; the original stays as it is.
// Keys of maps and what interfaces hold are cleaned, too. Unexported fields are copied as they are, because reflection
// cannot set them.
func cleanCopy(v reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	switch v.Kind() {
	case reflect.String:
		out.SetString(cleanText(v.String()))
	case reflect.Pointer:
		if !v.IsNil() {
			out.Set(reflect.New(v.Type().Elem()))
			out.Elem().Set(cleanCopy(v.Elem()))
		}
	case reflect.Interface:
		if !v.IsNil() {
			out.Set(cleanCopy(v.Elem()))
		}
	case reflect.Slice:
		if !v.IsNil() {
			out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
			for i := range v.Len() {
				out.Index(i).Set(cleanCopy(v.Index(i)))
			}
		}
	case reflect.Array:
		for i := range v.Len() {
			out.Index(i).Set(cleanCopy(v.Index(i)))
		}
	case reflect.Map:
		if !v.IsNil() {
			out.Set(reflect.MakeMapWithSize(v.Type(), v.Len()))
			for it := v.MapRange(); it.Next(); {
				out.SetMapIndex(cleanCopy(it.Key()), cleanCopy(it.Value()))
			}
		}
	case reflect.Struct:
		out.Set(v) // with the unexported fields
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

// cleanText makes a foreign text fit to be shown. Line breaks and tabs become blanks. Characters that do not print or
// that would reverse the text around them are spelt out as \u202e. A text of over 400 characters ends with an ellipsis.
// The result still has to be escaped for HTML.
func cleanText(text string) string {
	// Nearly every text is short and printable. At most so many bytes are at most so many characters.
	if len(text) <= longest && strings.IndexFunc(text, hidden) < 0 {
		return text
	}

	var b strings.Builder
	n := 0 // characters of text so far
	for _, r := range text {
		n++
		if n > longest {
			b.WriteString("…")
			break
		}
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			b.WriteByte(' ')
		case hidden(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// hidden reports whether a character does not print or changes how its neighbours look: control characters, marks of
// direction and joiners (category C), separators of lines and paragraphs, variation selectors (marks from U+FE00 on),
// and the replacement character, which stands for bytes that are not UTF-8.
func hidden(r rune) bool {
	return r == unicode.ReplacementChar || unicode.Is(unicode.C, r) || unicode.In(r, unicode.Zl, unicode.Zp) ||
		unicode.Is(unicode.Mn, r) && r >= 0xfe00
}
