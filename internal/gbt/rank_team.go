package gbt

import (
	"math"
	"slices"
)

// guests are how the workers of a team compute the gradients of queries of which several have rows. A query belongs to
// the worker that has its first row. There, the others' rows are guests, numbered on from the worker's own. So a query
// has the same rows in the same order as with one worker, and queries are in the same order from worker to worker.
type guests struct {
	route
	own   *Data    // this worker's part of the table
	away  []uint32 // its rows that are guests elsewhere: by worker, ascending
	whole []uint32 // numbers in the whole table of those that are guests here
}

// inviteGuests returns this worker's queries as a table without bins: its own rows, and the guests behind them, of
// which those of its queries are in use. Without a team, it is d itself.
func inviteGuests(d *Data) (*Data, *guests) {
	if d.link == nil {
		return d, nil
	}
	owner := d.link.ownersOfQueries(d)
	all, g := *d, &guests{own: d}
	all.Subset = make([]uint32, 0, d.Used())
	away := make([][]uint32, d.link.size)
	_ = d.eachOwn(func(r uint32, _ float64) error {
		if o := owner[d.Group[r]]; o != d.link.rank {
			away[o] = append(away[o], r)
		} else {
			all.Subset = append(all.Subset, r)
		}
		return nil
	})
	g.away = slices.Concat(away...)
	if g.route = newRoute(d.link, away); g.most == 0 {
		return &all, g
	}

	for _, came := range g.visit(func(r uint32) int64 { return int64(d.first() + uint64(r)) }) {
		g.whole = append(g.whole, uint32(came))
	}
	n := d.Rows + len(g.whole)
	all.Group, all.Label = append(make([]uint64, 0, n), d.Group...), append(make([]float32, 0, n), d.Label...)
	for i, came := range g.visit(func(r uint32) int64 { return int64(d.Group[r]) }) {
		all.Group = append(all.Group, uint64(came))
		all.Subset = append(all.Subset, uint32(d.Rows+i))
	}
	for _, came := range g.visit(func(r uint32) int64 { return int64(math.Float32bits(d.Label[r])) }) {
		all.Label = append(all.Label, math.Float32frombits(uint32(came)))
	}
	if own := d.Weight; own != nil {
		all.Weight = append(make([]float32, 0, n), own...)
		for _, came := range g.visit(func(r uint32) int64 { return int64(math.Float32bits(own[r])) }) {
			all.Weight = append(all.Weight, math.Float32frombits(uint32(came)))
		}
	}
	all.Rows = n
	return &all, g
}

// ownersOfQueries returns by query the first of the workers that have rows of it.
func (l *link) ownersOfQueries(d *Data) map[uint64]int {
	// Who has a query is decided by the worker that a hash of its number points to.
	owner := map[uint64]int{}
	ask := make([][]int64, l.size)
	_ = d.eachOwn(func(r uint32, _ float64) error {
		q := d.Group[r]
		if _, known := owner[q]; !known {
			owner[q] = l.rank
			i := mix(q) % uint64(l.size)
			ask[i] = append(ask[i], int64(q))
		}
		return nil
	})
	asked := slices.Concat(ask...)
	ways := newRoute(l, ask)
	words := ways.send(asked)
	first, at := map[int64]int64{}, 0
	for worker, n := range ways.from {
		for i := at; i < at+n; i++ {
			if _, known := first[words[i]]; !known {
				first[words[i]] = int64(worker)
			}
			words[i] = first[words[i]]
		}
		at += n
	}
	for i, o := range ways.answer(words) {
		owner[uint64(asked[i])] = int(o)
	}
	return owner
}

// visit returns what of says of rows to the workers where they are guests: of those that are guests here.
func (g *guests) visit(of func(r uint32) int64) []int64 {
	words := make([]int64, len(g.away))
	for i, r := range g.away {
		words[i] = of(r)
	}
	return g.send(words)
}

// tellGuests passes what is known of guests here on to their own workers.
func (g *guests) tellGuests(of func(guest int) int64, take func(r uint32, word int64)) {
	words := make([]int64, len(g.whole))
	for i := range words {
		words[i] = of(g.own.Rows + i)
	}
	for i, word := range g.answer(words) {
		take(g.away[i], word)
	}
}

// scores returns raw with the scores of guests behind it.
func (o *ranking) scores(raw []float64) []float64 {
	g := o.guests
	if g == nil || g.most == 0 {
		return raw
	}
	o.raw = append(o.raw[:0], raw...)
	for _, came := range g.visit(func(r uint32) int64 { return int64(math.Float64bits(raw[r])) }) {
		o.raw = append(o.raw, math.Float64frombits(uint64(came)))
	}
	return o.raw
}

// returnGradients gives guests' gradients to their own workers.
func (o *ranking) returnGradients() {
	if o.guests == nil {
		return
	}
	for _, of := range [][]float64{o.g, o.h} {
		o.guests.tellGuests(func(guest int) int64 { return int64(math.Float64bits(of[guest])) },
			func(r uint32, word int64) { of[r] = math.Float64frombits(uint64(word)) })
	}
}

// number is a row's in the whole table.
func (o *ranking) number(r uint32) uint64 {
	if g := o.guests; g != nil && int(r) >= g.own.Rows {
		return uint64(g.whole[int(r)-g.own.Rows])
	}
	return o.d.first() + uint64(r)
}

// route is a way for words between every two workers.
type route struct {
	link     *link
	to, from []int // by worker, how many words this one sends, and how many come
	most     int   // of any two workers
}

// newRoute is for as many words as there are for each worker.
func newRoute[T any](l *link, each [][]T) route {
	r := route{link: l, to: make([]int, l.size), from: make([]int, l.size)}
	words := make([]int64, l.size)
	for i := range each {
		r.to[i], words[i] = len(each[i]), int64(len(each[i]))
	}
	for i, n := range l.gather(words...) {
		r.most = max(r.most, int(n))
		if i%l.size == l.rank {
			r.from[i/l.size] = int(n)
		}
	}
	return r
}

// send gives each worker the next words, and returns those that come, by worker; zeros after an error.
func (r *route) send(words []int64) []int64 { return r.exchange(words, r.to, r.from) }

// answer is the way back.
func (r *route) answer(words []int64) []int64 { return r.exchange(words, r.from, r.to) }

// exchange adds up words of which all but one worker's are 0, since Reduce is the exchange in which each worker sends
// every other something else, and sends no zeros. No more are on the way at once than elsewhere.
func (r *route) exchange(words []int64, to, from []int) []int64 {
	l := r.link
	come := 0
	for _, n := range from {
		come += n
	}
	got := make([]int64, come)
	step := max(1, min(r.most, mostWords/(l.size*l.size)))
	room, bounds := make([]int64, l.size*l.size*step), make([]int, l.size+1)
	for i := range bounds {
		bounds[i] = i * l.size * step
	}
	for at := 0; at < r.most && l.err == nil; at += step {
		clear(room)
		begin := 0
		for i, n := range to {
			copy(room[bounds[i]+l.rank*step:][:step], words[begin+min(at, n):begin+n])
			begin += n
		}
		if l.fail(l.team.Reduce(room, bounds)); l.err != nil {
			break
		}
		begin = 0
		for i, n := range from {
			copy(got[begin+min(at, n):begin+n], room[bounds[l.rank]+i*step:][:step])
			begin += n
		}
	}
	return got
}
