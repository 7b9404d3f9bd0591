package search

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"

	"coppice/internal/sweep"
)

// gridWalk enumerates the Cartesian product of a grid, with names ascending and the last name changing fastest.
type gridWalk struct {
	grid  map[string][]any
	names []string
	size  uint64 // number of configurations; 0 without a grid
	at    uint64 // index of the next one
}

func newGridWalk(grid map[string][]any) (*gridWalk, error) {
	w := &gridWalk{grid: grid, names: slices.Sorted(maps.Keys(grid)), size: 1}
	for _, name := range w.names {
		over, n := bits.Mul64(w.size, uint64(len(grid[name])))
		if w.size = n; over != 0 || n > maxGrid {
			return nil, &SpecError{Part: "grid", Err: fmt.Errorf("it has more than %d configurations; shorten it or "+
				"use random", maxGrid)}
		}
	}
	if len(w.names) == 0 {
		w.size = 0
	}
	return w, nil
}

// next returns the next configuration and its number, or nil at the end.
func (w *gridWalk) next() (sweep.Params, uint64) {
	if w.at >= w.size {
		return nil, w.size
	}
	number := w.at
	w.at++

	// The digits of the point's number select its values.
	params := sweep.Params{}
	for rest, j := number, len(w.names)-1; j >= 0; j-- {
		values := w.grid[w.names[j]]
		params[w.names[j]] = values[rest%uint64(len(values))]
		rest /= uint64(len(values))
	}
	return params, number
}
