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

// Team joins the workers, each a process of its own, that train one model together, each with its own rows of the
// table. Workers are numbered from 0 in the order of their rows, so that their tables, one after the other, are the
// whole table. Every worker makes the same calls in the same order, from one goroutine. A call returns when this worker
// has its result. After an error, no further call may be made.
//
// All that the trainer computes from the rows of the whole table is a sum of integers, a maximum, or a computation that
// each worker continues where the one before it stopped. So the model does not depend on the number of workers, nor on
// which of them has which rows.
type Team interface {
	// Place returns this worker's number, and how many workers there are.
	Place() (rank, size int)
	// Reduce adds up words over all workers, element by element, modulo 2^64. Worker i gets the sums of the words
	// bounds[i] <= j < bounds[i+1] in their place. Its other words are undefined afterwards. All workers pass the same
	// number of words and the same bounds.
	Reduce(words []int64, bounds []int) error
	// Gather returns the words of all workers, one worker after the other. All pass the same number of words.
	Gather(words []int64) ([]int64, error)
	// Broadcast replaces the words of all workers by those of the worker with number from.
	Broadcast(from int, words []int64) error
}

// ErrTeam is wrapped by the error of a training that has lost a worker of its team. The remaining workers can divide
// the rows anew and resume from the newest checkpoint that any of them has.
var ErrTeam = errors.New("a worker of the team is gone")

// link is a training's connection to its team. A training without a team has a nil link, on which results are
// those of this process alone: sums are unchanged, and functions are called directly.
//
// Most methods return no error. The link keeps the first one instead, and from then on the methods return without
// exchanging anything, with undefined results. So a caller asks firstErr before it uses results for good.
type link struct {
	team  Team
	rank  int    // this worker's number
	size  int    // how many workers there are
	first uint64 // number of this worker's first row in the whole table
	rows  int    // rows of all workers together
	used  int    // rows in use of all workers together
	err   error
	words []int64 // memory for exchange, reused
}

// newLink returns the link to d.Team, nil if there is none. The workers tell each other how many rows they have. It is
// an error if they have different numbers of features.
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
	for i := range l.size { // worker i's three numbers are all[3*i:]
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

// leads reports whether this worker is the leader, number 0, which evaluates the metric and watches the time for all. A
// training without a team leads itself.
func (l *link) leads() bool { return l == nil || l.rank == 0 }

// firstErr returns the first error of an exchange; nil if there was none.
func (l *link) firstErr() error {
	if l == nil {
		return nil
	}
	return l.err
}

// keepErr keeps the first error, as an ErrTeam. A nil error is ignored.
func (l *link) keepErr(err error) {
	if err != nil && l.err == nil {
		l.err = fmt.Errorf("%w: %w", ErrTeam, err)
	}
}

// gather returns the words of all workers, one worker after the other; zeros after an error.
func (l *link) gather(words ...int64) []int64 {
	if l.err == nil {
		all, err := l.team.Gather(words)
		if err == nil {
			return all
		}
		l.keepErr(err)
	}
	return make([]int64, len(words)*l.size)
}

// broadcast replaces the words by those of worker from; after an error it leaves them as they are.
func (l *link) broadcast(from int, words []int64) {
	if l.err == nil {
		l.keepErr(l.team.Broadcast(from, words))
	}
}

// sumWords replaces each of the words by its sum over all workers.
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

// takeLargest replaces each value by the largest that any worker has in its place.
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

// inTurn calls f on one worker after the other, in the order of their rows, and carries state from each to the next. In
// the end all workers have the last one's state. It is for results that depend on the order of the rows, such as sums
// of floating-point numbers. If f returns an error, inTurn returns it at once without telling the other workers; they
// then wait in vain until the team notices that this one is gone.
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

// floatsInTurn is inTurn for a state of floats, which travel as their bits.
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
	// When it is this worker's turn, words has the state of the worker before it; f changes state, which put writes
	// back before words are passed on. In the end words has the last worker's.
	put()
	err := l.inTurn(words, func() error {
		take()
		defer put()
		return f()
	})
	take()
	return err
}

// hashInTurn is inTurn for the state of a hash of the standard library, to which f writes. The state of SHA-256 has
// only 108 bytes, so each of them simply takes a word.
func (l *link) hashInTurn(h hash.Hash, f func()) {
	if l == nil {
		f()
		return
	}

	// An error of the hash is kept as it is: it is not the team's.
	marshaler := h.(stateful)
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
		toWords(words[:0]) // into the same memory, since the length of a state never changes
		return nil
	})
	if l.err == nil {
		fromWords(words)
	}
}

// stateful is implemented by the hashes of the standard library.
type stateful interface {
	encoding.BinaryMarshaler
	encoding.BinaryUnmarshaler
}

// What the leader tells the other workers about the error of a call that only it makes.
const (
	goOn    int64 = iota // no error
	atLimit              // ErrLimit
	gaveUp               // any other error
)

// askLeader calls f on the leader only, and returns its value on every worker. If f returns an error, the leader
// returns it, and the others return ErrLimit if it is that, else ErrLeader.
func (l *link) askLeader(f func() (float64, error)) (float64, error) {
	if l == nil {
		return f()
	}

	words := make([]int64, 2) // the bits of the value, and one of the constants above
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

// divideFeatures divides the features of a tree among the workers, each of which finds the splits of its part. Worker i
// gets features[begin[i]:begin[i+1]], such that all have about as many bins. The bins of feature f are
// offset[f] <= b < offset[f+1].
func (l *link) divideFeatures(features []int, offset []int) []int {
	size := l.size
	total := 0
	for _, f := range features {
		total += offset[f+1] - offset[f]
	}

	// The next worker's part begins where the workers so far have their share of the bins.
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

// agreeOnSplits sets the best split of each leaf to the best one that any worker has found for it. All workers pass the
// same leaves. It is pickBest for workers instead of goroutines.
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
			if found := splitOf(w[i*splitWords:]); found.betterThan(&leaf.best) {
				leaf.best = found
			}
		}
	}
}

// splitWords is how many words a split takes on its way between workers.
const splitWords = 11

// appendWords appends the split as splitWords words, floats as their bits.
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

// Exchanges returns how many calls of Team with few words a tree makes at most in a team of this size, without those
// that every tree makes: for finding its splits, and for agreeing on the metric and on whether to go on. It is for
// estimating how long the network takes. An unknown objective makes none.
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
		n += 9 // eight bytes of the leaves' quantiles (selectKeys), and the next lower values or the largest weights
	}
	return n
}

// mostWords is how many words of a worker are exchanged in one call, 4 MiB. They take so long on any network that the
// latency of one more call does not matter.
const mostWords = 1 << 19

// mostPairs is how many pairs of histograms may be exchanged in one call: as many as fit mostWords if wide, at least
// one.
func (hb *histogramBuilder) mostPairs() int {
	bins := 0
	for _, f := range hb.features {
		bins += hb.data.Features[f].Bins
	}
	return max(1, mostWords/(2*bins))
}

// exchange adds up the histograms of the pairs' smaller leaves over all workers. Each worker gets the sums of the
// features that it owns; its bins of other features are not changed. All workers pass the same pairs.
func (hb *histogramBuilder) exchange(pairs []newPair, l *link) {
	// Collect the bins of all pairs, grouped by the worker that gets their sums.
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

	if l.err != nil || len(pairs) == 0 { // no pairs means none on any worker, since all pass the same
		return
	}
	l.keepErr(l.team.Reduce(words, bounds))

	// Write this worker's sums back.
	words = words[bounds[l.rank]:]
	for i := range pairs {
		for _, f := range hb.features[hb.owned[l.rank]:hb.owned[l.rank+1]] {
			words = pairs[i].pair.smaller.slice(hb.offset[f], hb.offset[f+1]).takeWords(words)
		}
	}
}

// appendWords appends the words of a packed histogram, or the two sums of each bin of a wide one.
func (h histogram) appendWords(to []int64) []int64 {
	to = append(to, h.packed...)
	for _, s := range h.wide {
		to = append(to, s.g, s.h)
	}
	return to
}

// takeWords is the inverse of appendWords: it sets the bins of h to the first words, and returns the rest of them.
func (h histogram) takeWords(words []int64) []int64 {
	words = words[copy(h.packed, words):]
	for b := range h.wide {
		h.wide[b] = wide{words[0], words[1]}
		words = words[2:]
	}
	return words
}
