// Package plot draws: numbers go in, SVG comes out. Every chart is a list of paths and texts with coordinates reckoned
// here, put into a template that escapes all text. There are no colours in it, only classes, which the page's style
// sheet paints; and no scripts: a mark says which trial it belongs to (data-t), and what a reader filters or picks is
// done with that.
//
// The same input gives the same bytes. What is no finite number is not drawn.
package plot

import (
	"embed"
	"html/template"
	"io"
	"math"
	"strconv"
	"strings"
)

// None is the trial of a mark that belongs to none.
const None = -1

// Chart is one drawing with its title and what it shows in words.
type Chart struct {
	ID      string // unique on a page; letters, digits and hyphens
	Title   string
	Summary string // a text alternative: what a reader who cannot see the chart has to know
	W, H    float64
	Wide    bool // takes the whole width of a page, and scrolls where that is narrow
	Hands   bool // has handles that are moved, so it is no mere image

	Ticks   []Tick
	Labels  []Text
	Marks   []Mark
	Keys    []Key
	Handles []Handle
}

// Tick is a line of the grid with its number.
type Tick struct {
	D string
	Text
}

// Text is a text at a place.
type Text struct {
	X, Y   string
	Class  string // a: axis; e: ends at X; m: its middle is at X
	Trial  int
	String string
}

// Mark is a path that shows something.
type Mark struct {
	Class string
	Trial int // None where it shows no single one
	D     string
}

// Key explains a class of marks.
type Key struct{ Class, Label string }

// D is the sample's path: a point or a piece of a line.
func (k Key) D() string {
	if strings.HasSuffix(k.Class, "x") { // a cross
		return "M6 2l8 8m-8 0l8-8"
	}
	if strings.Contains(k.Class, "key") && !strings.Contains(k.Class, "at ") && !strings.Contains(k.Class, "bar") {
		return "M10 6h0"
	}
	return "M3 6h14"
}

// Handle is a place where a reader narrows the range of an axis.
type Handle struct {
	Axis  string // the name of what the axis shows
	Upper bool
	X     string
	Top   string // of the axis
	Low   string
	Texts string // what stands along the axis from below, separated by |; of the lower one
}

//go:embed chart.html
var files embed.FS

var templates = template.Must(template.ParseFS(files, "chart.html"))

// Templates are the package's templates, for a page that has charts in it: "figure" is a chart with title, words and
// buttons, "svg" the drawing alone.
func Templates() *template.Template { return template.Must(templates.Clone()) }

// WriteSVG writes the chart as a file of its own with a style sheet, which is trusted.
func (c *Chart) WriteSVG(w io.Writer, style string) error {
	return templates.ExecuteTemplate(w, "file",
		map[string]any{"Chart": c, "Style": template.HTML("<style>" + style + "</style>")})
}

// Empty says that nothing is drawn.
func (c *Chart) Empty() bool { return len(c.Marks) == 0 }

// pen writes the commands of a path.
type pen []byte

func (p pen) String() string { return string(p) }

// coordinate is v with one digit behind the point, as short as it can be.
func coordinate(dst []byte, v float64) []byte {
	v = math.Round(v*10) / 10
	if v == 0 {
		v = 0 // no minus
	}
	return strconv.AppendFloat(dst, v, 'f', -1, 64)
}

func at(v float64) string { return string(coordinate(nil, v)) }

func (p *pen) to(command byte, x, y float64) *pen {
	*p = append(*p, command)
	*p = coordinate(*p, x)
	*p = append(*p, ' ')
	*p = coordinate(*p, y)
	return p
}

// dot is a line of no length, which round caps make a disc.
func dot(x, y float64) string {
	var p pen
	p.to('M', x, y)
	return p.String() + "h0"
}

// cross is an x.
func cross(x, y, r float64) string {
	var p pen
	p.to('M', x-r, y-r).to('l', 2*r, 2*r).to('m', -2*r, 0).to('l', 2*r, -2*r)
	return p.String()
}

// line is a straight one.
func line(x1, y1, x2, y2 float64) string {
	var p pen
	p.to('M', x1, y1).to('L', x2, y2)
	return p.String()
}

// box is a rectangle.
func box(x, y, w, h float64) string {
	var p pen
	p.to('M', x, y)
	return p.String() + "h" + at(w) + "v" + at(h) + "h" + at(-w) + "z"
}

func finite(values ...float64) bool {
	for _, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return false
		}
	}
	return true
}
