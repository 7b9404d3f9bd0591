package plot

import (
	"slices"
	"strings"
)

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
	c.Wide, c.Hands = true, true
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
			p.to(command(p), xs[i], y)
		}
		c.add(t.Class, t.Trial, p)
	}
	return &c
}

// axis draws one, with its name above (every second one higher, so that names do not meet) and its two handles.
func (c *Chart) axis(s *scale, x, top, bottom float64, number int) {
	c.label(clip(s.Label, 20), x, 16+18*float64(number%2), "a m")
	c.Ticks = append(c.Ticks, Tick{line(x, top, x, bottom), Text{Trial: None}})
	for _, v := range s.ticks(4) {
		y := s.at(v)
		c.Ticks = append(c.Ticks, Tick{D: line(x-3, y, x+3, y)})
		c.label(clip(s.say(v), 9), x-6, y+4, "e") // a label, so that it lies above the lines
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
