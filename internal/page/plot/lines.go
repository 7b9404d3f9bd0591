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
	stacked := map[[2]float64]int{}
	for _, q := range l.Points {
		if !allFinite(q.X, q.Y) {
			continue
		}
		x, y := f.x.at(q.X), f.y.at(q.Y)
		if l.X.Categories != nil { // beside each other rather than on each other
			x += spreadOut(stacked, x, y, (f.right-f.left)/float64(len(l.X.Categories)))
		}
		c.addPoint(q.Class, q.Trial, x, y)
	}
	return &c
}

// drawCurve draws one, over the intervals around its points; it is interrupted where there is no value. Intervals and
// dots are one path each.
func (c *Chart) drawCurve(f *frame, s Line) {
	var p, dots, whiskers pen
	var x, y float64
	gap := true
	for i := range s.X {
		if !allFinite(s.X[i], s.Y[i]) {
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
		c.addPoint(s.End, s.Trial, x, y)
	}
	if s.Peak >= 0 && s.Peak < len(s.X) && allFinite(s.X[s.Peak], s.Y[s.Peak]) {
		c.addPoint("peak", s.Trial, f.x.at(s.X[s.Peak]), f.y.at(s.Y[s.Peak]))
	}
}

// Spark is the path of a curve without axes in a box of so many pixels; empty of fewer than two numbers. It goes from 0
// to high, or, where that is 0, from the least number to the greatest.
func Spark(values []float64, high, w, h float64) string {
	a := Axis{High: high}
	if high == 0 {
		a.fitRange(values)
	}
	n := 0
	var p pen
	for i, v := range values {
		if allFinite(v) {
			p.to(map[bool]byte{true: 'M', false: 'L'}[n == 0], 2+float64(i)*(w-4)/float64(max(1, len(values)-1)),
				scale{a, h - 2, 2}.at(v))
			n++
		}
	}
	if n < 2 {
		return ""
	}
	return p.String()
}
