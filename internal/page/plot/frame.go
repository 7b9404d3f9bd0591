package plot

// frame is the inner part of a chart, between its axes.
type frame struct {
	chart                    *Chart
	left, right, top, bottom float64
	x, y                     scale
}

// newFrame draws the grid of a chart with two axes.
func newFrame(c *Chart, x, y Axis) *frame {
	f := &frame{chart: c, left: 52, right: c.W - 14 - c.margin, top: 26, bottom: c.H - 38}
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
	last := -1e9
	for _, v := range f.x.ticks(max(2, int((f.right-f.left)/75))) {
		px := f.x.at(v)
		text := f.x.say(v)
		room := 3.6 * float64(len([]rune(text)))
		if px-room < last { // it would lie on the one before
			text = ""
		} else {
			last = px + room
		}
		c.Ticks = append(c.Ticks, Tick{line(px, f.bottom, px, f.bottom+4),
			Text{at(min(px, c.W-room-2)), at(f.bottom + 17), "m", None, clip(text, 18)}})
	}
	c.Labels = append(c.Labels, Text{"4", "14", "a", None, y.Label}, Text{at(f.right), at(c.H - 6), "a e", None,
		x.Label})
	return f
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
