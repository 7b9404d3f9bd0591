package gbt

import (
	"cmp"
	"fmt"
	"math"

	"coppice/internal/exact"
)

// rowLoss describes the loss of one row as a function of its raw score. Definitions are LightGBM's
// (src/objective/regression_objective.hpp and xentropy_objective.hpp).
type rowLoss struct {
	// derive is called with the raw scores of some rows in g and their labels in h, at most blockRows. It replaces
	// g by the first derivative of the loss by the raw score, and h by the second one or what LightGBM uses for it.
	derive func(g, h []float64)
	unitH  bool // h is 1 for every row
	// badLabel returns which labels the loss takes if y is not one of them, and "" if it is. Nil takes every label.
	badLabel func(y float64) string
	start    func(o *pointwise) float64 // returns the raw score to begin with

	// quantile, if not 0, is the quantile of its rows' residuals that a leaf gets as its value, before shrinkage. A
	// Newton step is no use to these losses, since their h is not a second derivative.
	quantile float64
	// leastStep, if not nil, returns the value that minimises the loss of a leaf whose gradients add up to g and whose
	// hessians add up to h. A negative leaf value is raised to it: where the loss falls faster than any parabola, a
	// Newton step may overshoot without bound.
	leastStep func(g, h float64) float64
}

// pointwise is an objective that is a weighted sum of the rows' losses.
type pointwise struct {
	rowLoss
	text string // in the model file
	d    *Data
	pack packing
}

// newPointwise checks each label, and that rows with a weight above 0 have at least two different ones.
func newPointwise(p *Params, d *Data, text string, loss rowLoss) (objective, error) {
	o := &pointwise{rowLoss: loss, text: text, d: d}

	// The label of the first row with weight (until there is one, that of the last row); 1 once there was such a row; 1
	// once another label was seen. It is one array, because the workers of a team pass it from one to the next.
	var seen [3]float64
	first, weighted, differ := &seen[0], &seen[1], &seen[2]
	err := d.eachRow(seen[:], func(r uint32, w float64) error {
		y := float64(d.Label[r])
		if o.badLabel != nil {
			if want := o.badLabel(y); want != "" {
				return fmt.Errorf("%w: label %v in row %d; objective %s takes %s", ErrData, d.Label[r],
					d.firstRow()+uint64(r), p.Objective, want)
			}
		}
		if *weighted == 0 {
			*first = y
		}
		if w > 0 {
			*weighted = 1
			if y != *first {
				*differ = 1
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}

	if *weighted == 0 || *differ == 0 {
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

// gradients is objective.gradients: the derivatives of the loss, times the rows' weights.
func (o *pointwise) gradients(rows []uint32, g, h []float64) {
	for i, r := range rows {
		h[i] = float64(o.d.Label[r])
	}
	o.derive(g, h)
	if o.d.Weight != nil {
		for i, r := range rows {
			w := float64(o.d.Weight[r])
			g[i], h[i] = float64(g[i]*w), float64(h[i]*w)
		}
	}
}

// prepare is objective.prepare: the units are such that the largest gradient and hessian of the rows in use, of all
// workers of a team, are as large as a row's bits can hold.
func (o *pointwise) prepare(_ int, raw []float64, rows []uint32, pool *pool) packing {
	// The largest |gradient| and hessian that each goroutine has seen.
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
	g, h = cmp.Or(g, 1), cmp.Or(h, 1) // all gradients are 0 if every row is fitted exactly, and a unit cannot be 0

	// Hessians that are all 1 take no bits; with weights they differ.
	if o.unitH && o.d.Weight == nil {
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
	// The function has no error, and the link keeps one of the team, for which newBooster asks.
	_ = o.d.eachRow(sums[:], func(r uint32, w float64) error {
		sums[0] += float64(w * f(float64(o.d.Label[r])))
		sums[1] += w
		return nil
	})
	return sums[0] / sums[1]
}

// meanRoot is the weighted mean of the labels' roots.
func (o *pointwise) meanRoot() float64 { return o.meanOf(signedRoot) }

func logOfMean(o *pointwise) float64 { return exact.Log(o.mean()) }

// labelQuantile is the quantile of the labels of all workers' rows, at o.quantile.
func (o *pointwise) labelQuantile() float64 {
	rows := make([]uint32, 0, o.d.Used())
	// It returns the function's error, of which there is none.
	_ = o.d.eachOwnRow(func(r uint32, _ float64) error {
		rows = append(rows, r)
		return nil
	})
	return o.residualQuantiles([][]uint32{rows}, []int{o.d.tableUsed()}, nil, newPoolOfSize(1))[0]
}

// residualQuantiles returns, for each of several sets of rows, the quantile of the residuals (label less raw score) at
// o.quantile. sets are this worker's rows of each set, and size is how many rows each set has in all workers together,
// at least one. A nil raw stands for scores of 0. Without weights a quantile may lie between two residuals; with
// weights it is the first residual up to which more than that share of the weight is reached.
func (o *pointwise) residualQuantiles(sets [][]uint32, size []int, raw []float64, pool *pool) []float64 {
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
				all[s][i] = residual{key: exact.Ordered(y), weight: w}
			}
		}
	})
	if o.d.Weight == nil {
		return o.d.link.plainQuantiles(all, size, o.quantile, pool)
	}
	return o.d.link.weightedQuantiles(all, o.d.tableUsed(), o.quantile, pool)
}

// renew is objective.renew. It raises leaf values below 0 to at least o.leastStep, or replaces them by the quantiles of
// their rows' residuals, shrunk by learning_rate. For losses that have neither it does nothing.
func (o *pointwise) renew(g *grower, t *Tree, raw []float64) {
	if o.leastStep != nil {
		for i := range g.leaves {
			x := g.leaves[i].sums
			if t.LeafValue[i] < 0 && x.g > 0 {
				t.LeafValue[i] = max(t.LeafValue[i], o.leastStep(float64(x.g*o.pack.g1), float64(x.h*o.pack.h1)))
			}
		}
	}
	if o.quantile == 0 {
		return
	}

	rows, size := make([][]uint32, len(g.leaves)), make([]int, len(g.leaves))
	for i := range g.leaves {
		rows[i], size[i] = g.leaves[i].rows, g.leaves[i].n
	}
	for i, v := range o.residualQuantiles(rows, size, raw, g.pool) {
		t.LeafValue[i] = v * g.p.LearningRate
	}
}

// rowByRow makes rowLoss.derive of a function that computes both derivatives for one row.
func rowByRow(derivative func(raw, y float64) (g, h float64)) func(g, h []float64) {
	return func(g, h []float64) {
		for i, raw := range g {
			g[i], h[i] = derivative(raw, h[i])
		}
	}
}

// sign is -1, 0 or 1.
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

func huberGrads(alpha float64) func(raw, y float64) (g, h float64) {
	return func(raw, y float64) (g, h float64) { return min(max(raw-y, -alpha), alpha), 1 }
}

// pinballGrads computes the derivatives of the pinball loss at alpha. Its second derivative is 0, so h is 1 in its
// place; the leaves get quantiles afterwards (renew).
func pinballGrads(alpha float64) func(raw, y float64) (g, h float64) {
	return func(raw, y float64) (g, h float64) {
		if raw >= y {
			return 1 - alpha, 1
		}
		return -alpha, 1
	}
}

// poissonGrads computes the derivatives of the Poisson deviance, but the hessian is e^maxDelta times as large, which
// keeps steps small (poisson_max_delta_step).
func poissonGrads(maxDelta float64) func(g, h []float64) {
	factor := exact.Exp(maxDelta)
	return func(g, h []float64) {
		exponentials(g, 1)
		for i, mean := range g {
			g[i], h[i] = mean-h[i], float64(mean*factor)
		}
	}
}

// gammaGrads computes the derivatives of the gamma deviance: g = 1 - y e^-raw, h = y e^-raw.
func gammaGrads(g, h []float64) {
	exponentials(g, -1)
	for i, e := range g {
		h[i] = float64(h[i] * e)
		g[i] = 1 - h[i]
	}
}

// gammaLeastStep is the step that minimises the gamma deviance of a leaf: the logarithm of its rows' mean ratio y
// e^-raw. These ratios add up to h, and since g = 1 - ratio for each row, the number of rows is g + h.
func gammaLeastStep(g, h float64) float64 { return exact.Log(h / (g + h)) }

// tweedieGrads computes the derivatives of the Tweedie deviance, whose variance is in proportion to mean^rho, with rho
// between 1 and 2: g = b - a and h = (rho-1) a + (2-rho) b, where a = y e^((1-rho) raw) and b = e^((2-rho) raw).
// As for every rowLoss.derive, g holds raw scores and h labels before, and the derivatives afterwards.
func tweedieGrads(rho float64) func(g, h []float64) {
	return func(g, h []float64) {
		var scratch [blockRows]float64
		means := scratch[:copy(scratch[:], g)]
		exponentials(g, 1-rho)
		exponentials(means, 2-rho)
		for i, b := range means {
			a := float64(h[i] * g[i]) // g[i] is e^((1-rho) raw) by now
			g[i], h[i] = b-a, float64((rho-1)*a)+float64((2-rho)*b)
		}
	}
}

// crossEntropyGrads computes the derivatives of the log loss of a label from 0 to 1: g = p - y, h = p (1 - p).
func crossEntropyGrads(g, h []float64) {
	Probabilities(g)
	for i, p := range g {
		g[i], h[i] = p-h[i], float64(p*(1-p))
	}
}

// zeroOrMore, aboveZero and fromZeroToOne are for rowLoss.badLabel.
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
