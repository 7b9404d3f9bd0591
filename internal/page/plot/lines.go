package plot

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

// The numbers of points that keep a page with many curves small.
const (
	mostPoints   = 12000 // of all curves of a chart together, as far as fewestPoints allows
	longestCurve = 52    // of one curve at most
	fewestPoints = 12    // of one curve at least, however many there are
)

// Kept is how many points of each of n curves are drawn at most.
func Kept(n int) int { return max(fewestPoints, min(longestCurve, mostPoints/max(1, n))) }

// Thin returns the points tx, ty of a curve that is thinned to n points, evenly spaced by index from the first to the
// last. n is at least 2. The point with the index keep is never left out, and may be one more; at is its index in the
// result, or -1 if keep is no index of x.
func Thin(x, y []float64, n, keep int) (tx, ty []float64, at int) {
	at, last := -1, -1
	for k := range min(n, len(x)) {
		j := k
		if len(x) > n {
			j = k * (len(x) - 1) / (n - 1)
		}
		// keep comes before the first point behind it. A point that is not behind the last one was added already.
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

// Draw returns the chart with its grid, lines and points drawn. Later lines lie over earlier ones, and points over
// lines. An axis of l without a range gets that of the data.
func (l *Plot) Draw() *Chart {
	c := l.Chart

	// The ranges of the axes have to hold everything that is drawn.
	var xs, ys []float64
	for _, s := range l.Lines {
		xs, ys = append(xs, s.X...), append(append(append(ys, s.Y...), s.Low...), s.High...)
	}
	for _, q := range l.Points {
		xs, ys = append(xs, q.X), append(ys, q.Y)
	}
	l.X.fitRange(xs)
	l.Y.fitRange(ys)
	f := newFrame(&c, l.X, l.Y)

	if l.Diagonal {
		low, high := max(l.X.Low, l.Y.Low), min(l.X.High, l.Y.High)
		c.Marks = append(c.Marks, Drawn{"diagonal", None, linePath(f.x.at(low), f.y.at(low), f.x.at(high),
			f.y.at(high))})
	}
	for _, s := range l.Lines {
		c.drawCurve(f, s)
	}

	// Points of one category lie beside each other where they would lie on each other.
	stacked := map[[2]float64]int{}
	for _, q := range l.Points {
		if !allFinite(q.X, q.Y) {
			continue
		}
		x, y := f.x.at(q.X), f.y.at(q.Y)
		if l.X.Categories != nil {
			x += spreadOut(stacked, x, y, (f.right-f.left)/float64(len(l.X.Categories)))
		}
		c.addPoint(q.Class, q.Trial, x, y)
	}
	return &c
}

// drawCurve adds a line to the chart: below it the intervals around its points, and over it its dots and the marks of
// its end and peak. The line is interrupted where a value is not finite. All intervals are one path, and so are all
// dots, which keeps the page small.
func (c *Chart) drawCurve(f *frame, s Line) {
	var p, dots, whiskers pen
	var x, y float64 // of the last point drawn
	gap := true      // the next point begins a new piece of the line
	for i := range s.X {
		if !allFinite(s.X[i], s.Y[i]) {
			gap = true
			continue
		}
		x, y = f.x.at(s.X[i]), f.y.at(s.Y[i])
		p.to(Either[byte](gap, 'M', 'L'), x, y)
		gap = false
		dots = append(*dots.to('M', x, y), "h0"...)
		if s.Low != nil {
			whiskers.to('M', x, f.y.at(s.Low[i])).to('L', x, f.y.at(s.High[i]))
		}
	}
	c.add("whisker "+s.Class, s.Trial, whiskers) // none if s has no intervals: add passes over an empty path
	c.add(s.Class, s.Trial, p)
	if s.Dots != "" {
		c.add(s.Dots, s.Trial, dots)
	}
	if s.End != "" && len(p) > 0 {
		c.addPoint(s.End, s.Trial, x, y)
	}
	if s.Peak >= 0 && s.Peak < len(s.X) && allFinite(s.X[s.Peak], s.Y[s.Peak]) {
		c.addPoint("peak", s.Trial, f.x.at(s.X[s.Peak]), f.y.at(s.Y[s.Peak]))
	}
}

// Either returns then if the condition holds, else otherwise.
func Either[T any](condition bool, then, otherwise T) T {
	if condition {
		return then
	}
	return otherwise
}

// Spark returns the path of a small curve without axes in a box of w by h pixels, with 2 pixels left free on each side.
// The box reaches from 0 to high, or, if high is 0, from the least value to the greatest, with the room that fitRange
// adds. Values that are not finite are passed over; of fewer than two others the path is empty.
func Spark(values []float64, high, w, h float64) string {
	a := Axis{High: high}
	if high == 0 {
		a.fitRange(values)
	}
	n := 0 // of points drawn
	var p pen
	for i, v := range values {
		if allFinite(v) {
			p.to(Either[byte](n == 0, 'M', 'L'), 2+float64(i)*(w-4)/float64(max(1, len(values)-1)),
				scale{a, h - 2, 2}.at(v))
			n++
		}
	}
	if n < 2 {
		return ""
	}
	return p.String()
}
