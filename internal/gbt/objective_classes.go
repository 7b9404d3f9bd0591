package gbt

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"coppice/internal/exact"
)

// classes is what the outputs of a model of several classes have in common. Each output is the raw score of one class,
// which gets a tree of its own in each round.
type classes struct {
	d   *Data
	raw [][]float64 // by class and row
	// by row, the logarithm of the sum over all classes of e^raw when the round began, so that the trees of a round do
	// not see each other; nil if each class is learnt against all others by itself
	norm []float64
}

// class is the loss of one class: softmax, or logistic loss of that class against all others. Labels are classes from
// 0.
type class struct {
	*classes
	text   string
	number int
	weight [2]float64 // of rows of other classes, and of this one
	curve  float64    // factor of the hessian
	prior  float64    // the raw score to begin with
	pack   packing
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

	all := &classes{d: d}
	sum, filled, count := 0.0, 0, 0.0
	for c, n := range rows {
		sum += weight[c]
		count += n
		if n > 0 {
			filled++
		}
	}
	if filled < 2 {
		return nil, fmt.Errorf("%w: %w", ErrData, errOneClass)
	}
	softmax := p.Objective == softmaxName
	if softmax {
		all.norm = make([]float64, d.Rows)
	}

	var each []objective
	for c := range k {
		o := &class{classes: all, text: p.objectiveText(), number: c, weight: [2]float64{1, 1}, curve: 1}
		share := max(weight[c]/sum, leastPrior)
		if softmax {
			o.curve = float64(k) / float64(k-1)
			o.prior = exact.Log(share)
		} else {
			o.weighRows(p, rows[c], count-rows[c])
			o.prior = exact.Log(share / max(1-share, leastPrior))
		}
		// |gradient| < weight and hessian <= weight*curve/4 for any raw scores, so the grid is the same for every tree.
		most := *heaviest * max(o.weight[0], o.weight[1])
		o.pack = packing{hessianBits: bitsVaryingHessian, g1: most / maxG16, h1: most * o.curve / 4 / maxH16}
		each = append(each, o)
	}
	return each, nil
}

// weighRows weighs a class against all others as binary does.
func (c *class) weighRows(p *Params, own, others float64) {
	switch {
	case !p.IsUnbalance:
		c.weight[1] = p.ScalePosWeight
	case own > others:
		c.weight[0] = own / max(others, 1)
	case own > 0:
		c.weight[1] = others / own
	}
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
	if c.number == 0 && c.norm != nil {
		pool.parallel(len(c.norm), grain, func(_, lo, hi int) { c.normalize(lo, hi) })
	}
	return c.pack
}

// normalize sets norm for rows lo <= r < hi, some hundred at a time, whose scores stay in the cache.
func (c *classes) normalize(lo, hi int) {
	var most, sum [256]float64
	for ; lo < hi; lo += len(most) {
		n := min(len(most), hi-lo)
		copy(most[:n], c.raw[0][lo:])
		for _, raw := range c.raw[1:] {
			for i, s := range raw[lo : lo+n] {
				most[i] = max(most[i], s)
			}
		}
		clear(sum[:n])
		for _, raw := range c.raw {
			for i, s := range raw[lo : lo+n] {
				sum[i] += exact.Exp(s - most[i])
			}
		}
		for i, s := range sum[:n] {
			c.norm[lo+i] = most[i] + exact.Log(s)
		}
	}
}

// slope returns a row's gradient and hessian, without its own weight.
func (c *class) slope(r int, raw float64) (g, h float64) {
	var p float64
	if c.norm != nil {
		p = min(exact.Exp(raw-c.norm[r]), 1)
	} else {
		p = Probability(raw)
	}
	h = float64(c.curve * float64(p*(1-p)))
	if int(c.d.Label[r]) == c.number {
		return float64((p - 1) * c.weight[1]), float64(h * c.weight[1])
	}
	return float64(p * c.weight[0]), float64(h * c.weight[0])
}

func (c *class) at(r uint32, raw float64) (g, h float64) {
	g, h = c.slope(int(r), raw)
	if c.d.Weight != nil {
		w := float64(c.d.Weight[r])
		g, h = float64(g*w), float64(h*w)
	}
	return g, h
}

func (c *class) fill(gh []uint32, raw []float64, lo, hi int, k key) {
	gInv, hInv := 1/c.pack.g1, 1/c.pack.h1
	for r := lo; r < hi; r++ {
		g, h := c.at(uint32(r), raw[r])
		u := k.at(uint64(r))
		gh[r] = uint32(roundRandomly(float64(g*gInv), u))<<16 | uint32(roundRandomly(float64(h*hInv), u>>32))&0xffff
	}
}

func (c *class) renew(*grower, *Tree, []float64) {}

// The objectives of several classes.
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

// checkClasses refuses what several classes cannot be combined with.
func (p *Params) checkClasses() error {
	if !Classes(p.Objective) {
		return nil
	}
	switch {
	case p.DataSampleStrategy == byGradient:
		return &ParamError{sampleStrategy, fmt.Sprintf("goss draws the rows of one tree, and objective %s grows %d "+
			"from the same rows; use bagging", p.Objective, p.NumClass)}
	case p.bagsByClass():
		return &ParamError{posBagging, fmt.Sprintf("objective %s has no positive and negative rows", p.Objective)}
	}
	return nil
}

// softmaxAll turns rows of n raw scores each into probabilities, in place.
func softmaxAll(scores []float64, n int) {
	for ; len(scores) >= n; scores = scores[n:] {
		row := scores[:n]
		most, sum := math.Inf(-1), 0.0
		for _, s := range row {
			most = max(most, s)
		}
		for i, s := range row {
			row[i] = exact.Exp(s - most)
			sum += row[i]
		}
		for i := range row {
			row[i] /= sum
		}
	}
}
