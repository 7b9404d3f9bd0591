package plot

import "strings"

// Span is a time in a row.
type Span struct {
	Trial    int
	Row      int
	From, To float64 // seconds
	Class    string
	Text     string // written into it where there is room
	Start    string // class of a mark at its beginning, if any
	Stop     string // and at its end
}

// Arrow leads from the end of one span to the beginning of another.
type Arrow struct {
	Trial    int
	From, To int // indices of Spans
}

// Gantt is a chart of what happened when, in rows under headings.
type Gantt struct {
	Chart
	X      Axis
	Rows   []GanttRow
	Spans  []Span
	Arrows []Arrow
}

// GanttRow is a row; rows of one group stand under one heading.
type GanttRow struct{ Group, Label string }

const (
	rowHeight   = 20
	groupHeight = 22
	ganttLeft   = 108
)

// Draw draws it, as high as its rows are many.
func (g *Gantt) Draw() *Chart {
	c := g.Chart
	c.Wide = true
	var ends []float64
	for _, s := range g.Spans {
		ends = append(ends, s.From, s.To)
	}
	if g.X.High <= g.X.Low {
		g.X.fit(ends)
	}

	// Rows from the top down, with a heading where a group begins.
	tops := make([]float64, len(g.Rows))
	y, group := 4.0, ""
	for i, r := range g.Rows {
		if i == 0 || r.Group != group {
			group = r.Group
			c.label(Clip(group, 90), 4, y+14, "a")
			y += groupHeight
		}
		tops[i] = y
		c.label(Clip(r.Label, 14), ganttLeft-8, y+13, "e")
		y += rowHeight
	}
	c.H = y + 36
	s := scale{g.X, ganttLeft, c.W - 14}
	c.along(s, 108, 20, y+4, y+18)
	c.label(g.X.Label, c.W-14, c.H-4, "a e")

	for _, span := range g.Spans {
		if !finite(span.From, span.To) || span.Row < 0 || span.Row >= len(tops) {
			continue
		}
		x, top := s.at(span.From), tops[span.Row]
		w := max(1.5, s.at(span.To)-x)
		c.Marks = append(c.Marks, Mark{span.Class, span.Trial, box(x, top+2, w, rowHeight-4)})
		if span.Start != "" {
			c.point(span.Start, span.Trial, x, top+rowHeight/2)
		}
		if span.Stop != "" {
			c.point(span.Stop, span.Trial, x+w, top+rowHeight/2)
		}
		// A text of about 8 pixels a letter, only where the span is as wide.
		if w > 8*float64(len([]rune(span.Text)))+4 && span.Text != "" {
			c.Labels = append(c.Labels,
				Text{at(x + w/2), at(top + 14), "in m on-" + strings.TrimPrefix(span.Class, "at "), span.Trial,
					span.Text})
		}
	}
	for _, a := range g.Arrows {
		from, to := g.Spans[a.From], g.Spans[a.To]
		if finite(from.To, to.From) {
			c.Marks = append(c.Marks,
				Mark{"take", a.Trial, line(s.at(from.To), tops[from.Row]+rowHeight/2, s.at(to.From), tops[to.Row]+
					rowHeight/2)})
		}
	}
	return &c
}
