package plot

import "math"

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
		c.label(clip(row.Label, int(s.Room/6.2)), s.Room-10, y+4, "e")
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
