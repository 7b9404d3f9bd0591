package plot

import "math"

// Point is one trial, version or the like.
type Point struct {
	Trial int
	X, Y  float64
	Class string // how it is painted; x as its last letter is drawn as a cross
}

// spreadOut moves the second, third ... mark near a place within its category: alternately to both sides.
func spreadOut(stacked map[[2]float64]int, along, across, room float64) float64 {
	key := [2]float64{math.Round(along), math.Round(across / 4)}
	n := stacked[key]
	stacked[key]++
	side := float64(1 - 2*(n%2))
	return side * math.Mod(float64((n+1)/2)*5, max(5, 0.4*room))
}

// addPoint marks a place: by a cross, or by a line of no length, which round caps make a disc.
func (c *Chart) addPoint(class string, trial int, x, y float64) {
	var p pen
	if class != "" && class[len(class)-1] == 'x' {
		p.to('M', x-3.5, y-3.5).to('l', 7, 7).to('m', -7, 0).to('l', 7, -7)
	} else {
		p = append(*p.to('M', x, y), "h0"...)
	}
	c.add(class, trial, p)
}

func (c *Chart) add(class string, trial int, p pen) {
	if len(p) > 0 {
		c.Marks = append(c.Marks, Drawn{class, trial, p.String()})
	}
}
