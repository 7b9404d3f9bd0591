package calibrate

import "math"

// logistic is a logistic regression of the smoothed labels on one or two features of the raw score, with non-negative
// coefficients.
//
// Labels are smoothed as by Platt (1999, "Probabilistic outputs for support vector machines"): a positive counts as
// (P+1)/(P+2) and a negative as 1/(N+2), where P and N are the weights of the classes. So the optimum is finite even
// where a score separates the classes. The optimum is found by Newton's method with backtracking, written so that
// nothing overflows (Lin, Lin and Weng 2007, "A note on Platt's probabilistic outputs").
type logistic struct {
	method      Method
	d           *data
	mean, scale [2]float64 // of the features; standardising them makes the Hessian well-conditioned

	without     int        // the fold left out, on which the following fields depend
	weight, pos float64    // of the rows taking part
	target      [2]float64 // of a negative and of a positive
}

// coefficients are those of the standardised features, and the constant.
type coefficients struct {
	of    [2]float64
	c     float64
	begun bool
}

// newLogistic computes mean and deviation over all rows, so that the coefficients of one fold are a good start for the
// next. A constant feature has the scale 0.
func newLogistic(method Method, d *data) *logistic {
	l := &logistic{method: method, d: d}
	if d.raw[0] == d.raw[d.len()-1] {
		return l
	}

	total := l.sum(func(float64, float64) (float64, float64) { return 1, 1 })[0]
	mean := l.sum(func(f0, f1 float64) (float64, float64) { return f0, f1 })
	l.mean = [2]float64{mean[0] / total, mean[1] / total}

	spread := l.sum(func(f0, f1 float64) (float64, float64) {
		f0, f1 = f0-l.mean[0], f1-l.mean[1]
		return float64(f0 * f0), float64(f1 * f1)
	})
	l.scale = [2]float64{math.Sqrt(spread[0] / total), math.Sqrt(spread[1] / total)}
	return l
}

// sum adds up, with weights, the results of of for every row's features.
func (l *logistic) sum(of func(f0, f1 float64) (float64, float64)) [2]float64 {
	return sumBlocks(l.d.len(), func(begin, end int) (s [2]float64) {
		for i := begin; i < end; i++ {
			v0, v1 := of(l.raw(l.d.raw[i]))
			w := l.d.weightOf(i)
			s[0] += float64(w * v0)
			s[1] += float64(w * v1)
		}
		return s
	}, func(t *[2]float64, p [2]float64) { t[0] += p[0]; t[1] += p[1] })
}

// leaveOut smooths the labels of the rows taking part.
func (l *logistic) leaveOut(without int) {
	l.without = without
	l.weight, l.pos = 0, 0
	for i, label := range l.d.label {
		if l.d.in(i, without) {
			w := l.d.weightOf(i)
			l.weight += w
			l.pos += float64(w * float64(label))
		}
	}
	l.target = [2]float64{1 / (l.weight - l.pos + 2), (l.pos + 1) / (l.pos + 2)}
}

// raw returns the features of a raw score: for Platt the score itself, for beta ln p and -ln(1-p).
func (l *logistic) raw(x float64) (f0, f1 float64) {
	if l.method == Platt {
		return x, 0
	}
	return logarithms(x)
}

// fit finds the best non-negative coefficients. The loss is convex: if the unconstrained optimum has a negative
// coefficient, then at the constrained optimum one of them is 0.
func (l *logistic) fit(without int, from coefficients) coefficients {
	l.leaveOut(without)
	if !from.begun {
		rate := l.target[0] + float64((l.target[1]-l.target[0])*(l.pos/l.weight))
		from = coefficients{c: math.Log(rate / (1 - rate)), begun: true}
	}

	// A constant feature has no coefficient.
	free := [2]bool{l.scale[0] > 0, l.method == Beta && l.scale[1] > 0}
	w, _ := l.newton(from, free)
	if w.of[0] >= 0 && w.of[1] >= 0 {
		return w
	}

	// At the optimum a coefficient is 0: try one, the other and both.
	best, least := coefficients{}, math.Inf(1)
	for _, face := range [][2]bool{{free[0], false}, {false, free[1]}, {false, false}} {
		w, loss := l.newton(coefficients{c: from.c, begun: true}, face)
		if w.of[0] >= 0 && w.of[1] >= 0 && loss < least {
			best, least = w, loss
		}
	}
	return best
}

// calibrator reverts the standardisation.
func (l *logistic) calibrator(w coefficients) *Calibrator {
	c := &Calibrator{method: l.method, c: w.c}
	for j, to := range []*float64{&c.a, &c.b} {
		if w.of[j] != 0 {
			*to = w.of[j] / l.scale[j]
			c.c -= float64(*to * l.mean[j])
		}
	}
	return c
}

// derivatives are those of the mean loss at given coefficients; index 2 is the constant.
type derivatives struct {
	loss     float64
	gradient [3]float64
	hessian  [3][3]float64 // upper triangle
}

// newton descends from w along the free coefficients; the others are 0.
func (l *logistic) newton(w coefficients, free [2]bool) (coefficients, float64) {
	const (
		iterations = 100
		enough     = 1e-10 // achievable decrease of the mean loss at which to stop; the last step squares the error
		shortest   = 1e-10
	)

	for j := range free {
		if !free[j] {
			w.of[j] = 0
		}
	}

	at := l.evaluate(w)
	for range iterations {
		step := direction(at, free)
		slope := 0.0
		for j, s := range step {
			slope += float64(s * at.gradient[j])
		}
		if -slope/2 < enough {
			return w.moved(step, 1), at.loss
		}

		// Halve the step until the loss decreases sufficiently.
		length := 1.0
		for ; length >= shortest; length /= 2 {
			next := w.moved(step, length)
			if then := l.evaluate(next); then.loss < at.loss+1e-4*length*slope {
				w, at = next, then
				break
			}
		}

		if length < shortest {
			break // no further decrease within rounding
		}
	}
	return w, at.loss
}

func (w coefficients) moved(step [3]float64, length float64) coefficients {
	for j := range w.of {
		w.of[j] += float64(length * step[j])
	}
	w.c += float64(length * step[2])
	return w
}

// evaluate makes one pass over the rows. With z the log odds, a row's loss is ln(1+e^z) - t z.
func (l *logistic) evaluate(w coefficients) derivatives {
	d := sumBlocks(l.d.len(), func(begin, end int) derivatives { return l.evaluateRows(w, begin, end) },
		func(t *derivatives, p derivatives) {
			t.loss += p.loss
			for i := range t.gradient {
				t.gradient[i] += p.gradient[i]
				for j := i; j < len(t.gradient); j++ {
					t.hessian[i][j] += p.hessian[i][j]
				}
			}
		})

	d.loss /= l.weight
	for i := range d.gradient {
		d.gradient[i] /= l.weight
		for j := i; j < len(d.gradient); j++ {
			d.hessian[i][j] /= l.weight
		}
	}
	return d
}

func (l *logistic) evaluateRows(w coefficients, begin, end int) (d derivatives) {
	var g0, g1, g2, h00, h01, h02, h11, h12, h22 float64
	for i := begin; i < end; i++ {
		if !l.d.in(i, l.without) {
			continue
		}

		// Features in units of their deviation.
		f0, f1 := l.raw(l.d.raw[i])
		if l.scale[0] > 0 {
			f0 = (f0 - l.mean[0]) / l.scale[0]
		}
		if l.scale[1] > 0 {
			f1 = (f1 - l.mean[1]) / l.scale[1]
		}

		// Written so that no exponential overflows.
		z := float64(w.of[0]*f0) + float64(w.of[1]*f1) + w.c
		e := math.Exp(-math.Abs(z))
		p := 1 / (1 + e)
		if z < 0 {
			p = e / (1 + e)
		}

		weight := l.d.weightOf(i)
		t := l.target[l.d.label[i]]
		d.loss += float64(weight * (max(z, 0) + math.Log1p(e) - float64(t*z)))

		g := float64(weight * (p - t))
		h := float64(weight * (e / ((1 + e) * (1 + e))))
		g0 += float64(g * f0)
		g1 += float64(g * f1)
		g2 += g
		h00 += float64(h * f0 * f0)
		h01 += float64(h * f0 * f1)
		h02 += float64(h * f0)
		h11 += float64(h * f1 * f1)
		h12 += float64(h * f1)
		h22 += h
	}

	d.gradient = [3]float64{g0, g1, g2}
	d.hessian = [3][3]float64{{h00, h01, h02}, {0, h11, h12}, {0, 0, h22}}
	return d
}

// direction solves hessian x step = -gradient for the free coefficients and the constant, by Cholesky's method. A ridge
// makes it solvable if features are collinear.
func direction(at derivatives, free [2]bool) (step [3]float64) {
	const ridge = 1e-12
	var which []int
	for j, f := range free {
		if f {
			which = append(which, j)
		}
	}
	which = append(which, 2)

	// Factor the matrix, combined with forward substitution.
	var lower [3][3]float64
	var y [3]float64
	for i, wi := range which {
		for j := 0; j <= i; j++ {
			v := at.hessian[which[j]][wi]
			if i == j {
				v += ridge
			}
			for k := range j {
				v -= float64(lower[i][k] * lower[j][k])
			}
			if i == j {
				lower[i][i] = math.Sqrt(max(v, ridge))
			} else {
				lower[i][j] = v / lower[j][j]
			}
		}

		v := -at.gradient[wi]
		for k := range i {
			v -= float64(lower[i][k] * y[k])
		}
		y[i] = v / lower[i][i]
	}

	// Backward substitution.
	for i := len(which) - 1; i >= 0; i-- {
		v := y[i]
		for k := i + 1; k < len(which); k++ {
			v -= float64(lower[k][i] * step[which[k]])
		}
		step[which[i]] = v / lower[i][i]
	}
	return step
}
