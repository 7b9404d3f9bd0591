package plot

import "strconv"

// Grid is a chart of cells whose rows and columns have the same names, as of a confusion matrix.
type Grid struct {
	Chart
	X, Y  string // what columns and rows are
	Names []string
	Cells [][]Cell // of each row those of all columns
	// Room is the width of the rows' names.
	Room float64
}

// Cell is one of them; without a class nothing is drawn.
type Cell struct{ Class, Text string }

const (
	cellHeight = 26
	cellsTop   = 44
)

// Draw draws it, as high as its rows are many. Where a column is narrower than a name, rows and columns are numbered:
// names that stand upright are hard to read.
func (g *Grid) Draw() *Chart {
	c, n := g.Chart, len(g.Names)
	if n == 0 {
		return &c
	}
	left, right := g.Room, c.W-14
	width := (right - left) / float64(n)
	bottom := float64(cellsTop + n*cellHeight)
	c.H = bottom + 8

	numbered := false
	for _, name := range g.Names {
		numbered = numbered || within(name, width-6, 7.2) != name
	}
	c.label(g.Y, 4, 14, "a")
	c.label(g.X, right, 14, "a e")
	for i, name := range g.Names {
		x, y := left+float64(i)*width, float64(cellsTop+i*cellHeight)
		c.Ticks = append(c.Ticks, Tick{D: line(left, y, right, y)}, Tick{D: line(x, cellsTop, x, bottom)})
		end, column := left-8, name
		if numbered {
			column = strconv.Itoa(i + 1)
			c.label(column, end, y+17, "e")
			end -= 24
		}
		c.label(within(name, end-4, 6.9), end, y+17, "e")
		c.label(column, x+width/2, cellsTop-8, "m")
		for j, cell := range g.Cells[i] {
			if x := left + float64(j)*width; cell.Class != "" {
				c.mark(cell.Class, box(x, y, width, cellHeight))
				c.label(cell.Text, x+width/2, y+17, "l m")
			}
		}
	}
	c.Ticks = append(c.Ticks, Tick{D: line(left, bottom, right, bottom)}, Tick{D: line(right, cellsTop, right, bottom)})
	return &c
}
