package encode

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
)

// first are the candidates to begin with: atoms that may be keys by themselves, and all pairs of the atoms that tell most.
func (r *run) first() []candidate {
	atoms := make([]int, len(r.s.Atoms))
	for i := range atoms {
		atoms[i] = i
	}
	if len(atoms) > maxAtoms {
		alone := make([]candidate, len(atoms))
		parallel(r.s.Threads, len(atoms), func(i int) { alone[i] = candidate{[]int{i}, r.gain([]int{i})} })
		slices.SortStableFunc(alone, func(a, b candidate) int { return cmp.Compare(b.gain, a.gain) })
		for i := range atoms {
			atoms[i] = alone[i].atoms[0]
		}
		atoms = atoms[:maxAtoms]
		slices.Sort(atoms)
	}

	var out []candidate
	for i, a := range atoms {
		if r.s.Atoms[a].Alone {
			out = r.consider(out, []int{a})
		}
		for _, b := range atoms[i+1:] {
			out = r.consider(out, []int{a, b})
		}
	}
	return out
}

// consider appends a candidate that has not been tried, unless it has two atoms of one column.
func (r *run) consider(to []candidate, atoms []int) []candidate {
	for i, a := range atoms {
		for _, b := range atoms[i+1:] {
			if r.s.Atoms[a].Column == r.s.Atoms[b].Column {
				return to
			}
		}
	}
	name := fmt.Sprint(atoms)
	if r.tried[name] {
		return to
	}
	r.tried[name] = true
	return append(to, candidate{atoms: atoms})
}

// grow takes a batch from the candidates, and makes of each of its pairs triples with all other atoms.
func (r *run) grow(candidates, batch []candidate) []candidate {
	for _, taken := range batch {
		candidates = slices.DeleteFunc(candidates, func(c candidate) bool { return slices.Equal(c.atoms, taken.atoms) })
	}
	for _, taken := range batch {
		if len(taken.atoms) == 3 {
			continue
		}
		for a := range r.s.Atoms {
			if !slices.Contains(taken.atoms, a) {
				candidates = r.consider(candidates, slices.Sorted(slices.Values(append([]int{a}, taken.atoms...))))
			}
		}
	}
	return candidates
}

// retainedGain is the part of the least gain below which a candidate is not looked at again: what the model learns later explains some of
// what a key would have explained, and seldom makes room for it.
const retainedGain = 0.5

// best gives the candidates with the most gain, at most count of them, each with levels of its own: two keys may divide the rows alike,
// as a code and its name do. rest are the candidates that may still be worth it.
func (r *run) best(candidates []candidate, count int) (out, rest []candidate) {
	least := leastGain * r.meanLoss()
	parallel(r.s.Threads, len(candidates), func(i int) { candidates[i].gain = r.gain(candidates[i].atoms) })
	ranked := slices.Clone(candidates)
	slices.SortStableFunc(ranked, func(a, b candidate) int { return cmp.Compare(b.gain, a.gain) })

	rest = slices.DeleteFunc(candidates, func(c candidate) bool { return c.gain < retainedGain*least })
	taken := slices.Clone(r.taken)
	for _, c := range ranked {
		if len(out) == count || c.gain < least {
			break
		}
		codes := r.encode(c.atoms)
		if slices.ContainsFunc(taken, codes.divideAlike) {
			continue
		}
		taken = append(taken, codes)
		out = append(out, candidate{c.atoms, c.gain / r.meanLoss()})
	}
	return out, rest
}

// encode numbers the levels of a key.
func (r *run) encode(atoms []int) codes {
	n := len(r.s.Label)
	c := codes{code: make([]int32, n)}
	t := newTable(n)
	for i := range n {
		level := Level()
		for _, a := range atoms {
			level = Join(level, r.s.Atoms[a].Hash[i])
		}
		at, free := t.find(level)
		if at == absent {
			t.add(level, free)
			at = free
		}
		c.code[i] = int32(t.slots[at].number)
	}
	c.levels = t.used
	return c
}

// divideAlike reports whether two keys have the same rows in each level.
func (c codes) divideAlike(o codes) bool {
	if c.levels != o.levels {
		return false
	}
	to := make([]int32, c.levels)
	for i := range to {
		to[i] = -1
	}
	for i, level := range c.code {
		if to[level] < 0 {
			to[level] = o.code[i]
		}
		if to[level] != o.code[i] {
			return false
		}
	}
	return true
}

// sums are the rows of a level that models learn from.
type sums struct{ n, y float64 }

// priorRows is how many rows the mean label counts for in the rates of the sample.
const priorRows = 1

// statistics gives rate and count of a key: of rows that learn as ordered statistics, of others from all that learn.
func (r *run) statistics(f *fold, c codes) (rate, count []float64) {
	n := len(r.s.Label)
	rate, count = make([]float64, n), make([]float64, n)
	levels := make([]sums, c.levels)
	prior := r.prior(f)
	for _, i := range r.order {
		if f.hold[i] {
			continue
		}
		s := &levels[c.code[i]]
		rate[i] = (s.y + priorRows*prior) / (s.n + priorRows)
		s.n, s.y = s.n+1, s.y+float64(r.s.Label[i])
	}
	for i, hold := range f.hold {
		s := levels[c.code[i]]
		if hold {
			rate[i], count[i] = (s.y+priorRows*prior)/(s.n+priorRows), s.n
		} else {
			count[i] = s.n - 1
		}
	}
	return rate, count
}

// prior is the mean label of the rows that learn.
func (r *run) prior(f *fold) float64 {
	sum, n := 0.0, 0.0
	for i, hold := range f.hold {
		if !hold {
			sum, n = sum+float64(r.s.Label[i]), n+1
		}
	}
	return sum / max(n, 1)
}

// Cells in which held-out rows are compared with what the model says: ranges of the rate, times ranges of the count.
const (
	rateCells  = 16
	countCells = 4
	cellPrior  = 20 // rows of average hessian that pull a cell towards no change
)

// gain is how much of the held-out rows' loss a key explains that the model does not: the second-order gain of a constant for each
// cell, less what that many constants explain by chance.
func (r *run) gain(atoms []int) float64 {
	c := r.encode(atoms)
	total, rows := 0.0, 0
	for f := range r.folds {
		fold := &r.folds[f]
		levels := make([]sums, c.levels)
		for i, hold := range fold.hold {
			if !hold {
				s := &levels[c.code[i]]
				s.n, s.y = s.n+1, s.y+float64(r.s.Label[i])
			}
		}
		prior := r.prior(fold)
		rate := func(i int) float64 {
			s := levels[c.code[i]]
			return (s.y + priorRows*prior) / (s.n + priorRows)
		}

		bounds := r.cellBounds(fold, rate)
		var cells [rateCells * countCells]struct{ g, h float64 }
		sumH, n := 0.0, 0
		for i, hold := range fold.hold {
			if !hold {
				continue
			}
			cell := &cells[countCells*sort.SearchFloat64s(bounds, rate(i))+countCell(levels[c.code[i]].n)]
			cell.g, cell.h = cell.g+r.slope[i].g, cell.h+r.slope[i].h
			sumH += r.slope[i].h
			n++
		}
		pull := cellPrior * sumH / float64(max(n, 1))
		for _, cell := range cells {
			if cell.h > 0 {
				total += (cell.g*cell.g - cell.h*r.noise) / (cell.h + pull) / 2
			}
		}
		rows += n
	}
	return total / float64(max(rows, 1))
}

func countCell(n float64) int {
	switch {
	case n < 1:
		return 0
	case n < 3:
		return 1
	case n < 10:
		return 2
	}
	return 3
}

// boundRows is how many rates decide where the cells end.
const boundRows = 1024

func (r *run) cellBounds(f *fold, rate func(int) float64) []float64 {
	var sample []float64
	held := 0
	for _, hold := range f.hold {
		if hold {
			held++
		}
	}
	step, next := max(1, held/boundRows), 0
	for i, hold := range f.hold {
		if !hold {
			continue
		}
		if next--; next < 0 {
			sample = append(sample, rate(i))
			next = step - 1
		}
	}
	slices.Sort(sample)
	var bounds []float64
	for q := 1; q < rateCells && len(sample) > 0; q++ {
		if x := sample[q*len(sample)/rateCells]; len(bounds) == 0 || x > bounds[len(bounds)-1] {
			bounds = append(bounds, x)
		}
	}
	return bounds
}

// statisticBins is how many bins statistics have in the model of the search.
const statisticBins = 64

// binned puts numbers into bins of about equally many rows.
func binned(values []float64) Column {
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	var bounds []float64
	for q := 1; q < statisticBins; q++ {
		if x := sorted[q*len(sorted)/statisticBins]; len(bounds) == 0 || x > bounds[len(bounds)-1] {
			bounds = append(bounds, x)
		}
	}
	c := Column{Bins: len(bounds) + 1, Data: make([]uint8, len(values))}
	for i, x := range values {
		c.Data[i] = uint8(sort.SearchFloat64s(bounds, x))
	}
	return c
}
