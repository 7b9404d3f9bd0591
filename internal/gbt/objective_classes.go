package gbt

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"coppice/internal/exact"
)

// classes is shared by the objectives of the classes of one model. Each class has an output, its raw score, and gets a
// tree of its own in each round.
type classes struct {
	raw [][]float64 // [classes][rows] current raw scores

	// norm is, by row, the logarithm of the sum over all classes of e^raw, the denominator of the softmax. It is
	// computed when a round begins, so that the trees of a round do not depend on each other.
	norm []float64
}

// class is the softmax loss of one class. Labels are the numbers of the classes, from 0.
type class struct {
	*classes
	logistic         // rows of this class are positive
	text     string  // in the model file
	hScale   float64 // K / (K-1) for K classes, as in LightGBM
	prior    float64 // logarithm of the class's share of the rows, by weight
}

// leastPrior is the share of a class without rows, as in LightGBM; the logarithm of 0 would be infinite.
const leastPrior = 1e-15

// newClasses checks that all labels are classes, from 0 to num_class-1, and that rows of at least two classes have
// weight. It returns the objective of each class, in their order.
func newClasses(p *Params, d *Data) ([]objective, error) {
	k := p.NumClass
	if k < 2 {
		return nil, &ParamError{numClass, fmt.Sprintf("objective %s needs 2 or more", p.Objective)}
	}

	// Rows and weight of each class, and the largest weight of a row: one array, because the workers of a team pass it
	// from one to the next.
	seen := make([]float64, 2*k+1)
	rows, weight, heaviest := seen[:k], seen[k:2*k], &seen[2*k]

	err := d.eachRow(seen, func(r uint32, w float64) error {
		y := d.Label[r]
		if !(y >= 0 && y < float32(k)) || y != float32(int(y)) {
			return fmt.Errorf("%w: label %v in row %d; objective %s with %d classes takes whole numbers from 0 to %d",
				ErrData, y, d.firstRow()+uint64(r), p.Objective, k, k-1)
		}
		if w > 0 {
			rows[int(y)]++
			weight[int(y)] += w
			*heaviest = max(*heaviest, w)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}

	// At least two classes must have rows.
	all := &classes{norm: make([]float64, d.Rows)}
	sum, filled := 0.0, 0
	for c, n := range rows {
		sum += weight[c]
		if n > 0 {
			filled++
		}
	}
	if filled < 2 {
		return nil, fmt.Errorf("%w: %w", ErrData, errOneClass)
	}

	var each []objective
	for c := range k {
		o := &class{classes: all, text: p.objectiveText(), hScale: float64(k) / float64(k-1),
			logistic: logistic{d: d, positive: float32(c), weight: [2]float64{1, 1}},
			prior:    exact.Log(max(weight[c]/sum, leastPrior))}
		// |gradient| < weight and hessian <= weight*hScale/4 for any raw scores, so the units are the same for
		// every tree.
		o.pack = packing{hessianBits: bitsVaryingHessian, g1: *heaviest / maxG16, h1: *heaviest * o.hScale / 4 / maxH16}
		each = append(each, o)
	}
	return each, nil
}

func (c *class) String() string { return c.text }

// init is objective.init. A class without rows begins at its prior even if fromAverage is false, as in LightGBM: so it
// stays unlikely.
func (c *class) init(fromAverage bool) float64 {
	if fromAverage || c.prior <= exact.Log(leastPrior) {
		return c.prior
	}
	return 0
}

// prepare is objective.prepare. The first class of a round computes norm for all of them.
func (c *class) prepare(_ int, _ []float64, _ []uint32, pool *pool) packing {
	if c.positive == 0 {
		pool.parallel(len(c.norm), grain, func(_, lo, hi int) { c.normalize(lo, hi) })
	}
	return c.pack
}

// normalize sets norm for the rows lo <= r < hi. It goes block by block, so that a block's scores of all classes stay
// in the cache.
func (c *classes) normalize(lo, hi int) {
	var most, sum, terms [blockRows]float64
	for ; lo < hi; lo += blockRows {
		// Each row's largest score, which is subtracted so that no exponential overflows.
		n := min(blockRows, hi-lo)
		copy(most[:n], c.raw[0][lo:])
		for _, raw := range c.raw[1:] {
			for i, s := range raw[lo : lo+n] {
				most[i] = max(most[i], s)
			}
		}

		// log(sum of e^raw) = largest + log(sum of e^(raw - largest)).
		clear(sum[:n])
		for _, raw := range c.raw {
			for i, s := range raw[lo : lo+n] {
				terms[i] = s - most[i]
			}
			exponentials(terms[:n], 1)
			for i, e := range terms[:n] {
				sum[i] += e
			}
		}
		for i, s := range sum[:n] {
			c.norm[lo+i] = most[i] + exact.Log(s)
		}
	}
}

// gradients is objective.gradients, with p the softmax probability of this class and y 1 for its rows, else 0: g is
// weight x (p - y), and h is weight x hScale x p (1 - p).
func (c *class) gradients(rows []uint32, g, h []float64) {
	for i, r := range rows {
		g[i] -= c.norm[r]
	}
	exponentials(g, 1)
	one := math.Float64bits(1)
	for i, r := range rows {
		p, w, y := g[i], 1.0, uint64(0)
		if p > 1 { // by rounding of norm
			p = 1
		}
		if c.d.Label[r] == c.positive {
			y = one // as bits, which is a conditional move; a branch would be guessed wrong for each row of the class
		}
		if c.d.Weight != nil {
			w = float64(c.d.Weight[r])
		}
		g[i], h[i] = float64((p-math.Float64frombits(y))*w), float64(c.hScale*float64(float64(p*(1-p))*w))
	}
}

func (c *class) fill(gh []uint32, raw []float64, rows rowSet, lo, hi int, k key) {
	packGradients(c, c.pack, gh, raw, rows, lo, hi, k)
}

func (c *class) renew(*grower, *Tree, []float64) {}

// Objectives of several classes. A multiclassova model can be read but not trained.
const (
	softmaxName   = "multiclass"
	oneVsRestName = "multiclassova"

	classText     = " num_class:"
	oneVsRestEnd  = " sigmoid:1"
	mostClasses   = 1000
	numClass      = "num_class"
	classExamples = `"multiclass num_class:3", "multiclassova num_class:3 sigmoid:1"`
)

// classesText returns the objective in the file of a model of n classes, such as "multiclass num_class:3".
func classesText(name string, n int) string {
	text := name + classText + strconv.Itoa(n)
	if name == oneVsRestName {
		text += oneVsRestEnd
	}
	return text
}

// classesOf is the inverse of classesText: it returns the kind of output and the number of classes. ok is false for any
// other text.
func classesOf(text string) (out outputKind, n int, ok bool) {
	name, number, ok := strings.Cut(text, classText)
	out = softmax
	if name == oneVsRestName {
		out = oneVsRest
		number = strings.TrimSuffix(number, oneVsRestEnd)
	}
	n, err := strconv.Atoi(number)
	return out, n, ok && err == nil && n > 1 && n <= mostClasses && classesText(name, n) == text &&
		(name == softmaxName || name == oneVsRestName)
}

// Classes reports whether an objective is one of several classes.
func Classes(objective string) bool {
	o := findObjective(objective)
	return o != nil && o.classes
}

// softmaxAll turns raw scores, [rows x n], into the softmax of each row, in place.
func softmaxAll(scores []float64, n int) {
	// Subtract each row's largest score, which changes no probability and keeps exponentials finite.
	for i := 0; i+n <= len(scores); i += n {
		most := slices.Max(scores[i : i+n])
		for c := range n {
			scores[i+c] -= most
		}
	}
	exponentials(scores, 1)
	for i := 0; i+n <= len(scores); i += n {
		sum := 0.0
		for _, e := range scores[i : i+n] {
			sum += e
		}
		for c := range n {
			scores[i+c] /= sum
		}
	}
}
