package gbt

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"coppice/internal/exact"
)

// queries are the rows in use by query, in the order in which queries first occur, each one's rows ascending until a
// loss brings them into another order.
type queries struct {
	rows  []uint32
	begin []int // of each query in rows, and the end
}

// newQueries counts each query's rows in one pass and places them in a second.
func newQueries(d *Data) queries {
	number := map[uint64]int32{}
	q := queries{rows: make([]uint32, d.Used()), begin: []int{0}}
	of := make([]int32, 0, d.Used())
	_ = d.eachOwn(func(r uint32, _ float64) error {
		n, known := number[d.Group[r]]
		if !known {
			n = int32(len(number))
			number[d.Group[r]] = n
			q.begin = append(q.begin, 0)
		}
		of = append(of, n)
		q.begin[n+1]++
		return nil
	})
	for n := range q.len() {
		q.begin[n+1] += q.begin[n]
	}

	next := slices.Clone(q.begin)
	i := 0
	_ = d.eachOwn(func(r uint32, _ float64) error {
		q.rows[next[of[i]]] = r
		next[of[i]]++
		i++
		return nil
	})
	return q
}

func (q *queries) len() int { return len(q.begin) - 1 }

func (q *queries) of(n int) []uint32 { return q.rows[q.begin[n]:q.begin[n+1]] }

// ranking is an objective that is a sum over queries: a row's gradient depends on the scores of all of its query.
// Definitions are LightGBM's (src/objective/rank_objective.hpp).
type ranking struct {
	queries
	text string // in the model file
	d    *Data
	loss queryLoss
	seed uint64
	g, h []float64 // by row, at the scores of the last prepare; 0 for rows that are not in use
	pack packing
}

// queryLoss sets g and h, which are 0, of one query's rows, whose labels and scores are in the same order. random has a
// number for each row, by its number in the whole table.
type queryLoss func(q *query, random key)

// query is one query's rows, and room for what a loss computes.
type query struct {
	number int
	rows   []uint32 // a part of queries.rows, which a loss may bring into another order
	score  []float64
	g, h   []float64
	keys   []uint64 // rows by score, where many of them move
	room   [3][]float64
}

// newRanking refuses labels that are no grades, and tables in which no query has rows of different ones.
func newRanking(p *Params, d *Data, text string) (objective, error) {
	if d.Group == nil {
		return nil, fmt.Errorf("%w: objective %s learns the order of the rows of a query, and the table does not say "+
			"which rows belong together; name the column with group: COLUMN", ErrData, p.Objective)
	}
	if d.link != nil {
		return nil, fmt.Errorf("%w: objective %s is trained by one machine, since a query's rows may be on several; "+
			"leave out final.machines", ErrData, p.Objective)
	}
	gain, err := gainsOf(p.LabelGain)
	if err != nil {
		return nil, err
	}
	differ, heavy := 0.0, 0.0
	err = d.eachOwn(func(r uint32, w float64) error {
		y := d.Label[r]
		if y < 0 || int(y) >= len(gain) || y != float32(int(y)) {
			return fmt.Errorf("%w: label %v in row %d; objective %s takes whole grades from 0 to %d", ErrData, y,
				r, p.Objective, len(gain)-1)
		}
		heavy = max(heavy, w)
		return nil
	})
	if err != nil {
		return nil, err
	}

	o := &ranking{queries: newQueries(d), text: text, d: d, seed: p.Seed, g: make([]float64, d.Rows),
		h: make([]float64, d.Rows)}
	for n := range o.len() {
		for _, r := range o.of(n) {
			if d.Label[r] != d.Label[o.of(n)[0]] {
				differ = 1
			}
		}
	}
	if differ == 0 || heavy == 0 {
		return nil, fmt.Errorf("%w: no query has rows with different labels; no order can be learnt", ErrData)
	}
	if text == xendcg {
		o.loss = o.crossEntropyOfQuery
	} else {
		o.loss = o.lambdas(p, gain)
	}
	return o, nil
}

const xendcg = "rank_xendcg"

func (o *ranking) String() string { return o.text }

// init is 0: only differences within a query count.
func (o *ranking) init(bool) float64 { return 0 }

func (o *ranking) renew(*grower, *Tree, []float64) {}

func (o *ranking) gradients(rows []uint32, g, h []float64) {
	for i, r := range rows {
		g[i], h[i] = o.g[r], o.h[r]
	}
}

// prepare computes all gradients, query by query, and finds the largest, which become the ends of the grid.
func (o *ranking) prepare(tree int, raw []float64, _ []uint32, pool *pool) packing {
	largest := make([][2]float64, pool.size)
	random := newKey(o.seed, forLabels, tree)
	pool.parallel(o.len(), 16, func(worker, lo, hi int) {
		var q query
		for n := lo; n < hi; n++ {
			q.fillRows(n, o.of(n), raw)
			o.loss(&q, random)
			for i, r := range q.rows {
				w := 1.0
				if o.d.Weight != nil {
					w = float64(o.d.Weight[r])
				}
				g, h := float64(q.g[i]*w), float64(q.h[i]*w)
				o.g[r], o.h[r] = g, h
				largest[worker][0] = max(largest[worker][0], math.Abs(g))
				largest[worker][1] = max(largest[worker][1], h)
			}
		}
	})

	g, h := 0.0, 0.0
	for _, l := range largest {
		g, h = max(g, l[0]), max(h, l[1])
	}
	g, h = cmp.Or(g, 1), cmp.Or(h, 1) // all gradients are 0 where every query is in order
	o.pack = packing{hessianBits: bitsVaryingHessian, g1: g / maxG16, h1: h / maxH16}
	return o.pack
}

func (o *ranking) fill(gh []uint32, raw []float64, rows rowSet, lo, hi int, k key) {
	packGradients(o, o.pack, gh, raw, rows, lo, hi, k)
}

// fillRows makes q that of query number: its rows, their scores, and as much room, which is zero.
func (q *query) fillRows(number int, rows []uint32, raw []float64) {
	n := len(rows)
	q.number, q.rows = number, rows
	q.score = q.score[:0]
	for _, r := range rows {
		q.score = append(q.score, raw[r])
	}
	for _, s := range []*[]float64{&q.g, &q.h, &q.room[0], &q.room[1], &q.room[2]} {
		*s = slices.Grow((*s)[:0], n)[:n]
		clear(*s)
	}
}

// sortByScore brings rows into the order of their scores, the highest first, and equal ones into that of the table.
// They are in the order of the last tree's scores, from which few of them move; where more do, they are sorted by keys
// of scores whose last bits are places.
func (q *query) sortByScore() {
	moves := movesOfRow * len(q.rows)
	for i, s := range q.score {
		r, j := q.rows[i], i
		for ; j > 0 && (q.score[j-1] < s || q.score[j-1] == s && q.rows[j-1] > r); j-- {
			q.score[j], q.rows[j] = q.score[j-1], q.rows[j-1]
		}
		q.score[j], q.rows[j] = s, r
		if moves -= i - j; moves < 0 {
			q.sortByKeys()
			return
		}
	}
}

// movesOfRow is how many places a row of a query moves on average before sorting by keys is faster.
const movesOfRow = 12

// sortByKeys does it for rows in any order: integers are sorted faster than pairs of score and row.
func (q *query) sortByKeys() {
	places := bits.Len(uint(len(q.score) - 1))
	q.keys = q.keys[:0]
	for i, s := range q.score {
		q.keys = append(q.keys, ^exact.Ordered(s)>>places<<places|uint64(i))
	}
	slices.Sort(q.keys)
	rows, score := slices.Clone(q.rows), slices.Clone(q.score)
	for i, k := range q.keys {
		at := int(k & (1<<places - 1))
		q.rows[i], q.score[i] = rows[at], score[at]
	}
	// Among equal keys, by scores and then by rows.
	for i, s := range q.score {
		r, j := q.rows[i], i
		for ; j > 0 && q.keys[j-1]>>places == q.keys[i]>>places &&
			(q.score[j-1] < s || q.score[j-1] == s && q.rows[j-1] > r); j-- {
			q.score[j], q.rows[j] = q.score[j-1], q.rows[j-1]
		}
		q.score[j], q.rows[j] = s, r
	}
}

// lambdas is the loss of lambdarank (Burges, "From RankNet to LambdaRank to LambdaMART", 2010): each pair of rows with
// different labels, one of them among the first places, pulls apart by how much exchanging them would change NDCG.
// Rows of equal score are in the order of the table.
func (o *ranking) lambdas(p *Params, gain []float64) queryLoss {
	top := p.TruncationLevel
	longest := 0
	for n := range o.len() {
		longest = max(longest, len(o.of(n)))
	}
	discount := make([]float64, longest)
	for i := range discount {
		discount[i] = math.Ln2 / exact.Log(float64(i+2))
	}

	// The best possible DCG of each query, inverted; 0 without any gain.
	inverse := make([]float64, o.len())
	for n := range inverse {
		var gains []float64
		for _, r := range o.of(n) {
			gains = append(gains, gain[int(o.d.Label[r])])
		}
		slices.Sort(gains)
		best := 0.0
		for i := range min(top, len(gains)) {
			best += float64(gains[len(gains)-1-i] * discount[i])
		}
		if best > 0 {
			inverse[n] = 1 / best
		}
	}

	return func(q *query, _ key) {
		if inverse[q.number] == 0 {
			return
		}
		q.sortByScore()
		n := len(q.rows)
		label, gains := q.room[0], q.room[1]
		for i, r := range q.rows {
			label[i], gains[i] = float64(o.d.Label[r]), gain[int(o.d.Label[r])]
		}
		all := pairs{sigma: p.Sigmoid, steep: -p.Sigmoid, factor: float64(p.Sigmoid * inverse[q.number]), near: 1}
		if p.LambdarankNorm && q.score[0] != q.score[n-1] {
			all.near, all.far = 0.01, 1
		}
		all.add(min(n-1, top), q.score, label, gains, discount[:n], q.g, q.h)
		if p.LambdarankNorm && all.sum > 0 {
			factor := exact.Log(1+all.sum) / math.Ln2 / all.sum
			for i := range q.g {
				q.g[i], q.h[i] = float64(q.g[i]*factor), float64(q.h[i]*factor)
			}
		}
	}
}

// pairs is what the pairs of a query have in common, and what the sizes of their gradients add up to.
type pairs struct {
	sigma, steep, factor float64 // of the loss; -sigma; sigma over the best DCG
	near, far            float64 // a pair's weight falls by near + far times how far its scores are apart
	sum                  float64
}

// addGo adds to g and h the pairs of each of the first rows, which have the highest scores, with all rows behind it. Of
// a row every eighth pair is added up by itself, as a vector of eight does it.
func (p *pairs) addGo(first int, score, label, gain, discount, g, h []float64) {
	for i := range first {
		var lanes [3][8]float64 // of g, h and sum
		for k := i + 1; k < len(score); k++ {
			apart := score[i] - score[k]
			side := min(max(label[i]-label[k], -1), 1) // 1 if the row's label is the higher one, -1 if the lower, or 0
			e := expNegative(min(max(float64(float64(side*apart)*p.steep), -sigmoidLimit), sigmoidLimit))
			reach := float64(p.far*apart) + p.near
			share := 1 / float64((e+1)*reach)
			change := float64(float64((gain[i]-gain[k])*side) * (discount[i] - discount[k]))
			lambda := float64(float64(change*p.factor) * share)
			hessian := float64(float64(lambda*p.sigma) * (1 - float64(reach*share)))
			pull := float64(lambda * side)
			lane := (k - i - 1) % 8
			lanes[0][lane] -= pull
			lanes[1][lane] += hessian
			lanes[2][lane] += lambda
			g[k] += pull
			h[k] += hessian
		}
		for lane := range 8 {
			g[i] += lanes[0][lane]
			h[i] += lanes[1][lane]
			p.sum += float64(2 * lanes[2][lane])
		}
	}
}

// crossEntropyOfQuery is the loss of rank_xendcg (Bruch, "An Alternative Cross Entropy Loss for Learning-to-Rank",
// 2020): the cross entropy between the scores' softmax and a distribution drawn anew for each tree, 2^label less a
// uniform random number. Derivatives are approximated to the third order.
func (o *ranking) crossEntropyOfQuery(q *query, random key) {
	n := len(q.rows)
	if n < 2 {
		return
	}
	share, terms := q.room[0], q.room[1]
	most, total := slices.Max(q.score), 0.0
	for i, s := range q.score {
		share[i] = s - most
	}
	exponentials(share, 1)
	for _, e := range share {
		total += e
	}
	wanted := 0.0
	for i, r := range q.rows {
		share[i] /= total
		terms[i] = float64(uint64(1)<<int(o.d.Label[r])) - float64(float64(random.at(uint64(r))>>32)*randomUnit)
		wanted += terms[i]
	}
	wanted = max(wanted, xendcgEpsilon)

	// What a row leaves of the softmax to the others: not quite 0, even for a row that has all.
	rest := func(i int) float64 { return max(1-share[i], xendcgEpsilon) }
	first, second := 0.0, 0.0
	for i := range terms {
		term := share[i] - terms[i]/wanted
		q.g[i] = term
		terms[i] = term / rest(i)
		first += terms[i]
	}
	for i := range terms {
		term := float64(share[i] * (first - terms[i]))
		q.g[i] += term
		terms[i] = term / rest(i)
		second += terms[i]
	}
	for i := range terms {
		q.g[i] += float64(share[i] * (second - terms[i]))
		q.h[i] = float64(share[i] * (1 - share[i]))
	}
}

const xendcgEpsilon = 1e-15 // LightGBM's kEpsilon

// MaxGrade is the highest label of a ranking, as in LightGBM.
const MaxGrade = 30

// gainsOf returns the gain of each grade: label_gain, or 2^grade - 1 if it is empty.
func gainsOf(list string) ([]float64, error) {
	var gains []float64
	if list == "" {
		for grade := range MaxGrade + 1 {
			gains = append(gains, float64(uint64(1)<<grade-1))
		}
		return gains, nil
	}
	for text := range strings.SplitSeq(list, ",") {
		g, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil || !(g >= 0 && g <= 1<<53) {
			return nil, fmt.Errorf("%.40q is not a gain; use numbers of 0 or more, such as \"0,1,3,7\"", text)
		}
		gains = append(gains, g)
		if len(gains) > MaxGrade+1 {
			return nil, fmt.Errorf("there are gains of more than %d grades", MaxGrade+1)
		}
	}
	if len(gains) < 2 {
		return nil, errors.New("there is a gain of one grade only; give one for each, such as \"0,1,3,7\"")
	}
	return gains, nil
}

// canonicalGains rewrites label_gain so that equal lists are equal texts.
func canonicalGains(list string) (string, error) {
	list = strings.TrimSpace(list)
	if list == "" {
		return "", nil
	}
	gains, err := gainsOf(list)
	var words []string
	for _, g := range gains {
		words = append(words, strconv.FormatFloat(g, 'g', -1, 64))
	}
	return strings.Join(words, ","), err
}
