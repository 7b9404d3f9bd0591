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

// Learner trains a small model on some rows of a table and scores all of them: log odds of a binary label, or the label
// itself. The better the model, the fewer keys are found that a model would not need.
type Learner func(ctx context.Context, l *Lesson) (scores []float64, err error)

// Lesson is a binned table for a Learner, which must not modify it.
type Lesson struct {
	Columns []Column
	Label   []float32
	Binary  bool
	Train   []uint32 // rows to learn from, ascending
	Group   []uint64 // by row, its query, where the order of a query's rows is to be learnt: a higher label comes first
}

// Column is one binned feature.
type Column struct {
	Bins        int
	Categorical bool
	Data        []uint8
}

// Atom is a part that keys can be made of: a hash for each row of the sample.
type Atom struct {
	Column int  // atoms of the same column are never combined
	Alone  bool // it may be a key by itself
	Hash   []uint64
}

// Search looks for keys that improve a model's predictions. It works on a sample of train.
type Search struct {
	Label   []float32
	Binary  bool
	Time    []float64 // by row, if train is ordered by time: then what is known early is tested on what comes later
	Delay   float64   // by time: a training row sees only labels of rows that are older by this much
	Group   []uint64  // by row, the hash that keeps rows on the same side of a split; nil if each row is independent
	Queries bool      // groups are queries: a training row sees only labels of other groups, and models learn an order
	Base    []Column  // features that the model has anyway
	Keys    [][]int   // keys, as indices of atoms, whose statistics it has anyway
	Atoms   []Atom
	Budget  int // most keys to find
	Learner Learner
	Threads int
	// Progress, which may be nil, is called with the number of keys found.
	Progress func(found int)
}

// Found is a key that is worth a table.
type Found struct {
	Atoms []int
	// Gain is the reduction of the loss, as a share, on rows that the model has not learnt from, when only its
	// statistics are added to a model with the keys found before.
	Gain float64
}

const (
	batchKeys = 8    // keys to add before the model is trained again
	leastGain = 3e-4 // of the loss, for a key to be added

	// By time, keys have to lower the loss by so many standard errors over stretches of time: with eight of these, one
	// in a thousand batches that say nothing does.
	judgeErrors = 5

	// lastErrors is by how many standard errors the loss has to fall on the first folds for the last batch to be kept.
	lastErrors = 5

	// leastDeviates is how far beyond chance a key's gain has to be: the best of a thousand useless keys is at three.
	leastDeviates = 4

	maxAtoms = 48  // among which pairs are tried
	patience = 1.0 // standard errors by which a batch may worsen the loss
)

// Run finds keys: it measures how much of the model's error on held-out rows the levels of a pair of atoms explain,
// adds the statistics of the best few to the model, and continues with the remaining error; the candidates then include
// triples grown from added pairs.
func (s *Search) Run(ctx context.Context) ([]Found, error) {
	if len(s.Label) < 2*minHold || s.Budget == 0 {
		return nil, nil
	}
	r := newRun(s)
	if !r.learnable() {
		return nil, nil
	}
	if err := r.retrain(ctx, nil, false); err != nil {
		return nil, err
	}
	if r.meanLoss() < settled*r.constantLoss() {
		return nil, nil
	}
	candidates := r.initialCandidates(ctx)
	var found []Found
	for size := batchKeys; size > 0 && len(found) < s.Budget; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		batch, rest := r.pickBest(ctx, candidates, min(size, s.Budget-len(found)))
		if len(batch) == 0 {
			return found, ctx.Err()
		}

		known := r.known()
		if err := r.retrain(ctx, batch, len(found)+len(batch) == s.Budget); err != nil {
			return nil, err
		}
		if r.lossHasRisen(known.loss) {
			r.forget(known)
			size = len(batch) / 2
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
	gain   float64
	chance bool // so much gain may be due to chance
}

// run is the state of a search.
type run struct {
	s     *Search
	folds []fold
	order []uint32 // rows in the order in which statistics process them
	keys  [][]int  // with statistics in the model
	taken []codes  // of keys
	score []float64
	loss  []float64 // by held-out row
	slope []slope   // of the loss by the score, by row
	// By time, the later half of the held-out rows judges the keys that the earlier half proposes: its rows, by time,
	// and whether a row is one of them. Without, all held-out rows do both.
	judges  []uint32
	judging []bool
	work    *sync.Pool // of *scratch
	// grouped lists all rows, with each group's rows together.
	grouped []uint32
	outside []uint8 // by row, the fold that holds it out; the number of folds if none does
	tried   map[string]bool
}

// fold is a division of the rows into training rows and held-out rows.
type fold struct {
	hold    []bool
	prior   float64  // the mean label of the training rows
	some    []uint32 // held-out rows, evenly spaced: they suffice for the bounds of cells
	columns []Column // statistics of keys: ordered for training rows, and from all training rows for the others
}

// codes are the numbered levels of a key in the sample.
type codes struct {
	code   []int32
	levels int
}

// minHold is the least number of held-out rows to judge by.
const minHold = 500

// newRun orders the sampled rows and divides them into those to learn from and those to test on: by time if there is
// one, else at random in several folds.
func newRun(s *Search) *run {
	n := len(s.Label)
	r := &run{s: s, order: make([]uint32, n), tried: map[string]bool{},
		work: &sync.Pool{New: func() any { return &scratch{} }}}
	for i := range r.order {
		r.order[i] = uint32(i)
	}
	r.grouped = slices.Clone(r.order)

	if s.Time != nil {
		slices.SortStableFunc(r.order, func(a, b uint32) int { return cmp.Compare(s.Time[a], s.Time[b]) })
	}

	// What is known early is tested on what comes later, as in use; without times, folds are random.
	if hold := s.markLater(r.order); hold != nil {
		r.folds = []fold{{hold: hold}}
		r.judges, r.judging = judgesOf(r.order, hold)
	} else {
		// The order of the table may be meaningful; that of the statistics must not be.
		slices.SortFunc(r.order, func(a, b uint32) int {
			return cmp.Or(cmp.Compare(s.place(a), s.place(b)), cmp.Compare(a, b))
		})

		// With few rows, smaller folds leave more to learn from.
		folds := 3
		if n <= 40_000 {
			folds = 5
		}

		for f := range folds {
			hold := make([]bool, n)
			for i := range hold {
				hold[i] = int(s.lot(i)%uint64(folds)) == f
			}
			r.folds = append(r.folds, fold{hold: hold})
		}
	}

	if s.Group != nil {
		slices.SortStableFunc(r.grouped, func(a, b uint32) int { return cmp.Compare(s.Group[a], s.Group[b]) })
	}

	r.outside = slices.Repeat([]uint8{uint8(len(r.folds))}, n)
	for f := range r.folds {
		r.prepare(f)
	}
	for _, atoms := range s.Keys {
		r.addKey(atoms)
	}
	return r
}

// boundRows is how many rates determine the cells' bounds.
const boundRows = 1024

// prepare fills in what every key needs of a fold: which rows it holds out, the mean label of the others, and some
// 1,000 of those held out, evenly spaced, for the bounds of cells.
func (r *run) prepare(f int) {
	fold, sum := &r.folds[f], 0.0
	var held []uint32
	for i, hold := range fold.hold {
		if hold {
			held = append(held, uint32(i))
			r.outside[i] = uint8(f)
		} else {
			sum += float64(r.s.Label[i])
		}
	}
	fold.prior = sum / float64(max(len(fold.hold)-len(held), 1))
	for i := 0; i < len(held); i += max(1, len(held)/boundRows) {
		fold.some = append(fold.some, held[i])
	}
}

// place is that of a row in a random order.
func (s *Search) place(row uint32) uint64 {
	if s.Queries {
		return orderOfGroup(s.Group[row], 0)
	}
	return Order(row, 0)
}

// lot decides which fold row i is held out in; it is the same for all rows of a group.
func (s *Search) lot(i int) uint64 {
	if s.Group != nil {
		return Join(seedOrder, s.Group[i])
	}
	return Order(uint32(i), 1)
}

// markLater marks the rows in about the last third of time, which share no time with the others; nil if there are no
// times, or too few.
func (s *Search) markLater(order []uint32) []bool {
	n := len(order)
	if s.Time == nil || s.Time[order[0]] == s.Time[order[n-1]] {
		return nil
	}
	from := s.Time[order[n*2/3]]
	hold := make([]bool, n)
	for i, t := range s.Time {
		hold[i] = t >= from && t > s.Time[order[0]]
	}
	return hold
}

// judgesOf returns the later half of the held-out rows, in order, and by row whether it is one of them. A key that
// tells days apart explains much of the days that proposed it, and nothing of others.
func judgesOf(order []uint32, hold []bool) (judges []uint32, judging []bool) {
	for _, i := range order {
		if hold[i] {
			judges = append(judges, i)
		}
	}
	judges, judging = judges[len(judges)/2:], make([]bool, len(hold))
	for _, i := range judges {
		judging[i] = true
	}
	return judges, judging
}

// learnable reports whether the labels of the training rows differ in every fold; otherwise a rate says nothing.
func (r *run) learnable() bool {
	for f := range r.folds {
		least, most := math.Inf(1), math.Inf(-1)
		for i, hold := range r.folds[f].hold {
			if !hold {
				y := float64(r.s.Label[i])
				least, most = min(least, y), max(most, y)
			}
		}

		if least >= most {
			return false
		}
	}
	return true
}

// known returns what a run has learnt so far.
func (r *run) known() run { return *r }

// forget resets a run to what it knew.
func (r *run) forget(known run) {
	for f := range r.folds {
		r.folds[f].columns = r.folds[f].columns[:2*len(known.keys)]
	}
	*r = known
}

// addKey adds the statistics of a key to the model.
func (r *run) addKey(atoms []int) {
	c := r.encode(atoms, &scratch{})
	r.keys, r.taken = append(r.keys, atoms), append(r.taken, c)
}

// retrain trains the model again, including the statistics of the batch. After the last batch nothing is looked for, so
// a fold on which the loss has clearly fallen spares the others.
func (r *run) retrain(ctx context.Context, batch []candidate, last bool) error {
	for _, c := range batch {
		r.addKey(c.atoms)
	}
	before := r.loss

	// Rows that no fold holds out keep NaN.
	n := len(r.s.Label)
	r.score, r.loss = make([]float64, n), r.loss[:0:0]
	for i := range r.score {
		r.score[i] = math.NaN()
	}

	w := r.work.Get().(*scratch)
	defer r.work.Put(w)
	for f := range r.folds {
		fold := &r.folds[f]
		for _, c := range r.taken[len(fold.columns)/2:] {
			rate, count := r.statistics(fold, c)
			fold.columns = append(fold.columns, w.binned(rate), w.binned(count))
		}
		lesson := &Lesson{Label: r.s.Label, Binary: r.s.Binary, Columns: slices.Concat(r.s.Base, fold.columns)}
		if r.s.Queries {
			lesson.Group = r.s.Group
		}
		for i, hold := range fold.hold {
			if !hold {
				lesson.Train = append(lesson.Train, uint32(i))
			}
		}

		scores, err := r.s.Learner(ctx, lesson)
		if err != nil {
			return fmt.Errorf("look for keys among the columns: %w", err)
		}

		for i, hold := range fold.hold {
			if hold {
				r.score[i] = scores[i]
			}
		}
		if r.scoreHeldOut(); last && r.judges == nil {
			if mean, spread := r.meanChange(before); mean < -lastErrors*spread {
				break
			}
		}
	}
	return nil
}

// OutOfFold returns the scores of all rows by models that have not learnt from their group; nil if there are too few.
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

// scoreHeldOut compares the scores of held-out rows with their labels; the losses are those of rows that judge keys.
func (r *run) scoreHeldOut() {
	r.loss, r.slope = r.loss[:0:0], make([]slope, len(r.score))
	for i, score := range r.score {
		if !r.held(i) {
			continue
		}
		if r.judges == nil { // NaN before its fold has learnt
			r.loss = append(r.loss, r.s.lossOf(i, score))
		}
		r.slope[i] = r.s.slopeOf(i, score)
	}
	for _, i := range r.judges {
		r.loss = append(r.loss, r.s.lossOf(int(i), r.score[i]))
	}
}

// held reports whether row i is held out in some fold.
func (r *run) held(i int) bool { return int(r.outside[i]) < len(r.folds) }

// lossOf is the loss of row i: log loss, or half the squared error.
func (s *Search) lossOf(i int, score float64) float64 {
	y := float64(s.Label[i])
	if !s.Binary {
		return (y - score) * (y - score) / 2
	}
	if y > 0 {
		score = -score
	}
	return max(score, 0) + math.Log1p(math.Exp(-math.Abs(score)))
}

// slope is how a loss changes with the score: the negative gradient, and the hessian.
type slope struct{ g, h float64 }

// slopeOf is the slope of the loss of row i.
func (s *Search) slopeOf(i int, score float64) slope {
	y := float64(s.Label[i])
	if !s.Binary {
		return slope{y - score, 1}
	}
	p := 1 / (1 + math.Exp(-score))
	return slope{y - p, p * (1 - p)}
}

// lossHasRisen reports whether the loss of the same rows has risen by more than chance would often explain; by time,
// whether it has not fallen by more than that.
func (r *run) lossHasRisen(before []float64) bool {
	if r.judges != nil {
		return !lossHasFallen(before, r.loss, judgeErrors)
	}
	mean, spread := r.meanChange(before)
	return mean > patience*spread
}

// meanChange is the mean change of the loss of the rows that have one, and its standard error.
func (r *run) meanChange(before []float64) (mean, spread float64) {
	n, squares := 0.0, 0.0
	for i, b := range before {
		if d := r.loss[i] - b; d == d {
			n, mean, squares = n+1, mean+d, squares+d*d
		}
	}
	mean /= n
	return mean, math.Sqrt(max(squares/n-mean*mean, 0) / n)
}

// settled is the share of a constant model's loss below which the columns say all there is to say: on a table that is
// nearly separable every pair of columns seems to help, and minutes would be spent on what no model needs.
const settled = 0.01

// constantLoss is the mean loss of the held-out rows if each is predicted as the mean label.
func (r *run) constantLoss() float64 {
	mean, n := 0.0, 0
	for i := range r.score {
		if r.held(i) {
			mean += float64(r.s.Label[i])
			n++
		}
	}
	mean /= float64(n)
	if r.s.Binary {
		mean = math.Log(mean / (1 - mean))
	}
	sum := 0.0
	for i := range r.score {
		if r.held(i) {
			sum += r.s.lossOf(i, mean)
		}
	}
	return sum / float64(n)
}

// meanLoss is the mean over the held-out rows.
func (r *run) meanLoss() float64 {
	sum := 0.0
	for _, l := range r.loss {
		sum += l
	}
	return sum / float64(len(r.loss))
}

// Worth measures the statistics of each key by itself: the share by which they reduce the loss of a constant model, on
// rows that they were not made from. nil if there are too few rows.
func (s *Search) Worth(ctx context.Context, keys [][]int) []float64 {
	if len(s.Label) < 2*minHold {
		return nil
	}

	r := newRun(&Search{Label: s.Label, Binary: s.Binary, Time: s.Time, Group: s.Group, Atoms: s.Atoms})
	if !r.learnable() {
		return nil
	}
	r.judges, r.judging = nil, nil // nothing is chosen

	// The constant model predicts the mean of the training rows, as log odds if the label is binary.
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
			gain, _ := r.gainOf(keys[i])
			out[i] = max(0, gain/r.meanLoss())
		}
	})
	return out
}
