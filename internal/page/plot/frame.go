package plot

// frame is the inner part of a chart, between its axes.
type frame struct {
	chart                    *Chart
	left, right, top, bottom float64
	x, y                     scale
}

// newFrame draws the grid of a chart with two axes, and leaves a margin at the right for names.
func newFrame(c *Chart, x, y Axis, margin float64) *frame {
	f := &frame{chart: c, left: 52, right: c.W - 14 - margin, top: 26, bottom: c.H - 38}
	f.x = scale{x, f.left, f.right}
	f.y = scale{y, f.bottom, f.top}

	ticks := 5
	if f.bottom-f.top < 90 {
		ticks = 2
	}
	for _, v := range f.y.ticks(ticks) {
		py := f.y.at(v)
		c.Ticks = append(c.Ticks,
			Tick{line(f.left, py, f.right, py), Text{at(f.left - 6), at(py + 4), "e", None, clip(f.y.say(v), 9)}})
	}
	c.along(f.x, 75, f.bottom, f.bottom+4, f.bottom+17)
	c.label(y.Label, 4, 14, "a")
	c.label(x.Label, f.right, c.H-6, "a e")
	return f
}

// levels draws a line across at each value that is in sight.
func (f *frame) levels(values []float64) {
	for _, y := range values {
		if f.y.Low < y && y < f.y.High {
			f.chart.mark("zero", line(f.left, f.y.at(y), f.right, f.y.at(y)))
		}
	}
}

// along draws a horizontal axis: about every so many pixels a line from top to bottom, and its number below, unless it
// would lie on the one before.
func (c *Chart) along(s scale, every, top, bottom, number float64) {
	last := -1e9
	for _, v := range s.ticks(max(2, int((s.to-s.from)/every))) {
		x, text := s.at(v), clip(s.say(v), 18)
		half := 3.6 * float64(len([]rune(text)))
		if x-half < last {
			text = ""
		} else {
			last = x + half
		}
		c.Ticks = append(c.Ticks,
			Tick{line(x, top, x, bottom), Text{at(min(max(x, half+1), c.W-half-2)), at(number), "m", None, text}})
	}
}

// rowsFrame begins a chart of rows, one below the other, with names of so much room on the left and one axis below.
func (c *Chart) rowsFrame(x Axis, rows int, height, left, right float64) scale {
	c.H = height*float64(rows) + 38
	s := scale{x, left, right}
	bottom := c.H - 34
	c.along(s, 75, 2, bottom, bottom+14)
	c.label(x.Label, s.to, c.H-4, "a e")
	return s
}

// mark adds a path that belongs to no trial, label a text.
func (c *Chart) mark(class, d string) { c.Marks = append(c.Marks, Mark{class, None, d}) }

func (c *Chart) label(text string, x, y float64, class string) {
	c.Labels = append(c.Labels, Text{at(x), at(y), class, None, text})
}

// clip shortens a text to n characters; what was cut off is in the table.
func clip(text string, n int) string {
	r := []rune(text)
	if len(r) <= n {
		return text
	}
	return string(r[:n-1]) + "…"
}

// shrink leaves at most n of the values, the first and the last among them, as evenly as it can.
func shrink[T any](values []T, n int) []T {
	if len(values) <= n || n < 2 {
		return values
	}
	out := make([]T, 0, n)
	for i := range n {
		out = append(out, values[i*(len(values)-1)/(n-1)])
	}
	return out
}
