package search

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"
)

// fitting is the function that fitScales minimizes: the negative log posterior density of a surrogate's parameters,
// with its gradient. The vector of parameters x has the logarithm of the length scale of every column, then that of the
// signal's variance and that of the noise's. With earlier searches it ends with the correlation of successive searches,
// as a logit.
type fitting struct {
	prior
	columns []column // with a length scale each
	axes    int      // of the domain
	n       int      // number of observations
	z       []float64
	doubt   []float64
	between []float64   // [pairs of observations]: number of searches between the two
	squares [][]float64 // [columns x pairs]: squared distance at a length scale of 1

	at   []float64 // the x of the last evaluation; nil before
	f    float64   // the value there
	grad []float64 // the gradient there
}

// prior is the prior distribution of each parameter.
type prior []distuv.Normal

// start returns the parameters that the optimizer starts from: the means of the prior.
func (p prior) start() []float64 {
	x := make([]float64, len(p))
	for i, n := range p {
		x[i] = n.Mu
	}
	return x
}

const (
	scalePrior = 0.22 // median of a length scale, times the root of the number of axes
	scaleSigma = 0.8  // of its logarithm
	// levelPrior is how much larger the logarithm is for a choice, whose length scale is 2.5 times as long then. Of
	// eight choices of four levels two random configurations share two, and must still say something about each other
	// (docs/LAB.md).
	levelPrior = 0.9
	minNoise   = 1e-6 // the least variance of the noise
)

// newFitting prepares to fit a process to observations: it computes the distances of all pairs and sets the priors. If
// the observations are of several searches, there is one more parameter: the correlation of successive searches. axes
// is the number of axes of the domain, which may exceed that of the columns.
func newFitting(columns []column, known known, axes int) *fitting {
	rows, ages := known.rows, known.ages
	f := &fitting{columns: columns, axes: axes, n: len(rows), z: known.z, doubt: known.doubt}

	// Distances do not change during the optimization.
	f.squares = make([][]float64, len(columns))
	old := false
	for i := range rows {
		for k := range i {
			apart := math.Abs(float64(ages[i] - ages[k]))
			f.between = append(f.between, apart)
			old = old || apart > 0

			for g, c := range columns {
				f.squares[g] = append(f.squares[g], c.squared(rows[i][g], rows[k][g], 1))
			}
		}
	}

	// The prior of a length scale grows with the number of columns, as distances between random rows do.
	mu := math.Log(scalePrior * math.Sqrt(float64(len(f.columns))))
	for _, c := range f.columns {
		scale := distuv.Normal{Mu: mu, Sigma: scaleSigma}
		if !c.ordered {
			scale.Mu += levelPrior
		}
		f.prior = append(f.prior, scale)
	}
	// Values have a variance of about 1, and the scores of a trainer hardly any noise. Both are logarithms.
	f.prior = append(f.prior, distuv.Normal{Mu: 0, Sigma: 1}, distuv.Normal{Mu: math.Log(1e-3), Sigma: 2})
	if old {
		f.prior = append(f.prior, distuv.Normal{Mu: 2, Sigma: 1}) // the logit of a correlation of 0.88
	}
	return f
}

// unpack converts the parameters to their natural scale: the length scale of each axis, the variances of the signal and
// of the noise, and the correlation of successive searches, which is 0 if there is one search. An axis without a column
// has length scale 1. The noise is at least minNoise, so that the covariance can be factorized.
func (f *fitting) unpack(x []float64) (scales []float64, variance, noise, rho float64) {
	scales = make([]float64, f.axes)
	for j := range scales {
		scales[j] = 1
	}
	for g, c := range f.columns {
		scales[c.axis] = math.Exp(x[g])
	}
	m := len(f.columns)
	if len(x) > m+2 {
		rho = 1 / (1 + math.Exp(-x[m+2]))
	}
	return scales, math.Exp(x[m]), math.Exp(x[m+1]) + minNoise, rho
}

func (f *fitting) loss(x []float64) float64 {
	f.compute(x)
	return f.f
}

func (f *fitting) gradient(grad, x []float64) {
	f.compute(x)
	copy(grad, f.grad)
}

// compute sets f.f and f.grad to the value and the gradient at x, unless they are known from the last call. Both need
// the factorized covariance, which is most of the work. Where the covariance cannot be factorized, the value is
// infinite and the gradient 0.
func (f *fitting) compute(x []float64) {
	if f.at != nil && slices.Equal(f.at, x) {
		return
	}
	f.at = append(f.at[:0], x...)
	f.grad = make([]float64, len(x))
	f.f = math.Inf(1)

	scales, variance, noise, rho := f.unpack(x)
	inverse := make([]float64, len(f.columns)) // 1 / squared length scale, by column
	for g, c := range f.columns {
		inverse[g] = 1 / (scales[c.axis] * scales[c.axis])
	}

	// The kernel of every pair, and slope, from which its gradient follows: the kernel's derivative by the logarithm of
	// column g's length scale is slope times the pair's squared distance in g, times inverse[g]. (The derivative of
	// matern(d) is -exp(-d) (1 + d) d/3, and that of d, by the logarithm, is -5/d times squared distance and inverse.)
	// Pairs are numbered row by row below the diagonal, as newFitting has them.
	pairs := len(f.between)
	kernel, slope := make([]float64, pairs), make([]float64, pairs)
	sums := make([]float64, pairs)
	for g := range inverse {
		for p, d := range f.squares[g] {
			sums[p] += float64(d * inverse[g])
		}
	}
	k := mat.NewSymDense(f.n, nil)
	p := 0
	for i := range f.n {
		for j := range i {
			d := math.Sqrt(5 * sums[p])
			e := variance * math.Exp(-d)
			if apart := f.between[p]; apart > 0 {
				e *= math.Pow(rho, apart)
			}
			kernel[p], slope[p] = e*(1+d+d*d/3), e*(1+d)*5/3
			same := 0.0 // two results of one search share its level, whose variance is offset
			if f.between[p] == 0 {
				same = offset
			}
			k.SetSym(i, j, kernel[p]+same)
			p++
		}
		k.SetSym(i, i, variance+noise+offset+f.doubt[i])
	}

	var chol mat.Cholesky
	if !chol.Factorize(k) {
		return
	}
	f.setDensity(x, &chol, kernel, slope, inverse, variance, noise, rho)
}

// setDensity sets the value and the gradient at x from the factorized covariance. kernel and slope are by pair, inverse
// is by column: see compute, which has set f.grad to zeros. v, noise and rho are the signal's variance, the noise's and
// the correlation at x.
func (f *fitting) setDensity(x []float64, chol *mat.Cholesky, kernel, slope, inverse []float64, v, noise, rho float64) {
	z := mat.NewVecDense(f.n, f.z)
	var alpha mat.VecDense
	var w mat.SymDense
	if chol.SolveVecTo(&alpha, z) != nil || chol.InverseTo(&w) != nil {
		return
	}
	// The negative log likelihood of the values, without its constant.
	f.f = (mat.Dot(z, &alpha) + chol.LogDet()) / 2

	// Its derivative by a parameter is half of the trace of (K^-1 - alpha alpha') dK, where dK is the derivative of the
	// covariance. weights is that matrix below its diagonal, by pair: with its mirror image every pair counts twice, so
	// that the half goes. trace is the sum of its diagonal.
	m := len(inverse) // x has a length scale for each column, then variance, noise and, of several searches, rho
	weights := make([]float64, len(kernel))
	trace := 0.0
	p := 0
	for i := range f.n {
		for j := range i {
			weights[p] = w.At(i, j) - float64(alpha.AtVec(i)*alpha.AtVec(j))
			p++
		}
		trace += w.At(i, i) - float64(alpha.AtVec(i)*alpha.AtVec(i))
	}

	// The variance and the noise are on the diagonal of the covariance. Off it, the kernel is in proportion to the
	// variance and to a power of rho. The derivative by a value's logarithm is the one by the value, times the value;
	// by the logit of rho it is the one by rho, times rho (1 - rho).
	f.grad[m] = v * trace / 2
	f.grad[m+1] = (noise - minNoise) * trace / 2
	for p, weight := range weights {
		f.grad[m] += float64(weight * kernel[p])
		if f.between[p] > 0 && len(x) > m+2 {
			f.grad[m+2] += float64(weight * kernel[p] * f.between[p] * (1 - rho))
		}
		weights[p] = weight * slope[p]
	}
	for g := range inverse {
		for p, d := range f.squares[g] {
			f.grad[g] += float64(weights[p] * d * inverse[g])
		}
	}

	// Add the prior's part.
	for i, n := range f.prior {
		u := (x[i] - n.Mu) / n.Sigma
		f.f += u * u / 2
		f.grad[i] += u / n.Sigma
	}
}
