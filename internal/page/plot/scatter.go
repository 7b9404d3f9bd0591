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

// point marks a place: by a cross, or by a line of no length, which round caps make a disc.
func (c *Chart) point(class string, trial int, x, y float64) {
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
		c.Marks = append(c.Marks, Mark{class, trial, p.String()})
	}
}

// dotClasses colour the fifths of the ranks; the last is of points without one.
var dotClasses = []string{"dots q0", "dots q2", "dots q4", "dots q6", "dots q7", "dots n5"}

// Strip draws values as dots in a row of a table, from low to high in a box of so many pixels, those of one fifth of
// the ranks as one mark: 0 is the lowest rank, 1 the highest; NaN has none.
func Strip(values, ranks []float64, low, high, w, h float64) (marks []Mark) {
	x := scale{Axis{Low: low, High: high}, 3, w - 3}
	pens := make([]pen, len(dotClasses))
	for i, v := range values {
		if !finite(v) {
			continue
		}
		class := len(dotClasses) - 1
		if finite(ranks[i]) {
			class = min(len(dotClasses)-2, max(0, int(ranks[i]*float64(len(dotClasses)-1))))
		}
		pens[class].to('M', x.at(v), 3+math.Mod(float64(5*i), h-6))
		pens[class] = append(pens[class], "h0"...)
	}
	marks = append(marks, Mark{"g", None, line(x.at(0), 0, x.at(0), h)})
	// Those in the middle lie beneath, lest the highest values hide the others.
	for _, class := range []int{5, 2, 1, 3, 0, 4} {
		if len(pens[class]) > 0 {
			marks = append(marks, Mark{dotClasses[class], None, pens[class].String()})
		}
	}
	return marks
}
