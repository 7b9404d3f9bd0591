// Package page makes the pages that people look at: a sweep, a model of the registry, a dataset, and what there is. A
// view goes in, one self-contained HTML file comes out: drawings as SVG, one style sheet, one script, nothing from
// outside, and a content security policy that lets nothing else in. The same view gives the same bytes, whether it is
// written to a file or served.
//
// It reads nothing. Who fills a view (launcher/internal/report) reads the store; what this package adds is order, words
// and drawings. All text in a view is foreign: of a view only a copy is used in which every text is cleaned, and
// templates escape it.
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
	"regexp"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"coppice/internal/page/plot"
)

//go:embed page.css page.js *.html
var files embed.FS

var (
	style  = read("page.css")
	script = dense(read("page.js"))
	bodies = template.Must(plot.Templates().Funcs(template.FuncMap{"when": when, "unit": format,
		"count": func(n int) float64 { return float64(n) },
		"comma": func(n int) string { return humanize.Comma(int64(n)) }, "words": words, "sentence": sentence,
		"interval": interval, "known": func(x *float64) string { return plot.Plain.Format(orNaN(x)) },
		"bytes":   func(n int64) string { return humanize.IBytes(uint64(n)) },
		"counted": func(n int, what string) string { return english.Plural(n, what, "") }}).ParseFS(files, "*.html"))
)

// Style is the style sheet, for drawings that stand alone.
func Style() string { return string(style) }

// Policy is the content security policy of every page: its own style and script, and news from where it came.
var Policy = fmt.Sprintf("default-src 'none'; style-src '%s'; script-src '%s'; connect-src 'self'; base-uri 'none'; "+
	"form-action 'none'",
	hash(style), hash(script))

func read(name string) []byte {
	data, err := files.ReadFile(name)
	if err != nil {
		panic(err) // it is embedded
	}
	return data
}

// dense is a script without indentation and lines of comment, which every page would carry. No text in it goes over
// lines.
func dense(script []byte) []byte {
	return regexp.MustCompile(`(?m)^ *//.*\n|^ +`).ReplaceAll(script, nil)
}

func hash(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// write writes a whole page: a body made by a template, and the data that the script needs.
func write(w io.Writer, title, body string, view any, d *data) error {
	var content bytes.Buffer
	if err := bodies.ExecuteTemplate(&content, body, view); err != nil {
		return fmt.Errorf("make the page %s: %w", title, err)
	}
	text, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("make the page %s: %w", title, err)
	}
	content.WriteString(`<script type="application/json" id="data">`)
	content.Write(text) // < and > are escaped in it
	content.WriteString("</script>\n")

	var out bytes.Buffer
	fmt.Fprintf(&out, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"+
		"<meta http-equiv=\"Content-Security-Policy\" content=\"%s\">\n<meta name=\"viewport\" "+
		"content=\"width=device-width, initial-scale=1\">\n"+
		"<meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" "+
		"content=\"no-referrer\">\n%s%x\">\n<title>%s</title>\n<style>",
		html.EscapeString(Policy), versionMark, sha256.Sum256(content.Bytes()), html.EscapeString(title))
	out.Write(style)
	out.WriteString("</style>\n</head>\n<body>\n")
	out.Write(content.Bytes())
	out.WriteString("<script>")
	out.Write(script)
	out.WriteString("</script>\n</body>\n</html>\n")
	_, err = w.Write(out.Bytes())
	return err
}

// versionMark begins what a page says of its own contents, in its head.
const versionMark = `<meta name="version" content="`

// VersionOf is what tells the contents of one page from those of another; empty where the text is no page.
func VersionOf(page []byte) string {
	_, after, found := bytes.Cut(page[:min(len(page), 4096)], []byte(versionMark))
	if !found || len(after) < sha256.Size*2 {
		return ""
	}
	return string(after[:sha256.Size*2])
}

// when is a time that the script shows in the reader's time zone.
func when(t time.Time) template.HTML {
	if t.IsZero() {
		return "–"
	}
	t = t.UTC()
	return template.HTML(fmt.Sprintf(`<time datetime="%s">%s UTC</time>`, t.Format(time.RFC3339),
		t.Format("2006-01-02 15:04:05")))
}

// words is a name of a state or a verdict as text.
func words(name string) string { return strings.ReplaceAll(name, "_", " ") }

// sentence ends a text with a full stop.
func sentence(text string) string {
	if text == "" || strings.ContainsAny(text[len(text)-1:], ".!?") {
		return text
	}
	return text + "."
}

// format is a number with its unit.
func format(u string, v float64) string { return plot.Unit(u).Format(v) }
