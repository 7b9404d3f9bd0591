package search

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize"
)

// surrogate is a Gaussian process over configurations: a Matern 5/2 kernel with a length scale for each axis. Results
// of earlier searches contribute as far as they resemble this one's: the correlation of successive searches is fitted
// as well.
type surrogate struct {
	columns []column
	scales  []float64 // by axis
	v       float64   // variance of the signal
	noise   float64
	rho     float64 // correlation of successive searches

	known known
	lower blas64.Triangular // the Cholesky factor of the known rows' covariance
	alpha []float64         // its inverse times the values

	running []run
	runs    blas64.General    // a row for each: what the known rows explain of it
	left    blas64.Triangular // the factor of what they do not
}

// column is an axis with more than one value, and its place in a row.
type column struct {
	axis    int
	ordered bool
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

// columnsOf lists the axes that a row has a number for.
func columnsOf(d *domain) []column {
	var columns []column
	for j := range d.axes {
		if d.axes[j].size != 1 {
			columns = append(columns, column{j, d.axes[j].ordered})
		}
	}
	return columns
}

// rowOf converts a position to a row: the position on an ordered axis, or the number of the level.
func rowOf(d *domain, at []float64) []float64 {
	row := make([]float64, 0, len(at))
	for j := range d.axes {
		switch a := &d.axes[j]; {
		case a.size == 1:
		case a.ordered:
			row = append(row, min(max(at[j], -0.5), 1.5)) // points beyond the bounds must not stretch the space
		default:
			row = append(row, math.Floor(min(max(at[j], 0), below1)*float64(len(a.levels))))
		}
	}
	return row
}

// squared is the squared distance of two numbers of a column, on an axis with this length scale: two levels are 1
// apart.
func (c column) squared(a, b, scale float64) float64 {
	if c.ordered {
		d := (a - b) / scale
		return d * d
	}
	if a == b {
		return 0
	}
	d := math.Sqrt2 / 2 / scale
	return 2 * float64(d*d)
}

// fitScales finds the length scales and other parameters at the maximum of their posterior density.
func (s *surrogate) fitScales(k known, axes int) {
	f := newFitting(s.columns, k, axes)
	start := f.start()
	settings := &optimize.Settings{MajorIterations: 25, FuncEvaluations: 45, GradientThreshold: 1e-3,
		Converger: optimize.NeverTerminate{}}
	x := start

	// Even if the optimizer stops early, its result is better than the start; NaN is not.
	result, err := optimize.Minimize(optimize.Problem{Func: f.loss, Grad: f.gradient}, start, settings,
		&optimize.LBFGS{})
	if result != nil && (err == nil || result.F < f.loss(start)) && !math.IsNaN(result.F) {
		x = result.X
	}
	s.scales, s.v, s.noise, s.rho = f.unpack(x)
}

// condition sets the known rows with their values. Nothing is running then.
func (s *surrogate) condition(known known) {
	s.known, s.running = known, nil
	n := len(known.rows)
	k := mat.NewSymDense(n, nil)
	for i := range n {
		for j := range i {
			k.SetSym(i, j, s.covariance(known.rows[i], known.rows[j], known.ages[i]-known.ages[j]))
		}
		k.SetSym(i, i, s.v+offset+s.noise+known.doubt[i])
	}
	s.lower = s.factor(k)

	s.alpha = slices.Clone(known.z)
	x := vector(s.alpha)
	blas64.Trsv(blas.NoTrans, s.lower, x)
	blas64.Trsv(blas.Trans, s.lower, x)
}

// factor returns the Cholesky factor of a covariance, whose diagonal grows as far as rounding makes that necessary.
func (s *surrogate) factor(k *mat.SymDense) blas64.Triangular {
	var chol mat.Cholesky
	for more := 1e-8 * (s.v + offset); !chol.Factorize(k); more *= 10 {
		for i := range k.SymmetricDim() {
			k.SetSym(i, i, k.At(i, i)+more)
		}
	}
	var l mat.TriDense
	chol.LTo(&l)
	return l.RawTriangular()
}

// covariance is that of two rows that are so many searches apart.
func (s *surrogate) covariance(a, b []float64, apart int) float64 {
	sum := 0.0
	for i, c := range s.columns {
		sum += c.squared(a[i], b[i], s.scales[c.axis])
	}
	k := s.v * matern(math.Sqrt(5*sum))
	if apart == 0 {
		return k + offset
	}
	return k * math.Pow(s.rho, math.Abs(float64(apart)))
}

// run is a running trial, which is assumed to turn out as expected: that keeps the expectation and removes the
// uncertainty.
type run struct {
	point
	row       []float64
	mean      float64
	explained []float64 // what the known rows explain of it: their factor, solved for its covariance with them
}

// runOf prepares a running trial, which takes time in proportion to the square of the known rows.
func (s *surrogate) runOf(p point, row []float64) run {
	explained, mean := s.solveCovariance([][]float64{row})
	return run{point: p, row: row, mean: mean[0], explained: explained.Data}
}

// setRunning sets the running trials. The factor of the known rows stays as it is, so that this takes time in
// proportion to the known rows and the square of the running ones.
func (s *surrogate) setRunning(running []run) {
	s.running = running
	if len(running) == 0 {
		return
	}
	var rows [][]float64
	var explained []float64
	for _, r := range running {
		rows, explained = append(rows, r.row), append(explained, r.explained...)
	}
	n := len(s.known.rows)
	s.runs = blas64.General{Rows: len(running), Cols: n, Stride: n, Data: explained}
	left := mat.NewSymDense(len(running), nil)
	for i := range rows {
		for j := range i {
			left.SetSym(i, j, s.covariance(rows[i], rows[j], 0)-floats.Dot(running[i].explained, running[j].explained))
		}
		left.SetSym(i, i, s.v+offset+s.noise-floats.Dot(running[i].explained, running[i].explained))
	}
	s.left = s.factor(left)
}

// solveCovariance solves the factor of the known rows for their covariance with rows of this search, a column for each
// of these, and returns the rows' expectation, too.
func (s *surrogate) solveCovariance(rows [][]float64) (k blas64.General, mean []float64) {
	n, m := len(s.known.rows), len(rows)
	k, mean = general(n, m), make([]float64, m)
	for i, known := range s.known.rows {
		row := k.Data[i*m : (i+1)*m]
		for j := range rows {
			row[j] = s.covariance(known, rows[j], s.known.ages[i])
		}
		blas64.Axpy(s.alpha[i], vector(row), vector(mean))
	}
	blas64.Trsm(blas.Left, blas.NoTrans, 1, s.lower, k)
	return k, mean
}

// predictAt returns the expectation and its standard deviation at rows of this search.
func (s *surrogate) predictAt(rows [][]float64) (mean, std []float64) {
	m := len(rows)
	if m == 0 {
		return nil, nil
	}
	k, mean := s.solveCovariance(rows)
	std = make([]float64, m)
	subtract := func(k blas64.General) {
		for i := range k.Rows {
			for j, x := range k.Data[i*m : (i+1)*m] {
				std[j] += float64(x * x)
			}
		}
	}
	subtract(k)

	if q := len(s.running); q > 0 {
		of := general(q, m)
		for i, r := range s.running {
			for j := range rows {
				of.Data[i*m+j] = s.covariance(r.row, rows[j], 0)
			}
		}
		blas64.Gemm(blas.NoTrans, blas.NoTrans, -1, s.runs, k, 1, of)
		blas64.Trsm(blas.Left, blas.NoTrans, 1, s.left, of)
		subtract(of)
	}
	for j := range std {
		std[j] = math.Sqrt(max(s.v+offset-std[j], 1e-12))
	}
	return mean, std
}

func general(rows, columns int) blas64.General {
	return blas64.General{Rows: rows, Cols: columns, Stride: columns, Data: make([]float64, rows*columns)}
}

func vector(data []float64) blas64.Vector { return blas64.Vector{N: len(data), Data: data, Inc: 1} }
