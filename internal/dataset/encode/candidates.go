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

// initialCandidates returns the candidates of the first round: all pairs of atoms, and the atoms that may be keys by
// themselves. If there are more than maxAtoms atoms, only the most informative ones are used. If ctx ends early, the
// choice among them is arbitrary.
func (r *run) initialCandidates(ctx context.Context) []candidate {
	atoms := make([]int, len(r.s.Atoms))
	for i := range atoms {
		atoms[i] = i
	}
	if len(atoms) > maxAtoms {
		// Rank the atoms by the gain of each alone.
		alone := make([]candidate, len(atoms))
		dataset.Parallel(r.s.Threads, len(atoms), func(i int) {
			alone[i] = candidate{atoms: []int{i}}
			if ctx.Err() == nil {
				alone[i].gain, _ = r.gainOf(r.cellsOf(alone[i].atoms))
			}
		})
		slices.SortStableFunc(alone, func(a, b candidate) int { return cmp.Compare(b.gain, a.gain) })
		for i := range atoms {
			atoms[i] = alone[i].atoms[0]
		}
		atoms = atoms[:maxAtoms]
		slices.Sort(atoms) // as appendCandidate needs them
	}

	var out []candidate
	for i, a := range atoms {
		if r.s.Atoms[a].Alone {
			out = r.appendCandidate(out, []int{a})
		}
		for _, b := range atoms[i+1:] {
			out = r.appendCandidate(out, []int{a, b})
		}
	}
	return out
}

// appendCandidate appends a candidate, unless two of its atoms are of the same column or it has been a candidate
// before. It records the candidate in r.tried. atoms must be in ascending order.
func (r *run) appendCandidate(to []candidate, atoms []int) []candidate {
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

// growCandidates removes the batch, whose keys have been added to the model, from the candidates. It then adds each key
// of the batch joined with each other atom, up to three atoms.
func (r *run) growCandidates(candidates, batch []candidate) []candidate {
	candidates = slices.DeleteFunc(candidates, func(c candidate) bool {
		return slices.ContainsFunc(batch, func(added candidate) bool { return slices.Equal(c.atoms, added.atoms) })
	})

	for _, added := range batch {
		for a := range r.s.Atoms {
			if len(added.atoms) < 3 && !slices.Contains(added.atoms, a) {
				atoms := slices.Sorted(slices.Values(append([]int{a}, added.atoms...)))
				candidates = r.appendCandidate(candidates, atoms)
			}
		}
	}

	return candidates
}

// retainedGain is the share of the least gain below which a candidate is dropped for good. Each key that the model gets
// explains some of what other keys would have explained, so that gains rarely rise again.
const retainedGain = 0.5

// pickBest measures all candidates, setting their gain and chance, and returns the batch to add: at most count of those
// with the most gain, here as shares of the loss. It leaves out keys that are redundant: those that use the same
// columns as a better key of the batch, and those that divide the rows as a key of the batch or the model does, as a
// code and its name do. rest is the candidates that may still be useful in later rounds, including those of the batch.
// Both are nil if ctx has ended.
func (r *run) pickBest(ctx context.Context, candidates []candidate, count int) (batch, rest []candidate) {
	// Measure the candidates, in units of the loss.
	least := leastGain * r.meanLoss()
	dataset.Parallel(r.s.Threads, len(candidates), func(i int) {
		if c := &candidates[i]; ctx.Err() == nil {
			cells := c.cells
			if cells == nil {
				cells = r.cellsOf(c.atoms)
			}
			gain, deviates := r.gainOf(cells)
			c.gain, c.chance = gain, deviates < leastDeviates
			if len(candidates) <= keptCells/len(cells) {
				c.cells = cells
			}
		}
	})
	if ctx.Err() != nil {
		return nil, nil
	}
	rest = slices.DeleteFunc(slices.Clone(candidates), func(c candidate) bool { return c.gain < retainedGain*least })

	// Take the best ones that are neither due to chance nor redundant.
	ranked := slices.Clone(candidates)
	slices.SortStableFunc(ranked, func(a, b candidate) int { return cmp.Compare(b.gain, a.gain) })
	taken := slices.Clone(r.keyCodes)
	for _, c := range ranked {
		if len(batch) == count || c.gain < least {
			break
		}
		if c.chance || slices.ContainsFunc(batch, func(o candidate) bool { return r.sameColumns(o, c) }) {
			continue
		}
		codes := r.encode(c.atoms, &scratch{}) // in memory of their own, since taken keeps them
		if slices.ContainsFunc(taken, codes.divideAlike) {
			continue
		}
		taken = append(taken, codes)
		batch = append(batch, candidate{atoms: c.atoms, gain: c.gain / r.meanLoss()})
	}
	return batch, rest
}

// sameColumns reports whether two candidates use the same columns, in whatever order. No candidate uses one twice.
func (r *run) sameColumns(a, b candidate) bool {
	if len(a.atoms) != len(b.atoms) {
		return false
	}
	return !slices.ContainsFunc(a.atoms, func(atom int) bool {
		return !slices.ContainsFunc(b.atoms,
			func(other int) bool { return r.s.Atoms[atom].Column == r.s.Atoms[other].Column })
	})
}

// scratch is reusable memory for measuring one key at a time.
type scratch struct {
	codes  codes
	hashes []uint64 // by row, the hash of its level
	slots  []uint64 // a hash table with open addressing: half a level's hash, and its number + 1; 0 is free
	sums   []sums   // [levels x (folds + 1)], of the rows that each fold holds out, and in the last place of all rows
	cells  []uint8  // [levels x (folds + 1)], the cell of a level's held-out rows; the last place is not used
}

// encode numbers the levels of a key in the sample. The codes share the memory of w and are valid until its next use.
// Encoding hundreds of candidates is most of a search's work, so a level's hash is a cheap multiply-and-add of its
// atoms' hashes, not the Join of a dataset's levels.
func (r *run) encode(atoms []int, w *scratch) codes {
	w.hashes = dataset.Resize(w.hashes, len(r.s.Label))
	clear(w.hashes)
	for _, a := range atoms {
		for i, h := range r.s.Atoms[a].Hash {
			w.hashes[i] = (w.hashes[i] + h) * random.Step
		}
	}
	return w.numberLevels()
}

// numberLevels numbers the distinct values of w.hashes in the order of their first rows. The upper bits of a hash
// choose its slot and the lower 32 bits are compared in it. Two levels that agree in both are taken for one, which is
// rare enough for a search.
func (w *scratch) numberLevels() codes {
	w.slots = dataset.Resize(w.slots, slotsFor(len(w.hashes)))
	w.codes = codes{code: dataset.Resize(w.codes.code, len(w.hashes))}
	clear(w.slots)

	shift := 64 - bits.Len(uint(len(w.slots)-1)) // leaves as many upper bits as number the slots, a power of two
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

// divideAlike reports whether two keys divide the rows into the same sets, however these are numbered.
func (c codes) divideAlike(o codes) bool {
	if c.levels != o.levels {
		return false
	}

	// It is enough that each level of c lies within one level of o. As both have equally many levels and every level
	// has rows, no two levels of c can then lie in the same one.
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

// sums holds the number and the label sum of some of a level's rows.
type sums struct{ n, y float64 }

// priorRows is the weight, in rows, of the mean label in the sample's rates.
const priorRows = 1

// statistics returns a key's rate and count for each row. The rate is the mean label of the row's level, drawn towards
// the mean of the training rows. A held-out row gets the rate and the count of all training rows of its level.
//
// A training row's rate is made of the rows that come before it in r.order and that it sees. Its count is made as in a
// dataset: without times it is of all other training rows of the level, and with times it is extrapolated from the
// share that the level has among the rows seen.
func (r *run) statistics(f *fold, c codes) (rate, count []float64) {
	n := len(r.s.Label)
	rate, count = make([]float64, n), make([]float64, n)
	levels := make([]sums, c.levels)
	prior := f.prior

	// Go through the training rows in order. levels has those before place next.
	next := 0
	addNext := func() {
		i := f.train[next]
		s := &levels[c.code[i]]
		s.n, s.y = s.n+1, s.y+float64(r.s.Label[i])
		next++
	}
	for place, i := range f.train {
		// next stays behind place, so that a rate never includes the row's own label. If a row is not seen, the rows
		// between it and place are not seen either, by the order of r.order: they are of the same query, or newer.
		for next < place && r.sees(i, f.train[next]) {
			addNext()
		}
		s := &levels[c.code[i]]
		rate[i] = (s.y + priorRows*prior) / (s.n + priorRows)
		count[i] = s.n / max(float64(next), 1) // a share of the rows seen, which becomes a number of rows below
	}
	for next < len(f.train) {
		addNext()
	}

	// Now the levels have all training rows.
	own := r.ownRows(c)
	for i, hold := range f.hold {
		s := levels[c.code[i]]
		if hold {
			rate[i], count[i] = (s.y+priorRows*prior)/(s.n+priorRows), s.n
		} else if r.s.Time == nil {
			count[i] = s.n - own(i)
		} else {
			count[i] = math.Round(count[i] * float64(next)) // from a share of the rows seen to a number of rows
		}
	}

	return rate, count
}

// sees reports whether a training row may use the label of a row that is before it in r.order. With queries, the rows
// have to be of different queries. With a delay, the earlier row has to be old enough.
func (r *run) sees(row, earlier uint32) bool {
	if r.s.Queries {
		return r.s.Group[row] != r.s.Group[earlier]
	}
	return r.s.Delay == 0 || r.s.Time[earlier] <= r.s.Time[row]-r.s.Delay
}

// ownRows returns a function that says how many rows with a given row's level belong to its query, itself included.
// Without queries that is the row alone.
func (r *run) ownRows(c codes) func(row int) float64 {
	if !r.s.Queries {
		return func(int) float64 { return 1 }
	}
	own := make([]float64, len(c.code))
	for i, n := range countInGroup(dataset.Pick(r.s.Group, r.order), dataset.Pick(c.code, r.order), nil) {
		own[r.order[i]] = float64(n)
	}
	return func(row int) float64 { return own[row] }
}

// The held-out rows are divided into cells: ranges of a key's rate times ranges of its count. In each cell gainOf
// compares the rows with the model.
const (
	rateCells  = 16
	countCells = 4
	noCell     = rateCells * countCells // of a row that proposes no keys

	// cellPrior is how many rows of average second derivative shrink a cell's correction towards zero.
	cellPrior = 20

	// keptCells is the most cells of rows, of a byte each, that candidates keep from one round to the next, which only
	// has another model.
	keptCells = 64 << 20
)

// gainOf estimates how much a key would lower the loss of the current model. cellOf is what cellsOf returned. Each cell
// of held-out rows gets a constant that corrects the model's scores in it, as a leaf of a boosted tree does. mean is
// the reduction of the loss per row by these constants (g²/2h by second order), less what as many constants would
// explain by chance. deviates is how far the reduction is beyond chance, in standard deviations of a normal
// distribution. r.slope must be up to date.
func (r *run) gainOf(cellOf []uint8) (mean, deviates float64) {
	// explained is the reduction of the loss; expected and variance describe what it would be by chance.
	explained, expected, variance := 0.0, 0.0, 0.0
	rows := 0
	for _, cells := range r.sumCells(cellOf) { // of each fold
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
				variance += 2 * chance * chance // chance times a chi-square of one degree of freedom: variance 2
			}
		}
	}
	return (explained - expected) / float64(max(rows, 1)), deviate(explained, expected, variance)
}

// fewRows is a number of rows that most levels have fewer of. With a binary label such levels have few different pairs
// of count and label sum, so cellsOf remembers the cells of those pairs.
const fewRows = 16

// cellsOf assigns the held-out rows that propose keys to cells, by the rate and the count that a row's level has in the
// training rows of the row's fold. It returns the cells by row, noCell for other rows.
func (r *run) cellsOf(atoms []int) []uint8 {
	w := r.work.Get().(*scratch)
	defer r.work.Put(w)
	c, folds := r.encode(atoms, w), len(r.folds)
	w.sums, w.cells = dataset.Resize(w.sums, c.levels*(folds+1)), dataset.Resize(w.cells, c.levels*(folds+1))

	// Sum up the rows of each level by the fold that holds them out. Rows that no fold holds out go to the last place.
	clear(w.sums)
	for i, level := range c.code {
		s := &w.sums[int(level)*(folds+1)+int(r.heldOutIn[i])]
		s.n, s.y = s.n+1, s.y+float64(r.s.Label[i])
	}

	// Turn the last place of each level into the sum over all its rows.
	for at := 0; at < len(w.sums); at += folds + 1 {
		all := &w.sums[at+folds]
		for _, s := range w.sums[at : at+folds] {
			all.n += s.n
			all.y += s.y
		}
	}

	// trainingRate returns the rate of the level whose sums begin at index at, and its number of rows, from the
	// training rows of fold f.
	trainingRate := func(at, f int) (rate, n float64) {
		n = w.sums[at+folds].n - w.sums[at+f].n
		return (w.sums[at+folds].y - w.sums[at+f].y + priorRows*r.folds[f].prior) / (n + priorRows), n
	}

	for f := range r.folds {
		// Choose bounds between ranges of the rate with about equally many held-out rows.
		rates := make([]float64, len(r.folds[f].boundRows))
		for j, i := range r.folds[f].boundRows {
			rates[j], _ = trainingRate(int(c.code[i])*(folds+1), f)
		}
		slices.Sort(rates)
		bounds := quantiles(rates, rateCells)

		// Find the cell of each level that has held-out rows.
		// known has 1 + the cell of a level with few rows, by their number and label sum. Both are below fewRows.
		var known [fewRows * fewRows]uint8
		for at := 0; at < len(w.sums); at += folds + 1 {
			if w.sums[at+f].n == 0 {
				continue
			}
			rate, n := trainingRate(at, f)
			var notKept uint8 // takes the place of a memo where sums rarely repeat
			memo := &notKept
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

	out := make([]uint8, len(c.code))
	for i, level := range c.code {
		out[i] = noCell
		if fold := int(r.heldOutIn[i]); fold < folds && (r.isValidation == nil || !r.isValidation[i]) {
			out[i] = w.cells[int(level)*(folds+1)+fold]
		}
	}
	return out
}

// cell sums up the slopes of the loss for some held-out rows.
type cell struct {
	n    int
	g, h float64 // sums of slope.g and slope.h
	// squares is the expected square of g if the key says nothing: the sum of squared slopes of independent rows. Rows
	// of a group are not independent, so the slopes of a group are added up before they are squared.
	squares float64
}

// sumCells returns for each fold the sums of its cells. cellOf is what cellsOf returned.
func (r *run) sumCells(cellOf []uint8) [][rateCells * countCells]cell {
	cells := make([][rateCells * countCells]cell, len(r.folds))
	var groupSlopes [rateCells * countCells]float64 // by cell, the sum of slope.g in the current group
	groupFold := len(r.folds)                       // the fold that holds out rows of the current group, if one does

	// r.grouped has the rows of a group one after the other.
	for at, row := range r.grouped {
		i := int(row)
		if number := cellOf[i]; number != noCell {
			fold := int(r.heldOutIn[i])
			c := &cells[fold][number]
			c.n, c.g, c.h = c.n+1, c.g+r.slope[i].g, c.h+r.slope[i].h
			if r.s.Group == nil {
				c.squares += r.slope[i].g * r.slope[i].g
				continue
			}
			groupSlopes[number] += r.slope[i].g
			groupFold = fold
		}

		// After a group's last row, add its squares to the cells.
		lastOfGroup := at+1 == len(r.grouped) || r.s.Group != nil && r.s.Group[r.grouped[at+1]] != r.s.Group[row]
		if groupFold < len(r.folds) && lastOfGroup {
			for number, g := range groupSlopes {
				cells[groupFold][number].squares += g * g
			}
			clear(groupSlopes[:])
			groupFold = len(r.folds)
		}
	}
	return cells
}

// deviate says how far a sum of squares is above its mean by chance, in standard deviations of a normal distribution.
// mean and variance are those of the sum by chance. The sum is taken for a scaled chi-square variable of the same mean
// and variance (Satterthwaite, 1946), whose cube root is nearly normal (Wilson and Hilferty, 1931).
func deviate(sum, mean, variance float64) float64 {
	if !(mean > 0) {
		return 0
	}
	// The cube root of a chi-square divided by its f degrees of freedom has the mean 1 - 2/9f and the variance 2/9f.
	// The chi-square of this mean and variance has f = 2*mean²/variance.
	cubeVariance := variance / (mean * mean) / 9
	return (math.Cbrt(sum/mean) - (1 - cubeVariance)) / math.Sqrt(cubeVariance)
}

// countCell returns the range, from 0 to countCells-1, for a level's number of training rows. A rate of one row says
// less than the same rate of ten, so they go to different cells.
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

// quantiles returns at most parts-1 ascending bounds that divide the sorted numbers into parts of about equal counts.
// Equal numbers are never divided.
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

// binned bins the values, one per row, as quantiles of statisticBins parts would, but without sorting all of them:
// rates and counts are few different numbers, so each of these is sorted once.
func (w *scratch) binned(values []float64) Column {
	// Number the different values and count the rows of each.
	n := len(values)
	w.hashes = dataset.Resize(w.hashes, n)
	for i, x := range values {
		w.hashes[i] = Mix(math.Float64bits(x + 0)) // + 0 makes -0 and 0 the same value
	}
	numbers := w.numberLevels()
	type level struct {
		x            float64
		number, rows int
	}
	levels := make([]level, 0, numbers.levels)
	for i, number := range numbers.code {
		if int(number) == len(levels) { // the first row with this value: numbers go up in the order of first rows
			levels = append(levels, level{values[i], int(number), 0})
		}
		levels[number].rows++
	}
	slices.SortFunc(levels, func(a, b level) int { return cmp.Compare(a.x, b.x) })

	// Give each value the current bin. Quantile q is the value at row q*n/statisticBins of the sorted rows, and a bin
	// ends at it. q is the first quantile that the rows so far do not reach. If a quantile is the greatest value, the
	// last bin is empty.
	c := Column{Bins: 1, Data: make([]uint8, n)}
	bins, rows, q := make([]uint8, len(levels)), 0, 1
	for _, l := range levels {
		bins[l.number] = uint8(c.Bins - 1)
		rows += l.rows
		next := (rows*statisticBins + n - 1) / n // rows*statisticBins/n, rounded up
		if next > q {
			c.Bins++
			q = next
		}
	}
	for i, number := range numbers.code {
		c.Data[i] = bins[number]
	}
	return c
}
