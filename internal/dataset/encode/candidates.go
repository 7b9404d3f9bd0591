package encode

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"coppice/internal/dataset"
	"coppice/internal/random"
)

// initialCandidates returns the initial candidates: atoms that may be keys by themselves, and all pairs of the most
// informative atoms.
func (r *run) initialCandidates(ctx context.Context) []candidate {
	atoms := make([]int, len(r.s.Atoms))
	for i := range atoms {
		atoms[i] = i
	}
	if len(atoms) > maxAtoms {
		alone := make([]candidate, len(atoms))
		dataset.Parallel(r.s.Threads, len(atoms), func(i int) {
			alone[i] = candidate{atoms: []int{i}}
			if ctx.Err() == nil {
				alone[i].gain, _ = r.gainOf(alone[i].atoms)
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

// growCandidates removes a batch from the candidates, and adds the triples made of the batch's pairs and another atom.
func (r *run) growCandidates(candidates, batch []candidate) []candidate {
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

// pickBest returns the candidates with the most gain, at most count of them and without redundancy: two keys may divide
// the rows alike, as a code and its name do, and keys of the same columns, as numbers or as ranges, mostly carry the
// same information. rest are the candidates that may still be useful.
func (r *run) pickBest(ctx context.Context, candidates []candidate, count int) (out, rest []candidate) {
	least := leastGain * r.meanLoss()
	dataset.Parallel(r.s.Threads, len(candidates), func(i int) {
		if c := &candidates[i]; ctx.Err() == nil {
			gain, deviates := r.gainOf(c.atoms)
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
		codes := r.encode(c.atoms, &scratch{})
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

// scratch is memory for one key at a time.
type scratch struct {
	codes  codes
	hashes []uint64
	slots  []uint64 // of a hash table with open addressing: half a level's hash, and its number + 1; 0 is free
	sums   []sums   // by level, of the rows that each fold holds out, and of all
	cells  []uint8  // by level and fold
}

// encode numbers the levels of a key, in memory that lasts as long as the scratch. Of hundreds of keys this is the most
// work, so a hash is a sum instead of a Join.
func (r *run) encode(atoms []int, w *scratch) codes {
	w.hashes = dataset.Resize(w.hashes, len(r.s.Label))
	clear(w.hashes)
	for _, a := range atoms {
		for i, h := range r.s.Atoms[a].Hash {
			w.hashes[i] = (w.hashes[i] + h) * random.Step
		}
	}
	return w.number()
}

// number numbers the levels that have these hashes, of two halves of which one finds the slot, and one the level in it.
func (w *scratch) number() codes {
	w.slots = dataset.Resize(w.slots, slotsFor(len(w.hashes)))
	w.codes = codes{code: dataset.Resize(w.codes.code, len(w.hashes))}
	clear(w.slots)

	shift := 64 - bits.Len(uint(len(w.slots)-1))
	for i, level := range w.hashes {
		tag, at := level<<32, level>>shift
		for w.slots[at] != 0 && w.slots[at]>>32 != tag>>32 {
			at = (at + 1) & uint64(len(w.slots)-1)
		}
		if w.slots[at] == 0 {
			w.codes.levels++
			w.slots[at] = tag | uint64(w.codes.levels)
		}
		w.codes.code[i] = int32(uint32(w.slots[at])) - 1
	}
	return w.codes
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

// sums holds number and label sum of some of a level's rows.
type sums struct{ n, y float64 }

// priorRows is the weight, in rows, of the mean label in the sample's rates.
const priorRows = 1

// statistics returns a key's rates and counts: for training rows ordered statistics, for others those of all training
// rows.
func (r *run) statistics(f *fold, c codes) (rate, count []float64) {
	n := len(r.s.Label)
	rate, count = make([]float64, n), make([]float64, n)
	levels := make([]sums, c.levels)
	prior, seen := f.prior, 0.0

	// A training row sees only earlier rows, by time only those old enough: its rate must not include its own label.
	next := 0
	add := func() {
		if i := r.order[next]; !f.hold[i] {
			s := &levels[c.code[i]]
			s.n, s.y = s.n+1, s.y+float64(r.s.Label[i])
			seen++
		}
		next++
	}
	for place, i := range r.order {
		if f.hold[i] {
			continue
		}
		for next < place && r.sees(i, r.order[next]) {
			add()
		}
		s := &levels[c.code[i]]
		rate[i] = (s.y + priorRows*prior) / (s.n + priorRows)
		count[i] = s.n / max(seen, 1)
	}
	for next < n {
		add()
	}

	own := r.ownRows(c)

	// Now the levels hold all training rows, which is what the other rows see.
	for i, hold := range f.hold {
		s := levels[c.code[i]]
		if hold {
			rate[i], count[i] = (s.y+priorRows*prior)/(s.n+priorRows), s.n
		} else if r.s.Time == nil {
			count[i] = s.n - own(i)
		} else {
			count[i] = math.Round(count[i] * seen) // extrapolated to all training rows, like the dataset's counts
		}
	}

	return rate, count
}

// sees reports whether a row sees the label of an earlier one: of another query, and by time old enough.
func (r *run) sees(row, earlier uint32) bool {
	if r.s.Queries {
		return r.s.Group[row] != r.s.Group[earlier]
	}
	return r.s.Delay == 0 || r.s.Time[earlier] <= r.s.Time[row]-r.s.Delay
}

// ownRows returns how many of the rows with a row's level are itself or of its query.
func (r *run) ownRows(c codes) func(row int) float64 {
	if !r.s.Queries {
		return func(int) float64 { return 1 }
	}
	own := make([]float64, len(c.code))
	for i, n := range ownRows(dataset.Pick(r.s.Group, r.order), dataset.Pick(c.code, r.order), nil) {
		own[r.order[i]] = float64(n)
	}
	return func(row int) float64 { return own[row] }
}

// Cells in which held-out rows are compared with the model: ranges of the rate times ranges of the count.
const (
	rateCells  = 16
	countCells = 4
	cellPrior  = 20 // rows of average hessian that pull a cell's correction towards zero
)

// gainOf is the share of the held-out rows' loss that a key explains beyond the model: the second-order gain of one
// constant per cell, less what that many constants explain by chance. deviates says how far the gain is beyond chance,
// as a standard normal deviate.
func (r *run) gainOf(atoms []int) (mean, deviates float64) {
	w := r.work.Get().(*scratch)
	defer r.work.Put(w)
	explained, expected, variance := 0.0, 0.0, 0.0
	rows := 0
	for _, cells := range r.sumHeldOut(w, r.divide(w, r.encode(atoms, w))) {
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

// fewRows is how many rows nearly all levels have fewer of: with a binary label they are of few kinds.
const fewRows = 16

// divide assigns the held-out rows of each level and fold to a cell, by the rate and count that the key gets from the
// other rows. It returns the cells, of each level by fold.
func (r *run) divide(w *scratch, c codes) []uint8 {
	folds := len(r.folds)
	w.sums, w.cells = dataset.Resize(w.sums, c.levels*(folds+1)), dataset.Resize(w.cells, c.levels*(folds+1))
	clear(w.sums)
	for i, level := range c.code {
		s := &w.sums[int(level)*(folds+1)+int(r.outside[i])]
		s.n, s.y = s.n+1, s.y+float64(r.s.Label[i])
	}

	// In place of the rows that no fold holds out comes the sum over all rows.
	for at := 0; at < len(w.sums); at += folds + 1 {
		for _, s := range w.sums[at : at+folds] {
			w.sums[at+folds].n, w.sums[at+folds].y = w.sums[at+folds].n+s.n, w.sums[at+folds].y+s.y
		}
	}
	others := func(at, f int) (rate, n float64) {
		n = w.sums[at+folds].n - w.sums[at+f].n
		return (w.sums[at+folds].y - w.sums[at+f].y + priorRows*r.folds[f].prior) / (n + priorRows), n
	}
	for f := range r.folds {
		rates := make([]float64, len(r.folds[f].some))
		for j, i := range r.folds[f].some {
			rates[j], _ = others(int(c.code[i])*(folds+1), f)
		}
		slices.Sort(rates)
		bounds := quantiles(rates, rateCells)
		var known [fewRows * fewRows]uint8 // 1 + the cell of a level with so few rows, by their number and sum
		for at := 0; at < len(w.sums); at += folds + 1 {
			if w.sums[at+f].n == 0 {
				continue
			}
			rate, n := others(at, f)
			var one uint8
			memo := &one
			if r.s.Binary && n < fewRows {
				memo = &known[int(n)*fewRows+int(w.sums[at+folds].y-w.sums[at+f].y)]
			}
			if *memo == 0 {
				cell := countCell(n)
				for _, bound := range bounds {
					if bound < rate {
						cell += countCells
					}
				}
				*memo = uint8(cell) + 1
			}
			w.cells[at+f] = *memo - 1
		}
	}
	return w.cells
}

// cell sums up the model's residuals for some held-out rows.
type cell struct {
	n       int
	g, h    float64
	squares float64 // the expected square of g by chance: the sum, over groups of rows, of squared gradient sums
}

// sumHeldOut sums up the held-out rows of each fold by cell.
func (r *run) sumHeldOut(w *scratch, of []uint8) [][rateCells * countCells]cell {
	cells := make([][rateCells * countCells]cell, len(r.folds))
	var together [rateCells * countCells]float64 // gradients of the current group
	group := len(r.folds)                        // the fold that holds out the current group, if one does
	for at, row := range r.grouped {
		i := int(row)
		if fold := int(r.outside[i]); fold < len(r.folds) && (r.judging == nil || !r.judging[i]) {
			number := of[int(w.codes.code[i])*(len(r.folds)+1)+fold]
			c := &cells[fold][number]
			c.n, c.g, c.h = c.n+1, c.g+r.slope[i].g, c.h+r.slope[i].h
			if r.s.Group == nil {
				c.squares += r.slope[i].g * r.slope[i].g
				continue
			}
			together[number] += r.slope[i].g
			group = fold
		}

		if group < len(r.folds) && (at+1 == len(r.grouped) || r.s.Group[r.grouped[at+1]] != r.s.Group[row]) {
			for number, g := range together {
				cells[group][number].squares += g * g
			}
			clear(together[:])
			group = len(r.folds)
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

// countCell groups levels by how many rows they have: a rate of one row says less than the same rate of ten.
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

// binned bins numbers into about equal counts. Rates and counts are few numbers, repeated, so each is placed once.
func (w *scratch) binned(values []float64) Column {
	n := len(values)
	w.hashes = dataset.Resize(w.hashes, n)
	for i, x := range values {
		w.hashes[i] = Mix(math.Float64bits(x + 0))
	}
	numbers := w.number()
	type level struct {
		x            float64
		number, rows int
	}
	levels := make([]level, 0, numbers.levels)
	for i, number := range numbers.code {
		if int(number) == len(levels) {
			levels = append(levels, level{values[i], int(number), 0})
		}
		levels[number].rows++
	}
	slices.SortFunc(levels, func(a, b level) int { return cmp.Compare(a.x, b.x) })

	c := Column{Bins: 1, Data: make([]uint8, n)}
	bins, rows, q := make([]uint8, len(levels)), 0, 1
	for _, l := range levels {
		bins[l.number], rows = uint8(c.Bins-1), rows+l.rows
		if next := max(q, (rows*statisticBins+n-1)/n); next > q {
			c.Bins++
			q = next
		}
	}
	for i, number := range numbers.code {
		c.Data[i] = bins[number]
	}
	return c
}
