package plot

// Bar is a row of a chart of bars.
type Bar struct {
	Label string
	Parts []Part
	Note  string  // written behind it
	Limit float64 // a line across the bar; 0 without
}

// Part is a piece of a bar.
type Part struct {
	Class string
	Value float64
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
	noteWidth = 6.4 // of a character
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
			sum := 0.0
			for _, p := range row.Parts {
				sum += positive(p.Value)
			}
			// of the width, for what is written behind the bar
			share := noteWidth * float64(len([]rune(row.Note))+1) / (c.W - 14 - b.Room)
			b.X.High = max(b.X.High, sum/max(0.3, 1-share), positive(row.Limit)*1.05)
		}
		if b.X.High <= 0 {
			b.X.High = 1
		}
	}

	s := c.rowsFrame(b.X, max(1, len(b.Bars)), barHeight, b.Room, c.W-14)
	for i, row := range b.Bars {
		y := float64(i*barHeight) + 4
		c.label(clip(row.Label, int(b.Room/6.6)), b.Room-8, y+12, "e")
		sum := 0.0
		for _, p := range row.Parts {
			x := s.at(sum)
			sum += positive(p.Value)
			if w := s.at(sum) - x; w > 0 {
				c.mark(p.Class, box(x, y, w, barHeight-8))
			}
		}
		if row.Limit > 0 && finite(row.Limit) {
			x := s.at(row.Limit)
			c.mark("limit", line(x, y-3, x, y+barHeight-5))
		}
		if row.Note != "" {
			x, class := s.at(sum)+5, "l"
			// The note does not go through the line of the limit
			if limit := s.at(row.Limit); row.Limit > 0 && finite(row.Limit) && limit > s.at(sum)-2 {
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
