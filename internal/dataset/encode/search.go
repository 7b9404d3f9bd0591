package encode

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"coppice/internal/dataset"
)

// Learner trains a small model on the rows l.Train and returns scores, by row, of which those of l.Held count: the log
// odds if the label is binary, and otherwise the predicted label. A key is only proposed for what this model cannot
// explain, so that a weak model leads to keys that the final model would not need.
type Learner func(ctx context.Context, l *TrainingSet) (scores []float64, err error)

// TrainingSet is a binned table for a Learner, which must not modify it.
type TrainingSet struct {
	Columns []Column
	Label   []float32 // [rows]
	Binary  bool      // labels are 0 and 1
	Train   []uint32  // rows to learn from, ascending
	Held    []uint32  // the other rows, ascending
	// Group is set where the model learns to rank the rows of a query, highest label first. It gives each row's query.
	Group []uint64
}

// Column is one binned feature.
type Column struct {
	Bins        int
	Categorical bool
	Data        []uint8 // [rows], each below Bins
}

// Atom is one way to turn a column into levels, such as its ids or the ranges of its numbers. A key joins one to three
// atoms.
type Atom struct {
	Column int      // the atom's column; atoms of the same column are never combined
	Alone  bool     // it may be a key by itself
	Hash   []uint64 // [rows of the sample], the level of each row
}

// Search looks for keys that improve a model's predictions. A key is a list of atoms; two rows have the same level of a
// key if all its atoms have the same hashes. The statistics of a key are the mean label and the number of rows of each
// level. Search works on a sample of train.
type Search struct {
	Label  []float32 // [rows]
	Binary bool      // labels are 0 and 1

	// Time is each row's time, if train is ordered by time. Then models learn from early rows and are tested on later
	// ones. nil means that the tested rows are drawn at random.
	Time []float64

	// Delay is used with Time: a training row sees only the labels of rows that are older by at least this much.
	Delay float64

	// holdFrom is used with Time: the time from which on rows are held out. nil means that the latest third is.
	holdFrom *float64

	// Group is a hash for each row. Rows with the same hash depend on each other, so that without Time they are trained
	// on together or tested on together. nil means that all rows are independent.
	Group []uint64

	// Queries says that the groups are queries: a training row sees only labels of other queries, and models learn to
	// rank the rows of a query.
	Queries bool

	Base    []Column // features that the model has from the start
	Keys    [][]int  // keys, as indices of Atoms, whose statistics the model has from the start
	Atoms   []Atom
	Budget  int // most keys to find
	Learner Learner
	Threads int
	// Progress, which may be nil, is called with the number of keys found.
	Progress func(found int)
}

// Found is a key whose statistics improve the model.
type Found struct {
	Atoms []int // indices of Search.Atoms
	// Gain estimates which share of the loss on held-out rows the key alone would remove from a model that has the keys
	// found before it.
	Gain float64
}

const (
	batchKeys = 8    // keys to add before the model is trained again
	leastGain = 3e-4 // share of the loss that a key has to explain to be added

	// acceptErrors is for searches by time: by how many standard errors over periods of time (stalePeriods) a batch
	// has to lower the loss to be kept. With eight periods, one useless batch in a thousand does, by Student's
	// distribution with seven degrees of freedom.
	acceptErrors = 5

	// earlyStopErrors is by how many standard errors the loss on the first folds has to fall for the last batch to be
	// accepted without training on the other folds.
	earlyStopErrors = 5

	// leastDeviates is how many standard deviations beyond chance a key's gain has to be. The best of a thousand
	// useless keys reaches about three.
	leastDeviates = 4

	maxAtoms = 48  // atoms of which all pairs are tried: 1,128 pairs
	patience = 1.0 // standard errors by which a batch may raise the loss and still be kept
)

// Run finds at most s.Budget keys, in the order in which they were added. It returns none, without an error, if there
// are fewer than 1,000 rows, if the labels of some fold's training rows are all equal, or if the model predicts nearly
// perfectly without keys.
//
// It repeats three steps. It measures how much of the model's error on held-out rows each candidate key explains. It
// adds the statistics of the best few, a batch, to the model. It trains the model again, and undoes the batch if the
// loss has risen. The candidates are first pairs of atoms, and the atoms that may be keys alone. Later they include
// each added key joined with another atom, up to three atoms.
func (s *Search) Run(ctx context.Context) ([]Found, error) {
	if len(s.Label) < 2*minHold || s.Budget == 0 {
		return nil, nil
	}
	r := newRun(s)
	if !r.learnable() {
		return nil, nil
	}

	// Train without any found key. What this model does not explain is what keys are looked for.
	if err := r.retrain(ctx, nil, false); err != nil {
		return nil, err
	}
	if r.meanLoss() < settledShare*r.constantLoss() {
		return nil, nil
	}

	candidates := r.initialCandidates(ctx)
	// size is how many keys a batch may have. Once a batch has been undone, all later ones are smaller, too.
	var found []Found
	for size := batchKeys; size > 0 && len(found) < s.Budget; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		batch, rest := r.pickBest(ctx, candidates, min(size, s.Budget-len(found)))
		if len(batch) == 0 { // no key explains enough any more, or ctx has ended
			return found, ctx.Err()
		}

		// Keep the batch only if the model is no worse with it. Otherwise try half as many keys; the search ends when a
		// single key makes it worse. The last batch within the budget is trained for this verdict only.
		previous := r.snapshot()
		if err := r.retrain(ctx, batch, len(found)+len(batch) == s.Budget); err != nil {
			return nil, err
		}
		if r.lossHasRisen(previous.loss) {
			r.restore(previous)
			size = len(batch) / 2 // of the same candidates as before
			continue
		}

		candidates = rest
		for _, c := range batch {
			found = append(found, Found{Atoms: c.atoms, Gain: c.gain})
		}
		if s.Progress != nil {
			s.Progress(len(found))
		}
		candidates = r.growCandidates(candidates, batch)
	}
	return found, nil
}

// candidate is a key that may be added.
type candidate struct {
	atoms  []int
	gain   float64 // mean reduction of the loss of a held-out row
	chance bool    // the gain may be due to chance
	cells  []uint8 // of cellsOf; nil if they are not kept
}

// run is the state of a search.
type run struct {
	s        *Search
	folds    []fold
	order    []uint32  // rows in the order in which statistics process them: by time, or at random
	keys     [][]int   // keys with statistics in the model
	keyCodes []codes   // the levels of keys
	score    []float64 // by row, from the model that did not learn from it; NaN if no fold holds the row out
	loss     []float64 // of the validation rows if there are some, else of all held-out rows
	slope    []slope   // by row, how its loss changes with its score; zero if no fold holds the row out

	// By time, the earlier half of the held-out rows proposes keys, and the later half validates them: validationRows
	// lists the later half in the order of time, and isValidation says for each row whether it is in it. Without times
	// both are nil, and all held-out rows both propose and validate.
	validationRows []uint32
	isValidation   []bool

	work      *sync.Pool // of *scratch, one for each key that is measured at the same time
	grouped   []uint32   // all rows, with each group's rows together
	heldOutIn []uint8    // by row, the fold that holds it out; the number of folds if none does
	tried     map[string]bool
}

// fold is a division of the rows into training rows and held-out rows.
type fold struct {
	hold      []bool   // by row, whether it is held out
	prior     float64  // the mean label of the training rows
	boundRows []uint32 // about 1,000 held-out rows, evenly spaced: enough to choose bounds of rates
	train     []uint32 // the training rows, in the order of run.order

	// columns has two columns for each key of the model: its rate and its count. A training row's statistics are made
	// of earlier rows only, and a held-out row's of all training rows.
	columns []Column
}

// codes are the levels of a key in the sample, numbered from 0 in the order of their first rows.
type codes struct {
	code   []int32 // by row
	levels int
}

// minHold is the least number of held-out rows to measure a loss on. Searches need twice as many rows in all.
const minHold = 500

// newRun orders the sampled rows, divides them into training rows and held-out rows, and adds the statistics of s.Keys.
// With times there is one fold, whose held-out rows are the latest; without, there are several random folds.
func newRun(s *Search) *run {
	n := len(s.Label)
	r := &run{s: s, order: make([]uint32, n), tried: map[string]bool{},
		work: &sync.Pool{New: func() any { return &scratch{} }}}
	for i := range r.order {
		r.order[i] = uint32(i)
	}
	r.grouped = slices.Clone(r.order) // in the order of the table, until the rows are sorted by group below

	if s.Time != nil {
		slices.SortStableFunc(r.order, func(a, b uint32) int { return cmp.Compare(s.Time[a], s.Time[b]) })
	}

	// What is known early is tested on what comes later, as in use; without times, folds are random.
	if hold := s.holdOutLatest(r.order); hold != nil {
		r.folds = []fold{{hold: hold}}
		r.validationRows, r.isValidation = laterHalf(r.order, hold)
	} else {
		// The order of the table may be meaningful; that of the statistics must not be.
		sorted := make([]ranked, n)
		for i := range sorted {
			sorted[i] = ranked{order: s.randomPosition(uint32(i)), row: uint32(i)}
		}
		sortRanked(sorted)
		for place, row := range sorted {
			r.order[place] = row.row
		}

		// With few rows, smaller folds leave more to learn from.
		folds := 3
		if n <= 40_000 {
			folds = 5
		}

		for f := range folds {
			hold := make([]bool, n)
			for i := range hold {
				hold[i] = int(s.foldHash(i)%uint64(folds)) == f
			}
			r.folds = append(r.folds, fold{hold: hold})
		}
	}

	// sumCells adds up each group's rows one after the other.
	if s.Group != nil {
		slices.SortStableFunc(r.grouped, func(a, b uint32) int { return cmp.Compare(s.Group[a], s.Group[b]) })
	}

	// No fold holds out a row, until prepareFold enters the rows of each.
	r.heldOutIn = slices.Repeat([]uint8{uint8(len(r.folds))}, n)
	for f := range r.folds {
		r.prepareFold(f)
	}
	for _, atoms := range s.Keys {
		r.addKey(atoms)
	}
	return r
}

// maxBoundRows is about how many held-out rows determine the bounds between the ranges of a key's rates (cellsOf).
const maxBoundRows = 1024

// prepareFold computes from the hold of fold f what the statistics of every key need: the mean label of its training
// rows, the rows for the bounds of rates, and r.heldOutIn of its held-out rows.
func (r *run) prepareFold(f int) {
	fold := &r.folds[f]
	var held []uint32
	labels := 0.0 // sum over the training rows
	for i, hold := range fold.hold {
		if hold {
			held = append(held, uint32(i))
			r.heldOutIn[i] = uint8(f)
		} else {
			labels += float64(r.s.Label[i])
		}
	}
	for _, i := range r.order {
		if !fold.hold[i] {
			fold.train = append(fold.train, i)
		}
	}
	fold.prior = labels / float64(max(len(fold.hold)-len(held), 1))

	step := max(1, len(held)/maxBoundRows)
	for i := 0; i < len(held); i += step {
		fold.boundRows = append(fold.boundRows, held[i])
	}
}

// randomPosition returns the sort key of a row in a random order. All rows of a query have the same.
func (s *Search) randomPosition(row uint32) uint64 {
	if s.Queries {
		return orderOfGroup(s.Group[row], 0)
	}
	return Order(row, 0)
}

// foldHash returns a hash of row i whose remainder is the fold that holds the row out. It is the same for all rows of a
// group.
func (s *Search) foldHash(i int) uint64 {
	if s.Group != nil {
		return Join(seedOrder, s.Group[i])
	}
	return Order(uint32(i), 1) // another random order than that of randomPosition, which is number 0
}

// holdOutLatest returns for each row whether it is in about the latest third of the rows, or as s.holdFrom says. order
// lists the rows by time.
// No held-out row has the same time as a training row. The result is nil if there are no times or all are equal.
func (s *Search) holdOutLatest(order []uint32) []bool {
	n := len(order)
	if s.Time == nil || s.Time[order[0]] == s.Time[order[n-1]] { // the earliest and the latest time
		return nil
	}
	earliest, from := s.Time[order[0]], s.Time[order[n*2/3]]
	if s.holdFrom != nil {
		from = *s.holdFrom
	}
	hold := make([]bool, n)
	for i, t := range s.Time {
		hold[i] = t >= from && t > earliest // if two thirds of the rows have the earliest time, they stay training rows
	}
	return hold
}

// laterHalf returns the later half of the held-out rows, in the order given, and for each row whether it is one of
// them. They validate the keys that the earlier half proposes: a key that merely tells days apart explains much of the
// days that proposed it, and nothing of later ones.
func laterHalf(order []uint32, hold []bool) (later []uint32, isLater []bool) {
	for _, i := range order {
		if hold[i] {
			later = append(later, i)
		}
	}
	later = later[len(later)/2:]

	isLater = make([]bool, len(hold))
	for _, i := range later {
		isLater[i] = true
	}
	return later, isLater
}

// learnable reports whether every fold has training rows with different labels. Otherwise all rates are equal, and
// nothing can be learnt from them.
func (r *run) learnable() bool {
	for f := range r.folds {
		least, most := math.Inf(1), math.Inf(-1)
		for i, hold := range r.folds[f].hold {
			if !hold {
				y := float64(r.s.Label[i])
				least, most = min(least, y), max(most, y)
			}
		}

		if least >= most { // all labels are equal, or the fold has no training rows
			return false
		}
	}
	return true
}

// snapshot returns the state of the search, for restore. The copy shares the folds with r.
func (r *run) snapshot() run { return *r }

// restore undoes the keys added since the snapshot was taken. In the shared folds, it drops their columns.
func (r *run) restore(previous run) {
	for f := range r.folds {
		r.folds[f].columns = r.folds[f].columns[:2*len(previous.keys)] // a rate and a count for each key
	}
	*r = previous
}

// addKey adds a key to those of the model. retrain makes its statistics, fold by fold.
func (r *run) addKey(atoms []int) {
	c := r.encode(atoms, &scratch{})
	r.keys, r.keyCodes = append(r.keys, atoms), append(r.keyCodes, c)
}

// retrain adds a batch of keys to the model, trains it once per fold, and computes scores, losses and slopes of the
// held-out rows. last says that no keys are looked for afterwards. Then only the verdict on the batch is needed, and
// random folds that remain are skipped once the loss has clearly fallen; their rows keep a NaN score and loss.
func (r *run) retrain(ctx context.Context, batch []candidate, last bool) error {
	for _, c := range batch {
		r.addKey(c.atoms)
	}
	before := r.loss

	// Rows that no fold holds out keep NaN. Scores and losses get new memory, since a snapshot shares the old ones:
	// nothing can be appended to [:0:0] without allocating.
	n := len(r.s.Label)
	r.score, r.loss = make([]float64, n), r.loss[:0:0]
	for i := range r.score {
		r.score[i] = math.NaN()
	}

	w := r.work.Get().(*scratch)
	defer r.work.Put(w)
	for f := range r.folds {
		fold := &r.folds[f]

		// Make the statistics of the keys that are new to this fold. It has two columns of each older key.
		for _, c := range r.keyCodes[len(fold.columns)/2:] {
			rate, count := r.statistics(fold, c)
			fold.columns = append(fold.columns, w.binned(rate), w.binned(count))
		}

		// Train on the rows that are not held out.
		set := &TrainingSet{Label: r.s.Label, Binary: r.s.Binary, Columns: slices.Concat(r.s.Base, fold.columns)}
		if r.s.Queries {
			set.Group = r.s.Group
		}
		for i, hold := range fold.hold {
			if hold {
				set.Held = append(set.Held, uint32(i))
			} else {
				set.Train = append(set.Train, uint32(i))
			}
		}

		scores, err := r.s.Learner(ctx, set)
		if err != nil {
			return fmt.Errorf("look for keys among the columns: %w", err)
		}

		// Score the held-out rows. The losses are then computed anew, of all folds trained so far.
		for _, i := range set.Held {
			r.score[i] = scores[i]
		}
		r.scoreHeldOut()

		if last && r.validationRows == nil {
			if mean, standardError := r.meanChange(before); mean < -earlyStopErrors*standardError {
				break
			}
		}
	}
	return nil
}

// OutOfFold returns a score for each row, from a model that has not learnt from the row nor, without s.Time, from
// another one of its group. Rows that no model leaves out get NaN: with s.Time, about the early two thirds. The result
// is nil, without an error, if there are fewer than 1,000 rows or a fold's training rows have equal labels.
func (s *Search) OutOfFold(ctx context.Context) ([]float64, error) {
	if len(s.Label) < 2*minHold {
		return nil, nil
	}
	r := newRun(s)
	if !r.learnable() {
		return nil, nil
	}
	err := r.retrain(ctx, nil, false)
	return r.score, err
}

// scoreHeldOut sets r.slope and r.loss from r.score. The slopes are those of all held-out rows. The losses are those of
// the validation rows in the order of time, or without times those of all held-out rows in the order of the sample.
func (r *run) scoreHeldOut() {
	r.loss, r.slope = nil, make([]slope, len(r.score)) // new ones: callers compare with those of before
	for i, score := range r.score {
		if !r.isHeldOut(i) {
			continue
		}
		if r.validationRows == nil { // a row whose fold has not been trained yet has a NaN loss
			r.loss = append(r.loss, r.s.lossOf(i, score))
		}
		r.slope[i] = r.s.slopeOf(i, score)
	}
	for _, i := range r.validationRows {
		r.loss = append(r.loss, r.s.lossOf(int(i), r.score[i]))
	}
}

// Worth returns for each key the share by which its statistics alone would reduce the loss of a constant model, on rows
// that the statistics were not made from. keys are lists of indices of s.Atoms. A share is never negative. If ctx ends
// early, the keys not measured yet get 0. The result is nil if there are fewer than 1,000 rows, if a fold's training
// rows have equal labels, or if the constant model has no loss.
func (s *Search) Worth(ctx context.Context, keys [][]int) []float64 {
	if len(s.Label) < 2*minHold {
		return nil
	}

	// Base columns, keys, queries and delays are left out: they concern the model and the statistics of training rows,
	// of which gainOf uses neither.
	r := newRun(&Search{Label: s.Label, Binary: s.Binary, Time: s.Time, Group: s.Group, Atoms: s.Atoms})
	if !r.learnable() {
		return nil
	}
	r.validationRows, r.isValidation = nil, nil // keys are only measured, so that all held-out rows may do it

	// The constant model predicts the mean of the training rows, as log odds if the label is binary. These are finite,
	// since learnable has found both labels among the training rows.
	r.score = make([]float64, len(s.Label))
	for f := range r.folds {
		mean := r.folds[f].prior
		if s.Binary {
			mean = math.Log(mean / (1 - mean))
		}
		for i, hold := range r.folds[f].hold {
			if hold {
				r.score[i] = mean
			}
		}
	}

	r.scoreHeldOut()
	if !(r.meanLoss() > 0) {
		return nil
	}

	out := make([]float64, len(keys))
	dataset.Parallel(s.Threads, len(out), func(i int) {
		if ctx.Err() == nil {
			gain, _ := r.gainOf(r.cellsOf(keys[i])) // below 0 if the key explains less than chance would
			out[i] = max(0, gain/r.meanLoss())
		}
	})
	return out
}
