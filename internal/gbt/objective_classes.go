package gbt

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"coppice/internal/exact"
)

// classes is what the outputs of a model of several classes have in common. Each output is the raw score of one class,
// which gets a tree of its own in each round.
type classes struct {
	raw [][]float64 // by class and row
	// by row, the logarithm of the sum over all classes of e^raw when the round began, so that the trees of a round do
	// not see each other
	norm []float64
}

// class is the loss of one class, softmax. Labels are classes from 0.
type class struct {
	*classes
	logistic
	text  string
	curve float64 // factor of the hessian
	prior float64 // the raw score to begin with
}

// leastPrior is LightGBM's for a class without rows.
const leastPrior = 1e-15

// newClasses returns an objective for each class.
func newClasses(p *Params, d *Data) ([]objective, error) {
	k := p.NumClass
	if k < 2 {
		return nil, &ParamError{numClass, fmt.Sprintf("objective %s needs 2 or more", p.Objective)}
	}
	seen := make([]float64, 2*k+2) // rows and weight by class, heaviest weight, classes with rows
	rows, weight, heaviest := seen[:k], seen[k:2*k], &seen[2*k]

	err := d.each(seen, func(r uint32, w float64) error {
		y := d.Label[r]
		if !(y >= 0 && y < float32(k)) || y != float32(int(y)) {
			return fmt.Errorf("%w: label %v in row %d; objective %s with %d classes takes whole numbers from 0 to %d",
				ErrData, y, d.first()+uint64(r), p.Objective, k, k-1)
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
		o := &class{classes: all, text: p.objectiveText(), curve: float64(k) / float64(k-1),
			logistic: logistic{d: d, positive: float32(c), weight: [2]float64{1, 1}},
			prior:    exact.Log(max(weight[c]/sum, leastPrior))}
		// |gradient| < weight and hessian <= weight*curve/4 for any raw scores, so the grid is the same for every tree.
		o.pack = packing{hessianBits: bitsVaryingHessian, g1: *heaviest / maxG16, h1: *heaviest * o.curve / 4 / maxH16}
		each = append(each, o)
	}
	return each, nil
}

func (c *class) String() string { return c.text }

// init: a class without rows stays as unlikely as it is, wherever the others begin, as in LightGBM.
func (c *class) init(fromAverage bool) float64 {
	if fromAverage || c.prior <= exact.Log(leastPrior) {
		return c.prior
	}
	return 0
}

// prepare: with the first class begins a round.
func (c *class) prepare(_ int, _ []float64, _ []uint32, pool *pool) packing {
	if c.positive == 0 {
		pool.parallel(len(c.norm), grain, func(_, lo, hi int) { c.normalize(lo, hi) })
	}
	return c.pack
}

// normalize sets norm for rows lo <= r < hi, a block at a time, whose scores stay in the cache.
func (c *classes) normalize(lo, hi int) {
	var most, sum, terms [blockRows]float64
	for ; lo < hi; lo += blockRows {
		n := min(blockRows, hi-lo)
		copy(most[:n], c.raw[0][lo:])
		for _, raw := range c.raw[1:] {
			for i, s := range raw[lo : lo+n] {
				most[i] = max(most[i], s)
			}
		}
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

// gradients sets g and h of rows for one class. g has their raw scores and becomes the probability less the label,
// times the weight.
func (c *class) gradients(rows []uint32, g, h []float64) {
	for i, r := range rows {
		g[i] -= c.norm[r]
	}
	exponentials(g, 1)
	one := math.Float64bits(1)
	for i, r := range rows {
		p, w, y := g[i], 1.0, uint64(0)
		if p > 1 {
			p = 1
		}
		if c.d.Label[r] == c.positive {
			y = one // as bits, which is a conditional move; a branch would be guessed wrong for each row of the class
		}
		if c.d.Weight != nil {
			w = float64(c.d.Weight[r])
		}
		g[i], h[i] = float64((p-math.Float64frombits(y))*w), float64(c.curve*float64(float64(p*(1-p))*w))
	}
}

func (c *class) fill(gh []uint32, raw []float64, rows rowSet, lo, hi int, k key) {
	packGradients(c, c.pack, gh, raw, rows, lo, hi, k)
}

func (c *class) renew(*grower, *Tree, []float64) {}

// The objective of several classes, and that of models that LightGBM and earlier builds have trained.
const (
	softmaxName   = "multiclass"
	oneVsRestName = "multiclassova"

	classText     = " num_class:"
	oneVsRestEnd  = " sigmoid:1"
	mostClasses   = 1000
	numClass      = "num_class"
	classExamples = `"multiclass num_class:3", "multiclassova num_class:3 sigmoid:1"`
)

// classesText is the objective in a model's text.
func classesText(name string, n int) string {
	text := name + classText + strconv.Itoa(n)
	if name == oneVsRestName {
		text += oneVsRestEnd
	}
	return text
}

// classesOf reads an objective of several classes in a model's text.
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

// softmaxAll turns rows of n raw scores each into probabilities, in place.
func softmaxAll(scores []float64, n int) {
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
