package plot

import (
	"cmp"
	"math"
	"slices"
)

// Point is one trial, version or the like.
type Point struct {
	Trial int
	X, Y  float64
	Class string // how it is painted; x as its last letter is drawn as a cross
}

// Scatter is a chart of points.
type Scatter struct {
	Chart
	X, Y   Axis
	Points []Point
	// Best draws the best value so far, along X: +1 of the highest, -1 of the lowest.
	Best int
}

// Draw draws it.
func (s *Scatter) Draw() *Chart {
	c := s.Chart
	xs, ys := make([]float64, len(s.Points)), make([]float64, len(s.Points))
	for i, p := range s.Points {
		xs[i], ys[i] = p.X, p.Y
	}
	s.X.fit(xs)
	s.Y.fit(ys)
	f := newFrame(&c, s.X, s.Y)

	if s.Best != 0 {
		c.steps(f, s.Points, s.Best)
	}
	stacked := map[[2]float64]int{}
	for _, q := range s.Points {
		if !finite(q.X, q.Y) {
			continue
		}
		x, y := f.x.at(q.X), f.y.at(q.Y)
		if s.X.Categories != nil { // beside each other rather than on each other
			x += spreadOut(stacked, x, y, (f.right-f.left)/float64(len(s.X.Categories)))
		}
		if s.Y.Categories != nil {
			y += spreadOut(stacked, y, x, (f.bottom-f.top)/float64(len(s.Y.Categories)))
		}
		c.point(q.Class, q.Trial, x, y)
	}
	return &c
}

// spreadOut moves the second, third ... mark near a place within its category: alternately to both sides.
func spreadOut(stacked map[[2]float64]int, along, across, room float64) float64 {
	key := [2]float64{math.Round(along), math.Round(across / 4)}
	n := stacked[key]
	stacked[key]++
	side := float64(1 - 2*(n%2))
	return side * math.Mod(float64((n+1)/2)*5, max(5, 0.4*room))
}

func (c *Chart) point(class string, trial int, x, y float64) {
	d := dot(x, y)
	if class != "" && class[len(class)-1] == 'x' {
		d = cross(x, y, 3.5)
	}
	c.Marks = append(c.Marks, Mark{class, trial, d})
}

func (c *Chart) add(class string, trial int, p pen) {
	if len(p) > 0 {
		c.Marks = append(c.Marks, Mark{class, trial, p.String()})
	}
}

// command begins a path or goes on.
func command(p pen) byte {
	if len(p) == 0 {
		return 'M'
	}
	return 'L'
}

// steps draws the best so far.
func (c *Chart) steps(f *frame, points []Point, sign int) {
	points = slices.DeleteFunc(slices.Clone(points), func(p Point) bool { return !finite(p.X, p.Y) })
	slices.SortStableFunc(points, func(a, b Point) int { return cmp.Compare(a.X, b.X) })
	var p pen
	best := math.Inf(-sign)
	for _, q := range points {
		if (q.Y-best)*float64(sign) <= 0 {
			continue
		}
		if len(p) > 0 {
			p.to('L', f.x.at(q.X), f.y.at(best))
		}
		best = q.Y
		p.to(command(p), f.x.at(q.X), f.y.at(best))
	}
	if len(p) > 0 {
		p.to('L', f.right, f.y.at(best))
	}
	c.add("best", None, p)
}

// Swarm is a chart of many points in rows, those near each other piled up: the beeswarm of SHAP values (Lundberg et
// al., 2020).
type Swarm struct {
	Chart
	X    Axis
	Rows []SwarmRow
	Room float64 // of the labels
}

// SwarmRow is a row of it. Points of one class are one mark.
type SwarmRow struct {
	Label  string
	Points []SwarmPoint
}

// SwarmPoint is a point with its place in an order, by which it is coloured: 0 is the lowest, 1 the highest; NaN has
// none.
type SwarmPoint struct{ X, Rank float64 }

const (
	swarmHeight = 30
	swarmDot    = 4.0 // how far apart points of a pile are, and how wide a pile is
)

// swarmClasses colour the fifths of the ranks; the last is of points without one.
var swarmClasses = []string{"dots q0", "dots q2", "dots q4", "dots q6", "dots q7", "dots n5"}

// Draw draws it, as high as its rows are many.
func (s *Swarm) Draw() *Chart {
	c := s.Chart
	if len(s.Rows) == 0 {
		return &c
	}
	all := []float64{0}
	for _, row := range s.Rows {
		for _, p := range row.Points {
			all = append(all, p.X)
		}
	}
	s.X.fit(all)

	x := c.rowsFrame(s.X, len(s.Rows), swarmHeight, s.Room, c.W-14)
	c.mark("zero", line(x.at(0), 0, x.at(0), c.H-34))

	for i, row := range s.Rows {
		y := float64(i*swarmHeight) + 2 + swarmHeight/2
		c.label(within(row.Label, s.Room-12, 7), s.Room-10, y+4, "e")
		c.pile(row.Points, x, y)
	}
	for i, name := range []string{"lowest values", "", "middle", "", "highest", "none, or a category"} {
		if name != "" {
			c.Keys = append(c.Keys, Key{"key " + swarmClasses[i], name})
		}
	}
	return &c
}

// pile draws the points of a row: of those near each other the first lies in the middle, the next ones above and below.
func (c *Chart) pile(points []SwarmPoint, x scale, y float64) {
	pens := make([]pen, len(swarmClasses))
	high := map[int]int{}
	for _, p := range points {
		if !finite(p.X) {
			continue
		}
		place := int(math.Round(x.at(p.X) / swarmDot))
		n := high[place]
		high[place]++

		// What does not fit into the row lies on what is there.
		const most = swarmHeight/2 - 2
		off := min(most, float64((n+1)/2)*swarmDot/2)
		if n%2 == 1 {
			off = -off
		}
		class := len(swarmClasses) - 1
		if finite(p.Rank) {
			class = min(len(swarmClasses)-2, max(0, int(p.Rank*float64(len(swarmClasses)-1))))
		}
		pens[class].to('M', x.at(p.X), y+off)
		pens[class] = append(pens[class], "h0"...)
	}
	// Those in the middle lie beneath, lest the highest values hide the others.
	for _, class := range []int{5, 2, 1, 3, 0, 4} {
		c.add(swarmClasses[class], None, pens[class])
	}
}
