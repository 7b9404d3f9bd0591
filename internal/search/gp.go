package search

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"coppice/internal/sweep"
)

// Limits on the work for one proposal, which does not grow with the number of trials.
const (
	maxFitted    = 72  // results used to fit length scales
	maxModelled  = 200 // results in the process
	maxFromPast  = 90  // of these, from earlier searches, while there are others
	maxRunning   = 100 // running trials in the process
	maxEvaluated = 3_000
)

// initialDesign is the reason for a point of the Halton sequence, before there is a model.
func initialDesign(point, points int) string {
	if point > points {
		return "another point of the initial design (Halton): the model needs two results"
	}
	return fmt.Sprintf("initial design (Halton), point %d of %d; the model takes over after %[2]d results", point,
		points)
}

// fromGP proposes the point of largest expected improvement of a Gaussian process, once there are enough results to fit
// one.
func (a *asker) fromGP() *Suggestion {
	if short := a.initial() - len(a.history.finished) - len(a.history.failed); short > 0 && a.next < a.initial() ||
		len(a.history.finished)+len(a.history.earlier) < 2 {
		return a.fromHalton(initialDesign(a.next+1, a.initial()))
	}
	m := a.fitModel()
	if len(m.columns) == 0 {
		return nil
	}
	m.setRunning(m.runs(a))

	best := m.improve(a)
	if best == nil {
		return a.fromRandom()
	}
	return suggest(sweep.MethodGP, best.params, "expected improvement %.3g, from a process over %d results and %d "+
		"running: expects %+.2f +- %.2f standard deviations of the results, the best is %+.2f",
		math.Exp(best.gain), len(m.known.rows), len(m.running), best.mean, best.std, m.top)
}

// initial is how many trials of this search precede the model.
func (a *asker) initial() int {
	if len(a.history.earlier) > 0 {
		return 0
	}
	return initialTrials
}

// initialTrials is the number of initial trials without earlier searches: a model of fewer is meaningless.
const initialTrials = 8

// fittedModel is a process with the data it was fitted to.
type fittedModel struct {
	surrogate
	points []point   // of the known rows
	means  []float64 // at the known rows
	ran    []run     // by pending trial; without a row if it has not been looked at
	top    float64   // the best expectation among known and running points
}

// runs returns the running trials that the process sees.
func (m *fittedModel) runs(a *asker) []run {
	pending := a.history.pending
	m.ran = append(m.ran, make([]run, len(pending)-len(m.ran))...)
	var out []run
	for _, i := range spreadLatest(len(pending), maxRunning) {
		if m.ran[i].row == nil {
			m.ran[i] = m.runOf(pending[i], rowOf(a.domain, pending[i].at))
		}
		out = append(out, m.ran[i])
	}
	return out
}

// spreadLatest returns at most limit of the numbers below n, ascending: half of them the last ones, the others spread
// evenly over those before.
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

// fitModel returns the process over what is known; it is shared by the batch.
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

	take := func(indices []int) (k known, points []point) {
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

	some, _ := take(selectInformative(observed, z, maxFitted))
	m.fitScales(some, len(a.axes))
	var k known
	k, m.points = take(selectInformative(observed, z, maxModelled))
	m.condition(k)
	_, m.means = m.solveCovariance(k.rows)
	return m
}

// failureDoubt is the variance of a failed trial's value, relative to the variance of all results.
const failureDoubt = 2

// selectInformative selects the most informative observations if there are too many: this search's before earlier ones,
// the best half first, then evenly through the rest.
func selectInformative(observed []observation, z []float64, most int) []int {
	var own, past []int
	for i, o := range observed {
		if o.age == 0 {
			own = append(own, i)
		} else {
			past = append(past, i)
		}
	}

	fromPast := min(len(past), max(maxFromPast*most/maxModelled, most-len(own)))
	picked := append(bestAndSpread(own, z, most-fromPast), bestAndSpread(past, z, fromPast)...)
	slices.Sort(picked)
	return picked
}

// bestAndSpread selects the best half, and then evenly from the rest.
func bestAndSpread(indices []int, z []float64, most int) []int {
	if len(indices) <= most {
		return indices
	}
	if most <= 0 {
		return nil
	}
	sorted := slices.SortedStableFunc(slices.Values(indices), func(i, j int) int { return cmp.Compare(z[j], z[i]) })
	half := (most + 1) / 2
	out := slices.Clone(sorted[:half])
	rest := sorted[half:]
	for i := range most - half {
		out = append(out, rest[i*len(rest)/(most-half)])
	}
	return out
}

// observations returns the results for the model: this search's, shifted to the level of the earlier ones, and those.
func (h *history) observations() []observation {
	shift := 0.0
	if len(h.earlier) > 0 {
		shift = h.levelShift(h.finished, nil)
	}
	out := make([]observation, 0, len(h.finished)+len(h.earlier))
	for _, o := range h.finished {
		o.score += shift
		out = append(out, o)
	}
	return append(out, h.earlier...)
}

// candidate is a configuration under consideration.
type candidate struct {
	at        []float64
	params    map[string]any
	gain      float64 // logarithm of the expected improvement, less what the noise takes
	mean, std float64
}

// improve looks for the configuration with the largest expected improvement: over the whole space, near the best ones,
// and then ever closer around the best found.
func (m *fittedModel) improve(a *asker) *candidate {
	rng := rand.New(rand.NewPCG(a.Seed, uint64(a.next)))
	points, means := slices.Clone(m.points), slices.Clone(m.means)
	for _, r := range m.running {
		points, means = append(points, r.point), append(means, r.mean)
	}
	n := len(points)
	m.top = slices.Max(means)
	order := upTo(n)
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(means[j], means[i]) })

	budget := min(maxEvaluated, max(300, 12_000_000/((n+40)*(n+40))))
	var from [][]float64
	for _, i := range order[:min(8, n)] {
		from = append(from, points[i].at)
	}

	var places [][]float64
	for range budget / 3 {
		u := make([]float64, len(a.axes))
		for j := range u {
			u[j] = rng.Float64()
		}
		places = append(places, u)
	}
	for i := range budget / 3 {
		places = append(places, a.mutate(rng, from[i%len(from)], []float64{0.05, 0.15}[i/len(from)%2]))
	}
	best := m.evaluate(a, places, nil)

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

// mutate returns a nearby position: all axes move, or only a few.
func (a *asker) mutate(rng *rand.Rand, at []float64, sigma float64) []float64 {
	u := slices.Clone(at)
	few := rng.IntN(2) == 0
	always := rng.IntN(len(u))
	for j := range u {
		if few && j != always && rng.Float64() > 0.2 {
			continue
		}

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
			if u[j] < 0 || u[j] > 1 {
				u[j] = min(max(u[j], 0), below1)
			}
		}
	}
	return u
}

const keepBest = 4

// evaluate returns the best of positions and of the previous best, without those that may not be proposed.
func (m *fittedModel) evaluate(a *asker, places [][]float64, before []*candidate) []*candidate {
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
		// Less what the noise takes (augmented expected improvement: Huang et al. 2006): a point next to known ones
		// looks as if it could improve on them, again and again.
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

// logImprovement is the logarithm of the expected improvement of a normal variable over the best known value, from
// which mean is measured.
func logImprovement(mean, std float64) float64 {
	g := mean / std
	density := math.Exp(-g*g/2) / math.Sqrt(2*math.Pi)
	switch {
	case g > -5:
		return math.Log(std * (density + g*math.Erfc(-g/math.Sqrt2)/2))
	default: // the remainder of the two terms after cancellation
		return math.Log(std) - g*g/2 - math.Log(2*math.Pi)/2 - 2*math.Log(-g) + math.Log1p(-3/(g*g))
	}
}
