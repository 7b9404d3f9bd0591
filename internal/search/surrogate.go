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
// as well. fitScales sets the parameters, condition the known rows, setRunning the running trials; then predictAt
// predicts.
type surrogate struct {
	columns  []column
	scales   []float64 // by axis of the domain
	variance float64   // of the signal
	noise    float64   // variance of a result around the signal
	rho      float64   // correlation of successive searches

	known known
	lower blas64.Triangular // the Cholesky factor L of the known rows' covariance K
	alpha []float64         // the inverse of K, times the known values

	running   []run
	explained blas64.General    // [running x known]: by running trial, its explained
	remainder blas64.Triangular // the Cholesky factor of the running trials' covariance, given the known rows
}

// column is an axis with more than one value. A row of the process has one number for each.
type column struct {
	axis    int
	ordered bool
}

// known is the data of a process, by observation.
type known struct {
	rows  [][]float64 // [observations x columns], as rowOf makes them
	ages  []int       // how many searches ago it was made; 0 is this search
	z     []float64   // its value; higher is better
	doubt []float64   // the variance of the value, in addition to the noise
}

// offset is the variance of a search's level, beyond the shift found by comparing searches: a standard deviation of
// 0.2, where the values have one of about 1.
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

// rowOf converts a position, [axes], to a row of the process, [columns]: the position on an ordered axis, or the number
// of the level on another. An axis with a single value has no column.
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

// squared returns the squared distance of two rows in this column, a and b being their numbers there. It is measured in
// length scales. Any two different levels of an unordered axis are 1 apart before scaling.
func (c column) squared(a, b, scale float64) float64 {
	if c.ordered {
		d := (a - b) / scale
		return d * d
	}
	if a == b {
		return 0
	}
	d := math.Sqrt2 / 2 / scale // in each of two indicator columns, that of a and that of b
	return 2 * float64(d*d)
}

// fitScales sets the length scales, the variances and the correlation to the maximum of their posterior density, given
// the observations. axes is the number of axes of the domain.
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
	s.scales, s.variance, s.noise, s.rho = f.unpack(x)
}

// condition conditions the process on observations, with the parameters that fitScales has set. It forgets the running
// trials.
func (s *surrogate) condition(known known) {
	s.known, s.running = known, nil
	n := len(known.rows)
	k := mat.NewSymDense(n, nil) // the covariance of the observed values
	for i := range n {
		for j := range i {
			k.SetSym(i, j, s.covariance(known.rows[i], known.rows[j], known.ages[i]-known.ages[j]))
		}
		k.SetSym(i, i, s.variance+offset+s.noise+known.doubt[i])
	}
	s.lower = s.factor(k)

	// Solve L L' alpha = z by forward and backward substitution.
	s.alpha = slices.Clone(known.z)
	x := vector(s.alpha)
	blas64.Trsv(blas.NoTrans, s.lower, x)
	blas64.Trsv(blas.Trans, s.lower, x)
}

// factor returns the Cholesky factor of a covariance. Where rounding leaves the covariance without one, it adds to k's
// diagonal, in place, ten times as much with each attempt.
func (s *surrogate) factor(k *mat.SymDense) blas64.Triangular {
	var chol mat.Cholesky
	for more := 1e-8 * (s.variance + offset); !chol.Factorize(k); more *= 10 {
		for i := range k.SymmetricDim() {
			k.SetSym(i, i, k.At(i, i)+more)
		}
	}
	var l mat.TriDense
	chol.LTo(&l)
	return l.RawTriangular()
}

// covariance returns the covariance of the values at two rows, a and b, of searches that are so many searches apart. Of
// one search, they share its level.
func (s *surrogate) covariance(a, b []float64, apart int) float64 {
	sum := 0.0
	for i, c := range s.columns {
		sum += c.squared(a[i], b[i], s.scales[c.axis])
	}
	k := s.variance * matern(math.Sqrt(5*sum))
	if apart == 0 {
		return k + offset
	}
	return k * math.Pow(s.rho, math.Abs(float64(apart)))
}

// run is a running trial. It is assumed to turn out as expected. That leaves the expectation everywhere as it is, and
// lowers the uncertainty near the trial, so that further proposals go elsewhere.
type run struct {
	point
	row       []float64
	mean      float64   // what the process expects of it
	explained []float64 // [known]: the solution x of L x = its covariance with the known rows
}

// runOf prepares a running trial for setRunning. It takes time in proportion to the square of the known rows.
func (s *surrogate) runOf(p point, row []float64) run {
	explained, mean := s.solveCovariance([][]float64{row})
	return run{point: p, row: row, mean: mean[0], explained: explained.Data}
}

// setRunning sets the running trials that predictAt takes into account. It extends the Cholesky factor of the known
// rows by a block for the running trials, instead of factorizing all rows anew.
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
	s.explained = blas64.General{Rows: len(running), Cols: n, Stride: n, Data: explained}

	// What the known rows leave of the running trials' covariance (the Schur complement).
	left := mat.NewSymDense(len(running), nil)
	for i := range rows {
		for j := range i {
			left.SetSym(i, j, s.covariance(rows[i], rows[j], 0)-floats.Dot(running[i].explained, running[j].explained))
		}
		left.SetSym(i, i, s.variance+offset+s.noise-floats.Dot(running[i].explained, running[i].explained))
	}
	s.remainder = s.factor(left)
}

// solveCovariance returns two things for rows of this search, [rows x columns]: the solution k of L k = C, where C is
// the known rows' covariance with them, [known x rows], and the expectation at each row.
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

// predictAt returns the expectation at rows of this search, [rows x columns], and the standard deviation there of a
// result without its noise.
func (s *surrogate) predictAt(rows [][]float64) (mean, std []float64) {
	m := len(rows)
	if m == 0 {
		return nil, nil
	}
	k, mean := s.solveCovariance(rows)

	// Sum, in std, the variance at each row that known rows and running trials explain: the squares of their solutions.
	std = make([]float64, m)
	addSquares := func(k blas64.General) {
		for i := range k.Rows {
			for j, x := range k.Data[i*m : (i+1)*m] {
				std[j] += float64(x * x)
			}
		}
	}
	addSquares(k)

	// The running trials explain a part of what the known rows have left.
	if q := len(s.running); q > 0 {
		toRunning := general(q, m)
		for i, r := range s.running {
			for j := range rows {
				toRunning.Data[i*m+j] = s.covariance(r.row, rows[j], 0)
			}
		}
		blas64.Gemm(blas.NoTrans, blas.NoTrans, -1, s.explained, k, 1, toRunning)
		blas64.Trsm(blas.Left, blas.NoTrans, 1, s.remainder, toRunning)
		addSquares(toRunning)
	}
	for j := range std {
		left := s.variance + offset - std[j]
		std[j] = math.Sqrt(max(left, 1e-12)) // at a known row, rounding may leave 0 or less
	}
	return mean, std
}

// general returns a matrix of zeros.
func general(rows, columns int) blas64.General {
	return blas64.General{Rows: rows, Cols: columns, Stride: columns, Data: make([]float64, rows*columns)}
}

func vector(data []float64) blas64.Vector { return blas64.Vector{N: len(data), Data: data, Inc: 1} }
