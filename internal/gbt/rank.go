package gbt

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sort"
	"strconv"
	"strings"

	"coppice/internal/exact"
)

// queries holds the rows in use, grouped by query. Queries are numbered in the order in which they first occur in the
// table. A query's rows are ascending at first; lambdarank sorts them by score in place.
type queries struct {
	rows  []uint32
	begin []int // query n is rows[begin[n]:begin[n+1]]
}

// newQueries groups the used rows of d by Data.Group: one pass counts each query's rows, a second one places them.
func newQueries(d *Data) queries {
	number := map[uint64]int32{} // of each query, by its value in Data.Group
	q := queries{rows: make([]uint32, d.Used()), begin: []int{0}}
	queryOf := make([]int32, 0, d.Used()) // by position among the used rows, the number of the row's query

	// Count: begin[n+1] is the number of rows of query n. (eachOwnRow returns the function's error, of which there is
	// none.)
	_ = d.eachOwnRow(func(r uint32, _ float64) error {
		n, known := number[d.Group[r]]
		if !known {
			n = int32(len(number))
			number[d.Group[r]] = n
			q.begin = append(q.begin, 0)
		}
		queryOf = append(queryOf, n)
		q.begin[n+1]++
		return nil
	})

	// Add the counts up, so that begin[n] is where query n begins.
	for n := range q.len() {
		q.begin[n+1] += q.begin[n]
	}

	// Place the rows: next[n] is where the next row of query n goes.
	next := slices.Clone(q.begin)
	i := 0
	_ = d.eachOwnRow(func(r uint32, _ float64) error {
		q.rows[next[queryOf[i]]] = r
		next[queryOf[i]]++
		i++
		return nil
	})
	return q
}

func (q *queries) len() int { return len(q.begin) - 1 }

func (q *queries) rowsOf(n int) []uint32 { return q.rows[q.begin[n]:q.begin[n+1]] }

// ranking is an objective that is a sum over queries: a row's gradient depends on the scores of all rows of its query.
// Definitions are LightGBM's (src/objective/rank_objective.hpp).
type ranking struct {
	queries
	text string // in the model file
	d    *Data
	loss queryLoss
	seed uint64
	g, h []float64 // [rows] gradients and hessians at the scores of the last prepare; 0 for rows that are not in use
	pack packing
}

// queryLoss sets q.g and q.h, which are 0 before, to the gradients and hessians of the query's rows. It may reorder
// q.rows and q.score, in the same way. random has a random number for each row, by the row's number in the table.
type queryLoss func(q *query, random key)

// query is one query's rows and their scores, with memory for a queryLoss. It is reused from query to query.
type query struct {
	number  int
	rows    []uint32     // a part of queries.rows, which a loss may reorder
	score   []float64    // [len(rows)], as are g, h and the slices of scratch
	g, h    []float64    // what the loss computes
	keys    []uint64     // used by sortByKeys
	scratch [3][]float64 // for the loss; 0 when it begins
}

// newRanking returns the objective lambdarank or rank_xendcg, by its text. It refuses tables without groups or divided
// among workers, labels that are not whole numbers with a gain, and tables from which no order can be learnt: those in
// which no query has rows with different labels, or all weights are 0.
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

	// Check the labels, and find the largest weight.
	heaviest := 0.0
	err = d.eachOwnRow(func(r uint32, w float64) error {
		y := d.Label[r]
		if y < 0 || int(y) >= len(gain) || y != float32(int(y)) {
			return fmt.Errorf("%w: label %v in row %d; objective %s takes whole grades from 0 to %d", ErrData, y,
				r, p.Objective, len(gain)-1)
		}
		heaviest = max(heaviest, w)
		return nil
	})
	if err != nil {
		return nil, err
	}

	// Group the rows, and see whether any query has different labels.
	o := &ranking{queries: newQueries(d), text: text, d: d, seed: p.Seed, g: make([]float64, d.Rows),
		h: make([]float64, d.Rows)}
	differ := false
	for n := range o.len() {
		first := o.rowsOf(n)[0]
		for _, r := range o.rowsOf(n) {
			differ = differ || d.Label[r] != d.Label[first]
		}
	}
	if !differ || heaviest == 0 {
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

// prepare is objective.prepare. It computes all gradients, query by query, into o.g and o.h. The units are such that
// the largest gradient and hessian are as large as a row's bits can hold.
func (o *ranking) prepare(tree int, raw []float64, _ []uint32, pool *pool) packing {
	largest := make([][2]float64, pool.size) // |gradient| and hessian, by goroutine
	random := newKey(o.seed, forLabels, tree)
	pool.parallel(o.len(), 16, func(worker, lo, hi int) {
		var q query
		for n := lo; n < hi; n++ {
			q.begin(n, o.rowsOf(n), raw)
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
	g, h = cmp.Or(g, 1), cmp.Or(h, 1) // all gradients may be 0, and a unit cannot be
	o.pack = packing{hessianBits: bitsVaryingHessian, g1: g / maxG16, h1: h / maxH16}
	return o.pack
}

func (o *ranking) fill(gh []uint32, raw []float64, rows rowSet, lo, hi int, k key) {
	packGradients(o, o.pack, gh, raw, rows, lo, hi, k)
}

// begin sets q to a query: its number, its rows and their raw scores. All results and scratch memory are zeroed.
func (q *query) begin(number int, rows []uint32, raw []float64) {
	n := len(rows)
	q.number, q.rows = number, rows
	q.score = q.score[:0]
	for _, r := range rows {
		q.score = append(q.score, raw[r])
	}
	for _, s := range []*[]float64{&q.g, &q.h, &q.scratch[0], &q.scratch[1], &q.scratch[2]} {
		*s = slices.Grow((*s)[:0], n)[:n]
		clear(*s)
	}
}

// sortByScore sorts q.rows and q.score by descending score, and rows of equal score by ascending row number.
//
// It begins with an insertion sort: the rows are still in the order of the last tree's scores, so most of them move
// only a few places. If they move far, sortByKeys sorts them instead.
func (q *query) sortByScore() {
	if !q.insertionSort(0, len(q.rows)) {
		q.sortByKeys()
	}
}

// movesOfRow is how many places a row of a query moves on average before another sort is faster.
const movesOfRow = 12

// insertionSort sorts the rows from one position to before another. It gives up and returns false once they have moved
// more than movesOfRow places on average; the same rows are there then, in some order.
func (q *query) insertionSort(from, to int) bool {
	rows, score := q.rows[from:to], q.score[from:to]
	moves := movesOfRow * len(rows)
	for i, s := range score {
		r, j := rows[i], i
		for ; j > 0 && (score[j-1] < s || score[j-1] == s && rows[j-1] > r); j-- {
			score[j], rows[j] = score[j-1], rows[j-1]
		}
		score[j], rows[j] = s, r
		moves -= i - j
		if moves < 0 {
			return false
		}
	}
	return true
}

// sortByKeys does the work of sortByScore for rows in any order. Integers are sorted faster than pairs of a score and a
// row. So each row gets an integer key: in its upper bits the score, such that a higher score is a smaller number, and
// in its lowest bits the row's position before sorting. The position takes the place of the score's last bits, so rows
// whose scores differ only in these bits, or not at all, are sorted in a second step.
func (q *query) sortByKeys() {
	places := bits.Len(uint(len(q.score) - 1)) // bits that a position takes
	q.keys = q.keys[:0]
	for i, s := range q.score {
		q.keys = append(q.keys, ^exact.Ordered(s)>>places<<places|uint64(i))
	}
	slices.Sort(q.keys)

	// Move each row from its position before sorting to its new one.
	rows, score := slices.Clone(q.rows), slices.Clone(q.score)
	for i, k := range q.keys {
		at := int(k & (1<<places - 1))
		q.rows[i], q.score[i] = rows[at], score[at]
	}

	// Sort each group of rows whose keys are equal but for the position. Most groups are of one row, and most others in
	// order; a long one in another order, such as all rows of a first tree, would take quadratic time by insertion.
	for from := 0; from < len(q.keys); {
		to := from + 1
		for to < len(q.keys) && q.keys[to]>>places == q.keys[from]>>places {
			to++
		}
		if !q.insertionSort(from, to) {
			sort.Sort(byScore{rows: q.rows[from:to], score: q.score[from:to]})
		}
		from = to
	}
}

// byScore sorts rows by descending score, and those of equal score by ascending row number. It implements
// sort.Interface.
type byScore struct {
	rows  []uint32
	score []float64
}

func (b byScore) Len() int { return len(b.rows) }

func (b byScore) Less(i, k int) bool {
	return b.score[i] > b.score[k] || b.score[i] == b.score[k] && b.rows[i] < b.rows[k]
}

func (b byScore) Swap(i, k int) {
	b.rows[i], b.rows[k] = b.rows[k], b.rows[i]
	b.score[i], b.score[k] = b.score[k], b.score[i]
}

// lambdas returns the loss of lambdarank (Burges, "From RankNet to LambdaRank to LambdaMART", 2010). With the rows of a
// query sorted by score, it looks at each pair of rows with different labels of which one is among the first
// lambdarank_truncation_level places. The gradients push the two scores apart in proportion to how much NDCG would
// change if the rows exchanged their places. gain has the gain of each label. Rows of equal score are ranked in the
// order of the table.
func (o *ranking) lambdas(p *Params, gain []float64) queryLoss {
	// The discount of each place of a ranking: 1 / log2(place + 2), with places counted from 0.
	top := p.TruncationLevel
	longest := 0
	for n := range o.len() {
		longest = max(longest, len(o.rowsOf(n)))
	}
	discount := make([]float64, longest)
	for i := range discount {
		discount[i] = math.Ln2 / exact.Log(float64(i+2))
	}

	// One over the best possible DCG of each query; 0 if no row has a gain.
	inverse := make([]float64, o.len())
	for n := range inverse {
		var gains []float64
		for _, r := range o.rowsOf(n) {
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
		if inverse[q.number] == 0 { // no order is better than another; the gradients stay 0
			return
		}

		q.sortByScore()
		n := len(q.rows)
		label, gains := q.scratch[0], q.scratch[1]
		for i, r := range q.rows {
			label[i], gains[i] = float64(o.d.Label[r]), gain[int(o.d.Label[r])]
		}

		// With lambdarank_norm, a pair weighs less the farther its scores are apart, as in LightGBM: 1 / (0.01 +
		// distance).
		all := pairs{sigma: p.Sigmoid, negSigma: -p.Sigmoid, factor: float64(p.Sigmoid * inverse[q.number]), near: 1}
		if p.LambdarankNorm && q.score[0] != q.score[n-1] {
			all.near, all.far = 0.01, 1
		}
		all.add(min(n-1, top), q.score, label, gains, discount[:n], q.g, q.h)

		// And a query's gradients are scaled by log2(1 + sum) / sum, so that queries with many pairs do not dominate.
		if p.LambdarankNorm && all.sum > 0 {
			factor := exact.Log(1+all.sum) / math.Ln2 / all.sum
			for i := range q.g {
				q.g[i], q.h[i] = float64(q.g[i]*factor), float64(q.h[i]*factor)
			}
		}
	}
}

// pairs holds the numbers that all pairs of a query share, and adds up their gradients. The layout is known to
// kernel_amd64.s.
type pairs struct {
	sigma, negSigma, factor float64 // the parameter sigmoid, its negative, and sigmoid over the query's best DCG
	near, far               float64 // a pair's gradient is divided by near + far x (difference of its scores)
	sum                     float64 // of the absolute gradients of both rows of all pairs
}

// addGo adds the pairs of each of the first rows, which have the highest scores, with all rows after it. Their
// gradients are added to g and h and their sizes to p.sum. All slices are [rows of the query], by descending score;
// discount is that of each place.
//
// The pairs of row i are added up in eight partial sums, the lanes, and the lanes at the end. That is the order in
// which the vectors of the assembly add them, so that both give the same bits.
func (p *pairs) addGo(first int, score, label, gain, discount, g, h []float64) {
	for i := range first {
		var lanes [3][8]float64 // of g, h and sum
		for k := i + 1; k < len(score); k++ {
			apart := score[i] - score[k]
			side := min(max(label[i]-label[k], -1), 1) // 1 if the row's label is the higher one, -1 if the lower, or 0

			// With x = sigma x (higher label's score less lower label's), e is e^x: the pair is in the right order with
			// the odds e. share is the probability of the wrong order, divided by the distance of the scores.
			e := expNegative(min(max(float64(float64(side*apart)*p.negSigma), -sigmoidLimit), sigmoidLimit))
			distance := float64(p.far*apart) + p.near
			share := 1 / float64((e+1)*distance)

			// change is what NDCG would change by if the two rows exchanged their places, times the best DCG.
			change := float64(float64((gain[i]-gain[k])*side) * (discount[i] - discount[k]))
			lambda := float64(float64(change*p.factor) * share)
			hessian := float64(float64(lambda*p.sigma) * (1 - float64(distance*share)))
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
// 2020): the cross entropy between the softmax of the query's scores and a wanted distribution. The wanted share of a
// row is in proportion to 2^label less a uniform random number from 0 to 1, drawn anew for each tree. The gradient is
// approximated by a series of three terms, as in LightGBM.
func (o *ranking) crossEntropyOfQuery(q *query, random key) {
	n := len(q.rows)
	if n < 2 { // a single row has no order; its gradient stays 0
		return
	}

	// The softmax of the scores; divided by their sum below. Subtracting the largest keeps the exponentials finite.
	share, terms := q.scratch[0], q.scratch[1]
	largest, total := slices.Max(q.score), 0.0
	for i, s := range q.score {
		share[i] = s - largest
	}
	exponentials(share, 1)
	for _, e := range share {
		total += e
	}

	// The wanted distribution, not yet divided by its sum. The random number is made of 32 bits.
	wanted := 0.0
	for i, r := range q.rows {
		share[i] /= total
		terms[i] = float64(uint64(1)<<int(o.d.Label[r])) - float64(float64(random.uniform(uint64(r))>>32)*randomUnit)
		wanted += terms[i]
	}
	wanted = max(wanted, xendcgEpsilon)

	// The softmax of all other rows together; kept above 0, since it is a divisor.
	rest := func(i int) float64 { return max(1-share[i], xendcgEpsilon) }

	// The three terms of the gradient. The second and third use the sum over all rows of the term before, each divided
	// by rest.
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

// gainsOf returns the gain of each grade (label), from 0 on, as the parameter label_gain lists them. If the list is
// empty, the gain of a grade is 2^grade - 1.
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
		if err != nil || !(g >= 0 && g <= 1<<53) { // whole numbers are exact up to it; no gain is near
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

// canonicalGains returns the one form of label_gain that all lists of the same gains share, such as "0,1,3" for
// "0, 1.0,3". An error says which gain cannot be read.
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
