package plot

// Bar is a row of a chart of bars.
type Bar struct {
	Label string
	Class string
	Value float64
	Note  string  // written behind it
	Limit float64 // a line across the bar; 0 without
}

// Bars is a chart of horizontal bars.
type Bars struct {
	Chart
	X    Axis
	Bars []Bar
	// Room is the width of the labels, of 150 where it is 0.
	Room float64
}

const (
	barHeight = 22
	noteWidth = 6.9 // of a character
)

// Draw draws it, as high as its rows are many.
func (b *Bars) Draw() *Chart {
	c := b.Chart
	if b.Room == 0 {
		b.Room = 150
	}
	if b.X.High <= b.X.Low {
		b.X.Low = 0
		for _, row := range b.Bars {
			// of the width, for what is written behind the bar
			share := noteWidth * float64(len([]rune(row.Note))+1) / (c.W - 14 - b.Room)
			b.X.High = max(b.X.High, positive(row.Value)/max(0.3, 1-share), positive(row.Limit)*1.05)
		}
		if b.X.High <= 0 {
			b.X.High = 1
		}
	}

	s := c.rowsFrame(b.X, max(1, len(b.Bars)), barHeight, b.Room, c.W-14)
	for i, row := range b.Bars {
		y := float64(i*barHeight) + 4
		c.label(within(row.Label, b.Room-10, 6.9), b.Room-8, y+12, "e")
		end := s.at(positive(row.Value))
		if w := end - s.at(0); w > 0 {
			c.mark(row.Class, box(s.at(0), y, w, barHeight-8))
		}
		if row.Limit > 0 && finite(row.Limit) {
			x := s.at(row.Limit)
			c.mark("limit", line(x, y-3, x, y+barHeight-5))
		}
		if row.Note != "" {
			x, class := end+5, "l"
			// The note does not go through the line of the limit
			if limit := s.at(row.Limit); row.Limit > 0 && finite(row.Limit) && limit > end-2 {
				width := noteWidth * float64(len([]rune(row.Note)))
				if x+width > limit-4 || limit+5 <= c.W-14-width {
					x = limit + 5
				}
			}
			if x > c.W-14-noteWidth*float64(len([]rune(row.Note))) {
				x, class = c.W-14, "l e"
			}
			c.label(clip(row.Note, 40), x, y+12, class)
		}
	}
	return &c
}

func positive(v float64) float64 {
	if !finite(v) || v < 0 {
		return 0
	}
	return v
}

// Range is a row: a value with the interval that it may lie in.
type Range struct {
	Label, Note string
	Class       string  // of the point
	Value       float64 // the point
	Low, High   float64 // the interval; twice the same number is none
	Before      float64 // a second, paler point: what the value was; NaN without
}

// Ranges is a chart of values with intervals, one below the other.
type Ranges struct {
	Chart
	X    Axis
	Rows []Range
	// Line is where a vertical line marks what values are compared with; NaN without.
	Line float64
	// Room is the width of the labels, NoteRoom that of what is written behind.
	Room, NoteRoom float64
}

// Draw draws it, as high as its rows are many.
func (r *Ranges) Draw() *Chart {
	c := r.Chart
	if len(r.Rows) == 0 {
		return &c
	}
	all := []float64{r.Line}
	for _, row := range r.Rows {
		all = append(all, row.Value, row.Before)
		if row.Low != row.High {
			all = append(all, row.Low, row.High)
		}
	}
	r.X.fit(all)

	s := c.rowsFrame(r.X, len(r.Rows), barHeight, r.Room, c.W-14-r.NoteRoom)
	if finite(r.Line) {
		c.mark("zero", line(s.at(r.Line), 0, s.at(r.Line), c.H-34))
	}

	for i, row := range r.Rows {
		y := float64(i*barHeight) + 11
		c.label(within(row.Label, r.Room-14, 7), r.Room-10, y+4, "e")
		if row.Low != row.High && finite(row.Low, row.High) {
			c.mark("iv "+row.Class, line(s.at(row.Low), y, s.at(row.High), y))
		}
		if finite(row.Before) {
			c.mark("dot pale", dot(s.at(row.Before), y))
		}
		if finite(row.Value) {
			c.mark("dot "+row.Class, dot(s.at(row.Value), y))
		}
		if row.Note != "" {
			c.label(within(row.Note, r.NoteRoom, 6.2), c.W-8, y+4, "e")
		}
	}
	return &c
}
