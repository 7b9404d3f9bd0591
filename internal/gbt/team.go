package gbt

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"hash"
	"math"
	"slices"

	"coppice/internal/problem"
)

// Team joins the workers that train one model together, each with its own rows of the table. Workers are numbered from
// 0 in the order of their rows, so that their tables, one after the other, are the whole table. Every worker makes the
// same calls in the same order, from one goroutine; a call returns when this worker has its result. After an error, the
// team is of no more use.
//
// All that the trainer learns from all rows is a sum of integers, a maximum, or a computation that each worker carries
// on where the one before it stopped. So the model does not depend on the number of workers nor on who has which rows.
type Team interface {
	// Place returns this worker's number, and how many there are.
	Place() (rank, size int)
	// Reduce adds up words over all workers, element by element modulo 2^64. Worker i gets the sums of words
	// bounds[i] <= j < bounds[i+1] in their place; its other words are undefined afterwards. All workers pass as many
	// words and the same bounds.
	Reduce(words []int64, bounds []int) error
	// Gather returns the words of all workers, one worker's after the other's; each passes as many.
	Gather(words []int64) ([]int64, error)
	// Broadcast replaces the words of all workers by those of one.
	Broadcast(from int, words []int64) error
}

// ErrTeam is wrapped by the error of a training that has lost a worker of its team. The workers that are left can
// divide the rows anew and resume from the newest checkpoint that any of them has.
var ErrTeam = errors.New("a worker of the team is gone")

// link is a training's connection to its team; nil for a training alone, for which its methods do nothing. It remembers
// the first error, after which results mean nothing: who uses them asks failed before they leave the tree.
type link struct {
	team  Team
	rank  int    // this worker's number
	size  int    // how many workers there are
	first uint64 // number of this worker's first row in the whole table
	rows  int    // of all workers together
	used  int    // those in use
	err   error
	words []int64 // of Reduce
}

// newLink counts the rows of the team that d is a part of.
func newLink(d *Data) (*link, error) {
	if d.Team == nil {
		return nil, nil
	}

	l := &link{team: d.Team}
	l.rank, l.size = d.Team.Place()
	all := l.gather(int64(d.Rows), int64(d.Used()), int64(len(d.Features)))
	if l.err != nil {
		return nil, l.err
	}
	for i := range l.size {
		if i == l.rank {
			l.first = uint64(l.rows)
		}
		l.rows += int(all[3*i])
		l.used += int(all[3*i+1])
		if int(all[3*i+2]) != len(d.Features) {
			return nil, fmt.Errorf("%w: worker %d has %d features, worker %d %d", ErrData, i, all[3*i+2],
				l.rank, len(d.Features))
		}
	}
	if l.rows > math.MaxUint32 {
		return nil, fmt.Errorf("%w: %d rows", ErrData, l.rows)
	}
	if l.used == 0 {
		return nil, fmt.Errorf("%w: no row to use", ErrData)
	}
	return l, nil
}

// leads reports whether this worker decides what only one has to: it evaluates the metric and watches the time.
func (l *link) leads() bool { return l == nil || l.rank == 0 }

// failed returns the team's first error.
func (l *link) failed() error {
	if l == nil {
		return nil
	}
	return l.err
}

// fail keeps the first error.
func (l *link) fail(err error) {
	if err != nil && l.err == nil {
		l.err = fmt.Errorf("%w: %w", ErrTeam, err)
	}
}

// gather returns all workers' words; zeros after an error.
func (l *link) gather(words ...int64) []int64 {
	if l.err == nil {
		all, err := l.team.Gather(words)
		if err == nil && len(all) == len(words)*l.size {
			return all
		}
		l.fail(err)
	}
	return make([]int64, len(words)*l.size)
}

func (l *link) broadcast(from int, words []int64) {
	if l.err == nil {
		l.fail(l.team.Broadcast(from, words))
	}
}

// sumWords replaces words by their sums over all workers.
func (l *link) sumWords(words []int64) {
	if l == nil {
		return
	}
	all := l.gather(words...)
	clear(words)
	for i, w := range all {
		words[i%len(words)] += w
	}
}

// sumCount returns the sum of n over all workers.
func (l *link) sumCount(n int) int {
	if l == nil {
		return n
	}
	one := [1]int64{int64(n)}
	l.sumWords(one[:])
	return int(one[0])
}

// takeLargest replaces each value, which is not negative, by the largest of all workers.
func (l *link) takeLargest(values ...*float64) {
	if l == nil {
		return
	}
	words := make([]int64, len(values))
	for i, v := range values {
		words[i] = int64(math.Float64bits(*v))
	}
	for i, w := range l.gather(words...) {
		v := values[i%len(values)]
		*v = max(*v, math.Float64frombits(uint64(w)))
	}
}

// inTurn calls f on one worker after the other, in the order of their rows, and carries state from each to the next.
// In the end all have the last one's. It is for what depends on the order, such as sums of floats.
func (l *link) inTurn(state []int64, f func() error) error {
	if l == nil {
		return f()
	}
	for i := range l.size {
		if i == l.rank {
			if err := f(); err != nil {
				return err
			}
		}
		l.broadcast(i, state)
	}
	return l.err
}

// floatsInTurn is inTurn with numbers as the state.
func (l *link) floatsInTurn(state []float64, f func() error) error {
	if l == nil {
		return f()
	}

	words := make([]int64, len(state))
	put := func() {
		for i, v := range state {
			words[i] = int64(math.Float64bits(v))
		}
	}
	take := func() {
		for i, w := range words {
			state[i] = math.Float64frombits(uint64(w))
		}
	}
	put()
	err := l.inTurn(words, func() error {
		take()
		defer put()
		return f()
	})
	take()
	return err
}

// hashInTurn is inTurn with the state of a hash of the library: one byte a word, since a SHA-256's has only 108.
func (l *link) hashInTurn(h hash.Hash, f func()) {
	if l == nil {
		f()
		return
	}

	marshaler := h.(stateful) // as all hashes of the library; an error of theirs is not the team's
	toWords := func(words []int64) []int64 {
		state, err := marshaler.MarshalBinary()
		l.err = cmp.Or(l.err, err)
		for _, b := range state {
			words = append(words, int64(b))
		}
		return words
	}
	fromWords := func(words []int64) {
		state := make([]byte, len(words))
		for i, word := range words {
			state[i] = byte(word)
		}
		l.err = cmp.Or(l.err, marshaler.UnmarshalBinary(state))
	}

	words := toWords(nil)
	_ = l.inTurn(words, func() error { // the link keeps its error
		fromWords(words)
		f()
		toWords(words[:0]) // in place: a state always has as many bytes
		return nil
	})
	if l.err == nil {
		fromWords(words)
	}
}

type stateful interface {
	encoding.BinaryMarshaler
	encoding.BinaryUnmarshaler
}

// What the leader tells the other workers about a call that only it makes.
const (
	goOn int64 = iota
	atLimit
	gaveUp
)

// askLeader returns the leader's value and error on every worker. Only the leader calls f. Of an error the others learn
// whether it is ErrLimit.
func (l *link) askLeader(f func() (float64, error)) (float64, error) {
	if l == nil {
		return f()
	}

	words := make([]int64, 2)
	var err error
	if l.leads() {
		var v float64
		v, err = f()
		words[0] = int64(math.Float64bits(v))
		switch {
		case errors.Is(err, ErrLimit):
			words[1] = atLimit
		case err != nil:
			words[1] = gaveUp
		}
	}
	l.broadcast(0, words)

	switch {
	case err != nil:
		return 0, err
	case l.err != nil:
		return 0, l.err
	case words[1] == atLimit:
		return 0, ErrLimit
	case words[1] == gaveUp:
		return 0, ErrLeader
	}
	return math.Float64frombits(uint64(words[0])), nil
}

// ErrLeader is what the other workers of a team return when the first has ended the training with an error of its own.
var ErrLeader = problem.New(problem.Input, "the first worker ended the training; its own message says why")

// divideFeatures returns where each worker's features begin among those of a tree, so that all have about as many bins,
// and the end.
func (l *link) divideFeatures(features []int, offset []int) []int {
	size := l.size
	total := 0
	for _, f := range features {
		total += offset[f+1] - offset[f]
	}

	begin := make([]int, 1, size+1)
	bins := 0
	for i, f := range features {
		for bins*size >= total*len(begin) && len(begin) < size {
			begin = append(begin, i)
		}
		bins += offset[f+1] - offset[f]
	}
	for len(begin) <= size {
		begin = append(begin, len(features))
	}
	return begin
}

// agreeOnSplits makes the best of all workers' splits the best of each leaf, as pickBest does for
// goroutines.
func (l *link) agreeOnSplits(leaves []*leaf) {
	if l == nil || len(leaves) == 0 {
		return
	}
	var own []int64
	for _, leaf := range leaves {
		own = leaf.best.appendWords(own)
	}

	all := l.gather(own...)
	if l.err != nil {
		return
	}
	for w := range slices.Chunk(all, len(own)) {
		for i, leaf := range leaves {
			if found := splitOf(w[i*splitWords:]); found.before(&leaf.best) {
				leaf.best = found
			}
		}
	}
}

// splitWords is the length of a split on its way between workers.
const splitWords = 11

// appendWords appends the split as splitWords words, numbers by their bits; splitOf is the inverse.
func (s *split) appendWords(to []int64) []int64 {
	missing := int64(0)
	if s.missing {
		missing = 1
	}
	to = append(to, int64(math.Float64bits(s.gain)), int64(s.feature), int64(s.at), missing,
		int64(math.Float64bits(s.sums.g)), int64(math.Float64bits(s.sums.h)), int64(math.Float64bits(s.l2)))
	for _, w := range s.left {
		to = append(to, int64(w))
	}
	return to
}

// splitOf is the inverse of split.appendWords.
func splitOf(w []int64) split {
	float := func(i int) float64 { return math.Float64frombits(uint64(w[i])) }
	s := split{gain: float(0), feature: int(w[1]), at: int(w[2]), missing: w[3] != 0,
		sums: sums{float(4), float(5)}, l2: float(6)}
	for i := range s.left {
		s.left[i] = uint64(w[7+i])
	}
	return s
}

// Exchanges returns the most calls of Team with few words that a tree makes in a team of so many workers, besides those
// of its splits.
func (p *Params) Exchanges(workers int) int {
	o := findObjective(p.Objective)
	if o == nil {
		return 0
	}
	n := 0
	if !o.classes && o.name != "binary" {
		n = 1 // the largest gradient and hessian; those of binary and classes have known bounds
	}
	if p.bags() {
		n += 1 + workers // the count of all rows, and the state of the draw from each worker to the next
	}
	if o.renews {
		n += 9 // a quantile is found byte by byte of eight; one more for the next lower values, or the largest weights
	}
	return n
}

// mostWords is how many words of a worker are added up at once, 4 MiB: more would take so long on any network that
// another exchange is not felt.
const mostWords = 1 << 19

// mostPairs is how many pairs may be exchanged at once.
func (hb *histogramBuilder) mostPairs() int {
	bins := 0
	for _, f := range hb.features {
		bins += hb.data.Features[f].Bins
	}
	return max(1, mostWords/(2*bins))
}

// exchange adds up the smaller leaves' histograms over all workers, each of which gets the features that it owns.
func (hb *histogramBuilder) exchange(pairs []newPair, l *link) {
	words := l.words[:0]
	bounds := make([]int, 0, len(hb.owned))
	for w := range l.size {
		bounds = append(bounds, len(words))
		for i := range pairs {
			for _, f := range hb.features[hb.owned[w]:hb.owned[w+1]] {
				words = pairs[i].pair.smaller.slice(hb.offset[f], hb.offset[f+1]).appendWords(words)
			}
		}
	}
	bounds = append(bounds, len(words))
	l.words = words

	if l.err != nil || len(pairs) == 0 {
		return
	}
	l.fail(l.team.Reduce(words, bounds))

	words = words[bounds[l.rank]:]
	for i := range pairs {
		for _, f := range hb.features[hb.owned[l.rank]:hb.owned[l.rank+1]] {
			words = pairs[i].pair.smaller.slice(hb.offset[f], hb.offset[f+1]).takeWords(words)
		}
	}
}

// appendWords appends a packed histogram's words, or two for each bin of a wide one.
func (h histogram) appendWords(to []int64) []int64 {
	to = append(to, h.packed...)
	for _, s := range h.wide {
		to = append(to, s.g, s.h)
	}
	return to
}

// takeWords sets h to the first words, and returns the others.
func (h histogram) takeWords(words []int64) []int64 {
	words = words[copy(h.packed, words):]
	for b := range h.wide {
		h.wide[b] = wide{words[0], words[1]}
		words = words[2:]
	}
	return words
}
