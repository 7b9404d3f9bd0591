package plot

import "math"

// Slab is a range of a histogram.
type Slab struct {
	Low, High float64
	Share     float64 // of all rows
	Class     string
}

// Histogram is a chart of how numbers are spread: the area over a range is its share.
type Histogram struct {
	Chart
	X     Axis
	Slabs []Slab // ascending, side by side
}

// thinnest is the width of a range of one number.
const thinnest = 3

// Draw draws it. There is no axis of heights: what counts is one range beside another.
func (h *Histogram) Draw() *Chart {
	c := h.Chart
	var ends []float64
	for _, s := range h.Slabs {
		if finite(s.Low, s.High) {
			ends = append(ends, s.Low, s.High)
		}
	}
	if len(ends) == 0 {
		return &c
	}
	h.X.fit(ends)
	left, right, top, bottom := 10.0, c.W-10, 6.0, c.H-22
	s := scale{h.X, left, right}

	// A range of one number is as wide as can be seen.
	width := func(b Slab) float64 { return max(thinnest, s.at(b.High)-s.at(b.Low)) }
	most := 0.0
	for _, b := range h.Slabs {
		if finite(b.Low, b.High, b.Share) {
			most = max(most, b.Share/width(b))
		}
	}
	last := math.Inf(-1)
	for _, v := range s.ticks(max(2, int((right-left)/70))) {
		x, text := s.at(v), s.say(v)
		room := 3.4 * float64(len([]rune(text)))
		if x-room < last {
			continue
		}
		last = x + room
		c.Ticks = append(c.Ticks,
			Tick{line(x, bottom, x, bottom+4), Text{at(min(max(x, room+1), c.W-room-1)), at(bottom + 16), "m", None,
				clip(text, 14)}})
	}
	c.Ticks = append(c.Ticks, Tick{D: line(left, bottom, right, bottom), Text: Text{Trial: None}})
	for _, b := range h.Slabs {
		if !finite(b.Low, b.High, b.Share) || most == 0 || b.Share <= 0 {
			continue
		}
		w := width(b)
		height := max(1, (bottom-top)*b.Share/w/most)
		c.Marks = append(c.Marks, Mark{b.Class, None, box(min(s.at(b.Low), right-w), bottom-height, max(1, w-0.6),
			height)})
	}
	return &c
}
