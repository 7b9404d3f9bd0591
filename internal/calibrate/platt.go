package calibrate

import "math"

// platt is a logistic regression of the smoothed labels on the raw score.
//
// Labels are smoothed as by Platt (1999, "Probabilistic outputs for support vector machines"): a positive counts as
// (P+1)/(P+2) and a negative as 1/(N+2), where P and N are the total weights of positives and negatives. So the optimum
// is finite even if a score separates the two. It is found by Newton's method with backtracking, written so that
// nothing overflows (Lin, Lin and Weng 2007, "A note on Platt's probabilistic outputs").
type platt struct {
	d           *data
	mean, scale float64    // mean and deviation of the scores; standardising makes the Hessian well-conditioned
	weight, pos float64    // total weight of all rows, and of positives
	target      [2]float64 // what a negative and a positive count as
}

// line is log odds as a linear function of the standardised score: slope x + c.
type line struct{ slope, c float64 }

// newPlatt returns a regression that is not fitted yet. If all scores are equal, scale is 0.
func newPlatt(d *data) *platt {
	l := &platt{d: d}
	if d.raw[0] == d.raw[d.len()-1] {
		return l
	}
	total := l.weightedSum(func(float64) float64 { return 1 })
	l.mean = l.weightedSum(func(x float64) float64 { return x }) / total
	l.scale = math.Sqrt(l.weightedSum(func(x float64) float64 { return float64((x - l.mean) * (x - l.mean)) }) / total)
	return l
}

// weightedSum returns the weighted sum over all rows of a function of the raw score.
func (l *platt) weightedSum(of func(raw float64) float64) float64 {
	return sumBlocks(l.d.len(), func(begin, end int) (s float64) {
		for i := begin; i < end; i++ {
			s += float64(l.d.weightOf(i) * of(l.d.raw[i]))
		}
		return s
	}, func(t *float64, p float64) { *t += p })
}

// fitLine returns the line with the least mean log loss, and the derivatives there. It may be called once.
func (l *platt) fitLine() (line, derivatives) {
	for i, label := range l.d.label {
		l.weight += l.d.weightOf(i)
		l.pos += float64(l.d.weightOf(i) * float64(label))
	}
	l.target = [2]float64{1 / (l.weight - l.pos + 2), (l.pos + 1) / (l.pos + 2)}

	// Begin with the mean target for all rows.
	rate := l.target[0] + float64((l.target[1]-l.target[0])*(l.pos/l.weight))
	return l.newton(line{c: math.Log(rate / (1 - rate))})
}

// slope fits the regression and returns the slope of the log odds over the raw scores, with its standard error e. If
// all scores are equal, nothing is known of it: it is 1, with an infinite error.
func (l *platt) slope() (slope, e float64) {
	if l.scale == 0 {
		return 1, math.Inf(1)
	}
	best, at := l.fitLine()

	// The variance of the slope is its element of the inverse Hessian of the total loss, which is that of the mean loss
	// times the weight of all rows.
	determinant := float64(at.h00*at.h11) - float64(at.h01*at.h01)
	variance := max(0, at.h11/determinant/l.weight)

	// But the rows of a stretch may err together (White's sandwich estimator). A row adds to the slope what it adds to
	// the gradient, times the inverse Hessian.
	apart := l.d.varianceOverTime(func(i int) float64 {
		x := (l.d.raw[i] - l.mean) / l.scale
		off := l.target[l.d.label[i]] - sigmoid(float64(best.slope*x)+best.c)
		return off * (float64(at.h11*x) - at.h01) / determinant / l.weight
	})

	// Dividing by scale undoes the standardisation.
	return best.slope / l.scale, math.Sqrt(max(variance, apart)) / l.scale
}

// derivatives are the mean loss at a line and its derivatives. Index 0 is the slope, 1 the constant.
type derivatives struct {
	loss          float64
	g0, g1        float64 // gradient
	h00, h01, h11 float64 // Hessian
}

// newton minimises the loss from w on, and returns the line where it is least, with the derivatives there (those before
// the last step, which is too short to matter). It stops when a step would lower the loss by less than enough, when no
// step lowers it any more, or after iterations steps.
func (l *platt) newton(w line) (line, derivatives) {
	const (
		iterations = 100
		enough     = 1e-10 // achievable decrease of the mean loss at which to stop; the last step squares the error
		shortest   = 1e-10
	)
	at := l.evaluate(w)
	for range iterations {
		// Half of descent is what a step would lower a parabola by; descent is the loss's derivative along the step.
		step := newtonStep(at)
		descent := float64(step.slope*at.g0) + float64(step.c*at.g1)
		if -descent/2 < enough {
			return w.moved(step, 1), at
		}

		// Halve the step until the loss decreases sufficiently (Armijo's rule, with its usual 1e-4).
		length := 1.0
		for ; length >= shortest; length /= 2 {
			next := w.moved(step, length)
			if then := l.evaluate(next); then.loss < at.loss+1e-4*length*descent {
				w, at = next, then
				break
			}
		}

		if length < shortest {
			break // no further decrease within rounding
		}
	}
	return w, at
}

// moved returns the line w + length x step.
func (w line) moved(step line, length float64) line {
	return line{w.slope + float64(length*step.slope), w.c + float64(length*step.c)}
}

// evaluate returns the mean loss at a line, with its derivatives, in one pass over the rows. With log odds z and target
// t, a row's loss is ln(1+e^z) - t z.
func (l *platt) evaluate(w line) derivatives {
	d := sumBlocks(l.d.len(), func(begin, end int) derivatives { return l.evaluateRows(w, begin, end) },
		func(t *derivatives, p derivatives) {
			t.loss += p.loss
			t.g0 += p.g0
			t.g1 += p.g1
			t.h00 += p.h00
			t.h01 += p.h01
			t.h11 += p.h11
		})
	return derivatives{d.loss / l.weight, d.g0 / l.weight, d.g1 / l.weight, d.h00 / l.weight, d.h01 / l.weight,
		d.h11 / l.weight}
}

// evaluateRows returns the sums of loss and derivatives at the line w over the rows begin <= i < end.
func (l *platt) evaluateRows(w line, begin, end int) (d derivatives) {
	for i := begin; i < end; i++ {
		x := l.d.raw[i]
		if l.scale > 0 {
			x = (x - l.mean) / l.scale
		}

		// Written so that no exponential overflows.
		z := float64(w.slope*x) + w.c
		e := math.Exp(-math.Abs(z))
		p := 1 / (1 + e)
		if z < 0 {
			p = e / (1 + e)
		}

		// The loss's first derivative by z is p - t, its second p (1-p), which is e / (1+e)² for both signs of z.
		weight := l.d.weightOf(i)
		t := l.target[l.d.label[i]]
		d.loss += float64(weight * (max(z, 0) + math.Log1p(e) - float64(t*z)))

		g := float64(weight * (p - t))
		h := float64(weight * (e / ((1 + e) * (1 + e))))
		d.g0 += float64(g * x)
		d.g1 += g
		d.h00 += float64(h * x * x)
		d.h01 += float64(h * x)
		d.h11 += h
	}
	return d
}

// newtonStep returns the solution of Hessian x step = -gradient by Cholesky's method. A small constant on the diagonal
// (the ridge) makes it solvable even if scores are nearly equal.
func newtonStep(at derivatives) (step line) {
	const ridge = 1e-12
	l00 := math.Sqrt(max(at.h00+ridge, ridge))
	l10 := at.h01 / l00
	y0 := -at.g0 / l00

	l11 := math.Sqrt(max(at.h11+ridge-float64(l10*l10), ridge))
	step.c = (-at.g1 - float64(l10*y0)) / l11 / l11
	step.slope = (y0 - float64(l10*step.c)) / l00
	return step
}
