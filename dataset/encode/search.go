package encode

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
)

// Learner trains a small model on some rows of a table and scores all of them: log odds of a binary label, or the label itself. Which
// model that is, its owner decides; the better it is, the less is found that a model finds by itself anyway.
type Learner func(ctx context.Context, l *Lesson) (scores []float64, err error)

// Lesson is a binned table for a Learner. It must not be changed.
type Lesson struct {
	Columns []Column
	Label   []float32
	Binary  bool
	Train   []uint32 // rows to learn from, ascending
}

// Column is one binned feature.
type Column struct {
	Bins        int
	Categorical bool
	Data        []uint8
}

// Atom is a part that keys may be made of: of each row of the sample, its hash.
type Atom struct {
	Column int  // atoms of one column are never taken together
	Alone  bool // it may be a key by itself
	Hash   []uint64
}

// Search looks for keys that tell more of the label than a model knows without them. It is made of a sample of train.
type Search struct {
	Label   []float32
	Binary  bool
	Time    []float64 // of each row, where train has an order by time: then what is known early is tried on what comes later
	Delay   float64   // by time: how much older than a row that learns others must be for it to see their labels
	Group   []uint64  // of each row, the hash of what keeps rows on one side of a split; nil where each row stands for itself
	Base    []Column  // features that the model has anyway
	Keys    [][]int   // keys, as numbers of atoms, whose statistics it has anyway
	Atoms   []Atom
	Budget  int // keys to find at most
	Learner Learner
	Threads int
	// Progress, which may be nil, is told how many keys have been found.
	Progress func(found int)
}

// Found is a key that is worth a table.
type Found struct {
	Atoms []int
	// Gain is by how much its statistics alone, added to a model with the keys found before it, lower the loss on rows that the
	// model has not learnt from, as a share of that loss.
	Gain float64
}

const (
	batchKeys = 8    // that are taken together before the model is made anew
	leastGain = 3e-4 // of the loss, for a key to be taken

	// leastDeviates is how far beyond chance a key's gain has to be: of a thousand keys that say nothing the best is at three.
	leastDeviates = 4

	maxAtoms = 48  // among which pairs are looked for
	patience = 1.0 // standard errors by which a batch may make the loss worse
)

// Run finds keys: it measures how much of what the model gets wrong on held-out rows the levels of a pair of atoms explain, takes the
// best few, adds their statistics to the model, and goes on with what is left, with triples that a pair has grown to among the
// candidates.
func (s *Search) Run(ctx context.Context) ([]Found, error) {
	if len(s.Label) < 2*minHold || s.Budget == 0 {
		return nil, nil
	}
	r := newRun(s)
	if !r.learnable() {
		return nil, nil
	}
	if err := r.learn(ctx, nil); err != nil {
		return nil, err
	}
	candidates := r.first()
	var found []Found
	for size := batchKeys; size > 0 && len(found) < s.Budget; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		batch, rest := r.best(candidates, min(size, s.Budget-len(found)))
		if len(batch) == 0 {
			break
		}

		known := r.known()
		if err := r.learn(ctx, batch); err != nil {
			return nil, err
		}
		if r.worse(known.loss) {
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
		candidates = r.grow(candidates, batch)
	}
	return found, nil
}

// candidate is a key that may be taken.
type candidate struct {
	atoms  []int
	gain   float64
	chance bool // so much gain may well be chance
}

// run is the state of a search.
type run struct {
	s     *Search
	folds []fold
	order []uint32 // rows as statistics go through them
	keys  [][]int  // with statistics in the model
	taken []codes  // of keys
	score []float64
	loss  []float64 // of each held-out row
	slope []slope   // of the loss by the score, of each row
	// grouped are all rows, those of a group one after the other.
	grouped []uint32
	tried   map[string]bool
}

// fold is a division of the rows: those that a model learns from, and those that it is judged by.
type fold struct {
	hold    []bool
	columns []Column // statistics of keys, as rows that learn have them in order and others from all rows that learn
}

// codes are the levels of a key among the rows of the sample, numbered.
type codes struct {
	code   []int32
	levels int
}

// minHold is the least number of rows by which anything can be judged.
const minHold = 500

func newRun(s *Search) *run {
	n := len(s.Label)
	r := &run{s: s, order: make([]uint32, n), tried: map[string]bool{}}
	for i := range r.order {
		r.order[i] = uint32(i)
	}
	r.grouped = slices.Clone(r.order)

	if s.Time != nil {
		slices.SortStableFunc(r.order, func(a, b uint32) int { return cmp.Compare(s.Time[a], s.Time[b]) })
	}

	// What is known early is tried on what comes later, as it will be used; without times, folds are drawn by lot.
	if hold := s.later(r.order); hold != nil {
		r.folds = []fold{{hold: hold}}
	} else {
		// The order of the table may mean something; that of the statistics must not.
		slices.SortFunc(r.order, func(a, b uint32) int { return cmp.Compare(Order(a, 0), Order(b, 0)) })

		// Where rows are few, smaller folds leave more of them to learn from.
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

	for _, atoms := range s.Keys {
		r.add(atoms)
	}
	return r
}

// lot decides which fold row i is held out in: the rows of a group have the same one.
func (s *Search) lot(i int) uint64 {
	if s.Group != nil {
		return Join(seedOrder, s.Group[i])
	}
	return Order(uint32(i), 1)
}

// later are the rows of about the last third of the time, whose times the others do not have; nil where there are no times, or too few.
func (s *Search) later(order []uint32) []bool {
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

// learnable reports whether there is something to learn in every fold: labels that differ.
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

// known is what a run has learnt so far.
func (r *run) known() run { return *r }

// forget takes a run back to what it knew.
func (r *run) forget(known run) {
	for f := range r.folds {
		r.folds[f].columns = r.folds[f].columns[:2*len(known.keys)]
	}
	*r = known
}

// add gives the model the statistics of a key.
func (r *run) add(atoms []int) {
	c := r.encode(atoms)
	r.keys, r.taken = append(r.keys, atoms), append(r.taken, c)
	for f := range r.folds {
		rate, count := r.statistics(&r.folds[f], c)
		r.folds[f].columns = append(r.folds[f].columns, binned(rate), binned(count))
	}
}

// learn makes the model anew, with the statistics of the batch, too.
func (r *run) learn(ctx context.Context, batch []candidate) error {
	for _, c := range batch {
		r.add(c.atoms)
	}

	// NaN stays where no fold holds the row out.
	n := len(r.s.Label)
	r.score, r.loss = make([]float64, n), r.loss[:0:0]
	for i := range r.score {
		r.score[i] = math.NaN()
	}

	for f := range r.folds {
		fold := &r.folds[f]
		lesson := &Lesson{Label: r.s.Label, Binary: r.s.Binary, Columns: slices.Concat(r.s.Base, fold.columns)}
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
	}

	r.judge()
	return nil
}

// judge compares the scores of held-out rows with their labels.
func (r *run) judge() {
	r.loss, r.slope = r.loss[:0:0], make([]slope, len(r.score))
	for i, score := range r.score {
		if score != score || !r.held(i) {
			continue
		}
		r.loss = append(r.loss, r.s.lossOf(i, score))
		r.slope[i] = r.s.slopeOf(i, score)
	}
}

// held reports whether row i is held out in some fold.
func (r *run) held(i int) bool {
	return slices.ContainsFunc(r.folds, func(f fold) bool { return f.hold[i] })
}

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

// worse reports whether the loss of the same rows has risen by more than chance alone would often do.
func (r *run) worse(before []float64) bool {
	mean, squares := 0.0, 0.0
	for i, l := range r.loss {
		d := l - before[i]
		mean += d
		squares += d * d
	}
	n := float64(len(before))
	mean /= n
	return mean > patience*math.Sqrt(max(squares/n-mean*mean, 0)/n)
}

// meanLoss is the mean of the held-out rows.
func (r *run) meanLoss() float64 {
	sum := 0.0
	for _, l := range r.loss {
		sum += l
	}
	return sum / float64(len(r.loss))
}

// Worth is what the statistics of each key by itself tell: the share of the loss of a model that knows nothing, on rows that the
// statistics were not made of. nil where there are too few rows to tell.
func (s *Search) Worth(keys [][]int) []float64 {
	if len(s.Label) < 2*minHold {
		return nil
	}

	r := newRun(&Search{Label: s.Label, Binary: s.Binary, Time: s.Time, Group: s.Group, Atoms: s.Atoms})
	if !r.learnable() {
		return nil
	}

	// The model that knows nothing says the mean of the rows that learn, as log odds where the label is binary.
	r.score = make([]float64, len(s.Label))
	for f := range r.folds {
		mean := r.prior(&r.folds[f])
		if s.Binary {
			mean = math.Log(mean / (1 - mean))
		}
		for i, hold := range r.folds[f].hold {
			if hold {
				r.score[i] = mean
			}
		}
	}

	r.judge()
	if !(r.meanLoss() > 0) {
		return nil
	}

	out := make([]float64, len(keys))
	parallel(s.Threads, len(out), func(i int) {
		gain, _ := r.gain(keys[i])
		out[i] = max(0, gain/r.meanLoss())
	})
	return out
}
