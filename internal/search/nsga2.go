package search

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Constants of NSGA-II (Deb et al. 2002). The distribution indices are lower than in the paper, whose populations are
// larger and live longer: children differ more from their parents.
const (
	parents        = 12 // the population, and the trials before the first child
	crossoverShare = 0.9
	crossoverIndex = 2
	mutationIndex  = 4
	maxChildren    = 200 // before a configuration is drawn at random
)

// parent is a member of the population.
type parent struct {
	observation
	front    int     // 0 is not dominated
	crowding float64 // how far its neighbours on the front are; larger is better
}

// fromNSGA2 crosses and mutates two of the best trials. It is steady-state: each child is born from the best that have
// ended by then, so that no task waits for a generation. With one objective it is a genetic algorithm.
func (a *asker) fromNSGA2() *proposal {
	if len(a.history.finished) < 2 || a.next < parents {
		return a.fromPoints(SourceHalton,
			fmt.Sprintf("a point of the sequence that fills the space evenly: the first generation are %d", parents))
	}
	population := a.population()

	rng := rand.New(rand.NewPCG(a.Seed, uint64(a.next)))
	for range maxChildren {
		x, y := tournament(rng, population), tournament(rng, population)
		child := a.cross(rng, x, y)
		a.vary(rng, child)
		if params := a.config(child); a.usable(params) {
			return &proposal{params, SourceNSGA2,
				fmt.Sprintf("a child of trials %d and %d, of fronts %d and %d among the best %d of %d results",
					x.trial, y.trial, x.front+1, y.front+1, len(population), len(a.history.finished))}
		}
	}
	return a.fromRandom()
}

// losses returns the values of a result that are to be low.
func (a *asker) losses(o *observation) []float64 {
	if len(a.Goals) == 0 {
		return []float64{-o.score}
	}
	out := make([]float64, len(a.Goals))
	for g, goal := range a.Goals {
		out[g] = goal.Loss(o.values[g])
	}
	return out
}

// population returns the best results: front by front and, of the last, those with the most room around them.
func (a *asker) population() []parent {
	rest := make([]int, len(a.history.finished))
	losses := make([][]float64, len(rest))
	for i := range rest {
		rest[i], losses[i] = i, a.losses(&a.history.finished[i])
	}
	// In this order no result is dominated by a later one.
	slices.SortStableFunc(rest, func(i, k int) int { return slices.Compare(losses[i], losses[k]) })

	scaled := evened(losses)
	var out []parent
	for number := 0; len(rest) > 0 && len(out) < parents; number++ {
		var front, dominated []int
		for _, i := range rest {
			if slices.ContainsFunc(front, func(k int) bool { return dominates(losses[k], losses[i]) }) {
				dominated = append(dominated, i)
			} else {
				front = append(front, i)
			}
		}
		crowding := crowdingOf(front, scaled)
		for n, i := range front {
			out = append(out, parent{a.history.finished[i], number, crowding[n]})
		}
		rest = dominated
	}

	slices.SortStableFunc(out, func(x, y parent) int {
		return cmp.Or(cmp.Compare(x.front, y.front), cmp.Compare(y.crowding, x.crowding))
	})
	return out[:min(len(out), parents)]
}

// dominates reports whether x is at least as low as y everywhere, and lower somewhere.
func dominates(x, y []float64) bool {
	lower := false
	for g := range x {
		if x[g] > y[g] {
			return false
		}
		lower = lower || x[g] < y[g]
	}
	return lower
}

// evened returns losses on scales on which distances can be compared, although sizes of models differ by orders of
// magnitude.
func evened(losses [][]float64) [][]float64 {
	out := make([][]float64, len(losses))
	for g := range losses[0] {
		one := make([]float64, len(losses))
		for i := range losses {
			one[i] = -losses[i][g]
		}
		for i, v := range warped(one) {
			out[i] = append(out[i], v)
		}
	}
	return out
}

// crowdingOf returns for each of a front the distance of its neighbours, summed over the objectives; the ends have the
// largest.
func crowdingOf(front []int, losses [][]float64) []float64 {
	out := make([]float64, len(front))
	order := make([]int, len(front))
	for g := range losses[0] {
		for n := range order {
			order[n] = n
		}
		at := func(n int) float64 { return losses[front[n]][g] }
		slices.SortStableFunc(order, func(n, m int) int { return cmp.Compare(at(n), at(m)) })

		last := len(order) - 1
		width := at(order[last]) - at(order[0])
		out[order[0]], out[order[last]] = math.Inf(1), math.Inf(1)
		for k := 1; k < last && width > 0; k++ {
			out[order[k]] += (at(order[k+1]) - at(order[k-1])) / width
		}
	}
	return out
}

// tournament returns the better of two members drawn at random; the population is sorted.
func tournament(rng *rand.Rand, population []parent) *parent {
	return &population[min(rng.IntN(len(population)), rng.IntN(len(population)))]
}

// cross returns a position between or around those of two parents (simulated binary crossover). A parameter that one of
// them lacks is the other's; one that both lack is drawn.
func (a *asker) cross(rng *rand.Rand, x, y *parent) []float64 {
	crossed := rng.Float64() < crossoverShare
	child := make([]float64, len(a.axes))
	for j := range a.axes {
		u, v := x.at[j], y.at[j]
		lackX, lackY := x.absent != nil && x.absent[j], y.absent != nil && y.absent[j]

		switch {
		case lackX && lackY:
			u = rng.Float64()
		case lackX:
			u = v
		case crossed && !lackY:
			if rng.IntN(2) == 0 {
				u, v = v, u
			}
			if a.axes[j].ordered && rng.IntN(2) == 0 {
				u = simulatedBinary(rng, u, v)
			}
		}

		child[j] = a.axes[j].inside(u)
	}
	return child
}

// simulatedBinary draws around the first of two numbers, the wider the farther apart they are.
func simulatedBinary(rng *rand.Rand, u, v float64) float64 {
	r := rng.Float64()
	spread := math.Pow(2*r, 1.0/(crossoverIndex+1))
	if r > 0.5 {
		spread = math.Pow(1/(2*(1-r)), 1.0/(crossoverIndex+1))
	}
	return ((1+spread)*u + (1-spread)*v) / 2
}

// vary mutates a position, on one axis on average (polynomial mutation). A number changes by one level at least.
func (a *asker) vary(rng *rand.Rand, at []float64) {
	for j := range at {
		axis := &a.axes[j]
		if axis.size == 1 || rng.Float64() > 1/float64(len(at)) {
			continue
		}
		if !axis.ordered {
			at[j] = rng.Float64()
			continue
		}

		r := rng.Float64()
		step := math.Pow(2*r, 1.0/(mutationIndex+1)) - 1
		if r > 0.5 {
			step = 1 - math.Pow(2*(1-r), 1.0/(mutationIndex+1))
		}
		if axis.size > 0 {
			step = math.Copysign(max(math.Abs(step), 1/float64(axis.size)), step)
		}
		at[j] = axis.inside(at[j] + step)
	}
}
