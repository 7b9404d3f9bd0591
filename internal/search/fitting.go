package search

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"
)

// fitting is the negative log posterior density of a surrogate's parameters, with its gradient. The parameters are the
// logarithms of the length scales of the axes with columns, of the signal's variance and the noise's, and, with earlier
// searches, the correlation of successive searches (as a logit).
type fitting struct {
	prior
	columns []column // with a length scale each
	axes    int
	n       int
	z       []float64
	doubt   []float64
	between []float64   // number of searches between the two of a pair
	squares [][]float64 // by length scale, then pair: squared distance

	at   []float64 // point of the last evaluation
	f    float64
	grad []float64
}

// prior is the prior distribution of the parameters: normal.
type prior []distuv.Normal

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
	// levelPrior is how much larger the logarithm is for a choice: of eight choices two random configurations share
	// two, and must still say something about each other.
	levelPrior = 0.9
)

// newFitting prepares to fit the process to trials: the distances of all pairs, by column, and priors. Trials of
// earlier searches add a parameter: how much they still say.
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

	mu := math.Log(scalePrior * math.Sqrt(float64(len(f.columns))))
	for _, c := range f.columns {
		scale := distuv.Normal{Mu: mu, Sigma: scaleSigma}
		if !c.ordered {
			scale.Mu += levelPrior
		}
		f.prior = append(f.prior, scale)
	}
	f.prior = append(f.prior, distuv.Normal{Mu: 0, Sigma: 1}, distuv.Normal{Mu: math.Log(1e-3), Sigma: 2})
	if old {
		f.prior = append(f.prior, distuv.Normal{Mu: 2, Sigma: 1}) // a correlation of .88
	}
	return f
}

// unpack converts the parameters, of which all but the last are logarithms, to their natural scale: of each axis, of
// the values, of the noise and, if there are earlier searches, the correlation with them. An axis that is not fitted
// has scale 1.
func (f *fitting) unpack(x []float64) (scales []float64, v, noise, rho float64) {
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
	return scales, math.Exp(x[m]), math.Exp(x[m+1]) + 1e-6, rho
}

func (f *fitting) loss(x []float64) float64 {
	f.compute(x)
	return f.f
}

func (f *fitting) gradient(grad, x []float64) {
	f.compute(x)
	copy(grad, f.grad)
}

// compute computes value and gradient together: both need the inverse.
func (f *fitting) compute(x []float64) {
	if f.at != nil && slices.Equal(f.at, x) {
		return
	}
	f.at = append(f.at[:0], x...)
	f.grad = make([]float64, len(x))
	f.f = math.Inf(1)

	scales, v, noise, rho := f.unpack(x)
	inverse := make([]float64, len(f.columns))
	for g, c := range f.columns {
		inverse[g] = 1 / (scales[c.axis] * scales[c.axis])
	}

	// The kernel and what its gradient needs, pair by pair.
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
			e := v * math.Exp(-d)
			if apart := f.between[p]; apart > 0 {
				e *= math.Pow(rho, apart)
			}
			kernel[p], slope[p] = e*(1+d+d*d/3), e*(1+d)*5/3
			same := 0.0
			if f.between[p] == 0 {
				same = offset
			}
			k.SetSym(i, j, kernel[p]+same)
			p++
		}
		k.SetSym(i, i, v+noise+offset+f.doubt[i])
	}

	var chol mat.Cholesky
	if !chol.Factorize(k) {
		return
	}
	f.density(x, &chol, kernel, slope, inverse, v, noise, rho)
}

// density sets value and gradient from the factorized kernel.
func (f *fitting) density(x []float64, chol *mat.Cholesky, kernel, slope, inverse []float64, v, noise, rho float64) {
	z := mat.NewVecDense(f.n, f.z)
	var alpha mat.VecDense
	var w mat.SymDense
	if chol.SolveVecTo(&alpha, z) != nil || chol.InverseTo(&w) != nil {
		return
	}
	f.f = (mat.Dot(z, &alpha) + chol.LogDet()) / 2

	// Half of the trace of (K^-1 - alpha alpha') dK, in which every pair counts twice.
	m := len(inverse)
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

	f.grad[m] = v * trace / 2
	f.grad[m+1] = (noise - 1e-6) * trace / 2
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

	for i, n := range f.prior {
		u := (x[i] - n.Mu) / n.Sigma
		f.f += u * u / 2
		f.grad[i] += u / n.Sigma
	}
}
