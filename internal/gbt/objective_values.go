package gbt

import (
	"cmp"
	"fmt"
	"math"

	"coppice/internal/exact"
)

// rowLoss is the loss of one row as a function of its raw score, by its derivatives. Definitions are LightGBM's
// (src/objective/regression_objective.hpp and xentropy_objective.hpp).
type rowLoss struct {
	// slopes replaces raw scores in g and labels in h by the first derivative by the raw score, and the second or what
	// is used for it. There are at most blockRows.
	slopes func(g, h []float64)
	unit   bool // h is 1 for every row
	// wrong says what is wrong with a label; empty for none.
	wrong func(y float64) string
	start func(o *pointwise) float64 // the raw score to begin with

	// level, if not 0, is the quantile of the rows' residuals that leaves get instead of a Newton step, which says
	// little where h says nothing of the loss.
	level float64
	// least, if not nil, is the step that minimises the loss of a leaf with these sums, below which no leaf goes: where
	// the loss grows faster than any parabola, a Newton step may overshoot without end.
	least func(g, h float64) float64
}

// pointwise is an objective that is a weighted sum of the rows' losses.
type pointwise struct {
	rowLoss
	text string // in the model file
	d    *Data
	pack packing
}

// newPointwise checks each label and that some differ among the rows that have weight. What it has seen so far is in
// one array, which the workers of a team pass on.
func newPointwise(p *Params, d *Data, text string, loss rowLoss) (objective, error) {
	o := &pointwise{rowLoss: loss, text: text, d: d}
	var seen [3]float64
	first, heavy, differ := &seen[0], &seen[1], &seen[2]
	err := d.each(seen[:], func(r uint32, w float64) error {
		y := float64(d.Label[r])
		if o.wrong != nil {
			if want := o.wrong(y); want != "" {
				return fmt.Errorf("%w: label %v in row %d; objective %s takes %s", ErrData, d.Label[r],
					d.first()+uint64(r), p.Objective, want)
			}
		}
		if *heavy == 0 {
			*first = y
		}
		if w > 0 {
			*heavy = 1
			if y != *first {
				*differ = 1
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if *heavy == 0 || *differ == 0 {
		return nil, fmt.Errorf("%w: %w", ErrData, errOneClass)
	}
	return o, nil
}

func (o *pointwise) String() string { return o.text }

func (o *pointwise) init(fromAverage bool) float64 {
	if !fromAverage {
		return 0
	}
	return o.start(o)
}

func (o *pointwise) weight(r uint32) float64 {
	if o.d.Weight == nil {
		return 1
	}
	return float64(o.d.Weight[r])
}

// gradients replaces raw scores in g by first derivatives, and sets h to second ones, both times the rows' weights.
func (o *pointwise) gradients(rows []uint32, g, h []float64) {
	for i, r := range rows {
		h[i] = float64(o.d.Label[r])
	}
	o.slopes(g, h)
	if o.d.Weight != nil {
		for i, r := range rows {
			w := float64(o.d.Weight[r])
			g[i], h[i] = float64(g[i]*w), float64(h[i]*w)
		}
	}
}

// prepare finds the largest gradient and hessian, which become the ends of the grid.
func (o *pointwise) prepare(_ int, raw []float64, rows []uint32, pool *pool) packing {
	largest := make([][2]float64, pool.size)
	pool.parallel(len(rows), grain, func(worker, lo, hi int) {
		g, h := largest[worker][0], largest[worker][1]
		for b := newGradientBlock(o, raw, rowSet{subset: rows}, lo, hi); b.nextBlock(); {
			for i, rg := range b.g {
				g, h = max(g, math.Abs(rg)), max(h, b.h[i])
			}
		}
		largest[worker] = [2]float64{g, h}
	})

	g, h := 0.0, 0.0
	for _, l := range largest {
		g, h = max(g, l[0]), max(h, l[1])
	}
	o.d.link.takeLargest(&g, &h)
	g, h = cmp.Or(g, 1), cmp.Or(h, 1) // all gradients are 0 where every row is fitted exactly

	// Without weights, hessians that are 1 take no bits.
	if o.unit && o.d.Weight == nil {
		o.pack = packing{hessianBits: bitsUnitHessian, g1: g / maxG24, h1: 1}
	} else {
		o.pack = packing{hessianBits: bitsVaryingHessian, g1: g / maxG16, h1: h / maxH16}
	}
	return o.pack
}

func (o *pointwise) fill(gh []uint32, raw []float64, rows rowSet, lo, hi int, k key) {
	packGradients(o, o.pack, gh, raw, rows, lo, hi, k)
}

// mean is the weighted mean label.
func (o *pointwise) mean() float64 {
	return o.meanOf(func(y float64) float64 { return y })
}

// meanOf is the weighted mean of a function of the labels, over all workers' rows.
func (o *pointwise) meanOf(f func(y float64) float64) float64 {
	var sums [2]float64
	_ = o.d.each(sums[:], func(r uint32, w float64) error {
		sums[0] += float64(w * f(float64(o.d.Label[r])))
		sums[1] += w
		return nil
	})
	return sums[0] / sums[1]
}

// meanRoot is the weighted mean of the labels' roots.
func (o *pointwise) meanRoot() float64 { return o.meanOf(signedRoot) }

func logOfMean(o *pointwise) float64 { return exact.Log(o.mean()) }

// labels is the labels' own quantile.
func (o *pointwise) labels() float64 {
	rows := make([]uint32, 0, o.d.Used())
	_ = o.d.eachOwn(func(r uint32, _ float64) error {
		rows = append(rows, r)
		return nil
	})
	return o.quantiles([][]uint32{rows}, []int{o.d.total()}, nil, poolOf(1))[0]
}

// quantiles are the residuals' quantiles at o.level in sets of rows, of which all workers together have so many, and at
// least one: between two of them, or with weights the first whose rows up to there have more than that share of the
// weight. A nil raw is all 0.
func (o *pointwise) quantiles(sets [][]uint32, size []int, raw []float64, pool *pool) []float64 {
	all := make([][]residual, len(sets))
	pool.parallel(len(sets), 1, func(_, lo, hi int) {
		for s := lo; s < hi; s++ {
			all[s] = make([]residual, len(sets[s]))
			for i, r := range sets[s] {
				y := float64(o.d.Label[r])
				w := o.weight(r)
				if raw != nil {
					y -= raw[r]
				}
				all[s][i] = residual{exact.Ordered(y), w}
			}
		}
	})
	if o.d.Weight == nil {
		return o.d.link.plainQuantiles(all, size, o.level, pool)
	}
	return o.d.link.weightedQuantiles(all, o.d.total(), o.level, pool)
}

// renew gives leaves the quantiles of their rows' residuals, shrunk by learning_rate, or raises them to o.least.
func (o *pointwise) renew(g *grower, t *Tree, raw []float64) {
	if o.least != nil {
		for i := range g.leaves {
			x := g.leaves[i].sums
			if t.LeafValue[i] < 0 && x.g > 0 {
				t.LeafValue[i] = max(t.LeafValue[i], o.least(float64(x.g*o.pack.g1), float64(x.h*o.pack.h1)))
			}
		}
	}
	if o.level == 0 {
		return
	}
	rows, size := make([][]uint32, len(g.leaves)), make([]int, len(g.leaves))
	for i := range g.leaves {
		rows[i], size[i] = g.leaves[i].rows, g.leaves[i].n
	}
	for i, v := range o.quantiles(rows, size, raw, g.pool) {
		t.LeafValue[i] = v * g.p.LearningRate
	}
}

// each makes a loss of numbers one of blocks.
func each(slope func(raw, y float64) (g, h float64)) func(g, h []float64) {
	return func(g, h []float64) {
		for i, raw := range g {
			g[i], h[i] = slope(raw, h[i])
		}
	}
}

func sign(x float64) float64 {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return 0
}

func squared(raw, y float64) (g, h float64) { return raw - y, 1 }

func squaredOfRoot(raw, y float64) (g, h float64) { return raw - signedRoot(y), 1 }

func signedRoot(y float64) float64 { return math.Copysign(math.Sqrt(math.Abs(y)), y) }

func absolute(raw, y float64) (g, h float64) { return sign(raw - y), 1 }

func huberSlope(alpha float64) func(raw, y float64) (g, h float64) {
	return func(raw, y float64) (g, h float64) { return min(max(raw-y, -alpha), alpha), 1 }
}

// pinballSlope has a hessian of 1, since the loss has none: leaves get quantiles afterwards.
func pinballSlope(alpha float64) func(raw, y float64) (g, h float64) {
	return func(raw, y float64) (g, h float64) {
		if raw >= y {
			return 1 - alpha, 1
		}
		return -alpha, 1
	}
}

// poissonSlopes has a hessian that is too large by e^reach, which keeps steps small.
func poissonSlopes(reach float64) func(g, h []float64) {
	wide := exact.Exp(reach)
	return func(g, h []float64) {
		exponentials(g, 1)
		for i, mean := range g {
			g[i], h[i] = mean-h[i], float64(mean*wide)
		}
	}
}

func gammaSlopes(g, h []float64) {
	exponentials(g, -1)
	for i, e := range g {
		h[i] = float64(h[i] * e)
		g[i] = 1 - h[i]
	}
}

// gammaLeast: with ratios y e^-raw, whose sum is h, of rows whose number is g + h.
func gammaLeast(g, h float64) float64 { return exact.Log(h / (g + h)) }

// tweedieSlopes is for a variance in proportion to the mean to the power of rho, which is between 1 and 2.
func tweedieSlopes(rho float64) func(g, h []float64) {
	return func(g, h []float64) {
		var room [blockRows]float64
		means := room[:copy(room[:], g)]
		exponentials(g, 1-rho)
		exponentials(means, 2-rho)
		for i, b := range means {
			a := float64(h[i] * g[i])
			g[i], h[i] = b-a, float64((rho-1)*a)+float64((2-rho)*b)
		}
	}
}

func crossEntropySlopes(g, h []float64) {
	Probabilities(g)
	for i, p := range g {
		g[i], h[i] = p-h[i], float64(p*(1-p))
	}
}

func zeroOrMore(y float64) string {
	if y < 0 {
		return "labels of 0 or more"
	}
	return ""
}

func aboveZero(y float64) string {
	if y <= 0 {
		return "labels above 0"
	}
	return ""
}

func fromZeroToOne(y float64) string {
	if y < 0 || y > 1 {
		return "labels from 0 to 1"
	}
	return ""
}
