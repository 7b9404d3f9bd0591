package search

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"coppice/internal/sweep"
)

// Limits on the work for one proposal, so that its time does not grow with the number of trials. Fitting and
// conditioning a process take time in proportion to the cube of its results.
const (
	maxFitted    = 72    // results used to fit length scales, which is done some 45 times
	maxModelled  = 200   // results that the process is conditioned on, which is done once
	maxFromPast  = 90    // of maxModelled, results of earlier searches, if this search has enough to fill the rest
	maxRunning   = 100   // running trials in the process
	maxEvaluated = 3_000 // candidates whose expected improvement is computed
)

// initialDesign returns the reason that is recorded for a trial proposed before there is a model: it takes a point,
// counted from 1, of an initial design of so many points.
func initialDesign(point, points int) string {
	if point > points {
		return "another point of the initial design (Halton): the model needs two results"
	}
	return fmt.Sprintf("initial design (Halton), point %d of %d; the model takes over after %[2]d results", point,
		points)
}

// fromGP proposes the configuration with the largest expected improvement under a Gaussian process. Before there are
// enough results to fit one, it proposes points of the Halton sequence. If no candidate may be proposed, it draws at
// random. It returns nil if every parameter has a single value, since there is nothing to model then, or if neither
// the sequence nor random draws find anything new.
func (a *asker) fromGP() *Suggestion {
	// The initial design ends when its trials have ended. It also ends when all its points have been proposed, even if
	// their results are still to come. A process needs two scores, since scores are standardized.
	ended := len(a.history.finished) + len(a.history.failed)
	designing := ended < a.initial() && a.next < a.initial()
	scores := len(a.history.finished) + len(a.history.earlier)
	if designing || scores < 2 {
		return a.fromHalton(initialDesign(a.next+1, a.initial()))
	}

	m := a.fitModel()
	if len(m.columns) == 0 {
		return nil
	}
	m.setRunning(m.prepareRunning(a))

	// There is no best candidate if all that were looked at violate a constraint or have been tried.
	best := m.improve(a)
	if best == nil {
		return a.fromRandom()
	}
	return suggest(sweep.MethodGP, best.params, "expected improvement %.3g, from a process over %d results and %d "+
		"running: expects %+.2f +- %.2f standard deviations of the results, the best is %+.2f",
		math.Exp(best.gain), len(m.known.rows), len(m.running), best.mean, best.std, m.top)
}

// initial returns the size of the initial design: how many trials of this search precede the model. With results of
// earlier searches the model is fitted to those at once.
func (a *asker) initial() int {
	if len(a.history.earlier) > 0 {
		return 0
	}
	return initialTrials
}

// initialTrials is the number of initial trials without earlier searches: a model of fewer is meaningless.
const initialTrials = 8

// fittedModel is a Gaussian process with the data it was fitted to.
type fittedModel struct {
	surrogate
	points   []point   // by known row: its configuration
	means    []float64 // by known row: the process's expectation there
	prepared []run     // by pending trial of the history; its row is nil until the trial is needed
	top      float64   // the best expectation among known and running points; improve sets it
}

// prepareRunning returns the running trials that the process takes into account: all of them or, of more than
// maxRunning, those that spreadLatest selects. Each is prepared once and kept for later proposals of the same request,
// between which trials are only added to the history.
func (m *fittedModel) prepareRunning(a *asker) []run {
	pending := a.history.pending
	m.prepared = append(m.prepared, make([]run, len(pending)-len(m.prepared))...)
	var out []run
	for _, i := range spreadLatest(len(pending), maxRunning) {
		if m.prepared[i].row == nil {
			m.prepared[i] = m.runOf(pending[i], rowOf(a.domain, pending[i].at))
		}
		out = append(out, m.prepared[i])
	}
	return out
}

// spreadLatest selects at most limit of the numbers 0 to n-1, ascending. If there are more, half of the selected ones
// are the last numbers, and the other half are spread evenly over the numbers before those.
func spreadLatest(n, limit int) (out []int) {
	before := n - limit/2
	for i := range min(n, limit) {
		switch {
		case n <= limit:
			out = append(out, i)
		case i < limit-limit/2:
			out = append(out, i*before/(limit-limit/2))
		default:
			out = append(out, n-limit+i)
		}
	}
	return out
}

// fitModel returns a Gaussian process fitted to the finished trials, the failed ones and results of earlier searches.
// It is fitted once and kept in a.model for all proposals of a request. It has no columns, and is not fitted, if every
// parameter has a single value. There must be a score of this search or of an earlier one.
func (a *asker) fitModel() *fittedModel {
	if a.model != nil {
		return a.model
	}
	m := &fittedModel{}
	m.columns = columnsOf(a.domain)
	a.model = m
	if len(m.columns) == 0 {
		return m
	}

	// Bring all scores to one scale on which higher is better.
	observed := a.history.observations()
	scores := make([]float64, len(observed))
	for i, o := range observed {
		scores[i] = o.score
	}
	z := warpScores(scores)
	worst := slices.Min(z)

	// A failed trial counts as bad as the worst, since others near it may fail as well. But the machine may just have
	// vanished, which says nothing: so a single failure weighs little next to results, and several nearby weigh more.
	for _, p := range a.history.failed {
		observed = append(observed, observation{point: p, score: math.Inf(-1)})
		z = append(z, worst)
	}

	// gather returns the selected observations as the process's data, and their configurations. The score -Inf marks
	// the failed ones.
	gather := func(indices []int) (k known, points []point) {
		for _, i := range indices {
			doubt := 0.0
			if math.IsInf(observed[i].score, -1) {
				doubt = failureDoubt
			}
			k.rows = append(k.rows, rowOf(a.domain, observed[i].at))
			k.ages = append(k.ages, observed[i].age)
			k.z = append(k.z, z[i])
			k.doubt = append(k.doubt, doubt)
			points = append(points, observed[i].point)
		}
		return k, points
	}

	// Fit the parameters to few observations, since every step of the optimizer factorizes their covariance. Then
	// condition the process on more of them.
	some, _ := gather(selectInformative(observed, z, maxFitted))
	m.fitScales(some, len(a.axes))
	var k known
	k, m.points = gather(selectInformative(observed, z, maxModelled))
	m.condition(k)
	_, m.means = m.solveCovariance(k.rows) // what the model expects at the points that it knows, without their noise
	return m
}

// failureDoubt is the additional variance of a failed trial's value. The values of all results have a variance of about
// one, so a failure is known less exactly than any result.
const failureDoubt = 2

// selectInformative returns the indices of at most limit observations, ascending. z are their values; higher is better.
// Observations of earlier searches get their part of the limit (maxFromPast of maxModelled), and this search's get the
// rest. What one group does not fill goes to the other. Within both groups the best are preferred, and the rest are
// spread: see bestAndSpread.
func selectInformative(observed []observation, z []float64, limit int) []int {
	var own, past []int
	for i, o := range observed {
		if o.age == 0 {
			own = append(own, i)
		} else {
			past = append(past, i)
		}
	}

	fromPast := min(len(past), max(maxFromPast*limit/maxModelled, limit-len(own)))
	picked := append(bestAndSpread(own, z, limit-fromPast), bestAndSpread(past, z, fromPast)...)
	slices.Sort(picked)
	return picked
}

// bestAndSpread selects at most limit of the indices into z. If there are more, it takes those with the highest values
// for half of the limit. For the other half it takes every so many-th of the remaining ones, in the order of their
// values, so that bad regions are represented as well.
func bestAndSpread(indices []int, z []float64, limit int) []int {
	if len(indices) <= limit {
		return indices
	}
	if limit <= 0 {
		return nil
	}
	sorted := slices.SortedStableFunc(slices.Values(indices), func(i, j int) int { return cmp.Compare(z[j], z[i]) })
	half := (limit + 1) / 2
	out := slices.Clone(sorted[:half])
	rest := sorted[half:]
	for i := range limit - half {
		out = append(out, rest[i*len(rest)/(limit-half)])
	}
	return out
}

// observations returns the results that the model is fitted to: those of this search, followed by those of earlier
// searches. Scores of this search are shifted to the level of the earlier ones, which are at one level already.
func (h *history) observations() []observation {
	shift := 0.0
	if len(h.earlier) > 0 {
		shift = h.levelShift(h.finished, nil) // nil: only configurations that both have can tell the shift
	}
	out := make([]observation, 0, len(h.finished)+len(h.earlier))
	for _, o := range h.finished {
		o.score += shift
		out = append(out, o)
	}
	return append(out, h.earlier...)
}

// candidate is a configuration that the model evaluates.
type candidate struct {
	at        []float64      // its position on every axis
	params    map[string]any // nil until it is needed
	gain      float64        // logarithm of the augmented expected improvement
	mean, std float64        // what the model expects of it, and the standard deviation of that
}

// improve returns the configuration with the largest expected improvement that it finds, or nil if none that it looked
// at may be proposed. It looks over the whole space, near the best points, and then ever closer around the best
// candidates so far. The random numbers depend on the seed and the trial's number only.
func (m *fittedModel) improve(a *asker) *candidate {
	rng := rand.New(rand.NewPCG(a.Seed, uint64(a.next)))

	// Rank the known and the running points by what the model expects of them.
	points, means := slices.Clone(m.points), slices.Clone(m.means)
	for _, r := range m.running {
		points, means = append(points, r.point), append(means, r.mean)
	}
	n := len(points)
	m.top = slices.Max(means)
	order := upTo(n)
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(means[j], means[i]) })

	// A prediction takes time in proportion to the square of the points. So fewer candidates are evaluated with more
	// points: 3,000 up to about 23 points, and 300 from 160.
	budget := min(maxEvaluated, max(300, 12_000_000/((n+40)*(n+40))))
	var from [][]float64 // the eight best points
	for _, i := range order[:min(8, n)] {
		from = append(from, points[i].at)
	}

	// A third of the candidates are anywhere in the space. A third are near the best points, in turn: once around all
	// of them at a short distance, and once farther away.
	var places [][]float64
	for range budget / 3 {
		u := make([]float64, len(a.axes))
		for j := range u {
			u[j] = rng.Float64()
		}
		places = append(places, u)
	}
	sigmas := [2]float64{0.05, 0.15}
	for i := range budget / 3 {
		around := i / len(from)
		places = append(places, a.mutate(rng, from[i%len(from)], sigmas[around%2]))
	}
	best := m.evaluate(a, places, nil)

	// The last third is around the best candidates so far, in four rounds of shrinking steps.
	for _, sigma := range []float64{0.05, 0.03, 0.015, 0.007} {
		if len(best) == 0 {
			break
		}
		places = places[:0]
		for i := range budget / 12 {
			places = append(places, a.mutate(rng, best[i%len(best)].at, sigma))
		}
		best = m.evaluate(a, places, best)
	}
	if len(best) == 0 {
		return nil
	}
	return best[0]
}

// mutate returns a position near another, at.
//
// In half of the calls all ordered axes move, and each unordered one with a probability of 0.1. In the other half one
// axis that is drawn moves, and each other one with a probability of 0.2.
//
// sigma is the standard deviation of a move along an ordered axis, whose length is 1; on an axis of few values it is
// more. A move stays within the bounds. On an unordered axis, it draws any level.
func (a *asker) mutate(rng *rand.Rand, at []float64, sigma float64) []float64 {
	u := slices.Clone(at)
	few := rng.IntN(2) == 0
	always := rng.IntN(len(u))
	for j := range u {
		if few && j != always && rng.Float64() > 0.2 {
			continue
		}

		// On an axis of few values, a shorter step would nearly always return the same value.
		axis := &a.axes[j]
		step := sigma
		if axis.size > 1 {
			step = max(step, 0.7/float64(axis.size))
		}

		switch {
		case !axis.ordered && (few || rng.Float64() < 0.1):
			u[j] = rng.Float64()
		case axis.ordered:
			u[j] += step * rng.NormFloat64()
			u[j] = min(max(u[j], 0), below1)
		}
	}
	return u
}

// keepBest is how many of the best candidates a round of improve hands on to the next.
const keepBest = 4

// evaluate computes the expected improvement at the positions in places and returns the best keepBest candidates among
// them and those in before, best first. It leaves out what may not be proposed: configurations that violate a
// constraint, that have been tried, or that another returned candidate has. Positions are moved to those of the values
// that they stand for, in place.
func (m *fittedModel) evaluate(a *asker, places [][]float64, before []*candidate) []*candidate {
	// Without constraints most candidates never need their parameters.
	all := make([]*candidate, 0, len(places))
	rows := make([][]float64, 0, len(places))
	for _, at := range places {
		for j := range at {
			at[j] = a.axes[j].snap(at[j])
		}
		c := &candidate{at: at}
		if len(a.constraints) > 0 {
			c.params = a.config(at)
			if a.findViolated(c.params) != nil {
				continue
			}
		}
		all = append(all, c)
		rows = append(rows, rowOf(a.domain, at))
	}

	mean, std := m.predictAt(rows)
	for i, c := range all {
		c.mean, c.std = mean[i], std[i]
		// Augmented expected improvement (Huang et al. 2006): the improvement is reduced where the noise makes up most
		// of the uncertainty. Otherwise points next to known ones would be proposed again and again.
		c.gain = logImprovement(c.mean-m.top, c.std) + math.Log1p(-math.Sqrt(m.noise/(c.std*c.std+m.noise)))
	}

	all = append(all, before...)
	slices.SortStableFunc(all, func(x, y *candidate) int { return cmp.Compare(y.gain, x.gain) })
	var best []*candidate
	for _, c := range all {
		if len(best) == keepBest {
			break
		}
		if c.params == nil {
			c.params = a.config(c.at)
		}
		if !a.isTried(c.params) &&
			!slices.ContainsFunc(best, func(o *candidate) bool { return keyOf(o.params) == keyOf(c.params) }) {
			best = append(best, c)
		}
	}
	return best
}

// logImprovement returns the logarithm of the expected improvement of a normally distributed value over the best known
// one. mean is the value's mean less the best known value, and std its standard deviation. Far below the best, where
// the improvement itself is too small for a float64, its logarithm still tells candidates apart.
func logImprovement(mean, std float64) float64 {
	g := mean / std
	if g > -5 {
		// The improvement is std x (density(g) + g x the distribution function at g), of the normal distribution.
		density := math.Exp(-g*g/2) / math.Sqrt(2*math.Pi)
		return math.Log(std * (density + g*math.Erfc(-g/math.Sqrt2)/2))
	}

	// The two terms nearly cancel, and little of their precision would remain. The asymptotic series of their sum
	// begins with density(g) / g^2 x (1 - 3/g^2).
	return math.Log(std) - g*g/2 - math.Log(2*math.Pi)/2 - 2*math.Log(-g) + math.Log1p(-3/(g*g))
}
