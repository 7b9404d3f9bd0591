package search

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// Constants of CMA-ES (Hansen 2016, "The CMA evolution strategy: a tutorial"; its learning rates are in rates).
const (
	firstStep  = 0.3  // the first step size; the space is 1 wide
	warmStep   = 0.2  // the same around the best of earlier searches
	widestStep = 0.5  // beyond that nearly all draws leave the space
	converged  = 1e-3 // largest deviation at which it begins again elsewhere
	endedShare = 0.75 // of a generation's trials have to have ended before the next distribution is drawn from

	levelDeviation = 0.35 // least deviation on an axis of levels, in levels: about one draw in seven leaves the mean's
	levelRate      = 0.3  // how fast the shares of unordered levels follow the best
	levelMixing    = 0.1  // share of draws in which an unordered level is drawn uniformly

	redraws = 20 // before a draw outside the space is moved to its bounds
)

// evolution is the distribution that CMA-ES draws from. It is normal over the ordered axes; the levels of the others
// have shares.
type evolution struct {
	*domain
	seed       uint64
	columns    []int // the ordered axes, without those of one value
	population int

	mean       []float64 // by column
	sigma      float64
	covariance *mat.SymDense
	factor     mat.Cholesky
	stepPath   *mat.VecDense // of the mean, in units in which the distribution is round
	covPath    *mat.VecDense
	shares     map[int][]float64 // of each level, by unordered axis

	generation int // of the next draws
	sinceStart int // generations since it last began
	restarts   int
	learnt     int // results that it has learnt from
	passed     int // trials in the generations that are over
}

// fromCMAES draws from the distribution that follows from the results so far.
func (a *asker) fromCMAES() *proposal {
	if a.evolution == nil {
		a.evolution = newEvolution(a)
	}
	e := a.evolution
	e.advance(&a.history)

	rng := rand.New(rand.NewPCG(a.Seed, uint64(a.next)))
	for range attempts {
		if params := a.config(e.draw(rng)); a.usable(params) {
			return &proposal{params, SourceCMAES, e.String()}
		}
	}
	return a.fromRandom()
}

// String describes the distribution, for a reason.
func (e *evolution) String() string {
	text := fmt.Sprintf("a draw of generation %d of %d trials each, from a distribution with a step size of %.3g "+
		"that follows from %d results",
		e.generation+1, e.population, e.sigma, e.learnt)
	if e.restarts > 0 {
		text += fmt.Sprintf(", begun again %d times elsewhere", e.restarts)
	}
	return text
}

// newEvolution begins in the middle of the space or, with earlier searches, at their best result.
func newEvolution(a *asker) *evolution {
	e := &evolution{domain: a.domain, seed: a.Seed, shares: map[int][]float64{}}
	dims := 0
	for j := range a.axes {
		axis := &a.axes[j]
		switch {
		case axis.size == 1:
			continue
		case axis.ordered:
			e.columns = append(e.columns, j)
		default:
			e.shares[j] = nil
		}
		dims++
	}
	e.population = 4 + int(3*math.Log(float64(max(1, dims))))

	middle := make([]float64, len(a.axes))
	for j := range middle {
		middle[j] = 0.5
	}
	e.begin(middle, firstStep)

	if len(a.history.earlier) > 0 {
		best := slices.MaxFunc(a.history.earlier, func(x, y observation) int { return cmp.Compare(x.score, y.score) })
		e.begin(best.at, warmStep)
	}
	return e
}

// begin forgets what was learnt.
func (e *evolution) begin(at []float64, step float64) {
	n := len(e.columns)
	e.sigma, e.sinceStart = step, 0
	e.mean = make([]float64, n)
	for c, j := range e.columns {
		e.mean[c] = e.axes[j].inside(at[j])
	}

	for j := range e.shares {
		e.shares[j] = make([]float64, len(e.axes[j].levels))
		floats.AddConst(1/float64(len(e.shares[j])), e.shares[j])
	}
	if n == 0 {
		return
	}
	e.stepPath, e.covPath = mat.NewVecDense(n, nil), mat.NewVecDense(n, nil)
	e.covariance = mat.NewSymDense(n, nil)
	for c := range n {
		e.covariance.SetSym(c, c, 1)
	}
	e.factor.Factorize(e.covariance)
}

// advance learns from the generations that are over. A generation is the next trials by number, whatever proposed them:
// configurations that a person listed are injected into it. Its trials that have not ended are missing.
func (e *evolution) advance(h *history) {
	for e.passed+e.population <= len(h.order) {
		var results []observation
		ended := 0
		for _, one := range h.order[e.passed : e.passed+e.population] {
			if one.ended {
				ended++
			}
			if one.result >= 0 {
				results = append(results, h.finished[one.result])
			}
		}
		if float64(ended) < endedShare*float64(e.population) {
			return
		}

		e.passed += e.population
		e.generation++
		if len(results) > 1 {
			e.learn(results, ended)
		}
	}
}

// learn moves the distribution to the better half of a generation. ended counts its failed trials, too, which are the
// worst.
func (e *evolution) learn(results []observation, ended int) {
	slices.SortStableFunc(results, func(x, y observation) int { return cmp.Compare(y.score, x.score) })
	best := results[:min(len(results), max(1, ended/2))]
	weights := make([]float64, len(best))
	for i := range weights {
		weights[i] = math.Log(float64(len(best))+0.5) - math.Log(float64(i+1))
	}
	floats.Scale(1/floats.Sum(weights), weights)
	e.learnt += len(results)
	e.sinceStart++

	for j := range e.shares {
		e.learnLevels(j, best, weights)
	}
	if len(e.columns) == 0 {
		return
	}

	steps := make([]*mat.VecDense, len(best))
	for i := range best {
		steps[i] = e.stepTo(&best[i])
	}
	e.adapt(steps, weights)

	widest := 0.0
	for c := range e.columns {
		widest = max(widest, e.deviation(c))
	}
	if widest < converged {
		e.restarts++
		at := make([]float64, len(e.axes))
		for j := range at {
			at[j] = unit(random(e.seed, uint64(e.restarts), "restart "+e.axes[j].name))
		}
		e.begin(at, firstStep)
	}
}

// learnLevels moves the shares of an unordered axis's levels towards those among the best.
func (e *evolution) learnLevels(j int, best []observation, weights []float64) {
	among := make([]float64, len(e.shares[j]))
	for i, o := range best {
		if o.absent != nil && o.absent[j] {
			floats.AddScaled(among, weights[i], e.shares[j])
		} else {
			among[int(o.at[j]*float64(len(among)))] += weights[i]
		}
	}
	floats.Scale(1-levelRate, e.shares[j])
	floats.AddScaled(e.shares[j], levelRate, among)
}

// stepTo is the way from the mean to a configuration, in step sizes. Configurations that the distribution would hardly
// have drawn, since they were listed or drawn from an older one, count as nearer (Hansen 2011, "Injecting external
// solutions into CMA-ES").
func (e *evolution) stepTo(o *observation) *mat.VecDense {
	n := float64(len(e.columns))
	step := mat.NewVecDense(len(e.columns), nil)
	for c, j := range e.columns {
		if o.absent == nil || !o.absent[j] {
			step.SetVec(c, (o.at[j]-e.mean[c])/e.sigma)
			continue
		}
		// What a configuration lacks says nothing: it counts as some draw.
		rng := rand.New(rand.NewPCG(e.seed, random(e.seed, uint64(o.trial), "absent "+e.axes[j].name)))
		step.SetVec(c, math.Sqrt(e.covariance.At(c, c))*rng.NormFloat64())
	}

	if far, limit := mat.Norm(e.round(step), 2), math.Sqrt(n)+2*n/(n+2); far > limit {
		step.ScaleVec(limit/far, step)
	}
	return step
}

// round maps a step to where the distribution is round, with variance 1 in all directions.
func (e *evolution) round(step mat.Vector) *mat.VecDense {
	var lower mat.TriDense
	e.factor.LTo(&lower)
	out := mat.NewVecDense(step.Len(), nil)
	if err := out.SolveVec(&lower, step); err != nil {
		out.CopyVec(step) // nearly singular: the covariance is kept from it
	}
	return out
}

// adapt updates mean, step size and covariance from the steps to the best.
func (e *evolution) adapt(steps []*mat.VecDense, weights []float64) {
	n := float64(len(e.columns))
	effective := 1 / floats.Dot(weights, weights)
	moved := mat.NewVecDense(len(e.columns), nil)
	for i, step := range steps {
		moved.AddScaledVec(moved, weights[i], step)
	}
	for c := range e.mean {
		e.mean[c] = min(max(e.mean[c]+e.sigma*moved.AtVec(c), 0), below1)
	}

	// The step size grows if successive moves point the same way, and shrinks if they cancel.
	cs := (effective + 2) / (n + effective + 5)
	damping := 1 + 2*max(0, math.Sqrt((effective-1)/(n+1))-1) + cs
	e.stepPath.ScaleVec(1-cs, e.stepPath)
	e.stepPath.AddScaledVec(e.stepPath, math.Sqrt(cs*(2-cs)*effective), e.round(moved))
	length := mat.Norm(e.stepPath, 2)
	expected := math.Sqrt(n) * (1 - 1/(4*n) + 1/(21*n*n))

	// The covariance follows the path of the mean, unless the step size is about to grow much, and the steps of this
	// generation.
	cc := (4 + effective/n) / (n + 4 + 2*effective/n)
	c1 := 2 / ((n+1.3)*(n+1.3) + effective)
	cmu := min(1-c1, 2*(effective-2+1/effective)/((n+2)*(n+2)+effective))
	steady := 0.0
	if length/math.Sqrt(1-math.Pow(1-cs, 2*float64(e.sinceStart))) < (1.4+2/(n+1))*expected {
		steady = 1
	}
	e.covPath.ScaleVec(1-cc, e.covPath)
	e.covPath.AddScaledVec(e.covPath, steady*math.Sqrt(cc*(2-cc)*effective), moved)

	next := mat.NewSymDense(len(e.columns), nil)
	next.ScaleSym(1-c1-cmu+(1-steady)*c1*cc*(2-cc), e.covariance)
	next.SymRankOne(next, c1, e.covPath)
	for i, step := range steps {
		next.SymRankOne(next, cmu*weights[i], step)
	}
	var factor mat.Cholesky
	if factor.Factorize(next) && factor.Cond() < 1e14 {
		e.covariance, e.factor = next, factor
	}
	e.sigma = min(widestStep, e.sigma*math.Exp(cs/damping*(length/expected-1)))
}

// deviation is the standard deviation of a column's draws.
func (e *evolution) deviation(c int) float64 { return e.sigma * math.Sqrt(e.covariance.At(c, c)) }

// draw draws a position. Levels stay reachable however narrow the distribution has become.
func (e *evolution) draw(rng *rand.Rand) []float64 {
	at := make([]float64, len(e.axes))
	for j := range at {
		at[j] = 0.5
	}
	for _, j := range slices.Sorted(maps.Keys(e.shares)) {
		at[j] = e.drawLevel(rng, e.shares[j])
	}
	if len(e.columns) == 0 {
		return at
	}

	var lower mat.TriDense
	e.factor.LTo(&lower)
	z, step := mat.NewVecDense(len(e.columns), nil), mat.NewVecDense(len(e.columns), nil)
	for range redraws {
		for c := range e.columns {
			z.SetVec(c, rng.NormFloat64())
		}
		step.MulVec(&lower, z)

		inside := true
		for c, j := range e.columns {
			at[j] = e.mean[c] + e.sigma*step.AtVec(c)
			if size := e.axes[j].size; size > 0 {
				least := levelDeviation / float64(size)
				at[j] += math.Sqrt(max(0, least*least-e.deviation(c)*e.deviation(c))) * rng.NormFloat64()
			}
			inside = inside && at[j] >= 0 && at[j] < 1
		}
		if inside {
			break
		}
	}
	for _, j := range e.columns {
		at[j] = e.axes[j].inside(at[j])
	}
	return at
}

// drawLevel draws the position of a level.
func (e *evolution) drawLevel(rng *rand.Rand, shares []float64) float64 {
	n := float64(len(shares))
	if rng.Float64() < levelMixing {
		return rng.Float64()
	}
	u := rng.Float64()
	for i, share := range shares {
		if u -= share; u < 0 {
			return (float64(i) + 0.5) / n
		}
	}
	return below1
}
