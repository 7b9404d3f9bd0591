package plot

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
	c.along(s, 70, bottom, bottom+4, bottom+16)
	c.Ticks = append(c.Ticks, Tick{D: line(left, bottom, right, bottom), Text: Text{Trial: None}})
	for _, b := range h.Slabs {
		if !finite(b.Low, b.High, b.Share) || most == 0 || b.Share <= 0 {
			continue
		}
		w := width(b)
		height := max(1, (bottom-top)*b.Share/w/most)
		c.mark(b.Class, box(min(s.at(b.Low), right-w), bottom-height, max(1, w-0.6), height))
	}
	return &c
}
