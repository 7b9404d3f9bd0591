package plot

import (
	"slices"
	"strings"
)

// Line is a curve of one trial, or of none.
type Line struct {
	Trial int
	Class string
	X, Y  []float64
	End   string // class of a mark at the last point, if any
	Peak  int    // index of a point that is marked, -1 without

	Low, High []float64 // an interval around each point; nil without
	Dots      string    // class of a dot at each point; empty without
}

// Plot is a chart with two axes, of curves and of points.
type Plot struct {
	Chart
	X, Y     Axis
	Diagonal bool // draws y = x, beneath
	Lines    []Line
	Points   []Point
}

// mostPoints is how many points all curves of a chart have together, and fewestPoints how many each keeps at least.
const (
	mostPoints   = 12000
	longestCurve = 52
	fewestPoints = 12
)

// Kept is how many points of each of n curves are drawn at most.
func Kept(n int) int { return max(fewestPoints, min(longestCurve, mostPoints/max(1, n))) }

// Thin is a curve of at most n points: the first, the last, one at keep (if it is not negative), and others evenly
// between. The index of keep among them comes back.
func Thin(x, y []float64, n, keep int) (tx, ty []float64, at int) {
	at, last := -1, -1
	for k := range min(n, len(x)) {
		j := k
		if len(x) > n {
			j = k * (len(x) - 1) / (n - 1)
		}
		for _, i := range []int{keep, j} {
			if i <= last || i > j {
				continue
			}
			if i == keep {
				at = len(tx)
			}
			tx, ty, last = append(tx, x[i]), append(ty, y[i]), i
		}
	}
	return tx, ty, at
}

// Draw draws it: later lines lie on earlier ones, and points on lines.
func (l *Plot) Draw() *Chart {
	c := l.Chart
	var xs, ys []float64
	for _, s := range l.Lines {
		xs, ys = append(xs, s.X...), append(append(append(ys, s.Y...), s.Low...), s.High...)
	}
	for _, q := range l.Points {
		xs, ys = append(xs, q.X), append(ys, q.Y)
	}
	l.X.fit(xs)
	l.Y.fit(ys)
	f := newFrame(&c, l.X, l.Y)

	if l.Diagonal {
		low, high := max(l.X.Low, l.Y.Low), min(l.X.High, l.Y.High)
		c.Marks = append(c.Marks, Mark{"diagonal", None, line(f.x.at(low), f.y.at(low), f.x.at(high), f.y.at(high))})
	}
	for _, s := range l.Lines {
		c.curve(f, s)
	}
	stacked := map[[2]float64]int{}
	for _, q := range l.Points {
		if !finite(q.X, q.Y) {
			continue
		}
		x, y := f.x.at(q.X), f.y.at(q.Y)
		if l.X.Categories != nil { // beside each other rather than on each other
			x += spreadOut(stacked, x, y, (f.right-f.left)/float64(len(l.X.Categories)))
		}
		c.point(q.Class, q.Trial, x, y)
	}
	return &c
}

// curve draws one, over the intervals around its points; it is interrupted where there is no value. Intervals and dots
// are one path each.
func (c *Chart) curve(f *frame, s Line) {
	var p, dots, whiskers pen
	var x, y float64
	gap := true
	for i := range s.X {
		if !finite(s.X[i], s.Y[i]) {
			gap = true
			continue
		}
		x, y = f.x.at(s.X[i]), f.y.at(s.Y[i])
		p.to(map[bool]byte{true: 'M', false: 'L'}[gap], x, y)
		gap = false
		dots = append(*dots.to('M', x, y), "h0"...)
		if s.Low != nil {
			whiskers.to('M', x, f.y.at(s.Low[i])).to('L', x, f.y.at(s.High[i]))
		}
	}
	c.add("whisker "+s.Class, s.Trial, whiskers)
	c.add(s.Class, s.Trial, p)
	if s.Dots != "" {
		c.add(s.Dots, s.Trial, dots)
	}
	if s.End != "" && len(p) > 0 {
		c.point(s.End, s.Trial, x, y)
	}
	if s.Peak >= 0 && s.Peak < len(s.X) && finite(s.X[s.Peak], s.Y[s.Peak]) {
		c.point("peak", s.Trial, f.x.at(s.X[s.Peak]), f.y.at(s.Y[s.Peak]))
	}
}

// Parallel is a chart with an axis for each of several values, and a line through them for each trial.
type Parallel struct {
	Chart
	Axes  []Axis
	Lines []ParallelLine // later ones lie on earlier ones
}

// ParallelLine is one trial; what is no finite number is drawn below the axis.
type ParallelLine struct {
	Trial  int
	Class  string
	Values []float64
}

// stations is at how many places, and one more, an axis says its value.
const stations = 20

// Draw draws it.
func (l *Parallel) Draw() *Chart {
	c := l.Chart
	const left, right, top, beneath = 66, 66, 56, 22
	bottom := 14.0
	c.W = max(c.W, left+right+78*float64(max(1, len(l.Axes)-1)))

	for _, t := range l.Lines { // lines without a value go below an axis
		if slices.ContainsFunc(t.Values, func(v float64) bool { return !finite(v) }) {
			bottom = 14 + beneath
		}
	}

	scales := make([]scale, len(l.Axes))
	xs := make([]float64, len(l.Axes))
	for i := range l.Axes {
		var values []float64
		for _, t := range l.Lines {
			values = append(values, t.Values[i])
		}
		l.Axes[i].fit(values)
		scales[i] = scale{l.Axes[i], c.H - bottom, top}
		xs[i] = left + float64(i)*(c.W-left-right)/float64(max(1, len(l.Axes)-1))
		c.axis(&scales[i], xs[i], top, c.H-bottom, i)
	}

	for _, t := range l.Lines {
		var p pen
		for i, v := range t.Values {
			y := c.H - bottom + beneath
			if finite(v) {
				y = scales[i].at(v)
			}
			p.next(xs[i], y)
		}
		c.add(t.Class, t.Trial, p)
	}
	return &c
}

// axis draws one, with its name above (every second one higher, so that names do not meet) and its two handles.
func (c *Chart) axis(s *scale, x, top, bottom float64, number int) {
	name := Clip(s.Label, 20)
	half := 3.9 * float64(len([]rune(name)))
	c.label(name, min(max(x, half+1), c.W-half-2), 16+18*float64(number%2), "a m")
	c.Ticks = append(c.Ticks, Tick{D: line(x, top, x, bottom)})
	for _, v := range s.ticks(4) {
		y := s.at(v)
		c.Ticks = append(c.Ticks, Tick{D: line(x-3, y, x+3, y)})
		c.label(Clip(s.say(v), 9), x-6, y+4, "e") // a label, so that it lies above the lines
	}

	var texts []string
	for i := range stations + 1 {
		texts = append(texts, strings.ReplaceAll(s.say(s.value(float64(i)/stations)), "|", "/"))
	}
	h := Handle{Axis: s.Label, X: at(x), Top: at(top), Low: at(bottom), Texts: strings.Join(texts, "|")}
	c.Handles = append(c.Handles, h)
	h.Upper, h.Texts = true, ""
	c.Handles = append(c.Handles, h)
}

// Spark is the path of a curve without axes in a box of so many pixels; empty of fewer than two numbers. It goes from 0
// to high, or, where that is 0, from the least number to the greatest.
func Spark(values []float64, high, w, h float64) string {
	a := Axis{High: high}
	if high == 0 {
		a.fit(values)
	}
	n := 0
	var p pen
	for i, v := range values {
		if finite(v) {
			n++
			p.next(2+float64(i)*(w-4)/float64(max(1, len(values)-1)), scale{a, h - 2, 2}.at(v))
		}
	}
	if n < 2 {
		return ""
	}
	return p.String()
}
