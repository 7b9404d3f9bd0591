package plot

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
	c.H = float64(barHeight*len(r.Rows) + 38)
	all := []float64{r.Line}
	for _, row := range r.Rows {
		all = append(all, row.Value, row.Before)
		if row.Low != row.High {
			all = append(all, row.Low, row.High)
		}
	}
	r.X.fit(all)

	bottom := c.H - 34
	s := scale{r.X, r.Room, c.W - 14 - r.NoteRoom}
	for _, v := range s.ticks(max(2, int((s.to-s.from)/70))) {
		x := s.at(v)
		c.Ticks = append(c.Ticks, Tick{line(x, 2, x, bottom), Text{at(min(x, c.W-18)), at(bottom + 14), "m", None,
			s.say(v)}})
	}
	c.Labels = append(c.Labels, Text{at(s.to), at(c.H - 4), "a e", None, r.X.Label})
	if finite(r.Line) {
		c.Marks = append(c.Marks, Mark{"zero", None, line(s.at(r.Line), 0, s.at(r.Line), bottom)})
	}

	for i, row := range r.Rows {
		y := float64(i*barHeight) + 11
		c.Labels = append(c.Labels, Text{at(r.Room - 10), at(y + 4), "e", None, clip(row.Label, int(r.Room/6.2))})
		if row.Low != row.High && finite(row.Low, row.High) {
			c.Marks = append(c.Marks, Mark{"iv " + row.Class, None, line(s.at(row.Low), y, s.at(row.High), y)})
		}
		if finite(row.Before) {
			c.Marks = append(c.Marks, Mark{"dot pale", None, dot(s.at(row.Before), y)})
		}
		if finite(row.Value) {
			c.Marks = append(c.Marks, Mark{"dot " + row.Class, None, dot(s.at(row.Value), y)})
		}
		if row.Note != "" {
			c.Labels = append(c.Labels, Text{at(c.W - 8), at(y + 4), "e", None, clip(row.Note, int(r.NoteRoom/5.6))})
		}
	}
	return &c
}
