package plot

const barHeight = 22

// Range is a row: a value with the interval that it may lie in.
type Range struct {
	Label, Note string
	Class       string  // of the point
	Value       float64 // the point
	Low, High   float64 // the interval; twice the same number is none
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
		all = append(all, row.Value)
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
		if finite(row.Value) {
			c.mark("dot "+row.Class, dot(s.at(row.Value), y))
		}
		if row.Note != "" {
			c.label(within(row.Note, r.NoteRoom, 6.2), c.W-8, y+4, "e")
		}
	}
	return &c
}
