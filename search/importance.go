package search

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// Dimension is one parameter as the finished trials had it. Values of categories are their numbers, 0 to Categories-1; of numbers
// Categories is 0. A trial without the parameter has NaN, and says nothing about it.
type Dimension struct {
	Name       string
	Values     []float64
	Categories int
	Log        bool // drawn uniformly in the logarithm: so it is measured
}

// Weight is how much a parameter has to do with which trials are among the best.
type Weight struct {
	Name string
	// Share of all parameters' importances; they add up to 1.
	Share float64
	// Chance is what the parameter's importance, in the same unit, exceeds in one of twenty drawings of the best trials by lot. A
	// share that is not clearly above it says nothing.
	Chance float64
}

// How importances are measured.
const (
	bestShare     = 0.1 // of the trials count as the best
	fewestBest    = 8
	fewestTrials  = 3 * fewestBest
	gridCells     = 50
	chanceDraws   = 100
	chanceIsAbove = 0.95
	evenly        = 0.1 // of every density
)

// Importance ranks parameters by how differently the best trials are spread along each, compared with all of them: the Pearson
// divergence of two densities of one dimension (PED-ANOVA: Watanabe, Bansal and Hutter 2023), less what the divergence is on average
// when lots decide which trials are the best: that is much for a few trials and for a value that hardly any trial has. Dimensions and
// losses are of the same trials, in the same order; a lower loss is better. A parameter counts among the trials that have it; where these
// are too few it has no importance. The same input gives the same output, most important first.
func Importance(dims []Dimension, loss []float64) []Weight {
	order := make([]int, len(loss))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(loss[a], loss[b]) })

	var weights []Weight
	sum := 0.0
	for i := range dims {
		values := dims[i].ofThoseThatHaveIt(order)
		n := len(values)
		if n < fewestTrials {
			continue
		}
		m := newMarginal(values, dims[i].Categories, dims[i].Log)
		best := max(fewestBest, int(math.Ceil(bestShare*float64(n))))
		l := m.lots(n, best)
		w := Weight{Name: dims[i].Name, Share: max(0, m.divergence(upTo(best))-l.mean), Chance: max(0, l.high-l.mean)}
		weights = append(weights, w)
		sum += w.Share
	}
	if sum == 0 {
		return nil
	}
	for i := range weights {
		weights[i].Share /= sum
		weights[i].Chance /= sum
	}
	slices.SortStableFunc(weights, func(a, b Weight) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.Name, b.Name))
	})
	return weights
}

// ofThoseThatHaveIt are the values of the trials that have the parameter, in their order.
func (d *Dimension) ofThoseThatHaveIt(order []int) []float64 {
	values := make([]float64, 0, len(order))
	for _, t := range order {
		if !math.IsNaN(d.Values[t]) {
			values = append(values, d.Values[t])
		}
	}
	return values
}

// upTo are the numbers below n.
func upTo(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// lot is what a parameter's divergence is when lots decide which trials are the best.
type lot struct {
	mean float64
	high float64 // exceeded as seldom as chanceIsAbove says
}

// lots draws it, the same for every parameter that as many trials have.
func (s *marginal) lots(trials, best int) (out lot) {
	rng := rand.New(rand.NewPCG(uint64(trials), uint64(best)))
	var drawn []float64
	for range chanceDraws {
		drawn = append(drawn, s.divergence(rng.Perm(trials)[:best]))
	}

	for _, v := range drawn {
		out.mean += v / float64(len(drawn))
	}
	slices.Sort(drawn)
	out.high = drawn[int(chanceIsAbove*float64(len(drawn)))]
	return out
}

// marginal is how trials are spread along one dimension.
type marginal struct {
	at      []float64 // of each trial: its place on a grid, or the number of its category
	numbers bool
	cells   int
	all     []float64 // the density of all trials in each cell
}

func newMarginal(values []float64, categories int, logarithmic bool) *marginal {
	s := &marginal{at: values, numbers: categories == 0, cells: categories}
	if s.numbers {
		s.cells = gridCells
		s.toGrid(logarithmic)
	}
	s.all = s.density(upTo(len(s.at)))
	return s
}

// toGrid maps values to the places 0 to gridCells-1.
func (s *marginal) toGrid(logarithmic bool) {
	if logarithmic {
		s.toLog()
	}
	low, high := slices.Min(s.at), slices.Max(s.at)
	for i, v := range s.at {
		s.at[i] = 0
		if high > low {
			s.at[i] = math.Round((v - low) / (high - low) * (gridCells - 1))
		}
	}
}

// toLog takes logarithms. What has none, such as the 0 that switches something off, lies a little below the least that has.
func (s *marginal) toLog() {
	least := math.Inf(1)
	for _, v := range s.at {
		if v > 0 {
			least = min(least, v)
		}
	}
	for i, v := range s.at {
		if v <= 0 {
			v = least / math.E
		}
		s.at[i] = math.Log(v)
	}
	if math.IsInf(least, 1) { // nothing has a logarithm
		clear(s.at)
	}
}

// density is that of some trials over the cells: of numbers by normal kernels, of categories by their frequencies; both with a part
// that is spread evenly, so that no cell is empty.
func (s *marginal) density(trials []int) []float64 {
	out := make([]float64, s.cells)
	for i := range out {
		out[i] = evenly / (1 - evenly) * float64(len(trials)) / float64(s.cells)
	}
	width := 0.0
	if s.numbers {
		width = s.bandwidth(trials)
	}
	for _, t := range trials {
		if s.numbers {
			addKernel(out, s.at[t], width)
		} else {
			out[int(s.at[t])]++
		}
	}

	sum := 0.0
	for _, d := range out {
		sum += d
	}
	for i := range out {
		out[i] /= sum
	}
	return out
}

// bandwidth is Scott's, in cells, and never so narrow that a kernel is one cell.
func (s *marginal) bandwidth(trials []int) float64 {
	const narrowest = 0.5 / 1.64
	at := make([]float64, len(trials))
	mean := 0.0
	for i, t := range trials {
		at[i] = s.at[t]
		mean += at[i] / float64(len(trials))
	}
	variance := 0.0
	for _, x := range at {
		variance += (x - mean) * (x - mean) / float64(max(1, len(at)-1))
	}
	slices.Sort(at)
	quartiles := (at[len(at)*3/4] - at[len(at)/4]) / 1.34
	width := math.Sqrt(variance)
	if quartiles > 0 {
		width = min(width, quartiles)
	}
	return max(narrowest, 1.059*width*math.Pow(float64(len(at)), -0.2))
}

// addKernel adds one trial, spread normally around its place; what would fall outside the grid stays inside.
func addKernel(out []float64, at, width float64) {
	var kernel [gridCells]float64
	sum := 0.0
	for i := range out {
		z := (float64(i) - at) / width
		kernel[i] = math.Exp(-z * z / 2)
		sum += kernel[i]
	}
	for i := range out {
		out[i] += kernel[i] / sum
	}
}

// divergence is Pearson's, of the best trials' density from that of all.
func (s *marginal) divergence(best []int) float64 {
	sum := 0.0
	for i, p := range s.density(best) {
		r := p/s.all[i] - 1
		sum += s.all[i] * r * r
	}
	return sum
}
