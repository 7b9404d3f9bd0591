package search

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize"
)

// surrogate is a Gaussian process over configurations: a Matern 5/2 kernel with a length scale for each axis. Results
// of earlier searches contribute as far as they resemble this one's: the correlation of successive searches is fitted
// as well.
type surrogate struct {
	columns []int // axis of each column of a row
	scales  []float64
	v       float64 // variance of the signal
	noise   float64
	rho     float64 // correlation of successive searches

	rows  [][]float64 // known rows, then pending ones
	doubt []float64   // variance of each row's value beside the noise
	ages  []int
	alpha []float64 // for the known rows
	lower blas64.Triangular
}

// known is the data of a process: rows, their age in searches, their values, and the additional variance of each value.
type known struct {
	rows  [][]float64
	ages  []int
	z     []float64
	doubt []float64
}

// offset is the variance of one search's level relative to another, beyond the shift found by comparing them.
const offset = 0.04

// matern is the kernel for a scaled distance (times the square root of 5), with variance 1.
func matern(d float64) float64 { return (1 + d + d*d/3) * math.Exp(-d) }

// columnsOf maps configurations to rows of numbers: ordered axes have a column, others one per level. Axes with a
// single value have none.
func columnsOf(d *domain) []int {
	var columns []int
	for j := range d.axes {
		a := &d.axes[j]
		switch {
		case a.size == 1:
		case a.ordered:
			columns = append(columns, j)
		default:
			for range a.levels {
				columns = append(columns, j)
			}
		}
	}
	return columns
}

// rowOf converts a position to a row. Two different levels have a distance of 1.
func rowOf(d *domain, at []float64, absent []bool) []float64 {
	row := make([]float64, 0, len(at)+4)
	for j := range d.axes {
		a := &d.axes[j]
		gone := absent != nil && absent[j]
		switch {
		case a.size == 1:
		case a.ordered && gone:
			row = append(row, 0.5)
		case a.ordered:
			row = append(row, min(max(at[j], -0.5), 1.5)) // points beyond the bounds must not stretch the space
		default:
			level := int(min(max(at[j], 0), below1) * float64(len(a.levels)))
			for l := range a.levels {
				x := 0.0
				if l == level && !gone {
					x = math.Sqrt2 / 2
				}
				row = append(row, x)
			}
		}
	}
	return row
}

// fit finds the length scales and other parameters at the maximum of their posterior density.
func (s *surrogate) fit(k known, axes int) {
	f := newFitting(s.columns, k, axes)
	start := f.start()
	settings := &optimize.Settings{MajorIterations: 25, FuncEvaluations: 45, GradientThreshold: 1e-3,
		Converger: optimize.NeverTerminate{}}
	x := start

	// Even if the optimizer stops early, its result is better than the start.
	result, err := optimize.Minimize(optimize.Problem{Func: f.loss, Grad: f.gradient}, start, settings,
		&optimize.LBFGS{})
	if result != nil && (err == nil || result.F < f.loss(start)) {
		x = result.X
	}
	s.scales, s.v, s.noise, s.rho = f.unpack(x)
}

// condition sets the known rows with their values, and the pending rows of running trials: these are assumed to turn
// out as expected, which keeps the expectation and removes the uncertainty.
func (s *surrogate) condition(known known, pending [][]float64) {
	s.rows = append(append([][]float64{}, known.rows...), pending...)
	s.ages = append(append([]int{}, known.ages...), make([]int, len(pending))...)
	s.doubt = append(append([]float64{}, known.doubt...), make([]float64, len(pending))...)

	n := len(s.rows)
	k := mat.NewSymDense(n, nil)
	for i := range n {
		for j := range i {
			k.SetSym(i, j, s.covariance(s.rows[i], s.rows[j], s.ages[i], s.ages[j]))
		}
	}

	var chol mat.Cholesky
	jitter := 0.0
	for {
		for i := range n {
			k.SetSym(i, i, s.v+offset+s.noise+s.doubt[i]+jitter)
		}
		if chol.Factorize(k) {
			break
		}
		jitter = max(10*jitter, 1e-8*(s.v+offset))
	}

	var l mat.TriDense
	chol.LTo(&l)
	s.lower = l.RawTriangular()

	// The leading block of the factor is that of the known rows alone.
	s.alpha = append([]float64{}, known.z...)
	leading := s.lower
	leading.N = len(known.rows)
	x := blas64.Vector{N: leading.N, Data: s.alpha, Inc: 1}
	if leading.N > 0 {
		blas64.Trsv(blas.NoTrans, leading, x)
		blas64.Trsv(blas.Trans, leading, x)
	}
}

func (s *surrogate) covariance(a, b []float64, ageA, ageB int) float64 {
	sum := 0.0
	for c, j := range s.columns {
		d := (a[c] - b[c]) / s.scales[j]
		sum += float64(d * d)
	}
	k := s.v * matern(math.Sqrt(5*sum))
	if ageA == ageB {
		return k + offset
	}
	return k * math.Pow(s.rho, math.Abs(float64(ageA-ageB)))
}

// at returns the expectation and its standard deviation at rows of this search.
func (s *surrogate) at(rows [][]float64) (mean, std []float64) {
	n, m := len(s.rows), len(rows)
	mean, std = make([]float64, m), make([]float64, m)
	if m == 0 {
		return mean, std
	}

	k := blas64.General{Rows: n, Cols: m, Stride: m, Data: make([]float64, n*m)}
	for i := range n {
		row := k.Data[i*m : (i+1)*m]
		for j := range m {
			row[j] = s.covariance(s.rows[i], rows[j], s.ages[i], 0)
		}
		if i < len(s.alpha) {
			blas64.Axpy(s.alpha[i], blas64.Vector{N: m, Data: row, Inc: 1}, blas64.Vector{N: m, Data: mean, Inc: 1})
		}
	}

	blas64.Trsm(blas.Left, blas.NoTrans, 1, s.lower, k)
	for i := range n {
		for j, x := range k.Data[i*m : (i+1)*m] {
			std[j] += float64(x * x)
		}
	}
	for j := range std {
		std[j] = math.Sqrt(max(s.v+offset-std[j], 1e-12))
	}
	return mean, std
}
