package encode

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sort"

	"coppice/internal/dataset"
)

// first returns the initial candidates: atoms that may be keys by themselves, and all pairs of the most informative
// atoms.
func (r *run) first(ctx context.Context) []candidate {
	atoms := make([]int, len(r.s.Atoms))
	for i := range atoms {
		atoms[i] = i
	}
	if len(atoms) > maxAtoms {
		alone := make([]candidate, len(atoms))
		dataset.Parallel(r.s.Threads, len(atoms), func(i int) {
			alone[i] = candidate{atoms: []int{i}}
			if ctx.Err() == nil {
				alone[i].gain, _ = r.gain(alone[i].atoms)
			}
		})
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

// consider appends a candidate unless it was tried before or has two atoms of the same column.
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

// grow removes a batch from the candidates, and adds the triples made of the batch's pairs and another atom.
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

// retainedGain is the share of the least gain below which a candidate is dropped for good: as the model learns more, it
// explains some of what a key would have explained, and rarely makes a key more useful.
const retainedGain = 0.5

// best returns the candidates with the most gain, at most count of them and without redundancy: two keys may divide the
// rows alike, as a code and its name do, and keys of the same columns, as numbers or as ranges, mostly carry the same
// information. rest are the candidates that may still be useful.
func (r *run) best(ctx context.Context, candidates []candidate, count int) (out, rest []candidate) {
	least := leastGain * r.meanLoss()
	dataset.Parallel(r.s.Threads, len(candidates), func(i int) {
		if c := &candidates[i]; ctx.Err() == nil {
			gain, deviates := r.gain(c.atoms)
			c.gain, c.chance = gain, deviates < leastDeviates
		}
	})
	if ctx.Err() != nil {
		return nil, nil
	}
	rest = slices.DeleteFunc(slices.Clone(candidates), func(c candidate) bool { return c.gain < retainedGain*least })

	ranked := slices.Clone(candidates)
	slices.SortStableFunc(ranked, func(a, b candidate) int { return cmp.Compare(b.gain, a.gain) })
	taken := slices.Clone(r.taken)
	for _, c := range ranked {
		if len(out) == count || c.gain < least {
			break
		}
		if c.chance || slices.ContainsFunc(out, func(o candidate) bool { return r.sameColumns(o, c) }) {
			continue
		}
		codes := r.encode(c.atoms)
		if slices.ContainsFunc(taken, codes.divideAlike) {
			continue
		}
		taken = append(taken, codes)
		out = append(out, candidate{atoms: c.atoms, gain: c.gain / r.meanLoss()})
	}
	return out, rest
}

// sameColumns reports whether two candidates use the same columns.
func (r *run) sameColumns(a, b candidate) bool {
	if len(a.atoms) != len(b.atoms) {
		return false
	}
	return !slices.ContainsFunc(a.atoms, func(atom int) bool {
		return !slices.ContainsFunc(b.atoms,
			func(other int) bool { return r.s.Atoms[atom].Column == r.s.Atoms[other].Column })
	})
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

// divideAlike reports whether two keys divide the rows into the same levels.
func (c codes) divideAlike(o codes) bool {
	if c.levels != o.levels {
		return false
	}

	// One direction is enough: with equal numbers of levels, no two levels of c can map to the same one of o.
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

// sums holds weight and label sum of a level's training rows.
type sums struct{ n, y float64 }

// priorRows is the weight, in rows, of the mean label in the sample's rates.
const priorRows = 1

// statistics returns a key's rates and counts: for training rows ordered statistics, for others those of all training
// rows.
func (r *run) statistics(f *fold, c codes) (rate, count []float64) {
	n := len(r.s.Label)
	rate, count = make([]float64, n), make([]float64, n)
	levels := make([]sums, c.levels)
	prior, seen := r.prior(f), 0.0

	// A training row sees only earlier rows, by time only those old enough: its rate must not include its own label.
	next := 0
	add := func(until func(row uint32) bool) {
		for ; next < n && until(r.order[next]); next++ {
			if i := r.order[next]; !f.hold[i] {
				s := &levels[c.code[i]]
				s.n, s.y = s.n+1, s.y+float64(r.s.Label[i])
				seen++
			}
		}
	}

	for place, i := range r.order {
		if f.hold[i] {
			continue
		}
		if r.s.Delay > 0 {
			add(func(row uint32) bool { return r.s.Time[row] <= r.s.Time[i]-r.s.Delay })
		} else {
			add(func(uint32) bool { return next < place })
		}
		s := &levels[c.code[i]]
		rate[i] = (s.y + priorRows*prior) / (s.n + priorRows)
		count[i] = s.n / max(seen, 1)
	}
	add(func(uint32) bool { return true })

	// Now the levels hold all training rows, which is what the other rows see.
	for i, hold := range f.hold {
		s := levels[c.code[i]]
		if hold {
			rate[i], count[i] = (s.y+priorRows*prior)/(s.n+priorRows), s.n
		} else if r.s.Time == nil {
			count[i] = s.n - 1
		} else {
			count[i] = math.Round(count[i] * seen) // extrapolated to all training rows, like the dataset's counts
		}
	}

	return rate, count
}

// prior is the mean label of the training rows.
func (r *run) prior(f *fold) float64 {
	sum, n := 0.0, 0.0
	for i, hold := range f.hold {
		if !hold {
			sum, n = sum+float64(r.s.Label[i]), n+1
		}
	}
	return sum / max(n, 1)
}

// Cells in which held-out rows are compared with the model: ranges of the rate times ranges of the count.
const (
	rateCells  = 16
	countCells = 4
	cellPrior  = 20 // rows of average hessian that pull a cell's correction towards zero
)

// gain is the share of the held-out rows' loss that a key explains beyond the model: the second-order gain of one
// constant per cell, less what that many constants explain by chance. deviates says how far the gain is beyond chance,
// as a standard normal deviate.
func (r *run) gain(atoms []int) (mean, deviates float64) {
	c := r.encode(atoms)
	explained, expected, variance := 0.0, 0.0, 0.0
	rows := 0
	for f := range r.folds {
		cells := r.divide(&r.folds[f], c)
		held, hessian := 0, 0.0
		for _, cell := range cells {
			held, hessian = held+cell.n, hessian+cell.h
		}
		pull := cellPrior * hessian / float64(max(held, 1))
		rows += held

		for _, cell := range cells {
			if cell.h > 0 {
				chance := cell.squares / (cell.h + pull) / 2
				explained += cell.g * cell.g / (cell.h + pull) / 2
				expected += chance
				variance += 2 * chance * chance
			}
		}
	}
	return (explained - expected) / float64(max(rows, 1)), deviate(explained, expected, variance)
}

// divide assigns the held-out rows of a fold to cells, by the rate and count that the key gets from the other rows.
func (r *run) divide(fold *fold, c codes) *[rateCells * countCells]cell {
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
	return r.fill(fold, func(i int) int {
		return countCells*sort.SearchFloat64s(bounds, rate(i)) + countCell(levels[c.code[i]].n)
	})
}

// cell sums up the model's residuals for some held-out rows.
type cell struct {
	n       int
	g, h    float64
	squares float64 // the expected square of g by chance: the sum, over groups of rows, of squared gradient sums
}

// fill sums up the held-out rows of a fold by cell.
func (r *run) fill(f *fold, of func(row int) int) *[rateCells * countCells]cell {
	cells := new([rateCells * countCells]cell)
	var together [rateCells * countCells]float64 // gradients of the current group
	for at, row := range r.grouped {
		i := int(row)
		if f.hold[i] && (r.judging == nil || !r.judging[i]) {
			number := of(i)
			c := &cells[number]
			c.n, c.g, c.h = c.n+1, c.g+r.slope[i].g, c.h+r.slope[i].h
			if r.s.Group == nil {
				c.squares += r.slope[i].g * r.slope[i].g
				continue
			}
			together[number] += r.slope[i].g
		}

		if r.s.Group != nil && (at+1 == len(r.grouped) || r.s.Group[r.grouped[at+1]] != r.s.Group[row]) {
			for number, g := range together {
				cells[number].squares += g * g
			}
			clear(together[:])
		}
	}
	return cells
}

// deviate says how far a sum of squares is above its expectation by chance, as a standard normal deviate: it is
// approximated by a scaled chi-square of the same mean and variance (Satterthwaite, 1946), whose cube root is nearly
// normal (Wilson and Hilferty, 1931).
func deviate(sum, mean, variance float64) float64 {
	if !(mean > 0) {
		return 0
	}
	spread := variance / (mean * mean) / 9 // 2/9 divided by the degrees of freedom
	return (math.Cbrt(sum/mean) - (1 - spread)) / math.Sqrt(spread)
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

// boundRows is how many rates determine the cells' bounds.
const boundRows = 1024

func (r *run) cellBounds(f *fold, rate func(int) float64) []float64 {
	var sample []float64
	held := 0
	for _, hold := range f.hold {
		if hold {
			held++
		}
	}

	// A sample of evenly spaced rows suffices for the cells' bounds.
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
	return quantiles(sample, rateCells)
}

// quantiles divides sorted numbers into at most parts of about equal counts; equal numbers stay together.
func quantiles(sorted []float64, parts int) []float64 {
	var bounds []float64
	for q := 1; q < parts && len(sorted) > 0; q++ {
		if x := sorted[q*len(sorted)/parts]; len(bounds) == 0 || x > bounds[len(bounds)-1] {
			bounds = append(bounds, x)
		}
	}
	return bounds
}

// statisticBins is the number of bins of a statistic in the search's model.
const statisticBins = 64

// binned bins numbers into about equal counts.
func binned(values []float64) Column {
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	bounds := quantiles(sorted, statisticBins)
	c := Column{Bins: len(bounds) + 1, Data: make([]uint8, len(values))}
	for i, x := range values {
		c.Data[i] = uint8(sort.SearchFloat64s(bounds, x))
	}

	return c
}
