package search

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
)

// Dimension is one parameter over the finished trials.
type Dimension struct {
	Name       string
	Values     []float64 // by trial: the number, or that of the category; NaN if the trial does not have the parameter
	Categories int       // categories are numbered 0 to Categories-1; 0 if the values are numbers
	Log        bool      // drawn, and therefore measured, on a logarithmic scale
}

// Weight says how much a parameter affects which trials are among the best.
type Weight struct {
	Name string
	// Share is the share in the total importance.
	Share float64
	// Chance is the level that the parameter's importance exceeds in one of twenty random choices of the best trials,
	// in the same unit. A share that is not clearly above it is not significant.
	Chance float64
}

// Constants of the importance.
const (
	bestShare     = 0.1  // of the trials count as the best
	fewestBest    = 8    // trials that count as the best, however few there are
	gridCells     = 50   // of the grid on which the density of a number is computed
	chanceDraws   = 100  // random choices of the best trials
	chanceIsAbove = 0.95 // of these choices have a lower importance than Weight.Chance
	evenly        = 0.1  // weight of the uniform part of every density
)

// FewestForImportance is how many trials need to have a parameter before its importance is computed: the best must be a
// minority, or they hardly differ from all.
const FewestForImportance = 3 * fewestBest

// Importance ranks parameters by how differently the best trials are distributed along each, compared with all trials.
// The measure is the Pearson divergence of two one-dimensional densities (PED-ANOVA: Watanabe, Bansal and Hutter 2023).
// Its mean for best trials chosen at random is subtracted, since that is large for few trials and for rare values.
//
// The values in dims and loss are of the same trials, in the same order; a lower loss is better. None of them may be
// NaN but values, which say that a trial lacks the parameter. A parameter is evaluated on the trials that have it, and
// left out if these are fewer than FewestForImportance. The result is deterministic, most important first. It is nil if
// no parameter has a positive importance.
func Importance(dims []Dimension, loss []float64) []Weight {
	// All values are looked at in the order of the losses, so that the best trials are always the first.
	order := upTo(len(loss))
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(loss[a], loss[b]) })

	var weights []Weight
	sum := 0.0
	for i := range dims {
		values := dims[i].knownValues(order)
		n := len(values)
		if n < FewestForImportance {
			continue
		}
		// Compare the best trials with all, and with what chance alone gives.
		m := newMarginal(values, dims[i].Categories, dims[i].Log)
		best := max(fewestBest, int(math.Ceil(bestShare*float64(n))))
		c := m.chance(n, best)
		w := Weight{Name: dims[i].Name, Share: max(0, m.divergence(upTo(best))-c.mean), Chance: max(0, c.high-c.mean)}
		weights = append(weights, w)
		sum += w.Share
	}

	// Make the importances shares of their sum.
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

// knownValues returns the parameter's values of the trials that have it. order has indices of trials; the values come
// in the same order.
func (d *Dimension) knownValues(order []int) []float64 {
	values := make([]float64, 0, len(order))
	for _, t := range order {
		if !math.IsNaN(d.Values[t]) {
			values = append(values, d.Values[t])
		}
	}
	return values
}

// upTo returns the numbers 0 to n-1.
func upTo(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// chance is the distribution of a parameter's divergence for randomly chosen best trials.
type chance struct {
	mean float64
	high float64 // exceeded with the probability in chanceIsAbove
}

// chance estimates that distribution from random choices of so many best among so many trials. The choices are the same
// for all parameters with equally many trials.
func (s *marginal) chance(trials, best int) (out chance) {
	rng := rand.New(rand.NewPCG(uint64(trials), uint64(best)))
	var drawn []float64
	for range chanceDraws {
		drawn = append(drawn, s.divergence(rng.Perm(trials)[:best]))
	}

	out.mean = stat.Mean(drawn, nil)
	slices.Sort(drawn)
	out.high = drawn[int(chanceIsAbove*float64(len(drawn)))]
	return out
}

// marginal is the distribution of trials along one dimension, over cells: the categories, or the cells of a grid.
type marginal struct {
	at      []float64 // by trial: its cell, a whole number
	numbers bool      // the cells are those of a grid
	cells   int
	all     []float64 // the density of all trials, by cell
}

// newMarginal returns the distribution of all trials' values, by category or, if categories is 0, along a grid. It
// takes over the slice of values and replaces numbers in it by cells.
func newMarginal(values []float64, categories int, logarithmic bool) *marginal {
	s := &marginal{at: values, numbers: categories == 0, cells: categories}
	if s.numbers {
		s.cells = gridCells
		s.toGrid(logarithmic)
	}
	s.all = s.density(upTo(len(s.at)))
	return s
}

// toGrid replaces the values by their cells, 0 to gridCells-1, between the smallest and the largest value. If all are
// equal, they are in cell 0.
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

// toLog replaces the values by their logarithms. Values without one, such as a 0 that disables something, are placed
// slightly below the smallest that has one.
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
	if math.IsInf(least, 1) { // no value has a logarithm
		clear(s.at)
	}
}

// density returns the density of some trials, which are indices, over the cells; it adds up to 1. For numbers it sums
// normal kernels, for categories it is their frequencies. A uniform part of the weight evenly is mixed in, so that no
// cell is empty and a ratio of two densities is finite.
func (s *marginal) density(trials []int) []float64 {
	// Each trial adds 1 below. So n trials and n x evenly / (1 - evenly) are n / (1 - evenly) in all, of which the
	// uniform part is the share evenly.
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

	floats.Scale(1/floats.Sum(out), out)
	return out
}

// bandwidth returns the standard deviation of the kernels for some trials, in cells. It is Scott's rule, 1.059 (the
// fifth root of 4/3) standard deviations divided by the fifth root of the number of trials, but at least narrowest. The
// standard deviation is the smaller of the trials' own and what the quartiles say it is, which outliers do not widen
// (the interquartile range of a normal distribution is 1.34 of them). Quartiles that are equal say nothing.
func (s *marginal) bandwidth(trials []int) float64 {
	const narrowest = 0.5 / 1.64 // a tenth of a normal distribution is 1.64 standard deviations, half a cell, away
	at := make([]float64, len(trials))
	for i, t := range trials {
		at[i] = s.at[t]
	}
	slices.Sort(at)
	quartiles := (at[len(at)*3/4] - at[len(at)/4]) / 1.34
	width := stat.StdDev(at, nil)
	if quartiles > 0 {
		width = min(width, quartiles)
	}
	return max(narrowest, 1.059*width*math.Pow(float64(len(at)), -0.2))
}

// addKernel adds one trial to the sums in out, by cell: a normal kernel around its position. The kernel adds up to 1
// within the grid, also near its ends.
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

// divergence returns the Pearson divergence of the best trials' density from that of all: the mean, over the density of
// all, of the squared relative difference. best has indices of trials.
func (s *marginal) divergence(best []int) float64 {
	sum := 0.0
	for i, p := range s.density(best) {
		r := p/s.all[i] - 1
		sum += s.all[i] * r * r
	}
	return sum
}
