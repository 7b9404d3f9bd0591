package plot

import "math"

// Point is one trial, version or the like.
type Point struct {
	Trial int
	X, Y  float64
	Class string // how it is painted; x as its last letter is drawn as a cross
}

// spreadOut returns by how many pixels to move a mark sideways so that it does not hide earlier ones near the same
// place: 0 for the first, and -5, 5, -10, 10 and so on for those that follow, within 40 % of the width of the category.
// More marks than fit there begin again at 0. The mark is at x, y in pixels; marks whose y differs by less than about 4
// count as near. stacked counts the marks at each place and is changed.
func spreadOut(stacked map[[2]float64]int, x, y, width float64) float64 {
	key := [2]float64{math.Round(x), math.Round(y / 4)}
	n := stacked[key]
	stacked[key]++
	side := float64(1 - 2*(n%2))
	return side * math.Mod(float64((n+1)/2)*5, max(5, 0.4*width))
}

// addPoint marks a place in pixels: by a cross if the class ends in x, or else by a line of no length, which the round
// line caps of the style sheet turn into a disc.
func (c *Chart) addPoint(class string, trial int, x, y float64) {
	var p pen
	if class != "" && class[len(class)-1] == 'x' {
		p.to('M', x-3.5, y-3.5).to('l', 7, 7).to('m', -7, 0).to('l', 7, -7)
	} else {
		p = append(*p.to('M', x, y), "h0"...)
	}
	c.add(class, trial, p)
}

// add adds a path to the chart's marks, unless it is empty.
func (c *Chart) add(class string, trial int, p pen) {
	if len(p) > 0 {
		c.Marks = append(c.Marks, Drawn{class, trial, p.String()})
	}
}
