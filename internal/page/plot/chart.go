// Package plot draws charts as SVG. A Plot holds numbers in their own units; its Draw computes coordinates in pixels
// and returns a Chart, a list of paths and texts, which the template of Templates writes and whose texts it escapes.
//
// A chart has no colours, only CSS classes, which the page's style sheet paints. It has no scripts, either: a mark says
// which trial it belongs to (data-t), by which the page's script shows, hides and highlights it.
//
// The same input gives the same bytes. NaN and infinities are not drawn.
package plot

import (
	"embed"
	"html/template"
	"math"
	"strconv"
	"strings"
)

// None is the trial of a mark that belongs to none.
const None = -1

// The widths of charts: what fits into a page's columns, four, two or one of them, so that a text is as large in
// one chart as in another.
const (
	Quarter = 248
	Half    = 536
	Full    = 1118
)

// Chart is one drawing with its title and what it shows in words.
type Chart struct {
	ID      string // unique on a page; letters, digits and hyphens
	Title   string
	Summary string // a text alternative: what a reader who cannot see the chart has to know
	W, H    float64
	Tabled  bool // the page has its numbers, which the script shows as a table

	Ticks  []Tick
	Labels []Text
	Marks  []Drawn
	Keys   []Key
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
	String string
}

// Drawn is a path that shows something.
type Drawn struct {
	Class string
	Trial int // None where it shows no single one
	D     string
}

// Key explains a class of marks.
type Key struct{ Class, Label string }

// D is the path of the sample that stands beside the label: a cross for a class that ends in x, a point for one with
// "key" in its name, else a piece of a line.
func (k Key) D() string {
	if strings.HasSuffix(k.Class, "x") { // a cross
		return "M6 2l8 8m-8 0l8-8"
	}
	if strings.Contains(k.Class, "key") {
		return "M10 6h0"
	}
	return "M3 6h14"
}

//go:embed chart.html
var files embed.FS

var templates = template.Must(template.ParseFS(files, "chart.html"))

// Templates are the package's templates, for a page that has charts in it: "figure" is a chart with title, words and
// buttons, "svg" the drawing alone.
func Templates() *template.Template { return template.Must(templates.Clone()) }

// Size names the chart's width for the style sheet. A drawing keeps about that width and scrolls where there is less.
func (c *Chart) Size() string {
	switch {
	case c.W <= Quarter:
		return "quarter"
	case c.W <= Half:
		return "half"
	}
	return "full"
}

// Scrolls says that the drawing is wider than a telephone.
func (c *Chart) Scrolls() bool { return c.W > Quarter }

// Empty says that nothing is shown.
func (c *Chart) Empty() bool { return len(c.Marks) == 0 }

// pen writes the commands of a path.
type pen []byte

func (p pen) String() string { return string(p) }

// coordinate appends v to dst, rounded to one digit behind the point and written as short as that allows.
func coordinate(dst []byte, v float64) []byte {
	v = math.Round(v*10) / 10
	if v == 0 {
		v = 0 // -0 would be written with a minus
	}
	return strconv.AppendFloat(dst, v, 'f', -1, 64)
}

// at writes one coordinate.
func at(v float64) string { return string(coordinate(nil, v)) }

// to appends a command of SVG's path language, such as M (move) or L (line), with its point in pixels. It returns p, so
// that calls can be chained.
func (p *pen) to(command byte, x, y float64) *pen {
	*p = append(*p, command)
	*p = coordinate(*p, x)
	*p = append(*p, ' ')
	*p = coordinate(*p, y)
	return p
}

// linePath returns the path of a straight line between two points in pixels. Horizontal and vertical lines, of which a
// grid consists, have a shorter form.
func linePath(x1, y1, x2, y2 float64) string {
	var p pen
	p.to('M', x1, y1)
	switch {
	case x1 == x2:
		return p.String() + "V" + at(y2)
	case y1 == y2:
		return p.String() + "H" + at(x2)
	}
	p.to('L', x2, y2)
	return p.String()
}

// allFinite reports whether all values can be drawn.
func allFinite(values ...float64) bool {
	for _, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return false
		}
	}
	return true
}

// frame is the inner part of a chart, between its axes, in pixels, with the scales that map numbers into it.
type frame struct {
	left, right, top, bottom float64
	x, y                     scale
}

// newFrame adds the grid of two axes to c and returns the frame to draw in: lines across the chart with numbers to
// their left, short marks below with their numbers, and the names of both axes.
func newFrame(c *Chart, x, y Axis) *frame {
	// The margins hold the numbers on the left, the name of y above, and the numbers and the name of x below.
	f := &frame{left: 52, right: c.W - 14, top: 26, bottom: c.H - 38}
	f.x = scale{x, f.left, f.right}
	f.y = scale{y, f.bottom, f.top}

	for _, v := range f.y.placeTicks(5) {
		py := f.y.at(v)
		c.Ticks = append(c.Ticks,
			Tick{linePath(f.left, py, f.right, py), Text{at(f.left - 6), at(py + 4), "e", Clip(f.y.say(v), 9)}})
	}

	// Below, there is a tick about every 75 pixels. A number that would touch the one before is left out; last is where
	// that one ends.
	last := -1e9 // left of everything
	for _, v := range f.x.placeTicks(max(2, int((f.right-f.left)/75))) {
		px, text := f.x.at(v), Clip(f.x.say(v), 18)
		half := 3.8 * float64(len([]rune(text))) // of the text's width, of about 7.6 pixels for each character
		if px-half < last {
			text = ""
		} else {
			last = px + half
		}
		c.Ticks = append(c.Ticks, Tick{linePath(px, f.bottom, px, f.bottom+4),
			Text{at(min(max(px, half+1), c.W-half-2)), at(f.bottom + 17), "m", text}})
	}
	c.Labels = append(c.Labels, Text{at(4), at(14), "a", y.Label}, Text{at(f.right), at(c.H - 6), "a e", x.Label})
	return f
}

// Clip shortens a text to n characters by putting an ellipsis in place of its middle. The end stays, because there
// names that begin alike differ, and conditions have their number.
func Clip(text string, n int) string {
	r := []rune(text)
	if len(r) <= n {
		return text
	}
	return string(r[:n/2]) + "…" + string(r[len(r)-(n-1-n/2):])
}
